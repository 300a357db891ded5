"""Records what a question asks for, in a pytest process that runs for nothing else.

The process is nobody's run: it writes rows into a file and connects to no front end, uses no
workers, and leaves what other runs of the project leave to those: reports, coverage, the cache.
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_cideldill.calltraces.feed import Feed
from pytest_cideldill.calltraces.libraries import Libraries
from pytest_cideldill.calltraces.recorder import CallRecorder
from pytest_cideldill.calltraces.row_file import RowFile
from pytest_cideldill.calltraces.unmatched import reason
from pytest_cideldill.calltraces.user_code import CodeTable
from pytest_cideldill.calltraces.value_texts import Values
from pytest_cideldill.config.settings import read as read_settings
from pytest_cideldill.errors import ErrorCode
from pytest_cideldill.hooks.assertions import rewriting
from pytest_cideldill.hooks.failure_places import place_in_report
from pytest_cideldill.hooks.guest import clean_up, guest, say
from pytest_cideldill.hooks.host import Host
from pytest_cideldill.hooks.interactive_options import Unattended
from pytest_cideldill.hooks.reports import subtest_of
from pytest_cideldill.hooks.secrets import Redaction, make_redactor
from pytest_cideldill.hooks.selection import Wanted
from pytest_cideldill.hooks.starts import StartWatch
from pytest_cideldill.interpreter import patched_texts
from pytest_cideldill.interpreter.borders import at_fork, passes, text_of
from pytest_cideldill.link.handshake import HASH_SEED, Invitation
from pytest_cideldill.link.inline import FileLink
from pytest_cideldill.project import Project
from pytest_cideldill.protocol import Configure
from pytest_cideldill.protocol.trace_rows import TraceRequest
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.rendering.exception_text import headline
from pytest_cideldill.rendering.source_text import Texts
from pytest_cideldill.sourcecode.names import parse_function_name
from pytest_cideldill.tracing.interface import SourceUnavailable

if TYPE_CHECKING:
    from pytest_cideldill.hooks.experiment import Experiment
    from pytest_cideldill.watching.feed import WatchFeed
    from pytest_cideldill.watching.recorder import WatchRecorder

_SWITCHED_OFF: Final[dict[str, object]] = {
    "no_cov": True,  # pytest-cov
    "numprocesses": None,  # xdist
    "dist": "no",
    "tx": [],
    "xmlpath": None,
    "log_file": os.devnull,
    "basetemp": None,  # a folder that pytest empties first
    "pastebin": None,
    "cacheclear": False,
    "report_log": None,  # pytest-reportlog
    "htmlpath": None,
    "json_report": False,
    "reruns": None,  # pytest-rerunfailures
    "count": 1,  # pytest-repeat
    "maxfail": 0,
}
"""Options of pytest and of plugins → the value that a question's process has."""

_OF_WORKERS: Final = ("numprocesses", "dist", "tx")

_REMEMBER: Final = ("lfplugin", "nfplugin", "stepwiseplugin")
"""Plugins of pytest that write which tests failed, and choose by it."""

_MESSAGE: Final = 500
_MOST_NAMES: Final = 1_000

_LINGER_S: Final = 2
"""Seconds that a fork may live after it left pytest."""


def ask(config: pytest.Config, text: str, variable: str) -> None:
    """Record in this process, or in its workers if these are wanted.

    Args:
        text: The request, as JSON.
        variable: The environment variable through which workers get it.

    Raises:
        pytest.UsageError: Nothing can be recorded here.
    """
    plain = json.loads(text)
    if plain.get("hash_seed") is not None:  # Python has read it; tests see what they see without us
        os.environ.pop(HASH_SEED, None)
    request = TraceRequest(**plain)
    rows = RowFile(request.file)
    if request.workers:
        config.pluginmanager.register(_Spread(text, variable), "cideldill-spread")
    _switch_off(config.known_args_namespace, request)
    rows.add(["process", platform.python_version(), str(config.rootpath)])
    try:
        question = QuestionPlugin(config, request, rows)
    except (SourceUnavailable, ValueError) as error:
        rows.add(["refused", str(ErrorCode.INVALID_PARAMETER), str(error)])
        rows.close()
        raise pytest.UsageError(str(error)) from error
    for plugin in (Unattended(question.host), question.wanted, question.redaction, question):
        name = type(plugin).__name__.lower()
        config.pluginmanager.register(plugin, f"cideldill-question-{name}")
    if question.experiment is not None:
        config.pluginmanager.register(question.experiment, "cideldill-experiment")
    if request.failure:
        from pytest_cideldill.hooks.failure_rows import FailureRows

        failures = FailureRows(question.lens, question.host, rows)
        config.pluginmanager.register(failures.assertions, "cideldill-assertions")
        config.pluginmanager.register(failures, "cideldill-failures")
    if request.forks:
        from pytest_cideldill.hooks.forks import Forks

        forks = Forks(request, rows, question.host, question.change)
        config.pluginmanager.register(forks, "cideldill-forks")
    clean_up(config, "the end of the question", question.close)
    if request.record:
        _record(config, request, variable)


