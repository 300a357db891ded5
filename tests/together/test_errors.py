"""Bad input is refused with error objects."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.together.workbench import Bench


@pytest.fixture(scope="module", autouse=True)
def _one_run(shared_bench: Bench) -> None:
    """Without a run the answer to everything would be `no_run`."""
    shared_bench.test("def test_it(): pass")


def test_an_unknown_tool_is_a_json_rpc_error(bench: Bench) -> None:
    """Unknown tool: JSON-RPC error -32602."""
    for name in ("breakpoint_nonsense", "", "Test_Run", "test_polluter"):
        with pytest.raises(MCPError) as caught:
            bench.agent.call(name)
        assert caught.value.code == -32602, name
        assert repr(name) in caught.value.message


MISSING: list[tuple[str, dict[str, Any], str]] = [
    ("breakpoint_add", {}, "function_name"),
    ("breakpoint_add", {"function_name": ""}, "function_name"),
    ("breakpoint_add", {"function_name": " \t"}, "function_name"),
    ("breakpoint_add", {"function_name": None}, "function_name"),
    ("breakpoint_remove", {}, "function_name"),
    ("breakpoint_remove", {"function_name": " "}, "function_name"),
    ("breakpoint_continue", {}, "pause_id"),
    ("breakpoint_repl_eval", {"expression": "1"}, "pause_id"),
]


def test_a_required_parameter_must_be_there_and_not_blank(bench: Bench) -> None:
    """`missing_parameter` (+ `parameter`)."""
    for tool, arguments, parameter in MISSING:
        refused = bench.agent.refused(tool, **arguments)
        found = (refused["error"], refused["parameter"])
        assert found == ("missing_parameter", parameter), (tool, arguments)
        assert parameter in refused["message"], (tool, arguments)


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("test_run", {"nodeids": {"a": 1}}, "nodeids"),
    ("test_run", {"nodeids": ["test_it.py", 1]}, "nodeids"),
    ("test_run", {"maxfail": "one"}, "maxfail"),
    ("test_run", {"maxfail": True}, "maxfail"),
    ("test_run", {"maxfail": 1.5}, "maxfail"),
    ("test_run", {"maxfail": 0}, "maxfail"),
    ("test_run", {"workers": -1}, "workers"),
    ("test_run", {"wait": 1}, "wait"),
    ("test_run", {"timeout_s": "soon"}, "timeout_s"),
    ("test_run", {"timeout_s": -1}, "timeout_s"),
    ("test_run", {"timeout_s": 1e9}, "timeout_s"),
    ("test_run", {"pause_on": "always"}, "pause_on"),
    ("test_run", {"keyword": 3}, "keyword"),
    ("test_run", {"args": {"-x": 1}}, "args"),
    ("test_run", {"max_chars": 10}, "max_chars"),
    ("test_run", {"max_chars": 10**9}, "max_chars"),
    ("test_list", {"limit": 0}, "limit"),
    ("test_list", {"pattern": ["x"]}, "pattern"),
    ("test_results", {"limit": -5}, "limit"),
    ("test_results", {"run_id": 1}, "run_id"),
    ("test_stop", {"mode": "gently"}, "mode"),
    ("breakpoint_add", {"function_name": 7}, "function_name"),
    ("breakpoint_add", {"function_name": "a b"}, "function_name"),
    ("breakpoint_add", {"function_name": "f", "condition": 1}, "condition"),
    ("breakpoint_continue", {"pause_id": "r1.main.1", "modified_args": {}}, "modified_args"),
    ("breakpoint_continue", {"pause_id": "r1.main.1", "wait": "yes"}, "wait"),
    (
        "breakpoint_repl_eval",
        {"pause_id": "p", "expression": "1", "frame_index": -1},
        "frame_index",
    ),
]


def test_a_wrong_type_or_value_is_refused_and_not_converted(bench: Bench) -> None:
    """`invalid_parameter` (+ `parameter`, `expected`). No silent coercion."""
    for tool, arguments, parameter in WRONG:
        refused = bench.agent.refused(tool, **arguments)
        found = (refused["error"], refused["parameter"])
        assert found == ("invalid_parameter", parameter), (tool, arguments)
        assert refused["expected"], (tool, arguments)


def test_parameters_that_nobody_knows_are_ignored_and_named(bench: Bench) -> None:
    state = bench.agent.call("debug_state", verbose=True, x=None)
    assert (state["state"], state["ignored"]) == ("finished", ["verbose"])
    listed = bench.agent.call("test_list", patterns="no_such")
    assert listed["ignored"] == ["patterns (nearest: pattern)"]
    refused = bench.agent.refused("breakpoint_add", function="shop.rate", action="trace")
    assert refused["ignored"] == ["function (nearest: function_name)", "action"]
    assert "ignored" not in bench.agent.call("debug_state", max_chars=4_000)


UNKNOWN: list[tuple[str, dict[str, Any], str]] = [
    ("test_stop", {"run_id": "r99999"}, "run_not_found"),
    ("test_results", {"run_id": "r99999"}, "run_not_found"),
    ("test_results", {"nodeid": "test_it.py::test_nowhere"}, "test_not_found"),
    ("breakpoint_remove", {"id": "fn-99"}, "breakpoint_not_found"),
    ("breakpoint_continue", {"pause_id": "r99999.main.1"}, "pause_not_found"),
    ("breakpoint_repl_eval", {"pause_id": "x", "expression": "1"}, "pause_not_found"),
    ("breakpoint_add", {"function_name": "f", "behavior": "explode"}, "invalid_behavior"),
    ("breakpoint_add", {"function_name": "f", "condition": "1 +"}, "invalid_condition"),
]


def test_what_does_not_exist_is_reported_by_its_own_code(bench: Bench) -> None:
    for tool, arguments, error in UNKNOWN:
        refused = bench.agent.refused(tool, **arguments)
        assert refused["error"] == error, (tool, arguments)
        assert len(refused["message"]) > 20, (tool, arguments)
        assert bench.agent.call("breakpoint_list_breakpoints")["breakpoints"] == [], arguments


def test_removing_an_unknown_name_is_no_error(bench: Bench) -> None:
    """Idempotent."""
    reply = bench.agent.call("breakpoint_remove", function_name="never.added")
    assert reply == {"status": "ok", "success": True, "function_name": "never.added"}


def test_an_error_repeats_no_name_of_any_length(bench: Bench) -> None:
    """Whatever a client sends, its refusal is short."""
    name = "x" * 1_000_000
    calls: dict[str, dict[str, Any]] = {
        "breakpoint_add": {"function_name": f"a..{name}"},
        "breakpoint_remove": {"id": name},
        "test_results": {"run_id": name},
        "breakpoint_set": {"file": f"{name}.py", "line": 1},
        "exception_get_context": {"nodeid": name},
    }
    for tool, arguments in calls.items():
        reported = bench.agent.raw(tool, arguments).content[0].text
        assert len(reported) < 5_000, (tool, len(reported))


def test_more_workers_than_any_machine_has_room_for_are_refused(bench: Bench) -> None:
    body = bench.agent.refused("test_run", workers=5_000)
    assert (body["error"], body["parameter"]) == ("invalid_parameter", "workers")
