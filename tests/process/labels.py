"""Callables under names that no definition has, for breakpoints to be set on."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import sqrt
from typing import Any, ClassVar

from tests.process.tills import price_of as renamed_price

discount: Callable[..., int] = lambda amount, by=1: amount - by  # noqa: E731
cached: Any = functools.lru_cache(lambda amount: amount + 1)
one_each = functools.partial(renamed_price, each=1)
by_amount = operator.attrgetter("amount")
half = functools.partial(math.pow, 0.5)

# What the module itself calls: names that are rebound.
nap = time.sleep


def root(value: float) -> float:
    return sqrt(value)


@dataclasses.dataclass
class Label:
    text: str
    size: int = 1
    shout: ClassVar[Any] = lambda self: self.text.upper()
    width: ClassVar[Any] = property(lambda self: len(self.text))
    twice = staticmethod(math.ldexp)


class Parcel:
    def __init__(self, name: str) -> None:
        self.name = name


class HeavyParcel(Parcel):
    pass


class LightParcel(Parcel):
    pass


class Bare:
    def method(self) -> int:
        return 1


class Made:
    def __new__(cls) -> Made:
        return super().__new__(cls)


class Pile(list[int]):
    push = list.append


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


@wrapped
def decorated(amount: int) -> int:
    return amount


@functools.singledispatch
def reported(value: object) -> str:
    return "object"


@reported.register
def _(value: int) -> str:
    return "int"


@contextmanager
def opened_label(amount: int) -> Iterator[int]:
    yield amount


class Kinds:
    @functools.cached_property
    def once(self) -> int:
        return 1

    @functools.lru_cache  # noqa: B019
    def kept(self, amount: int) -> int:
        return amount

    part = functools.partialmethod(kept, 5)
