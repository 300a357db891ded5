"""Pauses listed, continued and evaluated in.

41 to 45 are in `test_function_breakpoints`. What counts is what the test under debug received.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.together import ledger
from tests.together.driver import only_stop
from tests.together.workbench import Bench

pytestmark = pytest.mark.full


@pytest.fixture
def price(bench: Bench) -> Bench:
    """With a breakpoint on `price`."""
    bench.breakpoint("price")
    return bench


def test_paused_calls_are_listed_with_what_the_test_passed(price: Bench) -> None:
    """The call, when it stopped, and the sessions at it."""
    stop = only_stop(ledger.start(price, "price(2, each=4, off=1)", "price(5)"))
    (first,) = price.agent.call("breakpoint_list_paused")["paused"]
    data = first["call_data"]
    assert (first["id"], first["repl_sessions"]) == (stop["pause_id"], [])
    assert (data["method_name"], data["signature"]) == ("price", "(amount, each=3, *, off=0)")
    assert (data["pretty_args"], data["pretty_kwargs"]) == (["2", "4"], {"off": "1"})
    assert data["call_site"]["file"] == "test_it.py"
    assert data["process_pid"] == int(price.eval(stop, "__import__('os').getpid()")) != os.getpid()
    (pause,) = price.agent.call("breakpoint_list_paused")["paused"]
    (session,) = pause["repl_sessions"]
    assert price.eval(stop, "each = 10", session_id=session) == ""
    stop = only_stop(price.go_on(stop))
    (pause,) = price.agent.call("breakpoint_list_paused")["paused"]
    assert (pause["call_data"]["pretty_args"][0], pause["repl_sessions"]) == ("5", [])
    assert first["paused_at"] < pause["paused_at"] < pause["lease_expires_at"]
    price.go_on(stop)
    assert ledger.received(price) == [19, 15]


def test_a_replacement_wins_over_the_action(price: Bench) -> None:
    """For one call; the next ones are of the original again."""
    reply = ledger.start(price, *["price(2)"] * 4)
    for how in (
        {},
        {"action": "skip", "fake_result": 41},
        {"action": "raise", "exception_type": "KeyError"},
    ):
        reply = price.go_on(only_stop(reply), replacement_function="shop.cheap", **how)
        assert reply["action"] == "replace"
    assert price.go_on(only_stop(reply))["exit_code"] == 0
    assert ledger.received(price) == [2, 2, 2, 6]


def test_only_what_is_paused_goes_on_and_only_once(price: Bench) -> None:
    """A refused request changes nothing."""
    stop = only_stop(ledger.start(price, "price(2)", "price(2)"))

    def refused(pause_id: str) -> tuple[str, str, str]:
        body = price.agent.refused(
            "breakpoint_continue", pause_id=pause_id, action="skip", fake_result=41
        )
        return body["error"], body["reason"], body["pause_id"]

    for unknown in ("r99999.main.1", "nonsense"):
        assert refused(unknown) == ("pause_not_found", "unknown", unknown)
    assert price.agent.call("debug_state")["paused"] == [stop["pause_id"]]
    following = only_stop(price.go_on(stop, action="skip", fake_result=1))
    gone = stop["pause_id"]
    assert refused(gone) == ("pause_not_found", "already_resumed", gone)
    assert price.agent.call("debug_state")["paused"] == [following["pause_id"]]
    price.go_on(following)
    assert refused(gone) == ("pause_not_found", "already_resumed", gone)
    assert ledger.received(price) == [1, 6]


def evaluate(bench: Bench, stop: dict[str, Any], expression: str, **options: Any) -> dict[str, Any]:
    return bench.agent.call(
        "breakpoint_repl_eval", pause_id=stop["pause_id"], expression=expression, **options
    )


def test_sessions_change_the_call_and_end_with_its_pause(price: Bench) -> None:
    stop = only_stop(ledger.start(price, "price(2)", "price(2)"))
    simple = evaluate(price, stop, "2 + 2")
    assert (simple["output"], simple["is_error"]) == ("4", False)
    session = simple["session_id"]
    assert evaluate(price, stop, "mine = amount + 40", session_id=session)["output"] == ""
    again = evaluate(price, stop, "amount = mine", session_id=session)
    assert (again["session_id"], again["is_error"]) == (session, False)
    stop = only_stop(price.go_on(stop))
    closed = price.agent.refused(
        "breakpoint_repl_eval",
        pause_id=stop["pause_id"],
        expression="amount = 0",
        session_id=session,
    )
    assert (closed["error"], closed["session_id"]) == ("session_closed", session)
    price.go_on(stop)
    assert ledger.received(price) == [42 * 3, 6]


def test_what_cannot_be_evaluated_leaves_the_call_alone(price: Bench) -> None:
    stop = only_stop(ledger.start(price, "price(2)"))
    for expression, error in (
        ("amount = 0; 1 +", "SyntaxError"),
        ("nowhere", "NameError: name 'nowhere' is not defined"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ):
        reply = evaluate(price, stop, expression)
        assert reply["is_error"]
        assert reply["output"].startswith(error)

    def refused(**options: Any) -> dict[str, Any]:
        arguments = {"pause_id": stop["pause_id"], "expression": "amount = 0"}
        return price.agent.refused("breakpoint_repl_eval", **(arguments | options))

    for blank in ("", "  \n"):
        assert refused(expression=blank)["error"] == "missing_expression"
    assert refused(pause_id="r99999.main.1")["error"] == "pause_not_found"
    for endless in ("while True: pass", "__import__('time').sleep(60)"):
        late = refused(expression=endless, timeout_s=0.2)
        assert (late["error"], late["stopped"]) == ("eval_timeout", True)
    assert price.go_on(stop)["exit_code"] == 0
    gone = refused()
    assert (gone["error"], gone["reason"]) == ("pause_not_found", "already_resumed")
    assert ledger.received(price) == [6]


def test_what_an_evaluation_prints_is_reported_and_not_seen_by_the_test(price: Bench) -> None:
    stop = only_stop(ledger.start(price, "printed_by(lambda: print(price(2)))"))
    reply = evaluate(price, stop, "print('amount is', amount); amount")
    assert (reply["output"], reply["stdout"]) == ("2", "amount is 2\n")
    price.go_on(stop)
    assert ledger.received(price) == ["6\n"]
