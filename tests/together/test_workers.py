"""Runs with xdist: several processes, one run. The rules are in `docs/concurrency.md`."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.together.driver import only_stop
from tests.together.workbench import Bench

pytestmark = pytest.mark.long(60)

full = pytest.mark.full

MIXED = """
    import os
    import pytest

    @pytest.mark.parametrize("n", range(6))
    def test_good(n): assert os.environ["PYTEST_XDIST_WORKER"] in ("gw0", "gw1")
    def test_bad(): raise LookupError("bad")
    @pytest.mark.skip
    def test_skipped(): pass
    @pytest.mark.xfail
    def test_known(): assert 0
    @pytest.fixture
    def broken(): raise OSError("broken")
    def test_broken(broken): pass
"""


@pytest.mark.full
def test_the_outcomes_of_all_workers_are_those_of_the_run(bench: Bench) -> None:
    """`workers`; results tell which worker ran the test."""
    reply = bench.test(MIXED, workers=2, pause_on="never")
    assert (reply["state"], reply.get("exit_code")) == ("finished", 1), reply
    assert reply["outcomes"] == {
        "passed": 6, "failed": 1, "skipped": 1, "xfailed": 1, "error": 1,
    }  # fmt: skip
    assert {each["nodeid"] for each in reply["failures"]} == {
        "test_it.py::test_bad",
        "test_it.py::test_broken",
    }
    tests = bench.results()
    assert {test["worker"] for test in tests.values()} == {"gw0", "gw1"}
    assert tests["test_bad"]["exception"] == {"type": "LookupError", "message": "bad"}
    state = bench.agent.call("debug_state")
    assert (state["running"], state["paused"]) == ([], [])


TOGETHER = """
    import pathlib
    import pytest

    @pytest.mark.parametrize("n", [1, 2])
    def test_both(n):
        pathlib.Path(f"here-{n}").touch()
        while not pathlib.Path(f"here-{3 - n}").exists():
            pass
        seen = n * 10
        assert seen == 0
"""
"""Two tests that need each other, so that both run at the same time."""


@full
def test_two_workers_pause_at_once_and_go_on_one_by_one(bench: Bench) -> None:
    """A pause's id tells its worker; `paused` as soon as one is."""
    reply = bench.test(TOGETHER, workers=2)
    assert reply["state"] == "paused"
    first, second = bench.until_paused(2)
    assert [first["pause_id"].split(".")[1], first["worker"]] == ["gw0", "gw0"]
    assert [second["pause_id"].split(".")[1], second["worker"]] == ["gw1", "gw1"]
    seen = {bench.eval(stop, "(n, seen)") for stop in (first, second)}
    assert seen == {"(1, 10)", "(2, 20)"}
    running = bench.agent.call("debug_state")["running"]
    assert {test["worker"] for test in running} == {"gw0", "gw1"}
    bench.agent.call("breakpoint_continue", pause_id=first["pause_id"])
    assert bench.agent.call("debug_state")["state"] == "paused"
    reply = bench.go_on(second)
    assert (reply["state"], reply["exit_code"]) == ("finished", 1)
    assert reply["outcomes"] == {"passed": 0, "failed": 2}


@full
def test_a_function_breakpoint_is_set_in_every_worker(bench: Bench) -> None:
    """Breakpoints reach every process; a change during a pause as well."""
    bench.write(helper="def help(n): return n\n")
    bench.breakpoint("helper.help")
    text = TOGETHER.replace("import pathlib", "import pathlib, helper").replace(
        "seen = n * 10", "seen = helper.help(n)"
    )
    bench.test(text, workers=2)
    first, second = bench.until_paused(2)
    for stop in (first, second):
        assert stop["call_data"]["qualified_name"] == "helper.help"
    reply = bench.go_on(first, action="skip", fake_result=0)
    assert (reply["state"], reply["stops"]) == ("paused", [])
    reply = bench.go_on(second, action="skip", fake_result=0)
    assert (reply["state"], reply["exit_code"]) == ("finished", 0)
    assert reply["outcomes"] == {"passed": 2, "failed": 0}


@full
def test_unknown_node_ids_are_reported_and_the_others_are_spread(bench: Bench) -> None:
    bench.write(test_it=MIXED)
    reply = bench.run(["test_it.py::test_good", "test_it.py::test_nowhere", "no.py"], workers=2)
    assert reply["missing"] == ["test_it.py::test_nowhere", "no.py"]
    assert (reply["outcomes"], reply["exit_code"]) == ({"passed": 6, "failed": 0}, 0)


