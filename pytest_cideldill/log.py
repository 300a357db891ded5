"""What the hot path leaves behind: one row per recorded call or hit, made into events in batches.

A row is appended by the thread of the program (a tuple and a deque: no lock, no system call, no
object of ours); the link's I/O thread takes the batch before it sends anything, at the latest
`link.BATCH_S` after the first row.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

from pytest_cideldill.wire import Event
from pytest_cideldill.wire import Recorded
from pytest_cideldill.wire import Warned

MAX_WAITING = 200_000
"""Rows that may wait; beyond it the oldest are dropped, and the next one told says how many."""

MAX_BATCH = 1_000
"""Rows of one event."""


Row = tuple[Any, ...]
"""Its first item makes the event's values of the row, on the I/O thread: `row[0](row)` gives
`{"type": …, "ts": …, …}`, plain and redacted."""


class RowLog:
    """See the module.

    Args:
        nudge: Tells the link that something lies ready; called for the first row of a batch only.
    """

    def __init__(self, nudge: Callable[[], None]) -> None:
        self._nudge = nudge
        self._rows: deque[Row] = deque()
        self._is_nudged = False
        # Counts without a lock: one C call per dropped row, and one per look (see `_new_drops`).
        self._drops = itertools.count()
        self._next_drop = 0
        self._untold_drops = 0

    def add(self, row: Row) -> None:
        """On the hot path."""
        if len(self._rows) >= MAX_WAITING:
            self._drop_oldest()
        self._rows.append(row)
        if not self._is_nudged:
            self._is_nudged = True
            self._nudge()

    def take(self) -> list[Event]:
        """The events of the rows that wait; on the I/O thread."""
        self._is_nudged = False  # before the rows are read: a later one nudges again
        events: list[Event] = []
        left = len(self._rows)  # those that come meanwhile must not hold up a stop behind them
        self._untold_drops += self._new_drops()
        while left and (rows := self._batch(min(left, MAX_BATCH))):
            left -= len(rows)
            if not events and self._untold_drops:
                rows[0]["dropped"] = self._untold_drops
            events.append(Recorded(rows))
        if events and self._untold_drops:
            told = f"{self._untold_drops} recorded calls or hits were dropped: too many at once"
            events.append(Warned(told))
            self._untold_drops = 0
        return events

    def _batch(self, count: int) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = []
        while len(told) < count:
            try:
                row = self._rows.popleft()
            except IndexError:  # a thread dropped one, and has not appended its own yet
                break
            told.append(row[0](row))
        return told

    def _drop_oldest(self) -> None:
        try:
            self._rows.popleft()
        except IndexError:  # taken meanwhile
            return
        next(self._drops)

    def _new_drops(self) -> int:
        """Rows dropped since the last look. A row follows behind each, and can tell of it."""
        number = next(self._drops)
        new = number - self._next_drop
        self._next_drop = number + 1
        return new
