"""A clock that tests can't freeze, for our leases and stamps.

In processes under test the sealed room keeps patches of `time` away. Some libraries change
`time.monotonic` in C, for all modules; they leave `time.perf_counter` alone, which is the same
clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_EPOCH = time.time() - time.perf_counter()


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
