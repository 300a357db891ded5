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
