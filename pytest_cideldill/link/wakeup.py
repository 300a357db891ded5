"""Bells that wake the I/O thread: one waits for sockets as well, the other for rings only."""

from __future__ import annotations

import socket
from _thread import allocate_lock
from collections import deque
from collections.abc import Collection
from contextlib import suppress

from pytest_cideldill.interpreter.descriptors import HeldSocket, wait_for

_LOOK_S = 0.05
"""How long a bell waits at most while it has no descriptors, and can't be rung."""

_NOBODY: Collection[HeldSocket] = ()

Woken = tuple[bool, set[HeldSocket], set[HeldSocket]]
"""Whether the bell was rung, and what can be read from and written to."""


class Bell:
    """Wakes the I/O thread. Any thread rings; one waits."""

    def __init__(self) -> None:
        self._urgent: deque[None] = deque()

    def ring(self, *, urgent: bool) -> None:
        """Wake it, or have its next wait end at once; never blocks."""
        if urgent:
            self._urgent.append(None)
        self._wake()

    def take_urgent(self) -> bool:
        """Whether there was an urgent ring since the last call."""
        is_any = False
        while self._urgent:  # one by one: a ring that comes meanwhile stays
            self._urgent.popleft()
            is_any = True
        return is_any

    def wait(
        self,
        seconds: float | None,
        readers: Collection[HeldSocket] = _NOBODY,
        writers: Collection[HeldSocket] = _NOBODY,
    ) -> Woken:
        """Wait for a ring or a ready socket, at most so long."""
        raise NotImplementedError

    def close(self) -> None:
        """Nobody waits any more."""

    def _wake(self) -> None:
        raise NotImplementedError


class LockBell(Bell):
    """A bell without descriptors; there are no sockets to wait for."""

    def __init__(self) -> None:
        super().__init__()
        self._silent = allocate_lock()
        self._silent.acquire()

    def wait(
        self,
        seconds: float | None,
        readers: Collection[HeldSocket] = _NOBODY,  # noqa: ARG002
        writers: Collection[HeldSocket] = _NOBODY,  # noqa: ARG002
    ) -> Woken:
        """Wait until a ring releases the lock."""
        return self._silent.acquire(True, -1 if seconds is None else seconds), set(), set()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # it was rung already
            self._silent.release()


class SocketBell(Bell):
    """A pair of sockets, made anew when the program has taken one of them away.

    A thread that waits notices: its end reads that the other one is closed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._pair: tuple[HeldSocket, HeldSocket] | None = _pair(beyond=True)

    def wait(
        self,
        seconds: float | None,
        readers: Collection[HeldSocket] = _NOBODY,
        writers: Collection[HeldSocket] = _NOBODY,
    ) -> Woken:
        """Wait for a ring or a ready socket; make a new pair if one of its ends was taken away."""
        pair = self._pair
        if pair is None or not all(each.is_ours for each in pair):
            self._renew()  # the old one may have been rung
            late = 0.0 if self._pair else _LOOK_S if seconds is None else min(seconds, _LOOK_S)
            return True, *wait_for(readers, writers, late)
        rung = pair[0]
        readable, writable = wait_for({rung, *readers}, writers, seconds)
        is_rung = rung in readable
        if is_rung:
            readable.discard(rung)
            with suppress(OSError):
                if not rung.receive(4096):
                    self._renew()
        return is_rung, readable, writable

    def close(self) -> None:
        """Close the pair of sockets."""
        for each in self._pair or ():
            each.close()
        self._pair = None

    def _wake(self) -> None:
        pair = self._pair
        if pair is not None:
            with suppress(OSError):  # full: it has been rung; taken away: that wakes, too
                pair[1].send(b"r")

    def _renew(self) -> None:
        self.close()
        with suppress(OSError):
            self._pair = _pair(beyond=False)


def _pair(*, beyond: bool) -> tuple[HeldSocket, HeldSocket]:
    """One to wait with, and one to ring."""
    one, other = socket.socketpair()
    return HeldSocket(one, beyond=beyond), HeldSocket(other, beyond=beyond)
