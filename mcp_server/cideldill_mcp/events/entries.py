"""Entries of the event log: events, and rows of calls and hits as they came, a batch in one line.

There may be millions of rows, and hardly anybody reads them all. So events are made of a batch for
those who ask, and only of those of its series that may have what they want.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cideldill_mcp.fast_json import decode_line, encode_fast
from pytest_cideldill.protocol import Recorded
from pytest_cideldill.protocol.columns import rows_of, values_of

Event = dict[str, Any]
Admits = Callable[[Event], bool]

_SERIES = "series"
"""A key that the line of a batch has, and that of an event has not."""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event by itself; `line`: it as a line of the file."""

    event: Event
    line: bytes

    @property
    def last(self) -> int:
        """Its number."""
        return _seq(self.event)

    @property
    def run_id(self) -> str:
        """Its run; empty: it has none."""
        run_id: str = self.event.get("run_id", "")
        return run_id

    @property
    def counts(self) -> dict[str, int]:
        """As those of `LoggedRows`."""
        return {self.event["type"]: 1}

    def events(self, admits: Admits | None = None) -> list[Event]:
        """It, if a filter admits it."""
        return [self.event] if admits is None or admits(self.event) else []


@dataclass(frozen=True, slots=True)
class LoggedRows:
    """A batch of rows with the numbers `first`, `first + 1`, ….

    Attributes:
        line: The batch as a line of JSON: so it is kept, in memory and in the file.
        counts: Type → how many there are.
        newest: Type → the number of the newest row of it.
    """

    first: int
    line: bytes
    run_id: str
    counts: dict[str, int]
    newest: dict[str, int]

    @property
    def last(self) -> int:
        """The number of its newest row."""
        return self.first + sum(self.counts.values()) - 1

    def events(self, admits: Admits | None = None) -> list[Event]:
        """Its rows as events, oldest first: those that a filter admits; see `events_of`."""
        return events_of(decode_line(self.line), admits)

    def only_series(self) -> tuple[Event, dict[str, Sequence[Any]]] | None:
        """What all its rows have in common, and their columns; None: they are not one series."""
        batch = decode_line(self.line)
        if batch["rows"] or len(batch[_SERIES]) != 1:
            return None
        (series,) = batch[_SERIES]
        count, columns = series["count"], series["columns"]
        unpacked = {name: values_of(column, count) for name, column in columns.items()}
        return series["common"] | batch["values"], unpacked


Entry = LoggedEvent | LoggedRows


def logged(first: int, recorded: Recorded, values: Event) -> LoggedRows:
    """The rows of a process, which get their numbers.

    Args:
        first: The number of the first one.
        values: What all have: `run_id`, `worker`.

    Raises:
        ValueError: Their order is none.
    """
    counts: dict[str, int] = {}
    newest: dict[str, int] = {}
    of_rows, *of_series = recorded.places()
    kinds = [(row["type"], 1, place) for row, place in zip(recorded.rows, of_rows, strict=True)]
    for series, places in zip(recorded.series, of_series, strict=True):
        kinds.append((series["common"]["type"], series["count"], places[-1]))
    for type, count, last in kinds:
        counts[type] = counts.get(type, 0) + count
        newest[type] = max(first + last, newest.get(type, 0))
    plain = {
        "seq": first,
        "values": values,
        "rows": recorded.rows,
        _SERIES: recorded.series,
        "order": recorded.order,
    }
    return LoggedRows(first, encode_fast(plain) + b"\n", values["run_id"], counts, newest)


def is_batch(plain: Event) -> bool:
    """Whether a line of the log is one of a batch."""
    return _SERIES in plain


def events_of(batch: Event, admits: Admits | None = None) -> list[Event]:
    """The rows of a batch as events, oldest first.

    Args:
        batch: Its line, decoded.
        admits: Whether rows are wanted; asked with what those of a series have in common.
    """
    first, values = batch["seq"], batch["values"]
    recorded = Recorded(batch["rows"], batch[_SERIES], batch["order"])
    of_rows, *of_series = recorded.places()
    found = []
    for row, place in zip(recorded.rows, of_rows, strict=True):
        event = row | values | {"seq": first + place}
        if admits is None or admits(event):
            found.append(event)
    for series, places in zip(recorded.series, of_series, strict=True):
        common = series["common"] | values
        if admits is None or admits(common):
            seqs = [first + place for place in places]
            found += rows_of(
                series | {"common": common, "columns": {**series["columns"], "seq": seqs}}
            )
    if recorded.order:
        found.sort(key=_seq)
    return found


def _seq(event: Event) -> int:
    number: int = event["seq"]
    return number
