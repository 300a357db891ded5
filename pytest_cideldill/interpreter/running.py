"""Reads which threads and frames run at this moment, by the interpreter's own tables.

It must not keep frames: a frame that is kept keeps objects alive that the program has released.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

_MOST_CONTEXTS: Final = 100


def current_frames() -> dict[int, FrameType]:
    """Thread → its innermost frame; the caller's own is among them."""
    return sys._current_frames()


def thread_names() -> dict[int, str]:
    """Ident → name of the threads that `threading` knows.

    From its table: its functions may be patched, and `name` may be code of a subclass.
    """
    threads: dict[int, threading.Thread] = vars(threading)["_active"]
    return {ident: str(vars(thread).get("_name", ident)) for ident, thread in list(threads.items())}


def main_ident() -> int | None:
    """The thread that signal handlers run on."""
    ident: int | None = vars(vars(threading)["_main_thread"]).get("_ident")
    return ident


def holds_threads() -> bool:
    """Whether the interpreter must wait for threads before it can end."""
    threads: dict[int, threading.Thread] = vars(threading)["_active"]
    main = main_ident()
    return any(
        ident != main and vars(thread).get("_daemonic") is False
        for ident, thread in list(threads.items())
    )


def is_interrupted() -> bool:
    """Whether the main thread is handling Ctrl-C, in a `finally` or at the end of a `with`."""
    # `_current_exceptions` gives triples on Python 3.11.
    handled: Any = sys._current_exceptions().get(main_ident() or 0)
    error = handled[1] if type(handled) is tuple else handled
    context: Any = vars(BaseException)["__context__"]
    for _ in range(_MOST_CONTEXTS):
        if not issubclass(type(error), BaseException):
            return False
        if issubclass(type(error), KeyboardInterrupt):
            return True
        error = context.__get__(error)
    return False


def running_frames() -> Iterator[FrameType]:
    """The frames of all threads, each thread from the inside out."""
    innermost = frame = None
    try:
        for innermost in current_frames().values():
            frame = innermost
            while frame is not None:
                yield frame
                frame = frame.f_back
    finally:
        # They may hold the frame of this call: a cycle, which would keep all its callers alive.
        innermost = frame = None
