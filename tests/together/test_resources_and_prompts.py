"""Resources and prompts tell what the waiting test called and got."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.together import ledger
from tests.together.driver import only_stop
from tests.together.ledger import BEFORE, PLAIN
from tests.together.workbench import Bench

pytestmark = pytest.mark.full


def test_resources_follow_the_test(bench: Bench) -> None:
    """The tools tell the same."""
    agent = bench.agent
    recorded = agent.read("breakpoint://status")["calls_recorded"]

    def status() -> tuple[Any, ...]:
        reported = agent.read("breakpoint://status")
        return reported["breakpoints"], reported["paused"], reported["calls_recorded"] - recorded

    def add() -> None:
        assert status()[:2] == (1, 1)
        bench.breakpoint("price", behavior="go")
        assert status()[:2] == (2, 1)
        reported = agent.read("breakpoint://breakpoints")
        assert reported == agent.call("breakpoint_list_breakpoints")
        assert reported["behaviors"] == {"price": "go", "shop.checkpoint": "stop"}
        reported = agent.read("breakpoint://paused")
        assert [pause["call_data"]["method_name"] for pause in reported["paused"]] == ["checkpoint"]
        functions = agent.read("breakpoint://functions")
        assert functions["signatures"]["shop.price"] == "(amount, each=3, *, off=0)"

    def stop_from_now_on() -> None:
        calls = agent.read("breakpoint://call-history")["calls"]
        returned, raised = (call for call in calls[-3:] if call["method_name"] == "price")
        assert (returned["pretty_args"][0], returned["pretty_result"]) == ("2", str(PLAIN[0]))
        exception = raised["exception"]
        assert f"{exception['type']}: {exception['message']}" == f"shop.{PLAIN[1]}"
        assert status() == (2, 1, 4)  # two checkpoints and two prices
        bench.agent.call("breakpoint_set_behavior", function_name="price", behavior="stop")
        assert agent.read("breakpoint://breakpoints")["behaviors"]["price"] == "stop"

    def remove() -> None:
        agent.call("breakpoint_remove", function_name="price")
        assert status()[:2] == (1, 1)

    assert ledger.stepwise(bench, add, stop_from_now_on, remove) == [PLAIN, BEFORE, PLAIN]
    assert status()[:2] == (1, 0)


def test_prompts_follow_the_test(bench: Bench) -> None:
    agent = bench.agent
    bench.breakpoint("price")
    stop = only_stop(ledger.start(bench, "price(2)", "price(5)"))
    stop = only_stop(bench.go_on(stop, modified_kwargs={"each": 7}))
    session = agent.prompt("debug-session-start")
    for part in ("State: paused", " price: ", f"{stop['pause_id']} ", "shop.price(5"):
        assert part in session
    (recent,) = (line for line in session.splitlines() if " 14" in line and "price(2" in line)
    assert recent
    text = agent.prompt("inspect-paused-call", pause_id=stop["pause_id"])
    for part in ("shop.price(amount, each=3, *, off=0)", "Arguments: 5, 3", "test_it.py"):
        assert part in text
    bench.go_on(stop)
    for gone in (stop["pause_id"], "r99999.main.1"):
        with pytest.raises(MCPError) as caught:
            agent.prompt("inspect-paused-call", pause_id=gone)
        assert caught.value.error.code == -32602
        assert gone in caught.value.error.message
    assert ledger.received(bench) == [14, 15]
