"""The lines of a text, and those of another one that was made from it by a patch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

from cideldill_mcp.questions.recordings.recorded import Code

_ALIKE: Final = 0.6
"""How much of two lines is equal, at least, if one was made from the other."""

_MOST_PAIRS: Final = 2_500
"""Lines times lines of a changed passage that are compared with each other."""


class Counterparts:
    """Which lines of two texts are the same statement; an indentation is no difference.

    Args:
        left: The lines of one text.
        right: Those of the other one.
    """

    def __init__(self, left: Sequence[str], right: Sequence[str]) -> None:
        self.is_same = left == right
        self._to_right: dict[int, int] = {}
        # First and last right line that stand for a left one; also where that is gone.
        self._spans: list[tuple[int, int]] = []
        if not self.is_same:
            self._align([each.strip() for each in left], [each.strip() for each in right])
        self._to_left = {right: left for left, right in self._to_right.items()}

    def right(self, line: int) -> int:
        """The right line that a left one has become; 0: it is gone."""
        return line if self.is_same else self._to_right.get(line, 0)

    def left(self, line: int) -> int:
        """The left line that a right one was; 0: it is new."""
        return line if self.is_same else self._to_left.get(line, 0)

    def left_near(self, line: int) -> int:
        """The left line of a right one, or of the next one above that has one; 0: there is none."""
        while line > 0 and not self.left(line):
            line -= 1
        return self.left(line) if line > 0 else 0

    def are_one(self, left: Code, right: Code) -> bool:
        """Whether two code objects of the file are of one definition."""
        if left.qualname != right.qualname:
            return False
        if self.is_same:
            return left.first == right.first
        first, last = self._span(left.first)[0], self._span(left.last)[1]
        return first <= right.last and right.first <= last

    def _span(self, line: int) -> tuple[int, int]:
        return self._spans[line - 1] if 0 < line <= len(self._spans) else (line, line)

    def _align(self, left: list[str], right: list[str]) -> None:
        start = 0
        most = min(len(left), len(right))
        while start < most and left[start] == right[start]:
            start += 1
        end = 0
        while end < most - start and left[-1 - end] == right[-1 - end]:
            end += 1
        last, other_last = len(left) - end, len(right) - end
        self._equal(0, 0, start)
        matcher = SequenceMatcher(None, left[start:last], right[start:other_last], False)
        for kind, a, a_end, b, b_end in matcher.get_opcodes():
            at, other = start + a, start + b
            if kind == "equal":
                self._equal(at, other, a_end - a)
                continue
            ours, theirs = left[at : start + a_end], right[other : start + b_end]
            self._spans += [(other + 1, other + len(theirs))] * len(ours)
            for one, two in _pairs(ours, theirs):
                self._to_right[at + one + 1] = other + two + 1
        self._equal(last, other_last, end)

    def _equal(self, left: int, right: int, count: int) -> None:
        for at in range(count):
            self._to_right[left + at + 1] = right + at + 1
            self._spans.append((right + at + 1, right + at + 1))


def _pairs(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Which lines of a changed passage were made from which, in order."""
    if len(left) == len(right) or len(left) * len(right) > _MOST_PAIRS:
        yield from zip(range(len(left)), range(len(right)), strict=False)
        return
    start = 0
    for at, line in enumerate(left):
        for other in range(start, len(right)):
            if SequenceMatcher(None, line, right[other], False).ratio() >= _ALIKE:
                yield at, other
                start = other + 1
                break
