"""How `pickle.Pickler` pickles an object without its own code; the bytes are those of dill.

For objects whose classes leave pickling to the base classes, and are found under their names. Any
thread; the rule of `layout`: no lookup, comparison or attribute that a class of the user's may
answer.
"""

from __future__ import annotations

import copyreg
import struct
import sys
import threading
import uuid
import weakref
from abc import ABCMeta
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, EnumType
from types import FunctionType, MappingProxyType, MemberDescriptorType, ModuleType
from typing import Any, Final, NamedTuple

from pytest_cideldill.interpreter.loaded_names import module_dict_of
from pytest_cideldill.rendering import layout
from pytest_cideldill.rendering.types import PATHS, is_told_in_order

Reduction = Any
"""What `reducer_override` returns: a tuple, or NotImplemented where C code does it alone."""


class Unfit(Exception):
    """It may take code of the user's, or dill itself, to pickle an object."""


class _Shape(NamedTuple):
    """What instances of a class consist of; refers to no class, so that it keeps none alive."""

    root: int
    has_dict: bool
    slots: tuple[str, ...]


_HOOKS: Final = frozenset(
    {
        *("__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__", "__getnewargs_ex__"),
        *("__getattribute__", "__getattr__", "__class__"),
    }
)
_OBJECT: Final = id(object)
_EXCEPTION: Final = id(BaseException)
_ENUM: Final = id(Enum)
_LIST: Final = id(list)
_DICT: Final = id(dict)
_VALUES: Final[MappingProxyType[int, Any]] = MappingProxyType(
    {id(kind): kind for kind in (int, float, str, bytes, tuple)}
)

_ROOTS: Final = frozenset({_OBJECT, _EXCEPTION, _LIST, _DICT, *_VALUES})
"""Built-in bases whose data is known here."""

_MORE_HOOKS: Final = MappingProxyType({_LIST: {"__iter__"}, _DICT: {"items"}})

_METAS: Final = frozenset(map(id, (type, ABCMeta, EnumType)))
"""Metaclasses that leave hash, comparison and attributes of a class to `type`."""

_SPECIAL_CLASSES: Final = frozenset(map(id, (EnumType, ABCMeta, threading.ExceptHookArgs)))
"""Classes that dill writes in ways of its own."""

_getattribute: Final = object.__getattribute__
_new: Final = copyreg.__newobj__  # type: ignore[attr-defined]
_reduce_exception: Final = BaseException.__dict__["__reduce__"]
_reduce_enum: Final = Enum.__dict__["__reduce_ex__"]
_bases: Final = type.__dict__["__bases__"].__get__
_qualname: Final = type.__dict__["__qualname__"].__get__
_sizes: Final = tuple(
    type.__dict__[f"__{name}__"].__get__
    for name in ("basicsize", "itemsize", "dictoffset", "weakrefoffset")
)
_POINTER: Final = struct.calcsize("P")
_MANAGED_DICT: Final = 1 << 4  # of `type.__flags__`, from 3.11 on

_MOST_SHAPES: Final = 1_000

# By the id of a class; the weak reference tells whether it is still that class.
_shapes: dict[int, tuple[weakref.ref[type], _Shape | None]] = {}


def reduction(x: Any) -> Reduction:
    """How the object is made again.

    Raises:
        Unfit: See there.
    """
    cls = type(x)
    known = _EXACT.get(id(cls))
    if known is not None:
        return known(x)
    entry = _shapes.get(id(cls))
    shape = entry[1] if entry is not None and entry[0]() is cls else _learn(cls)
    if shape is None:
        raise Unfit
    root = shape.root
    if root == _EXCEPTION:
        return _reduce_exception(x)
    if root == _ENUM:
        return (cls, (_getattribute(x, "__dict__").get("_value_"),))
    arguments: tuple[Any, ...] = (cls,)
    if (kind := _VALUES.get(root)) is not None:
        arguments = (cls, *kind.__getnewargs__(x))
    items = list.__iter__(x) if root == _LIST else None
    pairs = iter(dict.items(x)) if root == _DICT else None
    return (_new, arguments, _state(x, cls, shape), items, pairs)


def _state(x: Any, cls: type, shape: _Shape) -> Any:
    """As `object.__getstate__`, without the calls that a class may answer."""
    held = _getattribute(x, "__dict__") if shape.has_dict else None
    if type(held) is dict and not held:
        held = None
    if not shape.slots:
        return held
    values = {}
    for name in shape.slots:
        slot = _in_class(cls, name)
        if type(slot) is not MemberDescriptorType:
            raise Unfit
        try:
            values[name] = slot.__get__(x, cls)
        except AttributeError:
            continue  # never assigned
    return (held, values) if values else held


def _in_class(cls: type, name: str) -> Any:
    for base in layout.mro(cls):
        found = layout.class_dict(base).get(name)
        if found is not None:
            return found
    return None


# --- classes ------------------------------------------------------------------------------------


def _learn(cls: type) -> _Shape | None:
    shape = _shape_of(cls)
    if len(_shapes) >= _MOST_SHAPES:
        _shapes.clear()
    _shapes[id(cls)] = weakref.ref(cls), shape
    return shape


