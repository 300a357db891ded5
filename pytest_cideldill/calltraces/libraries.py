"""Names functions of libraries that user code calls; runs no code of the program."""

from __future__ import annotations

import sys
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from pytest_cideldill.interpreter.loaded_names import file_of_module
from pytest_cideldill.project import Project
from pytest_cideldill.rendering import layout

_BUILTINS: Final = ("", "builtins")
_MOST: Final = 10_000


class Libraries:
    """Names callables."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._classes: dict[int, tuple[type, str]] = {}

    def name(self, called: Any) -> str:
        """`json.loads`; empty for the user's own functions and for builtins."""
        kind = type(called)
        if kind is MethodType:
            called = called.__func__
            kind = type(called)
        if kind is FunctionType:
            return self.of_function(called.__code__, called.__globals__, called)
        if layout.flags(kind) & layout.IS_CLASS:
            return self._of_class(called)
        if kind is BuiltinFunctionType:
            owner = called.__self__
            if type(owner) is ModuleType and (module := called.__module__) not in _BUILTINS:
                return f"{module}.{called.__name__}" if type(module) is str else ""
        return ""

    def of_function(
        self, code: Any, names: dict[str, Any], function: FunctionType | None = None
    ) -> str:
        """The same of a function, by its code and globals.

        What a decorator of a library made has the name of what it wraps, if the function is known.
        """
        file = code.co_filename
        if file.startswith("<") or self._project.is_user(file) or self._project.is_ours(file):
            return ""  # generated code is nobody's
        module = names.get("__name__")
        if type(module) is not str or module.startswith("_pytest."):
            return ""
        qualname = code.co_qualname
        if function is not None and "<locals>" in qualname:
            owner = function.__module__
            if type(owner) is not str or self._is_users(owner):
                return ""
            module, qualname = owner, function.__qualname__
        for end in (".__init__", ".__new__"):
            qualname = qualname.removesuffix(end)
        return "" if qualname.startswith("<") else f"{module}.{qualname}"

    def _of_class(self, cls: type) -> str:
        known = self._classes.get(id(cls))
        if known is None:
            if len(self._classes) >= _MOST:
                self._classes.clear()
            known = self._classes[id(cls)] = (cls, self._class_name(cls))
        return known[1]

    def _class_name(self, cls: type) -> str:
        module = layout.module_of(cls)
        if module in _BUILTINS:
            return ""
        return "" if self._is_users(module) else layout.class_name(cls)

    def _is_users(self, module: str) -> bool:
        file = file_of_module(sys.modules.get(module))
        return file is not None and self._project.is_user(file)
