"""Sends what pytest reports: starts, phases that did not just pass, the verdict.

Hooks on pytest's main thread; under xdist in the workers, which own their tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from weakref import ref

import pytest

from pytest_cideldill.frames.failure import Place
from pytest_cideldill.frames.frames import module_of
from pytest_cideldill.hooks.failure_places import place_in_code, place_in_report, place_of_test
from pytest_cideldill.hooks.failure_reports import Autopsies
from pytest_cideldill.hooks.guest import guest
from pytest_cideldill.hooks.host import Host
from pytest_cideldill.hooks.stack_file import StackFile
from pytest_cideldill.hooks.tracebacks import Raised, text_of, visible_places
from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.borders import add_to, at_fork, because, note, passes
from pytest_cideldill.interpreter.code_files import frame_file
from pytest_cideldill.protocol import (
    OUTCOMES,
    NodeFinished,
    NodeStarted,
    PhaseReported,
    is_made_again,
)
from pytest_cideldill.protocol.current_test_file import PositionFile
from pytest_cideldill.rendering.display import Lens

JUST_PASSED = frozenset({"", "passed", "subtests passed"})
"""Categories of which only the number is sent, where the report's outcome is `passed`."""

_NOTHING: Mapping[str, Any] = {}

_APART = (
    "tests ran in forked children, which are not debugged: nothing pauses or is hit there "
    "(pytest-forked; they are debugged without --forked)"
)

WITHOUT_EXCEPTION = "reported as failed without an exception, by a plugin or a conftest"
"""There is nothing to pause at, and nothing to look into."""

MAX_LONGREPR = 20_000
MAX_SECTION = 5_000
"""Characters kept of a report's text and of each captured stream."""


