"""Tables of the functions that render values by type, by C code or from the value's data.

Runs in the process under test on the thread that hit. Knows single types; the renderer is
`one_line`'s. A function in `LEAVES` or `CONTAINERS` is right for subclasses too.
"""

from __future__ import annotations

import datetime
import sys
import types
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import Enum
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pytest_cideldill.interpreter.loaded_names import module_dict_of
from pytest_cideldill.patching.builtin_proxy import BindableDisguise, Disguise
from pytest_cideldill.redaction.redactor import MARGIN
from pytest_cideldill.rendering.layout import (
    class_name,
    find,
    find_in_class,
    is_a,
    module_of,
    short_name,
)

if TYPE_CHECKING:
    from pytest_cideldill.rendering.one_line import Renderer

Draw = Callable[["Renderer", Any, int], str]

_FEW_DIGITS: Final = 20
_MOST_DIGITS: Final = 640


def _own_repr(base: type) -> Draw:
    own_repr: Any = base.__repr__
    return lambda _renderer, x, _depth: own_repr(x)


def _int(renderer: Renderer, x: int, _depth: int) -> str:
    bits = int.bit_length(x)
    # About 3.3 bits a digit; beyond a limit, of 640 at least, CPython refuses to convert at all.
    digits = min(max(renderer.string_limit, _FEW_DIGITS), _MOST_DIGITS)
    return int.__repr__(x) if bits <= 3 * digits else f"<int of {bits} bits>"


def _str(renderer: Renderer, x: str, _depth: int) -> str:
    text = str.__str__(x)
    return _quoted(renderer.shown(text), len(text) - renderer.string_limit, "chars")


def _bytes(renderer: Renderer, x: bytes, _depth: int) -> str:
    data = bytes.__getitem__(x, slice(None))
    return _quoted(renderer.shown_bytes(data), len(data) - renderer.string_limit, "bytes")


def _bytearray(renderer: Renderer, x: bytearray, _depth: int) -> str:
    data = bytes(bytearray.__getitem__(x, slice(renderer.string_limit + MARGIN)))
    more = bytearray.__len__(x) - renderer.string_limit
    return f"bytearray({_quoted(renderer.shown_bytes(data), more, 'bytes')})"


def _quoted(shown: str | bytes, more: int, unit: str) -> str:
    quoted = repr(shown)
    return f"{quoted[:-1]}…{quoted[-1]}+{more} {unit}" if more > 0 else quoted


def whole_text(x: Any) -> str:
    """All of a string or of bytes; empty for anything else."""
    if is_a(type(x), str):
        return str.__str__(x)
    if is_a(type(x), bytes):
        return bytes.__getitem__(x, slice(None)).decode("latin-1")
    return ""


def _sequence(kind: Any, ends: str, name: str = "") -> Draw:
    """Render items in brackets, as an argument if there is a name."""
    items_of, length_of = kind.__iter__, kind.__len__

    def draw(renderer: Renderer, x: Any, depth: int) -> str:
        shown = renderer.sequence(ends, items_of(x), length_of(x), depth)
        return f"{name}({shown})" if name else shown

    return draw


def _dict(renderer: Renderer, x: dict[Any, Any], depth: int) -> str:
    shown = renderer.mapping(iter(pairs_of(x)), dict.__len__(x), depth)
    return shown if type(x) is dict or has_safe_order(x) else f"{shown} in unknown order"


def pairs_of(x: dict[Any, Any]) -> Iterable[tuple[Any, Any]]:
    """The keys and values of a dictionary, in its order if that takes no code of the program.

    Otherwise they come in the order in which the keys were added.
    """
    if type(x) is dict or not is_a(type(x), OrderedDict) or not has_safe_order(x):
        return dict.items(x)
    try:
        return tuple(OrderedDict.items(x))  # type: ignore[arg-type]
    except RuntimeError:  # another thread changes it
        return dict.items(x)


def has_safe_order(x: dict[Any, Any]) -> bool:
    """Whether iterating a dictionary in its order runs no code of the program.

    An `OrderedDict` looks each key up, and the hash of a key may be code of the program.
    """
    if not is_a(type(x), OrderedDict):
        return True
    if dict.__len__(x) > _MOST_ORDERED:
        return False
    return _are_hashed_by_c(tuple(dict.keys(x)), _MOST_NESTED)


def _are_hashed_by_c(keys: tuple[Any, ...], depth: int) -> bool:
    kinds = {id(type(key)): type(key) for key in keys}
    if tuple in kinds.values():
        nested = (key for key in keys if type(key) is tuple)
        if not depth or not all(_are_hashed_by_c(key, depth - 1) for key in nested):
            return False
    return all(kind in _HASHED_BY_C or _is_hashed_by_id(cls) for kind, cls in kinds.items())


def _is_hashed_by_id(cls: type) -> bool:
    return all(find_in_class(cls, name) is object.__dict__[name] for name in ("__hash__", "__eq__"))


_MOST_NESTED: Final = 3
"""Levels of nested tuples that are looked at in a key of an ordered dictionary."""


