"""What clients send for numbers, lists and objects, with a real client."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.together.driver import locals_of, only_stop, run_of
from tests.together.workbench import Bench

full = pytest.mark.full

TILL = """
    def price(amount, rate=2):
        cost = amount * rate
        return cost

    def total(amounts):
        result = 0
        for amount in amounts:
            result += price(amount)
        return result
"""

TEST = """
    from till import price, total

    def test_total():
        assert total([1, 2, 3]) == 12

    def test_price():
        assert price(1) == 42
"""


@pytest.fixture
def till(bench: Bench) -> Bench:
    bench.write(till=TILL, test_it=TEST)
    return bench


def message_of(bench: Bench) -> list[str]:
    return [hit["message"] for hit in bench.events("hit")]


@full
def test_a_form_that_comes_as_a_text_is_evaluated(till: Bench) -> None:
    """Passed on as a text it would fail the test, and disprove the cause that it proves."""
    till.breakpoint("till.price")
    stop = only_stop(till.run(nodeids="test_it.py::test_price"))
    for malformed in ('{"$eval": 40 + 2}', '{"$evaluate": "42"}'):
        refused = till.agent.refused(
            "breakpoint_continue",
            pause_id=stop["pause_id"],
            action="skip",
            fake_result=malformed,
        )
        assert (refused["error"], refused["parameter"]) == ("invalid_parameter", "fake_result")
        assert "$literal" in refused["message"]
    reply = till.go_on(stop, action="skip", fake_result=json.dumps({"$eval": "40 + 2"}))
    assert (reply["exit_code"], reply["outcomes"]["passed"]) == (0, 1)


@full
@pytest.mark.parametrize("how", ["list", "text", "one", "one as text", "texts", "texts as text"])
def test_test_run_takes_lists_as_clients_send_them(till: Bench, how: str) -> None:
    """Its tracepoints too, at each depth; and numbers and booleans as text."""
    test = "test_it.py::test_total"
    nodeids = {"list": [test], "text": json.dumps([test])}.get(how, test)
    point = {"file": "till.py", "line": 3.0, "log_message": "{amount}", "hit_count_multiple": "3"}
    text = json.dumps(point)
    spelled = {
        "list": [point],
        "text": json.dumps([point]),
        "one": point,
        "one as text": text,
        "texts": [text],
        "texts as text": json.dumps([text]),
    }
    options = {"args": "-q", "maxfail": "1", "timeout_s": "20", "wait": "true"}
    reply = till.run(nodeids=nodeids, tracepoints=spelled[how], **options)
    assert (reply["exit_code"], reply["outcomes"]["passed"]) == (0, 1)
    assert message_of(till) == ["3"]


@full
def test_what_may_mean_something_else_is_refused(till: Bench) -> None:
    for parameter, value in (
        ("nodeids", {"a": 1}),
        ("nodeids", '{"a": 1}'),
        ("nodeids", '["test_it.py"'),
        ("nodeids", ""),
        ("tracepoints", "till.py:3"),
        ("tracepoints", [5]),
        ("maxfail", "nine"),
        ("maxfail", 9.5),
        ("workers", "1.5"),
        ("wait", "yes"),
        ("timeout_s", "soon"),
        ("max_chars", "many"),
    ):
        refused = till.agent.refused("test_run", **{parameter: value})
        assert (refused["error"], refused["parameter"]) == ("invalid_parameter", parameter)
        assert refused["expected"] in refused["message"]
    refused = till.agent.refused("test_run", tracepoints=[{"file": "till.py", "line": 3.5}])
    assert (refused["index"], refused["parameter"]) == (0, "line")
    assert till.agent.call("debug_state")["state"] in ("idle", "finished", "crashed")


@full
def test_whole_floats_are_reported_back_as_integers(till: Bench) -> None:
    """Clients in languages that have one kind of number send them."""
    call, place = till.agent.call, {"file": "till.py", "line": 3.0}
    added = call("breakpoint_set", **place, hit_count=2.0)
    assert (added["location"]["line"], type(added["location"]["line"])) == (3, int)
    traced = call("tracepoint_set", **place, max_notifications=5.0, hit_count_multiple="1")
    reported = traced["tracepoint"]
    assert [reported["maxNotifications"], reported["hitCountMultiple"]] == [5, 1]
    assert all(type(reported[key]) is int for key in ("maxNotifications", "hitCountMultiple"))
    assert len(call("breakpoint_list_functions", limit=1.0)["functions"]) == 1
    assert len(call("test_list", limit="1", pattern="test_it")["tests"]) == 1
    stop = only_stop(till.run(nodeids="test_it.py::test_total"))
    assert locals_of(stop)["amount"] == "2"
    names = call("variables_get", pause_id=stop["pause_id"], names="amount", frame_index=0.0)
    assert [each["value"] for each in names["variables"]] == ["2"]
    for names_as in ('["amount", "rate"]', ["amount", "rate"]):
        reported = call("variables_get", pause_id=stop["pause_id"], names=names_as)
        assert [each["name"] for each in reported["variables"]] == ["amount", "rate"]
    hits = call("timeline_get", types="hit", after="0", limit=1.0, run_id=run_of(stop))["events"]
    assert [each["message"] for each in hits] == ["price: cost = amount * rate"]
    assert call("breakpoint_wait", timeout_ms="1", after=0.0, include_autopsy="false")["hit"]


@full
@pytest.mark.parametrize("spelled", [int, float, str])
def test_breakpoints_are_known_by_their_number_alone(till: Bench, spelled: Any) -> None:
    """Of whatever kind; replies tell the whole id."""
    call = till.agent.call

    def given(id: str) -> Any:
        return spelled(id.partition("-")[2])

    function = till.breakpoint("till.price", behavior="go")["id"]
    line = call("breakpoint_set", file="till.py", line=3)["id"]
    trace = call("tracepoint_set", file="till.py", line=8, log_message="x")["tracepoint"]["id"]
    raised = call("breakpoint_set_exception", exception_type="KeyError")["breakpoint"]["id"]
    assert call("breakpoint_enable", id=given(trace))["breakpoint"]["id"] == trace
    refused = till.agent.refused("breakpoint_enable", id=given(function))
    assert (refused["error"], function in refused["message"]) == ("invalid_parameter", True)
    till.run(nodeids="test_it.py::test_total")
    found = call("breakpoint_wait", breakpoint_id=given(line), after=0)
    assert (found["hit"], found["breakpoint_id"]) == (True, line)
    hit = call("breakpoint_wait", breakpoint_id=given(trace), after=0)
    assert (hit["reason"], hit["breakpoint_id"]) == ("tracepoint", trace)
    for id in (function, line, trace, raised):
        assert call("breakpoint_remove", id=given(id))["id"] == id
    assert call("breakpoint_list")["breakpoints"] == []
    # The pause stays, and is known by the number of what caused it.
    found = call("breakpoint_wait", breakpoint_id=given(line), after=0)
    assert (found["hit"], found["breakpoint_id"]) == (True, line)
    for tool, parameter in (
        ("breakpoint_enable", "id"),
        ("breakpoint_remove", "id"),
        ("breakpoint_wait", "breakpoint_id"),
    ):
        for unknown in (999, "999", -1, 0):
            refused = till.agent.refused(tool, **{parameter: unknown})
            assert refused["error"] == "breakpoint_not_found"
        for wrong in (1.5, True, [1]):
            refused = till.agent.refused(tool, **{parameter: wrong})
            assert (refused["error"], refused["parameter"]) == ("invalid_parameter", parameter)


@full
@pytest.mark.parametrize("as_text", [False, True])
def test_arguments_of_a_call_are_taken_as_text(till: Bench, *, as_text: bool) -> None:
    till.breakpoint("till.price")
    stop = only_stop(till.run(nodeids="test_it.py::test_price"))
    form = json.dumps({"$eval": "20 + 1"})
    args, kwargs = [form], {"rate": form.replace("20 + 1", "4 // 2")}
    how = {"modified_args": args, "modified_kwargs": kwargs}
    if as_text:
        how = {name: json.dumps(each) for name, each in how.items()}
    assert till.go_on(stop, **how)["exit_code"] == 0
