"""Reads the parts of an object from its data, its items and attributes; no user code runs.

Runs on the thread that holds the object. Must not know limits, secrets or how anything is shown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import EnumType
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from pytest_cideldill.rendering import layout
from pytest_cideldill.rendering.layout import Layout
from pytest_cideldill.rendering.types import DICT_VIEWS, LEAVES, PATHS, is_mock, pairs_of

_COLLECTIONS: Final = (list, tuple, deque, dict, set, frozenset, *DICT_VIEWS)
_KINDS: Final[MappingProxyType[int, Any]] = MappingProxyType(
    {id(kind): kind for kind in (*_COLLECTIONS, str, bytes, bytearray)}
)
DICT: Final = id(dict)
TEXTS: Final = frozenset(map(id, (str, bytes, bytearray)))
SEQUENCES: Final = frozenset(map(id, (list, tuple, deque)))
"""Kinds whose items have an index."""

_of_exception: Final = tuple(
    (name, BaseException.__dict__[name].__get__) for name in ("args", "__cause__", "__context__")
)


def kind_of(x: object) -> int | None:
    """The id of the built-in collection or string type that an object's class is or extends."""
    return kind_of_class(type(x))


def kind_of_class(cls: type) -> int | None:
    """The same for the instances of a class."""
    if id(cls) in _KINDS:
        return id(cls)
    return next((id(base) for base in layout.mro(cls) if id(base) in _KINDS), None)


def length_of(x: object, kind: int) -> int:
    """How many items or characters there are."""
    length: int = _KINDS[kind].__len__(x)
    return length


def items_of(x: object, kind: int, most: int | None = None) -> tuple[Any, ...]:
    """The first items of a collection, or pairs of a dictionary; nothing for a text.

    Copied in one step, as another thread may be changing the collection.
    """
    if kind in TEXTS:
        return ()
    items = pairs_of(x) if kind == DICT else _KINDS[kind].__iter__(x)  # type: ignore[arg-type]
    return tuple(islice(items, most))


def fields_of(x: object) -> tuple[str, ...]:
    """The field names of a named tuple, empty for anything else."""
    cls = type(x)
    if id(cls) in _KINDS or not layout.is_a(cls, tuple):
        return ()
    fields = layout.find_in_class(cls, "_fields")
    if type(fields) is not tuple or len(fields) != tuple.__len__(x):  # type: ignore[arg-type]
        return ()
    return fields if all(type(name) is str for name in fields) else ()


def attributes_of(x: object, layouts: dict[int, Layout] | None = None) -> Iterator[tuple[str, Any]]:
    """The names and values of attributes that are data of the object itself.

    Args:
        layouts: Layouts that were made before, by the ids of their classes; added to.
    """
    cls = type(x)
    class_id = id(cls)
    if class_id in _KINDS or class_id in LEAVES or class_id in PATHS:
        return
    if layout.flags(cls) & layout.IS_CLASS or is_mock(cls):
        return
    if fields := fields_of(x):
        yield from zip(fields, tuple.__iter__(x), strict=False)  # type: ignore[arg-type]
    if layout.flags(cls) & layout.IS_EXCEPTION:
        for name, get in _of_exception:
            if (value := get(x)) is not None:
                yield name, value
    is_member = type(cls) is not type and layout.is_a(type(cls), EnumType)
    class_layout = None if layouts is None else layouts.get(class_id)
    if class_layout is None:
        class_layout = Layout.of(cls)
        if layouts is not None:
            layouts[class_id] = class_layout  # it refers to the class, whose id stays taken
    for name, value in class_layout.attributes_in_order(x):
        yield (name.strip("_") if is_member and name in ("_name_", "_value_") else name), value
