"""What dies under xdist, at the worst moment: a worker, the controller, a connection.

Then the others go on, outcomes are true, nothing stays.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.together.frontend import wait_until
from tests.together.workbench import Bench, workbench

pytestmark = [
    pytest.mark.full,
    pytest.mark.long(25),
    pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks into /proc"),
]

SUITE = """
    import os, pathlib, time
    import pytest

    def hot():
        while True:
            number = os.getpid()
            time.sleep(0)

    @pytest.mark.parametrize("n", range(60))
    def test_before(n): assert n != 7

    def test_fatal():
        pathlib.Path("pid").write_text(str(os.getpid()))
        {fatal}

    @pytest.mark.parametrize("n", range(60))
    def test_after(n): assert n != 7
    """
HOT = 7
"""The line that `hot` passes over and over."""

DEATHS = {
    "running": "while True: time.sleep(0.01)",
    "paused": "assert 0",
    "sending": "hot()",
    "of its own accord": "os._exit(3)",
}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def fatal_pid(bench: Bench) -> int:
    """The process that has reached `test_fatal`."""
    file = bench.root / "pid"
    wait_until(lambda: file.exists() and bool(file.read_text("utf-8")), "test_fatal runs")
    return int(file.read_text("utf-8"))


def to_the_end(bench: Bench) -> dict[str, Any]:
    """Let everything go on; the state when it is over."""
    while (state := bench.agent.call("debug_state"))["state"] not in ("finished", "crashed"):
        bench.agent.call("debug_continue")
    return state


@pytest.mark.sample("*-2")
@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("when", DEATHS)
def test_a_worker_dies(bench: Bench, when: str, workers: int) -> None:
    """Its test has failed by that, xdist's replacement carries on, and no result is lost.

    At the pause the failure of the test had been reported: pytest counts that and the crash.
    """
    stop: dict[str, Any] = {}
    pause_on = "failure" if when == "paused" else "never"
    tracepoint = {"file": "test_it.py", "line": HOT, "log_message": "{number}"}
    bench.write(test_it=SUITE.format(fatal=DEATHS[when]))
    bench.run(workers=workers, pause_on=pause_on, tracepoints=[tracepoint], wait=False)
    if when != "of its own accord":
        pid = fatal_pid(bench)
        if when == "paused":
            stop = paused_in(bench, "test_it.py::test_fatal")
        elif when == "sending":
            wait_until(lambda: len(bench.events("hit", limit=20)) > 10, "it is sending")
        os.kill(pid, signal.SIGKILL)
    state = to_the_end(bench)
    assert state["state"] == "finished"
    assert state["outcomes"] == {"passed": 118, "failed": 3 + (when == "paused")}
    assert any("Not properly terminated" in warning for warning in state["warnings"])
    results = bench.results(limit=200, max_chars=200_000)
    assert len(results) == 121
    crashed = results["test_fatal"]
    assert (crashed["outcome"], crashed["phase"]) == ("failed", "call" if stop else "???")
    assert stop or f"worker {crashed['worker']!r} crashed" in crashed["longrepr"]
    assert len(workers_of(bench)) == workers + 1
    if stop:
        assert any(stop["pause_id"] in warning for warning in state["warnings"])
        refused = bench.agent.refused("breakpoint_continue", pause_id=stop["pause_id"])
        assert refused["error"] == "pause_not_found"
        assert f"the process {stop['worker']} ended" in refused["message"]
        events = bench.events("resumed")
        (closed,) = [event for event in events if event["pause_id"] == stop["pause_id"]]
        assert (closed["by"], closed["reason"]) == ("disconnect", "process_gone")


def paused_in(bench: Bench, nodeid: str) -> dict[str, Any]:
    """Its pause, as soon as there is one; other failures go on."""
    while True:
        for pause in bench.agent.call("breakpoint_list_paused")["paused"]:
            if pause["nodeid"] == nodeid:
                return pause  # type: ignore[no-any-return]
            bench.agent.call("debug_continue", pause_id=pause["id"])


def workers_of(bench: Bench) -> set[str]:
    """Those that connected in the newest run."""
    return {event["worker"] for event in bench.events("worker_up")} - {"main"}


@pytest.mark.parametrize("when", ["running", "paused"])
def test_the_controller_dies(bench: Bench, when: str) -> None:
    """The run has crashed; its workers are gone with it, paused ones too."""
    bench.write(test_it=SUITE.format(fatal=DEATHS[when]))
    bench.run(["test_it.py::test_fatal", "test_it.py::test_after"], workers=2, wait=False)
    pid = fatal_pid(bench)
    if when == "paused":
        paused_in(bench, "test_it.py::test_fatal")
    (controller,) = [
        int(each)
        for each in Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[1:2]
    ]
    os.kill(controller, signal.SIGKILL)
    wait_until(lambda: not alive(pid), "its workers are gone")
    state = bench.until("crashed")
    assert (state["paused"], state["running"]) == ([], [])
    (end,) = [event["end"] for event in bench.events("run_finished")]
    assert (end["kind"], end["signal"]) == ("crashed", "SIGKILL")
    assert bench.run(["test_it.py::test_after[1]"], workers=2)["exit_code"] == 0


CUTTING = """
    import os, socket, sys
    import pytest

    def refuse(event, args):
        if event == "socket.connect":
            raise ConnectionRefusedError

    def cut():
        sys.addaudithook(refuse)  # else we connect again
        for name in os.listdir("/proc/self/fd"):
            try:
                if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                    socket.socket(fileno=os.dup(int(name))).shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    @pytest.mark.parametrize("n", range(20))
    def test_before(n): assert n != 7
    def test_cut(): cut()
    @pytest.mark.parametrize("n", range(20))
    def test_after(n): assert n != 7
    @pytest.mark.skip
    def test_skipped(): pass
    @pytest.mark.xfail
    def test_known(): assert 0
    """


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_loses_its_connection(bench: Bench, workers: int) -> None:
    """It goes on with its tests, and xdist's controller tells what it can't: nothing is lost."""
    reply = bench.test(CUTTING, workers=workers, pause_on="never")
    assert (reply["state"], reply["exit_code"]) == ("finished", 1)
    assert reply["outcomes"] == {"passed": 39, "failed": 2, "skipped": 1, "xfailed": 1}
    assert any("lost" in warning for warning in reply["warnings"])
    results = bench.results(limit=100, max_chars=100_000)
    assert len(results) == 43
    assert {test["worker"] for test in results.values()} <= {"gw0", "gw1"}
    failed = bench.results(outcome="failed")
    assert sorted(failed) == ["test_after[7]", "test_before[7]"]
    assert all("assert 7 != 7" in test["longrepr"] for test in failed.values())


@pytest.mark.sample("2")
@pytest.mark.parametrize("workers", [2, 4])
def test_a_paused_worker_loses_its_connection(bench: Bench, workers: int) -> None:
    """Nobody could let it go on any more: it does by itself, and what it told counts once."""
    bench.write(test_it=f"{CUTTING}\n    def test_paused(): assert 0\n")
    bench.run(args=["-k", "before or paused"], workers=workers, wait=False)
    pause = paused_in(bench, "test_it.py::test_paused")
    # Beside another pause it would live on, and be waited for: it might connect again.
    while not bench.events("resumed"):
        for each in bench.agent.call("breakpoint_list_paused")["paused"]:
            if each["id"] != pause["id"]:
                bench.agent.call("debug_continue", pause_id=each["id"])
    bench.agent.refused("breakpoint_repl_eval", pause_id=pause["id"], expression="cut()")
    state = to_the_end(bench)
    assert state["state"] == "finished"
    assert state["outcomes"] == {"passed": 19, "failed": 2}
    assert any(pause["id"] in warning for warning in state["warnings"])
    assert len(bench.results(limit=100)) == 21
    refused = bench.agent.refused("breakpoint_continue", pause_id=pause["id"])
    assert f"the process {pause['worker']} ended, or lost its connection" in refused["message"]


ALONE = "popen//env:PYTEST_DISABLE_PLUGIN_AUTOLOAD=1//env:PYTEST_PLUGINS=xdist.plugin"
"""A worker in which our plugin is not loaded."""


def test_a_worker_never_connects(bench: Bench) -> None:
    """It is named once; its tests run undebugged and are told."""
    bench.write(test_it=CUTTING)
    args = ["--dist=load", f"--tx={ALONE}", "--tx=popen", "-k", "not cut"]
    reply = bench.run(args=args, pause_on="never")
    assert (reply["state"], reply["exit_code"]) == ("finished", 1)
    assert reply["outcomes"] == {"passed": 38, "failed": 2, "skipped": 1, "xfailed": 1}
    (warning,) = reply["warnings"]
    assert warning.startswith("xdist worker gw0: not connected")
    assert len(bench.results(limit=100)) == 42


@pytest.mark.soak
@pytest.mark.parametrize(
    "args",
    [[], ["-x"]],
    ids=["to the end", "to the first failure"],
)
def test_far_too_many_hits_hold_up_no_worker(tmp_path: Path, args: list[str]) -> None:
    """Those that outcomes would wait for too long are dropped and counted; xdist kills nobody.

    To look for secrets in all of them takes minutes.
    """
    with workbench(tmp_path / "project") as bench:  # its log is nobody else's burden
        passes = 100_000
        bench.write(
            test_it=f"""
            import pytest
            TEXT = "X" + "x" * 699
            def hot():
                for number in range({passes}):
                    text = TEXT
            @pytest.mark.parametrize("n", range(4))
            def test_it(n):
                hot()
                assert 0
            """
        )
        tracepoint = bench.agent.call(
            "tracepoint_set", file="test_it.py", line=6, log_message="{number} {text}"
        )["tracepoint"]["id"]
        bench.run(workers=4, pause_on="never", args=args, wait=False)
        state = to_the_end(bench)
        failed = state["outcomes"]["failed"]
        assert (state["state"], failed) == ("finished", 4)
        assert [warning.partition(":")[0] for warning in state["warnings"]] == ["hits were dropped"]
        listed = bench.listed(tracepoint)
        assert listed["hit_count"] == failed * passes
        dropped = bench.agent.call("timeline_get", run_id=state["run_id"], limit=1)["dropped"]
        assert listed["notificationsSent"] + dropped == failed * passes
