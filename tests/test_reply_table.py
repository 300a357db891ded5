"""The table of replies is complete, its check finds what is wrong, and no test gets past it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cideldill_mcp.tools import profile
from tests.json_shapes import ANY, NUMBER, Shape, every, like, maybe, misfits, one_of
from tests.reply_table import TABLE, check_notification, checked, checked_resource, problems

TESTS = Path(__file__).resolve().parent

CALLS = ("tools/call", ".call_tool", "resources/read", ".read_resource", ".toolbox.call")
"""What a test writes to get a reply by itself."""

RECEIVERS = {
    "reply_table.py": "the check",
    "corpus/measured.py": "by frontend.py",
    "server/processes.py": "checks all that its toolbox answers",
    "server/test_debugresources.py": "by test_resources.py; sources are no JSON",
    "server/test_resources.py": "checks what its client gets; the others are refused",
    "server/test_start.py": "compares the replies of two servers, and looks at modules",
    "server/test_stdio.py": "its servers have tools of their own",
    "server/test_waiting.py": "uses the toolbox of processes.py",
    "test_reply_table.py": "this one",
    "together/driver.py": "checks all that its client gets",
    "together/frontend.py": "checks all that is received",
    "together/hostile.py": "makes requests and sends none",
    "together/test_eras.py": "by frontend.py",
    "together/test_handover.py": "by frontend.py",
    "together/test_http_strangers.py": "by frontend.py",
    "together/test_notifications.py": "by frontend.py",
    "together/test_odd_sources.py": "by frontend.py",
    "together/test_side_runs.py": "cancels a request, to which no reply comes",
    "together/test_tool_surface.py": "by frontend.py",
    "together/test_robustness.py": "checks answers that certainly belong to a call",
    "together/test_breakpoint_notification_edges.py": "by frontend.py",
    "together/test_waits.py": "by frontend.py",
    "together/web.py": "checks what comes by itself and for requests by hand",
}


def test_every_tool_has_a_row_and_every_row_a_tool() -> None:
    assert set(TABLE) == {tool.name for tool in profile.ALL}


def test_no_test_gets_a_reply_that_is_not_checked() -> None:
    found = {
        path.relative_to(TESTS).as_posix()
        for path in TESTS.rglob("*.py")
        if any(call in path.read_text(encoding="utf-8") for call in CALLS)
    }
    assert found == set(RECEIVERS)


COMPARED: tuple[tuple[Shape, Any, list[str]], ...] = (
    (str, "x", []),
    (str, None, ["reply is None, no str"]),
    (int, True, ["reply is True, no int"]),
    (bool, True, []),
    (bool, 0, ["reply is 0, no bool"]),
    (NUMBER, 0.5, []),
    (NUMBER, 1, []),
    (NUMBER, "1", ["reply is '1', no int or float"]),
    (maybe(str), None, []),
    (maybe(str), 1, ["reply is 1, no str"]),
    (one_of("a", "b"), "b", []),
    (one_of("a", "b"), "c", ["reply is 'c', none of 'a', 'b'"]),
    (one_of(True), 1, ["reply is 1, none of True"]),
    (like(r"r\d+"), "r12", []),
    (like(r"r\d+"), "r12 ", [r"reply is 'r12 ', not like r\d+"]),
    (like(r"r\d+"), 1, [r"reply is 1, not like r\d+"]),
    ([int], [1, "2", 3], ["reply[1] is '2', no int"]),
    ([int], {"a": 1}, ["reply is {'a': 1}, no list"]),
    (every(int), {"a": 1, "b": None}, ["reply.b is None, no int"]),
    (every(int), [1], ["reply is [1], no object"]),
    ({"a": int, "b?": str}, {"a": 1, "more": 2}, []),
    ({"a": int, "b?": str}, {"a": 1, "b": None}, ["reply.b is None, no str"]),
    ({"a": int}, {"A": 1}, ["reply has no a; it has A"]),
    ({"a": {"b": [int]}}, {"a": {"b": [None]}}, ["reply.a.b[0] is None, no int"]),
    ({"a": int}, [], ["reply is [], no object"]),
    ({"a": ANY}, {"a": object}, []),
)
"""A shape, a value, and what is found."""


def test_a_value_is_compared_with_a_shape() -> None:
    for shape, value, found in COMPARED:
        assert list(misfits(shape, value)) == found, (shape, value)


@pytest.mark.parametrize(
    ("tool", "arguments", "body", "is_error", "part"),
    [
        ("breakpoint_get_default_behavior", {}, {"behavior": "yield"}, False, "none of 'stop'"),
        ("breakpoint_get_default_behavior", {}, {}, False, "no behavior"),
        ("breakpoint_continue", {"wait": True},
         {"status": "ok", "pause_id": "r1.main.1", "action": "skip"}, False, "no stops"),
        ("breakpoint_wait", {}, {"hit": True, "hits": []}, False, "no thread_id"),
        ("breakpoint_wait", {}, {"hit": False, "hits": []}, False, "no reason"),
        ("variables_get", {}, {"variables": []}, False, "no names"),
        ("variables_get", {"names": ["a"]}, {"names": []}, False, "no variables"),
        ("debug_state", {}, {"error": "no_such_code", "message": "x"}, True, "none of"),
        ("debug_state", {}, {"error": "no_run", "message": " "}, True, "not like"),
        ("debug_state", {}, {"error": "invalid_parameter", "message": "x"}, True, "no expected"),
        ("breakpoint_continue", {}, {"error": "invalid_action", "message": "x"}, True,
         "no allowed"),
        ("no_such_tool", {}, {}, False, "has no tool no_such_tool"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_reply_is_found(
    tool: str, arguments: dict[str, Any], body: dict[str, Any], is_error: bool, part: str
) -> None:
    assert part in "; ".join(problems(tool, arguments, body, is_error=is_error))
    with pytest.raises(AssertionError, match=tool):
        checked(tool, arguments, json.dumps(body), is_error=is_error)


def test_what_is_cut_to_very_little_keeps_its_own_keys() -> None:
    """The last resort."""
    body = {"paused": [{"id": "r1.main.1"}], "truncated": True}
    assert list(problems("breakpoint_list_paused", {"max_chars": 500}, body, is_error=False)) == []
    for arguments in ({}, {"max_chars": 8_000}):
        assert list(problems("breakpoint_list_paused", arguments, body, is_error=False))
    reported = problems(
        "breakpoint_list_paused", {"max_chars": 500}, {"truncated": True}, is_error=False
    )
    assert list(reported) == ["reply has no paused; it has truncated"]


def test_what_is_right_passes() -> None:
    body = {"behavior": "stop", "more": 1}
    assert checked("breakpoint_get_default_behavior", {}, json.dumps(body), is_error=False) == body


def test_resources_and_notifications_are_checked_too() -> None:
    with pytest.raises(AssertionError, match="body has no paused"):
        checked_resource("breakpoint://paused", "{}")
    with pytest.raises(AssertionError, match="params has no pause_id"):
        check_notification("notifications/breakpoint/execution_paused", {})
    check_notification("notifications/progress", {"progress": 1})
