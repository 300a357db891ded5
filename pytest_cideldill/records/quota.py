"""The quota of rows of one breakpoint, or of one function, that a process writes.

Two limits, so that a hot line neither fills the disk nor leaves later tests without rows: so
many in any second, and so many in all.
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
    """What is left for one name."""

    __slots__ = ("_in_all", "_left", "_of_a_second", "_until")

    def __init__(self, in_all: int, of_a_second: int) -> None:
        self._in_all = in_all
        self._of_a_second = of_a_second
        self._left = 0  # of this second; no more of the others
        self._until = float("-inf")

    def has(self, count: int, first: float, last: float) -> bool:
        """Whether so many rows may be written, from one moment to another of the same second."""
        if first >= self._until:
            self._in_all += self._left
            self._left = min(self._of_a_second, self._in_all)
            self._in_all -= self._left
            self._until = first + 1
        return last < self._until and self._left >= count

    def take(self, count: int) -> None:
        """So many are written, as there is room."""
        self._left -= count

    def takes(self, moment: float) -> bool:
        """Whether a row of this moment is to be written; then it is taken."""
        has_room = self.has(1, moment, moment)
        self._left -= has_room
        return has_room


class Shares:
    """The quotas of one process."""

    def __init__(self) -> None:
        self._limits = (MAX_ROWS, MAX_ROWS_PER_S)
        self._shares: dict[str, Share] = {}

    def of(self, name: str) -> Share:
        """The quota of a breakpoint or function."""
        if name not in self._shares and len(self._shares) >= _MOST_NAMES:
            name = ""
        if name not in self._shares:
            self._shares[name] = Share(*self._limits)
        return self._shares[name]
