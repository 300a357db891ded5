"""Reductions by which `pickle.Pickler` pickles an object without its own code, to dill's bytes.

Only objects qualify whose classes leave pickling to the base classes and are found under their own
names. May run on any thread. The rule of `layout` holds: no lookup, comparison or attribute access
that a class of the user's may answer.
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
from pytest_cideldill.rendering.types import PATHS, has_safe_order

Reduction = Any
"""The result of `reducer_override`: a tuple, or NotImplemented where C code needs no help."""


class Unfit(Exception):
    """The object can't be pickled here: that may need code of the user's, or dill itself."""


class _Shape(NamedTuple):
    """The parts that instances of a class consist of.

    It refers to no class, so that it keeps none alive.
    """

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
"""Built-in base classes whose data this module can read."""

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

# By the id of a class; the weak reference shows whether the id still belongs to that class.
_shapes: dict[int, tuple[weakref.ref[type], _Shape | None]] = {}


def reduction(x: Any) -> Reduction:
    """The reduction of an object, by which it can be made again.

    Raises:
        Unfit: The object can't be pickled without code of the user's or dill.
    """
    cls = type(x)
    reduce_exact = _EXACT.get(id(cls))
    if reduce_exact is not None:
        return reduce_exact(x)
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
    """The result of `object.__getstate__`, made without calls that a class may answer."""
    attributes = _getattribute(x, "__dict__") if shape.has_dict else None
    if type(attributes) is dict and not attributes:
        attributes = None
    if not shape.slots:
        return attributes
    values = {}
    for name in shape.slots:
        slot = _in_class(cls, name)
        if type(slot) is not MemberDescriptorType:
            raise Unfit
        try:
            values[name] = slot.__get__(x, cls)
        except AttributeError:
            continue  # never assigned
    return (attributes, values) if values else attributes


def _in_class(cls: type, name: str) -> Any:
    for base in layout.mro(cls):
        value = layout.class_dict(base).get(name)
        if value is not None:
            return value
    return None


# --- classes ------------------------------------------------------------------------------------


def _learn(cls: type) -> _Shape | None:
    shape = _shape_of(cls)
    if len(_shapes) >= _MOST_SHAPES:
        _shapes.clear()
    _shapes[id(cls)] = weakref.ref(cls), shape
    return shape


def _shape_of(cls: type) -> _Shape | None:
    # With any other metaclass even the hash of the class may be code of the user's.
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
    """Whether instances refer to all of pytest: it would take long to find that they don't fit."""
    return layout.module_of(cls).startswith(("_pytest.", "pluggy."))


def _defines(cls: type, root: int) -> bool:
    """Whether the class or one of its bases defines a hook of pickling."""
    hooks = _HOOKS | _MORE_HOOKS.get(root, set())
    for base in layout.mro(cls):
        if id(base) in _ROOTS or (root == _EXCEPTION and layout.module_of(base) == "builtins"):
            continue
        if root == _ENUM and layout.module_of(base) == "enum":
            continue
        # `enum` itself puts a `__reduce_ex__` into the dictionary of an enumeration.
        ours = hooks - {"__reduce_ex__"} if root == _ENUM else hooks
        if any(type(name) is not str or name in ours for name in tuple(layout.class_dict(base))):
            return True
    return False


def _slot_names(cls: type) -> Iterator[str]:
    """The names of `copyreg._slotnames`, which would leave its result in the class.

    An empty name stands for slots that can't be read.
    """
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
    """Whether C code keeps data of its own in instances: only code of the class can pickle that."""
    size, item, dict_at, weak_at = (get(cls) for get in _sizes)
    extra = slots + (weak_at > 0)
    extra += bool(dict_at) and not layout.flags(cls) & _MANAGED_DICT
    return bool(item) or size > object.__basicsize__ + extra * _POINTER


# --- classes and functions, pickled by name -----------------------------------------------------


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
    # If a module has no spec, pickling asks its `__getattr__` for one, which may be the user's.
    if type(home) is not ModuleType or "__spec__" not in (names := module_dict_of(home)):
        return None
    # Not `loaded_names.walk`: a class is what C code finds, by one step in a class whose metaclass
    # leaves that to `type`; no base is asked.
    first, *others = qualname.split(".")
    value = names.get(first)
    for name in others:
        if id(type(value)) not in _METAS:
            return None
        value = layout.class_dict(value).get(name)
    return value


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
    if not has_safe_order(x):
        raise Unfit
    return _by_c(x)


def _uuid(x: uuid.UUID) -> Reduction:
    number = layout.find_in_class(uuid.UUID, "int").__get__(x)
    is_safe = layout.find_in_class(uuid.UUID, "is_safe").__get__(x)
    if type(number) is not int or is_safe is not uuid.SafeUUID.unknown:
        raise Unfit
    return (_new, (uuid.UUID,), {"int": number})


def _path(x: Any) -> Reduction:
    # From 3.12 on a path keeps the strings it was made from, whose class may be the user's.
    raw_paths = layout.find_in_class(type(x), "_raw_paths")
    if raw_paths is not None and any(type(part) is not str for part in raw_paths.__get__(x)):
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
