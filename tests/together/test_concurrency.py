"""Many threads and many requests at once: each pause ends once, and each test gets its own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.together import ledger
from tests.together.driver import ToolError, only_stop
from tests.together.workbench import OVER, Bench

THREADS = 8

CROWD = """
    import json
    import pathlib
    import threading
    from concurrent.futures import ThreadPoolExecutor
    from shop import price

    def test_crowd():
        together = threading.Barrier({threads})

        def call(number):
            together.wait()
            return [price(number), price(number)]

        with ThreadPoolExecutor({threads}) as pool:
            got = list(pool.map(call, range({threads})))
        pathlib.Path("got.json").write_text(json.dumps(got))
"""


@pytest.mark.full
def test_each_of_many_threads_goes_on_with_its_own_arguments(bench: Bench) -> None:
    """Eight pauses at one breakpoint, twice; all are resumed at once."""
    bench.write(shop=ledger.SHOP)
    bench.breakpoint("price")
    bench.test(CROWD.format(threads=THREADS))
    ids: set[str] = set()
    for each in (100, 1000):
        paused = bench.until_paused(THREADS)
        assert len({pause["thread"]["id"] for pause in paused}) == THREADS
        assert ids.isdisjoint(pause["id"] for pause in paused)
        ids |= {pause["id"] for pause in paused}
        numbers = sorted(pause["call_data"]["pretty_args"][0] for pause in paused)
        assert numbers == [str(number) for number in range(THREADS)]
        asked = [
            bench.agent.start(
                "breakpoint_continue",
                pause_id=pause["id"],
                modified_args=[int(pause["call_data"]["pretty_args"][0]) + each, 1],
            )
            for pause in paused
        ]
        assert [call.result(20)["status"] for call in asked] == ["ok"] * THREADS
    assert bench.until("finished")["outcomes"] == {"passed": 1}
    assert ledger.received(bench) == [[100 + n, 1000 + n] for n in range(THREADS)]
    for id in ids:
        gone = bench.agent.refused("breakpoint_continue", pause_id=id)
        assert (gone["error"], gone["reason"]) == ("pause_not_found", "already_resumed")


ACTIONS: tuple[tuple[dict[str, Any], Any], ...] = (
    ({"action": "skip", "fake_result": 41}, 41),
    ({"action": "raise", "exception_type": "KeyError", "exception_message": "k"}, "KeyError: 'k'"),
    ({"modified_args": [7]}, 21),
    ({"replacement_function": "shop.cheap"}, 2),
    ({}, 6),
)
"""How one call `price(2)` goes on, and what the test receives then."""


@pytest.mark.full
@pytest.mark.parametrize(
    "pairs",
    [
        pytest.param(1, id="one call"),
        pytest.param(20, id="many calls", marks=pytest.mark.full),
    ],
)
def test_of_two_requests_for_one_pause_one_wins_and_the_test_sees_which(
    bench: Bench, pairs: int
) -> None:
    """Resolution is atomic; both requests are under way at the same time."""
    bench.breakpoint("price")
    reply = ledger.start(bench, *["price(2)"] * pairs)
    expected = []
    for number in range(pairs):
        stop = only_stop(reply)
        rivals = (ACTIONS[number % len(ACTIONS)], ACTIONS[(number + 1) % len(ACTIONS)])
        calls = [
            bench.agent.start("breakpoint_continue", pause_id=stop["pause_id"], wait=True, **how)
            for how, _ in rivals
        ]
        errors = [call.exception(20) for call in calls]
        ((winner, effect),) = (
            (call, effect)
            for call, error, (_, effect) in zip(calls, errors, rivals, strict=True)
            if error is None
        )
        (loser,) = (error.body for error in errors if isinstance(error, ToolError))
        assert (loser["error"], loser["reason"]) == ("pause_not_found", "already_resumed")
        reply = winner.result()
        expected.append(effect)
    assert reply["exit_code"] == 0
    assert ledger.received(bench) == expected


@pytest.mark.full
def test_an_evaluation_beside_a_request_to_go_on_counts_or_is_refused(bench: Bench) -> None:
    """Never half: what the test receives says the same as the reply, whoever comes first."""
    bench.breakpoint("price")
    reply = ledger.start(bench, *["price(2)"] * 20)
    expected = []
    for number in range(20):
        pause = {"pause_id": only_stop(reply)["pause_id"]}
        requests: list[tuple[str, dict[str, Any]]] = [
            ("breakpoint_repl_eval", {"expression": "amount = 7"}),
            ("breakpoint_continue", {"wait": True}),
        ]
        started = {
            tool: bench.agent.start(tool, **pause, **further)
            for tool, further in (requests if number % 2 else reversed(requests))
        }
        reply = started["breakpoint_continue"].result(20)
        error = started["breakpoint_repl_eval"].exception(20)
        if error is not None:
            assert isinstance(error, ToolError)
            assert error.body["error"] == "pause_not_found"
            assert error.body["reason"] == "already_resumed"
        expected.append(6 if error else 21)
    assert ledger.received(bench) == expected
    assert set(expected) == {6, 21}


CHURN = """
    import json
    import pathlib
    import threading
    import time

    def price(amount):
        time.sleep(0.002)  # most threads are in here
        return amount * 3

    def test_churn():
        wrong, counts = [], []

        def work(number):
            count = 0
            while not pathlib.Path("enough").exists() or count < 100:
                if (got := price(number)) not in (number * 3, number * 30):
                    wrong.append(got)
                count += 1
            counts.append(count)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 9)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        pathlib.Path("got.json").write_text(json.dumps([wrong, min(counts)]))
"""


@pytest.mark.full
def test_breakpoints_come_and_go_while_threads_are_inside_the_function(bench: Bench) -> None:
    """Every call gives its own result, altered or not; nothing stays parked, nothing is lost."""
    bench.test(CHURN, wait=False)
    bench.until("running")
    altered = 0
    for turn in range(40):
        goes = turn % 4 != 3
        bench.breakpoint("price", behavior="go" if goes else "stop")
        if not goes:
            bench.until_paused(1)
        bench.agent.call("breakpoint_remove", function_name="price")
        for pause in bench.agent.call("breakpoint_list_paused")["paused"]:
            bench.agent.call("breakpoint_continue", pause_id=pause["id"], **ledger.MARKS["before"])
            altered += 1
    assert altered >= 10
    (bench.root / "enough").touch()
    while (now := bench.agent.call("debug_state"))["state"] not in OVER:
        for id in now["paused"]:  # was on its way when the breakpoint was removed
            bench.agent.call("breakpoint_continue", pause_id=id)
    assert now["outcomes"] == {"passed": 1}
    wrong, fewest = ledger.received(bench)
    assert wrong == []
    assert fewest >= 100
