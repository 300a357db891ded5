"""`breakpoint_repl_eval` at a real pause: what it shows, changes, refuses and survives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.together.workbench import Bench

FAILING = """
    def helper(depth):
        inner = "helper's"
        raise LookupError("deep")

    def test_bad():
        outer = [1, 2]
        helper(1)
"""


@pytest.fixture(scope="module")
def stop(shared_bench: Bench) -> Iterator[dict[str, Any]]:
    """A test that failed two frames deep, paused for all tests of this module."""
    stop = shared_bench.stop_of(FAILING)
    yield stop
    assert shared_bench.agent.call("debug_state")["paused"] == [stop["pause_id"]]
    assert shared_bench.go_on(stop)["exit_code"] == 1
    shared_bench.clear()


@pytest.fixture
def bench(shared_bench: Bench) -> Bench:
    """Not cleared between the tests of this module: the pause outlives them."""
    return shared_bench


def evaluate(bench: Bench, stop: dict[str, Any], expression: str, **options: Any) -> dict[str, Any]:
    return bench.agent.call(
        "breakpoint_repl_eval", pause_id=stop["pause_id"], expression=expression, **options
    )


def test_expressions_statements_and_prints_answer_as_a_console_would(
    bench: Bench, stop: dict[str, Any]
) -> None:
    reply = evaluate(bench, stop, "inner.upper()")
    assert (reply["output"], reply["stdout"], reply["is_error"]) == ('"HELPER\'S"', "", False)
    assert len(reply["result_cid"]) == 128
    reply = evaluate(bench, stop, "print('seen', inner)")
    assert (reply["output"], reply["stdout"]) == ("None", "seen helper's\n")
    session = reply["session_id"]
    assert evaluate(bench, stop, "import math\ndef twice(n): return n * 2")["output"] == ""
    reply = evaluate(bench, stop, "twice(math.floor(depth + 1.5))", session_id=session)
    assert (reply["output"], reply["session_id"]) == ("4", session)


def test_frames_are_the_real_ones_and_assignments_stick(bench: Bench, stop: dict[str, Any]) -> None:
    """`frame_index` selects a caller; assignment changes the frame."""
    assert bench.eval(stop, "outer.append(3)", frame_index=1) == "None"
    assert bench.eval(stop, "outer = outer[::-1]", frame_index=1) == ""
    assert bench.eval(stop, "outer", frame_index=1) == "[3, 2, 1]"
    unseen = bench.eval(stop, "outer")
    assert unseen.startswith("NameError: name 'outer' is not defined (frame 1 has it: ")
    assert unseen.endswith('give "frame_index": 1)')
    assert bench.eval(stop, "depth = 40; depth += 2; depth") == "42"
    assert bench.eval(stop, "depth") == "42"
    for index in (2, 99):
        refused = bench.agent.refused(
            "breakpoint_repl_eval", pause_id=stop["pause_id"], expression="1", frame_index=index
        )
        assert (refused["error"], refused["frame_index"]) == ("invalid_frame", index)


ERRORS = {
    "1 / 0": "ZeroDivisionError: division by zero",
    "raise SystemExit(3)": "SystemExit: 3",
    "raise KeyboardInterrupt": "KeyboardInterrupt",
    "import pytest; pytest.skip('no')": "Skipped: no",
    "nowhere": "NameError: name 'nowhere' is not defined",
}


def test_an_error_in_the_expression_is_a_normal_reply(bench: Bench, stop: dict[str, Any]) -> None:
    """Any BaseException included; `isError` stays false."""
    replies = {expression: evaluate(bench, stop, expression) for expression in ERRORS}
    assert {expression: reply["output"] for expression, reply in replies.items()} == ERRORS
    assert all(reply["is_error"] for reply in replies.values())
    malformed = evaluate(bench, stop, "1 +")
    assert malformed["output"].startswith("SyntaxError: ")
    assert malformed["is_error"] is True


def test_what_takes_too_long_is_interrupted_and_the_pause_lives_on(
    bench: Bench, stop: dict[str, Any]
) -> None:
    """`eval_timeout` says whether it stopped."""
    for expression in ("while True: pass", "__import__('time').sleep(60)"):
        refused = bench.agent.refused(
            "breakpoint_repl_eval", pause_id=stop["pause_id"], expression=expression, timeout_s=0.2
        )
        assert (refused["error"], refused["stopped"]) == ("eval_timeout", True)
        assert bench.eval(stop, "1 + 1") == "2"


def test_an_expression_is_needed(bench: Bench, stop: dict[str, Any]) -> None:
    for arguments in ({}, {"expression": ""}, {"expression": "  "}):
        refused = bench.agent.refused(
            "breakpoint_repl_eval", pause_id=stop["pause_id"], **arguments
        )
        assert refused["error"] == "missing_expression"


def test_an_evaluation_does_not_trigger_breakpoints(bench: Bench, stop: dict[str, Any]) -> None:
    """Evaluation never triggers breakpoints."""
    added = bench.breakpoint("test_it.helper")
    assert added["verified"] is True
    assert bench.eval(stop, "helper(1)", frame_index=1) == "LookupError: deep"
    bench.agent.call("breakpoint_remove", id=added["id"])


def evaluate_all(
    bench: Bench, stop: dict[str, Any], *expressions: str, **options: Any
) -> dict[str, Any]:
    return bench.agent.call(
        "breakpoint_repl_eval",
        pause_id=stop["pause_id"],
        expressions=list(expressions),
        **options,
    )


def test_several_expressions_are_evaluated_in_order_in_one_session(
    bench: Bench, stop: dict[str, Any]
) -> None:
    """An error of one does not end the others."""
    reply = evaluate_all(
        bench, stop, "seven = 7", "print('x') or seven + 1", "nothing", "len(inner)"
    )
    first, second, third, fourth = reply["results"]
    assert first == {"is_error": False}
    assert (second["output"], second["stdout"]) == ("8", "x\n")
    assert len(second["result_cid"]) == 128
    assert third["is_error"] is True
    assert third["output"].startswith("NameError: name 'nothing' is not defined")
    assert fourth["output"] == "8"
    assert evaluate(bench, stop, "seven")["session_id"] == reply["session_id"]
    callers = evaluate_all(bench, stop, "type(outer)", "'inner' in dir()", frame_index=1)["results"]
    assert [each["output"] for each in callers] == ["<class 'list'>", "False"]


def test_an_error_names_the_frames_that_raised_it(bench: Bench, stop: dict[str, Any]) -> None:
    """Those of the user's code alone, innermost last, three at most."""
    path = bench.root / "test_it.py"
    line = 1 + path.read_text(encoding="utf-8").splitlines().index('    raise LookupError("deep")')
    place = {"file": "test_it.py", "line": line, "function": "helper"}
    single = evaluate(bench, stop, "helper(2)")
    assert (single["is_error"], single["at"]) == (True, [place])
    bad = {"file": "test_it.py", "line": line + 4, "function": "test_bad"}
    of_library, none, malformed = evaluate_all(
        bench, stop, "import json; test_bad()", "1 / 0", "1 +"
    )["results"]
    assert of_library["at"] == [bad, place]
    assert "at" not in none
    assert "at" not in malformed
    nested = "calls = [lambda: helper(1)]\nlist(map(lambda call: call(), calls))"
    assert evaluate(bench, stop, nested)["at"] == [place]
    assert "at" not in evaluate(bench, stop, "1")


