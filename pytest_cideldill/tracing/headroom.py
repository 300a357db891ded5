"""Room on the stack for the frames that interceptions take besides those of the program.

Owns what we do to the recursion limit. Runs on the thread that commands, in the process under test.
"""

from __future__ import annotations

import sys
from typing import Final

from pytest_cideldill.patching.code_swap import FRAMES

TAKEN: Final = FRAMES if sys.version_info >= (3, 12) else 8
"""Frames of a call; before 3.12 each one is handed on, for its record."""

_MOST: Final = 2**31 - 1 if sys.version_info >= (3, 12) else 12_000
"""What the limit is never raised beyond: 3.11 takes room on the C stack for an interception."""


class Headroom:
    """Raises the recursion limit: a program reaches the depth that it reaches without us."""

    def __init__(self) -> None:
        self._limits: tuple[int, int] | None = None

    def set(self, *, wanted: bool) -> None:
        """Raise the limit; or put it back, unless the program has set another one meanwhile."""
        if wanted is (self._limits is not None):
            return
        limit = sys.getrecursionlimit()
        if self._limits is None:
            raised = max(limit, min(limit * TAKEN, _MOST))
            self._limits = (limit, raised)
            sys.setrecursionlimit(raised)
            return
        before, raised = self._limits
        self._limits = None
        if limit == raised:
            try:
                sys.setrecursionlimit(before)
            except RecursionError:
                pass  # this thread is deeper than that
