"""What happens when a probe stops a thread: the pause is made, and the thread goes on as chosen.

Runs on the threads of the test. The debugger is a guest there: a failure of ours is told once, and
the test goes on. Calls have a room of their own, `calling`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType

from pytest_cideldill.actions import resolve_line
from pytest_cideldill.capture.frames import visible_stack
from pytest_cideldill.capture.lens import Lens
from pytest_cideldill.gate import Resolution
from pytest_cideldill.pausing import Pauses
from pytest_cideldill.probes.linehits import Probe
from pytest_cideldill.project import Project
from pytest_cideldill.sources.events import Deliberate


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
            visible_stack(frame, self._lens.project),
            details,
            lambda command, _pause: resolve_line(command, frame),
        )


def _is_ours(error: Exception, project: Project) -> bool:
    """Whether an exception started in one of our files."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return place is not None and project.is_ours(place.tb_frame.f_code.co_filename)
