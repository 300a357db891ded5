"""Finds a line of an earlier version of a source text in a later version.

A line is identified by its text. Where several lines have that text, those in a function of the
same qualified name take precedence: `return total` stands in many functions.
"""

from __future__ import annotations

from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.sourcecode.locations import SourceMap, SourcePlace


@dataclass(frozen=True, slots=True)
class Anchor:
    """A line of the earlier text, with what identifies it.

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
    return [each for each in now.places_at(line) if each.key.qualname == anchor.function]


def _place(now: SourceMap, line: int, anchor: Anchor) -> SourcePlace:
    own = _own(now, line, anchor)
    if len(own) == 1:
        return own[0]
    column = None if anchor.offset is None else now.margin(line) + anchor.offset
    return now.code_for_line(line, column)
