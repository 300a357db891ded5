"""Intercepts callables that have no Python code: replaces an attribute by a wrapper.

Owns the wrapper, which looks like the original, and its undo. The wrapper calls a Python function
that stands for the original and is intercepted like any other (`code_swap`); it must not know what
the interception is for. Runs in the process under test: installed on the thread that binds
breakpoints, called on the threads of the program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from pytest_cideldill.interpreter.loaded_names import class_dict_of, is_kind, module_dict_of
from pytest_cideldill.patching.builtin_proxy import BindableDisguise, Disguise
from pytest_cideldill.patching.function_code import code_of
from pytest_cideldill.patching.substitute import Original, fitting, substitute


class Wrapping:
    """An attribute that holds a wrapper until `undo`.

    Args:
        owner: A module or a class that can be changed.
        value: Its value: a callable, in a class perhaps as a staticmethod.
        is_shared: Whether names in other modules that hold the same callable are rebound too.

    Attributes:
        function: The Python function that stands for the callable.
    """

    def __init__(
        self, owner: Any, name: str, value: Any, path: str, is_shared: Callable[[ModuleType], bool]
    ) -> None:
        self._owner, self._name, self._value = owner, name, value
        is_static = type(value) is staticmethod
        self._original: Any = value.__func__ if is_static else value
        original = Original(self._original)
        self.function = substitute(original, path, _globals_of(owner))
        kind = BindableDisguise if hasattr(type(self._original), "__get__") else Disguise
        fits = fitting(code_of(self.function))
        self._wrapper = kind(original.call, self.function, fits)
        self._held = staticmethod(self._wrapper) if is_static else self._wrapper
        if is_kind(owner, type):
            self._is_own = name in class_dict_of(owner)
            type.__setattr__(owner, name, self._held)
            return
        module_dict_of(owner)[name] = self._held
        self._rebind(value, self._held, lambda module: module is owner or is_shared(module))

    def undo(self) -> None:
        """Put the original back wherever the wrapper still is. Idempotent."""
        owner, name = self._owner, self._name
        if is_kind(owner, type):
            if class_dict_of(owner).get(name) is not self._held:
                return
            if self._is_own:
                type.__setattr__(owner, name, self._value)
            else:
                type.__delattr__(owner, name)
            return
        self._rebind(self._held, self._value, lambda _: True)

    def _rebind(self, old: object, new: object, wanted: Callable[[ModuleType], bool]) -> None:
        modules = {id(each): each for each in [self._owner, *list(sys.modules.values())]}
        for module in modules.values():
            if not is_kind(module, ModuleType):
                continue
            names = module_dict_of(module)
            for key in [key for key, value in list(names.items()) if value is old]:
                if wanted(module):
                    names[key] = new


def wrapping_function(value: object) -> FunctionType | None:
    """The Python function behind a wrapper; None if `value` is no wrapper."""
    if type(value) is staticmethod:
        value = value.__func__
    return value._function if is_kind(value, Disguise) else None  # type: ignore[attr-defined]


def _globals_of(owner: ModuleType | type) -> dict[str, Any]:
    if not is_kind(owner, type):
        return module_dict_of(owner)
    module = sys.modules.get(getattr(owner, "__module__", None) or "")
    return {} if module is None else module_dict_of(module)
