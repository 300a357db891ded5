"""A clock that tests can't freeze, for our leases and stamps.

In processes under test the sealed room keeps patches of `time` away. Some libraries change
`time.monotonic` in C, for all modules; they leave `time.perf_counter` alone, which is the same
clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_EPOCH = time.time() - time.perf_counter()

_BUSY_S: Final = 0.5
"""How much longer a deadline is at most, because other processes had the processor."""


def monotonic() -> float:
    """Seconds on a clock that only goes forward."""
    return time.perf_counter()


def ticking() -> Callable[[], float]:
    """The function behind `monotonic`, for hot paths. Not to be kept in a global, where libraries
    that fake time find it.
    """
    return time.perf_counter


def wall_at(moment: float) -> float:
    """Epoch seconds of a moment of `monotonic`."""
    return _EPOCH + moment


def wall() -> float:
    """Epoch seconds that ignore patches and changes of the clock since the start of the process."""
    return _EPOCH + time.perf_counter()


def sleep(seconds: float) -> None:
    """Let other threads run for so long; with 0 for a moment."""
    time.sleep(seconds)


class Deadline:
    """The end of a piece of work that a test waits for, also on a machine that is busy.

    When its seconds are over, the thread may have had none of them: other processes had the
    processor. Then it gets as many seconds of the processor's time, within ten times as many on
    the clock. A value is not cut or given another id because the machine had other work.
    """

    __slots__ = ("_due", "_last", "_seconds", "_worked")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due = time.perf_counter() + seconds
        # Both are set when the seconds are over: the end on the clock, and in `thread_time`.
        self._last = self._worked = 0.0

    def is_over(self) -> bool:
        """Whether the work is to be left. To be asked by the thread that works."""
        now = time.perf_counter()
        return now > self._due and self._has_worked(now)

    def seconds_left(self) -> float:
        """On the clock; negative when they are over."""
        return self._due - time.perf_counter()

    def _has_worked(self, now: float) -> bool:
        worked = time.thread_time()
        if not self._worked:
            self._last = self._due + max(self._seconds, _BUSY_S)
            self._worked = worked + self._seconds
        return now > self._last or worked > self._worked
