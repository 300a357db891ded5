"""What the hot path leaves behind: rows, made into what is told of them later, on the I/O thread.

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
all that would have told of a call."""

Row = tuple[Any, ...]
"""Its first item makes the event's values of the row, on the I/O thread: `row[0](row)` gives
`{"type": …, "ts": …, …}`, plain and redacted. Of a hit it is the number of what does that: the
garbage collector leaves tuples of numbers and texts alone, and very many may wait."""


class Batch:
    """Rows of one event.

    Attributes:
        rows: As they were left behind; at least one.
        dropped: How many were lost before the first of them.
        tellings: What makes events of hits, by the numbers in the rows.
    """

    __slots__ = ("_told", "dropped", "rows", "tellings")

    def __init__(
        self,
        rows: list[Row],
        dropped: Mapping[Loss, int],
        tellings: Mapping[int, HitTelling],
    ) -> None:
        self.rows = rows
        self.dropped = dropped
        self.tellings = tellings
        self._told: Recorded | None = None

    def told(self) -> Recorded:
        """The event."""
        if self._told is None:
            find = self.tellings.get
            rows = [find(row[0], row[0])(row) for row in self.rows]
            if count := sum(self.dropped.values()):
                rows[0]["dropped"] = count
            if records := self.dropped.get("record"):
                rows[0]["lost"] = records
            self._told = Recorded(rows)
        return self._told


@dataclass(frozen=True, slots=True, eq=False)
class HitTelling:
    """Makes an event of type `hit` of a row.

    A row is `(number of the telling, moment, nodeid, thread, number of the pass, message)`.

    Attributes:
        breakpoint_id: Whose message it is.
        location: Where; one for all events, nobody changes it.
        text_of: Takes secrets out of a message. Long ones were redacted when they were cut.
        condition_error: The message tells that the condition raised.
    """

    breakpoint_id: str
    location: dict[str, Any]
    text_of: Callable[[str], str]
    condition_error: bool = False

    def __call__(self, row: Row) -> dict[str, Any]:
        """See the class."""
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
    """Where the hot path leaves rows; see `log.RowLog`."""

    def add(self, row: Row) -> None:
        """Leave one."""

    def number(self, telling: HitTelling) -> int:
        """What stands for a telling in rows."""
