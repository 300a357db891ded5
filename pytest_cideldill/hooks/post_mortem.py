"""The pause of a failing test: after its report, before its fixtures are torn down.

`pytest_exception_interact` on the main thread; the report is out already, so nothing that happens
here can change the outcome.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

from pytest_cideldill.hooks.failure_places import place_of_test
from pytest_cideldill.hooks.failure_reports import Autopsies
from pytest_cideldill.hooks.guest import guest
from pytest_cideldill.hooks.reports import subtest_of
from pytest_cideldill.hooks.tracebacks import Raised, passed_users, visible_places
from pytest_cideldill.interpreter.borders import contained
from pytest_cideldill.manager import BreakpointManager
from pytest_cideldill.pauses.parking import Stop
from pytest_cideldill.probes.classes import RaiseProbe

PHASES: dict[str, frozenset[str]] = {
    "never": frozenset(),
    "error": frozenset({"setup", "teardown"}),
    "failure": frozenset({"setup", "call", "teardown"}),
}
"""`pause_on` → the failing phases that pause."""

_FAILURES: Final = ("addError", "addFailure")


class PostMortem:
    """Pauses a failing test after its report, before its fixtures are torn down."""

    def __init__(self, manager: BreakpointManager, autopsies: Autopsies) -> None:
        self.host = self.manager = manager
        self._autopsies = autopsies
        self._of_fixture: BaseException | None = None
        # What the running test was paused for already, before pytest heard of it.
        self._paused_for: list[BaseException] = []

    @pytest.hookimpl(tryfirst=True)
    @guest
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Tests of `unittest` run their `tearDown` before pytest hears of a failure: be earlier.

        No wrapper: its frames would stand in each traceback, and pytest looks for their files.
        """
        module = sys.modules.get("_pytest.unittest")
        if module and isinstance(item, module.TestCaseFunction):
            for name in _FAILURES:
                item.__dict__[name] = partial(self._fails, item, getattr(item, name))

    @pytest.hookimpl(tryfirst=True)
    @guest
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """The test is over."""
        if call.when == "call":
            for name in _FAILURES:
                item.__dict__.pop(name, None)

    def _fails(self, item: pytest.Item, report: Callable[..., None], case: Any, raw: Any) -> None:
        """`addError` and `addFailure` of an item, which is the result that its test reports to."""
        report(case, raw)
        self._look_at(item, raw)

    @guest
    def _look_at(self, item: pytest.Item, raw: Any) -> None:
        error = raw[1]
        if not isinstance(error, BaseException) or isinstance(error, pytest.skip.Exception):
            return
        is_wanted = "call" in PHASES[self.manager.pauses.pause_on]
        probe = self.manager.raises.escaped(error)
        if is_wanted or probe is not None:
            self._paused_for.append(error)
            excinfo = pytest.ExceptionInfo.from_exc_info(raw)
            make = partial(self._autopsies.of_running, item, excinfo)
            where = partial(place_of_test, item, self.manager.lens, error)
            self._pause(excinfo, make, where, probe, "test_failure" if is_wanted else "exception")

    @guest
    def pytest_exception_interact(
        self,
        node: pytest.Item | pytest.Collector,
        call: pytest.CallInfo[Any],
        report: pytest.CollectReport | pytest.TestReport,
    ) -> None:
        """Pause with the autopsy of the failure, if failures or this exception are to pause."""
        if not isinstance(report, pytest.TestReport) or not isinstance(node, pytest.Item):
            return
        excinfo = self._autopsies.raised_by(call)
        if excinfo is None or not report.failed or self._autopsies.is_tried_again(call):
            return
        if any(exception is excinfo.value for exception in self._paused_for):
            return
        probe = self._second_chance(excinfo.value, report)
        is_wanted = report.when in PHASES[self.manager.pauses.pause_on]
        if not is_wanted and probe is None:
            return
        make = partial(self._autopsies.of_report, node, call, report)
        reason = "test_failure" if is_wanted else "exception"
        subtest = partial(subtest_of, report, self.manager.lens)
        where = partial(place_of_test, report, self.manager.lens, excinfo.value)
        self._pause(excinfo, make, where, probe, reason, subtest)

    @guest
    def pytest_runtest_logfinish(self) -> None:
        """A test ended."""
        self._paused_for.clear()

    def _pause(
        self,
        excinfo: Raised,
        make: Callable[[], dict[str, Any]],
        where: Callable[[], dict[str, Any] | None],
        probe: RaiseProbe | None,
        reason: str,
        subtest: Callable[[], str | None] = lambda: None,
    ) -> None:
        look = partial(visible_places, excinfo, self.manager.lens.project)
        raw = [(entry.frame.raw, entry.lineno + 1) for entry in reversed(excinfo.traceback)]
        places = contained("looking at a traceback", look, self.manager.warn, raw)

        def more() -> dict[str, Any]:
            made, part = make(), subtest()
            exception = {name: made["exception"][name] for name in ("type", "message")}
            failure = {"exception": exception, "autopsy": made}
            return failure if part is None else failure | {"subtest": part}

        details: dict[str, Any] = {}
        if probe is not None:
            details = {"breakpoint_id": probe.spec.id, "hit_count": probe.hits.value}
        place = None
        if not passed_users(places, self.manager.lens.project):
            place = contained("looking for a test", where, self.manager.warn, None)
        stop = Stop(
            "post_mortem",
            reason,
            [frame for frame, _ in places],
            details,
            more=more,
            lines=[line for _, line in places],
            names={"__exception__": excinfo.value},
            place=place,
        )
        self.manager.pauses.pause(stop)

    def _second_chance(self, error: BaseException, report: pytest.TestReport) -> RaiseProbe | None:
        """The exception breakpoint that stops here.

        A fixture that failed is not made again: all its tests fail by the same exception.
        """
        before, self._of_fixture = self._of_fixture, error if report.when == "setup" else None
        return None if error is before else self.manager.raises.escaped(error)
