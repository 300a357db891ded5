"""How values of well-known libraries are drawn: shapes, small contents, and what C code says.

Runs on the thread that hit. A class counts only where the program finds it under its own name in a
library; none of the program's code runs, so neither what users derive from it nor options that
hold functions of theirs are asked.
"""

from __future__ import annotations

import datetime
import types
from typing import Any
from typing import Final

from pytest_cideldill.capture.kinds import Renderer
from pytest_cideldill.capture.kinds import is_genuine
from pytest_cideldill.capture.layout import find_in_class
from pytest_cideldill.capture.layout import module_of
from pytest_cideldill.capture.layout import short_name

_MOST_ITEMS: Final = 10
"""Of an array or a column that is shown by its values."""

_MOST_ROWS: Final = 5
_MOST_COLUMNS: Final = 10
"""Of a table that is shown by its values."""

_SCALARS: Final = frozenset({"Timedelta", "NaTType", "Period"})
_TABLES: Final = frozenset({"DataFrame", "Series", "Categorical"})
_ZONES: Final = ("datetime", "zoneinfo", "pytz", "dateutil")
_NUMBERS: Final = frozenset(map(id, (int, float)))


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
        return (
            _table(renderer, x, name, depth)
            if library == "pandas"
            else _frame(renderer, x, name, depth)
        )
    return repr(x) if library == "pandas" and _is_told_by_c(x, name) else None


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
    told = f"{shape!r} {_dtype(dtype)}"
    size = _c_attribute(x, "size")
    method, item = (find_in_class(type(x), name) for name in ("tolist", "item"))
    is_c = all(type(each) is types.MethodDescriptorType for each in (method, item))
    if _c_attribute(dtype, "char") not in _SIMPLE or not size or not is_c:
        return f"<ndarray {told}>"
    if size <= _MOST_ITEMS:
        return f"<ndarray {told} {renderer.value(method.__get__(x)(), max(depth, len(shape)))}>"
    first, last = (renderer.value(item.__get__(x)(at), depth - 1) for at in (0, size - 1))
    return f"<ndarray {told} {first} … {last}>"


_SIMPLE: Final = frozenset("?bBhHiIlLqQefdFDUSO")
"""Codes of the types of arrays whose items become values of Python."""


def _is_told_by_c(x: Any, name: str) -> bool:
    """Whether the `repr` of a scalar of pandas runs none of the program's code."""
    if name == "Timestamp":
        zone = _zone_of(x)
        module = module_of(type(zone))
        known = module.partition(".")[0] in _ZONES and is_genuine(type(zone), module)
        return zone is None or known or type(zone) is datetime.timezone
    if name == "Interval":
        return all(_is_plain_end(x, side) for side in ("left", "right"))
    return name in _SCALARS


_zone_of: Final = datetime.datetime.__dict__["tzinfo"].__get__


def _is_plain_end(x: Any, side: str) -> bool:
    found = find_in_class(type(x), side)
    if type(found) not in (types.GetSetDescriptorType, types.MemberDescriptorType):
        return False
    end = found.__get__(x)
    cls = type(end)
    is_scalar = module_of(cls).partition(".")[0] == "pandas" and is_genuine(cls, module_of(cls))
    return id(cls) in _NUMBERS or (is_scalar and _is_told_by_c(end, short_name(cls)))


def _table(renderer: Renderer, x: Any, name: str, depth: int) -> str:
    """Of pandas, whose own code is asked: it is written in Python."""
    shape = x.shape
    told = f"<{name} {shape!r}"
    is_small = 0 < shape[0] <= (_MOST_ROWS if name == "DataFrame" else _MOST_ITEMS)
    if not is_small or (len(shape) > 1 and not 0 < shape[1] <= _MOST_COLUMNS):
        return f"{told}>"
    dtypes = x.dtypes.tolist() if name == "DataFrame" else [x.dtype]
    if name == "Categorical":
        dtypes.append(x.categories.dtype)
    if not all(module_of(type(each)).partition(".")[0] in ("numpy", "pandas") for each in dtypes):
        return f"{told}>"
    if name != "DataFrame":
        return f"{told} {renderer.value(x.tolist(), max(depth, 1))}>"
    columns = x.columns.tolist()
    values = {n: x.iloc[:, n].tolist() for n in range(len(columns))}
    pairs = ((column, values[n]) for n, column in enumerate(columns))
    return f"{told} {renderer.mapping(pairs, len(columns), max(depth, 2))}>"


def _frame(renderer: Renderer, x: Any, name: str, depth: int) -> str | None:
    """Of polars."""
    if name == "Series":
        count = len(x)
        told = f"<Series ({count},)"
        return (
            f"{told} {renderer.value(x.to_list(), max(depth, 1))}>"
            if 0 < count <= _MOST_ITEMS
            else f"{told}>"
        )
    if name != "DataFrame":
        return None
    rows, columns = x.shape
    told = f"<DataFrame {(rows, columns)!r}"
    if not 0 < rows <= _MOST_ROWS or not 0 < columns <= _MOST_COLUMNS:
        return f"{told}>"
    return f"{told} {renderer.value(x.to_dict(as_series=False), max(depth, 2))}>"


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
    """An attribute that C code computes; None when the class has another idea of it."""
    found = find_in_class(type(x), name)
    is_c = type(found) in (types.GetSetDescriptorType, types.MemberDescriptorType)
    return found.__get__(x) if is_c else None