@pytest.mark.parametrize(
    ("options", "error", "parameter"),
    [
        ({}, "missing_expression", "expression"),
        ({"expression": "1", "expressions": ["1"]}, "invalid_parameter", "expressions"),
        ({"expressions": []}, "invalid_parameter", "expressions"),
        ({"expressions": ["1"] * 51}, "invalid_parameter", "expressions"),
        ({"expressions": ["1", " "]}, "missing_expression", "expressions"),
        ({"expressions": [1]}, "invalid_parameter", "expressions"),
    ],
)
def test_one_expression_or_a_list_of_them_is_needed(
    bench: Bench, stop: dict[str, Any], options: dict[str, Any], error: str, parameter: str
) -> None:
    asked = {"pause_id": stop["pause_id"]} | options
    refused = bench.agent.refused("breakpoint_repl_eval", **asked)
    assert (refused["error"], refused["parameter"]) == (error, parameter)


@pytest.mark.full
def test_the_time_limit_holds_for_all_expressions(bench: Bench, stop: dict[str, Any]) -> None:
    """What was evaluated before is in the refusal."""
    refused = bench.agent.refused(
        "breakpoint_repl_eval",
        pause_id=stop["pause_id"],
        expressions=["len(inner)", "import time\nwhile True: time.sleep(0.01)", "1"],
        timeout_s=1,
    )
    assert (refused["error"], refused["stopped"]) == ("eval_timeout", True)
    assert [each["output"] for each in refused["results"]] == ["8"]
    assert evaluate(bench, stop, "1")["output"] == "1"


@pytest.mark.full
def test_waits_up_to_an_hour_are_accepted(bench: Bench, stop: dict[str, Any]) -> None:
    """And no longer ones."""
    assert evaluate(bench, stop, "1", timeout_s=3_600)["output"] == "1"
    waited = bench.agent.call("breakpoint_wait", timeout_ms=3_600_000)
    assert waited["reason"] == "paused"
    for tool, name, value in (
        ("breakpoint_repl_eval", "timeout_s", 3_601),
        ("breakpoint_wait", "timeout_ms", 3_600_001),
        ("test_run", "timeout_s", 3_601),
        ("debug_step", "timeout_s", 3_601),
    ):
        asked = {"pause_id": stop["pause_id"], "expression": "1", name: value}
        assert bench.agent.refused(tool, **asked)["parameter"] == name
