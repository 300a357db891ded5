"""Time that users can't freeze: our leases and stamps must not follow theirs.

Beside tests the sealed room keeps patches of `time` away. Some libraries change `time.monotonic`
in C, for all who have it; they leave the same clock alone where it is called a counter.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_EPOCH = time.time() - time.perf_counter()


def monotonic() -> float:
    """Seconds on a clock that only goes forward."""
    return time.perf_counter()


def ticking() -> Callable[[], float]:
    """What `monotonic` calls, for hot paths; to be kept in no global, where fakers find it."""
    return time.perf_counter


def wall_at(moment: float) -> float:
    """Epoch seconds of a moment of `monotonic`."""
    return _EPOCH + moment


def wall() -> float:
    """Epoch seconds, from the start of this process on immune to patches and clock changes."""
    return _EPOCH + time.perf_counter()


def sleep(seconds: float) -> None:
    """Let other threads run for so long; 0: for a moment."""
    time.sleep(seconds)
