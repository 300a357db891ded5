"""A `ThreadedLink` and the front end's end of its socket in one process, and a link without one."""

from __future__ import annotations

import os
import socket
from _queue import SimpleQueue
from collections.abc import Callable
from typing import Any

from pytest_cideldill.framing import FrameDecoder
from pytest_cideldill.framing import encode_frame
from pytest_cideldill.link import ThreadedLink
from pytest_cideldill.outlets import SocketOutlet
from pytest_cideldill.wire import Command
from pytest_cideldill.wire import Event
from pytest_cideldill.wire import Message
from pytest_cideldill.wire import from_plain
from pytest_cideldill.wire import to_plain

DEADLINE_S = 10.0
"""No wait of a test takes longer."""


class Linked:
    """A started link: `commands` and `losses` hold what it called back, `socket` is the peer's."""

    def __init__(self, decoder: FrameDecoder | None = None, **options: Any) -> None:
        mine, self.socket = socket.socketpair()
        self.socket.settimeout(DEADLINE_S)
        self.commands: SimpleQueue[Command] = SimpleQueue()
        self.losses: SimpleQueue[None] = SimpleQueue()
        self._decoder = FrameDecoder()
        self._received: list[Message] = []
        self.outlet = SocketOutlet(mine, decoder)
        self.link = ThreadedLink(
            [self.outlet], self.commands.put, lambda: self.losses.put(None), **options
        )  # fmt: skip
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


class DirectLink:
    """A link without a socket: events are handed over in the sender's thread."""

    def __init__(self, deliver: Callable[[Event], None]) -> None:
        self._deliver = deliver

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