@full
def test_a_worker_that_crashes_is_reported_and_the_run_goes_on(bench: Bench) -> None:
    """Xdist reports the crash as a failed test and starts another."""
    reply = bench.test(
        """
        import os
        import pytest
        @pytest.mark.parametrize("n", range(4))
        def test_good(n): pass
        def test_crash(): os._exit(3)
        @pytest.mark.parametrize("n", range(4))
        def test_fine(n): pass
        """,
        workers=2,
    )
    assert (reply["state"], reply["exit_code"]) == ("finished", 1)
    assert reply["outcomes"]["failed"] == 1
    (failure,) = reply["failures"]
    assert failure["nodeid"] == "test_it.py::test_crash"
    assert "crashed" in failure["exception"]["message"]
    assert any("gw" in warning for warning in reply["warnings"])


@full
def test_a_run_with_workers_is_stopped_with_everything_it_paused(bench: Bench) -> None:
    bench.test(TOGETHER, workers=2)
    stops = bench.until_paused(2)
    ended = bench.agent.call("test_stop")
    assert ended["status"] == "stopped"
    assert sorted(ended["released"]) == [stop["pause_id"] for stop in stops]
    assert ended["end"]["kind"] in ("interrupted", "finished")


@full
def test_stopping_after_the_first_failure_waits_for_paused_workers(bench: Bench) -> None:
    """A paused worker is safe with `--maxfail`."""
    reply = bench.test(MIXED, workers=2, maxfail=1)
    while reply["state"] == "paused":
        reply = bench.go_on(bench.until_paused(1)[0])
    assert (reply["state"], reply["exit_code"]) in [("finished", 1), ("finished", 2)]


@full
def test_without_xdist_workers_are_refused(bench: Bench) -> None:
    """`xdist_missing`; the tests' interpreter decides, not ours."""
    bench.write(**{"xdist.py": "raise ImportError('as if it were not installed')\n"})
    refused = bench.agent.refused("test_run", workers=2)
    assert refused["error"] == "xdist_missing"
    assert "pip install" in refused["message"]


@full
def test_a_project_that_always_uses_workers_can_be_debugged(bench: Bench) -> None:
    """Options of the ini file count like those of the command line."""
    bench.write(**{"pytest.ini": "[pytest]\naddopts = -n 2\n"})
    stop = only_stop(bench.test("def test_bad():\n    here = 7\n    assert 0\n"))
    assert stop["worker"] in ("gw0", "gw1")
    assert bench.eval(stop, "here") == "7"
    reply = bench.go_on(stop)
    assert (reply["exit_code"], reply["outcomes"]) == (1, {"passed": 0, "failed": 1})
    assert bench.agent.call("test_list")["tests"] == ["test_it.py::test_bad"]
    bench.write(**{"pytest.ini": ""})


def go_through(bench: Bench) -> list[dict[str, Any]]:
    """Let every pause go on until the run is over; all that there were."""
    seen: dict[str, dict[str, Any]] = {}
    while bench.agent.call("debug_state")["state"] != "finished":
        for pause in bench.agent.call("breakpoint_list_paused", max_chars=100_000)["paused"]:
            seen[pause["id"]] = pause
            bench.agent.call("breakpoint_continue", pause_id=pause["id"])
    return list(seen.values())


SHOP = """
    def begin():
        return 1
    def total(n):
        twice = 2 * n
        return twice
    """
LINE = 5
"""Of `total`: where its result is known."""


@full
@pytest.mark.sample("2")
@pytest.mark.parametrize("workers", [2, 4])
def test_breakpoints_are_set_in_every_worker_before_it_collects(bench: Bench, workers: int) -> None:
    """Also in one that takes the place of another, which comes last."""
    bench.write(shop=SHOP)
    bench.breakpoint("shop.begin")
    bench.write(
        test_it="""
        import os
        import pytest
        import shop

        shop.begin()
        @pytest.mark.parametrize("n", range(10))
        def test_good(n): pass
        def test_crash(): os._exit(3)
        """
    )
    bench.run(workers=workers, wait=False)
    pauses = go_through(bench)
    expected = {f"gw{number}" for number in range(workers + 1)}
    assert Counter(pause["worker"] for pause in pauses) == dict.fromkeys(expected, 1)
    assert {pause["nodeid"] for pause in pauses} == {None}
    assert {pause["id"] for pause in pauses} == {f"r{run(bench)}.{each}.1" for each in expected}
    assert bench.agent.call("debug_state")["outcomes"] == {"passed": 10, "failed": 1}


def run(bench: Bench) -> str:
    """The number of the newest run."""
    id: str = bench.agent.call("debug_state")["run_id"]
    return id.removeprefix("r")


