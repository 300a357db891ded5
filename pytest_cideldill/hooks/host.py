"""A process of a run, as the hooks know it; and the one that is only recorded.

There is nothing to watch in it, and nobody who could ask for that: what watches is not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from pytest_cideldill.hooks.durations import PauseClock
from pytest_cideldill.hooks.failure_reports import Autopsies
from pytest_cideldill.hooks.log_fixture import Timeline
from pytest_cideldill.link.inline import FileLink
from pytest_cideldill.link.position import Position
from pytest_cideldill.link.sinks import Outlet
from pytest_cideldill.link.warnings import Warnings
from pytest_cideldill.protocol import Command, Event, Watched
from pytest_cideldill.protocol.rows import Batch, Row
from pytest_cideldill.rendering.display import Lens


class Link(Protocol):
    """Takes events away; `link.ThreadedLink` or `inline.FileLink`."""

    @property
    def is_open(self) -> bool:
        """Whether anybody gets what is sent."""

    def start(self) -> None:
        """Begin with it."""

    def send(self, event: Event, *, urgent: bool = False) -> None:
        """Take an event; never raises. `urgent`: it must not wait for others."""

    def settle(self) -> None:
        """Have what was sent written, unless that was done a moment ago or takes long."""

    def flush(self, deadline_s: float) -> bool:
        """Wait until everything sent so far has left; False when the deadline passed first."""

    def close(self, deadline_s: float) -> None:
        """Have everything leave, and take nothing any more."""


class Host(Protocol):
    """See the module; `debugged_process.Debugged` is the other one.

    Attributes:
        lens: Shows what the process holds.
        link: Where events go.
        position: Written by the hooks.
        timeline: What tests log.
        pauses: When the thread of the tests was parked.
        unsent: Warnings that nobody got, as the link was gone.
    """

    unsent: list[str]
    lens: Lens
    position: Position
    timeline: Timeline
    pauses: PauseClock

    @property
    def link(self) -> Link:
        """See the class."""

    def warn(self, message: str) -> None:
        """Send a failure of our own once."""

    def begin(self, commands: Iterable[Command | Event]) -> None:
        """Carry out what was wanted before the tests."""

    def bind(self) -> None:
        """Code was imported."""

    def enter(self, *, is_over: bool) -> None:
        """A phase of a test begins, or the test is over."""

    def renew(self) -> None:
        """There are other secrets from now on."""

    def relay_by(self, relay: Callable[[str], object]) -> None:
        """xdist's controller sends the tests of a worker when `relay` gets its name."""

    def pausing(self, autopsies: Autopsies) -> list[object]:
        """Plugins that pause tests, for a client."""

    def hear(self, *, passes: bool) -> list[Callable[[], object]]:
        """Take the places of debuggers that a client stands for; how to put those back.

        Args:
            passes: Nobody waits for stops of this process.
        """

    def release(self) -> None:
        """Watch nothing any more, and say what became of what was watched."""

    def settle(self, deadline_s: float) -> None:
        """Have everything kept that can be, and warn of the rest, before the last word."""

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
        link = self.link = FileLink(outlets)
        self.timeline = Timeline(lens, self.position, self._add_row, self)
        self._warnings = Warnings(link, link.send, lens.text)
        self.unsent = self._warnings.unsent

    def warn(self, message: str) -> None:
        """See `Host`."""
        self._warnings.warn(message)

    def _add_row(self, row: Row) -> None:
        self.link.send(Batch([row], {}, {}))

    def begin(self, commands: Iterable[Command | Event]) -> None:
        """See `Host`; there is nothing to carry out."""

    def bind(self) -> None:
        """See `Host`."""

    def enter(self, *, is_over: bool) -> None:
        """See `Host`."""

    def renew(self) -> None:
        """See `Host`."""

    def relay_by(self, relay: Callable[[str], object]) -> None:
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

    def settle(self, deadline_s: float) -> None:
        """See `Host`."""

    def close(self) -> None:
        """See `Host`."""
