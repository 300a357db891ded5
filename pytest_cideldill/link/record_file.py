"""The file of a recorded run, as a link writes to it; not imported where nothing is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.borders import text_of
from pytest_cideldill.link.sinks import Outlet
from pytest_cideldill.protocol import Message
from pytest_cideldill.protocol.ended_tests import EndedTest
from pytest_cideldill.protocol.rows import Batch
from pytest_cideldill.records.format import NOTED, UNWRITTEN
from pytest_cideldill.records.hit_blocks import Stretch
from pytest_cideldill.records.writer import PartWriter

_MOST_KEPT: Final = 2 * 1024 * 1024
"""Bytes of memory that are kept for what will wait."""


class FileOutlet(Outlet):
    """A file of a recorded run, which takes everything at once; the writer opens it again."""

    def __init__(self, writer: PartWriter) -> None:
        self.unsent: _Buffer = _Buffer()
        self._writer = writer

    @property
    def error(self) -> str | None:
        """Why the disk did not take something; None: it took everything."""
        return self._writer.error

    @property
    def stretches(self) -> list[Stretch]:
        """Where most hits are in the file; empty if the disk did not take all lines."""
        return self._writer.stretches

    def note(self, command: Message) -> None:
        """Write commands that set breakpoints, and changes that a client made."""
        if isinstance(command, NOTED):
            self.encode(clock.wall(), command)

    def encode(self, ts: float, event: Message | Batch | EndedTest) -> bool:
        """Append the lines of an event; replies are for the front end, and not written."""
        if isinstance(event, EndedTest):
            event = event.event
        try:
            if not isinstance(event, UNWRITTEN):
                self.unsent.add(self._writer.lines(ts, event))
            return True
        except Exception as error:  # noqa: BLE001 - a border: what comes later is written
            self._writer.error = text_of(error)
            return False

    def send(self) -> bool:
        """Write all that waits. A disk that is full takes nothing: what is missing is counted."""
        self.taken += len(self.unsent)
        self.unsent.empty(self._writer.write)
        return True

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


class _Buffer:
    """Bytes that wait, in memory that stays: to ask for it anew would cost more than to fill it."""

    def __init__(self) -> None:
        self._memory = bytearray()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, text: bytes) -> None:
        """Behind the others."""
        end = self._count + len(text)
        self._memory[self._count : end] = text
        self._count = end

    def empty(self, take: Callable[[memoryview], object]) -> None:
        """Have all of them taken, at once; whatever becomes of it, they don't come again."""
        count, self._count = self._count, 0
        with memoryview(self._memory) as memory, memory[:count] as text:
            take(text)
        if len(self._memory) > _MOST_KEPT:
            self._memory = bytearray()
