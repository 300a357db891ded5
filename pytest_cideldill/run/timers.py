"""Time stands still for a paused test: its alarm is put off, its durations don't count the pause.

Used by the gate on the thread that parks; read by the report hooks on the main thread.
"""

from __future__ import annotations

import signal
from _thread import get_ident
from collections.abc import Iterator
from contextlib import contextmanager

from pytest_cideldill import clock

_setitimer = getattr(signal, "setitimer", None)  # tests patch `signal`


class PauseClock:
    """Remembers when the thread that runs the tests was parked; made on that thread."""

    def __init__(self) -> None:
        self._main = get_ident()
        # (start, stop) in epoch seconds; appended by the main thread only.
        self._intervals: list[tuple[float, float]] = []

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Entered by a thread for as long as it is parked.

        Other threads run on meanwhile, so only the main thread's pauses stop timers and durations.
        """
        if get_ident() != self._main:
            yield
            return
        left = _setitimer(signal.ITIMER_REAL, 0) if _setitimer else (0.0, 0.0)
        start = clock.wall()
        try:
            yield
        finally:
            self._intervals.append((start, clock.wall()))
            if left[0] and _setitimer:
                _setitimer(signal.ITIMER_REAL, *left)

    def overlap(self, start: float, stop: float) -> float:
        """Seconds between two epoch times that were spent paused."""
        return sum(max(0.0, min(b, stop) - max(a, start)) for a, b in self._intervals)
