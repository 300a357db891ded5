"""A background thread that programs under test can't notice: raw, and gone while they fork.

`threading` does not know it, all signals are blocked in it, its stack has a size of its own. At
most one runs at a time.
"""

from __future__ import annotations

import os
from _thread import allocate_lock, get_native_id
from collections.abc import Callable

from pytest_cideldill.interpreter import clock, stack_room


class RawThread:
    """The thread, started and stopped.

    Args:
        work: Called on the thread each time it is started, looks at `is_stopping`, raises nothing.
        wake: Ends what `work` waits in.
    """

    def __init__(self, work: Callable[[], None], wake: Callable[[], None]) -> None:
        self._work = work
        self._wake = wake
        self._running = allocate_lock()  # held by the thread for as long as it lives
        self._native_id = 0
        self._goes_on = False
        self.is_stopping = False

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._running.locked()

    def start(self) -> None:
        """Start it, unless it runs or the system refuses."""
        if not self._running.acquire(False):
            return
        self.is_stopping = False
        try:
            stack_room.start(self._run)
        except RuntimeError:  # no more threads, or the interpreter is ending: the next try may do
            self._running.release()

    def stop(self, deadline_s: float) -> None:
        """Have it end, and wait for that; it may be late."""
        self._goes_on, self.is_stopping = False, True
        if self.is_running:
            self._wake()
            if self._running.acquire(True, deadline_s):
                self._running.release()

    def go_on(self) -> None:
        """Take back a stop that may have been too late; one that has ended stays so.

        The thread has perhaps left the loop of its work already: then it works once more.
        """
        self._goes_on = self.is_running
        self.is_stopping = False

    def vanish(self, deadline_s: float) -> None:
        """Wait until the system counts it no more, which takes a little longer than its end."""
        deadline = clock.monotonic() + deadline_s
        while self._native_id and clock.monotonic() < deadline:
            if not os.path.exists(f"/proc/self/task/{self._native_id}"):
                self._native_id = 0

    def forget(self) -> None:
        """In a forked child: if the thread did not end in time nobody releases its lock."""
        self._running = allocate_lock()

    def _run(self) -> None:
        goes_on = True
        while goes_on:
            try:
                self._native_id = get_native_id()
                stack_room.without_signals()
                self._work()
            finally:
                self._running.release()  # at last: there is one thread, and `stop` waits for it
            goes_on = self._goes_on and self._running.acquire(False)
            self._goes_on = False
