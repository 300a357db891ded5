"""Time that users can't freeze: tests patch `time`, and our leases and stamps must not follow."""

from __future__ import annotations

import time

# Libraries that freeze time replace module-level aliases of its functions, but don't look into
# tuples.
_MONOTONIC = (time.monotonic,)
_EPOCH = time.time() - time.monotonic()


def monotonic() -> float:
    """Seconds on a clock that only goes forward."""
    return _MONOTONIC[0]()


def wall() -> float:
    """Epoch seconds, from the start of this process on immune to patches and clock changes."""
    return _EPOCH + _MONOTONIC[0]()
