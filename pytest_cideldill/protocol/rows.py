"""Rows: what the hot path leaves behind. The I/O thread makes events of them later.

A row is a tuple; its first item makes the event's values of it. Front ends get rows of hits and of
most calls, of which there may be very many, as columns (`columns`), the others as their values. A
file takes rows of hits as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, Literal, Protocol

from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.protocol import Recorded, columns
from pytest_cideldill.protocol.call_rows import CallMaker, Calls
from pytest_cideldill.protocol.columns import Series

Loss = Literal["hit", "call", "record"]
"""What a dropped row was: a message of a tracepoint, a call that has a record by another row, or
the only row of a call."""

Row = tuple[Any, ...]
"""Its first item makes the event's values of the row, on the I/O thread: `row[0](row)` gives
`{"type": …, "ts": …, …}`, plain and redacted. Of a hit it is the number of its `HitFormat`:
the garbage collector leaves tuples of numbers and texts alone, and very many may wait."""


class Batch:
    """Rows of one event.

    Attributes:
        rows: As they were left behind; at least one.
        dropped: How many were lost before the first of them.
        formats: The formats of hits, by their numbers in the rows.
    """

    __slots__ = ("_calls", "_event", "dropped", "formats", "rows")

    def __init__(
        self, rows: list[Row], dropped: Mapping[Loss, int], formats: Mapping[int, HitFormat]
    ) -> None:
        self.rows = rows
        self.dropped = dropped
        self.formats = formats
        self._event: Recorded | None = None
        self._calls: list[Calls] | None = None

    def event(self) -> Recorded:
        """The event for a front end; made once."""
        if self._event is None:
            plain, series, order = self._parted()
            self._event = Recorded(
                plain, series, order, sum(self.dropped.values()), self.dropped.get("record", 0)
            )
        return self._event

    @property
    def calls(self) -> list[Calls]:
        """The calls among the rows that can be handled together; worked out once."""
        if self._calls is None:
            firsts = {id(first): first for first in map(_first, self.rows)}
            makers = [each for each in firsts.values() if isinstance(each, CallMaker)]
            self._calls = [calls for each in makers for calls in each.together(self.rows)]
        return self._calls

    def _parted(self) -> tuple[list[dict[str, Any]], list[Series], str]:
        """Rows that stand alone, those in series, and their order."""
        rows = self.rows
        only = self._only_format()
        if only is not None:
            return [], [only.series(rows)], ""
        calls = self.calls
        if len(calls) == 1 and len(calls[0].at) == len(rows):
            return [], [calls[0].series()], ""
        in_calls = {place: number for number, call in enumerate(calls, 1) for place in call.at}
        plain: list[dict[str, Any]] = []
        series: dict[Any, list[Row]] = {}
        order = []
        numbers: dict[Any, int] = {}
        for place, row in enumerate(rows):
            hit_format = self.formats.get(row[0])
            if place in in_calls:
                order.append(in_calls[place])
                continue
            if hit_format is None:
                plain.append(row[0](row))
                order.append(0)
                continue
            key = (hit_format, *_shared(row))
            if key not in numbers:
                numbers[key], series[key] = len(calls) + len(numbers) + 1, []
            series[key].append(row)
            order.append(numbers[key])
        made = [call.series() for call in calls]
        made += [key[0].series(those) for key, those in series.items()]
        return plain, made, columns.order(order) if made else ""

    def _only_format(self) -> HitFormat | None:
        """The format of all rows, if they are one series: the usual case, by C code."""
        first = self.rows[0]
        hit_format = self.formats.get(first[0])
        if hit_format is None:
            return None
        for place in _IN_SERIES:
            if list(map(itemgetter(place), self.rows)).count(first[place]) != len(self.rows):
                return None
        return hit_format


_IN_SERIES: Final = (0, 2, 3)
"""Items of a row of a hit that are equal in a series."""

_first: Final = itemgetter(0)
_shared: Final = itemgetter(*_IN_SERIES[1:])


@dataclass(frozen=True, slots=True, eq=False)
class HitFormat:
    """Makes events of type `hit` of the rows of one breakpoint.

    A row is `(number of the format, moment, nodeid, thread, number of the pass, message)`.

    Attributes:
        breakpoint_id: The breakpoint that sends the message.
        location: Where; one for all events, nobody changes it.
        text_of: Takes secrets out of a message. Long ones were redacted when they were cut.
        condition_error: The message says that the condition raised.
        is_plain: Whether there is certainly no secret in a text; `text_of` need not be asked then.
    """

    breakpoint_id: str
    location: dict[str, Any]
    text_of: Callable[[str], str]
    condition_error: bool = False
    is_plain: Callable[[str], bool] = lambda _text: False

    def __call__(self, row: Row) -> dict[str, Any]:
        """Make the event of a row."""
        _, moment, nodeid, thread, number, text = row
        return self._common(nodeid, thread) | {
            "ts": clock.wall_at(moment),
            "hit_count": number,
            "message": self.text_of(text),
        }

    def series(self, rows: Sequence[Row]) -> Series:
        """The series of rows of one test and thread."""
        _, moments, nodeids, threads, numbers, texts = zip(*rows, strict=True)
        if not self.is_plain("\n".join(texts)):
            texts = tuple(map(self.text_of, texts))
        return {
            "count": len(rows),
            "common": self._common(nodeids[0], threads[0]),
            "columns": {
                "ts": columns.floats(moments, clock.wall_at(0.0)),
                "hit_count": columns.integers(numbers),
                "message": columns.texts(texts),
            },
        }

    def _common(self, nodeid: str | None, thread: int) -> dict[str, Any]:
        values = {
            "type": "hit",
            "nodeid": nodeid,
            "thread": thread,
            "breakpoint_id": self.breakpoint_id,
            "location": self.location,
        }
        return values | {"condition_error": True} if self.condition_error else values


class RowSink(Protocol):
    """Where the hot path leaves rows; see `link.row_log.RowLog`."""

    def add(self, row: Row) -> None:
        """Leave one."""

    def number(self, hit_format: HitFormat) -> int:
        """The number of a format in rows."""
