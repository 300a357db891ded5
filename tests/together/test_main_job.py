"""The main job: a failing test is run, paused, looked into, its cause proven."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.together.driver import connected, only_stop, server

SHOP = Path(__file__).parents[2] / "examples" / "shop"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A copy of the example project."""
    return shutil.copytree(SHOP, tmp_path / "shop", ignore=shutil.ignore_patterns("__pycache__"))


@pytest.mark.full
def test_an_agent_finds_and_proves_the_cause_of_a_failure_and_confirms_the_fix(shop: Path) -> None:
    """`ideal_session.md`, call by call."""
    nodeid = "tests/test_cart.py::test_total[bulk]"
    with connected(server(shop)) as agent:
        reply = agent.call("test_run", nodeids=[nodeid])
        stop = only_stop(reply)
        assert reply["state"] == "paused"
        assert (stop["phase"], stop["when"], stop["nodeid"]) == ("post_mortem", "call", nodeid)
        assert stop["location"]["function"] == "test_total"
        assert stop["autopsy"]["exception"]["type"] == "AssertionError"
        assert stop["autopsy"]["parameters"] == {"coupon": "'BULK10'", "expected": "'90.0'"}

        looked = agent.call(
            "breakpoint_repl_eval",
            pause_id=stop["pause_id"],
            expression="{code: cart.total() for code in (coupon,)}",
        )
        assert looked["output"] == "{'BULK10': Decimal('95.0')}"

        added = agent.call(
            "breakpoint_add", function_name="shop.pricing.rate", condition="code == 'BULK10'"
        )
        assert added["functions"] == ["shop.pricing.rate"]
        stop = only_stop(agent.call("test_run", nodeids=[nodeid], replace=True))
        assert (stop["phase"], stop["breakpoint_id"]) == ("before", added["id"])
        assert stop["call_data"]["pretty_args"] == ["'BULK10'"]

        proven = agent.call(
            "breakpoint_continue",
            pause_id=stop["pause_id"],
            action="skip",
            fake_result={"$eval": "Decimal('0.10')"},
            wait=True,
        )
        assert (proven["state"], proven["exit_code"]) == ("finished", 0)
        assert "shop.pricing.rate('BULK10')" in proven["next"][0]

        pricing = shop / "shop" / "pricing.py"
        text = pricing.read_text(encoding="utf-8")
        pricing.write_text(
            text.replace('"BULK10": Decimal("0.05")', '"BULK10": Decimal("0.10")'), encoding="utf-8"
        )
        agent.call("breakpoint_remove", function_name="shop.pricing.rate")
        fixed = agent.call("test_run")
        assert (fixed["state"], fixed["exit_code"]) == ("finished", 0)
        assert fixed["outcomes"] == {"passed": 4, "failed": 0}
