"""Log messages of tracepoints: text with `{expression}` in it.

Pure: finds the expressions as an f-string of the same Python version does and checks that they
compile. Evaluates nothing; how a value becomes text is the capture layer's business.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from types import CodeType
from typing import Final

from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.sourcecode.quiet import compiled

_NESTED_QUOTES: Final = sys.version_info >= (3, 12)
"""Whether expressions inside of f-strings may hold the quotes that the f-string is in (PEP 701)."""

_CLOSERS: Final = {"(": ")", "[": "]", "{": "}"}
_CONVERSIONS: Final = ("r", "s", "a")
_SPEC_DEPTH: Final = 2
"""As in str.format: `{value:{width}}`, but nothing inside the spec of `width`."""

_SHOWN: Final = 80
"""Characters of an expression in a message."""

_PREFIX: Final = re.compile(r"(?<!\w)[A-Za-z]{1,2}\Z")
_DEBUG: Final = re.compile(r"(?s)(?P<source>.*[^=!<>:+*/%&|^@-])=\s*\Z")


class InvalidTemplate(ValueError):
    """A template that can't be understood. `position` is the 0-based offset in its text."""

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
        spec: What follows the colon, None without a colon.
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
    def fields(self) -> tuple[Field, ...]:
        """All fields in the order of their evaluation, those in format specs after their owner."""
        return tuple(_fields(self.parts))

    @property
    def expressions(self) -> tuple[str, ...]:
        """The sources of `fields`."""
        return tuple(field.source for field in self.fields)

    def compile_fields(self) -> tuple[CodeType, ...]:
        """A code object for `eval` for each of `fields`."""
        return tuple(_compile(field.source) for field in self.fields)


def parse_template(text: str) -> Template:
    """Split a template and check its expressions.

    `{{` and `}}` are literal braces; `{x=}` stands for `x={x!r}`, as in an f-string.

    Raises:
        InvalidTemplate: A brace, bracket or string is not closed, or what is between the braces is
            no expression.
    """
    try:
        parts, _ = _Parser(text).parts(0, _SPEC_DEPTH)
    except RecursionError:
        raise InvalidTemplate("f-strings are nested too deeply", 0) from None
    return Template(text, parts)


def _fields(parts: tuple[str | Field, ...]) -> Iterator[Field]:
    for part in parts:
        if isinstance(part, Field):
            yield part
            yield from _fields(part.spec or ())


