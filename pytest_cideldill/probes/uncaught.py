"""Exceptions that nothing catches outside of tests: those that end a thread or can't be raised.

Chains hooks to `threading.excepthook` and `sys.unraisablehook`: the hook before ours is called as
well. Runs on the threads of the program. pytest may replace both hooks for a phase of a test, so
`reach` is to be called at the start of each phase.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final

# Of the program's own modules: ours are views of them.
_HOOKS: Final = (("threading", "excepthook"), ("sys", "unraisablehook"))

Escaped = Callable[[BaseException, "TracebackType | None", FrameType], None]
"""`(error, traceback, frame)`: nothing catches `error`; `frame` called the hook."""


class Uncaught:
    """Owns our two hooks.

    Args:
        escaped: Called with each exception that nothing catches, while that is wanted.
    """

    def __init__(self, escaped: Escaped) -> None:
        self._escaped = escaped
        self._wanted = False

    def reach(self, wanted: bool) -> None:
        """Put our hooks before those that are there, or take away ours that are outermost."""
        self._wanted = wanted
        for owner, name in _HOOKS:
            module = sys.modules[owner]
            current = getattr(module, name)
            if wanted and type(current) is not _Hook:
                setattr(module, name, _Hook(current, self._report))
            elif not wanted and type(current) is _Hook:
                setattr(module, name, current.before)

    def _report(self, args: Any) -> None:
        error = args.exc_value
        if self._wanted and error is not None:
            self._escaped(error, args.exc_traceback, sys._getframe(2))


class _Hook:
    """A hook of ours; `before` is the one that it replaced."""

    __slots__ = ("_report", "before")

    def __init__(self, before: Callable[[Any], Any], report: Callable[[Any], None]) -> None:
        self.before = before
        self._report = report

    def __call__(self, args: Any) -> None:
        try:
            self._report(args)
        finally:
            self.before(args)
