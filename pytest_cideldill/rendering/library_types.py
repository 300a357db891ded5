"""Renders values of well-known libraries: shapes, small contents, texts that C code makes.

Runs on the thread that hit. A class counts only if the program finds it under its own name in the
library. None of the program's code runs: subclasses of the user's are not rendered here, and
options that may hold functions of the user's are not read.
"""

from __future__ import annotations

import datetime
import types
from typing import TYPE_CHECKING, Any, Final

from pytest_cideldill.rendering.layout import attribute, find_in_class, module_of, short_name
from pytest_cideldill.rendering.types import is_genuine

if TYPE_CHECKING:
    from pytest_cideldill.rendering.one_line import Renderer

_MOST_ITEMS: Final = 10
"""Most items of an array or a column that is shown by its values."""

_MOST_ROWS: Final = 5
_MOST_COLUMNS: Final = 10
"""Most columns of a table that is shown by its values."""

_SCALARS: Final = frozenset({"Timedelta", "NaTType", "Period"})
_TABLES: Final = frozenset({"DataFrame", "Series", "Categorical"})
_ZONES: Final = ("datetime", "zoneinfo", "pytz", "dateutil")


def draw_library(renderer: Renderer, x: Any, depth: int) -> str | None:
    """Arrays, tables and scalars of numpy, pandas and polars, fractions; None for anything else."""
    cls = type(x)
    module = module_of(cls)
    library = module.partition(".")[0]
    if library == "numpy":
        return _numpy(renderer, x, depth) if module == "numpy" else None
    if library not in ("pandas", "polars", "fractions") or not is_genuine(cls, module):
        return None
    name = short_name(cls)
    if name == "Fraction":
        return _fraction(renderer, x, depth)
    if name in _TABLES:
        draw = _table if library == "pandas" else _frame
        return draw(renderer, x, name, depth)
    return repr(x) if library == "pandas" and _has_c_repr(x, name) else None


def _numpy(renderer: Renderer, x: Any, depth: int) -> str | None:
    cls = type(x)
    name = short_name(cls)
    if name == "ndarray":
        return _array(renderer, x, depth)
    item = find_in_class(cls, "item")
    if type(item) is not types.MethodDescriptorType:
        return None
    if name in ("datetime64", "timedelta64"):
        return repr(x)  # C code, with the unit
    return f"{name}({renderer.value(item.__get__(x)(), depth)})"


def _array(renderer: Renderer, x: Any, depth: int) -> str | None:
    shape, dtype = _c_attribute(x, "shape"), _c_attribute(x, "dtype")
    if type(shape) is not tuple:
        return None
    head = f"{shape!r} {_dtype(dtype)}"
    size = _c_attribute(x, "size")
    if size and size <= _MOST_ITEMS and (values := _values(x)) is not None:
        return f"<ndarray {head} {renderer.value(values, max(depth, len(shape)))}>"
    ends = _values(_by_c(x, "take", (0, size - 1))) if size else None
    if type(ends) is not list:
        return f"<ndarray {head}>"
    first, last = (renderer.value(each, depth - 1) for each in ends)
    return f"<ndarray {head} {first} … {last}>"


def _values(x: Any) -> Any:
    """The items of a numpy array as values of Python, times as texts; None for other types.

    To convert items of those types would take code of the program.
    """
    code = _c_attribute(_c_attribute(x, "dtype"), "char")
    if code in _TIMES:
        return _by_c(_by_c(x, "astype", "U"), "tolist")
    return _by_c(x, "tolist") if code in _SIMPLE else None


_SIMPLE: Final = frozenset("?bBhHiIlLqQefdFDUSO")
"""Type codes of arrays whose items become values of Python."""

_TIMES: Final = frozenset("mM")
"""Type codes of arrays whose items have a unit: `2024-03-01T10:00`, `90 minutes`."""


def _has_c_repr(x: Any, name: str) -> bool:
    """Whether the `repr` of a scalar of pandas runs no code of the program."""
    if name == "Timestamp":
        zone = _zone_of(x)
        module = module_of(type(zone))
        is_known = module.partition(".")[0] in _ZONES and is_genuine(type(zone), module)
        return zone is None or is_known or type(zone) is datetime.timezone
    if name == "Interval":
        return all(_is_plain_end(x, side) for side in ("left", "right"))
    return name in _SCALARS


_zone_of: Final = datetime.datetime.__dict__["tzinfo"].__get__


def _is_plain_end(x: Any, side: str) -> bool:
    end = _c_attribute(x, side)
    cls = type(end)
    is_scalar = module_of(cls).partition(".")[0] == "pandas" and is_genuine(cls, module_of(cls))
    return cls is int or cls is float or (is_scalar and _has_c_repr(end, short_name(cls)))


