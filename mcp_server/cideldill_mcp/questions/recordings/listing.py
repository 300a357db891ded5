"""The source of the functions that a recording names, and the structure of their statements.

Files are read as they are now; the process that recorded them may have seen an earlier text.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cideldill_mcp.questions.recordings.recorded import Code
from pytest_cideldill.sourcecode.quiet import parse
from pytest_cideldill.sourcecode.reading import source_bytes, text_in

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
LoopNode = ast.For | ast.AsyncFor | ast.While
Node = ast.stmt | ast.ExceptHandler | ast.match_case
Scope = FunctionNode | ast.ClassDef | ast.Lambda | ast.Module

DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BRANCHES: Final = (
    *(ast.If, ast.For, ast.AsyncFor, ast.While, ast.Match),
    *(ast.Try, ast.TryStar, ast.With, ast.AsyncWith),
)
_BLOCKS: Final = ("body", "orelse", "finalbody")


class SourceFiles:
    """Source files of a project; each is read once.

    Args:
        rootdir: Paths are relative to it.
        redact: Hides secrets in the text of a file; its lines keep their numbers.
        texts: Of files that are not as on disk, by their real paths.
    """

    def __init__(
        self,
        rootdir: str,
        redact: Callable[[str], str] = str,
        texts: Mapping[str, str] | None = None,
    ) -> None:
        self.rootdir = rootdir
        self._redact = redact
        self._texts = texts or {}
        self._files: dict[str, tuple[list[str], ast.Module | None]] = {}

    def lines(self, file: str) -> list[str]:
        """The lines of a file; none if it can't be read."""
        return self._read(file)[0]

    def tree(self, file: str) -> ast.Module | None:
        """The syntax tree of a file; None if it can't be read or parsed."""
        return self._read(file)[1]

    def _read(self, file: str) -> tuple[list[str], ast.Module | None]:
        if file not in self._files:
            self._files[file] = self._read_now(os.path.join(self.rootdir, file))
        return self._files[file]

    def _read_now(self, path: str) -> tuple[list[str], ast.Module | None]:
        try:
            patched = self._texts.get(os.path.realpath(path)) if self._texts else None
            text = text_in(source_bytes(path)) if patched is None else patched
        except (OSError, ValueError):
            return [], None
        # Not `splitlines`, which takes form feeds and others for the ends of lines.
        lines = self._redact(text).split("\n")
        if lines and not lines[-1]:
            lines.pop()
        try:
            return lines, parse(text, path)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return lines, None

    def listing(self, code: Code) -> Listing:
        """The source of a code object."""
        tree = self.tree(code.file)
        node = _definition(tree, code) if tree is not None else None
        first, last = (code.first, code.last) if node is None else extent(node)
        return Listing(code.file, first, last, self.lines(code.file), node)


def extent(node: ast.AST) -> tuple[int, int]:
    """First line, with decorators, and last line."""
    lines = [node.lineno] if isinstance(node, ast.stmt | ast.expr) else [1]
    lines += [each.lineno for each in getattr(node, "decorator_list", [])]
    return min(lines), getattr(node, "end_lineno", None) or min(lines)


def _definition(tree: ast.Module, code: Code) -> Scope | None:
    """The definition that a code object was made of."""
    if code.kind == "module":
        return None
    name = code.qualname.rpartition(".")[2]
    for node in ast.walk(tree):
        if isinstance(node, DEFINITIONS) and node.name == name and extent(node)[0] == code.first:
            return node
        if isinstance(node, ast.Lambda) and name == "<lambda>" and node.lineno == code.first:
            return node
    return None


