"""Resources and prompts of a real session, through the library's client.

Bounds and errors are in `tests/server/test_resources.py` and `tests/server/test_prompts.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.together.driver import run_of
from tests.together.workbench import Bench

OF_TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "breakpoint://breakpoints": ("breakpoint_list_breakpoints", {}),
    "breakpoint://paused": ("breakpoint_list_paused", {}),
    "breakpoint://call-history": ("breakpoint_get_call_records", {"limit": 50}),
    "breakpoint://functions": ("breakpoint_list_functions", {}),
}

TESTS = """
    def price(amount, each=3):
        return amount * each

    def total(amounts):
        return sum(price(each) for each in amounts)

    def test_total():
        assert total([1, 2]) == 10
"""


@pytest.mark.full
def test_resources_report_what_the_tools_report(bench: Bench) -> None:
    """At a pause, with calls behind it."""
    before = bench.agent.read("breakpoint://status")
    bench.breakpoint("test_it.total")
    bench.breakpoint("test_it.price", behavior="go")
    stop = bench.stop_of(TESTS)
    status = bench.agent.read("breakpoint://status")
    assert (status["breakpoints"], status["paused"]) == (2, 1)
    assert (status["state"], status["run_id"]) == ("paused", run_of(stop))
    stop = bench.go_on(stop)["stops"][0]
    for uri, (tool, arguments) in OF_TOOLS.items():
        assert bench.agent.read(uri) == bench.agent.call(tool, max_chars=200_000, **arguments)
    (pause,) = bench.agent.read("breakpoint://paused")["paused"]
    assert (pause["id"], pause["phase"]) == (stop["pause_id"], "post_mortem")
    calls = bench.agent.read("breakpoint://call-history")["calls"]
    assert [call["method_name"] for call in calls[-2:]] == ["price", "price"]
    assert "test_it.price" in bench.agent.read("breakpoint://functions")["functions"]
    status = bench.agent.read("breakpoint://status")
    assert status["calls_recorded"] == before["calls_recorded"] + 3
    assert status["default_behavior"] == "stop"
    bench.go_on(stop)
    bench.agent.call("breakpoint_remove", function_name="test_it.price")
    status = bench.agent.read("breakpoint://status")
    assert (status["breakpoints"], status["paused"], status["state"]) == (1, 0, "finished")


@pytest.mark.full
def test_the_prompt_of_a_pause_has_the_stack_in_user_code(bench: Bench) -> None:
    """Before a call, at a line, at an exception; what lies between is left out."""
    bench.write(
        shop="""
        def rate(code):
            percent = len(code)
            return 100 / percent

        class Cart:
            def total(self, codes):
                return sorted(codes, key=rate)
        """
    )
    bench.breakpoint("rate", behavior="stop")
    bench.agent.call("breakpoint_set_after_behavior", function_name="rate", behavior="exception")
    bench.breakpoint("json.loads")
    bench.agent.call("breakpoint_set", file="shop.py", line=3)
    stop = bench.stop_of(
        """
        import json
        import pytest
        from shop import Cart

        def test_it():
            with pytest.raises(ZeroDivisionError):
                Cart().total([""])
            json.loads("1")
        """
    )
    found = []
    while stop:
        lines = bench.agent.prompt("inspect-paused-call", pause_id=stop["pause_id"]).splitlines()
        start = lines.index("Stack trace, innermost first:") + 1
        found.append((stop["phase"], lines[start : lines.index("", start)]))
        stop = next(iter(bench.go_on(stop)["stops"]), {})
    callers = [
        "- shop.py:8 in Cart.total: return sorted(codes, key=rate)",
        '- test_it.py:8 in test_it: Cart().total([""])',
    ]
    assert found[0] == ("before", ["- shop.py:2 in rate: def rate(code):", *callers])
    assert found[1] == ("line", ["- shop.py:3 in rate: percent = len(code)", *callers])
    phase, (innermost, *outer) = found[2]
    assert phase == "exception"
    assert innermost == "- shop.py:4 in rate: return 100 / percent"
    assert outer[-2:] == callers
    phase, (innermost, *outer) = found[3]
    assert " in loads: " in innermost
    assert outer == ['- test_it.py:9 in test_it: json.loads("1")']


@pytest.mark.full
def test_prompts_show_the_session_and_of_a_paused_call(bench: Bench) -> None:
    bench.breakpoint("test_it.price", condition="amount == 2")
    stop = bench.stop_of(TESTS)
    text = bench.agent.prompt("debug-session-start")
    for part in ("State: paused", " test_it.price: ", "if amount == 2", stop["pause_id"]):
        assert part in text
    assert "test_it.price(2, 3) at test_it.py:2" in text
    text = bench.agent.prompt("inspect-paused-call", pause_id=stop["pause_id"])
    assert "- Function: test_it.price(amount, each=3)" in text
    assert "- Arguments: 2, 3" in text
    assert "- Call site: test_it.py:6" in text
    assert "frames" not in stop
    assert "frames" not in bench.agent.call("breakpoint_list_paused")["paused"][0]
    bench.go_on(stop)
    with pytest.raises(MCPError) as caught:
        bench.agent.prompt("inspect-paused-call", pause_id=stop["pause_id"])
    assert caught.value.error.code == -32602
    assert "resumed already" in caught.value.error.message
