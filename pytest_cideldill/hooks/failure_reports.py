"""The autopsy of each failed phase, made with its report: its fixtures are alive, its output read.

Runs on pytest's main thread. It goes with the report, so that a failure can be explained when the
test is over; a pause at the failure shows the same.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final

import pytest

from pytest_cideldill.frames.arguments import raised
from pytest_cideldill.frames.failure import (
    MAX_MESSAGE,
    MAX_OUTPUT,
    RECORDED,
    ExaminedFailure,
    autopsy,
    describe_exception,
)
from pytest_cideldill.frames.frames import notice_secrets_behind
from pytest_cideldill.hooks.assertions import Assertions
from pytest_cideldill.hooks.tracebacks import (
    Raised,
    crash_message,
    passed_users,
    text_of,
    visible_places,
)
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.rendering.exception_text import headline

_MADE_BY_PYTEST: Final = ("_unittest_", "_xunit_")
"""How fixtures are called that run the `setUp` of classes and modules."""


class Autopsies:
    """Makes the autopsy of each failed phase, and those of tests that still run."""

    def __init__(self, lens: Lens, assertions: Assertions) -> None:
        self._lens = lens
        self._assertions = assertions
        # The latest, and whose it is, which must not live longer for that. Not its `id`: the next
        # subtest may get the same one.
        self._latest: tuple[Callable[[], object], dict[str, Any]] = (_nobody, {})
        # The call of the latest report, and what it had raised before others saw it.
        self._raised: tuple[Callable[[], object], Raised | None] = (_nobody, None)
        self._again: Callable[[], object] = _nobody

    def note_raised(self, call: pytest.CallInfo[Any]) -> None:
        """A report is made of a call; plugins may put an exception of theirs into it."""
        self._raised = (weakref.ref(call), call.excinfo)

    def note_again(self, call: pytest.CallInfo[Any]) -> None:
        """A plugin makes the attempt again, and reports that before the report is made."""
        self._again = weakref.ref(call)

    def is_tried_again(self, call: pytest.CallInfo[Any]) -> bool:
        """Whether that is known of it: what is reported of it is a later attempt."""
        return self._again() is call

    def raised_by(self, call: pytest.CallInfo[Any]) -> Raised | None:
        """What a test raised: not what a plugin raised when it reports the test.

        None: nothing, or nobody knows. For `unittest` pytest hands it on when the report is made.
        """
        made, raised = self._raised
        return call.excinfo if made() is not call or raised is None else raised

    def is_without_exception(self, call: pytest.CallInfo[Any]) -> bool:
        """Whether no code of the user's raised anything: a plugin said that it failed."""
        made, raised = self._raised
        if made() is not call or raised is not None:
            return False
        project = self._lens.project
        return call.excinfo is None or not passed_users(
            visible_places(call.excinfo, project), project
        )

    def of_report(
        self, item: pytest.Item, call: pytest.CallInfo[Any], report: pytest.TestReport
    ) -> dict[str, Any]:
        """The autopsy of a failed phase: as `exception_get_context` replies it."""
        excinfo, lens = self.raised_by(call), self._lens
        assert excinfo is not None
        if self._latest[0]() is not call:
            notice_secrets_behind(excinfo.value, lens)
            output = (report.capstdout, report.capstderr, report.caplog)
            if is_of_others(item, report) or excinfo is not call.excinfo:
                made = self._made(item, excinfo, raised(excinfo.value, lens), output)
                made |= {"reported": lens.text(text_of(report), MAX_MESSAGE)}
            else:
                shown = describe_exception(excinfo.value, crash_message(report), lens)
                made = self._made(item, excinfo, shown, output)
            self._latest = (weakref.ref(call), made)
        return self._latest[1]

    def of_running(self, item: pytest.Item, excinfo: Raised) -> dict[str, Any]:
        """The same of a test that is not over yet: no report was made."""
        notice_secrets_behind(excinfo.value, self._lens)
        output = output_so_far(item.config)
        return self._made(item, excinfo, raised(excinfo.value, self._lens), output)

    def _made(
        self,
        item: pytest.Item,
        excinfo: Raised,
        exception: dict[str, str],
        output: tuple[str, str, str],
    ) -> dict[str, Any]:
        lens = self._lens
        places = visible_places(excinfo, lens.project)
        assertion = self._assertions.failed(excinfo, places, exception["message"])
        if assertion is not None:  # it has the rest
            exception = exception | {"message": headline(exception["message"])}
        failure = ExaminedFailure(excinfo.value, exception, places, assertion=assertion)
        made = autopsy(failure, lens, RECORDED)
        return made | self._around(item, output)

    def around(self, item: pytest.Item) -> dict[str, Any]:
        """What an autopsy holds of a test that goes on, beside the exception; on any thread."""
        try:
            return self._around(item, output_so_far(item.config))
        except Exception:  # noqa: BLE001 - it goes on, perhaps on another thread than this
            return {}

    def _around(self, item: pytest.Item, output: tuple[str, str, str]) -> dict[str, Any]:
        texts = dict(zip(("stdout", "stderr", "log"), output, strict=True))
        printed: dict[str, Any] = {
            name: self._lens.end_of(text, MAX_OUTPUT) for name, text in texts.items()
        }
        if vars(item.config.option).get("capture") == "no":  # nobody knows what was printed
            printed |= {name: printed[name] or None for name in ("stdout", "stderr")}
        return _surroundings(item, self._lens) | printed

    def forget(self) -> None:
        """A test begins or ends."""
        self._latest, self._raised, self._again = (_nobody, {}), (_nobody, None), _nobody
        self._assertions.forget()


