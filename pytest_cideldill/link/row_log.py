"""The log of rows: the hot path leaves one per recorded call or hit, the I/O thread takes batches.

A row is appended by the thread of the program (a tuple and a deque: no lock, no system call, no
object of ours); the link's I/O thread takes the batch before it sends anything, at the latest
`link.BATCH_S` (of a file `FILE_BATCH_S`) after the first row.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import repeat, starmap
from typing import Any

from pytest_cideldill.interpreter import clock
from pytest_cideldill.protocol import Event, Warned
from pytest_cideldill.protocol.rows import Batch, HitFormat, Loss, Row

MAX_WAITING = 200_000
"""Rows that may wait; beyond it the oldest are dropped, and the next one sent says how many."""

MAX_BATCH = 500
"""Rows of one event. Their lines in a file stay below the 128 KiB from which on the C library asks
the system for memory anew each time, which costs a tenth of a hit."""

BEHIND_S = 0.2
"""If the I/O thread needs more than this for the rows that wait, a thread that adds one of a call
waits a little, until it needs less than `CAUGHT_UP_S`. Beside threads that keep the interpreter's
lock two thousand rows are many: what follows them would come late, and they be dropped. Hits don't
wait: they may be very many, and have limits."""

CAUGHT_UP_S = 0.05

STEP_S = 0.001
"""For each of these rows."""

EASED_S = 1.0
"""And no longer than this unless it took some: maybe nobody reads, or the I/O thread has ended."""

MAX_LATE = 100
"""Rows that are left before an item that is late; each may take milliseconds."""


class RowLog:
    """Rows that wait for the I/O thread, and how many were dropped.

    Args:
        nudge: Wakes the link as something lies ready; called for the first row of a batch only.
        has_room: Whether more of what waits can be taken now; else it is asked for again.

    Attributes:
        loses: Asked on the hot path about a row that is dropped; the default until it is set.
    """

    def __init__(
        self, nudge: Callable[[], None], has_room: Callable[[], bool] = lambda: True
    ) -> None:
        self._nudge = nudge
        self._has_room = has_room
        self.loses: Callable[[Row], Loss] = _record
        self._rows: deque[Row | _Mark] = deque()
        self._formats: dict[int, HitFormat] = {}
        self._numbers: dict[tuple[object, ...], int] = {}
        self._next_number = itertools.count().__next__
        # Items whose marks were passed, by id: of those that are not sent yet.
        self._passed: dict[int, object] = {}
        self._is_nudged = False
        self._limit = MAX_WAITING  # waiting rows from which on adding one takes more than that
        self._eased_at = 0.0  # a moment
        self._looked = 0.0  # the moment of the last batch; 0: nothing was left since
        self._warned: set[str] = set()
        self._drops: dict[Loss, _Drops] = {"hit": _Drops(), "call": _Drops(), "record": _Drops()}

    def add(self, row: Row) -> None:
        """On the hot path."""
        if len(self._rows) >= self._limit:
            self._make_room(row)
        self._rows.append(row)
        if not self._is_nudged:
            self._is_nudged = True
            try:
                self._nudge()
            except RecursionError:  # the row is here; the next one is added where there is room
                self._is_nudged = False

    def number(self, hit_format: HitFormat) -> int:
        """The number of a format in rows, the same for equal ones; any thread, no hot path."""
        place = hit_format.location.values()
        what = (hit_format.breakpoint_id, hit_format.condition_error, *place)
        number = self._numbers.setdefault(what, self._next_number())
        self._formats.setdefault(number, hit_format)
        return number

    def mark(self, item: object) -> None:
        """Remember what was there before an item that is sent otherwise; any thread."""
        self._rows.append(_Mark(item))

    def take(self, until: object = None, is_late: bool = False) -> Iterator[Event]:
        """What `batches` gives, as events for a front end."""
        for batch in self.batches(until, is_late):
            yield batch.event() if isinstance(batch, Batch) else batch

    def batches(self, until: object = None, is_late: bool = False) -> Iterable[Batch | Event]:
        """The rows before the mark of an item, and what became of others; on the I/O thread.

        With None those of one batch, up to any mark; of an item without a mark all that wait now:
        what comes meanwhile must not hold up a stop. Of an item that is late those of the last
        `MAX_LATE` rows; the first one says how many were dropped.
        """
        return () if until is not None and self.is_next(until) else self._taken(until, is_late)

    def is_next(self, item: object) -> bool:
        """Whether no row waits before an item; its mark is gone then. The usual case, and quick."""
        with suppress(IndexError):
            first = self._rows.popleft()
            if isinstance(first, _Mark) and first.item is item:
                self._note_rest()
                return True
            self._rows.appendleft(first)
        return False

    def _taken(self, until: object, is_late: bool) -> Iterator[Batch | Event]:
        self._is_nudged = False  # before the rows are read: a later one nudges again
        if is_late:
            self._drop_before(until)
        left = len(self._rows)
        while left > 0 and (rows := self._batch(min(left, MAX_BATCH), until)):
            left = left - len(rows) if until is not None else 0
            # After the rows are taken: whatever is dropped later has a row behind it that waits.
            dropped = {loss: count for loss, drops in self._drops.items() if (count := drops.new())}
            yield from self._warnings(dropped)
            begun = clock.monotonic()
            yield Batch(rows, dropped, self._formats)
            self._look_ahead(rows, begun)
            if left > 0 and id(until) not in self._passed and not self._has_room():
                return
        self._passed.pop(id(until), None)
        self._note_rest()

    def _note_rest(self) -> None:
        """Time in which nothing waits is no time that rows take."""
        if not self._rows:
            self._looked = 0.0

    def _warnings(self, dropped: dict[Loss, int]) -> Iterator[Event]:
        """Of each kind one: they would be many."""
        for kind in sorted({"hits" if loss == "hit" else "recorded calls" for loss in dropped}):
            if kind not in self._warned:
                self._warned.add(kind)
                yield Warned(f"{kind} were dropped: too many at once; debug_state counts them")

    def _batch(self, count: int, until: object) -> list[Row]:
        rows: list[Row] = []
        while not rows and id(until) not in self._passed and (taken := self._popped(count)):
            if _Mark not in map(type, taken):  # there may be very many, and hardly a mark
                return taken
            for at, row in enumerate(taken, 1):
                if not isinstance(row, _Mark):
                    rows.append(row)
                elif until is None:
                    self._rows.extendleft(reversed(taken[at - 1 :]))
                    return rows
                else:
                    self._passed[id(row.item)] = row.item
                    if row.item is until:
                        self._rows.extendleft(reversed(taken[at:]))
                        break
        return rows

    def _popped(self, count: int) -> list[Any]:
        taken: list[Any] = []
        with suppress(IndexError):  # a thread dropped one, and has not appended its own yet
            taken.extend(starmap(self._rows.popleft, repeat((), count)))
        return taken

    def _drop_before(self, item: object) -> None:
        """Leave few rows before the mark of an item."""
        if id(item) in self._passed:
            return
        rows: list[Row] = []
        mark: list[_Mark] = []
        for _ in range(len(self._rows)):
            try:
                row = self._rows.popleft()
            except IndexError:  # threads drop some, too
                break
            if not isinstance(row, _Mark):
                rows.append(row)
            elif row.item is item:
                mark.append(row)
                break
            else:
                self._passed[id(row.item)] = row.item
        for row in rows[:-MAX_LATE]:
            self._drops[self.loses(row)].count()
        self._rows.extendleft(reversed([*rows[-MAX_LATE:], *mark]))

    def _look_ahead(self, rows: list[Row], begun: float) -> None:
        """Have threads that add rows wait, or not, by how long these took, and what is left."""
        now, left = clock.monotonic(), len(self._rows)
        took_s = now - (self._looked or begun)
        self._looked = now
        left_s = left / len(rows) * took_s
        if self._limit != MAX_WAITING:
            if left_s < CAUGHT_UP_S:
                self._limit = MAX_WAITING
        elif left_s > BEHIND_S and not _is_hit(rows[-1]):
            self._limit, self._eased_at = 0, now + EASED_S

    def _make_room(self, row: Row) -> None:
        if len(self._rows) >= MAX_WAITING:
            self._drop_oldest()
        elif clock.monotonic() > self._eased_at:
            self._limit = MAX_WAITING
        elif not _is_hit(row):
            clock.sleep(STEP_S)

    def _drop_oldest(self) -> None:
        try:
            while isinstance(row := self._rows.popleft(), _Mark):
                self._passed[id(row.item)] = row.item
        except IndexError:  # taken meanwhile
            return
        self._drops[self.loses(row)].count()


def _record(_row: Row) -> Loss:
    return "record"


def _is_hit(row: Row) -> bool:
    return type(row[0]) is int


class _Mark:
    """Stands among the rows for an item of the link's queue."""

    __slots__ = ("item",)

    def __init__(self, item: object) -> None:
        self.item = item


class _Drops:
    """Counts rows that were dropped without a lock: one C call for each, and one per look.

    Attributes:
        count: `count()`: one more.
    """

    __slots__ = ("_next", "count")

    def __init__(self) -> None:
        self.count = itertools.count().__next__
        self._next = 0

    def new(self) -> int:
        """How many were counted since this was asked last."""
        number = self.count()
        new, self._next = number - self._next, number + 1
        return new
