"""Why no call of a function was seen that a question asks for; no code of the program runs here."""

from __future__ import annotations

import builtins
import sys
from types import FunctionType, ModuleType
from typing import Any, Final

from pytest_cideldill.interpreter.loaded_names import loaded_prefixes, walk
from pytest_cideldill.patching.function_code import code_of
from pytest_cideldill.probes.naming import behind
from pytest_cideldill.project import Project
from pytest_cideldill.rendering import layout
from pytest_cideldill.sourcecode.names import FunctionName

_ACCESSORS: Final = ("fget", "fset", "fdel")


def reason(name: FunctionName, project: Project) -> str:
    """A sentence if what the name leads to can't be recorded at all; else empty."""
    found = _value(name)
    if found is None:
        return ""
    value = behind(found)
    if type(value) is property:
        value = next((held for accessor in _ACCESSORS if (held := getattr(value, accessor))), value)
    if type(value) is FunctionType:
        if project.is_user(code_of(value).co_filename):
            return ""
        return (
            f"{name.text} is a function of a library, and only user code is recorded: name the "
            "function of yours that calls it, or make its folder user code with "
            "cideldill_user_paths"
        )
    if layout.flags(type(value)) & layout.IS_CLASS:
        made = layout.find_in_class(value, "__init__")
        if type(made) is FunctionType and project.is_user(code_of(made).co_filename):
            return ""
        return (
            f"{name.text} is a class without an __init__ in the project's source: name one of its "
            "methods"
        )
    if callable(value) and layout.module_of(type(value)) == "builtins":
        return (
            f"{name.text} is made in C, so it has no lines and no arguments to read: name the "
            "function of yours that calls it"
        )
    return ""


def _value(name: FunctionName) -> Any:
    parts = name.target.split(".")
    if name.module is not None:
        module = sys.modules.get(name.module)
        place = walk(module, parts) if type(module) is ModuleType else None
        return None if place is None else place.value
    if name.path is not None:
        return None
    for module, rest in loaded_prefixes(parts):
        if type(module) is ModuleType and (place := walk(module, rest)) is not None:
            return place.value
    place = walk(builtins, parts)
    return None if place is None else place.value
