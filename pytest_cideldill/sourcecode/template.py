"""Parses templates of tracepoint messages: text with `{expression}` in it, as in an f-string.

The tokenizer of the running Python finds where an expression ends, the compiler checks it. Nothing
is evaluated here; `evaluation.messages` renders the values.
"""

from __future__ import annotations

import re
import sys
import tokenize
from collections.abc import Iterator
from typing import Final

from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.sourcecode.quiet import compiled, tokens

_CLOSERS: Final = {"(": ")", "[": "]", "{": "}"}
_CONVERSIONS: Final = ("r", "s", "a")
_SPEC_DEPTH: Final = 2
"""As in str.format: `{value:{width}}`, but nothing inside the spec of `width`."""

_SHOWN: Final = 80
"""Characters of an expression in a message."""

_OPEN_STRING: Final = "the string that begins here is never closed"
_SIGNS: Final = (tokenize.OP, tokenize.ERRORTOKEN)
"""Types of brackets, `!` and `:`; 3.11 has no other type for a `!` and for a quote left open."""

_COLUMNS_FROM: Final = 1 if sys.version_info >= (3, 12) else 0
"""The number of the first column in errors of the tokenizer."""

_REFUSED: Final = re.compile("[\0\r\ud800-\udfff]")
"""Characters that 3.12 can't tokenize a line with, even if they are behind the expression."""

_TOO_MUCH: Final = (ValueError, RecursionError, MemoryError, OverflowError)
"""Errors of the compiler besides SyntaxError."""


class InvalidTemplate(ValueError):
    """A malformed template. `position` is the 0-based offset of the mistake in its text."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(f"{message} (at position {position} of the template)")
        self.position = position


@dataclass(frozen=True, slots=True)
class Field:
    """One `{source!conversion:spec}`.

    Attributes:
        source: The expression as written. Put it in parentheses to compile it: it may be a bare
            tuple or go over several lines.
        position: Where it begins in the template, 0-based.
        conversion: `r`, `s` or `a`.
        spec: The format spec behind the colon, None without a colon.
    """

    source: str
    position: int
    conversion: str | None = None
    spec: tuple[str | Field, ...] | None = None


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template: literal text and fields, in order."""

    text: str
    parts: tuple[str | Field, ...]

    @property
    def expressions(self) -> tuple[str, ...]:
        """The sources of all fields in the order of evaluation, a format spec after its owner."""
        return tuple(_sources(self.parts))


def parse_template(text: str) -> Template:
    """Split a template and check its expressions.

    `{{` and `}}` are literal braces; `{x=}` stands for `x={x!r}`, as in an f-string.

    Raises:
        InvalidTemplate: A brace, bracket or string is not closed, or the text between the braces
            is no expression.
    """
    parts, _ = _Parser(text).parts(0, _SPEC_DEPTH)
    return Template(text, parts)


def _sources(parts: tuple[str | Field, ...]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Field):
            yield part.source
            yield from _sources(part.spec or ())


