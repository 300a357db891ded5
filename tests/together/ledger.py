"""A project whose test notes what every call gave it, and an agent that leaves its mark in that.

For tests that assert what the test under debug received: a value, or the exception it caught.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from typing import Any

from tests.together.driver import only_stop
from tests.together.workbench import Bench

SHOP = """
    import contextlib
    import io

    class Refused(Exception):
        pass

    class Basket:
        def __init__(self, prices):
            self.prices = prices

    def total(basket):
        return sum(basket.prices)

    def price(amount, each=3, *, off=0):
        if amount < 0:
            raise Refused(amount)
        return amount * each - off

    def cheap(amount, each=3, *, off=0):
        return amount

    def other(sum):
        return sum

    def checkpoint():
        pass

    def printed_by(call):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            call()
        return printed.getvalue()
"""

TEST = """
    import json
    import pathlib
    import shop
    from shop import *

    CALLS = [{calls}]

    def attempt(call):
        try:
            return call()
        except Exception as error:
            return f"{{type(error).__name__}}: {{error}}"

    def test_calls():
        got = [attempt(call) for call in CALLS]
        pathlib.Path("got.json").write_text(json.dumps(got))
"""

MARKS: dict[str, dict[str, Any]] = {
    "before": {"modified_args": [{"$eval": "amount * 10"}]},
    "after": {"action": "skip", "fake_result": ["after", {"$eval": "__return__"}]},
    "exception": {
        "action": "skip",
        "fake_result": ["exception", {"$eval": "__exception__.args[0]"}],
    },
}
"""How each phase of a pause goes on in `mark`: what the test received tells where it paused."""

PAIR = ("price(2)", "price(-1)")
PLAIN = [6, "Refused: -1"]
"""What `PAIR` gives a test that is left alone."""
BEFORE = [60, "Refused: -10"]
AFTER = [["after", 6], "Refused: -1"]
EXCEPTION = [6, ["exception", -1]]
AFTER_AND_EXCEPTION = [AFTER[0], EXCEPTION[1]]
BEFORE_AND_EXCEPTION = [60, ["exception", -10]]
"""... and one whose pauses of these phases were marked."""


def write(bench: Bench, *calls: str) -> None:
    """The project: `shop`, and a test that makes these calls one after the other."""
    lambdas = ", ".join(f"lambda: {call}" for call in calls)
    bench.write(shop=SHOP, test_it=textwrap.dedent(TEST).format(calls=lambdas))


def start(bench: Bench, *calls: str) -> dict[str, Any]:
    """Run such a test: the reply of `test_run`. However busy the machine, nothing is cut short."""
    write(bench, *calls)
    return bench.run(["test_it.py"], args=["-o", "cideldill_capture_ms=10000"])


def received(bench: Bench) -> list[Any]:
    """What each call gave to the test that ended."""
    got = json.loads((bench.root / "got.json").read_text(encoding="utf-8"))
    assert isinstance(got, list)
    return got


def mark(bench: Bench, reply: dict[str, Any]) -> dict[str, Any]:
    """Mark every pause up to the next checkpoint, or to the end: the reply that tells of it."""
    while reply["state"] == "paused":
        stop = only_stop(reply)
        if stop["call_data"]["method_name"] == "checkpoint":
            return reply
        reply = bench.go_on(stop, **MARKS[stop["phase"]])
    assert reply["outcomes"] == {"passed": 1, "failed": 0}
    return reply


def marked(bench: Bench, *calls: str) -> list[Any]:
    """What the calls gave to a test whose pauses were all marked."""
    mark(bench, start(bench, *calls))
    return received(bench)


def stepwise(bench: Bench, *steps: Callable[[], object], calls: tuple[str, ...] = PAIR) -> Any:
    """One run: before each step the test waits, the agent takes it, then the test makes the calls.

    What the calls gave, a list for each step.
    """
    bench.breakpoint("shop.checkpoint", behavior="stop")
    bench.agent.call(
        "breakpoint_set_after_behavior", function_name="shop.checkpoint", behavior="go"
    )
    reply = start(bench, *(("checkpoint()", *calls) * len(steps)))
    for step in steps:
        stop = only_stop(reply)
        assert stop["call_data"]["method_name"] == "checkpoint"
        step()
        reply = mark(bench, bench.go_on(stop))
    assert reply["state"] == "finished"
    got, size = received(bench), 1 + len(calls)
    return [got[at + 1 : at + size] for at in range(0, len(got), size)]
