"""Tracepoints by a client on raw pipes: set, and what of them was pushed."""

from __future__ import annotations

from typing import Any

from tests.together.frontend import FrontEnd, wait_until
from tests.together.timelines import timeline


def line_of(text: str, mark: str) -> int:
    """The number of the line that ends with a comment."""
    (found,) = (n for n, line in enumerate(text.split("\n"), 1) if line.endswith(f"# {mark}"))
    return found


def tracepoint(end: FrontEnd, line: int, message: str, **options: Any) -> dict[str, Any]:
    """What `tracepoint_set` tells of a new one, in `test_it.py` unless it is another file."""
    place = {"file": "test_it.py", "line": line, "log_message": message}
    reported = end.call("tracepoint_set", **place | options)["tracepoint"]
    assert isinstance(reported, dict)
    return reported


def until_pushed(end: FrontEnd, count: int | None = None) -> list[dict[str, Any]]:
    """All that was pushed, once so many came or, by default, all that is in the log.

    A push may come a moment after the reply, and is read with the next one.
    """
    wanted = len(_seqs(end)) if count is None else count

    def have_come() -> bool:
        end.call("debug_state")
        return len(end.pushed) >= wanted

    wait_until(have_come, f"{wanted} pushes")
    reported = [params for params, _ in end.pushed]
    assert len(reported) == wanted
    if count is None:
        assert [params["seq"] for params in reported] == _seqs(end)
    return reported


def _seqs(end: FrontEnd) -> list[int]:
    """The numbers of hits and stops in the log."""
    asked = {"types": ["hit", "stop"], "limit": 2_000, "max_chars": 200_000}
    return [event["seq"] for event in timeline(end.call, **asked)]


def messages(end: FrontEnd, id: str) -> list[str]:
    """What was pushed of a tracepoint, in the order of the wire."""
    return [reported["logMessage"] for reported, _ in end.pushed if reported["breakpointId"] == id]
