"""What reading `frame.f_locals` leaves behind before 3.13, and how to leave nothing.

The snapshot stays with the frame and keeps its values alive. And a flag in the frame says that it
is to be written back: the interpreter does so when a trace function written in Python returns,
whoever's that is. From 3.13 on `f_locals` is no snapshot.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from types import CodeType
from types import FrameType
from typing import Any

_OPTIMIZED = 0x01  # CO_OPTIMIZED: functions; the `f_locals` of other code is its real namespace


def _find_flag() -> int | None:
    """Where in a frame object the flag is; None when there is none, or no telling."""
    if sys.version_info >= (3, 13):
        return None
    frame = sys._getframe()
    memory = (ctypes.c_byte * type(frame).__basicsize__).from_address(id(frame))
    write_back: Any = ctypes.PYFUNCTYPE(None)(("PyFrame_LocalsToFast", ctypes.pythonapi))
    argument = ctypes.py_object(frame)
    before = bytes(memory)
    _ = frame.f_locals
    between = bytes(memory)
    write_back(argument, 0)
    after = bytes(memory)
    states = list(zip(before, between, after, strict=True))
    return states.index((0, 1, 0)) if states.count((0, 1, 0)) == 1 else None


_FLAG_AT = _find_flag()
_FIRST_BYTE = 1  # NULL has no items
_bytes = ctypes.cast(_FIRST_BYTE, ctypes.POINTER(ctypes.c_byte))
"""The memory of the process from there on: an item is read and set without making an object."""


def refresh(frame: FrameType) -> None:
    """The last act of a trace function that let others see the locals, and change them.

    What another thread or a closure wrote meanwhile would be lost: the snapshot is made anew.
    """
    _ = frame.f_locals


def keeps_snapshot(code: CodeType) -> bool:
    """Whether a look at the locals of its frames is to be followed by `release`."""
    return _FLAG_AT is not None and bool(code.co_flags & _OPTIMIZED)


def release(frame: FrameType, values: Mapping[str, Any]) -> None:
    """Empty the snapshot of a function that has just begun, which cannot have asked for it yet.

    Args:
        frame: Of the function.
        values: Its `f_locals`, as they were read; not to be used any more.
    """
    assert type(values) is dict
    if _FLAG_AT is None:
        return
    # First of all: an empty snapshot that was written back would be the end of all variables.
    _bytes[id(frame) + _FLAG_AT - _FIRST_BYTE] = 0
    values.clear()
