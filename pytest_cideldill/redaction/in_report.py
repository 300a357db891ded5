"""Where the source that pytest puts into a report gives texts to names that are those of secrets.

A report has the lines of a function up to the one that failed, each behind four characters. They
may end within a `try`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from pytest_cideldill.redaction.by_shape import Secret
from pytest_cideldill.redaction.in_source import FindInText
from pytest_cideldill.redaction.in_source import LabelOf
from pytest_cideldill.redaction.in_source import find_in_source

_MARGIN: Final = 4
_BLOCK: Final = re.compile(r"(?:^(?:    |>   )[^\n]*\n?|^>?[ ]{0,3}\n)+", re.MULTILINE)
"""Lines of source."""

_TRY: Final = re.compile(r"([ \t]*)try:[ \t]*(?:#.*)?\Z")
_HANDLER: Final = re.compile(r"([ \t]*)(?:except|finally)\b")
_MOST: Final = 100_000


def find_in_report(text: str, label_of: LabelOf, find: FindInText) -> Iterator[Secret]:
    """The literals that are secrets, without their quotes.

    Args:
        text: Of a report.
        label_of: The label of a sensitive name, None for any other.
        find: Finds secrets in a text, for that of literals.
    """
    for block in _BLOCK.finditer(text[:_MOST]):
        if "'" not in block[0] and '"' not in block[0]:
            continue
        lines = block[0].split("\n")
        source = [line[_MARGIN:] for line in lines]
        found = find_in_source("\n".join(source + _endings(source)), label_of, find)
        places = _Places(lines, source, block.start())
        for start, end, label in found or ():
            yield places.in_text(start), places.in_text(end), label


def _endings(source: list[str]) -> list[str]:
    """What ends each `try` that is open behind the last line, the innermost first."""
    depths: list[str] = []
    for line in source:
        if begun := _TRY.fullmatch(line):
            depths.append(begun[1])
        elif (handled := _HANDLER.match(line)) and handled[1] in depths:
            del depths[depths.index(handled[1]) :]
    return [f"{depth}finally: pass" for depth in reversed(depths)]


class _Places:
    """From places of source to those of a text, in which each line has a margin."""

    def __init__(self, lines: list[str], source: list[str], start: int) -> None:
        self._ends = list(accumulate(len(line) + 1 for line in source))
        margins = (len(line) - len(bare) for line, bare in zip(lines, source, strict=True))
        self._shifts = [start + shift for shift in accumulate(margins)]

    def in_text(self, at: int) -> int:
        """Where a place of the source is."""
        return at + self._shifts[min(bisect_right(self._ends, at), len(self._shifts) - 1)]
