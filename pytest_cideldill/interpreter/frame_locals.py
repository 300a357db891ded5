"""The locals of a frame, read and written so that the program sees nothing of it.

From 3.13 on `frame.f_locals` is a view. Before, it is a snapshot, one for each call of a function,
which a program gets from `locals()` too: whoever reads it renews what the program kept, and keeps
all values alive until the call is over. In a class body it deletes and adds names. So the snapshot
is exchanged for a dict of our own while we read: by its address, in the memory of the frame.

Runs on the thread of the frame, or while that thread is parked. Where the address is unknown, the
frame's own snapshot is read.
"""

from __future__ import annotations

import ctypes
import inspect
import sys
from collections.abc import Mapping
from sys import getrefcount
from types import CodeType, FrameType
from typing import Any, Final

_OPTIMIZED: Final = inspect.CO_OPTIMIZED
"""Functions; the `f_locals` of other code is its namespace."""

_LATE: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""What a program can look at before it starts."""

_CELLS: Final = ("__class__", "__classdict__")
"""What the body of a class has besides its namespace, for the functions in it."""

_IS_SNAPSHOT: Final = sys.version_info < (3, 13)
_WORD: Final = ctypes.sizeof(ctypes.c_void_p)
_WORDS: Final = 8
"""Of the memory of a frame: the address of the snapshot is among the first."""

_MEMORY: Final = ctypes.c_byte * (sys.maxsize // 16 * 8)
_Object: Any = ctypes.py_object
# A function of our own: argument types set on those of `ctypes.pythonapi` would be everybody's.
_Writing: Any = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.c_int)
_write_back: Final = _Writing(("PyFrame_LocalsToFast", ctypes.pythonapi)) if _IS_SNAPSHOT else None
"""Assigns what the snapshot holds, if the frame object's flag says that it was read."""

_inner: Final = memoryview(_MEMORY.from_address(object.__basicsize__ + _WORD)).cast("B").cast("q")
"""The address of the frame behind a frame object, by the address of that; both in words."""


def _find_snapshot() -> int:
    """At which byte of a frame the address of its snapshot is; 0: there is none, or not there."""
    if not _IS_SNAPSHOT or sys.implementation.name != "cpython" or _WORD != 8:
        return 0
    frame = sys._getframe()
    words = (ctypes.c_ssize_t * _WORDS).from_address(_inner[id(frame) >> 3])
    before = list(words)
    address = id(frame.f_locals)
    found = [n for n in range(_WORDS) if not before[n] and words[n] == address]
    return found[0] * _WORD if len(found) == 1 and id(frame) in before else 0


def _find_flag() -> int:
    """At which byte of a frame object it says whether to write the snapshot back; 0 as above."""
    if _write_back is None:
        return 0
    frame = sys._getframe()
    memory = (ctypes.c_byte * type(frame).__basicsize__).from_address(id(frame))
    before = bytes(memory)
    _ = frame.f_locals
    between = bytes(memory)
    _write_back(frame, 0)
    states = list(zip(before, between, bytes(memory), strict=True))
    return states.index((0, 1, 0)) if states.count((0, 1, 0)) == 1 else 0


_SNAPSHOT: Final = _find_snapshot()
_FLAG: Final = _find_flag()
_snapshots: Final = memoryview(_MEMORY.from_address(_SNAPSHOT or _WORD)).cast("B").cast("q")
"""By the address of a frame, in words. No reference is counted for what is set here."""

_flags: Final = memoryview(_MEMORY.from_address(_FLAG or _WORD)).cast("B")
"""By the address of a frame object."""


def _read_beside(frame: FrameType) -> Mapping[str, Any]:
    held: dict[str, Any] = {}
    address = id(held)
    place = _inner[id(frame) >> 3] >> 3
    # Nothing is called from here on: no thread, signal handler or collection comes in between.
    own = _snapshots[place]
    try:
        _snapshots[place] = address
        return frame.f_locals
    finally:
        _snapshots[place] = own