def _record(config: pytest.Config, request: TraceRequest, variable: str) -> None:
    """Record this process like a run, besides what a question leaves.

    Raises:
        pytest.UsageError: The folder can't be made, or what is declared is malformed.
    """
    from pytest_cideldill.hooks.start import switch_on

    key = request.key or secrets.token_hex(32)
    invitation = Invitation(None, key, "q", None, record=request.record)
    try:
        switch_on(config, invitation, variable)
    except (OSError, ValueError) as error:
        raise pytest.UsageError(f"the test can't be recorded: {error}") from error


def _switch_off(options: Any, request: TraceRequest) -> None:
    for name, value in _SWITCHED_OFF.items():
        if hasattr(options, name) and not (request.workers and name in _OF_WORKERS):
            setattr(options, name, value)
    for name, value in (("keyword", request.keyword), ("markexpr", request.markers)):
        if value is not None:
            setattr(options, name, value)


class QuestionPlugin:
    """Records the tests of one process.

    Attributes:
        wanted: Chooses the tests.
        redaction: Asks hooks of the user for secrets.
        experiment: Changes what the tests do; None: nothing is changed.

    Raises:
        SourceUnavailable: There can be no events here.
        ValueError: The name of the function is none, or an option is malformed.
    """

    def __init__(self, config: pytest.Config, request: TraceRequest, rows: RowFile) -> None:
        self._request, self._rows = request, rows
        # Without values of the program a phase is short: what takes time once in it would show.
        is_light = request.starts or (request.ran and not _has_calls(request))
        self._has_values = not is_light
        settings = read_settings(config)
        key = request.key or secrets.token_hex(32)
        configure = Configure("never", 1.0, tag_key=key, no_redact=request.no_redact)
        redactor = make_redactor(settings, configure)
        project = Project(str(config.rootpath), settings.user_paths)
        self.lens = Lens(project, redactor, settings.limits, Texts(rewriting(config)))
        self.host = host = _QuestionHost(self.lens, rows)
        self.wanted = Wanted(request.nodeids or None, host)
        self.redaction = Redaction(config, host, redactor, settings)
        self._redactor = redactor
        self._is_over = self._is_fork = False
        self.experiment = _experiment(request, rows, host)
        recording = (StartWatch if is_light else _Recording)(request, rows, self.lens)
        self._recording = recording
        starts = recording if isinstance(recording, StartWatch) else recording.starts
        if starts is not None:
            starts.host = host
            config.pluginmanager.register(starts, "cideldill-starts")

    def change(self, config: pytest.Config, request: TraceRequest) -> None:
        """In a fork, after the collection: change what the tests do.

        Raises:
            SourceUnavailable, ValueError: As `Experiment`.
        """
        self._is_fork = True
        self.experiment = _experiment(request, self._rows, self.host)
        if self.experiment is not None:
            config.pluginmanager.register(self.experiment, "cideldill-experiment")

    # --- the run ----------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    @guest
    def pytest_cmdline_main(self, config: pytest.Config) -> Iterator[None]:
        """All arguments are parsed; xdist and others begin in this very hook."""
        _switch_off(config.option, self._request)
        yield

    @pytest.hookimpl(trylast=True)
    @guest
    def pytest_configure(self, config: pytest.Config) -> None:
        for name in _REMEMBER:
            plugin = config.pluginmanager.get_plugin(name)
            if plugin is not None:
                config.pluginmanager.unregister(plugin)

    @pytest.hookimpl(trylast=True)
    @guest
    def pytest_collection_finish(self) -> None:
        self._redactor.look_again()
        if self.wanted.missing:
            self._rows.add(["missing", self.wanted.missing, self.wanted.beside])
        if self._request.neighbours:
            others = list(map(self.lens.nodeids.shown, self.wanted.others))
            self._rows.add(["neighbours", others])
        self._rows.flush()

    @pytest.hookimpl(trylast=True)
    @guest
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            text = self.lens.text(report.longreprtext, 2_000)
            self._rows.add(["uncollected", self.lens.nodeids.shown(report.nodeid), text])

    # --- a test -----------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    @guest
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._redactor.look_again()
        self._rows.add(["test", self.lens.nodeids.shown(item.nodeid)])
        self._rows.flush()
        self._recording.begin_test(item)
        yield
        self._recording.end_test()

    @pytest.hookimpl(wrapper=True, trylast=True)
    @guest
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        self._recording.begin_setup(getattr(item, "module", None))
        yield from self._phase("setup")

    @pytest.hookimpl(wrapper=True, trylast=True)
    @guest
    def pytest_runtest_call(self) -> Iterator[None]:
        yield from self._phase("call")

    @pytest.hookimpl(wrapper=True, trylast=True)
    @guest
    def pytest_runtest_teardown(self) -> Iterator[None]:
        yield from self._phase("teardown")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    @guest
    def pytest_runtest_makereport(self, call: pytest.CallInfo[Any]) -> Iterator[None]:
        yield
        # unittest's failures are here only now
        self._recording.end_phase(None if call.excinfo is None else call.excinfo.value)

    @pytest.hookimpl(trylast=True)
    @guest
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if hasattr(report, "node"):  # of a worker of xdist, which leaves it itself
            return
        text = file = line = None
        outcome: str = report.outcome
        if hasattr(report, "wasxfail") and not report.failed:
            outcome = "xfailed" if report.skipped else "xpassed"
        if outcome != "passed":
            self._redactor.look_again()
            text = _headline(self.lens.text(reason_of(report), _MESSAGE))
            if part := subtest_of(report, self.lens):
                text = f"{part} {text}"
        if report.failed and (place := place_in_report(report, self.lens)) is not None:
            file, line = place["file"], place["line"]
        self._rows.add(["outcome", report.when, outcome, text, file, line])
        if self._has_values:
            self._rows.flush()

    def _phase(self, name: str) -> Iterator[None]:
        if self._has_values:
            self._redactor.look_again()
        self._rows.add(["phase", name])
        if self.experiment is not None:
            self.experiment.enter()
        self._recording.go_on()
        yield
        self._recording.pause()

    def close(self) -> None:
        """pytest is over."""
        if not self._is_over:
            self._is_over = True
            self._recording.close()
            if self.experiment is not None:
                self.experiment.close()
            if (files := patched_texts.loaded()) or patched_texts.missing():
                self._rows.add(["patched", files])
            self._rows.add(["end"])
            self._rows.close()
            if self._rows.failure is not None:  # the file can't say so
                say(f"pytest-cideldill: not all was recorded: {self._rows.failure}")
            if self._is_fork:  # nobody else sees that it lingers: its threads may never end
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(_LINGER_S)


