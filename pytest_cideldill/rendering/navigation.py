"""Finds a part of a live object by a path like `.items[2].price`; no user code runs.

Runs on the thread that holds the object. `protocol.object_paths` owns the syntax of paths.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final, NamedTuple

from pytest_cideldill.interpreter.loaded_names import module_dict_of
from pytest_cideldill.protocol.object_paths import (
    MAX_PATH,
    PathStep,
    Unreachable,
    attribute_key,
    item_key,
    missing,
    parse_path,
    position_key,
)
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering import layout, parts

_NAMED_KEYS: Final = 9
"""Keys of which the message of an error is made; it names fewer of them."""


class Reached(NamedTuple):
    """A part of a live object.

    Attributes:
        name: The name to describe it under: that of the secret around it, so that the parts of a
            secret stay secret, else its own.
    """

    value: Any
    name: str


def navigate(value: object, path: str, redactor: Redactor | None = None) -> Reached:
    """The part of a live object that a path leads to; runs no user code.

    Args:
        path: Like `.items[2].price`, `['key'].x`, `[0]`; see `protocol.object_paths`.
        redactor: Knows which names are secret.

    Raises:
        ValueError: The path is malformed; the message says what is wrong and where.
        Unreachable: There is no such part, or only code of the object's class could return it.
    """
    part: Any = value
    name = secret = ""
    before = 0
    for step in parse_path(path):
        place = f"{path[:before] or 'the object'} ({layout.type_name(part)})"
        take = _attribute if step.kind == "attribute" else _item
        part, key = take(part, step, place)
        name = key if type(key) is str else ""
        if redactor is not None and not secret and redactor.name_is_sensitive(name):
            secret = name
        before = step.end
    return Reached(part, secret or name)


def _attribute(x: Any, step: PathStep, place: str) -> tuple[Any, Any]:
    """The value of an attribute, and its name."""
    wanted, cls = step.value, type(x)
    names = []
    for name, value in parts.attributes_of(x):
        if name == wanted:
            return value, wanted
        names.append(attribute_key(name))
    if cls is ModuleType:
        namespace = module_dict_of(x)
        found = layout.find(namespace, wanted)
        if found is not None or wanted in namespace:
            return found, wanted
    found = layout.find_in_class(x if layout.flags(cls) & layout.IS_CLASS else cls, wanted)
    if found is None:
        raise missing(place, f".{step.key}", names)
    if layout.find_in_class(type(found), "__get__") is None:
        return found, wanted  # an attribute of the class, the same for all its instances
    raise _needs_code(f".{step.key}", place)


def _item(x: Any, step: PathStep, place: str) -> tuple[Any, Any]:
    """An item, and its key if it has one."""
    kind = parts.kind_of(x)
    if kind is None:
        if layout.find_in_class(type(x), "__getitem__") is not None:
            raise _needs_code(step.key, place)
        raise missing(place, step.key, [attribute_key(name) for name, _ in parts.attributes_of(x)])
    items = parts.items_of(x, kind)
    if kind == parts.DICT:
        return _value(items, step, place)
    has_index = kind in parts.SEQUENCES
    is_number = step.kind == "position" or (has_index and type(step.value) is int)
    if is_number and -len(items) <= step.value < len(items):
        return items[step.value], ""
    known = range(0 if kind in parts.TEXTS else len(items))
    raise missing(place, step.key, [f"[{n}]" if has_index else position_key(n) for n in known])


def _value(pairs: tuple[tuple[Any, Any], ...], step: PathStep, place: str) -> tuple[Any, Any]:
    if step.kind == "position" and step.value < len(pairs):
        key, value = pairs[step.value]
        return value, key
    for key, value in pairs if step.kind == "item" else ():
        # Equality within one built-in type runs no user code. Not so for tuples, whose items may be
        # of any type: their text is compared.
        if type(key) is type(step.value) and (
            item_key(key, MAX_PATH) == step.key if type(key) is tuple else key == step.value
        ):
            return value, key
    keys = [
        item_key(key) or position_key(number) for number, (key, _) in enumerate(pairs[:_NAMED_KEYS])
    ]
    raise missing(place, step.key, keys + [""] * (len(pairs) - len(keys)))


def _needs_code(step: str, place: str) -> Unreachable:
    return Unreachable(
        f"{step} of {place} is computed by code, which is not run here: evaluate it with "
        "breakpoint_repl_eval at a pause"
    )