def read_locals(frame: FrameType) -> Mapping[str, Any]:
    """The locals of a frame, by name.

    Of a function they are a copy, on Python 3.13 a view; of a class or module its namespace, or a
    copy while a comprehension runs in it.
    """
    if not _SNAPSHOT:
        return frame.f_locals
    if frame.f_code.co_flags & _OPTIMIZED:
        return _read_beside(frame)
    place = _inner[id(frame) >> 3]
    if not _snapshots[place // _WORD]:
        return frame.f_locals
    namespace: Mapping[str, Any] = _Object.from_address(place + _SNAPSHOT).value
    beside = _read_beside(frame)
    inlined = {name: beside[name] for name in beside if name not in _CELLS}
    return {**namespace, **inlined} if inlined else namespace


# Before 3.12 our events come from a trace function: the interpreter has just renewed the snapshot.
_IS_BESIDE: Final = bool(_SNAPSHOT) and sys.version_info >= (3, 12)

READING: Final = (
    """\
place = inner[id(frame) >> 3] >> 3
own = snapshots[place]
try:
    snapshots[place] = address
    frame.f_locals
finally:
    snapshots[place] = own
try:
    names = values
finally:
    forget(held)
"""
    if _IS_BESIDE
    else """\
held = frame.f_locals
names = values
"""
)
"""`read_locals` for generated code of the hot path: of the frame of a function, `values` of `held`
are given to `names`. All other names are those of `reading`."""


def reading() -> dict[str, object]:
    """What `READING` uses, for one piece of generated code; any threads may run it."""
    held: dict[str, object] = {}
    names = {"inner": _inner, "snapshots": _snapshots, "id": id, "forget": dict.clear}
    return {**names, "held": held, "address": id(held)} if _IS_BESIDE else {}


_UNSHARED: Final = 4
"""References to a snapshot in `forget`: the frame's, two arguments, the caller's variable."""


def has_no_snapshot_yet(code: CodeType) -> bool:
    """Whether its calls have none when they start, or one that was renewed anyway."""
    is_late = bool(code.co_flags & _LATE) and _IS_BESIDE
    return bool(_FLAG and code.co_flags & _OPTIMIZED) and not is_late


def forget(frame: FrameType, snapshot: Mapping[str, Any]) -> None:
    """Empty the snapshot of a call that has just begun; cheaper than `read_locals`.

    Args:
        frame: Of code that `has_no_snapshot_yet`.
        snapshot: Its `f_locals`, as they were read; not to be used any more.
    """
    assert type(snapshot) is dict
    # First of all: an empty snapshot that was written back would be the end of all variables.
    _flags[id(frame)] = 0
    if _IS_BESIDE or getrefcount(snapshot) == _UNSHARED:
        snapshot.clear()


def write_local(frame: FrameType, name: str, value: Any) -> None:
    """Assign a local of a frame that is not running."""
    if not _SNAPSHOT:
        frame.f_locals[name] = value
        if _write_back is not None:
            _write_back(frame, 0)
    elif not frame.f_code.co_flags & _OPTIMIZED:
        names: Any = read_locals(frame)
        names[name] = value
    else:
        _write_beside(frame, {name: value})


def _write_beside(frame: FrameType, values: dict[str, Any]) -> None:
    """Assign these, and leave all others."""
    assert _write_back is not None
    _read_beside(frame)  # sets the flag, and has the variables of enclosing functions there
    address = id(values)
    place = _inner[id(frame) >> 3] >> 3
    own = _snapshots[place]
    try:
        _snapshots[place] = address
        _write_back(frame, 0)
    finally:
        _snapshots[place] = own


def keep_as_they_are(frame: FrameType) -> None:
    """The last act of a trace function that let others see the locals, and change them.

    The interpreter writes the snapshot back when a trace function written in Python returns: what
    another thread or a closure assigned meanwhile would be lost.
    """
    if _FLAG:
        _flags[id(frame)] = 0
    else:
        _ = frame.f_locals
