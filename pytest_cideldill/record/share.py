"""How many rows of one breakpoint, or of one function, a process writes.

Two limits, so that a hot line neither fills the disk nor uses up within one test what later tests
would have told: so many in any second, and so many in all.
"""

from __future__ import annotations

from typing import Final

MAX_ROWS: Final = 100_000
"""Rows of one breakpoint in one process; as many calls of one function."""

MAX_ROWS_PER_S: Final = 20_000
"""The same within a second."""

_MOST_NAMES: Final = 10_000
"""Breakpoints and functions that have a share of their own; further ones have one together."""


class Share:
    """What is left for one name.

    Attributes:
        until: The moment from which on `renew` is to be called, before a row is taken.
        left: Rows that may be written before; each row takes one, negative: it is dropped.
    """

    __slots__ = ("_in_all", "_of_a_second", "left", "until")

    def __init__(self, in_all: int, of_a_second: int) -> None:
        self.until = float("-inf")
        self.left = 0
        self._in_all = in_all
        self._of_a_second = of_a_second

    def renew(self, moment: float) -> None:
        """Another second begins."""
        self._in_all += max(self.left, 0)
        self.left = min(self._of_a_second, self._in_all)
        self._in_all -= self.left
        self.until = moment + 1

    def has(self, count: int, first: float, last: float) -> bool:
        """Whether so many rows, from one moment to another, may be written; they are not taken."""
        if first >= self.until:
            self.renew(first)
        return last < self.until and self.left >= count

    def takes(self, moment: float) -> bool:
        """Whether a row of this moment is to be written."""
        if moment >= self.until:
            self.renew(moment)
        self.left -= 1
        return self.left >= 0


class Shares:
    """Those of one process."""

    def __init__(self) -> None:
        self._limits = (MAX_ROWS, MAX_ROWS_PER_S)
        self._shares: dict[str, Share] = {}

    def of(self, name: str) -> Share:
        """That of a breakpoint or function."""
        if name not in self._shares and len(self._shares) >= _MOST_NAMES:
            name = ""
        if name not in self._shares:
            self._shares[name] = Share(*self._limits)
        return self._shares[name]