@dataclass(frozen=True, slots=True)
class _Parser:
    text: str

    def parts(self, at: int, depth: int) -> tuple[tuple[str | Field, ...], int]:
        """Literals and fields up to the end of the template, or of the spec that begins at `at`."""
        top = depth == _SPEC_DEPTH
        parts: list[str | Field] = []
        literal = ""
        while at < len(self.text):
            here = self.text[at]
            if top and here in "{}" and self.text.startswith(here, at + 1):
                literal += here
                at += 2
            elif here == "{":
                debug, field, at = self.field(at, depth)
                parts += [literal + debug, field]
                literal = ""
            elif here != "}":
                literal += here
                at += 1
            elif top:
                raise InvalidTemplate("'}' closes nothing: write '}}' for a literal brace", at)
            else:
                break
        return tuple(part for part in (*parts, literal) if part), at

    def field(self, start: int, depth: int) -> tuple[str, Field, int]:
        """The field whose brace is at `start`: the text of `x=`, the field, the position behind."""
        if depth == 0:
            raise InvalidTemplate("format specs can't be nested that deep", start)
        source_end, end = self.expression_end(start)
        source = self.text[start + 1 : source_end]
        debug = self.text[start + 1 : end] if source_end < end else ""
        self.check(source, start + 1)
        conversion = None
        if self.text[end] == "!":
            conversion = self.text[end + 1 : end + 2]
            if conversion not in _CONVERSIONS:
                raise InvalidTemplate("a conversion is one of !r, !s and !a", end)
            end += 2
        spec = None
        if self.text.startswith(":", end):
            spec, end = self.parts(end + 1, depth - 1)
        if not self.text.startswith("}", end):
            if end < len(self.text):
                raise InvalidTemplate("':' or '}' is expected after a conversion", end)
            raise self.never_closed(start, start)
        if debug and conversion is None and spec is None:
            conversion = "r"
        return debug, Field(source, start + 1, conversion, spec), end + 1

    def check(self, source: str, start: int) -> None:
        """Refuse a source that is no expression."""
        if not source.strip():
            message = "there is no expression between the braces: write '{{}}' for literal ones"
            raise InvalidTemplate(message, start)
        shown = source.strip()[:_SHOWN]
        try:
            compiled(f"({source})", "<template>", "eval")
        except SyntaxError as error:
            at = start + _offset(source, error)
            raise InvalidTemplate(f"{shown!r} {_diagnosis(source)}: {error.msg}", at) from error
        except _TOO_MUCH as error:
            raise InvalidTemplate(f"{shown!r} can't be compiled: {error}", start) from error

    def expression_end(self, brace: int) -> tuple[int, int]:
        """Where the expression behind a brace ends, and where the `!`, `:` or `}` behind it is.

        Between the two is at most the `=` of `{x=}`, with blanks.
        """
        opened: list[int] = []
        starts = [brace]
        at, equals = brace, None
        try:
            for token in tokens(self.lines(starts)):
                at = starts[token.start[0] - 1] + token.start[1]
                sign = token.string if token.type in _SIGNS else ""
                if token.type == tokenize.COMMENT:
                    raise InvalidTemplate("an expression can't hold a comment", at)
                if sign in ("'", '"'):
                    raise InvalidTemplate(_OPEN_STRING, at)
                if sign in _CLOSERS:
                    opened.append(at)
                elif len(opened) == 1 and (sign == "!" or sign.startswith((":", "}"))):
                    return at if equals is None else equals, at
                elif sign in _CLOSERS.values():
                    self.close(opened, at)
                if token.string.strip():
                    equals = at if sign == "=" else None
        except tokenize.TokenError as error:
            message, (row, column) = error.args
            if "unterminated" in message or message == "EOF in multi-line string":
                at = starts[row - 1] + column - _COLUMNS_FROM
                raise InvalidTemplate(_OPEN_STRING, at) from error
            if "EOF" not in message and (end := self.text.find("}", at)) >= 0:
                return end, end  # `check` says what is wrong, with its position
        raise self.never_closed(opened[-1], brace)

    def lines(self, starts: list[int]) -> Iterator[str]:
        """The lines from `starts[0]` on; the start of each following one is added to `starts`."""
        while (start := starts[-1]) < len(self.text):
            starts.append(self.text.find("\n", start) + 1 or len(self.text))
            yield _REFUSED.sub(" ", self.text[start : starts[-1]])

    def close(self, opened: list[int], at: int) -> None:
        """Take the bracket that the one at `at` closes off the stack; the first is the field's."""
        start = opened[-1]
        if len(opened) == 1:
            raise InvalidTemplate(f"{self.text[at]!r} closes nothing", at)
        if _CLOSERS[self.text[start]] != self.text[at]:
            raise self.never_closed(start, opened[0])
        opened.pop()

    def never_closed(self, start: int, brace: int) -> InvalidTemplate:
        """The error for a bracket of the field that begins at `brace`."""
        way_out = ": write '{{' for a literal brace" if start == brace else ""
        return InvalidTemplate(f"{self.text[start]!r} is never closed{way_out}", start)


def _offset(source: str, error: SyntaxError) -> int:
    """The position in `source` of an error that the compiler found in `(source)`."""
    lines = source.split("\n")
    row = min(max(error.lineno or 1, 1), len(lines)) - 1
    column = max((error.offset or 1) - 1, 0) - (row == 0)
    return min(max(sum(len(line) + 1 for line in lines[:row]) + column, 0), len(source))


def _diagnosis(source: str) -> str:
    if source.split()[0] == "lambda":
        return "is cut at its colon: put a lambda in parentheses"
    try:
        compiled(source.strip(), "<template>", "exec")
    except (SyntaxError, *_TOO_MUCH):
        return "is no Python expression"
    return "is a statement, and a template holds expressions only"
