"""What runs at this moment, in all threads: the interpreter's own view of the process under test.

Looking must leave no trace: a frame that is kept keeps what the program let go.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from types import FrameType


def current_frames() -> dict[int, FrameType]:
    """Thread → its innermost frame; the caller's own is among them."""
    return sys._current_frames()


def thread_names() -> dict[int, str]:
    """Ident → name of the threads that `threading` knows.

    From its table: its functions may be patched, and `name` may be code of a subclass.
    """
    known: dict[int, threading.Thread] = vars(threading)["_active"]
    return {ident: str(vars(each).get("_name", ident)) for ident, each in list(known.items())}


def main_ident() -> int | None:
    """The thread that signal handlers run on."""
    ident: int | None = vars(vars(threading)["_main_thread"]).get("_ident")
    return ident


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
        # They may be the frame of this call: a cycle, which keeps all that called it.
        innermost = frame = None