@full
@pytest.mark.sample("4")
@pytest.mark.parametrize("workers", [2, 4])
def test_others_go_on_while_one_is_paused(bench: Bench, workers: int) -> None:
    """All tests that the paused worker has not got."""
    bench.write(
        test_it="""
        import pytest
        @pytest.mark.parametrize("n", range(40))
        def test_it(n): assert n
        """
    )
    bench.run(workers=workers, args=["--dist=worksteal"], wait=False)
    (stop,) = bench.until_paused(1)
    assert stop["nodeid"] == "test_it.py::test_it[0]"
    wait_for = 40 - 1
    while (state := bench.agent.call("debug_state"))["outcomes"].get("passed", 0) < wait_for - 1:
        assert state["paused"] == [stop["pause_id"]]
    # xdist leaves the paused worker the test that it would run next.
    (running,) = [each for each in state["running"] if each["worker"] == stop["worker"]]
    assert running["nodeid"] == stop["nodeid"]
    go_through(bench)
    assert bench.agent.call("debug_state")["outcomes"] == {"passed": 39, "failed": 1}


@full
@pytest.mark.sample("2")
@pytest.mark.parametrize("workers", [2, 4])
def test_counts_are_sums_thresholds_are_of_each_process_and_messages_of_the_run(
    bench: Bench, workers: int
) -> None:
    """Records and events of all workers are in one list, by time."""
    bench.write(shop=SHOP)
    at = {"file": "shop.py", "line": LINE}
    third = bench.agent.call("breakpoint_set", **at, hit_count=3)["id"]
    every, most = (
        bench.agent.call("tracepoint_set", **at, log_message="{twice}", **more)["tracepoint"]["id"]
        for more in ({"hit_count_multiple": 2}, {"max_notifications": 5})
    )
    bench.breakpoint("shop.total", behavior="go")
    bench.write(
        test_it="""
        import pytest
        import shop
        @pytest.mark.parametrize("n", range(20))
        def test_it(n): assert shop.total(n) == 2 * n
        """
    )
    bench.run(workers=workers, wait=False)
    pauses = go_through(bench)
    tests = Counter(test["worker"] for test in bench.results().values())
    assert len(tests) == workers
    assert Counter(pause["worker"] for pause in pauses) == +Counter(
        {worker: count - 2 for worker, count in tests.items()}
    )
    assert {bench.listed(id)["hit_count"] for id in (third, every)} == {20}
    events = bench.events(limit=500)
    reported = [event for event in events if event["type"] == "hit"]
    assert sum(hit["breakpoint_id"] == most for hit in reported) == 5
    assert bench.listed(most)["notificationsSent"] == 5
    for worker, count in tests.items():
        counts = [
            hit["hit_count"]
            for hit in reported
            if (hit["breakpoint_id"], hit["worker"]) == (every, worker)
        ]
        assert counts == list(range(2, count + 1, 2))
        # Of one process the order is exact.
        own = [event["nodeid"] for event in events if event["worker"] == worker]
        assert [nodeid for nodeid, _ in _runs(own)] == [
            test["nodeid"]
            for test in bench.agent.call("test_results", max_chars=50_000)["tests"]
            if test["worker"] == worker
        ]
    everything = bench.agent.call("breakpoint_get_call_records", max_chars=100_000)["calls"]
    calls = [call for call in everything if call["run_id"] == f"r{run(bench)}"]
    assert len(calls) == 20
    assert Counter(call["worker"] for call in calls) == tests
    assert [call["started_at"] for call in calls] == sorted(call["started_at"] for call in calls)


def _runs(names: list[str | None]) -> list[tuple[str, int]]:
    """Each name with how often it follows itself; None is left out."""
    found: list[tuple[str, int]] = []
    for name in names:
        if name is None:
            continue
        if found and found[-1][0] == name:
            found[-1] = (name, found[-1][1] + 1)
        else:
            found.append((name, 1))
    return found


@full
def test_the_controller_arms_nothing(bench: Bench) -> None:
    """It runs no test; what its conftest calls is as without us."""
    bench.write(shop=SHOP)
    bench.breakpoint("shop.total")
    bench.agent.call("breakpoint_set", file="shop.py", line=LINE)
    bench.agent.call("breakpoint_set_exception", exception_type="LookupError")
    bench.write(
        conftest="""
        import json, pathlib, sys
        import shop

        def pytest_sessionfinish(session):
            if hasattr(session.config, "workerinput"):
                return
            try:
                {}[shop.total(1)]
            except KeyError:
                pass
            tools = range(6) if hasattr(sys, "monitoring") else ()
            pathlib.Path("seen.json").write_text(json.dumps({
                "tools": [name for id in tools if (name := sys.monitoring.get_tool(id))],
                "trace": repr(sys.gettrace()),
                "file": shop.total.__code__.co_filename,
            }))
        """,
        test_it="def test_it(): pass\n",
    )
    reply = bench.run(workers=2)
    assert (reply["state"], reply["exit_code"]) == ("finished", 0)
    seen = json.loads((bench.root / "seen.json").read_text("utf-8"))
    assert (seen["tools"], seen["trace"]) == ([], "None")
    assert seen["file"].endswith("shop.py")


