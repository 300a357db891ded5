"""Line breakpoints and tracepoints in real runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.together.driver import locals_of, only_stop
from tests.together.workbench import Bench

TILL = """
    def total(prices, rate):
        amount = 0
        for price in prices:
            amount += price * rate
        label = f"{amount} euro"
        return amount, label

    double = lambda price: price * 2
"""

TEST = """
    from till import double, total

    def test_total():
        amount, label = total([1, 2, 3], 2)
        print(amount, double(amount))
        assert label == "12 euro"
"""


@pytest.fixture
def till(bench: Bench) -> Bench:
    """A module with a loop and a lambda."""
    bench.write(**{"till.py": TILL})
    return bench


def test_a_breakpoint_on_a_line_stops_there_with_its_locals(till: Bench) -> None:
    """Set before the run and before the module exists; bound when it is imported."""
    added = till.agent.call("breakpoint_set", file="till.py", line=6)
    assert (added["verified"], added["state"], added["type"]) == (False, "pending", "blocking")
    assert added["location"] == {"file": "till.py", "line": 6, "function": "total"}
    stop = till.stop_of(TEST)
    assert (stop["phase"], stop["reason"]) == ("line", "breakpoint")
    assert stop["breakpoint_id"] == added["id"]
    assert stop["location"]["line"] == 6
    assert locals_of(stop)["amount"] == "12"
    assert till.eval(stop, "amount + rate") == "14"
    (listed,) = till.agent.call("breakpoint_list")["breakpoints"]
    assert (listed["verified"], listed["state"], listed["type"]) == (True, "bound", "blocking")
    assert till.go_on(stop)["exit_code"] == 0


@pytest.mark.full
def test_a_local_assigned_at_a_line_is_what_the_program_goes_on_with(till: Bench) -> None:
    """In the REPL an assignment to a local changes the frame."""
    till.agent.call("breakpoint_set", file="till.py", line=6)
    stop = till.stop_of(TEST)
    till.eval(stop, "amount = 40")
    failed = only_stop(till.go_on(stop))
    assert "'40 euro' == '12 euro'" in failed["autopsy"]["exception"]["message"]


@pytest.mark.full
def test_a_line_can_raise(till: Bench) -> None:
    """`line` allows continue and raise."""
    till.agent.call("breakpoint_set", file="till.py", line=6)
    stop = till.stop_of(TEST)
    refused = till.agent.refused("breakpoint_continue", pause_id=stop["pause_id"], action="skip")
    assert (refused["error"], refused["allowed"]) == ("invalid_action", ["continue", "raise"])
    reply = till.go_on(stop, action="raise", exception_type="OSError", exception_message="gone")
    assert only_stop(reply)["phase"] == "post_mortem"
    till.go_on(only_stop(reply))
    assert till.results()["test_total"]["exception"] == {"type": "OSError", "message": "gone"}


@pytest.mark.full
def test_conditions_and_counts_choose_the_pass(till: Bench) -> None:
    """`condition`, and `hit_count`: stop from the Nth pass on."""
    till.agent.call("breakpoint_set", file="till.py", line=5, condition="price == 2")
    till.agent.call("breakpoint_set", file="till.py", line=4, hit_count=3)
    stop = till.stop_of(TEST)
    assert (locals_of(stop)["price"], locals_of(stop)["amount"]) == ("2", "2")
    stop = only_stop(till.go_on(stop))
    assert stop["location"]["line"] == 4
    assert locals_of(stop)["price"] == "2"
    assert stop["hit_count"] == 3


@pytest.mark.full
def test_a_tracepoint_reports_every_pass_and_stops_nowhere(till: Bench) -> None:
    """The message is rendered at the pass; the test runs on."""
    added = till.agent.call(
        "tracepoint_set",
        file="till.py",
        line=5,
        log_message="{price} of {len(prices)}: {amount:>3} {prices!r} {nope} {{}}",
    )["tracepoint"]
    assert (added["type"], added["state"], added["enabled"]) == ("tracepoint", "pending", True)
    assert till.test(TEST)["exit_code"] == 0
    reported = till.events("hit")
    assert [each["message"] for each in reported] == [
        "1 of 3:   0 [1, 2, 3] <error: NameError> {}",
        "2 of 3:   2 [1, 2, 3] <error: NameError> {}",
        "3 of 3:   6 [1, 2, 3] <error: NameError> {}",
    ]
    assert [each["hit_count"] for each in reported] == [1, 2, 3]
    assert {each["breakpoint_id"] for each in reported} == {added["id"]}
    assert reported[0]["location"] == {"file": "till.py", "line": 5, "function": "total"}
    assert reported[0]["nodeid"].endswith("::test_total")
    (listed,) = till.agent.call("breakpoint_list")["breakpoints"]
    assert (listed["hit_count"], listed["notificationsSent"]) == (3, 3)


@pytest.mark.full
def test_multiples_and_limits_thin_out_what_is_reported(till: Bench) -> None:
    """Order: count → condition → multiple → max; the count is of passes."""
    till.agent.call(
        "tracepoint_set", file="till.py", line=5, log_message="second {price}", hit_count_multiple=2
    )
    till.agent.call(
        "tracepoint_set", file="till.py", line=5, log_message="once {price}", max_notifications=1
    )
    till.agent.call(
        "tracepoint_set", file="till.py", line=5, log_message="big {price}", condition="price > 2"
    )
    till.test(TEST)
    assert [each["message"] for each in till.events("hit")] == ["once 1", "second 2", "big 3"]


@pytest.mark.full
def test_a_condition_that_raises_is_reported_once(till: Bench) -> None:
    """A breakpoint stops once with `condition_error`, a tracepoint publishes one hit."""
    till.agent.call("breakpoint_set", file="till.py", line=4, condition="nope > 1")
    till.agent.call("tracepoint_set", file="till.py", line=5, condition="nope", log_message="x")
    stop = till.stop_of(TEST)
    assert (stop["reason"], stop["phase"]) == ("condition_error", "line")
    assert stop["condition_error"] == "NameError: name 'nope' is not defined"
    assert till.go_on(stop)["exit_code"] == 0
    assert [each["message"] for each in till.events("hit")] == [
        "<condition error: NameError: name 'nope' is not defined>"
    ]
    errors = [each["conditionErrors"] for each in till.agent.call("breakpoint_list")["breakpoints"]]
    assert errors == [4, 3]


@pytest.mark.full
def test_a_slow_expression_times_out_and_the_others_still_render(till: Bench) -> None:
    """1 s per expression; on the main thread also inside of a blocking call."""
    slow = "__import__('time').sleep(60)"
    till.agent.call(
        "tracepoint_set", file="till.py", line=6, log_message=f"{{amount}} {{{slow}}} {{rate}}"
    )
    assert till.test(TEST)["exit_code"] == 0
    assert [each["message"] for each in till.events("hit")] == ["12 <error: timeout> 2"]


@pytest.mark.full
def test_a_breakpoint_set_in_the_paused_frame_takes_effect_there(till: Bench) -> None:
    """Loops, further lines; and another one is switched off meanwhile."""
    first = till.agent.call("breakpoint_set", file="till.py", line=5)
    stop = till.stop_of(TEST)
    second = till.agent.call("breakpoint_set", file="till.py", line=6)
    assert (second["verified"], second["state"]) == (True, "bound")
    disabled = till.agent.call("breakpoint_enable", id=first["id"], enabled=False)["breakpoint"]
    assert (disabled["state"], disabled["enabled"], disabled["hitCount"]) == ("disabled", False, 1)
    stop = only_stop(till.go_on(stop))
    assert stop["location"]["line"] == 6
    till.agent.call("breakpoint_remove", id=second["id"])
    assert till.go_on(stop)["exit_code"] == 0


@pytest.mark.full
@pytest.mark.parametrize(
    ("where", "place"),
    [
        ({"line": 9}, (9, "<module>")),
        ({"line": 9, "column": 27}, (9, "<lambda>")),
        ({"function": "total"}, (3, "total")),
    ],
)
def test_the_code_object_is_chosen(till: Bench, where: dict[str, Any], place: Any) -> None:
    """Lines of a module, lambdas by column, functions by name."""
    till.agent.call("breakpoint_set", file="till.py", **where)
    stop = till.stop_of(TEST)
    assert (stop["location"]["line"], stop["location"]["function"]) == place


@pytest.mark.parametrize(
    ("arguments", "error", "more"),
    [
        ({"file": "till.py", "line": 8}, "invalid_line", {"nearestValidLine": 9}),
        ({"file": "nope.py", "line": 1}, "file_not_found", {}),
        ({"file": "till.py"}, "missing_parameter", {"parameter": "line"}),
        ({"file": "till.py", "line": 9, "column": 99}, "invalid_column", {}),
        ({"file": "till.py", "line": 5, "condition": "1 +"}, "invalid_condition", {}),
        ({"file": "till.py", "line": 5, "log_message": "{a"}, "invalid_template", {"position": 0}),
        ({"file": "till.py", "function": "nope"}, "function_not_found", {}),
    ],
)
def test_what_can_t_be_set_is_refused_with_the_way_out(
    till: Bench, arguments: dict[str, Any], error: str, more: dict[str, Any]
) -> None:
    """Nothing is added; without a run too."""
    refused = till.agent.refused("breakpoint_set", **arguments)
    assert refused["error"] == error
    assert more.items() <= refused.items()
    assert till.agent.call("breakpoint_list")["breakpoints"] == []
