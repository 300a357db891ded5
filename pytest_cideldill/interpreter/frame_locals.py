"""Reads and writes the locals of a frame without effects that the program sees.

From 3.13 on `frame.f_locals` is a view. Before, it is a snapshot, one for each call of a function,
which a program gets from `locals()` too: to read it changes the snapshot that the program may have
kept, and keeps all values alive until the call is over. In a class body it deletes and adds names.
So the snapshot is exchanged for a dict of our own while we read: by its address, in the memory of
the frame.

Runs on the thread of the frame, or while that thread is parked. Where the address is unknown, the
frame's own snapshot is read.
"""

from __future__ import annotations

import ctypes
import inspect
import sys
from collections.abc import Callable, Mapping
from sys import getrefcount
from types import CodeType, FrameType
from typing import Any, Final

_OPTIMIZED: Final = inspect.CO_OPTIMIZED
"""Flag of functions; the `f_locals` of other code is its namespace."""

GENERATORS: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""Flags of generators and coroutines: a program can look at their frames before they start."""

_CELLS: Final = ("__class__", "__classdict__")
"""Variables of a class body that are not in its namespace, for the functions in it."""

_IS_SNAPSHOT: Final = sys.version_info < (3, 13)
_WORD: Final = ctypes.sizeof(ctypes.c_void_p)
_WORDS: Final = 8
"""Words of a frame's memory that are searched for the address of the snapshot."""

_MEMORY: Final = ctypes.c_byte * (sys.maxsize // 16 * 8)
_Object: Any = ctypes.py_object
# A function of our own: argument types set on those of `ctypes.pythonapi` would affect other code.
_Writing: Any = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.c_int)
_write_back: Final = _Writing(("PyFrame_LocalsToFast", ctypes.pythonapi)) if _IS_SNAPSHOT else None
"""Assigns the values of the snapshot, if the frame object's flag says that it was read."""

_inner: Final = memoryview(_MEMORY.from_address(object.__basicsize__ + _WORD)).cast("B").cast("q")
"""The address of the frame behind a frame object, by the address of that; both in words."""


def _find_snapshot() -> int:
    """The byte of a frame at which the address of its snapshot is; 0 if it was not found."""
    if not _IS_SNAPSHOT or sys.implementation.name != "cpython" or _WORD != 8:
        return 0
    frame = sys._getframe()
    words = (ctypes.c_ssize_t * _WORDS).from_address(_inner[id(frame) >> 3])
    before = list(words)
    address = id(frame.f_locals)
    found = [n for n in range(_WORDS) if not before[n] and words[n] == address]
    return found[0] * _WORD if len(found) == 1 and id(frame) in before else 0


def _find_flag() -> int:
    """The byte of a frame object that says whether to write the snapshot back; 0 if not found."""
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
"""Snapshots by the address of a frame, in words. Setting one here counts no reference."""

_flags: Final = memoryview(_MEMORY.from_address(_FLAG or _WORD)).cast("B")
"""Flags by the address of a frame object."""


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

    For a function it is a copy, on Python 3.13 a view; for a class or module the namespace, or a
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


def locals_reader(code: CodeType) -> Callable[[FrameType], Mapping[str, Any]]:
    """`read_locals` for the frames of one code object: cheaper where it is a function."""
    return _read_beside if _SNAPSHOT and code.co_flags & _OPTIMIZED else read_locals


# Before 3.12 a trace function gives our events: the interpreter has just renewed the snapshot.
_IS_BESIDE: Final = bool(_SNAPSHOT) and sys.version_info >= (3, 12)

_IS_WRITTEN_BACK: Final = bool(_SNAPSHOT and _FLAG) and not _IS_BESIDE


def read_aside(frame: FrameType) -> Mapping[str, Any]:
    """`read_locals` of a frame that may have no event now.

    Before 3.12 the interpreter takes what was read for changes to write back when such a frame has
    its next event, and the frame then keeps all its values.
    """
    if not _IS_WRITTEN_BACK:
        return read_locals(frame)
    flag = _flags[id(frame)]
    try:
        return read_locals(frame)
    finally:
        _flags[id(frame)] = flag


def aside_reader(code: CodeType) -> Callable[[FrameType], Mapping[str, Any]]:
    """`read_aside` for the frames of one code object: cheaper where it is a function."""
    return read_aside if _IS_WRITTEN_BACK else locals_reader(code)


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
"""`read_locals` as source for generated code of the hot path: in the frame of a function it assigns
`values` of `held` to `names`. All other names are those of `reading`."""


def reading() -> dict[str, object]:
    """The names that `READING` uses, for one piece of generated code; any thread may run it."""
    held: dict[str, object] = {}
    names = {"inner": _inner, "snapshots": _snapshots, "id": id, "forget": dict.clear}
    return {**names, "held": held, "address": id(held)} if _IS_BESIDE else {}


_UNSHARED: Final = 4
"""References to a snapshot in `forget`: the frame's, two arguments, the caller's variable."""


def has_no_snapshot_yet(code: CodeType) -> bool:
    """Whether calls of code have no snapshot when they start, or one that was just renewed."""
    is_late = bool(code.co_flags & GENERATORS) and _IS_BESIDE
    return bool(_FLAG and code.co_flags & _OPTIMIZED) and not is_late


def forget(frame: FrameType, snapshot: Mapping[str, Any]) -> None:
    """Empty the snapshot of a call that has just begun; cheaper than `read_locals`.

    Args:
        frame: Of code that `has_no_snapshot_yet`.
        snapshot: The `f_locals` that were read; not to be used any more.
    """
    # This comes first: an empty snapshot that is written back would unset all variables.
    _flags[id(frame)] = 0
    if _IS_BESIDE or getrefcount(snapshot) == _UNSHARED:
        snapshot.clear()  # type: ignore[attr-defined]  # it is a dict


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
    """Assign some locals, and leave all others."""
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
    """Keep changes of locals; the last step of a trace function that let other code change them.

    When a trace function in Python returns, the interpreter writes the snapshot back, and values
    that another thread or a closure assigned meanwhile would be lost.
    """
    if _FLAG:
        _flags[id(frame)] = 0
    else:
        _ = frame.f_locals
