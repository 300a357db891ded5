"""Counters that threads share, and how much of the run a probe watched.

Counters are used on hot paths, by any thread.
"""

from __future__ import annotations

from operator import length_hint
from typing import Final

MANY: Final = range(1, 2**62)
"""The numbers of a counter; more than anything is counted."""


class Counter:
    """Counts 1, 2, 3 … without a lock: no two threads get the same number.

    Attributes:
        next: `next()`: the next number; one call in C.
    """

    __slots__ = ("_left", "next")

    def __init__(self) -> None:
        self._left = iter(MANY)
        self.next = self._left.__next__

    @property
    def value(self) -> int:
        """The number that was given last; 0 if none was."""
        return len(MANY) - length_hint(self._left)


class Watching:
    """In how much of the run a probe watched.

    Attributes:
        ever: At some time.
        whole: From before the tests were loaded on, as it is, without a break.
    """

    __slots__ = ("ever", "whole")

    def __init__(self, enabled: bool, *, from_start: bool) -> None:
        self.ever = enabled
        self.whole = from_start

    def change(self, enabled: bool) -> None:
        """It was switched on, off, or made another one."""
        self.ever = self.ever or enabled
        self.whole = False
