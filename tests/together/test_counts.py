"""Conditions, counts, limits and templates in real runs.

The order at a pass: count → condition → multiple → max → render → publish.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.together.driver import locals_of, only_stop
from tests.together.workbench import Bench

full = pytest.mark.full

TILL = """\
def total(numbers):
    result = 0
    for number in numbers:
        result += number
    return result
"""

BODY = {"file": "till.py", "line": 4}

TEST = """
    from till import total

    def test_total():
        assert total(range(1, 13)) == 78
        again = total([1, 2])
        assert again == 3
"""


@pytest.fixture
def till(bench: Bench) -> Bench:
    """A loop, and a test that passes its body 12 times, then twice."""
    bench.write(**{"till.py": TILL}, test_it=TEST)
    return bench


def messages(bench: Bench, id: str | None = None) -> list[str]:
    """What was told in the newest run, by all or one."""
    hits = bench.events("hit")
    return [each["message"] for each in hits if id in (None, each["breakpoint_id"])]


def traced(bench: Bench, message: str = "{number}", **more: Any) -> str:
    options = BODY | {"log_message": message} | more
    id = bench.agent.call("tracepoint_set", **options)["tracepoint"]["id"]
    assert isinstance(id, str)
    return id


@full
def test_each_threshold_narrows_down_the_one_before(till: Bench) -> None:
    """Passes are counted, whatever becomes of them; a limit counts what was told."""
    odd = traced(till, condition="number % 2")
    every = traced(till, hit_count_multiple=3)
    few = traced(till, max_notifications=2)
    all_three = traced(till, condition="number != 6", hit_count_multiple=3, max_notifications=2)
    failing = traced(till, condition="1 // (number - 1) >= 0", max_notifications=1)
    stopping = till.agent.call("breakpoint_set", **BODY, hit_count=4, condition="number in (2, 5)")
    late = till.agent.call("breakpoint_set", **BODY, hit_count=12, log_message="from {number}")
    assert (late["type"], late["id"][:3]) == ("tracepoint", "tp-")
    stop = only_stop(till.run())
    assert (stop["breakpoint_id"], stop["hit_count"]) == (stopping["id"], 5)
    assert locals_of(stop)["number"] == "5"
    stop = only_stop(till.go_on(stop))
    assert (stop["hit_count"], locals_of(stop)["number"]) == (14, "2")
    assert messages(till, odd) == ["1", "3", "5", "7", "9", "11", "1"]
    assert messages(till, every) == ["3", "6", "9", "12"]
    assert messages(till, few) == ["1", "2"]
    assert messages(till, late["id"]) == ["from 12", "from 1", "from 2"]
    # The sixth pass is no third one that counts, but it is a pass.
    assert messages(till, all_three) == ["3", "9"]
    assert messages(till, failing) == [
        "<condition error: ZeroDivisionError: integer division or modulo by zero>",
        "2",
    ]
    # A tracepoint that its limit has switched off counts no further.
    for id, sent, state, passes in (
        (odd, 7, "bound", 14),
        (every, 4, "bound", 14),
        (few, 2, "disabled", 2),
        (all_three, 2, "disabled", 9),
        (failing, 1, "disabled", 2),
    ):
        reported = till.listed(id)
        assert (reported["notificationsSent"], reported["state"]) == (sent, state)
        assert reported["hit_count"] == passes
        assert reported["enabled"] is (state == "bound")
    assert till.listed(failing)["conditionErrors"] == 1
    assert till.go_on(stop)["exit_code"] == 0


@full
def test_who_enables_a_tracepoint_again_gets_as_many_messages_again(till: Bench) -> None:
    """At its limit it is disabled; enabling resets `notificationsSent`; so does a new run."""
    few = traced(till, max_notifications=2)
    off = traced(till, "off {number}", max_notifications=3)
    till.agent.call("breakpoint_set", file="test_it.py", line=6)
    till.agent.call("breakpoint_enable", id=off, enabled=False)
    stop = only_stop(till.run())
    assert messages(till) == ["1", "2"]
    assert till.listed(few)["notificationsSent"] == 2
    enabled = till.agent.call("breakpoint_enable", id=few)["breakpoint"]
    assert (enabled["state"], enabled["enabled"], enabled["notificationsSent"]) == (
        "bound",
        True,
        0,
    )
    till.agent.call("breakpoint_enable", id=off)
    till.go_on(stop)
    assert messages(till, few) == ["1", "2", "1", "2"]
    assert till.listed(few)["hit_count"] == 4
    assert messages(till, off) == ["off 1", "off 2"]
    assert till.listed(few)["state"] == "disabled"
    only_stop(till.run())
    assert (messages(till, few), messages(till, off)) == (["1", "2"], ["off 1", "off 2", "off 3"])


@full
def test_a_condition_may_take_its_time_but_not_all_of_it(till: Bench) -> None:
    """It counts as one that raised; the next passes are judged anew."""
    slow = "number != 2 or __import__('time').sleep(60) or True"
    stopping = till.agent.call("breakpoint_set", **BODY, condition=slow, hit_count=2)
    stop = only_stop(till.run())
    assert (stop["reason"], stop["condition_error"]) == ("condition_error", "timeout")
    assert locals_of(stop)["number"] == "2"
    stop = only_stop(till.go_on(stop))
    assert (stop["reason"], locals_of(stop)["number"]) == ("breakpoint", "3")
    reported = till.listed(stopping["id"])
    assert (reported["conditionErrors"], reported["lastConditionError"]) == (1, "timeout")


TEMPLATES = {
    "{{{number}}}": "{1}",
    "{number!r:>3}|{number:03d}|{number:{width}}": "  1|001|    1",
    "{ {'a': {'b': number}}['a']['b'] }": "1",
    "{names['}']} {names[\"{\"]}": "close open",
    "{[n for n in (number, 2) if n]} {(lambda n: n + 1)(number)}": "[1, 2] 2",
    "{text} {text!r} {text!s} {text!a} {text:>4}": "ü 'ü' ü '\\xfc'    ü",
    "{number != 2} {number == 1 and 'yes' or 'no'}": "True yes",
    "{f'{number:>{width}}'!r}": "'    1'",
    "{nope} {names['gone']} {number / 0} {number}": (
        "<error: NameError> <error: KeyError> <error: ZeroDivisionError> 1"
    ),
    "{text:.2f} {text:d} {names:.2f} {number:s} {number}": (
        "<error: ValueError> <error: ValueError> <error: TypeError> <error: ValueError> 1"
    ),
    "{broken!r} {broken} {broken:5} {number}": (
        "<error: RuntimeError> Broken() <error: TypeError> 1"
    ),
    "no fields": "no fields",
    "": "",
}

RENDERED = """
    class Broken:
        def __repr__(self): raise RuntimeError("no")

    def test_it():
        number, width, text, broken = 1, 5, "ü", Broken()
        names = {"}": "close", "{": "open"}
        assert number
