"""Event logs for tests: filled, and read without a loop around."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from cideldill_mcp.events.log import EventLog, EventPage, Filter

ALL = Filter()

R = TypeVar("R")


def fill(log: EventLog, count: int, **values: Any) -> None:
    """Append calls of run `r1`, with a `number` from 0."""
    for number in range(count):
        log.append("call", **{"run_id": "r1", "number": number, **values})


def numbers(events: list[dict[str, Any]]) -> list[int]:
    """Their `seq`."""
    return [event["seq"] for event in events]


def page(log: EventLog, after: int = 0, limit: int = 1_000, wanted: Filter = ALL) -> EventPage:
    """What `read` answers."""
    return alone(log.read(after, limit, wanted))


def alone(reading: Coroutine[Any, Any, R]) -> R:
    """The result of what only lets others have their turn; a loop for each would take longer."""
    while True:
        try:
            reading.send(None)
        except StopIteration as done:
            result: R = done.value
            return result
