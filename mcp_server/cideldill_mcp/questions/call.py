"""A stub: the life of one call."""

# ruff: noqa: ARG001
from __future__ import annotations

from cideldill_mcp.questions.fitting import Answer, clipped
from cideldill_mcp.questions.recorded import Recorded, RecordedTest


def call_answer(recorded: Recorded, test: RecordedTest, *, function: str, max_chars: int) -> Answer:
    """One line for each line that ran."""
    focus = test.focus
    lines = [f"{test.nodeid}  {test.outcome}"]
    lines += [str(line.number) for line in (focus.lines if focus else ())]
    text = "\n".join(lines)
    fields = {"function": function, "calls": test.matches or 0, "call": focus and focus.count}
    return Answer(clipped(text, max_chars), fields, len(text) > max_chars)
