"""Rows: what the hot path leaves behind. The I/O thread makes events of them later.

A row is a tuple; its first item makes the event's values of it. Front ends get these values. A file
takes rows of hits, of which there may be very many, as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.protocol import Recorded

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

    __slots__ = ("_event", "dropped", "formats", "rows")

    def __init__(
        self, rows: list[Row], dropped: Mapping[Loss, int], formats: Mapping[int, HitFormat]
    ) -> None:
        self.rows = rows
        self.dropped = dropped
        self.formats = formats
        self._event: Recorded | None = None

    def event(self) -> Recorded:
        """The event for a front end; made once."""
        if self._event is None:
            find = self.formats.get
            rows = [find(row[0], row[0])(row) for row in self.rows]
            if count := sum(self.dropped.values()):
                rows[0]["dropped"] = count
            if records := self.dropped.get("record"):
                rows[0]["lost"] = records
            self._event = Recorded(rows)
        return self._event


@dataclass(frozen=True, slots=True, eq=False)
class HitFormat:
    """Makes events of type `hit` of the rows of one breakpoint.

    A row is `(number of the format, moment, nodeid, thread, number of the pass, message)`.

    Attributes:
        breakpoint_id: The breakpoint that sends the message.
        location: Where; one for all events, nobody changes it.
        text_of: Takes secrets out of a message. Long ones were redacted when they were cut.
        condition_error: The message says that the condition raised.
    """

    breakpoint_id: str
    location: dict[str, Any]
    text_of: Callable[[str], str]
    condition_error: bool = False

    def __call__(self, row: Row) -> dict[str, Any]:
        """Make the event of a row."""
        _, moment, nodeid, thread, number, text = row
        values = {
            "type": "hit",
            "ts": clock.wall_at(moment),
            "nodeid": nodeid,
            "thread": thread,
            "breakpoint_id": self.breakpoint_id,
            "location": self.location,
            "hit_count": number,
            "message": self.text_of(text),
        }
        if self.condition_error:
            values["condition_error"] = True
        return values


class RowSink(Protocol):
    """Where the hot path leaves rows; see `link.row_log.RowLog`."""

    def add(self, row: Row) -> None:
        """Leave one."""

    def number(self, hit_format: HitFormat) -> int:
        """The number of a format in rows."""