class Reporting:
    """Sends the starts of tests, the phases that did not just pass, and the verdict.

    Args:
        config: Its hooks give the category of a report.
        host: Its position is kept up to date here; its pauses are subtracted from durations.
        position: The file that survives a crash.
        stacks: The file for stacks; yields its signal to the tests.
    """

    def __init__(
        self,
        config: pytest.Config,
        host: Host,
        position: PositionFile | None,
        stacks: StackFile,
        autopsies: Autopsies,
    ) -> None:
        self._config = config
        self.host = host
        self._position = position
        self._stacks = stacks
        self._autopsies = autopsies
        self._duration_s = 0.0
        self._plain: Counter[str] = Counter()
        # Class and phase of reports that passed → their category.
        self._of_passed: dict[tuple[type, str | None], str] = {}
        # Phase and category of what failed, whether it can be sent or not; what had failed before.
        self._failed: list[list[str]] = []
        self._sent: list[list[str]] = []  # of each report that was sent
        self._failed_before = 0
        # Whether the attempt failed and the next one has not begun; how many have.
        self._again = False
        self._set_up = 0
        # Since the test began: whether this process forked, and whether a phase ran in it.
        self._has_forked = self._is_here = False
        at_fork(after_in_parent=self._note_fork)
        # Whether pytest was given a report that makes an outcome.
        self._has_outcome = False
        # Whose report was made last, until it is noted why it failed.
        self._reported: tuple[pytest.Item, pytest.CallInfo[None]] | None = None
        # Of which call the hook that makes reports was called last.
        self._made_of: Callable[[], object] = lambda: None
        # Phase → what only the exception shows; until the report is logged.
        self._failure: dict[str, dict[str, Any]] = {}

    @guest
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins."""
        self._begin_anew()
        nodeid = self.host.lens.nodeids.shown(nodeid)
        self._note_position(nodeid, "setup")
        self.host.started(NodeStarted(nodeid, clock.wall()))
        self._autopsies.forget()

    @pytest.hookimpl(tryfirst=True)
    @guest
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Now it is known which attempt of the test this is; other plugins may rerun it as well."""
        position = self.host.position
        self._set_up += 1
        position.attempt = attempt_of(item, self._set_up)
        position.around = partial(self._autopsies.around, item)
        self._again, self._is_here = False, True
        self._enter(self._shown(item), "setup")

    @pytest.hookimpl(tryfirst=True)
    @guest
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Fixtures may have imported what breakpoints mean."""
        self._enter(self._shown(item), "call")

    @pytest.hookimpl(tryfirst=True)
    @guest
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """The last phase."""
        self._enter(self._shown(item), "teardown")

    @pytest.hookimpl(tryfirst=True)
    @guest
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Take our pauses out of the duration; remember whose report this will be.

        No wrapper, which would see the report: of those that pass there may be very many. Not yet
        what was raised: for `unittest` another hook gets the call.
        """
        self._reported, self._is_here = (item, call), True
        self._made_of = ref(call)
        self._autopsies.note_raised(call)
        call.duration -= self.host.pauses.within(call.duration)

    @pytest.hookimpl(tryfirst=True)
    @guest
    def pytest_exception_interact(self, node: object, call: Any, report: object) -> None:
        """Plugins that try tests again log reports later, when what raised is gone."""
        if (
            isinstance(report, pytest.TestReport)
            and isinstance(node, pytest.Item)
            and not self._autopsies.is_tried_again(call)
        ):
            if self._made_of() is not call:  # pytest-retry makes reports without that hook
                self._reported = node, call
            self._note_failure(report)

    @guest
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a phase that did not just pass; count the others, which may be very many."""
        self._duration_s += report.duration
        category = self._category(report)
        self._has_outcome = self._has_outcome or bool(category)
        if report.outcome == "passed" and category in JUST_PASSED:
            self._plain[category] += 1
            return
        phase = report.when or "call"
        self._sent.append([phase, category, report.outcome])
        if report.failed:
            self._failed.append([phase, category])
        if is_made_again(category, report.outcome, self.host.position.attempt):
            self._again = True
            if self._reported is not None:  # pytest-retry: before its report is made
                self._autopsies.note_again(self._reported[1])
        make = partial(self._phase, report, category)
        self.host.link.send(event_of_phase(report, category, make, self.host.lens))

    def _shown(self, item: pytest.Item) -> str:
        return self.host.lens.nodeids.shown(item.nodeid)

    def _category(self, report: pytest.TestReport) -> str:
        """The category of a report; cached if it passed, as hooks are called for subtests."""
        if report.outcome != "passed" or hasattr(report, "wasxfail"):
            return category_of(report, self._config)
        kind = type(report), report.when
        known = self._of_passed.get(kind)
        if known is None:
            known = self._of_passed[kind] = category_of(report, self._config)
        return known

    def _phase(self, report: pytest.TestReport, category: str) -> PhaseReported:
        self._note_failure(report)
        noted = self._failure.pop(report.when or "", {})
        if (attempt := self.host.position.attempt) is not None:
            noted = {"attempt": attempt, **noted}
        return phase_reported(report, category, self.host.lens, noted)

    @guest
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """A test ended."""
        plain = {category: count for category, count in self._plain.items() if category}
        unreported = self._failed_in_all() - self._failed_before - len(self._failed)
        failed = self._failed + [["call", "failed"]] * unreported or None
        position = self.host.position
        # flaky keeps the reports of an attempt that failed to itself.
        is_kept = position.attempt is not None and not self._has_outcome
        apart = self._has_forked and not self._is_here
        again = self._again or is_kept
        nodeid = self.host.lens.nodeids.shown(nodeid)
        ended = NodeFinished(nodeid, self._duration_s, plain, again, failed, apart)
        self.host.ended(ended, self._sent)
        if apart:
            self.host.warn(_APART)
        self._begin_anew()  # also for a test whose beginning we fail to note
        self._reported = None
        self._autopsies.forget()
        position.attempt, position.around = None, dict
        self._enter(None, None)

    def _begin_anew(self) -> None:
        self._duration_s = 0.0
        self._plain.clear()
        self._failed, self._failed_before = [], self._failed_in_all()
        self._sent = []
        self._failure.clear()
        self._again = self._has_outcome = False
        self._has_forked = self._is_here = False
        self._set_up = 0

    def _note_fork(self) -> None:
        self._has_forked = True

    def _failed_in_all(self) -> int:
        """How many failures pytest has counted: none of them may read as passed."""
        session: Any = self._config.pluginmanager.get_plugin("session")
        return getattr(session, "testsfailed", 0)

    @guest
    def _enter(self, nodeid: str | None, when: str | None) -> None:
        self.host.enter(is_over=nodeid is None)
        position = self.host.position
        if position.nodeid != nodeid or position.when != when:
            self._note_position(nodeid, when)
        self._stacks.look()

    @guest
    def _note_position(self, nodeid: str | None, when: str | None) -> None:
        position = self.host.position
        position.nodeid, position.when = nodeid, when
        if self._position is not None:
            self._position.write(when or "", nodeid or "")

    def _note_failure(self, report: pytest.TestReport) -> None:
        """Note what was raised, if that is why it failed; it is not kept any longer."""
        reported, self._reported = self._reported, None
        if reported is None or report.passed or report.skipped:
            return
        item, call = reported
        if call.when != report.when:
            return
        noted = self._failure[report.when or ""] = {}
        if self._autopsies.is_without_exception(call):
            note(noted, WITHOUT_EXCEPTION)
        excinfo = self._autopsies.raised_by(call)
        if excinfo is not None:
            autopsy = partial(self._autopsy, item, call, report)
            add_to(noted, autopsy, partial(self._place, excinfo, report))

    def _autopsy(
        self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
    ) -> dict[str, Any]:
        made = self._autopsies.of_report(item, call, report)
        exception = {name: made["exception"][name] for name in ("type", "message")}
        return {"exception": exception, "autopsy": made}

    def _place(self, excinfo: Raised, report: pytest.TestReport) -> dict[str, Any]:
        lens = self.host.lens
        places = visible_places(excinfo, lens.project)
        self._warn_of(places)
        place = place_in_code(places, lens)
        if place is not None:
            return {"location": place, "passed_code": True}
        return {"location": place_of_test(report, lens, excinfo.value), "passed_code": False}

    def _warn_of(self, places: list[Place]) -> None:
        """Say of code that somebody may take for the user's why it is not."""
        project = self.host.lens.project
        for frame, _ in places:
            file, module = frame_file(frame), module_of(frame)
            if project.is_user(file):
                continue
            if (hint := project.beside(file)) is not None:
                self.host.warn(f"a failure passed code {hint}")
            elif (source := project.source_of(module, file)) is not None:
                self.host.warn(
                    f"{module} came from {project.relative(file)}: edits of {source} have no effect"
                )


