"""Recorded calls in real runs: in the timeline, with arguments and outcome; nothing is changed."""

from __future__ import annotations

import sys

import pytest

from tests.together.conftest import MakeProject
from tests.together.driver import connected
from tests.together.driver import server

SHOP = """
    def price(amount, each=3):
        if amount < 0:
            raise ValueError(amount)
        return amount * each
"""
TESTS = """
    import pytest

    def test_prices():
        from shop import price
        assert price(2) == 6
        with pytest.raises(ValueError):
            price(-1, each=2)
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="recording needs sys.monitoring for now")
def test_calls_of_chosen_functions_are_in_the_timeline(make_project: MakeProject) -> None:
    """Contract, section 9: `--cideldill-record-calls`; also of what is imported late."""
    project = make_project(shop=SHOP, test_shop=TESTS)
    with connected(server(project, "--cideldill-record-calls=shop.*")) as agent:
        assert agent.call("test_run")["exit_code"] == 0
        calls = agent.call("timeline_get", types=["call"])["events"]
    told = [(call["function"], call["args"], call["status"]) for call in calls]
    assert told == [
        ("shop.price", "amount=2, each=3", "success"),
        ("shop.price", "amount=-1, each=2", "exception"),
    ]
    assert calls[0]["result"] == "6"
    assert calls[1]["exception"] == "ValueError"
    assert {call["nodeid"] for call in calls} == {"test_shop.py::test_prices"}


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="3.11 only")
def test_before_3_12_recording_is_refused_in_words(make_project: MakeProject) -> None:
    """Nothing is missing in silence."""
    project = make_project(shop=SHOP, test_shop=TESTS)
    with connected(server(project, "--cideldill-record-calls=shop.*")) as agent:
        reply = agent.call("test_run")
    assert any("3.12" in warning for warning in reply["warnings"])
