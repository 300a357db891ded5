"""Exceptions that nobody catches outside of tests: what ends a thread, what can't be raised.

`threading.excepthook` and `sys.unraisablehook`, chained: whoever was there is called as well. Runs
on the threads of the program. pytest may replace both for a phase, so `reach` is to be called at
the start of each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final

# Of the program's own modules: ours are views of them.
_HOOKS: Final = (("threading", "excepthook"), ("sys", "unraisablehook"))

Escaped = Callable[[BaseException, "TracebackType | None", FrameType], None]
"""`(error, traceback, frame)`: nobody catches `error`; `frame` is where that was told."""


class Uncaught:
    """Puts hooks of ours before those that are there, while wanted.

    Args:
        escaped: Told what nobody catches, while wanted.
    """

    def __init__(self, escaped: Escaped) -> None:
        self._escaped = escaped
        self._wanted = False

    def reach(self, wanted: bool) -> None:
        """Be called for what nobody catches, or take away what is still ours to take."""
        self._wanted = wanted
        for owner, name in _HOOKS:
            module = sys.modules[owner]
            current = getattr(module, name)
            if wanted and type(current) is not _Hook:
                setattr(module, name, _Hook(current, self._tell))
            elif not wanted and type(current) is _Hook:
                setattr(module, name, current.before)

    def _tell(self, args: Any) -> None:
        error = args.exc_value
        if self._wanted and error is not None:
            self._escaped(error, args.exc_traceback, sys._getframe(2))


class _Hook:
    """One of ours; `before` is what was there."""

    __slots__ = ("_tell", "before")

    def __init__(self, before: Callable[[Any], Any], tell: Callable[[Any], None]) -> None:
        self.before = before
        self._tell = tell

    def __call__(self, args: Any) -> None:
        try:
            self._tell(args)
        finally:
            self.before(args)
