"""Statements of the source by code and line, as failed assertions and autopsies ask for them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

from pytest_cideldill.frames.operands import statement_at
from pytest_cideldill.rendering.source_text import Text


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """A code object and all in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)


def innermost(tree: ast.Module, line: int) -> ast.stmt:
    """The statement of a whole file."""
    spanning = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(spanning, key=lambda node: (node.lineno, -(node.end_lineno or 0), node.col_offset))


@pytest.mark.full
def test_a_function_s_own_lines_report_the_same_as_the_whole_file() -> None:
    """Autopsies are quick; so long files are not parsed for a frame each."""
    path = inspect.getfile(textwrap)
    source = Path(path).read_text(encoding="utf-8")
    tree = ast.parse(source)
    text = Text(source.splitlines(keepends=True))
    number = 0
    for code in codes_of(compile(source, path, "exec")):
        if code.co_name.startswith("<"):
            continue
        for line in {line for _, _, line in code.co_lines() if line} - {code.co_firstlineno}:
            found, expected = statement_at(code, line, text), innermost(tree, line)
            assert found is not None
            if isinstance(expected, ast.FunctionDef | ast.ClassDef):
                continue  # of the code around it, that has its first line alone
            assert ast.dump(found, include_attributes=True) == ast.dump(
                expected, include_attributes=True
            )
            number += 1
    assert number > 100
