"""Raises the recursion limit for the frames that interceptions add to those of the program.

Runs in the process under test, on the thread that binds breakpoints.
"""

from __future__ import annotations

import sys
from typing import Final

from pytest_cideldill.patching.code_swap import FRAMES

TAKEN: Final = FRAMES if sys.version_info >= (3, 12) else 8
"""Frames of an intercepted call. Before 3.12 each call is passed on, to be recorded."""

_MOST: Final = 2**31 - 1 if sys.version_info >= (3, 12) else 12_000
"""The limit is never raised beyond this: on 3.11 an interception takes room on the C stack."""


class Headroom:
    """Raises the recursion limit, so that a program reaches the same depth as without us."""

    def __init__(self) -> None:
        self._limits: tuple[int, int] | None = None

    def set(self, *, wanted: bool) -> None:
        """Raise the limit, or put it back unless the program has set another one meanwhile."""
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
                pass  # this thread is deeper than the old limit
