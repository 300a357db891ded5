"""Time that users can't freeze: tests patch `time`, and our leases and stamps must not follow."""

from __future__ import annotations

import time
from collections.abc import Callable

# Libraries that freeze time replace module-level aliases of its functions, but don't look into
# tuples.
_MONOTONIC = (time.monotonic,)
_SLEEP = (time.sleep,)
_EPOCH = time.time() - time.monotonic()


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