def _headline(reason: str) -> str:
    """The first line; where the message begins with an empty one, the type and the next one."""
    first, _, rest = reason.partition("\n")
    return f"{first}{headline(rest)}".strip() if first.endswith(": ") else first


def reason_of(report: pytest.TestReport) -> str:
    """Why a test failed or was skipped."""
    if hasattr(report, "wasxfail") and not report.failed:
        return str(report.wasxfail)
    if type(report.longrepr) is tuple:  # file, line, reason of a skip
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    shown = getattr(getattr(report.longrepr, "reprcrash", None), "message", None)
    return str(shown or _of_doctest(report.longreprtext) or report.longreprtext)


def _of_doctest(text: str) -> str:
    """`expected 4, got 3` of a doctest's failure; empty of anything else."""
    _, expects, rest = text.partition("\nExpected:\n")
    wanted, gets, got = rest.partition("\nGot:\n")
    if not (expects and gets):
        return ""
    got = "\n".join(takewhile(lambda line: line.startswith(" "), got.split("\n")))
    return f"expected {' '.join(wanted.split())}, got {' '.join(got.split())}"


class _Spread:
    """Hands the request on to workers of xdist; the one that runs a test records it."""

    def __init__(self, text: str, variable: str) -> None:
        self._text = text
        self._variable = variable

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self, specs: list[Any]) -> None:
        for spec in specs:
            spec.env[self._variable] = self._text


class _QuestionHost(Host):
    """The process, for hooks that know others; what they warn of is a row."""

    def __init__(self, lens: Lens, rows: RowFile) -> None:
        self.lens = lens
        self.link = FileLink(())  # to nobody
        self._rows = rows

    def warn(self, message: str) -> None:
        self._rows.add(["warning", message])


