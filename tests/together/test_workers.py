"""Runs with xdist: several processes, one run."""

from __future__ import annotations

import pytest

from tests.together.driver import only_stop
from tests.together.workbench import Bench

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


def test_the_outcomes_of_all_workers_are_those_of_the_run(bench: Bench) -> None:
    """Contract, section 5: `workers`; results tell which worker ran the test."""
    reply = bench.test(MIXED, workers=2, pause_on="never")
    assert (reply["state"], reply["exit_code"]) == ("finished", 1)
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
    """Contract, rule 4: a pause's id tells its worker; section 4: `paused` as soon as one is."""
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
    """Contract, section 2: breakpoints reach every process; a change during a pause as well."""
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
def test_unknown_node_ids_are_told_and_the_others_are_spread(bench: Bench) -> None:
    """Contract, section 5: `missing`."""
    bench.write(test_it=MIXED)
    reply = bench.run(["test_it.py::test_good", "test_it.py::test_nowhere", "no.py"], workers=2)
    assert reply["missing"] == ["test_it.py::test_nowhere", "no.py"]
    assert (reply["outcomes"], reply["exit_code"]) == ({"passed": 6, "failed": 0}, 0)


@full
def test_a_worker_that_crashes_is_told_and_the_run_goes_on(bench: Bench) -> None:
    """pytest facts, section 8: xdist reports the crash as a failed test and starts another."""
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
    """Contract, section 5: `test_stop`, `released`."""
    bench.test(TOGETHER, workers=2)
    stops = bench.until_paused(2)
    ended = bench.agent.call("test_stop")
    assert ended["status"] == "stopped"
    assert sorted(ended["released"]) == [stop["pause_id"] for stop in stops]
    assert ended["end"]["kind"] in ("interrupted", "finished")


@full
def test_stopping_after_the_first_failure_waits_for_paused_workers(bench: Bench) -> None:
    """pytest facts, section 2: a paused worker is safe with `--maxfail`."""
    reply = bench.test(MIXED, workers=2, maxfail=1)
    while reply["state"] == "paused":
        reply = bench.go_on(bench.until_paused(1)[0])
    assert (reply["state"], reply["exit_code"]) in [("finished", 1), ("finished", 2)]


@full
def test_without_xdist_workers_are_refused(bench: Bench) -> None:
    """Contract, rule 11: `xdist_missing`; the tests' interpreter decides, not ours."""
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
