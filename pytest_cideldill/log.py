"""What the hot path leaves behind: one row per recorded call or hit, made into events in batches.

A row is appended by the thread of the program (a tuple and a deque: no lock, no system call, no
object of ours); the link's I/O thread takes the batch before it sends anything, at the latest
`link.BATCH_S` after the first row.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any
from typing import Literal

from pytest_cideldill.wire import Event
from pytest_cideldill.wire import Recorded
from pytest_cideldill.wire import Warned

MAX_WAITING = 200_000
"""Rows that may wait; beyond it the oldest are dropped, and the next one told says how many."""

MAX_BATCH = 1_000
"""Rows of one event."""


Loss = Literal["hit", "call", "record"]
"""What a dropped row was: a message of a tracepoint, a call that has a record by another row, or
all that would have told of a call."""

Row = tuple[Any, ...]
"""Its first item makes the event's values of the row, on the I/O thread: `row[0](row)` gives
`{"type": …, "ts": …, …}`, plain and redacted."""


class RowLog:
    """See the module.

    Args:
        nudge: Tells the link that something lies ready; called for the first row of a batch only.
        loses: Asked on the hot path about a row that is dropped.
    """

    def __init__(
        self, nudge: Callable[[], None], loses: Callable[[Row], Loss] = lambda _row: "record"
    ) -> None:
        self._nudge = nudge
        self._loses = loses
        self._rows: deque[Row] = deque()
        self._is_nudged = False
        self._drops: dict[Loss, _Drops] = {"hit": _Drops(), "call": _Drops(), "record": _Drops()}

    def add(self, row: Row) -> None:
        """On the hot path."""
        if len(self._rows) >= MAX_WAITING:
            self._drop_oldest()
        self._rows.append(row)
        if not self._is_nudged:
            self._is_nudged = True
            self._nudge()

    def take(self, everything: bool = True) -> Iterator[Event]:
        """The events of the rows that wait now, or of one batch of them; on the I/O thread."""
        self._is_nudged = False  # before the rows are read: a later one nudges again
        # Those that come meanwhile must not hold up a stop behind them.
        left = len(self._rows) if everything else min(len(self._rows), MAX_BATCH)
        hits, calls, records = (self._drops[each].untold() for each in ("hit", "call", "record"))
        dropped = hits + calls + records
        is_first = True
        while left and (rows := self._batch(min(left, MAX_BATCH))):
            left -= len(rows)
            if is_first and dropped:
                rows[0]["dropped"] = dropped
                if records:
                    rows[0]["lost"] = records
                for each in self._drops.values():
                    each.told()
            is_first = False
            yield Recorded(rows)
        if dropped and not is_first:
            counts = {"recorded calls": calls + records, "hits": hits}
            shown = [f"{count} {name}" for name, count in counts.items() if count]
            yield Warned(f"{' and '.join(shown)} were dropped: too many at once")

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
            row = self._rows.popleft()
        except IndexError:  # taken meanwhile
            return
        self._drops[self._loses(row)].count()


class _Drops:
    """Counts rows that were dropped without a lock: one C call for each, and one per look.

    Attributes:
        count: `count()`: one more.
    """

    __slots__ = ("_next", "_untold", "count")

    def __init__(self) -> None:
        self.count = itertools.count().__next__
        self._next = 0
        self._untold = 0

    def untold(self) -> int:
        """Those not told yet. A row follows behind each, and can tell of it."""
        number = self.count()
        self._untold += number - self._next
        self._next = number + 1
        return self._untold

    def told(self) -> None:
        """Those that the last look found have been told."""
        self._untold = 0
