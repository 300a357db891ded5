"""The question `test_trace`: the life of one call, or the tree of calls of one test."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from cideldill_mcp.questions.asker import (
    Asker,
    Bounds,
    Seen,
    invalid,
    noted,
    notes,
    reply,
    see,
    source_files,
)
from cideldill_mcp.questions.fitting import Answer, counted
from cideldill_mcp.questions.spelling import function_from_root, parsed
from pytest_cideldill.errors import ErrorCode, Refusal
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
        if self.function is None:
            for name, value in (("call", self.call), ("when", self.when)):
                if value is not None:
                    raise invalid(name, value, "nothing, as long as no function is given")
            return
        if self.call is not None and self.when is not None:
            raise invalid("when", self.when, "nothing beside call: one of both chooses the call")
        if self.call is not None and self.call < 1:
            raise invalid("call", self.call, "integer of at least 1")
        parsed(self.function)
        if self.when is not None:
            try:
                compile(self.when.strip(), "<when>", "eval")
            except (SyntaxError, ValueError) as error:
                raise invalid("when", self.when, f"expression ({error})") from error


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
        seen = await see(question, request, ["tree" if function is None else "call"])
        if function is not None and seen.test.focus is None and seen.run.cut is None:
            raise await asyncio.to_thread(_not_called, asked, seen)

        def make(max_chars: int) -> Answer:
            recorded, test = seen.recorded, seen.test
            if function is None:
                from cideldill_mcp.questions.tree import tree_answer

                return tree_answer(recorded, test, depth=asked.depth, max_chars=max_chars)
            from cideldill_mcp.questions.call import call_answer

            files = source_files(asker, recorded.rootdir or questions.rootdir)
            return call_answer(recorded, test, files, function=function, max_chars=max_chars)

        answer = await noted(notes(question, seen, asker), bounds.max_chars, make)
        return reply(question, seen.test.nodeid, seen.test.outcome, answer)


def _not_called(asked: Trace, seen: Seen) -> Refusal:
    """The refusal where none of the calls is the wanted one."""
    count, test = seen.test.matches or 0, seen.test.nodeid
    if count and asked.when is not None:
        said = "; ".join(text for limit, text in seen.recorded.reached if limit == "when")
        return Refusal(
            ErrorCode.INVALID_PARAMETER,
            f"when is true for none of {counted(count, 'call')} of {asked.function} in {test}"
            + (f" ({said})" if said else ""),
            parameter="when",
            expected="expression that is true for one of them",
            calls=count,
        )
    if count:
        return Refusal(
            ErrorCode.INVALID_PARAMETER,
            f"{asked.function} has {counted(count, 'call')} in {test}: there is none with number "
            f"{asked.call}",
            parameter="call",
            expected=f"integer from 1 to {count}",
            calls=count,
        )
    from cideldill_mcp.questions.unanswered import nearest_names, rows_of

    rows = [row for row in rows_of(seen.run.file, "unmatched") if isinstance(row[1], list)]
    near = nearest_names(asked.function or "", [str(name) for row in rows for name in row[1]])
    hint = f"; it calls {', '.join(near)}" if near else ""
    return Refusal(
        ErrorCode.FUNCTION_NOT_FOUND,
        f"{test} makes no call of a function {asked.function!r}{hint}; test_trace without "
        "function shows its calls",
        function=asked.function,
    )
