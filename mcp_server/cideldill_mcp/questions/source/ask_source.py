"""The question `test_source`: one function or class, as written; with a test, which lines ran."""

from __future__ import annotations

import ast
import asyncio
import os
from dataclasses import dataclass
from functools import partial
from typing import Any

from cideldill_mcp.questions.asking.asker import (
    Asker,
    Bounds,
    invalid,
    noted,
    notes,
    reply,
    see,
    source_files,
)
from cideldill_mcp.questions.asking.spelling import file_from_root, function_from_root, parsed
from cideldill_mcp.questions.recordings.listing import SourceFiles
from cideldill_mcp.questions.source.find_definitions import Definition, find
from cideldill_mcp.questions.source.source_text import source_answer
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.protocol.trace_rows import TraceRequest

NAME = "test_source"


@dataclass(frozen=True, slots=True)
class Source:
    """What is asked: a function or class by its name, or by a line in it.

    Attributes:
        function: As for `breakpoint_add`, or the name of a class; several with commas between them.
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
            for name in _names(self.function):
                parsed(name)
        elif self.function is not None:
            raise invalid("function", self.function, "nothing beside file and line")
        elif self.file is None or self.line is None:
            alone = self.file is None and self.line is None
            raise Refusal(
                ErrorCode.MISSING_PARAMETER,
                "give function, or file and line",
                parameter="function" if alone else "file" if self.file is None else "line",
            )


async def source(asker: Asker, asked: Source, bounds: Bounds) -> dict[str, Any]:
    """The reply to the question.

    Raises:
        Refusal: `function_not_found`, `file_not_found`, `invalid_source`, `invalid_line`; as
            `asker.see`.
    """
    asked.check()
    bounds.check()
    questions = asker.questions
    nodeid = None if asked.nodeid is None else questions.nodeid(asked.nodeid)
    with questions.begin(NAME, nodeid, bounds.timeout_s, asker.progress) as question:
        files, definitions = await asyncio.to_thread(_found, asker, asked, questions.rootdir)
        if nodeid is None or (function := _counted(asked, definitions)) is None:
            lines = [] if nodeid is None else ["only lines of functions and classes are counted"]
            make = partial(source_answer, files, definitions)
            return reply(question, None, None, await noted(lines, bounds.max_chars, make))
        seen = await see(question, TraceRequest("", [nodeid], function=function, counts=True))
        root = seen.recorded.rootdir
        if root and os.path.realpath(root) != os.path.realpath(files.rootdir):
            files, definitions = await asyncio.to_thread(_found, asker, asked, root)
        make = partial(source_answer, files, definitions, recorded=seen.recorded, test=seen.test)
        answer = await noted(notes(question, seen, asker), bounds.max_chars, make)
        return reply(question, seen.test.nodeid, seen.test.outcome, answer)


def _found(asker: Asker, asked: Source, root: str) -> tuple[SourceFiles, list[Definition]]:
    """The definitions that are meant, and the sources that they are in."""
    files, project = source_files(asker, root), asker.questions.project
    further = project.roots[1:]
    if asked.function is None:
        file = asked.file and file_from_root(project, asked.file)
        return files, find(files, file=file, line=asked.line, further=further)
    definitions: dict[tuple[str, int], Definition] = {}
    for name in _names(asked.function):
        for definition in find(files, function=function_from_root(project, name), further=further):
            definitions.setdefault((definition.file, definition.first), definition)
    return files, list(definitions.values())


def _names(function: str) -> list[str]:
    """The names of one or several functions."""
    return [name.strip() for name in function.split(",")]


def _counted(asked: Source, found: list[Definition]) -> str | None:
    """The functions whose lines are counted, as one name; None: there is no such name."""
    if len(found) == 1 and found[0].name:
        only = found[0]
        return (
            f"*.{only.name}.*"
            if isinstance(only.node, ast.ClassDef)
            else f"{only.file}::{only.name}"
        )
    if asked.function is not None and len(_names(asked.function)) > 1:
        return "*"
    if all(isinstance(definition.node, ast.ClassDef) for definition in found):
        return f"*.{found[0].name.rpartition('.')[2]}.*"
    return asked.function
