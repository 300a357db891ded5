"""The question `test_why`: all that is to be found about one failing test, in one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from cideldill_mcp.questions.asker import (
    FAILING,
    Asker,
    Bounds,
    Seen,
    noted,
    notes,
    reply,
    see,
    source_files,
)
from cideldill_mcp.questions.fitting import Answer
from cideldill_mcp.questions.registry import Question
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.protocol.trace_rows import TraceRequest

if TYPE_CHECKING:
    from cideldill_mcp.questions.why import Part

NAME = "test_why"

_TEXTS = ("why", "ask_diff", "divergence", "inside")

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Why:
    """What is asked.

    Attributes:
        nodeid: The test; of several the first that fails.
    """

    nodeid: str


async def why(asker: Asker, asked: Why, bounds: Bounds) -> dict[str, Any]:
    """The reply to the question.

    Raises:
        Refusal: As `asker.see`; `not_reproduced`: the test passes.
    """
    bounds.check()
    questions = asker.questions
    nodeid = questions.nodeid(asked.nodeid)
    with questions.begin(NAME, nodeid, bounds.timeout_s, asker.progress) as question:
        seen = await see(question, _request([nodeid]), _TEXTS)
        if seen.test.outcome not in FAILING:
            raise _passes(seen)
        files = source_files(asker, seen.recorded.rootdir or questions.rootdir)
        parts = await _parts(asker, question, seen, files)
        lines = notes(question, seen, asker)

        def make(max_chars: int) -> Answer:
            from cideldill_mcp.questions.why import why_answer

            return why_answer(seen.recorded, seen.test, parts, files, max_chars)

        answer = await noted(lines, bounds.max_chars, make)
        return reply(question, seen.test.nodeid, seen.test.outcome, answer)


def _request(nodeids: list[str]) -> TraceRequest:
    return TraceRequest("", nodeids, tree=True, states=True, neighbours=True, failure=True)


async def _parts(asker: Asker, question: Question, seen: Seen, files: Any) -> list[Part]:
    """The parts that say something, in their order."""
    from cideldill_mcp.questions.ask_diff import against_neighbour
    from cideldill_mcp.questions.why import differs_part, failure_part, path_part

    parts: list[Part | None] = [
        await asyncio.to_thread(failure_part, seen.test, files),
        await asyncio.to_thread(path_part, seen.recorded, seen.test),
    ]
    compared = await _unless_refused(against_neighbour(asker, question, seen))
    if compared is not None:
        parts.append(await asyncio.to_thread(differs_part, compared))
    return [part for part in parts if part is not None]


async def _unless_refused(asked: Awaitable[_Found]) -> _Found | None:
    """What a question finds; None: it has no answer here."""
    try:
        return await asked
    except Refusal:
        return None


def _passes(seen: Seen) -> Refusal:
    nodeid, outcome = seen.test.nodeid, seen.test.outcome
    return Refusal(
        ErrorCode.NOT_REPRODUCED,
        f"{nodeid} {outcome} when it runs alone",
        nodeid=nodeid,
        outcome=outcome,
    )
