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
from pytest_cideldill.link.observers import EventLink, Warnings
from pytest_cideldill.link.sinks import Outlet
from pytest_cideldill.protocol import Command, Event, NodeFinished, NodeStarted, Watched
from pytest_cideldill.protocol.current_test_file import Position
from pytest_cideldill.protocol.rows import Batch, Row
from pytest_cideldill.rendering.display import Lens


class Link(EventLink, Protocol):
    """Takes events away; `link.ThreadedLink` or `inline.FileLink`."""

    def start(self) -> None:
        """Begin with it."""

    def settle(self) -> None:
        """Have what was sent written, unless that was done a moment ago or takes long."""

    def close(self, deadline_s: float) -> None:
        """Have everything leave, and take nothing any more."""


class Host:
    """A process of a run, for the hooks. The methods watch nothing here; `Debugged` overrides them.

    Attributes:
        pauses: When the thread of the tests was parked.
        warnings: About failures of our own; those that nobody got, as the link was gone.
    """

    lens: Lens
    link: Link
    position: Position
    timeline: Timeline
    pauses: PauseClock
    warnings: Warnings

    def warn(self, message: str) -> None:
        """Send a failure of our own once."""
        self.warnings.warn(message)

    def begin(self, commands: Iterable[Command | Event]) -> None:
        """Carry out what was wanted before the tests."""

    def bind(self) -> None:
        """Code was imported."""

    def enter(self, *, is_over: bool) -> None:
        """A phase of a test begins, or the test is over."""

    def started(self, event: NodeStarted) -> None:
        """Send that a test begins."""
        self.link.send(event)
        self.link.settle()

    def ended(self, event: NodeFinished, reports: list[list[str]]) -> None:  # noqa: ARG002
        """Send that a test ended.

        Args:
            reports: Phase, category and outcome of each report of it that was sent by itself.
        """
        self.link.send(event)

    def renew(self) -> None:
        """There are other secrets from now on."""

    def relay_by(self, relay: Callable[[str], object]) -> None:
        """xdist's controller sends the tests of a worker when `relay` gets its name."""

    def pausing(self, autopsies: Autopsies) -> list[object]:  # noqa: ARG002
        """Plugins that pause tests, for a client."""
        return []

    def hear(self, *, passes: bool) -> list[Callable[[], object]]:  # noqa: ARG002
        """Take the places of debuggers that a client stands for; how to put those back.

        Args:
            passes: Nobody waits for stops of this process.
        """
        return []

    def release(self) -> None:
        """Watch nothing any more, and send what became of what was watched."""

    def settle(self, deadline_s: float) -> None:
        """Have everything kept that can be, and warn of the rest, before the last word."""

    def close(self) -> None:
        """The link is closed, and this is the end."""


class Unwatched(Host):
    """A process that is only recorded."""

    link: FileLink

    def __init__(self, lens: Lens, outlets: Sequence[Outlet]) -> None:
        self.lens = lens
        self.position = Position()
        self.pauses = PauseClock()
        self.link = FileLink(outlets)
        self.warnings = Warnings(self.link, self.link.send, lens.text)
        self.timeline = Timeline(lens, self.position, self._add_row, self)

    def _add_row(self, row: Row) -> None:
        self.link.send(Batch([row], {}, {}))

    def release(self) -> None:
        self.link.send(Watched({}, blind=False))
