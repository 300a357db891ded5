"""What `sys.monitoring` calls at a line: as short a path as there is, on the thread that passes it.

A closure: each attribute of a source would be looked up at every line.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Callable, Collection
from types import CodeType, FrameType
from typing import Any

from pytest_cideldill.tracing.interface import Deliberate, Takes

LineCallback = Callable[[CodeType, int], Any]


def line_callback(
    takes: Takes,
    quiet: Collection[int],
    other_line: Callable[[CodeType, int, FrameType], Any],
    is_theirs: Callable[[BaseException, FrameType, int], bool],
) -> LineCallback:
    """The callback for `LINE`.

    Args:
        takes: The functions that handle watched lines.
        quiet: The threads that evaluate for us.
        other_line: Called at a line for which `takes` has no function.
        is_theirs: Whether an exception that `take` raised at a line belongs to the program.
    """
    getframe, ident, key = sys._getframe, get_ident, id

    def on_line(code: CodeType, line: int) -> Any:
        __tracebackhide__ = True
        try:
            watched = takes[key(code)][line]
        except KeyError:
            watched = None
        frame = getframe(1)
        if watched is None:  # not above: there the KeyError would be the context of exceptions
            return other_line(code, line, frame)
        repeated, take = watched
        if repeated and frame.f_lasti in repeated:
            return None
        if quiet and ident() in quiet:
            return None
        try:
            take(frame)
        except Deliberate as wanted:
            error = wanted.error
        except BaseException as failure:
            if is_theirs(failure, frame, line):
                raise
            return None
        else:
            return None
        raise error

    return on_line
