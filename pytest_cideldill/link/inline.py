"""The link of a run that is only recorded: each event is written by the thread that sends it.

There nobody reads slowly and no thread is parked, so no thread of ours is needed, which the tests
would have to share the interpreter with, and a process that is killed has written all that it sent.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections import deque
from collections.abc import Sequence

from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.borders import at_fork
from pytest_cideldill.link.sinks import Outlet
from pytest_cideldill.protocol import Event
from pytest_cideldill.protocol.rows import Batch


class FileLink:
    """A link to outlets that take everything at once.

    Guarantees: events are written in the order of `send`; after a fork the child's link is dead.

    Args:
        outlets: This link closes them.
    """

    def __init__(self, outlets: Sequence[Outlet]) -> None:
        self._outlets = list(outlets)
        # Appended by any thread, drained by the one that writes; deque operations are atomic.
        self._queue: deque[tuple[float, Event | Batch]] = deque()
        # To send it is only tried: events come from several threads, and from finalizers of the one
        # that is writing.
        self._writing = allocate_lock()
        self._dead = False
        at_fork(after_in_child=self._after_fork_in_child)

    @property
    def is_open(self) -> bool:
        """Whether anything that is sent is written."""
        return not self._dead

    def start(self) -> None:
        """There is nothing to start."""

    def send(self, event: Event | Batch, *, urgent: bool = False) -> None:  # noqa: ARG002
        """Write an event, or leave it to the thread that is writing; never raises."""
        if self._dead:
            return
        self._queue.append((clock.wall(), event))
        while self._queue and not self._dead and self._writing.acquire(False):
            try:
                self._write()
            except Exception:  # noqa: BLE001 - a border: a bug of ours must not fail the test
                self._end()
            finally:
                self._writing.release()

    def settle(self) -> None:
        """There is nothing to wait for."""

    def flush(self, deadline_s: float) -> bool:
        """Wait until everything sent so far is written; False when the deadline passed first."""
        if self._dead or not self._writing.acquire(True, deadline_s):
            return False
        self._writing.release()
        return True

    def close(self, deadline_s: float) -> None:
        """Take nothing any more, from when nothing is being written."""
        is_free = self._writing.acquire(True, deadline_s)
        self._end()
        if is_free:
            self._writing.release()

    def _write(self) -> None:
        while self._queue and not self._dead:
            ts, event = self._queue.popleft()
            for outlet in self._outlets:
                outlet.encode(ts, event)
                outlet.send()

    def _end(self) -> None:
        self._dead = True
        self._queue.clear()
        for outlet in self._outlets:
            outlet.close()

    def _after_fork_in_child(self) -> None:
        self._writing = allocate_lock()  # a thread that is not here may have it
        self._end()
