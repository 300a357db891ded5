"""A stub: the tree of calls of one test."""

# ruff: noqa: ARG001
from __future__ import annotations

from cideldill_mcp.questions.fitting import Answer, clipped
from cideldill_mcp.questions.recorded import Recorded, RecordedTest


def tree_answer(
    recorded: Recorded, test: RecordedTest, *, depth: int | None, max_chars: int
) -> Answer:
    """One line for each call."""
    lines = [f"{test.nodeid}  {test.outcome}"]
    lines += [f"{call.code.dotted}  {call.code.place}" for call in test.calls.values()]
    text = "\n".join(lines)
    fields = {"nodeid": test.nodeid, "outcome": test.outcome, "calls": len(test.calls)}
    return Answer(clipped(text, max_chars), fields, len(text) > max_chars)