@dataclass(slots=True)
class Listing:
    """The source of one function.

    Attributes:
        file: Relative to the rootdir.
        first: With decorators.
        last: Last line.
        node: Its definition; None if it was not found.
        starts: The first line of the statement, or of the header, that a line is part of.
        ends: The last line of a statement or header, by its first.
        nodes: Statements, handlers and cases by first line.
        loops: The loops around a statement, outermost first, by its first line; a header is in
            its loop. One that is written on one line is left out: its rounds can't be told apart.
    """

    file: str
    first: int
    last: int
    file_lines: Sequence[str] = field(repr=False)
    node: Scope | None
    starts: dict[int, int] = field(init=False, default_factory=dict)
    ends: dict[int, int] = field(init=False, default_factory=dict)
    nodes: dict[int, Node] = field(init=False, default_factory=dict)
    loops: dict[int, tuple[LoopNode, ...]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        node = self.node
        if node is None or isinstance(node, ast.Lambda):
            return
        self._add_span(self.first, max(self.first, extent(node.body[0])[0] - 1), None, ())
        pending: list[tuple[Node, tuple[LoopNode, ...]]] = [
            (statement, ()) for statement in reversed(node.body)
        ]
        while pending:
            each, loops = pending.pop()
            pending += reversed(list(self._add(each, loops)))

    def _add(
        self, node: Node, loops: tuple[LoopNode, ...]
    ) -> Iterator[tuple[Node, tuple[LoopNode, ...]]]:
        """Note a statement; what is inside of it follows."""
        first, last = _extent(node)
        if isinstance(node, DEFINITIONS):
            self._add_span(first, last, node, loops)
            return
        inner = loops
        if isinstance(node, LoopNode) and not inside(node, first):
            inner = (*loops, node)
        blocks = [
            (each, inner if name == "body" else loops)
            for name in _BLOCKS
            for each in (getattr(node, name, ()))
        ]
        if isinstance(node, ast.Try | ast.TryStar):
            blocks += [(handler, loops) for handler in node.handlers]
        if isinstance(node, ast.Match):
            blocks += [(each, loops) for each in node.cases]
        if blocks:
            last = max(first, min(_extent(each)[0] for each, _ in blocks) - 1)
            if isinstance(node, ast.stmt) and (below := _header_end(node)):
                last = min(last, max(first, below))
        self._add_span(first, last, node, inner)
        yield from sorted(blocks, key=lambda each: _extent(each[0])[0])

    def _add_span(
        self, first: int, last: int, node: Node | None, loops: tuple[LoopNode, ...]
    ) -> None:
        for line in range(first, last + 1):
            self.starts.setdefault(line, first)
        if node is not None:
            self.nodes.setdefault(first, node)
            self.loops.setdefault(first, loops)
        self.ends[first] = max(last, self.ends.get(first, 0))

    def start(self, line: int) -> int:
        """The first line of the statement that a line is part of."""
        return self.starts.get(line, line)

    def line(self, number: int) -> str:
        """A line as it is written; empty if there is none."""
        return self.file_lines[number - 1] if 0 < number <= len(self.file_lines) else ""

    def statement(self, first: int) -> str:
        """A statement or header on one line."""
        node = self.nodes.get(first)
        last = self.ends.get(first, first)
        if isinstance(node, DEFINITIONS):
            last = node.lineno
        # Comments and blank lines between a header and its body are no part of it.
        parts = [self.line(number).strip() for number in range(first, last + 1)]
        return " ".join(
            part for at, part in enumerate(parts) if part and (at == 0 or not part.startswith("#"))
        )

    def text_lines(self) -> list[tuple[int, str]]:
        """Number and text of each line, without the indentation that all have."""
        found = [
            (number, self.line(number))
            for number in range(self.first, min(self.last, len(self.file_lines)) + 1)
        ]
        indents = [len(text) - len(text.lstrip()) for _, text in found if text.strip()]
        # A line of a text over several lines may begin further left.
        cut = min(indents, default=0)
        return [(number, text[cut:].rstrip()) for number, text in found]

    def runnable(self) -> set[int]:
        """First lines of the statements inside, apart from docstrings and what makes no code."""
        return {
            line
            for line, node in self.nodes.items()
            if not isinstance(node, ast.Try | ast.TryStar | ast.Global | ast.Nonlocal)
            and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            and not (isinstance(node, ast.AnnAssign) and node.value is None)
        }

    def loops_on_one_line(self) -> set[int]:
        """The lines that hold a whole loop; how often these ran is not known."""
        return {
            line
            for line, node in self.nodes.items()
            if isinstance(node, LoopNode) and inside(node, line)
        }

    @property
    def has_branch(self) -> bool:
        """Whether its lines may run in more than one way."""
        return any(isinstance(node, _BRANCHES) for node in self.nodes.values())

    @property
    def place(self) -> str:
        """`file:first–last`."""
        lines = f"{self.first}" if self.first == self.last else f"{self.first}–{self.last}"
        return f"{self.file}:{lines}"


def _extent(node: Node) -> tuple[int, int]:
    if isinstance(node, ast.match_case):
        return node.pattern.lineno, extent(node.body[-1])[1]
    if isinstance(node, ast.ExceptHandler):
        return node.lineno, node.end_lineno or node.lineno
    return extent(node)


def _header_end(node: ast.stmt) -> int:
    """The last line of the expressions in a header; 0 if it has none."""
    parts: list[ast.AST | None] = [
        getattr(node, name, None) for name in ("test", "iter", "subject")
    ]
    for item in getattr(node, "items", ()):
        parts += [item.context_expr, item.optional_vars]
    return max((extent(part)[1] for part in parts if part is not None), default=0)


def inside(node: Node, line: int, block: str = "body") -> bool:
    """Whether a line is in a block of a statement."""
    statements: Sequence[ast.stmt] = getattr(node, block, ())
    return bool(statements) and _extent(statements[0])[0] <= line <= _extent(statements[-1])[1]
