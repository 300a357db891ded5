"""Functions that were handed to a compiler: their calls run no Python code, and pass untouched.

Under the manager's lock; looks at objects that exist, and runs no code of the program.
"""

from __future__ import annotations

import gc
import sys
from types import CodeType, FunctionType
from typing import Final

from pytest_cideldill.frames.arguments import module_name
from pytest_cideldill.interpreter.loaded_names import AttributePlace, is_kind, walk
from pytest_cideldill.patching.code_swap import original_code
from pytest_cideldill.patching.function_code import code_of
from pytest_cideldill.probes.naming import own_names, unwrapped
from pytest_cideldill.probes.nesting import codes_in

_SOURCE: Final = "py_func"
"""Under this name compilers keep the function that they were given, by numba's example."""

_NUMBA: Final = "numba"
"""Its dispatchers are also out of sight: behind ufuncs, jitted classes, in closures."""

_DISPATCHER: Final = "Dispatcher"
"""How the names of their classes end."""

_MOST_LAYERS: Final = 50


class Compiled:
    """Knows which functions were handed to a compiler, by their original code."""

    def __init__(self) -> None:
        # Code and its compiler, by the id of the code.
        self._known: dict[int, tuple[CodeType, str]] = {}
        # Ids of functions that dispatchers keep out of sight; None: not looked for yet.
        self._hidden: frozenset[int] | None = None

    def begin(self) -> None:
        """All functions are looked at from now on."""
        self._hidden = None

    def by(self, code: CodeType) -> str | None:
        """The compiler of some original code; None: it is not known to be compiled."""
        known = self._known.get(id(code))
        return None if known is None else known[1]

    def has(self, key: int) -> bool:
        """Whether code with this id is known to be compiled."""
        return key in self._known

    def look(self, function: FunctionType) -> None:
        """Find the compiler of a function, and remember it for its code and the code inside."""
        code = original_code(code_of(function))
        if not self.has(id(code)) and (compiler := self._of(function, code)) is not None:
            for each in (code, *codes_in(code)):
                self._known[id(each)] = (each, compiler)

    def _of(self, function: FunctionType, code: CodeType) -> str | None:
        place = _place(function, code)
        value = None if place is None else place.value
        if place is not None and is_kind(place.owner, type) and _package(place.owner) == _NUMBA:
            return _NUMBA  # a jitted class still has what it was made of as its base
        if value is function:
            return None  # its name is Python's, also if it was compiled under another one
        for _ in range(_MOST_LAYERS):
            names = None if value is None else own_names(value)
            source = None if names is None else names.get(_SOURCE)
            # Compared by name: the compiler may keep a copy of the function under it.
            if type(source) is FunctionType and _qualname(source) == code.co_qualname:
                return _package(value)
            value = None if value is None else unwrapped(value)
        if self._hidden is None:
            self._hidden = _hidden() if _NUMBA in sys.modules else frozenset()
        return _NUMBA if id(function) in self._hidden else None


def _place(function: FunctionType, code: CodeType) -> AttributePlace | None:
    """Where the name of a function leads; None: nowhere, or it has no place of its own."""
    module = sys.modules.get(module_name(function))
    if module is None or "<" in code.co_qualname:
        return None
    return walk(module, code.co_qualname.split("."))


def _qualname(function: FunctionType) -> str:
    return original_code(code_of(function)).co_qualname


def _hidden() -> frozenset[int]:
    """Ids of the functions of all dispatchers of numba."""
    is_dispatcher: dict[int, bool] = {}
    found = set()
    for each in gc.get_objects():
        kind = type(each)
        known = is_dispatcher.get(id(kind))
        if known is None:
            name = str(type.__getattribute__(kind, "__name__"))
            known = name.endswith(_DISPATCHER) and _package(each) == _NUMBA
            is_dispatcher[id(kind)] = known
        names = own_names(each) if known else None
        if names is not None:
            found.add(id(names.get(_SOURCE)))
    return frozenset(found)


def _package(value: object) -> str:
    module = type.__getattribute__(type(value), "__module__")
    return module.partition(".")[0] if type(module) is str else "a compiler"
