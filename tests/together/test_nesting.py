"""Functions inside of functions in real runs: each call of them stops, the first one too.

Expectations: contract, section 2: "Functions are matched when they exist and bound later when they
appear (late import, nested function)", and what can be intercepted.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.together.driver import only_stop
from tests.together.workbench import Bench

full = pytest.mark.full

DECORATED = """
    import functools

    def deco(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args)
        return wrapper

    @deco
    def price(n): return n

    AT_IMPORT = price(1)

    def adder(n):
        def add(m, *, by=2):
            nonlocal n
            n += m * by
            return n
        return add

    class Shop:
        def open(self):
            class Till:
                def ring(self, n):
                    return [each for each in (lambda: [n, n + 1])()]
            return Till().ring(1)

    def items(n):
        def each():
            got = yield n
            return got
        return each()

    async def ask():
        async def answer(): return 42
        async def answers():
            yield await answer()
        return [each async for each in answers()]
"""

NESTED = """
    import asyncio
    from shop import Shop, adder, ask, items, price

    def test_wrapper():
        assert price(2) == 2

    def test_closure():
        add = adder(1)
        assert add(1) == 3
        assert adder(10)(1, by=1) == 11

    def test_method(): assert Shop().open() == [1, 2]
    def test_generator(): assert list(items(5)) == [5]
    def test_async(): assert asyncio.run(ask()) == [42]

    def test_in_a_test():
        def local(n):
            assert n == 1
            return n
        assert local(1) == 1
"""

NAMES = (
    "shop.deco.<locals>.wrapper",
    "shop.adder.add",
    "shop.Shop.open.Till.ring",
    "shop.items.<locals>.each",
    "answer",
    "shop.ask.<locals>.answers",
    "test_it.py::test_in_a_test.local",
)


def stops_of(bench: Bench, reply: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Function and positional arguments of every stop, to the end of the run."""
    seen = []
    while reply["state"] == "paused":
        stop = only_stop(reply)
        data = stop["call_data"]
        seen.append((data["qualified_name"], data["pretty_args"]))
        reply = bench.go_on(stop)
    assert (reply["exit_code"], reply["outcomes"]["failed"]) == (0, 0)
    return seen


def test_the_first_call_of_a_function_inside_of_another_stops(bench: Bench) -> None:
    bench.write(shop=DECORATED, test_it=NESTED)
    bound = {name: bench.breakpoint(name)["functions"] for name in NAMES}
    assert [functions for functions in bound.values() if len(functions) != 1] == []
    assert stops_of(bench, bench.run(["test_it.py"])) == [
        ("shop.deco.<locals>.wrapper", ["1"]),  # while its module is imported
        ("shop.deco.<locals>.wrapper", ["2"]),
        ("shop.adder.<locals>.add", ["1"]),
        ("shop.adder.<locals>.add", ["1"]),
        ("shop.Shop.open.<locals>.Till.ring", ["Till()", "1"]),
        ("shop.items.<locals>.each", []),
        ("shop.ask.<locals>.answers", []),
        ("shop.ask.<locals>.answer", []),
        ("test_it.test_in_a_test.<locals>.local", ["1"]),
    ]
