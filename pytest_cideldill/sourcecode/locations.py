"""Maps lines, columns and names of a source text to code objects.

Pure: compiles the text and never runs it. The result holds for the Python version that compiles, so
the tests' interpreter does this: in the live run or in the process of `helper.py`.
"""

from __future__ import annotations

import ast
import dis
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from functools import lru_cache
from inspect import CO_NEWLOCALS
from types import CodeType
from typing import Final

from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.sourcecode import describe
from pytest_cideldill.sourcecode.codes import CodeKey, key_of, lines_of, walk
from pytest_cideldill.sourcecode.quiet import compiled, parse

_NEVER_RUN: Final = "__annotate__"
"""Code that CPython 3.14 runs only when annotations are read."""


class InvalidSource(ValueError):
    """The text is no Python source for this interpreter."""

    def __init__(self, filename: str, line: int | None, reason: str) -> None:
        place = f"{filename}:{line}" if line else filename
        super().__init__(f"{place} can't be compiled: {reason}")
        self.line = line


class InvalidLine(ValueError):
    """A line without code. `nearest` is None when the file has no code at all."""

    def __init__(self, filename: str, line: int, nearest: int | None) -> None:
        way_out = "the file has none at all" if nearest is None else f"use line {nearest}"
        super().__init__(f"line {line} of {filename} has no code: {way_out}")
        self.line = line
        self.nearest = nearest


@dataclass(frozen=True, slots=True)
class Candidate:
    """A column at which a code object begins on a line, and its qualified name."""

    column: int
    function: str


class InvalidColumn(ValueError):
    """A column outside the code of its line; `candidates` are the columns that can be used."""

    def __init__(self, line: int, column: int, candidates: tuple[Candidate, ...]) -> None:
        known = ", ".join(f"{candidate.column} ({candidate.function})" for candidate in candidates)
        super().__init__(f"column {column} of line {line} has no code: use one of {known}")
        self.candidates = candidates


