"""The prompt `triage-failing-test` on a real test: its calls, as they stand, prove the cause."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.together.driver import run_of
from tests.together.workbench import Bench

PRICES = """
    def rate(code):
        return {{"none": 0, "half": {half}}}[code]
"""
TEST = """
    from shop import rate

    def test_first(): pass

    def test_half(): assert rate("half") == 50
"""
NODEID = "test_it.py::test_half"


def called(bench: Bench, text: str, tool: str, **more: Any) -> dict[str, Any]:
    """Make the first call of a tool that a text names, as it stands there but for `more`."""
    found = re.search(rf"^- {tool} (\{{.*\}}): ", text, re.MULTILINE)
    assert found, text
    return bench.agent.call(tool, **json.loads(found[1]) | more)


@pytest.mark.full
def test_the_calls_that_it_names_prove_the_cause(bench: Bench) -> None:
    bench.write(shop=PRICES.format(half=50), test_it=TEST)
    assert bench.run()["outcomes"] == {"passed": 2, "failed": 0}
    bench.write(shop=PRICES.format(half=5))
    (stop,) = bench.run([NODEID])["stops"]
    text = bench.agent.prompt("triage-failing-test", nodeid="half")
    (passed, failed) = (f"r{int(run_of(stop)[1:]) - 1}", run_of(stop))
    for line in (
        f"- Test: {NODEID}",
        f"- Outcome: failed in {failed}, which is paused",
        "- Assertion: 5 == 50, of rate('half') == 50",
        f"- edited since it passed in {passed}: shop.py",
        f"- tests before it in its process: 1 in {passed}, 0 in {failed}",
    ):
        assert line in text.splitlines()
    assert f"- Paused now: {stop['pause_id']} (test_failure, post_mortem) at test_it.py:6" in text

    assert "rate(code='half') → 5" in called(bench, text, "test_trace")["text"]
    assert called(bench, text, "breakpoint_repl_eval")["output"] == "5"
    assert called(bench, text, "breakpoint_add")["functions"] == ["shop.rate"]
    (stop,) = called(bench, text, "test_run")["stops"]
    assert stop["phase"] == "before"
    reported = called(bench, text, "breakpoint_continue", pause_id=stop["pause_id"], fake_result=50)
    assert (reported["state"], reported["outcomes"]) == ("finished", {"passed": 1, "failed": 0})
    assert called(bench, text, "breakpoint_remove")["success"] is True
    forced = bench.agent.prompt("triage-failing-test")
    assert f"- in {run_of(stop)} it passed when a client changed " in forced
    assert "shop.rate('half')" in forced


@pytest.mark.full
def test_what_it_names_is_what_runs_had(bench: Bench) -> None:
    bench.write(test_it=TEST, shop=PRICES.format(half=50))
    bench.run()
    with pytest.raises(MCPError) as caught:
        bench.agent.prompt("triage-failing-test", nodeid="test_it.py::test_hlaf")
    assert caught.value.error.code == -32602
    assert NODEID in caught.value.error.message