"""

MALFORMED = {
    "a {": 2,
    "a } b": 2,
    "{}": 1,
    "{1 +}": 4,
    "ok {x!z}": 5,
    "{'a": 1,
    "{(x]}": 1,
    "{x:{y}": 0,
}


@full
def test_templates_are_read_as_documented(till: Bench) -> None:
    """Quotes, brackets, conversions and formats; what fails fails alone."""
    till.write(test_it=RENDERED)
    place = {"file": "test_it.py", "line": 8}
    wanted = [{**place, "log_message": template} for template in TEMPLATES]
    assert till.run(tracepoints=wanted)["exit_code"] == 0
    assert dict(zip(TEMPLATES, messages(till), strict=True)) == TEMPLATES
    for template, position in MALFORMED.items():
        refused = till.agent.refused("tracepoint_set", **place, log_message=template)
        assert (refused["error"], refused["position"]) == ("invalid_template", position), template


WORKERS = """
    import pathlib
    import pytest
    from till import total

    @pytest.mark.parametrize("n", [1, 2])
    def test_both(n):
        pathlib.Path(f"here-{n}").touch()
        while not pathlib.Path(f"here-{3 - n}").exists():
            pass
        total(range(5))
        total(range(5))
"""
"""Two tests that need each other, so that each worker has one of them."""


@full
def test_workers_count_for_themselves_and_share_a_limit(till: Bench) -> None:
    """Thresholds per process, `max_notifications` and shown counts over all of them."""
    till.write(test_it=WORKERS)
    third, few = traced(till, hit_count_multiple=3), traced(till, "few", max_notifications=7)
    fifth = till.agent.call("breakpoint_set", **BODY, hit_count=5, condition="number == 4")["id"]
    till.run(workers=2)
    first, second = till.until_paused(2)
    assert (first["hit_count"], second["hit_count"]) == (5, 5)
    assert {first["worker"], second["worker"]} == {"gw0", "gw1"}
    assert messages(till, third) == ["2", "2"]
    assert messages(till, few) == ["few"] * 7
    reported = till.listed(few)
    assert (reported["state"], reported["notificationsSent"], reported["enabled"]) == (
        "disabled",
        7,
        False,
    )
    enabled = till.agent.call("breakpoint_enable", id=few)["breakpoint"]
    assert (enabled["state"], enabled["notificationsSent"]) == ("bound", 0)
    till.agent.call("breakpoint_remove", id=fifth)
    till.agent.call("breakpoint_continue", pause_id=first["pause_id"])
    assert till.go_on(second)["exit_code"] == 0
    assert sorted(messages(till, third)) == ["0", "0", "2", "2", "3", "3"]
    assert messages(till, few) == ["few"] * 14
    assert till.listed(third)["hit_count"] == 20
