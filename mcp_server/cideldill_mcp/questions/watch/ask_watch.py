"""The question `test_watch`: who changed a value, and when it became wrong."""

from __future__ import annotations

import ast
import asyncio
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from cideldill_mcp.questions.asking.asker import (
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
from cideldill_mcp.questions.asking.not_called import check_choice, check_expression, not_called
from cideldill_mcp.questions.asking.spelling import function_from_root
from cideldill_mcp.questions.texts.fitting import Answer
from pytest_cideldill.protocol.trace_rows import TraceRequest, WatchRequest

if TYPE_CHECKING:
    from cideldill_mcp.questions.asking.registry import Question
    from cideldill_mcp.questions.recordings.listing import SourceFiles

NAME = "test_watch"

MAX_CHANGES = 50
"""Changes that are recorded one by one, by default."""

MOST_CHANGES = 10_000


@dataclass(frozen=True, slots=True)
class WatchQuestion:
    """What is asked.

    Attributes:
        nodeid: The test.
        expression: What is watched.
        function: In whose frame it is evaluated; None: the names are a module's.
        module: Whose; None: those of the test's module, or modules themselves.
        call: Which call of the function, from 1; None: the first, or that of `when`.
        when: Expression over its arguments; the first call for which it is true.
        until: Ends the watch when it becomes true.
        max_changes: Most changes that are recorded one by one.
    """

    nodeid: str
    expression: str
    function: str | None = None
    module: str | None = None
    call: int | None = None
    when: str | None = None
    until: str | None = None
    max_changes: int = MAX_CHANGES

    def check(self) -> None:
        """Check what can be checked without the test.

        Raises:
            Refusal: `invalid_parameter`.
        """
        check_expression("expression", self.expression)
        if self.until is not None:
            check_expression("until", self.until)
        if not 1 <= self.max_changes <= MOST_CHANGES:
            raise invalid("max_changes", self.max_changes, f"integer from 1 to {MOST_CHANGES:,}")
        if self.function is not None and self.module is not None:
            raise invalid("module", self.module, "nothing beside function, which has names")
        check_choice(self.function, self.call, self.when)


async def watch(asker: Asker, asked: WatchQuestion, bounds: Bounds) -> dict[str, Any]:
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
    wanted = WatchRequest(asked.expression, asked.module, asked.until, asked.max_changes)
    request = TraceRequest(
        "",
        [nodeid],
        function=function,
        call=0 if function is None or asked.when else asked.call or 1,
        when=asked.when,
        watch=asdict(wanted),
    )
    with questions.begin(NAME, nodeid, bounds.timeout_s, asker.progress) as question:
        seen = await see(question, request, ["watch.watch_text"])
        if asked.function is not None and not seen.test.watched and seen.run.cut is None:
            raise await asyncio.to_thread(
                not_called, asked.function, asked.call, asked.when, seen, "; test_trace shows all"
            )
        if asked.function is None and asked.module is None and _has_no_value(seen):
            seen = await _in_test(asker, question, asked.expression.strip(), request, seen)

        def make(max_chars: int) -> Answer:
            from cideldill_mcp.questions.watch.watch_text import watch_answer

            recorded = seen.recorded
            return watch_answer(
                recorded,
                seen.test,
                source_files(asker, recorded.rootdir or questions.rootdir),
                expression=asked.expression.strip(),
                until=None if asked.until is None else asked.until.strip(),
                max_chars=max_chars,
            )

        answer = await noted(notes(question, seen, asker), bounds.max_chars, make)
        return reply(question, seen.test.nodeid, seen.test.outcome, answer)


async def _in_test(
    asker: Asker, question: Question, expression: str, request: TraceRequest, seen: Seen
) -> Seen:
    """What a watch in the frame of the test sees, if the expression has a value there."""
    files = source_files(asker, seen.recorded.rootdir or asker.questions.rootdir)
    test = await asyncio.to_thread(_test_with_local, files, seen.test.nodeid, expression)
    if test is None:
        return seen
    inside = await see(question, replace(request, function=test, call=1), ["watch.watch_text"])
    return seen if _has_no_value(inside) else inside


def _has_no_value(seen: Seen) -> bool:
    from cideldill_mcp.questions.watch.watched import read_watched

    return seen.run.cut is None and read_watched(seen.recorded, seen.test).has_no_value


def _test_with_local(files: SourceFiles, nodeid: str, expression: str) -> str | None:
    """The function of a test, if a name of the expression is a local there."""
    file, *names = nodeid.partition("[")[0].split("::")
    scope: ast.AST | None = files.tree(file)
    for name in names:
        body = getattr(scope, "body", ())
        scope = next((each for each in body if getattr(each, "name", None) == name), None)
    if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    parts = ast.walk(ast.parse(expression, mode="eval"))
    wanted = {part.id for part in parts if isinstance(part, ast.Name)}
    for node in ast.walk(scope):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if name in wanted:
                return f"{file}::{'.'.join(names)}"
    return None