class FunctionNotFound(ValueError):
    """A name that no function of the file has; `known` are the names of its functions."""

    def __init__(self, filename: str, name: str, known: tuple[str, ...]) -> None:
        close = get_close_matches(name, known, 3) or known[:10]
        way_out = f"it has {', '.join(close)}" if close else "it has none at all"
        super().__init__(f"{filename} has no function {name!r}: {way_out}")
        self.known = known


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A line (1-based) in a code object, with the stripped text of the line."""

    line: int
    key: CodeKey
    source: str


@dataclass(frozen=True, slots=True, eq=False)
class _Scope:
    code: CodeType
    parent: CodeType | None
    depth: int
    key: CodeKey
    lines: frozenset[int]


@dataclass(frozen=True, slots=True, eq=False)
class SourceMap:
    """The code of one source text. Lines and columns are 1-based; columns count characters.

    Attributes:
        filename: As given.
        lines: All lines with code, sorted. Docstrings of modules and classes count as having none.
        root: The module's code object.
    """

    filename: str
    lines: tuple[int, ...]
    root: CodeType
    _texts: tuple[str, ...]
    _tree: ast.Module
    _scopes: tuple[_Scope, ...]

    @classmethod
    def from_source(cls, text: str, filename: str) -> SourceMap:
        """Compile as pytest and the import system would, without running anything.

        Raises:
            InvalidSource: The text is malformed.
        """
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        try:
            tree = parse(text, filename)
            root = compiled(tree, filename, "exec")
        except SyntaxError as error:
            raise InvalidSource(filename, error.lineno, error.msg) from error
        except (ValueError, RecursionError, MemoryError) as error:
            raise InvalidSource(filename, None, str(error) or type(error).__name__) from error
        scopes = tuple(_scopes(root, describe.docstring_lines(tree)))
        lines = tuple(sorted({line for scope in scopes for line in scope.lines}))
        return cls(filename, lines, root, tuple(text.split("\n")), tree, scopes)

    def nearest(self, line: int) -> int | None:
        """The line with code that is nearest in meaning to `line`; None if there is no code.

        The line itself; else the start of the statement that it continues; else the nearest line of
        the same function or class, below rather than above.
        """
        if line in self.lines:
            return line
        spans, parts = _layout(self)
        first, last = spans.get(line, (line, line))
        if inside := [each for each in self.lines if first <= each <= last]:
            return inside[0]
        start, end = max(
            (block for block in parts if block[0] <= line <= block[1]),
            default=(1, len(self._texts)),
        )
        near = [each for each in self.lines if start <= each <= end]
        return min(near or self.lines, key=_distance(first, last), default=None)

    def code_for_line(self, line: int, column: int | None = None) -> SourcePlace:
        """The code object to which a breakpoint on a line is bound.

        Where several have code on the line it is the outermost, as in other debuggers: the
        statement and not the lambda in it, the definition and not the body of
        `def f(x): return x`. A column in the text of the lambda, the comprehension (where it has
        code of its own) or the body selects that code object.

        Raises:
            InvalidLine: The line has no code.
            InvalidColumn: The column is outside of the line's text.
        """
        here = self._scopes_at(line)
        if not here:
            raise InvalidLine(self.filename, line, self.nearest(line))
        return self._place(line, here[0] if column is None else self._at(here, line, column))

    def places_at(self, line: int) -> list[SourcePlace]:
        """The code objects that have code on a line, the outermost first."""
        return [self._place(line, scope) for scope in self._scopes_at(line)]

    def candidates(self, line: int) -> tuple[Candidate, ...]:
        """The columns that `code_for_line` distinguishes; empty for a line without code."""
        here = self._scopes_at(line)
        found = {(self.margin(line), scope.key.qualname) for scope in here[:1]}
        for scope in here[1:]:
            found |= {(start, scope.key.qualname) for start, _ in self._spans(scope, line)}
        return tuple(Candidate(column, function) for column, function in sorted(found))

    def function_places(self, name: str) -> tuple[SourcePlace, ...]:
        """The first body lines of the functions with this name, in source order.

        Args:
            name: A qualified name, `<locals>` optional, else the end of one: `total`, `Cart.total`.

        Raises:
            FunctionNotFound: There is none.
        """
        found = [(qualname, node, scope) for qualname, node, scope, _ in self._functions()]
        matching = [
            each for each in found if name in (each[0], each[0].replace(".<locals>", ""))
        ] or [each for each in found if each[0].replace(".<locals>", "").endswith(f".{name}")]
        if not matching:
            raise FunctionNotFound(self.filename, name, tuple(each[0] for each in found))
        return tuple(
            self._place(describe.first_body_line(node, scope.lines), scope)
            for _, node, scope in matching
        )

    def functions(self) -> tuple[describe.FunctionInfo, ...]:
        """Every `def` of the file, in source order, but for those that CPython optimizes away.

        Also the lambdas that modules and classes assign to names.
        """
        return tuple(
            describe.describe_function(qualname, node, scope.code.co_flags, in_class=in_class)
            for qualname, node, scope, in_class in self._functions()
        )

    def text_of(self, line: int) -> str:
        """The text of a line, stripped."""
        return self._texts[line - 1].strip()

    def margin(self, line: int) -> int:
        """The first column of a line behind its indentation."""
        text = self._texts[line - 1]
        return len(text) - len(text.lstrip()) + 1

    def _functions(self) -> Iterator[tuple[str, describe.FunctionNode, _Scope, bool]]:
        named = {(scope.code.co_name, scope.key.line): scope for scope in self._scopes}
        lambdas = [scope for scope in self._scopes if scope.code.co_name == "<lambda>"]
        for qualname, node, in_class in describe.definitions(self._tree):
            if isinstance(node, describe.AssignedLambda):
                at = (node.made.lineno, node.made.col_offset)
                for scope in lambdas:
                    if any(span[:2] == at for span in _expressions(scope)):
                        yield qualname, node, scope, in_class
            elif function := named.get((node.name, describe.first_line(node))):
                yield function.key.qualname, node, function, in_class

    def _scopes_at(self, line: int) -> list[_Scope]:
        here = [scope for scope in self._scopes if line in scope.lines]
        return sorted(here, key=lambda each: each.depth)

    def _at(self, here: list[_Scope], line: int, column: int) -> _Scope:
        """The innermost of the code objects of a line that has the column."""
        spans = [
            (end - start, index)
            for index, scope in enumerate(here)
            if index > 0
            for start, end in self._spans(scope, line)
            if start <= column < end
        ]
        if spans:
            return here[min(spans)[1]]
        if self.margin(line) <= column <= len(self._texts[line - 1].rstrip()):
            return here[0]
        raise InvalidColumn(line, column, self.candidates(line))

    def _spans(self, scope: _Scope, line: int) -> Iterator[tuple[int, int]]:
        """`(first column, column behind)` of the text of a nested code object on a line."""
        places = _expressions(scope) if scope.key.shape else _instructions(scope.code, line)
        for first, start, last, end in places or _expressions(scope):
            if first <= line <= last:
                yield (
                    self._column(line, start) if first == line else self.margin(line),
                    self._column(line, end) if last == line else len(self._texts[line - 1]) + 1,
                )

    def _column(self, line: int, offset: int) -> int:
        # CPython counts bytes of UTF-8.
        before = self._texts[line - 1].encode("utf-8", "surrogatepass")[:offset]
        return len(before.decode("utf-8", "replace")) + 1

    def _place(self, line: int, scope: _Scope) -> SourcePlace:
        return SourcePlace(line, scope.key, self.text_of(line))


@lru_cache(maxsize=1)
def _layout(source: SourceMap) -> tuple[dict[int, tuple[int, int]], tuple[tuple[int, int], ...]]:
    """The statements and the blocks of a text; finding them takes as long as compiling it."""
    spans = describe.statements("\n".join(source._texts))
    return spans, tuple(describe.blocks(source._tree, spans))


def _scopes(root: CodeType, docstrings: dict[int, frozenset[int]]) -> Iterator[_Scope]:
    for code, parent, depth in walk(root):
        if code.co_name == _NEVER_RUN:
            continue
        lines = lines_of(code)
        if code is root:
            lines -= docstrings.get(0, frozenset())
        elif not code.co_flags & CO_NEWLOCALS:  # a class
            lines -= docstrings.get(code.co_firstlineno, frozenset())
        yield _Scope(code, parent, depth, key_of(code), lines)


def _distance(first: int, last: int) -> Callable[[int], tuple[int, bool]]:
    return lambda line: (first - line if line < first else line - last, line < first)


_Span = tuple[int, int, int, int]
"""First line and offset, last line and offset behind."""


def _expressions(scope: _Scope) -> list[_Span]:
    """The text of the expression that makes a nested code object: of the whole lambda, say."""
    assert scope.parent is not None
    made = [each for each in dis.get_instructions(scope.parent) if each.argval is scope.code]
    return [span for each in made if each.positions and (span := _span(*each.positions))]


def _instructions(code: CodeType, line: int) -> list[_Span]:
    """From the first to the last column of a code object's own instructions on a line."""
    spans = [span for position in code.co_positions() if (span := _span(*position))]
    here = [span for span in spans if span[0] == line == span[2] and span[1] < span[3]]
    if not here:
        return []
    return [(line, min(span[1] for span in here), line, max(span[3] for span in here))]


