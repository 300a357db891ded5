"""Names in loaded modules and in classes, read where they are stored; no code of the program runs.

A module's class may define `__getattr__`, a metaclass `__getattribute__`, and a class descriptors:
the accessors here pass by all of them. Any thread.

One walker of dotted paths is here, for names of modules, classes and what they hold. Others differ
in what they mean: `protocol.object_paths` and `rendering.navigation` go into any object, by a path
with items; `rendering.instances` finds what C code would unpickle; `pauses.resume` evaluates a name
in a paused frame, as an expression would.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final

from pytest_cideldill.interpreter.values import dataclass

mro_of: Final[Callable[[type], tuple[type, ...]]] = type.__dict__["__mro__"].__get__
class_dict_of: Final = type.__dict__["__dict__"].__get__
module_dict_of: Final[Callable[[Any], dict[str, Any]]] = vars(ModuleType)["__dict__"].__get__


@dataclass(frozen=True, slots=True)
class AttributePlace:
    """An attribute: where it is, under which dotted path, and what it holds."""

    owner: ModuleType | type
    name: str
    path: str
    value: Any


def is_kind(value: object, kind: type) -> bool:
    """`isinstance` by the type of a value, whatever its `__class__` says."""
    return any(cls is kind for cls in mro_of(type(value)))


def names_of_module(module: object) -> dict[str, Any] | None:
    """The names that a module holds; None: it is no module."""
    return module_dict_of(module) if is_kind(module, ModuleType) else None


def file_of_module(module: object) -> str | None:
    """The `__file__` of a module; None: it is no module, or has no file."""
    names = names_of_module(module)
    file = names.get("__file__") if names else None
    return file if type(file) is str else None


def find_in_bases(cls: type, name: str) -> tuple[type, Any]:
    """The class of `cls`'s bases that has an attribute, and the attribute as it is stored there.

    `(object, None)`: none has it.
    """
    for base in mro_of(cls):
        members = class_dict_of(base)
        if name in members:
            return base, members[name]
    return object, None


def loaded_prefixes(parts: list[str], least: int = 1) -> Iterator[tuple[Any, list[str]]]:
    """Loaded modules that a dotted path may begin with, the longest first, and the other parts.

    Nothing is imported. What `sys.modules` holds need not be a module. At least one part is left.

    Args:
        least: How many parts are of the module's name at least.
    """
    for split in range(len(parts) - 1, least - 1, -1):
        module = sys.modules.get(".".join(parts[:split]))
        if module is not None:
            yield module, parts[split:]


def walk(module: ModuleType, parts: list[str]) -> AttributePlace | None:
    """The attribute at the end of a dotted path, through modules and classes, or None."""
    owner: Any = module
    path = [str(module_dict_of(module).get("__name__"))]
    for number, part in enumerate(parts, 1):
        if is_kind(owner, ModuleType):
            names = module_dict_of(owner)
            if part not in names:
                return None
            value = names[part]
        elif is_kind(owner, type):
            holder, value = find_in_bases(owner, part)
            if holder is object and value is None:
                return None
        else:
            return None
        path.append(part)
        if number == len(parts):
            return AttributePlace(owner, part, ".".join(path), value)
        owner = value
        if is_kind(owner, ModuleType):  # `shop.math.sqrt` is `math.sqrt`
            path = [str(module_dict_of(owner).get("__name__"))]
    return None
