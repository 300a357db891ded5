"""Where the fault of a case is, and whether a text says so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.evidence_cases.cases import Case

UNMISTAKABLE: Final = 12
"""Characters of a line of source that does not stand in any text by chance."""


@dataclass(frozen=True, slots=True)
class Truth:
    """The function that was edited, as the broken file has it.

    Attributes:
        function: Its qualified name, without the module.
        file: Relative to the project.
        first, last: Its lines, with decorators.
        source: Lines of its body, stripped, that stand nowhere else in the project.
        edit: Such lines that the edit made; all that it touched if it only took some away.
    """

    function: str
    file: str
    first: int
    last: int
    source: frozenset[str]
    edit: frozenset[str]

    @classmethod
    def of(cls, case: Case, root: Path) -> Truth:
        """Raises LookupError if the file has no such function."""
        name, file = case.truth.function, case.truth.file
        text = (root / file).read_text(encoding="utf-8")
        node = next((node for found, node in _functions(ast.parse(text)) if found == name), None)
        if node is None:
            raise LookupError(f"{case.name}: {file} has no function {name}")
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        last = node.end_lineno or node.lineno
        lines = text.splitlines()
        elsewhere = _stripped([*lines[: first - 1], *lines[last:], *_other_lines(root, file)])
        body = _stripped(lines[_code_begins(node) - 1 : last]) - elsewhere
        intact, broken = (
            _stripped(each.splitlines()) for each in (case.truth.intact, case.truth.broken)
        )
        source = frozenset(each for each in body if len(each) >= UNMISTAKABLE) or body
        edit = (broken - intact) or broken
        return cls(name, file, first, last, source, (edit - elsewhere) or edit)

    def is_named_in(self, text: str) -> bool:
        """By the qualified name or by a line inside; a plain name is one before `(` or a module."""
        name = re.escape(self.function)
        if "." in self.function:
            pattern = rf"(?<!\w){name}(?!\w)"
        else:
            module = re.escape(Path(self.file).parent.name if self._is_package else self._stem)
            pattern = rf"(?<!\w){module}\.{name}(?!\w)|(?<![\w.]){name}\("
        lines = rf"(?<![\w/]){re.escape(self.file)}:(\d+)"
        return bool(re.search(pattern, text)) or self._has_line(lines, text)

    def is_shown_in(self, text: str) -> bool:
        """By a line of its body."""
        return any(line in text for line in self.source)

    def has_edit_in(self, text: str) -> bool:
        """By a line that the edit made."""
        return any(line in text for line in self.edit)

    def is_in_traceback_of(self, text: str) -> bool:
        """Whether the output of pytest has an entry with one of its lines."""
        return self._has_line(rf"(?m)^{re.escape(self.file)}:(\d+): ", text)

    def rank_among(self, suspects: Sequence[Mapping[str, Any]]) -> int:
        """From 1; 0 if none is it."""
        for rank, each in enumerate(suspects, 1):
            is_it = str(each["function"]).endswith(self.function)
            if is_it and Path(str(each["file"])).name == Path(self.file).name:
                return rank
        return 0

    @property
    def _stem(self) -> str:
        return Path(self.file).stem

    @property
    def _is_package(self) -> bool:
        return self._stem == "__init__"

    def _has_line(self, pattern: str, text: str) -> bool:
        return any(self.first <= int(each) <= self.last for each in re.findall(pattern, text))


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, _Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Function):
            yield prefix + child.name, child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")


def _code_begins(node: _Function) -> int:
    """The first line behind the docstring."""
    first = node.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    if is_docstring and len(node.body) > 1:
        return (first.end_lineno or first.lineno) + 1
    return first.lineno


def _other_lines(root: Path, file: str) -> Iterator[str]:
    for path in root.rglob("*.py"):
        if path != root / file:
            yield from path.read_text(encoding="utf-8", errors="replace").splitlines()


def _stripped(lines: Iterable[str]) -> frozenset[str]:
    return frozenset(line.strip() for line in lines if line.strip())
