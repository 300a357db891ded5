"""Replaces the getter of functions' `__code__`, so that the program never sees a trampoline.

Compilers, `marshal`, comparisons and pickles by value read `__code__`, and must get the same as
without us. The descriptor stays the same object; its C getter is exchanged for one that calls us.
Runs on each thread that reads the attribute.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, Final

_DEFINITION: Final = object.__basicsize__ + 3 * ctypes.sizeof(ctypes.c_void_p)
"""Offset in a descriptor of the address of its definition: after its type and its names."""


class _Definition(ctypes.Structure):
    """`PyGetSetDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("get", ctypes.c_void_p),
        ("set", ctypes.c_void_p),
        ("doc", ctypes.c_void_p),
        ("closure", ctypes.py_object),
    )


_DESCRIPTOR: Final[Any] = FunctionType.__dict__["__code__"]
_Address: Any = ctypes.c_void_p

# Functions of our own: argument types set on those of `ctypes.pythonapi` would affect other code.
_Making: Any = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p)
_Counting: Any = ctypes.PYFUNCTYPE(None, ctypes.py_object)

# A binary operation takes the same two arguments as a getter: the object, and its closure.
_CALCULATE: Final = ctypes.cast(ctypes.pythonapi.PyNumber_MatrixMultiply, ctypes.c_void_p).value


def _slot() -> Any:
    """The place of the address of the descriptor's definition; None if it is not where expected."""
    is_free_threaded = not getattr(sys, "_is_gil_enabled", lambda: True)()
    if sys.implementation.name != "cpython" or is_free_threaded:
        return None
    if type(_DESCRIPTOR).__basicsize__ != _DEFINITION + ctypes.sizeof(ctypes.c_void_p):
        return None
    return _Address.from_address(id(_DESCRIPTOR) + _DEFINITION)


def _getter() -> Callable[[Callable[..., Any]], CodeType]:
    """The original getter, from before copies of this module exchanged it; a new descriptor."""
    if _SLOT is None:
        return _DESCRIPTOR.__get__  # type: ignore[no-any-return]
    definition = _Definition.from_address(_SLOT.value)
    if definition.get == _CALCULATE:
        return definition.closure._code_of  # type: ignore[no-any-return]
    make = _Making(("PyDescr_NewGetSet", ctypes.pythonapi))
    return make(FunctionType, _SLOT.value).__get__  # type: ignore[no-any-return]


_SLOT: Final = _slot()
code_of: Final = _getter()
"""Returns the code that a function runs, which may be a trampoline."""


class _Shown:
    """The operand of the getter, which is C code for a binary operation and passes exceptions on.

    Args:
        shown: Returns the code that the program sees, for the code that a function runs.
    """

    __slots__ = ("_code_of", "_shown")

    def __init__(self, shown: Callable[[CodeType], CodeType]) -> None:
        self._code_of = code_of  # kept here: modules are emptied before the last functions are read
        self._shown = shown

    def __rmatmul__(self, function: FunctionType) -> CodeType:
        return self._shown(self._code_of(function))


def show(shown: Callable[[CodeType], CodeType]) -> None:
    """From now on, read `__code__` of all functions through a function, for good.

    Does nothing if the descriptor has an unknown layout.
    """
    if _SLOT is None:
        return
    definition = _Definition.from_address(_SLOT.value)
    if definition.name != b"__code__":
        return
    ours = _Definition(definition.name, _CALCULATE, definition.set, definition.doc, _Shown(shown))
    _Counting(("Py_IncRef", ctypes.pythonapi))(ours)  # functions are read until the very end
    _SLOT.value = ctypes.addressof(ours)
