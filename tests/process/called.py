"""Functions whose calls are recorded: plain ones, and others of most kinds that there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


class Item:
    """Of the program under test."""

    def __init__(self, price: int) -> None:
        self.price = price


def one(value: Any) -> Any:
    return value


def two(left: Any, right: Any = "default") -> Any:
    return left if right else right


def none() -> None:
    return None


def many(first: Any, *rest: Any) -> Any:
    return rest[-1] if rest else first


def named(first: Any, *, key: Any = 2) -> Any:
    return key


def login(user: Any, password: Any) -> Any:
    return user


def get_token(user: Any) -> Any:
    return user


def outer(value: Any) -> Any:
    return one(value), one(value)


def failing(value: Any) -> Any:
    raise ValueError(value)


def yielding(value: Any) -> Iterator[Any]:
    yield value
    yield one(value)


FUNCTIONS: list[Callable[..., Any]] = [
    *(one, two, none, many, named, login, get_token, outer, failing, yielding)
]
COUNTS = {none: 0, two: 2, login: 2, many: 3}
"""Arguments of those that take another number than one."""
