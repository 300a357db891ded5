"""Splits a report of pytest into its parts: source, lines of exceptions, other text.

A report has the lines of a function up to the one that failed, each after a margin of four
characters; they may end within a `try`. Lines of the exception come after `E   `.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from heapq import nlargest
from itertools import accumulate, islice
from typing import Final, NamedTuple

from pytest_cideldill.redaction.by_shape import Secret
from pytest_cideldill.redaction.in_source import (
    FindInText,
    LabelOf,
    find_in_comments,
    find_in_source,
)

_MARGIN: Final = 4
_BLOCK: Final = re.compile(
    r"(?P<raised>(?:^E   [^\n]*\n?)+)"
    r"|(?:\A(?:@|async def |def )[^\n]*\n)?(?:^(?:    |>   )[^\n]*\n?|^>?[ ]{0,3}\n)+",
    re.MULTILINE,
)
"""Matches lines of an exception, or lines of source; the first one may have lost its margin."""

_BEGIN: Final = re.compile(r"@|async def |def ")
_SHOWN: Final = re.compile(r"^>|^(?:    )?(?:@|async def |def )", re.MULTILINE)
"""Matches what source in a report has: the line that failed, or the head of a function."""

_PLACE: Final = re.compile(r":\d+: |, line \d+")
"""Matches what comes before single lines of source: `shop.py:12: in load`."""

_TRY: Final = re.compile(r"([ \t]*)try:[ \t]*(?:#.*)?\Z")
_HANDLER: Final = re.compile(r"([ \t]*)(?:except|finally)\b")


class ReportPart(NamedTuple):
    """A part of a report.

    Attributes:
        start: Its start in the text.
        end: Its end in the text.
        secrets: Secrets in its source, by their places in the text; None for other text, which is
            to be searched as such.
    """

    start: int
    end: int
    secrets: list[Secret] | None


def parts_of_report(text: str, label_of: LabelOf, find: FindInText) -> Iterator[ReportPart]:
    """The parts of a report: source, lines of exceptions without their margin, other text.

    Args:
        label_of: The label of a sensitive name, None for any other.
    """
    behind = 0
    for block in _BLOCK.finditer(text):
        lines = block[0].split("\n")
        bare = [line if _BEGIN.match(line) else line[_MARGIN:] for line in lines]
        plain = "\n".join(bare)
        if block["raised"]:
            secrets: list[Secret] | None = list(find(plain))
        elif not _is_source(text, block):
            secrets = None
        else:
            secrets = find_in_source("\n".join(bare + _endings(bare)), label_of, find)
            if secrets is not None:
                secrets += find_in_comments(plain, find)
        if secrets is None:
            continue
        if block.start() > behind:
            yield ReportPart(behind, block.start(), None)
        places = _Places(lines, bare)
        inside = [(places.in_text(at), places.in_text(end), label) for at, end, label in secrets]
        yield ReportPart(*block.span(), inside)
        behind = block.end()
    if behind < len(text):
        yield ReportPart(behind, len(text), None)


def _is_source(text: str, block: re.Match[str]) -> bool:
    """Whether lines with a margin are source, and not settings that were printed."""
    if _SHOWN.search(block[0]):
        return True
    before = text[max(block.start() - 300, 0) : block.start()].rstrip("\n").rpartition("\n")[2]
    return _PLACE.search(before) is not None


def _endings(source: list[str]) -> list[str]:
    """The lines that end each `try` that is still open after the last line, innermost first."""
    depths: list[str] = []
    for line in source:
        if begun := _TRY.fullmatch(line):
            depths.append(begun[1])
        elif (handled := _HANDLER.match(line)) and handled[1] in depths:
            del depths[depths.index(handled[1]) :]
    return [f"{depth}finally: pass" for depth in reversed(depths)]


class _Places:
    """Maps places in source to those in a text in which each line has a margin."""

    def __init__(self, lines: list[str], source: list[str]) -> None:
        self._ends = list(accumulate(len(line) + 1 for line in source))
        margins = (len(line) - len(bare) for line, bare in zip(lines, source, strict=True))
        self._shifts = list(accumulate(margins))

    def in_text(self, at: int) -> int:
        """The place in the text for one in the source."""
        return at + self._shifts[min(bisect_right(self._ends, at), len(self._shifts) - 1)]


CUT: Final = "..."
"""Replaces the middle of a text."""

LEAST_PIECE: Final = 4
"""Fewer characters of a secret reveal nothing of it."""

_MOST: Final = 50
"""Most cuts of a text that are looked at."""

_Piece = tuple[int, int, str]


def pieces(text: str, secrets: Iterable[str]) -> Iterator[_Piece]:
    """The places of a secret's start before a cut, or its end after one, each with the secret.

    pytest shortens the values that it compares before any plugin sees them:
    `'key=ghp_GX7q...sSuuyr'`.
    """
    known = tuple(secrets)
    for cut in islice(re.finditer(re.escape(CUT), text), _MOST):
        for found in (_before(text, cut.start(), known), _behind(text, cut.end(), known)):
            yield from nlargest(1, found, key=lambda piece: piece[1] - piece[0])


def _before(text: str, at: int, secrets: Iterable[str]) -> Iterator[_Piece]:
    """The starts of secrets that end at a place."""
    for secret, place in _places(text[max(at - LEAST_PIECE, 0) : at], secrets):
        length = place + LEAST_PIECE
        if text.endswith(secret[:length], 0, at):
            yield at - length, at, secret


def _behind(text: str, at: int, secrets: Iterable[str]) -> Iterator[_Piece]:
    """The ends of secrets that begin at a place."""
    for secret, place in _places(text[at : at + LEAST_PIECE], secrets):
        if text.startswith(secret[place:], at):
            yield at, at + len(secret) - place, secret


def _places(part: str, secrets: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Secrets, and where in them a part that is long enough begins."""
    for secret in secrets if len(part) == LEAST_PIECE else ():
        place = secret.find(part)
        while place >= 0:
            yield secret, place
            place = secret.find(part, place + 1)
