"""Recorded calls in real runs: in the timeline, with arguments and outcome; nothing is changed."""

from __future__ import annotations

import sys

import pytest

from tests.together.conftest import MakeProject
from tests.together.driver import Agent, connected, server

BEFORE_3_12 = sys.version_info < (3, 12)

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


@pytest.mark.full
def test_calls_of_chosen_functions_are_in_the_timeline(make_project: MakeProject) -> None:
    """`--cideldill-record-calls`; also of what is imported late."""
    project = make_project(shop=SHOP, test_shop=TESTS)
    with connected(server(project, "--cideldill-record-calls=shop.*")) as agent:
        assert agent.call("test_run")["exit_code"] == 0
        calls = agent.call("timeline_get", types=["call"])["events"]
    assert [call["qualified_name"] for call in calls] == ["shop.price"] * 2
    assert [call["pretty_args"] + list(call["pretty_kwargs"].values()) for call in calls] == [
        ["2", "3"],
        ["-1", "2"],
    ]
    assert [call["status"] for call in calls] == ["success", "exception"]
    assert calls[0]["pretty_result"] == "6"
    assert calls[1]["exception"]["type"] == "ValueError"
    assert {call["nodeid"] for call in calls} == {"test_shop.py::test_prices"}


def reported(agent: Agent) -> list[tuple[str, str, str]]:
    """Test, function and worker of every recorded call."""
    calls = agent.call("timeline_get", types=["call"], limit=200)["events"]
    return sorted((str(call["nodeid"]), call["qualified_name"], call["worker"]) for call in calls)


TRACED = """
    import sys
    from shop import price

    def tracer(frame, event, arg): return None

    def test_traced():
        sys.settrace(tracer)
        assert price(1) == 3

    def test_still_traced():
        assert price(2) == 6
        sys.settrace(None)

    def test_free(): assert price(3) == 9
"""


@pytest.mark.full
def test_another_tracer_is_left_alone_and_reported_once(make_project: MakeProject) -> None:
    """Before 3.12 there is room for one: a warning, no calls meanwhile, and the tests go on."""
    project = make_project(shop=SHOP, test_it=TRACED)
    with connected(server(project, "--cideldill-record-calls=shop.*")) as agent:
        reply = agent.call("test_run")
        calls = reported(agent)
    assert (reply["exit_code"], reply["outcomes"]["passed"]) == (0, 3)
    names = ["free"] if BEFORE_3_12 else ["free", "still_traced", "traced"]
    assert calls == [(f"test_it.py::test_{name}", "shop.price", "main") for name in names]
    warnings = [text for text in reply.get("warnings", []) if "traces this program" in text]
    assert len(warnings) == (1 if BEFORE_3_12 else 0), reply
    assert all("test_it.tracer" in text and "calls are not recorded" in text for text in warnings)


@pytest.mark.full
@pytest.mark.skipif(not BEFORE_3_12, reason="tracers are not in the way of sys.monitoring")
def test_with_a_tracer_from_the_start_calls_are_recorded_once_it_is_gone(
    make_project: MakeProject,
) -> None:
    """At the next phase of a test."""
    conftest = """
        import sys, threading
        def tracer(frame, event, arg): return None
        sys.settrace(tracer)
        threading.settrace(tracer)
    """
    tests = """
        import sys, threading
        from shop import price
        def test_traced(): assert price(1) == 3
        def test_end():
            sys.settrace(None)
            threading.settrace(None)
        def test_free(): assert price(3) == 9
    """
    project = make_project(conftest=conftest, shop=SHOP, test_it=tests)
    with connected(server(project, "--cideldill-record-calls=shop.*")) as agent:
        reply = agent.call("test_run")
        assert (reply["exit_code"], reply["outcomes"]["passed"]) == (0, 3)
        refused, removed = reply["warnings"]
        assert "conftest.tracer traces this program" in refused
        assert "the program used sys.settrace" in removed
        assert reported(agent) == [("test_it.py::test_free", "shop.price", "main")]


@pytest.mark.full
def test_calls_in_workers_are_recorded(make_project: MakeProject) -> None:
    """Each worker has its own engine; a module that is imported late counts there too."""
    tests = """
        import pytest
        @pytest.mark.parametrize("n", range(4))
        def test_late(n):
            from shop import price
            assert price(n) == n * 3
    """
    project = make_project(shop=SHOP, test_it=tests)
    with connected(server(project, "--cideldill-record-calls=shop.*")) as agent:
        reply = agent.call("test_run", workers=2)
        assert (reply["exit_code"], reply["outcomes"]["passed"]) == (0, 4)
        calls = reported(agent)
    assert [nodeid for nodeid, _, _ in calls] == [f"test_it.py::test_late[{n}]" for n in range(4)]
    assert {worker for _, _, worker in calls} == {"gw0", "gw1"}
