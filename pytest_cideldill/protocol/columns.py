"""Columns: many rows of a kind as a few texts, on the wire and in the front end's log.

A series has what its rows have in common once, and the rest as columns. A column is plain JSON: a
list with a value for each row, or one of these, which take a fraction of the time and the room:

* `{"lines": text}`: texts without line feeds, joined by them;
* `{"floats": base64, "plus": base}`: little-endian doubles, to each of which the base is added;
* `{"integers": base64}`: little-endian, signed, eight bytes each;
* `{"from": first}`: integers that go up by one;
* `{"all": value}`: the same value in all rows;
* `{"of": [values], "at": column}`: a few values, again and again: by their places;
* `{"behind": text, "numbers": column}`: texts that end with a number, None where there is none;
* `{"lists": [columns]}`: lists, with an item of each column;
* `{"keys": {key: column}}`: objects, with a value of each column.
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from struct import pack, unpack
from typing import Any, Final

Column = list[Any] | dict[str, Any]

Series = dict[str, Any]
"""`{"count": rows, "common": {"type", …}, "columns": {key: Column}}`. Row `i` is `common` and of
each column the item `i`. `type`, `nodeid`, `breakpoint_id` and `qualified_name`, where rows have
them, are in `common`."""

Row = dict[str, Any]

_WIDTH: Final = 8
_ORDER_WIDTH: Final = 2
_DEPTH: Final = 4
_MOST_ROWS: Final = 100_000

_to_base64: Final = binascii.b2a_base64
_from_base64: Final = binascii.a2b_base64


# --- packing ------------------------------------------------------------------------------------


def texts(values: Sequence[str]) -> Column:
    """A column of texts."""
    joined = "\n".join(values)
    return {"lines": joined} if joined.count("\n") == len(values) - 1 else list(values)


def floats(values: Sequence[float], plus: float = 0.0) -> Column:
    """A column of floats, each of which is `plus` and a value."""
    return {"floats": _text(pack(f"<{len(values)}d", *values)), "plus": plus}


def integers(values: Sequence[int]) -> Column:
    """A column of integers below 2**63."""
    first = values[0]
    if list(values) == list(range(first, first + len(values))):
        return {"from": first}
    return {"integers": _text(pack(f"<{len(values)}q", *values))}


def same(value: Any) -> Column:
    """A column in which all values are the same."""
    return {"all": value}


def choices(values: Sequence[str]) -> Column:
    """A column of long texts, many of which are equal."""
    different = list(dict.fromkeys(values))
    if len(different) == 1:
        return same(different[0])
    if len(different) * 2 > len(values):
        return texts(values)
    places = {value: place for place, value in enumerate(different)}
    return {"of": different, "at": integers([places[value] for value in values])}


def numbered(text: str, numbers: Sequence[int | None]) -> Column:
    """A column of texts that are one text and a number; None where there is no number."""
    first = numbers[0]
    if numbers.count(first) == len(numbers):
        return same(None if first is None else f"{text}{first}")
    if None in numbers:
        return {"behind": text, "numbers": list(numbers)}
    return {"behind": text, "numbers": integers(numbers)}  # type: ignore[arg-type]


def lists(columns: list[Column]) -> Column:
    """A column of lists, which have an item of each of these columns."""
    return {"lists": columns}


def objects(columns: dict[str, Column]) -> Column:
    """A column of objects, which have a value of each of these columns."""
    return {"keys": columns}


def order(numbers: Sequence[int]) -> str:
    """The series of each row, by their numbers."""
    return _text(pack(f"<{len(numbers)}H", *numbers))


def _text(data: bytes) -> str:
    return _to_base64(data, newline=False).decode("ascii")


# --- unpacking ----------------------------------------------------------------------------------


def values_of(column: Column, count: int, depth: int = _DEPTH) -> Sequence[Any]:
    """The values of a column of so many rows.

    Args:
        depth: How many columns may be in one another.

    Raises:
        ValueError: It is no column, or of another number of rows.
    """
    values: Sequence[Any]
    if not depth:
        raise ValueError("columns in columns in columns")
    match column:
        case list():
            values = column
        case {"lines": str(text)}:
            values = text.split("\n")
        case {"floats": str(text), "plus": float(plus) | int(plus)}:
            values = [plus + each for each in _unpacked(text, "d")]
        case {"integers": str(text)}:
            values = _unpacked(text, "q")
        case {"from": int(first)}:
            values = range(first, first + count)
        case {"all": value}:
            values = [value] * count
        case {"of": list(few), "at": at}:
            values = [few[place] for place in _places(at, count, len(few), depth)]
        case {"behind": str(text), "numbers": numbers}:
            values = [
                None if each is None else f"{text}{each}"
                for each in values_of(numbers, count, depth - 1)
            ]
        case {"lists": list(columns)}:
            inner = [values_of(each, count, depth - 1) for each in columns]
            values = list(map(list, zip(*inner, strict=True))) or [[] for _ in range(count)]
        case {"keys": dict(named)}:
            inner = [values_of(each, count, depth - 1) for each in named.values()]
            values = [dict(zip(named, each, strict=True)) for each in zip(*inner, strict=True)]
        case _:
            raise ValueError("no column")
    if len(values) != count:
        raise ValueError(f"a column of {len(values)} values for {count} rows")
    return values


def _places(column: Column, count: int, most: int, depth: int) -> Sequence[int]:
    places = values_of(column, count, depth - 1)
    if not all(type(place) is int and 0 <= place < most for place in places):
        raise ValueError("a column with a place of no value")
    return places


def _unpacked(text: str, letter: str, width: int = _WIDTH) -> tuple[Any, ...]:
    data = _from_base64(text)
    if len(data) % width:
        raise ValueError("a torn column")
    return unpack(f"<{len(data) // width}{letter}", data)


def rows_of(series: Series) -> list[Row]:
    """The rows of a series. Raises ValueError: a column is none, or of another length."""
    count, common, columns = series["count"], series["common"], series["columns"]
    names = list(columns)
    unpacked = [values_of(column, count) for column in columns.values()]
    if not unpacked:
        return [dict(common) for _ in range(count)]
    return [common | dict(zip(names, row, strict=True)) for row in zip(*unpacked, strict=True)]


def places_of(counts: Sequence[int], order: str) -> list[list[int]]:
    """Where the rows of each source stand among all.

    Args:
        counts: How many rows there are of each source: of the plain ones, of each series.
        order: Of `order`; empty: one source behind the other.

    Raises:
        ValueError: It is of other rows.
    """
    places: list[list[int]] = [[] for _ in counts]
    if not order:
        end = 0
        for number, count in enumerate(counts):
            places[number], end = list(range(end, end + count)), end + count
        return places
    for place, number in enumerate(_unpacked(order, "H", _ORDER_WIDTH)):
        if number >= len(counts):
            raise ValueError(f"there is no series {number}")
        places[number].append(place)
    if list(map(len, places)) != list(counts):
        raise ValueError("the order is of other rows")
    return places


def is_series(value: Any) -> bool:
    """Whether a value is a series whose rows can be made."""
    match value:
        case {"count": int(count), "common": {"type": str()}, "columns": dict(columns)}:
            try:
                return 0 < count <= _MOST_ROWS and all(
                    values_of(column, count) is not None for column in columns.values()
                )
            except ValueError:
                return False
    return False
