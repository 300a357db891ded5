"""What happens when a probe stops a thread: the pause is made, and the thread goes on as chosen.

Runs on the threads of the test. The debugger is a guest there: a failure of ours is sent once, and
the test goes on. Calls have a room of their own, `calling`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FrameType, TracebackType
from typing import Any

from pytest_cideldill.context import Context
from pytest_cideldill.frames.arguments import raised
from pytest_cideldill.frames.failure import RECORDED, ExaminedFailure, Place, autopsy
from pytest_cideldill.frames.frames import has_run, notice_secrets_behind, visible_places
from pytest_cideldill.interpreter.borders import began_here, contained, passes, report_failure
from pytest_cideldill.pauses.parking import Pause, Resolution, Resolve, Stop
from pytest_cideldill.pauses.pauses import Pauses
from pytest_cideldill.pauses.report import stack_at
from pytest_cideldill.pauses.resume import resolve_line
from pytest_cideldill.probes.classes import RaiseProbe
from pytest_cideldill.probes.linehits import LineProbe
from pytest_cideldill.protocol import Resume
from pytest_cideldill.protocol.current_test_file import During
from pytest_cideldill.tracing.interface import Deliberate


class Stops:
    """Makes the pause when a probe stops a thread, and resumes the thread as was chosen."""

    def __init__(self, context: Context, pauses: Pauses) -> None:
        self._lens = context.lens
        self._position = context.position
        self._warn = context.warn
        self._pauses = pauses

    def at_line(self, probe: LineProbe, frame: FrameType, number: int, reason: str) -> None:
        """A line at which a breakpoint stops, at its pass `number`."""
        __tracebackhide__ = True

        def stop() -> Resolution:
            details = {"breakpoint_id": probe.spec.id, "hit_count": number}
            return self._pause_at_line(frame, reason, details, probe.last_condition_error)

        self._obey(stop)

    def at_place(self, frame: FrameType, reason: str) -> None:
        """Where a step ends, or a thread has to stop; `frame` is where it stands."""
        __tracebackhide__ = True
        self._obey(lambda: self._pause_at_line(frame, reason, {}, None))

    def at_raise(
        self, probe: RaiseProbe, frame: FrameType, error: BaseException, traceback: TracebackType
    ) -> None:
        """An exception that is raised in `frame`, or in code that it called."""
        __tracebackhide__ = True

        def stop() -> Resolution:
            during = self._position.during
            inner = [place for place in self._places(traceback.tb_next) if has_run(place[0])]
            places = inner + self._stack(frame)
            resolve = _resolving(frame, "raise")
            return self._pause_with(during, "raise", probe, error, places, resolve)

        self._obey(stop)

    def at_uncaught(
        self,
        probe: RaiseProbe,
        frame: FrameType,
        error: BaseException,
        traceback: TracebackType | None,
    ) -> None:
        """An exception that nobody catches, outside of a test; `frame` is where that shows."""

        def stop() -> Resolution:
            during = self._position.during
            places = self._places(traceback) or self._stack(frame)
            return self._pause_with(during, "post_mortem", probe, error, places)

        self.as_guest(stop)

    def _obey(self, stop: Callable[[], Resolution]) -> None:
        """Stop, and raise at this event what the client chose to raise."""
        __tracebackhide__ = True
        resolution = self.as_guest(stop)
        if resolution.action == "raise":
            raise Deliberate(resolution.value)

    def as_guest(self, stop: Callable[[], Resolution]) -> Resolution:
        """Run our side of a hit: a failure of our own is sent once, and the test goes on.

        Exceptions that did not start in our files (Ctrl-C, alarms) belong to the test.
        """
        try:
            return stop()
        except Exception as error:
            if passes(error) or not began_here(error):
                raise
            report_failure("a stop, after which the test went on,", error, self._warn)
            return Resolution(by="stop")

    def _places(self, traceback: TracebackType | None) -> list[Place]:
        """What clients see of a traceback; nothing where that can't be found out."""
        look = partial(visible_places, traceback, self._lens.project)
        return contained("looking at a traceback", look, self._warn, [])

    def _stack(self, frame: FrameType) -> list[Place]:
        return [(each, each.f_lineno) for each in stack_at(frame, self._lens)]

    def _pause_with(
        self,
        during: During,
        phase: str,
        probe: RaiseProbe,
        error: BaseException,
        places: list[Place],
        resolve: Resolve | None = None,
    ) -> Resolution:
        """Pause with an exception that an exception breakpoint means."""

        def describe() -> dict[str, Any]:
            notice_secrets_behind(error, self._lens)
            exception = raised(error, self._lens)
            is_first = phase == "raise"
            made = autopsy(
                ExaminedFailure(error, exception, places, is_first), self._lens, RECORDED
            )
            return {"exception": exception, "autopsy": made | self._position.around()}

        stop = Stop(
            phase,
            "exception",
            [frame for frame, _ in places],
            {"breakpoint_id": probe.spec.id, "hit_count": probe.hits.value},
            resolve,
            more=describe,
            lines=[line for _, line in places],
            names={"__exception__": error},
            during=during,
        )
        return self._pauses.pause(stop)

    def _pause_at_line(
        self, frame: FrameType, reason: str, details: dict[str, Any], failed: str | None
    ) -> Resolution:
        def more() -> dict[str, Any]:
            return {} if failed is None else {"condition_error": self._lens.text(failed)}

        during, stack = self._position.during, stack_at(frame, self._lens)
        return self._pauses.pause(
            Stop("line", reason, stack, details, _resolving(frame), more=more, during=during)
        )


def _resolving(frame: FrameType, phase: str = "line") -> Resolve:
    """What checks the resume commands of a stop at a line of `frame`, or at a raise."""

    def resolve(command: Resume, _pause: Pause) -> Resolution:
        return resolve_line(command, frame, phase)

    return resolve
