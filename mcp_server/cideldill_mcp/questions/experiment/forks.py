"""Experiments in forks of one process that has collected, as far as they come out the same there.

Which can be made there is known by their code; whether the project bears it is found by the
process, and by what becomes of the tests in forks without a change, before and after all others.
"""

from __future__ import annotations

import ast
import asyncio
import os
import sys
from collections.abc import Awaitable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from cideldill_mcp.questions.asking.registry import Question, SideRun
from cideldill_mcp.questions.asking.side_process import cores
from pytest_cideldill.errors import Refusal
from pytest_cideldill.protocol.trace_rows import ForcedChange, Fork, TraceRequest

if TYPE_CHECKING:
    from cideldill_mcp.questions.experiment.experiment_specs import Prepared
    from cideldill_mcp.questions.experiment.trials import Trial
    from cideldill_mcp.questions.recordings.listing import SourceFiles
    from cideldill_mcp.questions.recordings.recorded import Recorded

_LEAST: Final = 2
"""Experiments for which a process that collects for them is no slower than theirs."""

_DECORATORS: Final = frozenset({"property", "staticmethod", "classmethod"})
"""They leave a function as it is written; of others the code that is called may be elsewhere."""

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)

Part = tuple[SideRun, "Recorded"]
"""What a fork left."""


def code_of(
    changes: Sequence[ForcedChange], files: SourceFiles, root: str
) -> list[list[Any]] | None:
    """The functions that changes are in, as `Fork.places`.

    None: something is changed that exists before tests are collected, or is made by other code.
    """
    found: list[list[Any]] = []
    for change in changes:
        code = _of_line(change) if change.kind == "set_local" else _of_name(change, files, root)
        if not code:
            return None
        found += [place for place in code if place not in found]
    return found


def _of_line(change: ForcedChange) -> list[list[Any]]:
    plain = _plain_functions(_tree(change.file))
    return [[change.file, first, last] for first, last in plain if first <= change.line <= last]


def _of_name(change: ForcedChange, files: SourceFiles, root: str) -> list[list[Any]]:
    from cideldill_mcp.questions.source.find_definitions import find

    try:
        definitions = find(files, function=change.function)
    except Refusal:
        return []
    code = []
    for definition in definitions:
        file = os.path.realpath(os.path.join(root, definition.file))
        if (definition.first, definition.last) not in _plain_functions(_tree(file)):
            return []
        code.append([file, definition.first, definition.last])
    return code


def _tree(file: str) -> ast.Module:
    from pytest_cideldill.sourcecode.quiet import parse
    from pytest_cideldill.sourcecode.reading import source_bytes, text_in

    return parse(text_in(source_bytes(file)), file)


def _plain_functions(tree: ast.AST) -> list[tuple[int, int]]:
    """First and last lines of the functions of a module and of its classes."""
    found = []
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, _FUNCTIONS):
            names = [getattr(mark, "id", "") for mark in child.decorator_list]
            if _DECORATORS.issuperset(names):
                first = min([child.lineno, *(mark.lineno for mark in child.decorator_list)])
                found.append((first, child.end_lineno or first))
        elif isinstance(child, ast.ClassDef):
            if not child.decorator_list:
                found += _plain_functions(child)
        elif not isinstance(child, ast.expr):
            found += _plain_functions(child)  # `if`, `try`
    return found


def suitable(question: Question, prepared: Sequence[Prepared]) -> list[int]:
    """The numbers of the experiments that a fork can make; empty: it does not pay."""
    if sys.platform != "linux" or question.uses_workers:
        return []
    numbers = [number for number, each in enumerate(prepared) if each.code is not None]
    return numbers if len(numbers) >= _LEAST else []


async def forked(
    question: Question,
    base: TraceRequest,
    prepared: Sequence[Prepared],
    numbers: Sequence[int],
    baseline: Awaitable[Trial],
) -> dict[int, Part]:
    """What forks left, by the numbers of their experiments.

    What is not there is to be made in a process of its own.

    Raises:
        Refusal: `internal_error`: the interpreter can't be started.
    """
    plain = Fork("")
    forks = [plain]
    for each in (prepared[number] for number in numbers):
        changes = [asdict(change) for change in each.experiment.changes]
        forks.append(Fork("", changes, each.code or []))
    forks.append(plain)
    try:
        forks = [replace(fork, file=question.new_file()) for fork in forks]
    except OSError:
        return {}
    request = replace(base, tree=False, forks=[asdict(fork) for fork in forks], beside=cores())
    run = await question.run(request)
    trial = await baseline
    return await asyncio.to_thread(_trusted, question, run, forks, numbers, trial)


def _trusted(
    question: Question,
    run: SideRun,
    forks: Sequence[Fork],
    numbers: Sequence[int],
    baseline: Trial,
) -> dict[int, Part]:
    from cideldill_mcp.questions.recordings.row_reader import read_recorded

    if not run.file or not baseline.recorded or -1 in read_recorded(run.file).unforked:
        return {}
    first, *others, last = [read_recorded(each.file) for each in forks]
    if not _same(first, baseline) or not (_same(last, baseline) or question.cut):
        return {}
    return {
        number: (SideRun(fork.file, None if recording.has_ended else question.cut, 0), recording)
        for number, fork, recording in zip(numbers, forks[1:-1], others, strict=True)
        if recording.has_ended or (question.cut and recording.tests)
    }


def _same(plain: Recorded, baseline: Trial) -> bool:
    """Whether the tests had the outcomes in a fork that they have in a process of their own."""
    of_process = baseline.recorded[0]
    return plain.has_ended == of_process.has_ended and [
        (id, test.outcome) for id, test in plain.tests.items()
    ] == [(id, test.outcome) for id, test in of_process.tests.items()]
