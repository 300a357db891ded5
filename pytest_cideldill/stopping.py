"""What happens when a probe stops a thread: the pause is made, and the thread goes on as chosen.

Runs on the threads of the test. The debugger is a guest there: a failure of ours is told once, and
the test goes on. Calls have a room of their own, `calling`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from types import TracebackType

from pytest_cideldill.actions import resolve_line
from pytest_cideldill.capture.autopsy import RECORDED
from pytest_cideldill.capture.autopsy import Place
from pytest_cideldill.capture.autopsy import autopsy
from pytest_cideldill.capture.calls import raised
from pytest_cideldill.capture.frames import notice_secrets_behind
from pytest_cideldill.capture.frames import visible_places
from pytest_cideldill.capture.lens import Lens
from pytest_cideldill.gate import Resolution
from pytest_cideldill.pausing import Pauses
from pytest_cideldill.probes.classes import RaiseProbe
from pytest_cideldill.probes.linehits import Probe
from pytest_cideldill.project import Project
from pytest_cideldill.sources.events import Deliberate
from pytest_cideldill.telling import stack_at
from pytest_cideldill.wire import Resume


class Stops:
    """See the module.

    Args:
        lens: Shows values.
        pauses: Parks threads.
        warn: Told of failures of our own.
        before_line: Called before a line stops: what was counted is told first.
    """

    def __init__(
        self,
        lens: Lens,
        pauses: Pauses,
        warn: Callable[[str], None],
        before_line: Callable[[], None],
    ) -> None:
        self._lens = lens
        self._pauses = pauses
        self._warn = warn
        self._before_line = before_line

    def at_line(self, probe: Probe, frame: FrameType, number: int, reason: str) -> None:
        """A line at which a breakpoint stops, at its pass `number`."""
        __tracebackhide__ = True
        resolution = self.as_guest(lambda: self._pause_at_line(probe, frame, number, reason))
        if resolution.action == "raise":
            raise Deliberate(resolution.value)

    def at_place(self, frame: FrameType, reason: str) -> None:
        """Where a step ends, or a thread is told to stop; `frame` is where it stands."""
        __tracebackhide__ = True
        resolution = self.as_guest(
            lambda: self._pauses.pause(
                "line",
                reason,
                stack_at(frame, self._lens),
                {},
                lambda command, _pause: resolve_line(command, frame),
            )
        )
        if resolution.action == "raise":
            raise Deliberate(resolution.value)

    def at_raise(
        self, probe: RaiseProbe, frame: FrameType, error: BaseException, traceback: TracebackType
    ) -> None:
        """An exception that is raised in `frame`, or in code that it called."""
        __tracebackhide__ = True
        places = visible_places(traceback.tb_next, self._lens.project)
        places += self._stack(frame)
        resolution = self.as_guest(
            lambda: self._pause_with(
                "raise", probe, error, places, lambda command: resolve_line(command, frame, "raise")
            )
        )
        if resolution.action == "raise":
            raise Deliberate(resolution.value)

    def at_uncaught(
        self,
        probe: RaiseProbe,
        frame: FrameType,
        error: BaseException,
        traceback: TracebackType | None,
    ) -> None:
        """An exception that nobody catches, outside of a test; `frame` is where that shows."""
        places = visible_places(traceback, self._lens.project) or self._stack(frame)
        self.as_guest(lambda: self._pause_with("post_mortem", probe, error, places))

    def as_guest(self, stop: Callable[[], Resolution]) -> Resolution:
        """Run our side of a hit: a failure of our own is told once, and the test goes on.

        Exceptions that did not start in our files (Ctrl-C, alarms) belong to the test.
        """
        try:
            return stop()
        except Exception as error:
            if not _is_ours(error, self._lens.project):
                raise
            self._warn(f"the debugger failed at a hit, and the test went on: {error!r}")
            return Resolution(by="stop")

    def _stack(self, frame: FrameType) -> list[Place]:
        return [(each, each.f_lineno) for each in stack_at(frame, self._lens)]

    def _pause_with(
        self,
        phase: str,
        probe: RaiseProbe,
        error: BaseException,
        places: list[Place],
        resolve: Callable[[Resume], Resolution] | None = None,
    ) -> Resolution:
        """Pause with an exception that an exception breakpoint means."""
        notice_secrets_behind(error, self._lens)
        exception = raised(error, self._lens)
        made = autopsy(
            error,
            exception,
            places,
            self._lens,
            RECORDED,
            is_first_chance=phase == "raise",
        )
        made |= self._pauses.position.around()
        return self._pauses.pause(
            phase,
            "exception",
            [frame for frame, _ in places],
            {
                "breakpoint_id": probe.asked.id,
                "hit_count": probe.hits.value,
                "exception": exception,
                "autopsy": made,
            },
            None if resolve is None else lambda command, _pause: resolve(command),
            lines=[line for _, line in places],
            names={"__exception__": error},
        )

    def _pause_at_line(
        self, probe: Probe, frame: FrameType, number: int, reason: str
    ) -> Resolution:
        details = {"breakpoint_id": probe.asked.id, "hit_count": number}
        if probe.last_condition_error is not None:
            details["condition_error"] = self._lens.text(probe.last_condition_error)
        self._before_line()
        return self._pauses.pause(
            "line",
            reason,
            stack_at(frame, self._lens),
            details,
            lambda command, _pause: resolve_line(command, frame),
        )


def _is_ours(error: Exception, project: Project) -> bool:
    """Whether an exception started in one of our files."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return place is not None and project.is_ours(place.tb_frame.f_code.co_filename)