def _compile(source: str) -> CodeType:
    return compiled(f"({source})", "<template>", "eval")


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
        end = self.expression_end(start + 1, start)
        debug, source = self.debug_text(self.text[start + 1 : end])
        self.check(source, start + 1)
        conversion = None
        if self.text[end] == "!":
            conversion, end = self.conversion(end)
        spec = None
        if self.text.startswith(":", end):
            spec, end = self.parts(end + 1, depth - 1)
        if not self.text.startswith("}", end):
            if end < len(self.text):
                raise InvalidTemplate("':' or '}' is expected after a conversion", end)
            raise InvalidTemplate("'{' is never closed: write '{{' for a literal brace", start)
        if debug and conversion is None and spec is None:
            conversion = "r"
        return debug, Field(source, start + 1, conversion, spec), end + 1

    def debug_text(self, inside: str) -> tuple[str, str]:
        """`("x=", "x")` of `x=`, else `("", inside)`."""
        found = _DEBUG.fullmatch(inside)
        return (inside, found["source"]) if found else ("", inside)

    def conversion(self, at: int) -> tuple[str, int]:
        """The letter after the `!` at `at`, and the position behind it."""
        letter = self.text[at + 1 : at + 2]
        if letter not in _CONVERSIONS:
            raise InvalidTemplate("a conversion is one of !r, !s and !a", at)
        return letter, at + 2

    def check(self, source: str, start: int) -> None:
        """Refuse what is no expression."""
        if not source.strip():
            message = "there is no expression between the braces: write '{{}}' for literal ones"
            raise InvalidTemplate(message, start)
        shown = source.strip()[:_SHOWN]
        try:
            _compile(source)
        except SyntaxError as error:
            at = start + _offset(source, error)
            raise InvalidTemplate(f"{shown!r} {_diagnosis(source)}: {error.msg}", at) from error
        except (ValueError, RecursionError, MemoryError, OverflowError) as error:
            raise InvalidTemplate(f"{shown!r} can't be compiled: {error}", start) from error

    def expression_end(self, at: int, brace: int) -> int:
        """Where the expression that begins at `at` ends: at a `!`, `:` or `}` outside brackets.

        Args:
            at: Position of its first character.
            brace: Position of the brace that opened it.
        """
        opened: list[int] = []
        while at < len(self.text):
            here = self.text[at]
            if here in "\"'":
                at = self.string_end(at, self.prefix(at, brace))
                continue
            if here == "#":
                raise InvalidTemplate("an expression can't hold a comment", at)
            if here in _CLOSERS:
                opened.append(at)
            elif not opened and here in ":}":
                return at
            elif not opened and here == "!":
                if not self.text.startswith("=", at + 1):
                    return at
                at += 1
            elif here in ")]}":
                self.close(opened, at)
            at += 1
        at = opened[-1] if opened else brace
        way_out = "" if opened else ": write '{{' for a literal brace"
        raise InvalidTemplate(f"{self.text[at]!r} is never closed{way_out}", at)

    def close(self, opened: list[int], at: int) -> None:
        """Take the bracket that the one at `at` closes off the stack."""
        if not opened:
            raise InvalidTemplate(f"{self.text[at]!r} closes nothing", at)
        start = opened.pop()
        if _CLOSERS[self.text[start]] != self.text[at]:
            raise InvalidTemplate(f"{self.text[start]!r} is never closed", start)

    def prefix(self, quote: int, brace: int) -> str:
        """The letters before a quote that make the string a raw or formatted one."""
        found = _PREFIX.search(self.text, brace + 1, quote)
        return found[0].lower() if found else ""

    def string_end(self, start: int, prefix: str) -> int:
        """The position behind the string whose quote is at `start`."""
        quote = self.text[start]
        if self.text.startswith(quote * 3, start):
            quote *= 3
        formatted = _NESTED_QUOTES and ("f" in prefix or "t" in prefix)
        at = start + len(quote)
        while at < len(self.text):
            if self.text.startswith(quote, at):
                return at + len(quote)
            if formatted and self.text.startswith("{{", at):
                at += 2
            elif formatted and self.text[at] == "{":
                at = self.inner_field_end(at)
            elif self.text[at] == "\\":
                at = self.escape_end(at, formatted=formatted, raw="r" in prefix)
            else:
                at += 1
        raise InvalidTemplate("the string that begins here is never closed", start)

    def escape_end(self, at: int, *, formatted: bool, raw: bool) -> int:
        """The position behind the backslash at `at` and what it escapes."""
        if formatted and not raw and self.text.startswith("N{", at + 1):
            return self.text.find("}", at) + 1 or len(self.text)
        # In an f-string a brace after a backslash is still a brace.
        return at + 1 if formatted and self.text.startswith("{", at + 1) else at + 2

    def inner_field_end(self, start: int) -> int:
        """The position behind a field of an f-string inside an expression."""
        end = self.expression_end(start + 1, start)
        while end < len(self.text) and self.text[end] != "}":
            end = self.inner_field_end(end) if self.text[end] == "{" else end + 1
        return end + 1


def _offset(source: str, error: SyntaxError) -> int:
    """Where in `source` a compiler that read it in parentheses found an error."""
    lines = source.split("\n")
    row = min(max(error.lineno or 1, 1), len(lines)) - 1
    column = max((error.offset or 1) - 1, 0) - (row == 0)
    return min(max(sum(len(line) + 1 for line in lines[:row]) + column, 0), len(source))


def _diagnosis(source: str) -> str:
    if source.split()[0] == "lambda":
        return "is cut at its colon: put a lambda in parentheses"
    try:
        compiled(source.strip(), "<template>", "exec")
    except (SyntaxError, ValueError):
        return "is no Python expression"
    return "is a statement, and a template holds expressions only"
