"""Events of a timeline, however many pages they take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def timeline(call: Callable[..., dict[str, Any]], **asked: Any) -> Iterator[dict[str, Any]]:
    """All events that `timeline_get` gives for these arguments; `call` asks any client's server."""
    cursor, is_more = asked.pop("after", 0), True
    while is_more:
        page = call("timeline_get", after=cursor, **asked)
        assert page["next_after"] >= cursor
        yield from page["events"]
        cursor, is_more = page["next_after"], page.get("truncated", False)
