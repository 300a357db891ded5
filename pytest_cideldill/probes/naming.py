"""Names of functions: from their definition, or from the variable that they were assigned to.

Lambdas have the name that they were assigned to, methods that were generated for a class (as by
`dataclass`) that of the class. Runs in the process under test; runs no code of the program.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, partial, partialmethod
from types import CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, Final

from pytest_cideldill.frames.arguments import DottedPath, module_name
from pytest_cideldill.interpreter.code_files import file_of
from pytest_cideldill.interpreter.loaded_names import class_dict_of, file_of_module, is_kind, mro_of
from pytest_cideldill.patching.function_code import code_of
from pytest_cideldill.project import Project
from pytest_cideldill.sourcecode.names import FunctionName, Precision

_LAMBDA: Final = "<lambda>"
_MOST_WRAPPED: Final = 50


class Naming:
    """Finds the names of functions: by definition, or by the variable they were assigned to."""

    def __init__(self, project: Project) -> None:
        self._project = project
        # id(globals) → id(lambda) → its qualified name; until `forget`.
        self._lambdas: dict[int, dict[int, str]] = {}

    def forget(self) -> None:
        """What lambdas are assigned to may have changed."""
        self._lambdas.clear()

    def file(self, function: FunctionType, code: CodeType) -> str:
        """The file that a function counts for: a generated `__init__` for that of its class."""
        file = file_of(code, function.__globals__)
        if not file.startswith("<") or function.__name__ != "__init__":
            return file
        return file_of_module(sys.modules.get(_text(function.__module__))) or file

    def name(self, function: FunctionType, code: CodeType) -> tuple[str, str]:
        """Module and qualified name."""
        module, qualname = module_name(function), code.co_qualname
        if code.co_name == _LAMBDA and "<locals>" not in qualname:
            return module, self._assigned(function.__globals__, module).get(id(function), qualname)
        if code.co_filename.startswith("<") and code.co_name == "__init__":
            return _text(function.__module__) or module, _text(function.__qualname__) or qualname
        return module, qualname

    def path(self, function: FunctionType, code: CodeType) -> DottedPath:
        """`module.Class.method`."""
        return DottedPath.of(*self.name(function, code), file_of(code, function.__globals__))

    def user_modules(self) -> Iterator[ModuleType]:
        """The modules of user code that are loaded."""
        return filter(self.is_user, list(sys.modules.values()))

    def is_user(self, module: ModuleType) -> bool:
        """Whether a module is user code."""
        file = file_of_module(module)
        return file is not None and self._project.is_user(file)

    def _assigned(self, names: dict[str, Any], module: str) -> dict[int, str]:
        found = self._lambdas.get(id(names))
        if found is None:
            found = self._lambdas[id(names)] = {}
            _collect(names, module, "", found, {id(names)})
        return found


def _collect(
    names: Mapping[str, Any], module: str, prefix: str, found: dict[int, str], seen: set[int]
) -> None:
    for name, value in list(names.items()):
        function = behind(value)
        if type(function) is FunctionType:
            if code_of(function).co_name == _LAMBDA:
                found.setdefault(id(function), prefix + name)
        elif is_kind(value, type) and id(value) not in seen:
            members = class_dict_of(value)
            if members.get("__module__") == module:
                seen.add(id(value))
                _collect(members, module, f"{prefix}{name}.", found, seen)


def behind(value: object) -> Any:
    """The callable inside of decorators of the standard library and of `functools.wraps`.

    Returns:
        The innermost: a function, another callable, or the value itself.
    """
    for _ in range(_MOST_WRAPPED):
        inner = unwrapped(value)
        if inner is None:
            return value
        value = inner
    return value


def unwrapped(value: Any) -> object:
    """What the outermost decorator was put around; None: there is none that we recognize."""
    kind = type(value)
    if kind is FunctionType:
        return value.__dict__.get("__wrapped__")
    if kind in (staticmethod, classmethod, MethodType):
        inner: object = value.__func__
        return inner
    if kind is property:
        return value.fget or value.fset
    if kind is partial:
        return value.func if type(behind(value.func)) is FunctionType else None
    if kind in (cached_property, partialmethod):
        return vars(value).get("func")
    # `lru_cache`, and objects of the program that `update_wrapper` was called with.
    names = own_names(value)
    return None if names is None else names.get("__wrapped__")


def own_names(value: object) -> dict[str, Any] | None:
    """The attributes that an object itself has."""
    for base in mro_of(type(value)):
        found = class_dict_of(base).get("__dict__")
        if found is None:
            continue
        if type(found).__name__ != "getset_descriptor" or is_kind(value, type):
            return None
        names = found.__get__(value)
        return names if type(names) is dict else None
    return None


def may_assign(
    root: CodeType,
    inside: Iterable[CodeType],
    names: Iterable[FunctionName],
    module: str,
    file: str,
) -> bool:
    """Whether a module that starts may assign, without a `def`, a function that a name means.

    Args:
        inside: The code objects inside of it.
        file: Its file, relative.
    """
    inside = list(inside)
    assigned = {*root.co_names, *(name for code in inside for name in code.co_names)}
    has_lambda = any(code.co_name == _LAMBDA for code in inside)
    for each in names:
        if each.precision is Precision.EXACT:
            found = each.may_be_in((module,), file)
        elif each.precision is Precision.BARE:
            found = each.target in assigned
        else:
            found = has_lambda and any(each.matches(module, name, file) for name in assigned)
        if found:
            return True
    return False


def implementations(value: object) -> list[FunctionType]:
    """The functions that a `singledispatch` function may call; else nothing."""
    if type(value) is not FunctionType:
        return []
    registry = value.__dict__.get("registry")
    if type(registry) is not MappingProxyType or "dispatch" not in value.__dict__:
        return []
    found = (behind(each) for each in registry.values())
    return [each for each in found if type(each) is FunctionType]


def _text(value: object) -> str:
    return value if type(value) is str else ""
