"""Where a failing test parts from one that passes, for a question that has run it already."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cideldill_mcp.questions.asking.asker import Asker, Seen
from cideldill_mcp.questions.asking.neighbours import relation
from cideldill_mcp.questions.asking.registry import PLAIN, Question
from cideldill_mcp.questions.diff.ask_diff import Comparing, Diff, Running
from cideldill_mcp.questions.experiment.experiment_specs import Experiment, Prepared

if TYPE_CHECKING:
    from cideldill_mcp.questions.diff.diff_text import Compared


async def against_neighbour(
    asker: Asker, question: Question, seen: Seen, others: Sequence[str]
) -> Compared:
    """Compare a failing test with the nearest one that passes.

    Args:
        asker: Who asks.
        question: Runs the others.
        seen: The failing test, with its calls and their states.
        others: Tests of its file that may pass.

    Raises:
        Refusal: As `diff`.
    """
    nodeid = seen.test.nodeid
    made = Comparing(asker, Diff(nodeid), question)
    made.left = Running(seen, nodeid)
    again, right = await asyncio.gather(made.run(nodeid), made.passing(others))
    return await made.compared(right, again, relation(nodeid, right.nodeid))


async def same_test(
    asker: Asker, question: Question, seen: Seen, alone: Seen, before: Sequence[str]
) -> Compared:
    """Compare a test that fails behind others with itself alone.

    Args:
        asker: Who asks.
        question: Runs it again.
        seen: It failed.
        alone: It passed.
        before: The tests that have to run before it.

    Raises:
        Refusal: As `diff`.
    """
    nodeid = seen.test.nodeid
    behind = Prepared(Experiment("behind others", order=[*before, nodeid]), PLAIN)
    made = Comparing(asker, Diff(nodeid, nodeid), question)
    made.left = Running(seen, nodeid, behind)
    again = await made.run(nodeid, behind)
    return await made.compared(Running(alone, nodeid), again, "alone")
