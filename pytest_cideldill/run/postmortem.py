"""The pause of a failing test: after its report, before its fixtures are torn down.

`pytest_exception_interact` on the main thread; the report is out already, so nothing that happens
here can change the outcome.
"""

from __future__ import annotations

from typing import Any

import pytest

from pytest_cideldill.capture.autopsy import MAX_OUTPUT
from pytest_cideldill.capture.autopsy import autopsy
from pytest_cideldill.capture.autopsy import describe_exception
from pytest_cideldill.capture.lens import Lens
from pytest_cideldill.manager import BreakpointManager
from pytest_cideldill.probes.classes import RaiseProbe
from pytest_cideldill.run.guest import guest
from pytest_cideldill.run.traceback import crash_message
from pytest_cideldill.run.traceback import visible_places

PHASES: dict[str, frozenset[str]] = {
    "never": frozenset(),
    "error": frozenset({"setup", "teardown"}),
    "failure": frozenset({"setup", "call", "teardown"}),
}
"""`pause_on` → the failing phases that pause."""


class PostMortem:
    """See the module.

    Args:
        manager: Parks the thread; knows which failures pause.
    """

    def __init__(self, manager: BreakpointManager) -> None:
        self.manager = manager
        self._of_fixture: BaseException | None = None

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
        if call.excinfo is None:
            return
        probe = self._second_chance(call.excinfo.value, report)
        is_wanted = report.when in PHASES[self.manager.pauses.pause_on]
        if not is_wanted and probe is None:
            return
        lens = self.manager.lens
        places = visible_places(call.excinfo, lens.project)
        exception = describe_exception(call.excinfo.value, crash_message(report), lens)
        details: dict[str, Any] = {
            "exception": exception,
            "autopsy": autopsy(exception, places, lens)
            | _surroundings(node, lens)
            | _output(report, lens),
        }
        if probe is not None:
            details |= {"breakpoint_id": probe.asked.id, "hit_count": probe.hits.value}
        reason = "test_failure" if is_wanted else "exception"
        frames = [frame for frame, _ in places]
        lines = [line for _, line in places]
        names = {"__exception__": call.excinfo.value}
        self.manager.pauses.pause("post_mortem", reason, frames, details, lines=lines, names=names)

    def _second_chance(self, error: BaseException, report: pytest.TestReport) -> RaiseProbe | None:
        """The exception breakpoint that stops here.

        A fixture that failed is not made again: all its tests fail by the same exception.
        """
        told, self._of_fixture = self._of_fixture, error if report.when == "setup" else None
        return None if error is told else self.manager.raises.escaped(error)


def _surroundings(item: pytest.Item, lens: Lens) -> dict[str, Any]:
    """What the test was given: its parameters and the fixtures that are alive."""
    callspec = getattr(item, "callspec", None)
    definitions = getattr(getattr(item, "_request", None), "_fixture_defs", {})
    fixtures = [
        {"name": name, "scope": str(definition.scope), "value": lens.show(cached[0], name)}
        for name, definition in definitions.items()
        if (cached := definition.cached_result) is not None and cached[2] is None
    ]
    return {
        "parameters": {
            name: lens.show(value, name) for name, value in getattr(callspec, "params", {}).items()
        },
        "fixtures": fixtures,
    }


def _output(report: pytest.TestReport, lens: Lens) -> dict[str, str]:
    return {
        "stdout": lens.end_of(report.capstdout, MAX_OUTPUT),
        "stderr": lens.end_of(report.capstderr, MAX_OUTPUT),
        "log": lens.end_of(report.caplog, MAX_OUTPUT),
    }
