"""Links, and what is at their other end: the front end's socket, a file, nothing.

Scripts of tests import it: without pytest they start in half the time.
"""

from __future__ import annotations

import os
import socket
from _queue import SimpleQueue
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pytest_cideldill.interpreter.descriptors import HeldSocket
from pytest_cideldill.link.inline import FileLink
from pytest_cideldill.link.record_file import FileOutlet
from pytest_cideldill.link.sinks import SocketOutlet
from pytest_cideldill.link.threaded import LinkOwner, ThreadedLink
from pytest_cideldill.protocol import Command, Event, Message, from_plain, to_plain
from pytest_cideldill.protocol.framing import FrameDecoder, encode_frame
from pytest_cideldill.protocol.rows import Batch
from pytest_cideldill.records.format import Line
from pytest_cideldill.records.writer import PartWriter
from pytest_cideldill.redaction.redactor import Redactor

DEADLINE_S = 10.0
"""No wait of a test takes longer."""


class Owner(LinkOwner):
    """The owner of a link whose answers a test chooses."""

    def __init__(
        self,
        *,
        mark: Callable[[object], object] | None = None,
        is_next: Callable[[object], bool] | None = None,
        collect: Callable[[object, bool], Iterable[Event | Batch]] | None = None,
        is_awaited: bool = False,
    ) -> None:
        self.commands: SimpleQueue[Command] = SimpleQueue()
        self.losses: SimpleQueue[None] = SimpleQueue()
        self._mark, self._collect, self._is_awaited = mark, collect, is_awaited
        self._is_next = is_next

    @property
    def is_awaited(self) -> bool:
        return self._is_awaited

    def on_command(self, command: Command) -> None:
        self.commands.put(command)

    def on_lost(self) -> None:
        self.losses.put(None)

    def mark(self, item: object) -> None:
        if self._mark is not None:
            self._mark(item)

    def is_next(self, item: object) -> bool:
        return self._is_next is None or self._is_next(item)

    def collect(self, until: object, is_late: bool) -> Iterable[Event | Batch]:
        return () if self._collect is None else self._collect(until, is_late)


class Linked:
    """A started link: `commands` and `losses` hold what it called back, `socket` is the peer's."""

    def __init__(
        self,
        decoder: FrameDecoder | None = None,
        rejoin: Callable[[int, int], tuple[HeldSocket, int]] | None = None,
        **options: Any,
    ) -> None:
        mine, self.socket = socket.socketpair()
        self.socket.settimeout(DEADLINE_S)
        owner = self.owner = Owner(**options)
        self.commands, self.losses = owner.commands, owner.losses
        self._decoder = FrameDecoder()
        self._received: list[Message] = []
        self.outlet = SocketOutlet(mine, decoder, rejoin)
        self.link = ThreadedLink([self.outlet], owner)
        self.link.start()

    def __enter__(self) -> Linked:
        return self

    def __exit__(self, *_: object) -> None:
        self.link.close(DEADLINE_S)
        self.socket.close()

    def receive(self, count: int) -> list[Message]:
        """The next `count` messages that the link sends.

        Raises:
            EOFError: It hung up before.
        """
        while len(self._received) < count:
            data = self.socket.recv(65536)
            if not data:
                raise EOFError
            self._received += map(from_plain, self._decoder.feed(data))
        received = self._received[:count]
        del self._received[:count]
        return received

    def command(self, command: Command) -> None:
        """Send a command and wait until the link has handed it on."""
        self.socket.sendall(encode_frame(to_plain(command)))
        assert self.commands.get(timeout=DEADLINE_S) == command


class FileLinked:
    """A link of a run that is only recorded, and its file."""

    def __init__(self, path: Path) -> None:
        self.outlet = FileOutlet(PartWriter(path, "main", 1_000_000, Redactor()))
        self.link = FileLink([self.outlet])
        self._path = path
        self._read = 0

    def receive(self, count: int) -> list[Message]:
        """The next messages of the file."""
        return [Line.decoded(each).message for each in self.lines(count)]

    def lines(self, count: int) -> list[bytes]:
        """The next ones of the file."""
        found = self._path.read_bytes().splitlines()[self._read :]
        assert len(found) >= count
        self._read += count
        return found[:count]


class DirectLink:
    """A link without a socket: events are handed over in the sender's thread."""

    def __init__(self, deliver: Callable[[Event], None]) -> None:
        self._deliver = deliver

    @property
    def is_open(self) -> bool:
        """See `ThreadedLink`."""
        return True

    def nudge(self) -> None:
        """See `ThreadedLink`."""

    def has_room(self) -> bool:
        """See `ThreadedLink`."""
        return True

    def send(self, event: Event, *, urgent: bool = False) -> None:
        """See `ThreadedLink`."""
        self._deliver(event)

    def flush(self, deadline_s: float) -> bool:
        """See `ThreadedLink`."""
        return True

    def close(self, deadline_s: float) -> None:
        """See `ThreadedLink`."""


def system_threads() -> list[int]:
    """Native ids of all threads that the system counts in this process."""
    return sorted(map(int, os.listdir("/proc/self/task")))