SPREAD = """
    import pytest
    import shop

    @pytest.mark.parametrize("n", range(5))
    def test_good(n): assert shop.total(n) == 2 * n
    class TestMore:
        def test_more(self): shop.total(9)
        def test_bad(self): assert shop.total(8) == 0
    @pytest.mark.xdist_group("one")
    def test_of_a_group(): shop.total(7)
    """


@full
@pytest.mark.sample("load", "loadgroup", "each", "no")
@pytest.mark.parametrize(
    "dist", ["load", "loadscope", "loadfile", "loadgroup", "worksteal", "each", "no"]
)
def test_every_way_to_spread_the_tests(bench: Bench, dist: str) -> None:
    """Breakpoints stop, counts are sums, and each execution of a test has its result."""
    times = 2 if dist == "each" else 1
    bench.write(shop=SHOP, test_one=SPREAD, test_two=SPREAD)
    passed = bench.agent.call("tracepoint_set", file="shop.py", line=LINE, log_message="{n}")
    bench.agent.call("breakpoint_set", file="shop.py", line=LINE, condition="n == 9")
    bench.run(workers=2, args=[f"--dist={dist}"], wait=False)
    reasons = Counter(pause["pause_reason"] for pause in go_through(bench))
    assert reasons == {"breakpoint": 2 * times, "test_failure": 2 * times}
    state = bench.agent.call("debug_state")
    assert state["outcomes"] == {"passed": 14 * times, "failed": 2 * times}
    tests = bench.agent.call("test_results", max_chars=50_000)["tests"]
    assert Counter(test["outcome"] for test in tests) == state["outcomes"]
    assert {test["worker"] for test in tests} == {"gw0", "gw1"}
    assert len({(test["nodeid"], test["worker"]) for test in tests}) == 16 * times
    assert bench.listed(passed["tracepoint"]["id"])["hit_count"] == 16 * times
    page = bench.agent.call("test_results", limit=10)
    rest = bench.agent.call("test_results", limit=50, after=page["next_after"], max_chars=50_000)
    assert len(page["tests"]) + len(rest["tests"]) == 16 * times


@full
@pytest.mark.sample("args1", "args2")
@pytest.mark.parametrize("args", [["-x"], ["--maxfail=3"], ["-x", "--max-worker-restart=0"]])
def test_a_run_that_stops_early_stops_with_paused_workers(bench: Bench, args: list[str]) -> None:
    """What was paused goes on first; the tests that never ran have no result."""
    bench.write(
        test_it="""
        import pytest
        @pytest.mark.parametrize("n", range(30))
        def test_bad(n): assert 0
        """
    )
    bench.run(workers=2, args=args, wait=False)
    pauses = go_through(bench)
    failed = bench.agent.call("debug_state")["outcomes"]["failed"]
    assert len(pauses) == failed < 30
    results = bench.agent.call("test_results")
    assert results["total_count"] == failed
    (end,) = [event["end"] for event in bench.events("run_finished")]
    assert end["kind"] == "interrupted"
    assert "stopping after" in end["message"]


@full
def test_a_worker_that_may_not_be_replaced_ends_the_run(bench: Bench) -> None:
    """`--max-worker-restart=0`: its test has failed, and what it had told counts."""
    bench.write(
        test_it="""
        import os
        import pytest
        @pytest.mark.parametrize("n", range(6))
        def test_good(n): pass
        def test_crash(): os._exit(3)
        """
    )
    reply = bench.run(workers=1, args=["--max-worker-restart=0"])
    assert (reply["state"], reply["exit_code"]) == ("finished", 1)
    assert reply["outcomes"] == {"passed": 6, "failed": 1}
    assert [failure["phase"] for failure in reply["failures"]] == ["???"]


@full
@pytest.mark.sample("None", "0", "3")
@pytest.mark.parametrize("workers", [None, 0, 1, 3])
def test_the_number_of_workers_that_is_asked_for_beats_the_configured_one(
    bench: Bench, workers: int | None
) -> None:
    """`workers` in `test_run` overrides the configured number; 0 runs in one process."""
    bench.write(**{"pytest.ini": "[pytest]\naddopts = -n 2\n"})
    asked = {} if workers is None else {"workers": workers}
    bench.test(
        """
        import os
        def test_it(): assert os.environ.get("PYTEST_XDIST_WORKER_COUNT") == "configured"
        """,
        pause_on="never",
        **asked,
    )
    (failed,) = bench.results().values()
    count = {None: "'2'", 0: "None", 1: "'1'", 3: "'3'"}[workers]
    assert failed["exception"]["message"].startswith(f"assert {count} == 'configured'")
    assert failed["worker"] in ({"main"} if workers == 0 else {"gw0", "gw1", "gw2"})
    bench.write(**{"pytest.ini": ""})
