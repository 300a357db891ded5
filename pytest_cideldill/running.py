"""What runs at this moment, in all threads: the interpreter's own view of the process under test.

Looking must leave no trace: a frame that is kept keeps what the program let go.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

current_frames = sys._current_frames  # tests patch it: bound at import
"""Thread → its innermost frame; the caller's own is among them."""


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