def attempt_of(item: pytest.Item, set_up: int) -> int | None:
    """Which attempt this is, from 1 on, where a plugin may make others; None: none does.

    Args:
        set_up: How often it was set up since pytest announced that it begins.
    """
    held = vars(item)
    count = held.get("execution_count")  # pytest-rerunfailures
    if isinstance(count, int):
        return count
    if isinstance(done := held.get("_flaky_current_runs"), int):  # flaky
        return done + 1
    retries = item.config.pluginmanager.has_plugin("pytest-retry")
    return set_up if retries and item.get_closest_marker("flaky") is not None else None


def subtest_of(report: pytest.TestReport, lens: Lens) -> str | None:
    """The name of a subtest within its test, as `[message] (n=1)`; None: it is none."""
    context = getattr(report, "context", None)
    message, values = (getattr(context, name, None) for name in ("msg", "kwargs"))
    parts = [] if message is None else [f"[{message}]"]
    if isinstance(values, Mapping) and values:
        # pytest's own are texts already.
        texts = {
            name: value
            if isinstance(value, str) and not lens.is_sensitive(name)
            else lens.show(value, name)
            for name, value in values.items()
        }
        parts.append(f"({', '.join(f'{name}={text}' for name, text in texts.items())})")
    return lens.text(" ".join(parts)) if parts else None


def category_of(report: pytest.TestReport, config: pytest.Config) -> str:
    """By what pytest's terminal counts a report; empty: not at all.

    What pytest itself knows is not asked for: plugins that draw another terminal answer what they
    need for that.
    """
    if type(report) is pytest.TestReport and report.outcome in OUTCOMES:
        if hasattr(report, "wasxfail") and not report.failed:
            return "xfailed" if report.skipped else "xpassed"
        if report.passed:
            return "passed" if report.when == "call" else ""
        is_error = report.failed and report.when in ("setup", "teardown")
        return "error" if is_error else report.outcome
    try:  # of a subtest, or of an attempt that is made again
        status = config.hook.pytest_report_teststatus(report=report, config=config)
    except Exception as error:
        if passes(error):
            raise
        status = None
    return status[0] if status else report.outcome


def event_of_phase(
    report: pytest.TestReport, category: str, make: Callable[[], PhaseReported], lens: Lens
) -> PhaseReported:
    """The event of a report; where it can't be made, one that says so: a failure stays one."""
    try:
        return make()
    except Exception as error:
        if passes(error):
            raise
        phase, duration_s = report.when or "call", report.duration
        nodeid = lens.nodeids.of_report(report)
        bare = (nodeid, phase, category, report.outcome, duration_s)
        return PhaseReported(*bare, incomplete=because(error))


def phase_reported(
    report: pytest.TestReport, category: str, lens: Lens, noted: Mapping[str, Any] = _NOTHING
) -> PhaseReported:
    """The event of one report; a failure that no code raised has the place of its test.

    What can't be made is left out, which the event says: a failure must not get lost.

    Args:
        category: Of it; see `category_of`.
        noted: Fields of the event that are known already.
    """
    made: dict[str, Any] = {"passed_code": False, **noted}
    add_to(
        made,
        lambda: {} if "location" in noted or not report.failed else _place(report, lens),
        lambda: {"longrepr": lens.end_of_report(_text_of(report), MAX_LONGREPR) or None},
        lambda: {"stdout": lens.end_of(report.capstdout, MAX_SECTION)},
        lambda: {"stderr": lens.end_of(report.capstderr, MAX_SECTION)},
        lambda: {"log": lens.end_of(report.caplog, MAX_SECTION)},
        lambda: {"attempt": noted.get("attempt") or _attempt_of(report)},
        lambda: {"subtest": subtest_of(report, lens)},
    )
    phase, duration_s = report.when or "call", report.duration
    nodeid = lens.nodeids.of_report(report)
    return PhaseReported(nodeid, phase, category, report.outcome, duration_s, **made)


def _place(report: pytest.TestReport, lens: Lens) -> dict[str, Any]:
    """Of a failure of which nobody here knows the exception."""
    place = place_in_report(report, lens)
    if place is not None:
        return {"location": place, "passed_code": True}
    return {"location": place_of_test(report, lens)}


def _text_of(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):  # a skip: (file, line, reason)
        return str(report.longrepr[2])
    return text_of(report)


def _attempt_of(report: pytest.TestReport) -> int | None:
    before = getattr(report, "rerun", None)  # pytest-rerunfailures: attempts before this one
    return before + 1 if isinstance(before, int) else None
