"""The event log of real runs, and waiting for stops of a run that goes on by itself.

The tools are `breakpoint_wait` and `timeline_get`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.together.driver import only_stop, run_of
from tests.together.timelines import timeline
from tests.together.workbench import Bench, workbench

STORY = """
    import pytest
    def helper(n): return n + 1
    def test_good(): assert helper(1) == 2
    def test_bad(): assert helper(1) == 3
    @pytest.mark.skip(reason="not now")
    def test_skipped(): pass
"""
FILE = "test_it.py"


def reported_by(bench: Bench, **options: Any) -> list[dict[str, Any]]:
    """All events, page by page."""
    return list(timeline(bench.agent.call, **options))


def types_of(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


@pytest.fixture
def reported(bench: Bench) -> tuple[Bench, str, list[dict[str, Any]]]:
    """A run that paused once and went on to its end: its id and its events."""
    reply = bench.test(STORY)
    end = bench.go_on(only_stop(reply))
    assert end["state"] == "finished"
    return bench, reply["run_id"], reported_by(bench, run_id=reply["run_id"])


@pytest.mark.full
def test_a_run_is_distinguished_from_start_to_end_in_order(
    reported: tuple[Bench, str, list[dict[str, Any]]],
) -> None:
    """Numbers rise; what happened later comes later; every event has the common keys."""
    _, run_id, events = reported
    seqs = [event["seq"] for event in events]
    assert seqs == sorted(set(seqs))
    keys = {"seq", "ts", "type", "run_id", "worker", "nodeid", "thread"}
    assert all(keys <= event.keys() and event["run_id"] == run_id for event in events)
    of_bad = [event["type"] for event in events if event["nodeid"] == f"{FILE}::test_bad"]
    assert of_bad == ["test_started", "failure", "stop", "test_outcome"]
    story = [
        each for each in types_of(events)
        if each in ("run_started", "worker_up", "collected", "stop", "resumed", "run_finished")
    ]  # fmt: skip
    assert story == ["run_started", "worker_up", "collected", "stop", "resumed", "run_finished"]
    (resumed,) = (event for event in events if event["type"] == "resumed")
    assert (resumed["by"], resumed["action"]) == ("client", "continue")
    stop = next(event for event in events if event["type"] == "stop")
    assert (stop["pause_id"], stop["worker"]) == (resumed["pause_id"], "main")
    assert isinstance(stop["thread"], int)
    stamps = [event["ts"] for event in events if event["worker"] == "main"]
    assert stamps == sorted(stamps)


@pytest.mark.full
def test_filters_and_pages(reported: tuple[Bench, str, list[dict[str, Any]]]) -> None:
    """`types`, `nodeid`, both; pages by `limit`, and by a reply that is too long."""
    bench, run_id, events = reported
    wanted = ["failure", "stop"]
    assert reported_by(bench, run_id=run_id, types=wanted) == [
        event for event in events if event["type"] in wanted
    ]
    good = reported_by(bench, run_id=run_id, nodeid=f"{FILE}::test_good")
    assert types_of(good) == ["test_started", "test_outcome"]
    both = reported_by(bench, run_id=run_id, nodeid=f"{FILE}::test_good", types=wanted)
    assert both == []
    assert reported_by(bench, run_id=run_id, limit=3) == events
    assert reported_by(bench, run_id=run_id, max_chars=700) == events
    cut = bench.agent.call("timeline_get", run_id=run_id, max_chars=700)
    assert cut["truncated"] is True
    assert cut["next_after"] == cut["events"][-1]["seq"]


def test_wrong_parameters_are_refused_by_name(bench: Bench) -> None:
    refused = bench.agent.refused("timeline_get", types=["stops"])
    assert (refused["error"], refused["parameter"]) == ("invalid_parameter", "types")
    assert "stop" in refused["message"]
    refused = bench.agent.refused("timeline_get", run_id="r999")
    assert refused["error"] in ("run_not_found", "no_run")


@pytest.mark.full
def test_a_call_ends_in_the_log_after_its_pause_did(bench: Bench) -> None:
    """Also one that is skipped or made to raise, and so ends at once."""
    bench.breakpoint("helper")
    stop = bench.stop_of(
        """
        def helper(n): return n
        def test_it():
            for n in range(8):
                try: helper(n)
                except ValueError: pass
        """
    )
    run_id, ways = run_of(stop), [{"action": "skip"}, {"action": "raise"}, {}, {"action": "skip"}]
    for number in range(8):
        way = ways[number % 4] | {"exception_type": "ValueError"}
        reply = bench.go_on(stop, **way)
        if number < 7:
            stop = only_stop(reply)
    events = reported_by(bench, run_id=run_id, types=["stop", "resumed", "call"])
    reported = [(each["type"], each.get("status")) for each in events]
    endings = ["success", "exception", "success", "success"] * 2
    assert [each for each in reported if each != ("call", "running")] == [
        event
        for status in endings
        for event in (("stop", None), ("resumed", None), ("call", status))
    ]


FEW_WAIT = """
    import gc, pytest_cideldill.link.row_log as log
    log.MAX_WAITING = 5
    for each in gc.get_objects():
        if type(each) is log.RowLog:
            each._limit = 5