_MOST_ORDERED: Final = 100_000
"""Most keys of an ordered dictionary whose order is used."""

_HASHED_BY_C: Final = frozenset(
    map(id, (str, int, float, bool, bytes, complex, type(None), datetime.date, tuple))
)


def _set(renderer: Renderer, x: set[Any], depth: int) -> str:
    count = set.__len__(x)
    return renderer.sequence("{}", set.__iter__(x), count, depth) if count else "set()"


def _frozenset(renderer: Renderer, x: frozenset[Any], depth: int) -> str:
    count = frozenset.__len__(x)
    shown = renderer.sequence("{}", frozenset.__iter__(x), count, depth) if count else ""
    return f"frozenset({shown})"


def _function(_renderer: Renderer, x: types.FunctionType, _depth: int) -> str:
    attributes = x.__dict__
    mock = attributes.get("mock") if attributes else None
    if mock is not None and is_mock(type(mock)):
        return f"<function {_function_name(x)} (mocked)>"
    return f"<function {_function_name(x)}>"


def _function_name(x: types.FunctionType) -> str:
    qualname = str.__str__(x.__qualname__)
    return f"{x.__module__}.{qualname}" if type(x.__module__) is str else qualname


def _method(_renderer: Renderer, x: types.MethodType, _depth: int) -> str:
    function = x.__func__
    name = _function_name(function) if type(function) is types.FunctionType else "?"
    return f"<bound method {name}>"


def _builtin(_renderer: Renderer, x: types.BuiltinFunctionType, _depth: int) -> str:
    # Not __qualname__, which asks the class of the object that the method is bound to.
    return f"<built-in {str.__str__(x.__name__)}>"


def _disguised(renderer: Renderer, x: Disguise, depth: int) -> str:
    return renderer.value(x._original, depth)


def _module(_renderer: Renderer, x: types.ModuleType, _depth: int) -> str:
    namespace = module_dict_of(x)
    name = find(namespace, "__name__") if type(namespace) is dict else None
    return f"<module {name!r}>" if type(name) is str else "<module>"


def _running(kind: str) -> Draw:
    return lambda _renderer, x, _depth: f"<{kind} {str.__str__(x.__qualname__)}>"


def _temporal(kind: type, *fields: str) -> Draw:
    """Render dates and times. A time zone may be of a user's class, and is rendered as a value."""
    # Of subclasses an exact `kind` is made from the C fields. The class is kept in the closure, as
    # libraries that freeze time replace it in modules.
    getters = [find_in_class(kind, field).__get__ for field in fields]
    zone_of = find_in_class(kind, "tzinfo")

    def draw(renderer: Renderer, x: Any, depth: int) -> str:
        plain = repr(kind(*(get(x) for get in getters)))
        zone = None if zone_of is None else zone_of.__get__(x)
        if zone is None:
            return plain
        return f"{plain[:-1]}, tzinfo={renderer.value(zone, depth - 1)})"

    return draw


def _timezone(_renderer: Renderer, x: datetime.timezone, _depth: int) -> str:
    offset = datetime.timezone.utcoffset(x, None)
    return f"datetime.timezone({offset!r})" if offset else "datetime.timezone.utc"


def _uuid(renderer: Renderer, x: uuid.UUID, depth: int) -> str:
    number = find_in_class(uuid.UUID, "int").__get__(x)
    if type(number) is not int:
        return f"UUID(int={renderer.value(number, depth)})"
    text = f"{number:032x}"
    return f"UUID('{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}')"


def _path(renderer: Renderer, x: PurePosixPath, _depth: int) -> str:
    return renderer.shown(repr(x)) if _is_plain_path(x) else f"<{class_name(type(x))}>"


def _is_plain_path(x: PurePosixPath) -> bool:
    # From 3.12 on a path keeps the strings it was made from and joins them when it is rendered. If
    # their class is the user's, that would call its code.
    raw_paths = find_in_class(type(x), "_raw_paths")
    return all(type(part) is str for part in ([] if raw_paths is None else raw_paths.__get__(x)))


def own_text(x: Any) -> str | None:
    """The `str` of a string, a number, a date or a path; None for values shown by `repr`."""
    kind = id(type(x))
    if is_a(type(x), str):
        is_plain = find_in_class(type(x), "__str__") is str.__str__
        return str.__str__(x) if is_plain else None
    if kind in PATHS:
        return str(x) if _is_plain_path(x) else None
    if kind in _WITH_ZONE:
        zone = find_in_class(type(x), "tzinfo").__get__(x)
        return str(x) if zone is None or type(zone) is datetime.timezone else None
    return str(x) if kind in _PLAIN_TEXTS else None


_PLAIN_TEXTS: Final = frozenset(map(id, (Decimal, datetime.date, datetime.timedelta)))
_WITH_ZONE: Final = frozenset(map(id, (datetime.datetime, datetime.time)))


