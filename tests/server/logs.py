"""Event logs for tests: filled, and read without a loop around."""

from __future__ import annotations

import asyncio
from typing import Any

from cideldill_mcp.events.log import EventLog, EventPage, Filter

ALL = Filter()


def fill(log: EventLog, count: int, **values: Any) -> None:
    """Append calls of run `r1`, with a `number` from 0."""
    for number in range(count):
        log.append("call", **{"run_id": "r1", "number": number, **values})


def numbers(events: list[dict[str, Any]]) -> list[int]:
    """Their `seq`."""
    return [event["seq"] for event in events]


def page(log: EventLog, after: int = 0, limit: int = 1_000, wanted: Filter = ALL) -> EventPage:
    """What `read` answers, on an event loop of its own."""
    return asyncio.run(log.read(after, limit, wanted))
