"""What the hot path leaves behind: one row per recorded call, made into events in batches.

A row is appended by the thread of the program (a tuple and a deque: no lock, no system call, no
object of ours); the link's I/O thread takes the batch before it sends anything, at the latest
`link.BATCH_S` after the first row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from pytest_cideldill.wire import CallsRecorded
from pytest_cideldill.wire import Event
from pytest_cideldill.wire import Warned

MAX_WAITING = 200_000
"""Rows that may wait; beyond it the oldest are dropped and counted."""

MAX_BATCH = 1_000
"""Rows of one event."""


Row = tuple[float, float, str, str | None, int, str, str | None, str | None]
"""Started at (epoch seconds), seconds, function, node id, thread, arguments, result, exception."""


class CallLog:
    """See the module.

    Args:
        nudge: Tells the link that something lies ready; called for the first row of a batch only.
    """

    def __init__(self, nudge: Callable[[], None]) -> None:
        self._nudge = nudge
        self._rows: deque[tuple[Any, ...]] = deque(maxlen=MAX_WAITING)
        self._is_nudged = False
        self._dropped = 0

    def add(self, row: tuple[Any, ...]) -> None:
        """Append a `Row`; on the hot path."""
        if len(self._rows) >= MAX_WAITING:
            self._dropped += 1
        self._rows.append(row)
        if not self._is_nudged:
            self._is_nudged = True
            self._nudge()

    def take(self) -> list[Event]:
        """The events of the rows that wait; on the I/O thread."""
        self._is_nudged = False  # before the rows are read: a later one nudges again
        events: list[Event] = []
        left = len(self._rows)  # those that come meanwhile must not hold up a stop behind them
        while left:
            count = min(left, MAX_BATCH)
            left -= count
            events.append(CallsRecorded([_told(self._rows.popleft()) for _ in range(count)]))
        if self._dropped:
            events.append(Warned(f"{self._dropped} recorded calls were dropped: too many at once"))
            self._dropped = 0
        return events


def _told(row: tuple[Any, ...]) -> dict[str, Any]:
    started_at, duration_s, function, nodeid, thread, args, result, exception = row
    told: dict[str, Any] = {
        "ts": started_at,
        "duration_s": round(duration_s, 7),
        "function": function,
        "nodeid": nodeid,
        "thread": thread,
        "args": args,
        "status": "success" if exception is None else "exception",
    }
    if exception is None:
        return told | {"result": result}
    return told | {"exception": exception}
