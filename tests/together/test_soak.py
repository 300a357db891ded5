"""Long stress of the whole: many runs, stops and evaluations in one front end (`--soak`)."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from benchmarks.scale import front_end, watch
from benchmarks.scale_workers import Plan
from tests.together.conftest import MakeProject
from tests.together.driver import connected, only_stop, server
from tests.together.timelines import timeline

pytestmark = pytest.mark.soak

ROUNDS = 200

PROCESSES = 16
HITS_PER_S = round(5_000 * min(1.0, (os.cpu_count() or 1) / 8))
"""Of each process, scaled to the cores at hand: the front end shares them with all of these."""
HITS = 50
"""That a process tells at once."""
SECONDS = 60
STOPS = 10

SHOP = "def price(amount):\n    return amount * 3\n"
TESTS = """
    import threading
    from shop import price

    def test_price():
        assert price(2) == 6

    def test_prices_in_threads():
        threads = [threading.Thread(target=price, args=(n,)) for n in range(20)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()

    def test_wrong():
        assert price(1) == 4
"""


def test_hundreds_of_runs_each_stop_and_go_on_as_the_first(make_project: MakeProject) -> None:
    """No lost event, no lost command, no drift: every round gives the same verdict."""
    project = make_project(shop=SHOP, test_shop=TESTS)
    choices = random.Random(8)
    with connected(server(project)) as agent:
        agent.call("breakpoint_add", function_name="shop.price", condition="amount == 2")
        for _ in range(ROUNDS):
            stop = only_stop(agent.call("test_run", nodeids=["test_shop.py::test_price"]))
            assert stop["call_data"]["pretty_args"] == ["2"]
            if choices.random() < 0.5:
                looked = agent.call(
                    "breakpoint_repl_eval", pause_id=stop["pause_id"], expression="amount + 1"
                )
                assert looked["output"] == "3"
            reply = agent.call("breakpoint_continue", pause_id=stop["pause_id"], wait=True)
            assert (reply["exit_code"], reply["outcomes"]["passed"]) == (0, 1)


def test_a_long_run_of_stops_loses_none(make_project: MakeProject) -> None:
    """Each call stops once; each pause is told once and resumed once."""
    project = make_project(
        test_many=f"""
        def step(number):
            return number

        def test_many():
            assert sum(step(n) for n in range({ROUNDS * 5})) == {sum(range(ROUNDS * 5))}
        """
    )
    with connected(server(project)) as agent:
        agent.call("breakpoint_add", function_name="test_many.step")
        reply = agent.call("test_run")
        for number in range(ROUNDS * 5):
            stop = only_stop(reply)
            assert stop["call_data"]["pretty_args"] == [str(number)]
            reply = agent.call("breakpoint_continue", pause_id=stop["pause_id"], wait=True)
        assert (reply["state"], reply["exit_code"]) == ("finished", 0)


@pytest.mark.timeout(900)
def test_sixteen_processes_report_thousands_of_hits_a_second() -> None:
    """For a minute no stop is lost, each hit is in memory or the file, and memory is bounded.

    How long tools take meanwhile is printed by `benchmarks.scale`.
    """
    tests_per_s = PROCESSES * HITS_PER_S // HITS
    each = tests_per_s * SECONDS // PROCESSES
    plan = Plan(
        workers=PROCESSES,
        tests=PROCESSES * each,
        hits=HITS,
        pauses=PROCESSES,
        stops=STOPS,
        per_s=tests_per_s,
    )
    with front_end(plan) as client:
        load = watch(client)
        hits: Counter[str] = Counter()
        stops: Counter[str] = Counter()
        for event in timeline(client.call, limit=2_000, max_chars=200_000):
            worker = event["worker"]
            if event["type"] == "hit":
                hits[worker] += 1
                assert event["hit_count"] == hits[worker]
            elif event["type"] == "stop":
                assert hits[worker] == stops[worker] * each // STOPS * HITS, "it came in its turn"
                stops[worker] += 1
    workers = [f"gw{number}" for number in range(PROCESSES)]
    assert stops == dict.fromkeys(workers, STOPS)
    assert hits == dict.fromkeys(workers, each * HITS)
    assert load.state["counts"]["dropped"] == 0
    assert sum(load.state["outcomes"].values()) == PROCESSES * each
    assert load.most - load.connected < 200, "megabytes"
