"""Functions of every make, for breakpoints to be set on; a module of their own names them."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator


def price_of(amount: int, each: int = 3, *, discount: int = 0) -> int:
    return amount * each - discount


def price_twice(amount: int) -> int:
    return price_of(amount) + price_of(amount)


def factorial(n: int) -> int:
    return 1 if n == 0 else n * factorial(n - 1)


class Till:
    def __init__(self, sum: int) -> None:
        self.sum = sum

    def ring_up(self, amount: int) -> int:
        self.sum += amount
        return self.sum

    @staticmethod
    def rounded_price(value: float) -> int:
        return round(value)

    @classmethod
    def opened_with(cls, sum: int) -> Till:
        return cls(sum)

    @property
    def is_empty_till(self) -> bool:
        return self.sum == 0


def counter(step: int) -> Callable[[int], int]:
    total = 0

    def count_up(times: int) -> int:
        nonlocal total
        total += step * times
        return total

    return count_up


COUNT_UP = counter(2)


@functools.lru_cache
def cached_price(amount: int) -> int:
    return amount + 1


async def price_later() -> int:
    return 1


def prices_in_turn() -> Iterator[int]:
    yield 1


async def prices_in_time() -> AsyncIterator[int]:
    yield 1