def _shape_of(cls: type) -> _Shape | None:
    # With another metaclass even the hash of the class may be the user's.
    if id(type(cls)) not in _METAS or cls in copyreg.dispatch_table or not _has_a_name(cls):
        return None
    if is_of_pytest(cls):
        return None
    if type(cls) is EnumType:
        is_plain = layout.find_in_class(cls, "__reduce_ex__") is _reduce_enum
        return None if not is_plain or _defines(cls, _ENUM) else _Shape(_ENUM, True, ())
    root = next((id(base) for base in layout.mro(cls) if id(base) in _ROOTS), _OBJECT)
    if _defines(cls, root):
        return None
    if root == _EXCEPTION:
        is_plain = layout.find_in_class(cls, "__reduce__") is _reduce_exception
        return _Shape(root, True, ()) if is_plain else None
    slots = tuple(_slot_names(cls))
    if "" in slots or (root == _OBJECT and _holds_more(cls, len(slots))):
        return None
    return _Shape(root, layout.Layout.of(cls).get_dict is not None, slots)


def is_of_pytest(cls: type) -> bool:
    """Whether instances lead to all of pytest, so that it takes long to see that they don't fit."""
    return layout.module_of(cls).startswith(("_pytest.", "pluggy."))


def _defines(cls: type, root: int) -> bool:
    """Whether the class, or one of its bases, has a say in pickling."""
    hooks = _HOOKS | _MORE_HOOKS.get(root, set())
    for base in layout.mro(cls):
        if id(base) in _ROOTS or (root == _EXCEPTION and layout.module_of(base) == "builtins"):
            continue
        if root == _ENUM and layout.module_of(base) == "enum":
            continue
        # An enumeration's own dictionary holds what `enum` put there.
        ours = hooks - {"__reduce_ex__"} if root == _ENUM else hooks
        if any(type(name) is not str or name in ours for name in tuple(layout.class_dict(base))):
            return True
    return False


def _slot_names(cls: type) -> Iterator[str]:
    """As `copyreg._slotnames`, which leaves its result in the class; "": it can't be told."""
    for base in layout.mro(cls):
        slots = layout.class_dict(base).get("__slots__", ())
        if type(slots) is str:
            slots = (slots,)
        for name in slots if type(slots) in (tuple, list) else ("",):
            if type(name) is not str:
                yield ""
            elif name in ("__dict__", "__weakref__"):
                continue
            elif name.startswith("__") and not name.endswith("__"):
                prefix = layout.short_name(base).lstrip("_")
                yield f"_{prefix}{name}" if prefix else name
            else:
                yield name


def _holds_more(cls: type, slots: int) -> bool:
    """Whether C code keeps something in instances: then pickling them takes code of that class."""
    size, item, dict_at, weak_at = (get(cls) for get in _sizes)
    extra = slots + (weak_at > 0)
    extra += bool(dict_at) and not layout.flags(cls) & _MANAGED_DICT
    return bool(item) or size > object.__basicsize__ + extra * _POINTER


# --- what is pickled by its name ----------------------------------------------------------------


def _has_a_name(cls: type) -> bool:
    """Whether dill writes this class as a module and a name, and C code finds it there."""
    bases = _bases(cls)
    if id(cls) in _SPECIAL_CLASSES:
        return False
    if len(bases) == 1 and bases[0] is tuple and layout.find_in_class(cls, "_fields") is not None:
        return False  # named tuples are made anew from their fields
    return _found(layout.module_of(cls), _qualname(cls)) is cls


def _found(module: object, qualname: object) -> Any:
    if type(module) is not str or type(qualname) is not str or module in ("builtins", "__main__"):
        return None
    home = sys.modules.get(module)
    # A module without a spec would be asked for it: it may have a `__getattr__`.
    if type(home) is not ModuleType or "__spec__" not in (names := module_dict_of(home)):
        return None
    # Not `loaded_names.walk`: a class is what C code finds, by one step in a class whose metaclass
    # leaves that to `type`; no base is asked.
    first, *others = qualname.split(".")
    found = names.get(first)
    for name in others:
        if id(type(found)) not in _METAS:
            return None
        found = layout.class_dict(found).get(name)
    return found


def _class(x: type) -> Reduction:
    if not _has_a_name(x):
        raise Unfit
    return _by_c(x)


def _function(x: FunctionType) -> Reduction:
    if _found(x.__module__, x.__qualname__) is not x:
        raise Unfit
    return NotImplemented


# --- exact types --------------------------------------------------------------------------------


def _by_c(x: Any) -> Reduction:
    if type(x) in copyreg.dispatch_table:
        raise Unfit
    return NotImplemented


def _ordered(x: OrderedDict[Any, Any]) -> Reduction:
    if not is_told_in_order(x):
        raise Unfit
    return _by_c(x)


def _uuid(x: uuid.UUID) -> Reduction:
    number = layout.find_in_class(uuid.UUID, "int").__get__(x)
    is_safe = layout.find_in_class(uuid.UUID, "is_safe").__get__(x)
    if type(number) is not int or is_safe is not uuid.SafeUUID.unknown:
        raise Unfit
    return (_new, (uuid.UUID,), {"int": number})


def _path(x: Any) -> Reduction:
    # From 3.12 on it keeps what it was made from, perhaps strings of the user's making.
    held = layout.find_in_class(type(x), "_raw_paths")
    if held is not None and any(type(part) is not str for part in held.__get__(x)):
        raise Unfit
    return _by_c(x)


def _by_id(
    table: dict[type, Callable[[Any], Reduction]],
) -> MappingProxyType[int, Callable[[Any], Reduction]]:
    return MappingProxyType({id(kind): reduce for kind, reduce in table.items()})


_EXACT: Final = MappingProxyType(
    {
        **_by_id(dict.fromkeys((type, ABCMeta, EnumType), _class)),
        **_by_id({FunctionType: _function, uuid.UUID: _uuid}),
        **_by_id(dict.fromkeys((Decimal, date, datetime, time, timedelta, timezone, deque), _by_c)),
        id(OrderedDict): _ordered,
        **dict.fromkeys(PATHS, _path),
    }
)