def draw_enum(renderer: Renderer, x: Enum, attributes: dict[str, Any], depth: int) -> str:
    """Render a member of an enumeration, from its instance attributes."""
    name = attributes.get("_name_")
    value = renderer.value(attributes.get("_value_"), depth - 1)
    member = f"{short_name(type(x))}.{name}" if type(name) is str else short_name(type(x))
    return f"<{member}: {value}>"


def is_genuine(cls: type, module: str) -> bool:
    """Whether a class is the one that the program finds under the class's name in a module.

    The module is not imported for that: it would keep the program from importing a file of its own
    that has the same name.
    """
    return value_in(module, short_name(cls)) is cls


def value_in(module: str, name: str) -> Any:
    """The value that the program finds under a name in a loaded module; None if there is none."""
    home = sys.modules.get(module)
    return find(module_dict_of(home), name) if type(home) is types.ModuleType else None


def draw_call(renderer: Renderer, x: Any, attributes: dict[str, Any], depth: int) -> str:
    """Render a call of a mock as its own `repr` does: `call.get('a', n=1)`."""
    parts = tuple(tuple.__iter__(x))
    is_made = attributes.get("_mock_from_kall") is not False
    name = parts[0] if is_made and len(parts) == 3 else attributes.get("_mock_name")
    name = name if type(name) is str and (len(parts) == 3 or not is_made) else ""
    if not is_made:
        return f"call{name}" if name.startswith("()") else name or "call"
    args, kwargs = parts[-2:] if len(parts) > 1 else ((), {})
    shown = [renderer.value(value, depth - 1) for value in args] if type(args) is tuple else []
    if type(kwargs) is dict:
        shown += [f"{key}={renderer.named(key, value, depth - 1)}" for key, value in kwargs.items()]
    path = name if name.startswith("()") or not name else f".{name}"
    return f"call{path}({', '.join(shown)})"


def is_call(cls: type) -> bool:
    """Whether `cls` is the class of the calls that mocks record."""
    return module_of(cls) == "unittest.mock" and short_name(cls) == "_Call" and is_a(cls, tuple)


def draw_mock(cls: type, attributes: dict[str, Any]) -> str:
    """Render a mock by its name and the number of its calls, which say more than its attributes."""
    names = (attributes.get(key) for key in ("_mock_name", "_mock_new_name"))
    name = next((name for name in names if type(name) is str and name), None)
    count = attributes.get("_mock_call_count")
    shown = f" name={name!r}" if name else ""
    shown += f" call_count={count}" if type(count) is int and count else ""
    return f"<{short_name(cls)}{shown}>"


def is_mock(cls: type) -> bool:
    """Whether `cls` is one of the classes that `unittest.mock` makes, one for each mock."""
    return module_of(cls) == "unittest.mock" and short_name(cls).endswith("Mock")


DICT_VIEWS: Final[tuple[Any, ...]] = tuple(map(type, ({}.keys(), {}.values(), {}.items())))
_DATE = ("year", "month", "day")
_CLOCK = ("hour", "minute", "second", "microsecond")


def _by_id(table: dict[type, Draw]) -> Mapping[int, Draw]:
    """The table by the ids of classes: classes as keys would be hashed by their metaclass."""
    return MappingProxyType({id(kind): draw for kind, draw in table.items()})


LEAVES: Final = _by_id(
    {
        **{
            kind: _own_repr(kind)
            for kind in (type(None), type(...), type(NotImplemented), bool, float, complex, range)
        },
        int: _int,
        str: _str,
        bytes: _bytes,
        bytearray: _bytearray,
        Decimal: lambda _renderer, x, _depth: f"Decimal('{Decimal.__str__(x)}')",
        uuid.UUID: _uuid,
        datetime.date: _temporal(datetime.date, *_DATE),
        datetime.datetime: _temporal(datetime.datetime, *_DATE, *_CLOCK),
        datetime.time: _temporal(datetime.time, *_CLOCK),
        datetime.timedelta: _temporal(datetime.timedelta, "days", "seconds", "microseconds"),
        datetime.timezone: _timezone,
        types.FunctionType: _function,
        types.MethodType: _method,
        types.BuiltinFunctionType: _builtin,
        Disguise: _disguised,
        BindableDisguise: _disguised,
        types.ModuleType: _module,
        types.GeneratorType: _running("generator"),
        types.CoroutineType: _running("coroutine"),
        types.AsyncGeneratorType: _running("async generator"),
    }
)
"""Types without parts to open."""

CONTAINERS: Final = _by_id(
    {
        list: _sequence(list, "[]"),
        tuple: _sequence(tuple, "()"),
        dict: _dict,
        set: _set,
        frozenset: _frozenset,
        deque: _sequence(deque, "[]", "deque"),
        **{kind: _sequence(kind, "[]", kind.__name__) for kind in DICT_VIEWS},
    }
)
"""Types that are opened, within the depth."""

PATHS: Final = _by_id(
    dict.fromkeys((PosixPath, PurePosixPath, PureWindowsPath, WindowsPath), _path)
)
"""Rendered by their own Python code, hence only values that are exactly of these types."""
