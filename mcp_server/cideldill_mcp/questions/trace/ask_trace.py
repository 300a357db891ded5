"""The question `test_trace`: the life of one call, or the tree of calls of one test."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from cideldill_mcp.questions.asking.asker import (
    Asker,
    Bounds,
    noted,
    notes,
    reply,
    see,
    source_files,
)
from cideldill_mcp.questions.asking.not_called import check_choice, not_called
from cideldill_mcp.questions.asking.spelling import function_from_root
from cideldill_mcp.questions.texts.fitting import Answer
from pytest_cideldill.protocol.trace_rows import TraceRequest

NAME = "test_trace"


@dataclass(frozen=True, slots=True)
class Trace:
    """What is asked.

    Attributes:
        nodeid: The test.
        function: As for `breakpoint_add`; None: the tree of all calls.
        call: Which of its calls, from 1; None: the first, or that of `when`.
        when: Expression over its arguments; the first call for which it is true.
        depth: Of the tree; None: as deep as has room.
    """

    nodeid: str
    function: str | None = None
    call: int | None = None
    when: str | None = None
    depth: int | None = None

    def check(self) -> None:
        """Check what can be checked without the test.

        Raises:
            Refusal: `invalid_parameter`.
        """
        check_choice(self.function, self.call, self.when)


async def trace(asker: Asker, asked: Trace, bounds: Bounds) -> dict[str, Any]:
    """The reply to the question.

    Raises:
        Refusal: As `asker.see`.
    """
    asked.check()
    bounds.check()
    questions = asker.questions
    nodeid, function = questions.nodeid(asked.nodeid), asked.function
    if function is not None:
        function = function_from_root(questions.project, function)
    request = TraceRequest(
        "",
        [nodeid],
        tree=function is None,
        function=function,
        call=0 if function is None or asked.when else asked.call or 1,
        when=asked.when,
    )
    with questions.begin(NAME, nodeid, bounds.timeout_s, asker.progress) as question:
        seen = await see(
            question, request, ["trace.call_tree" if function is None else "trace.call"]
        )
        if function is not None and seen.test.focus is None and seen.run.cut is None:
            rest = "; without a function all its calls are shown"
            raise await asyncio.to_thread(
                not_called, asked.function or "", asked.call, asked.when, seen, rest
            )

        def make(max_chars: int) -> Answer:
            recorded, test = seen.recorded, seen.test
            if function is None:
                from cideldill_mcp.questions.trace.call_tree import tree_answer

                return tree_answer(recorded, test, depth=asked.depth, max_chars=max_chars)
            from cideldill_mcp.questions.trace.call import call_answer

            files = source_files(asker, recorded.rootdir or questions.rootdir)
            return call_answer(recorded, test, files, function=function, max_chars=max_chars)

        answer = await noted(notes(question, seen, asker), bounds.max_chars, make)
        return reply(question, seen.test.nodeid, seen.test.outcome, answer)
