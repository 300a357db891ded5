"""`test_stop` and `debug_state`: where a run stands, and how it is ended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.together.driver import run_of
from tests.together.workbench import Bench, workbench

BUSY = """
    import os, pathlib

    def test_before(): pass

    def test_busy():
        pathlib.Path("busy").write_text(str(os.getpid()))
        while True:
            pass

    def test_after(): pass
"""

SWALLOWS = """
    import os, pathlib

    def test_swallows():
        pathlib.Path("busy").write_text(str(os.getpid()))
        while True:
            try:
                while True:
                    pass
            except BaseException:
                pass
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def start_busy(bench: Bench, text: str = BUSY) -> int:
    """Run a test that never ends; the process that is in it."""
    bench.test(text, wait=False)
    path = bench.root / "busy"
    while not (path.exists() and (pid := path.read_text(encoding="utf-8"))):
        assert bench.agent.call("debug_state")["state"] not in ("finished", "crashed")
    return int(pid)


@pytest.mark.full
def test_a_run_in_a_busy_loop_is_interrupted_in_order(bench: Bench) -> None:
    """The stop ladder; Ctrl-C gives exit code 2."""
    pid = start_busy(bench)
    ended = bench.agent.call("test_stop")
    assert (ended["status"], ended["released"]) == ("stopped", [])
    assert ended["end"]["kind"] == "interrupted"
    assert "KeyboardInterrupt" in ended["end"]["message"]
    assert ended["end"]["lastTest"] == "test_it.py::test_busy"
    assert not is_alive(pid)
    state = bench.agent.call("debug_state")
    assert (state["state"], state["outcomes"]) == ("finished", {"passed": 1})
    assert (state["running"], state["paused"]) == ([], [])


@pytest.mark.full
def test_a_killed_run_reports_what_it_was_doing(bench: Bench) -> None:
    """`mode` `kill`; a client's kill is no crash."""
    pid = start_busy(bench)
    ended = bench.agent.call("test_stop", mode="kill")
    assert ended["status"] == "stopped"
    assert ended["end"]["kind"] == "interrupted"
    assert ended["end"]["lastTest"] == "test_it.py::test_busy"
    assert not is_alive(pid)
    assert bench.agent.call("debug_state")["running"] == []


@pytest.mark.full
def test_a_test_that_swallows_the_interrupt_is_ended_all_the_same(bench: Bench) -> None:
    """After 2 s SIGTERM, then SIGKILL."""
    pid = start_busy(bench, SWALLOWS)
    ended = bench.agent.call("test_stop")
    assert (ended["status"], ended["end"]["kind"]) == ("stopped", "interrupted")
    assert ended["end"]["lastTest"] == "test_it.py::test_swallows"
    assert not is_alive(pid)


@pytest.mark.full
@pytest.mark.parametrize("mode", ["kill", pytest.param("interrupt", marks=pytest.mark.full)])
def test_stopping_releases_what_is_paused(bench: Bench, mode: str) -> None:
    stop = bench.stop_of("def test_bad(): assert 0\ndef test_worse(): assert 0\n")
    ended = bench.agent.call("test_stop", run_id=run_of(stop), mode=mode)
    assert (ended["status"], ended["released"]) == ("stopped", [stop["pause_id"]])
    assert bench.agent.call("breakpoint_list_paused")["paused"] == []
    gone = bench.agent.refused("breakpoint_repl_eval", pause_id=stop["pause_id"], expression="1")
    assert (gone["error"], gone["reason"]) == ("pause_not_found", "already_resumed")


@pytest.mark.full
def test_stopping_a_run_that_ended_changes_nothing(bench: Bench) -> None:
    """Idempotent: `end` is that of the run."""
    run_id = bench.test("def test_it(): pass")["run_id"]
    for mode in ("interrupt", "kill"):
        ended = bench.agent.call("test_stop", run_id=run_id, mode=mode)
        assert ended["status"] == "already_ended"
        assert (ended["released"], ended["end"]) == ([], {"kind": "finished"})


@pytest.mark.full
def test_the_state_reports_where_a_run_is_paused_and_what_came_of_it(bench: Bench) -> None:
    stop = bench.stop_of("def test_good(): pass\ndef test_bad(): assert 0\n")
    state = bench.agent.call("debug_state")
    assert state["rootdir"] == str(bench.root)
    assert (state["state"], state["run_id"]) == ("paused", run_of(stop))
    assert state["paused"] == [stop["pause_id"]]
    (running,) = state["running"]
    assert (running["nodeid"], running["phase"]) == ("test_it.py::test_bad", "call")
    assert running["worker"] == "main"
    assert running["seconds"] > 0
    assert state["outcomes"] == {"passed": 1, "failed": 1}
    assert state["engine"]["name"]
    assert any(stop["pause_id"] in step for step in state["next"])
    bench.go_on(stop)
    state = bench.agent.call("debug_state")
    assert (state["state"], state["running"], state["paused"]) == ("finished", [], [])


@pytest.mark.full
def test_before_the_first_run_everything_is_idle_and_says_how_to_begin(tmp_path: Path) -> None:
    """`no_run`; `idle`."""
    with workbench(tmp_path / "project") as bench:
        state = bench.agent.call("debug_state")
        assert (state["state"], state["outcomes"], state["paused"]) == ("idle", {}, [])
        assert "run_id" not in state
        assert "test_run" in state["next"][0]
        for tool in ("test_results", "test_stop"):
            assert bench.agent.refused(tool)["error"] == "no_run"
        unknown = bench.agent.refused("breakpoint_continue", pause_id="r1.main.1")
        assert (unknown["error"], unknown["reason"]) == ("pause_not_found", "unknown")
        assert bench.agent.call("breakpoint_list_paused")["paused"] == []