def _table(renderer: Renderer, x: Any, name: str, depth: int) -> str:
    """A table of pandas, by the data in its blocks, as its own code may have breakpoints."""
    if name == "Categorical":
        values = _categories(x)
        count = "" if values is None else f" ({len(values)},)"
        return f"<Categorical{count}{_after(renderer, values, depth)}>"
    shape = x.shape
    head = f"<{name} {shape!r}"
    is_small = 0 < shape[0] <= (_MOST_ROWS if name == "DataFrame" else _MOST_ITEMS)
    if not is_small or (len(shape) > 1 and not 0 < shape[1] <= _MOST_COLUMNS):
        return f"{head}>"
    manager = attribute(x, "_mgr")
    blocks, axes = attribute(manager, "blocks"), attribute(manager, "axes")
    columns = (
        [_items(attribute(block, "values")) for block in blocks] if type(blocks) is tuple else []
    )
    if not columns or not all(columns):
        return f"{head}>"
    if name == "Series":
        return f"{head} {renderer.value(columns[0], max(depth, 1))}>"
    names = _items(attribute(axes[0], "_data")) if type(axes) is list else None
    places = [_items(attribute(attribute(block, "_mgr_locs"), "as_array")) for block in blocks]
    if not names or not all(places):
        return f"{head}>"
    by_place: dict[int, Any] = {}
    for few, many in zip(places, columns, strict=True):
        rows = many if many and type(many[0]) is list else [many]
        by_place.update(zip(few or (), rows, strict=False))
    pairs = ((names[at], by_place.get(at)) for at in range(len(names)))
    return f"{head} {renderer.mapping(pairs, len(names), max(depth, 2))}>"


def _categories(x: Any) -> list[Any] | None:
    codes = _items(attribute(x, "_ndarray"))
    categories = _items(attribute(attribute(attribute(x, "_dtype"), "_categories"), "_data"))
    if codes is None or categories is None:
        return None
    return [categories[code] if code >= 0 else None for code in codes]


def _items(values: Any) -> list[Any] | None:
    """The items of a numpy array, or of the one inside an array of pandas; None if not data."""
    cls = type(values)
    if module_of(cls).startswith("pandas.") and is_genuine(cls, module_of(cls)):
        if (mask := attribute(values, "_mask")) is not None:
            return _unmasked(_items(attribute(values, "_data")), _items(mask))
        dtype, values = attribute(values, "_dtype"), attribute(values, "_ndarray")
        if attribute(dtype, "_tz") is not None:
            return None  # the data is UTC; only code converts it to the zone
    size = _c_attribute(values, "size") if module_of(type(values)) == "numpy" else None
    if type(size) is not int or size > _MOST_ROWS * _MOST_COLUMNS:
        return None
    items = _values(values)
    return items if type(items) is list else None


def _unmasked(values: list[Any] | None, mask: list[Any] | None) -> list[Any] | None:
    """The items of an array with gaps; a gap is None."""
    if values is None or mask is None:
        return None
    return [None if is_missing else value for value, is_missing in zip(values, mask, strict=False)]


def _frame(renderer: Renderer, x: Any, name: str, depth: int) -> str | None:
    """A table of polars, by the data of its part in Rust."""
    if name == "Series":
        count, values = _series(attribute(x, "_s"))
        return None if count is None else f"<Series ({count},){_after(renderer, values, depth)}>"
    inner = attribute(x, "_df")
    columns = _by_c(inner, "get_columns") if name == "DataFrame" else None
    if type(columns) is not list:
        return None
    series = [_series(column) for column in columns]
    rows = series[0][0] if series else 0
    head = f"<DataFrame {(rows, len(series))!r}"
    names = [_by_c(column, "name") for column in columns]
    lists = [values for _, values in series]
    if not rows or rows > _MOST_ROWS or len(lists) > _MOST_COLUMNS or None in lists:
        return f"{head}>"
    pairs = iter(list(zip(names, lists, strict=True)))
    return f"{head} {renderer.mapping(pairs, len(names), max(depth, 2))}>"


def _after(renderer: Renderer, values: list[Any] | None, depth: int) -> str:
    return "" if values is None else f" {renderer.value(values, max(depth, 1))}"


def _series(x: Any) -> tuple[int | None, list[Any] | None]:
    """The length of a column, and its values if they are few."""
    count = _by_c(x, "len")
    if type(count) is not int:
        return None, None
    values = _by_c(x, "to_list") if 0 < count <= _MOST_ITEMS else None
    return count, values if type(values) is list else None


def _by_c(x: Any, name: str, *arguments: Any) -> Any:
    """The result of a method that is written in C or Rust; None if there is no such method."""
    method = find_in_class(type(x), name)
    return method.__get__(x)(*arguments) if type(method) is types.MethodDescriptorType else None


def _fraction(renderer: Renderer, x: Any, depth: int) -> str:
    parts = (find_in_class(type(x), name) for name in ("_numerator", "_denominator"))
    return f"Fraction({', '.join(renderer.value(part.__get__(x), depth) for part in parts)})"


def _dtype(dtype: Any) -> str:
    code = _c_attribute(dtype, "str")
    kinds = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}
    if type(code) is not str or code[1:2] not in kinds:
        return str(code) if type(code) is str else "?"
    kind = kinds[code[1]]
    return kind if kind == "bool" else f"{kind}{int(code[2:]) * 8}"


def _c_attribute(x: Any, name: str) -> Any:
    """An attribute that C code computes; None if the class computes it in another way."""
    descriptor = find_in_class(type(x), name)
    is_c = type(descriptor) in (types.GetSetDescriptorType, types.MemberDescriptorType)
    return descriptor.__get__(x) if is_c else None