"""


@pytest.mark.full
def test_calls_that_the_process_dropped_are_counted(tmp_path: Path) -> None:
    """Told or counted, every one; the stop behind them is there."""
    with workbench(tmp_path / "project", "--cideldill-record-calls=test_it.helper") as bench:
        # Far fewer rows than usual may wait, and nobody takes them away meanwhile.
        bench.write(conftest=FEW_WAIT)
        text = """
            import sys
            def helper(n): return n
            def test_many():
                sys.setswitchinterval(1)
                for n in range(3000):
                    helper(n)
                sys.setswitchinterval(0.005)
                assert False
        """
        bench.write(test_it=text)
        bench.agent.call("tracepoint_set", file="test_it.py", line=7, log_message="{n}")
        stop = bench.stop_of(text)
        reported = bench.agent.call("timeline_get", types=["stop"], run_id=run_of(stop))
        assert len(reported["events"]) == 1
        calls, hits = (reported_by(bench, types=[each]) for each in ("call", "hit"))
        assert reported["dropped"] == 6000 - len(calls) - len(hits) > 0
        records = bench.agent.call("breakpoint_get_call_records")
        assert (records["total_count"], records["dropped"]) == (3000, 3000 - len(calls))
        assert bench.agent.call("debug_state")["counts"]["dropped"] == reported["dropped"]
        hidden = {"dropped", "lost", "defined_in"}
        assert all(hidden.isdisjoint(event) for event in (*calls, *hits))


# --- waiting ------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["legacy", "2026-07-28"])
def any_bench(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """A bench per protocol: with a handshake and without."""
    root = tmp_path_factory.mktemp("mode") / "project"
    with workbench(root, mode=request.param) as bench:
        yield bench


@pytest.mark.full
def test_a_run_that_was_not_waited_for_reports_each_stop_once(any_bench: Bench) -> None:
    """`test_run` with `wait: false`, then `breakpoint_wait` until there is nothing more."""
    bench = any_bench
    bench.write(test_it=STORY)
    bench.breakpoint("helper")
    before = bench.agent.call("timeline_get", limit=10_000)["next_after"]
    started = bench.run([FILE], wait=False)
    assert started["state"] == "running"
    reasons = []
    while (reported := bench.agent.call("breakpoint_wait"))["hit"]:
        assert reported["seq"] > before
        before = reported["seq"]
        assert ("autopsy" in reported) == (reported["reason"] == "test_failure")
        reasons.append((reported["reason"], reported["nodeid"]))
        assert bench.agent.call("breakpoint_wait", timeout_ms=1)["reason"] == "paused"
        bench.agent.call("breakpoint_continue", pause_id=reported["pause_id"])
    assert (reported["reason"], reported["state"], reported["timeout"]) == (
        "finished",
        "finished",
        False,
    )
    assert reasons == [
        ("breakpoint", f"{FILE}::test_good"),
        ("breakpoint", f"{FILE}::test_bad"),
        ("test_failure", f"{FILE}::test_bad"),
    ]
    stops = reported_by(bench, run_id=started["run_id"], types=["stop"])
    assert len(stops) == 3
    bench.clear()


@pytest.mark.full
def test_a_stop_that_another_reply_reported_is_no_news(bench: Bench) -> None:
    """A stop counts as delivered by any reply that contains it."""
    stop = bench.stop_of(STORY)
    reported = bench.agent.call("breakpoint_wait")
    assert (reported["hit"], reported["reason"]) == (False, "paused")
    assert "pending" not in reported
    again = bench.agent.call("breakpoint_wait", after=stop["seq"] - 1)
    assert (again["pause_id"], again["seq"]) == (stop["pause_id"], stop["seq"])


@pytest.mark.full
def test_a_wait_that_times_out_says_what_goes_on(bench: Bench) -> None:
    """A normal reply."""
    bench.write(
        test_it="""
        import pathlib
        def test_busy():
            while not pathlib.Path("go").exists():
                pass
        """
    )
    bench.run([FILE], wait=False)
    bench.until("running")
    reported = bench.agent.call("breakpoint_wait", timeout_ms=30)
    assert (reported["hit"], reported["reason"], reported["timeout"]) == (False, "timeout", True)
    assert reported["state"] == "running"
    assert any("test_stop" in each for each in reported["next"])
    (bench.root / "go").touch()
    assert bench.agent.call("breakpoint_wait")["reason"] == "finished"
