"""Exchanges constants of code, and finds the function of a frame, by their layout in memory.

CPython offers no functions for that. `IS_KNOWN` says whether a trial found everything where it is
expected in this interpreter; if not, nothing here may be used. Runs on any thread, with the GIL.
"""

from __future__ import annotations

import ctypes
import sys
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

_WORD: Final = ctypes.sizeof(ctypes.c_void_p)
_FIRST_ITEM: Final = tuple.__basicsize__
_INNER: Final = object.__basicsize__ + _WORD
"""Offset in a frame object of the address of the frame: after `f_back`."""

_WORDS: Final = {(3, 11): (0, 1, 4, 5), (3, 12): (2, 3, 0, 6), (3, 13): (2, 3, 0, 6)}
"""Offsets in that frame of the function, the globals, the code and the frame object."""

_FUNCTION, _GLOBALS, _CODE, _OBJECT = _WORDS.get(sys.version_info[:2], (0, 0, 0, 0))

_Address: Any = ctypes.c_void_p
_Object: Any = ctypes.py_object
_getframe: Final = sys._getframe

# Functions of our own: argument types set on those of `ctypes.pythonapi` would affect other code.
_Counting: Any = ctypes.PYFUNCTYPE(None, ctypes.py_object)
_keep: Final = _Counting(("Py_IncRef", ctypes.pythonapi))
_let_go: Final = _Counting(("Py_DecRef", ctypes.pythonapi))


def exchange(consts: tuple[object, ...], index: int, new: object) -> None:
    """Put another object into a tuple of constants, for running code too.

    Raises:
        SystemError: The tuple has an unknown layout.
    """
    old = consts[index]
    slot = _Address.from_address(id(consts) + _FIRST_ITEM + index * _WORD)
    if slot.value != id(old):
        raise SystemError("the items of a tuple are not where they are expected")
    _keep(new)
    slot.value = id(new)
    _let_go(old)


def function_of(frame: FrameType) -> FunctionType | None:
    """The function whose call runs in a frame."""
    inner = _Address.from_address(id(frame) + _INNER).value
    function: object = _Object.from_address(inner + _FUNCTION * _WORD).value
    return function if type(function) is FunctionType else None


def _is_known() -> bool:
    """Whether a trial on code of our own succeeds; False for unknown versions of Python."""
    is_free_threaded = not getattr(sys, "_is_gil_enabled", lambda: True)()
    if sys.version_info[:2] not in _WORDS or is_free_threaded:
        return False

    def probe() -> bool:
        frame = _getframe()
        inner = _Address.from_address(id(frame) + _INNER).value
        words = (ctypes.c_void_p * 8).from_address(inner)
        expected = {
            _GLOBALS: frame.f_globals,
            _CODE: frame.f_code,
            _OBJECT: frame,
            _FUNCTION: probe,
        }
        return all(words[at] == id(each) for at, each in expected.items())

    def outer() -> CodeType:
        return (lambda: None).__code__

    inner = outer()
    other = inner.replace(co_name="other")
    try:
        index = outer.__code__.co_consts.index(inner)
        exchange(outer.__code__.co_consts, index, other)
        is_taken = outer() is other
        exchange(outer.__code__.co_consts, index, inner)
    except (SystemError, ValueError):
        return False
    return is_taken and outer() is inner and probe()


IS_KNOWN: Final = sys.implementation.name == "cpython" and _is_known()
