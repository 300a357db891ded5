"""The question `test_source`: one function or class, as written; with a test, which lines ran."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from cideldill_mcp.questions import definitions
from cideldill_mcp.questions.ask_trace import check_name
from cideldill_mcp.questions.asker import Asker, Bounds, invalid, noted, notes, reply, see
from cideldill_mcp.questions.definitions import Definition
from cideldill_mcp.questions.fitting import Answer
from cideldill_mcp.questions.source import source_answer
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.project import Project
from pytest_cideldill.protocol.trace_rows import TraceRequest

NAME = "test_source"


@dataclass(frozen=True, slots=True)
class Source:
    """What is asked: a function or class by its name, or by a line in it.

    Attributes:
        function: As for `breakpoint_add`, or the name of a class.
        file: From the rootdir, or absolute; with `line`.
        line: Any line of it.
        nodeid: The test whose lines are marked; None: no test is run.
    """

    function: str | None = None
    file: str | None = None
    line: int | None = None
    nodeid: str | None = None

    def check(self) -> None:
        """Check what can be checked without the sources.

        Raises:
            Refusal: `missing_parameter`, `invalid_parameter`.
        """
        if self.function is not None and self.file is None and self.line is None:
            check_name(self.function)
        elif self.function is not None:
            raise invalid("function", self.function, "nothing beside file and line")
        elif self.file is None or self.line is None:
            missing = "file" if self.line is not None else "line" if self.file else "function"
            raise Refusal(
                ErrorCode.MISSING_PARAMETER,
                "give function, or file and line",
                parameter=missing,
            )


async def source(asker: Asker, asked: Source, bounds: Bounds) -> dict[str, Any]:
    """The reply to the question.

    Raises:
        Refusal: `function_not_found`, `file_not_found`, `invalid_source`; as `asker.see`.
    """
    asked.check()
    bounds.check()
    nodeid = asked.nodeid
    with asker.questions.begin(NAME, nodeid, bounds.timeout_s, asker.progress) as question:
        found = await asyncio.to_thread(_found, asker, asked)
        if nodeid is None or (found[:1] and found[0].is_class):
            lines = [] if nodeid is None else ["only lines of functions are counted: name a method"]
            answer = await noted(lines, bounds.max_chars, lambda most: _plain(asker, found, most))
            return reply(question, None, None, answer)
        function = found[0].name if len(set(map(_key, found))) == 1 else asked.function or ""
        seen = await see(question, TraceRequest("", [nodeid], function=function, counts=True))
        lines = notes(question, seen, asker)
        if not seen.test.lines and seen.run.cut is None:
            found = await asyncio.to_thread(definitions.one, _project(asker), function, found)
            lines.append(f"{seen.test.nodeid} runs no line of it")

        def make(max_chars: int) -> Answer:
            if not seen.test.lines and found:
                answer = _plain(asker, found, max_chars)
                return replace(answer, fields=answer.fields | {"lines_run": 0})
            return source_answer(seen.recorded, seen.test, function=function, max_chars=max_chars)

        answer = await noted(lines, bounds.max_chars, make)
        return reply(question, seen.test.nodeid, seen.test.outcome, answer)


def _found(asker: Asker, asked: Source) -> list[Definition]:
    """What the name or the line means; with a test a name may mean none, or several things."""
    project = _project(asker)
    if asked.function is None:
        assert asked.file is not None
        assert asked.line is not None
        return [definitions.at_line(project, asked.file, asked.line)]
    found = definitions.named(project, asked.function)
    return definitions.one(project, asked.function, found) if asked.nodeid is None else found


def _project(asker: Asker) -> Project:
    return Project(asker.questions.rootdir, asker.questions.user_paths)


def _key(definition: Definition) -> tuple[str, str]:
    return definition.file, definition.qualname


def _plain(asker: Asker, found: list[Definition], max_chars: int) -> Answer:
    """The lines as written, with their numbers; cut at the end."""
    file, path = found[0].file, found[0]
    redacted = asker.questions.redactor().redact_source(
        "\n".join(definitions.text_of(path)), is_python=True
    )
    source_lines = redacted.split("\n")
    numbers = [n for each in found for n in range(each.first, each.last + 1)]
    width = len(str(numbers[-1]))
    shown = [f"{file}:{numbers[0]}  {found[0].qualname}"]
    shown += [f"{n:>{width}}  {source_lines[n - 1]}".rstrip() for n in numbers]
    fields = {"file": file, "first": numbers[0], "last": numbers[-1]}
    text = "\n".join(shown)
    if len(text) <= max_chars:
        return Answer(text, fields)
    room, kept = max_chars - 80, 0
    while kept < len(shown) and room >= len(shown[kept]) + 1:
        room -= len(shown[kept]) + 1
        kept += 1
    rest = numbers[max(0, kept - 1) :]
    last = f"left out: lines {rest[0]}–{rest[-1]} of {file}: a larger max_chars"
    return Answer("\n".join([*shown[:kept], last])[:max_chars], fields, truncated=True)
