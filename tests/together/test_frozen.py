"""Programs that take what they have loaded out of the garbage collector's sight: `gc.freeze`."""

from __future__ import annotations

import pytest

from tests.together.driver import only_stop, run_of
from tests.together.workbench import Bench

FREEZES = """
    import gc
    def pytest_collection_finish():
        gc.collect()
        gc.freeze()
"""

PRICES = """
    import functools

    def add(price, more):
        return price + more

    def kept(function):
        @functools.wraps(function)
        def around(*args):
            return function(*args)
        return around

    @kept
    def wrapped(price):
        return price

    class Till:
        @staticmethod
        def count(): return 1
        @property
        def total(self): return 2
        def sell(self, price): return price

    def make():
        def inner(): return 3
        return inner

    REGISTRY = {"made": [make()]}
    double = lambda price: price * 2
"""

TEST = """
    import prices

    def test_prices():
        till = prices.Till()
        prices.add(1, 2)
        prices.wrapped(1)
        till.count(), till.total, till.sell(1)
        prices.REGISTRY["made"][0]()
        prices.make()()
        prices.double(2)
"""

NAMES = (
    "prices.add",
    "wrapped",
    "prices.Till.count",
    "prices.Till.total",
    "sell",
    "prices.make.<locals>.inner",
    "prices.double",
    "prices.py::add",
)


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_a_function_that_was_frozen_is_bound(bench: Bench, name: str) -> None:
    """Set before the run, when it was found already, or at a pause, when it is frozen."""
    bench.write(conftest=FREEZES, prices=PRICES, test_it=TEST)
    before = bench.breakpoint(name)["id"]
    stop = only_stop(bench.run())
    assert stop["breakpoint_id"] == before
    bench.agent.call("breakpoint_remove", id=before)
    bench.agent.call("test_stop", mode="kill")
    line = bench.agent.call("breakpoint_set", file="test_it.py", line=4)["id"]
    stop = only_stop(bench.run())
    assert stop["breakpoint_id"] == line
    late = bench.breakpoint(name)
    assert late["verified"], late
    assert only_stop(bench.go_on(stop))["breakpoint_id"] == late["id"]


@pytest.mark.full
def test_calls_of_frozen_functions_are_recorded(bench: Bench) -> None:
    """By the behavior `go`; and lines and replacements find their code."""
    bench.write(conftest=FREEZES, prices=PRICES, test_it=TEST)
    bench.breakpoint("prices.add", behavior="go")
    line = bench.agent.call("breakpoint_set", file="prices.py", line=4)["id"]
    stop = only_stop(bench.run())
    assert stop["breakpoint_id"] == line
    reply = bench.go_on(stop)
    assert reply["neverHit"] == []
    records = bench.agent.call("breakpoint_get_call_records")["calls"]
    mine = [each["qualified_name"] for each in records if each["run_id"] == run_of(stop)]
    assert mine == ["prices.add"]