def _span(first: int | None, last: int | None, start: int | None, end: int | None) -> _Span | None:
    if first is None or last is None or start is None or end is None:
        return None
    return (first, start, last, end)


@dataclass(frozen=True, slots=True)
class Anchor:
    """A line of an earlier version of a source text, with what identifies it.

    Attributes:
        line: Its number, 1-based.
        source: Its text, stripped.
        function: Qualified name of the code object that was selected there.
        offset: The column that selected it, counted from the first character of the text.
    """

    line: int
    source: str
    function: str
    offset: int | None = None


def find_again(now: SourceMap, anchor: Anchor) -> tuple[SourcePlace, tuple[int, ...]]:
    """The place of the line in the later text, and all lines with code that have its text.

    A line is identified by its text. Where several lines have that text, those in a function of the
    same qualified name take precedence: `return total` stands in many functions.
    If the text does not identify exactly one line, the line with the old number is taken.

    Raises:
        InvalidLine: That line has no code.
        InvalidColumn: The line has no code at the column.
    """
    alike = tuple(line for line in now.lines if now.text_of(line) == anchor.source)
    own = [line for line in alike if _own(now, line, anchor)]
    line = anchor.line
    if line not in own and len(own or alike) == 1:
        (line,) = own or alike
    return _place(now, line, anchor), alike


def _own(now: SourceMap, line: int, anchor: Anchor) -> list[SourcePlace]:
    """The code objects of a line whose qualified name is the anchor's."""
    return [place for place in now.places_at(line) if place.key.qualname == anchor.function]


def _place(now: SourceMap, line: int, anchor: Anchor) -> SourcePlace:
    own = _own(now, line, anchor)
    if len(own) == 1:
        return own[0]
    column = None if anchor.offset is None else now.margin(line) + anchor.offset
    return now.code_for_line(line, column)