def is_of_others(item: pytest.Item, report: pytest.TestReport) -> bool:
    """Whether the text of a report is not what pytest makes of an exception in a function."""
    return isinstance(item, pytest.Function) and isinstance(report.longrepr, str)


def _nobody() -> None:
    return None


def _surroundings(item: pytest.Item, lens: Lens) -> dict[str, Any]:
    """What the test was given: its parameters and the fixtures that are alive."""
    callspec = getattr(item, "callspec", None)
    definitions = dict(getattr(getattr(item, "_request", None), "_fixture_defs", {}))
    parameters = getattr(callspec, "params", {})
    is_meant = _by_users(item, definitions, lens)
    fixtures = [
        {"name": name, "scope": str(definition.scope), "value": lens.show(cached[0], name)}
        for name, definition in definitions.items()
        if (cached := definition.cached_result) is not None and cached[2] is None
        if not name.startswith(_MADE_BY_PYTEST) and not _is_parameter(definition)
        if not _is_of_a_plugin(definition, lens) or is_meant(name)
    ]
    return {
        "parameters": {name: lens.show(value, name) for name, value in parameters.items()},
        "fixtures": fixtures,
    }


def _by_users(item: pytest.Item, definitions: dict[str, Any], lens: Lens) -> Callable[[str], bool]:
    """Whether the test, or a fixture of the user's, names a fixture, or asked for it as it ran.

    The others are there for plugins: used by all tests, or by another fixture of theirs.
    """
    info = getattr(item, "_fixtureinfo", None)
    named = {*getattr(info, "argnames", ())}
    named |= {name for mark in item.iter_markers("usefixtures") for name in mark.args}
    theirs = {*getattr(info, "names_closure", ())}
    for definition in definitions.values():
        arguments = getattr(definition, "argnames", ())
        (theirs if _is_of_a_plugin(definition, lens) else named).update(arguments)
    return lambda name: name in named or name not in theirs


def _is_of_a_plugin(definition: Any, lens: Lens) -> bool:
    """Whether a fixture is not the user's."""
    func = definition.func
    return type(func) is FunctionType and not lens.project.is_user(func.__code__.co_filename)


def _is_parameter(definition: Any) -> bool:
    """Whether pytest made a fixture of a parameter, which is shown as such."""
    made_by = getattr(definition.func, "__name__", "")
    return str(made_by) == "get_direct_param_fixture_func"


_MOST = 100_000
"""Bytes from the end that are looked at."""


def output_so_far(config: pytest.Config) -> tuple[str, str, str]:
    """stdout, stderr and log of the phase under way, which pytest's own report keeps.

    Reads pytest's capture where it is: a temporary file at a position of our own, or a buffer.
    These are private parts of pytest; what can't be found is empty.
    """
    manager: Any = config.pluginmanager.getplugin("capturemanager")
    fixture = getattr(manager, "_capture_fixture", None)
    capture = getattr(fixture, "_capture", None) or getattr(manager, "_global_capturing", None)
    active = getattr(capture, "__dict__", {})
    logging: Any = config.pluginmanager.getplugin("logging-plugin")
    stream = getattr(getattr(logging, "report_handler", None), "stream", None)
    log = "" if stream is None else stream.getvalue()
    return _peek(active.get("out")), _peek(active.get("err")), log


def _peek(capture: Any) -> str:
    file = getattr(capture, "tmpfile", None)
    if file is None:
        return ""
    if hasattr(file, "getvalue"):
        text = file.getvalue()
        return text if isinstance(text, str) else text.decode("utf-8", "replace")
    descriptor = file.fileno()
    size = os.fstat(descriptor).st_size
    # Not read and sought: the position belongs to pytest.
    data = os.pread(descriptor, _MOST, max(0, size - _MOST)) if hasattr(os, "pread") else b""
    return data.decode("utf-8", "replace")
