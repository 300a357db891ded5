"""A stub: the source of one function, marked."""

# ruff: noqa: ARG001
from __future__ import annotations

from cideldill_mcp.questions.fitting import Answer, clipped
from cideldill_mcp.questions.recorded import Recorded, RecordedTest


def source_answer(
    recorded: Recorded, test: RecordedTest, *, function: str, max_chars: int
) -> Answer:
    """How often each line ran."""
    lines = [f"{test.nodeid}  {test.outcome}"]
    lines += [f"{line}: {count}" for _, counts in test.lines for line, count in counts.items()]
    return Answer(clipped("\n".join(lines), max_chars), {"lines_run": len(lines) - 1})
