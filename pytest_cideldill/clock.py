"""Time that users can't freeze: tests patch `time`, and our leases and stamps must not follow."""

from __future__ import annotations

import time
from collections.abc import Callable

# Libraries that freeze time replace functions in modules, but don't look into tuples; some change
# what `time.monotonic` does in C, wherever it is kept. The same clock of the system is left alone
# where it is called a counter.
_MONOTONIC = (time.perf_counter,)
_SLEEP = (time.sleep,)
_EPOCH = time.time() - time.perf_counter()


def monotonic() -> float:
    """Seconds on a clock that only goes forward."""
    return _MONOTONIC[0]()


def ticking() -> Callable[[], float]:
    """What `monotonic` calls, for hot paths; to be kept in no global (see above)."""
    return _MONOTONIC[0]


def wall_at(moment: float) -> float:
    """Epoch seconds of a moment of `monotonic`."""
    return _EPOCH + moment


def wall() -> float:
    """Epoch seconds, from the start of this process on immune to patches and clock changes."""
    return _EPOCH + _MONOTONIC[0]()


def sleep(seconds: float) -> None:
    """Let other threads run for so long; 0: for a moment."""
    _SLEEP[0](seconds)