class _Recording:
    """The recorder, with its source of events.

    Raises:
        SourceUnavailable, ValueError: As `QuestionPlugin`.
    """

    def __init__(self, request: TraceRequest, rows: RowFile, lens: Lens) -> None:
        self._request, self._rows, self._lens = request, rows, lens
        name = None if request.function is None else parse_function_name(request.function)
        self._values = Values(lens)
        self._table = CodeTable(lens, name, has_parts=request.watch is not None)
        self._failed = False
        self.starts: StartWatch | None = None
        self._recorder: CallRecorder | WatchRecorder
        self._feed: Feed | WatchFeed | None = None
        if request.watch is not None:
            from pytest_cideldill.watching.feed import watching

            self._recorder, self._feed = watching(
                request, rows, self._table, self._values, self._fail
            )
        else:
            self._recorder = recorder = CallRecorder(request, rows, self._table, self._values)
            if request.ran:
                self.starts = StartWatch(request, rows, lens, self._table)
            if _has_calls(request):
                noted = None if self.starts is None else self.starts.starts
                libraries = Libraries(lens.project)
                self._feed = _feed()(recorder, self._table, libraries, self._fail, noted)
                recorder.source = self._feed
                if noted is not None:
                    noted.feed = self._feed
        if self._feed is not None:
            at_fork(after_in_child=self._feed.abandon)

    def begin_setup(self, module: object) -> None:
        """The setup of a test begins; `module`: the one that it is in, if any."""
        if not isinstance(self._recorder, CallRecorder) and not self._failed:
            self._values.renew()
            self._recorder.begin_test(module)

    def begin_test(self, item: pytest.Item) -> None:
        """A test begins."""
        if self.starts is not None:
            self.starts.begin_test(item)
        recorder = self._recorder
        if isinstance(recorder, CallRecorder) and recorder.caught is not None:
            recorder.caught.begin_test(getattr(item, "function", None))

    def end_phase(self, failure: BaseException | None) -> None:
        """A phase is over, perhaps with an exception."""
        if self.starts is not None:
            self.starts.end_phase(failure)
        if isinstance(self._recorder, CallRecorder):
            self._recorder.end_phase(failure)

    def go_on(self) -> None:
        """A phase of a test begins."""
        self._values.renew()
        if self.starts is not None:
            self.starts.go_on()
        if self._feed is not None and not self._failed:
            self._feed.start()

    def pause(self) -> None:
        """It is over: what pytest does in between is not of the test."""
        if self._feed is not None:
            self._feed.stop()
        if self.starts is not None:
            self.starts.pause()

    def end_test(self) -> None:
        if self.starts is not None:
            self.starts.end_test()
        self._recorder.end_test()
        self._rows.flush()

    def close(self) -> None:
        if self._feed is not None:
            self._feed.close()
        function = self._request.function
        if function is not None and not self._recorder.choice.was_called:
            if why := reason(parse_function_name(function), self._lens.project):
                self._rows.add(["refused", str(ErrorCode.INVALID_PARAMETER), why])
            self._rows.add(["unmatched", self._table.similar()[:_MOST_NAMES]])
        for text, number in self._recorder.choice.failed_conditions.items():
            self._rows.add(["reached", "when", f"`when` raised {text} at {number} calls"])

    def _fail(self, error: BaseException) -> bool:
        """Whether an exception is the program's; else it is a failure of ours, and the end."""
        if passes(error):
            return True
        if not self._failed:
            self._failed = True
            if self._feed is not None:
                self._feed.abandon()
            self._rows.add(["reached", "failure", f"pytest-cideldill failed: {text_of(error)}"])
        return False


def _experiment(request: TraceRequest, rows: RowFile, host: Host) -> Experiment | None:
    """What changes the tests; half of our modules are imported for it."""
    if not (request.changes or request.evaluate) or request.forks:
        return None
    from pytest_cideldill.hooks.experiment import Experiment

    if sys.version_info < (3, 12) and (request.tree or request.function is not None):
        request = _without_lines(request)
    return Experiment(request, rows, host)


def _has_calls(request: TraceRequest) -> bool:
    """Whether calls are recorded, or a value is watched."""
    return request.tree or request.function is not None or request.watch is not None


def _without_lines(request: TraceRequest) -> TraceRequest:
    """The request without changes for which lines are traced: `sys.settrace` has room for one.

    So it is not known whether the lines of a patch are reached.

    Raises:
        ValueError: There are other changes than patches.
    """
    if any(change["kind"] != "patch" for change in request.changes):
        raise ValueError(
            "on Python 3.11 nothing is changed by force while calls are recorded: give a patch, "
            "or use Python 3.12 or later"
        )
    return replace(request, changes=[change | {"value": []} for change in request.changes])


def _feed() -> type[Feed]:
    """The class that feeds a recorder on this Python version."""
    if sys.version_info >= (3, 12):
        from pytest_cideldill.calltraces.sysmon import MonitoringFeed

        return MonitoringFeed
    from pytest_cideldill.calltraces.settrace import TracingFeed

    return TracingFeed
