"""What a piece of JSON must look like: shapes as plain data, and the check against them.

A shape is a type, `NUMBER`, `ANY`, `one_of(…)`, `maybe(shape)` (that or null), `[shape]` (a list of
such), `every(shape)` (an object with any keys), or an object: `{"key": shape, "other?": shape}`,
where `?` marks keys that may be missing. An object may always have more keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Shape = Any


@dataclass(frozen=True)
class _Any:
    pass


@dataclass(frozen=True)
class _OneOf:
    values: tuple[Any, ...]


@dataclass(frozen=True)
class _Maybe:
    shape: Shape


@dataclass(frozen=True)
class _Every:
    shape: Shape


@dataclass(frozen=True)
class _Like:
    pattern: str


ANY = _Any()
NUMBER = (int, float)


def one_of(*values: Any) -> Shape:
    """One of these values."""
    return _OneOf(values)


def maybe(shape: Shape) -> Shape:
    """That or null."""
    return _Maybe(shape)


def every(shape: Shape) -> Shape:
    """An object, whatever its keys, with values of that shape."""
    return _Every(shape)


def like(pattern: str) -> Shape:
    """A string that a pattern matches from its first to its last character."""
    return _Like(pattern)


def misfits(shape: Shape, value: Any, place: str = "reply") -> Iterator[str]:
    """Where a value is not of a shape, in sentences."""
    match shape:
        case _Any():
            return
        case _OneOf(values):
            if not any(value == each and type(value) is type(each) for each in values):
                yield f"{place} is {value!r}, none of {', '.join(map(repr, values))}"
        case _Maybe(inner):
            if value is not None:
                yield from misfits(inner, value, place)
        case _Like(pattern):
            if not (isinstance(value, str) and re.fullmatch(pattern, value, re.DOTALL)):
                yield f"{place} is {value!r}, not like {pattern}"
        case _Every(inner):
            if not isinstance(value, dict):
                yield f"{place} is {value!r}, no object"
                return
            for key, each in value.items():
                yield from misfits(inner, each, f"{place}.{key}")
        case dict():
            yield from _of_object(shape, value, place)
        case [inner]:
            if not isinstance(value, list):
                yield f"{place} is {value!r}, no list"
                return
            for number, each in enumerate(value):
                yield from misfits(inner, each, f"{place}[{number}]")
        case _:
            types = shape if isinstance(shape, tuple) else (shape,)
            if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
                yield f"{place} is {value!r}, no {' or '.join(each.__name__ for each in types)}"


def _of_object(shape: dict[str, Shape], value: Any, place: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{place} is {value!r}, no object"
        return
    for key, inner in shape.items():
        name = key.removesuffix("?")
        if name in value:
            yield from misfits(inner, value[name], f"{place}.{name}")
        elif name == key:
            yield f"{place} has no {key}; it has {', '.join(value)}"
