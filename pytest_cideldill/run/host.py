"""A process of a run, as the hooks know it; and the one that is only recorded.

There is nothing to watch in it, and nobody who could ask for that: what watches is not imported.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from typing import Protocol

from pytest_cideldill.capture.lens import Lens
from pytest_cideldill.link import ThreadedLink
from pytest_cideldill.log import RowLog
from pytest_cideldill.outlets import Outlet
from pytest_cideldill.probes.position import Position
from pytest_cideldill.run.autopsies import Autopsies
from pytest_cideldill.run.timeline import Timeline
from pytest_cideldill.run.timers import PauseClock
from pytest_cideldill.wire import Warned
from pytest_cideldill.wire import Watched


class Host(Protocol):
    """See the module; `debugged.Debugged` is the other one.

    Attributes:
        lens: Shows what the process holds.
        link: Where events go.
        position: Written by the hooks.
        timeline: What tests log.
        pauses: When the thread of the tests was parked.
    """

    lens: Lens
    link: ThreadedLink
    position: Position
    timeline: Timeline
    pauses: PauseClock

    def warn(self, message: str) -> None:
        """Tell a failure of our own once."""

    def bind(self) -> None:
        """Code was imported."""

    def enter(self, *, is_over: bool) -> None:
        """A phase of a test begins, or the test is over."""

    def renew(self) -> None:
        """There are other secrets from now on."""

    def relay_by(self, tell: Callable[[str], object]) -> None:
        """xdist's controller tells the tests of workers that are named to this."""

    def pausing(self, autopsies: Autopsies) -> list[object]:
        """Plugins that pause tests, for a client."""

    def hear(self, *, passes: bool) -> list[Callable[[], object]]:
        """Take the places of debuggers that a client stands for; how to put those back.

        Args:
            passes: Nobody waits for stops of this process.
        """

    def release(self) -> None:
        """Watch nothing any more, and say what became of what was watched."""

    def close(self) -> None:
        """The link is closed, and this is the end."""


class Unwatched:
    """See the module, and `Host`.

    Args:
        lens: Shows what the process holds.
        outlets: Where events go.
    """

    def __init__(self, lens: Lens, outlets: Sequence[Outlet]) -> None:
        self.lens = lens
        self.position = Position()
        self.pauses = PauseClock()
        rows = RowLog(lambda: self.link.nudge(), lambda _row: "hit", lambda: self.link.has_room())
        self.link = ThreadedLink(outlets, _nobody, _nobody, mark=rows.mark, collect=rows.batches)
        self.timeline = Timeline(lens, self.position, rows.add)
        self._warned: set[str] = set()

    def warn(self, message: str) -> None:
        """See `Host`."""
        if message not in self._warned:
            self._warned.add(message)
            self.link.send(Warned(self.lens.text(message)))

    def bind(self) -> None:
        """See `Host`."""

    def enter(self, *, is_over: bool) -> None:
        """See `Host`."""

    def renew(self) -> None:
        """See `Host`."""

    def relay_by(self, tell: Callable[[str], object]) -> None:
        """See `Host`; nobody can name any."""

    def pausing(self, autopsies: Autopsies) -> list[object]:  # noqa: ARG002
        """See `Host`."""
        return []

    def hear(self, *, passes: bool) -> list[Callable[[], object]]:  # noqa: ARG002
        """See `Host`."""
        return []

    def release(self) -> None:
        """See `Host`."""
        self.link.send(Watched({}, blind=False))

    def close(self) -> None:
        """See `Host`."""


def _nobody(*_told: object) -> None:
    """Nobody sends commands, or hears of lost connections."""
