"""The surface, on a running test."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import jsonschema
import pytest
from mcp.shared.exceptions import MCPError

from tests.together import ledger
from tests.together.conftest import MakeProject
from tests.together.driver import only_stop
from tests.together.frontend import front_end
from tests.together.workbench import Bench

pytestmark = pytest.mark.full

REQUIRED = {
    f"breakpoint_{name}"
    for name in (
        "list_breakpoints",
        "add",
        "remove",
        "set_behavior",
        "set_after_behavior",
        "set_replacement",
        "get_default_behavior",
        "set_default_behavior",
        "list_paused",
        "continue",
        "list_functions",
        "get_call_records",
        "repl_eval",
        "inspect_object",
    )
}


class Scrutiny:
    """Calls tools as their schemas say, and looks at each answer as it comes over the wire."""

    def __init__(self, bench: Bench) -> None:
        self._agent = bench.agent
        self.tools = bench.agent.tools()
        self.called: set[str] = set()

    def __call__(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """The reply of `breakpoint_NAME`: one text that is one JSON object, and nothing else."""
        name = f"breakpoint_{name}"
        (tool,) = (tool for tool in self.tools if tool.name == name)
        jsonschema.validate(arguments, tool.input_schema)
        result = self._agent.raw(name, arguments)
        (content,) = result.content
        assert (content.type, result.structured_content, result.is_error) == ("text", None, False)
        body = json.loads(content.text, parse_constant=lambda word: pytest.fail(word))
        assert isinstance(body, dict)
        self.called.add(name)
        return body


def test_each_tool_is_listed_once_and_does_its_part(bench: Bench) -> None:
    """All 14, called as their schemas say while a test waits."""
    call = Scrutiny(bench)
    names = Counter(tool.name for tool in call.tools)
    assert set(names) >= REQUIRED
    assert set(names.values()) == {1}
    for tool in call.tools:
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert tool.input_schema["type"] == "object"

    call("add", function_name="shop.price", behavior="go")
    call("add", function_name="shop.checkpoint")
    ledger.start(bench, "price(2)", "checkpoint()", "price(2)", "price(2)", "price(2)")
    (record,) = call("get_call_records", function_name="shop.price")["calls"][-1:]
    assert call("inspect_object", cid=record["cids"]["result"])["repr"] == "6"
    assert "shop.cheap" in call("list_functions", pattern="shop.")["functions"]
    assert call("get_default_behavior")["behavior"] == "stop"
    call("set_default_behavior", behavior="go")
    call("set_behavior", function_name="shop.price", behavior="stop")
    call("set_after_behavior", function_name="shop.price", behavior="stop")
    call("set_replacement", function_name="shop.price", replacement_function="shop.cheap")
    assert call("list_breakpoints")["replacements"] == {"shop.price": "shop.cheap"}
    (pause,) = call("list_paused")["paused"]
    stop = only_stop(call("continue", pause_id=pause["id"], wait=True))
    call("repl_eval", pause_id=stop["pause_id"], expression="amount = 20")
    stop = only_stop(call("continue", pause_id=stop["pause_id"], wait=True))
    assert (stop["phase"], stop["call_data"]["pretty_result"]) == ("after", "20")
    arguments = {"action": "skip", "fake_result": 41, "wait": True}
    stop = only_stop(call("continue", pause_id=stop["pause_id"], **arguments))
    call("remove", function_name="shop.price")
    assert call("continue", pause_id=stop["pause_id"], wait=True)["exit_code"] == 0
    assert ledger.received(bench) == [6, None, 41, 6, 6]  # what was removed replaces nothing
    assert call.called == REQUIRED


def test_malformed_requests_change_nothing_and_extra_words_do_no_harm(bench: Bench) -> None:
    bench.breakpoint("price")
    stop = only_stop(ledger.start(bench, "price(2)", "price(2)"))
    id = stop["pause_id"]
    with pytest.raises(MCPError) as caught:
        bench.agent.call("breakpoint_kontinue", pause_id=id, action="skip", fake_result=1)
    assert caught.value.code == -32602
    assert "'breakpoint_kontinue'" in caught.value.message
    for tool, arguments, error, parameter in (
        ("continue", {"action": "skip"}, "missing_parameter", "pause_id"),
        ("set_behavior", {"behavior": "go"}, "missing_parameter", "function_name"),
        ("continue", {"pause_id": id, "modified_args": "9"}, "invalid_parameter", "modified_args"),
        ("continue", {"pause_id": 7}, "invalid_parameter", "pause_id"),
        ("remove", {"function_name": ["price"]}, "invalid_parameter", "function_name"),
    ):
        refused = bench.agent.refused(f"breakpoint_{tool}", **arguments)
        assert (refused["error"], refused["parameter"]) == (error, parameter)
    assert bench.agent.call("debug_state")["paused"] == [id]
    stop = only_stop(bench.go_on(stop))
    bench.go_on(stop, action="skip", fake_result=41, color="red", modified=None)
    assert ledger.received(bench) == [6, 41]


def test_a_session_from_the_handshake_to_the_verdict(make_project: MakeProject) -> None:
    """Message by message."""
    root = make_project()
    project = Bench(None, root)  # type: ignore[arg-type]  # writes files only
    ledger.write(project, "price(2)", "price(2)")
    with front_end(root, "-p", "no:cacheprovider") as end:
        hello = end.initialize()
        assert hello["serverInfo"]["name"] == "pytest-cideldill"
        assert {"tools", "resources", "prompts"} <= set(hello["capabilities"])
        end.call("breakpoint_add", function_name="price")
        listed = end.call("breakpoint_list_breakpoints")
        assert (listed["breakpoints"], listed["behaviors"]) == (["price"], {"price": "yield"})
        stop = only_stop(end.call("test_run"))
        pause = {"pause_id": stop["pause_id"]}
        reported = end.call("breakpoint_repl_eval", **pause, expression="each * 100")
        assert reported["output"] == "300"
        (content,) = end.request("resources/read", {"uri": "breakpoint://status"})["contents"]
        status = json.loads(content["text"])
        assert (status["breakpoints"], status["paused"], status["state"]) == (1, 1, "paused")
        (message,) = end.request(
            "prompts/get", {"name": "inspect-paused-call", "arguments": pause}
        )["messages"]
        assert "price(amount, each=3, *, off=0)" in message["content"]["text"]
        end.call("breakpoint_repl_eval", **pause, expression="each = 100")
        following = only_stop(end.call("breakpoint_continue", **pause, wait=True))
        end.call("breakpoint_continue", pause_id=following["pause_id"], wait=True)
        assert end.leave() == 0
    assert ledger.received(project) == [200, 6]
