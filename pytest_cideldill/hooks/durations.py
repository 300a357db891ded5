"""The time that tests are paused: their durations don't count it.

Written by the gate on the thread that parks; read by the report hooks on the main thread.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Iterator
from contextlib import contextmanager

from pytest_cideldill.interpreter import clock


class PauseClock:
    """Remembers when the thread that runs the tests was parked; made on that thread."""

    def __init__(self) -> None:
        self._main = get_ident()
        # (start, stop) of `clock.monotonic`; appended by the main thread only.
        self._intervals: list[tuple[float, float]] = []

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Entered by a thread for as long as it is parked; other threads run on meanwhile."""
        start = clock.monotonic()
        try:
            yield
        finally:
            if get_ident() == self._main:
                self._intervals.append((start, clock.monotonic()))

    def within(self, duration_s: float) -> float:
        """Seconds of the last ones that were spent paused.

        Not between two times of the program, which may have moved its clock.
        """
        if not self._intervals:  # asked for each report, of which there may be very many
            return 0.0
        stop = clock.monotonic()
        start = stop - duration_s
        return sum(max(0.0, min(b, stop) - max(a, start)) for a, b in self._intervals)
