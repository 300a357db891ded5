"""However a run is ended, what cleans up behind its tests has its time, as after Ctrl-C.

What counts is what the program left on disk, and what replies tell of what was cut.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.driver import DEADLINE_S, only_stop
from tests.together.frontend import (
    FrontEnd,
    clean_environment,
    front_end,
    module_command,
    wait_until,
)
from tests.together.workbench import Bench, workbench

pytestmark = pytest.mark.long(100)

full = pytest.mark.full
linux = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks into /proc")

# Each needs a quarter of a second, all together more than a hanging test would get.
CONFTEST = """
    import atexit, os, time
    import pytest

    def ends(name):
        time.sleep(0.25)
        print("x" * 100_000, flush=True)
        os.write(2, b"x" * 100_000)
        with open(f"ended-{os.getpid()}", "a") as file:
            file.write(name + " ")

    def fixture_of(scope):
        @pytest.fixture(scope=scope, autouse=True, name=scope)
        def fixture():
            yield
            ends(scope)
        return fixture

    of_session, of_package, of_module, of_class, of_function = map(
        fixture_of, ("session", "package", "module", "class", "function")
    )

    def pytest_sessionfinish():
        ends("sessionfinish")

    def pytest_unconfigure():
        ends("unconfigure")

    atexit.register(ends, "atexit")
"""

TEST = """
    import contextlib, pathlib, time, unittest
    from conftest import ends

    @contextlib.contextmanager
    def block():
        try:
            yield
        finally:
            ends("with")

    def here():
        pathlib.Path("reached").touch()
        SCENE

    class TestIt(unittest.TestCase):
        @classmethod
        def tearDownClass(cls):
            ends("tearDownClass")

        def test_it(self):
            with block():
                here()
"""

SCENES = {"in mid-test": "time.sleep(1000)", "at a pause": "time.sleep(1000)", "failed": "assert 0"}

OF_FIXTURES = ["function", "class", "tearDownClass", "module", "package", "session"]
IN_ALL = {*OF_FIXTURES, "sessionfinish", "unconfigure", "atexit"}


def files_of(scene: str) -> dict[str, str]:
    return {"conftest": CONFTEST, "test_it": TEST.replace("SCENE", SCENES[scene])}


def ended(root: Path) -> list[list[str]]:
    """What each process that got that far has cleaned up."""
    return [each.read_text(encoding="utf-8").split() for each in root.glob("ended-*")]


@linux
@full
def test_ctrl_c_in_a_terminal_is_what_all_that_follows_is_measured_by(
    make_project: MakeProject,
) -> None:
    project = make_project(**files_of("in mid-test"))
    command = [*module_command(), "-p", "no:cacheprovider", "-q"]
    process = subprocess.Popen(
        command, cwd=project, env=clean_environment(), stdout=subprocess.DEVNULL
    )
    wait_until((project / "reached").exists, "the test is reached")
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE_S) == 2
    (cleaned,) = ended(project)
    assert sorted(cleaned) == sorted([*IN_ALL, "with"])


# --- by a client --------------------------------------------------------------------------------


def begin(bench: Bench, scene: str, **options: Any) -> None:
    bench.write(**files_of(scene))
    if scene == "at a pause":
        bench.breakpoint("test_it.here")
    reply = bench.run(["test_it.py"], wait=scene != "in mid-test", **options)
    if scene == "in mid-test":
        wait_until((bench.root / "reached").exists, "the test is reached")
    else:
        only_stop(reply)


@full
@pytest.mark.sample("replace-in mid-test", "test_stop-at a pause", "test_stop-failed")
@pytest.mark.parametrize(
    ("way", "scene"),
    [
        ("test_stop", "in mid-test"),
        ("test_stop", "at a pause"),
        ("test_stop", "failed"),
        ("replace", "in mid-test"),
    ],
)
def test_everything_that_cleans_up_does_so_when_a_client_ends_the_run(
    bench: Bench, way: str, scene: str
) -> None:
    """Progress tells it meanwhile, and nothing is said to be cut."""
    begin(bench, scene, args=["-s"])
    bench.agent.progress.clear()
    if way == "replace":
        bench.write(test_next="def test_next(): pass")
        reply = bench.run(["test_next.py"], replace=True)
        assert reply["outcomes"] == {"passed": 1, "failed": 0}
    else:
        stopped = bench.agent.call("test_stop")
        assert stopped["status"] == "stopped"
        assert stopped["end"]["kind"] == "interrupted"
        assert "teardown" not in stopped["end"]
        assert bench.agent.call("debug_state")["state"] == "finished"
    cleaned = max(ended(bench.root), key=len)
    # A failed test has left its block before.
    assert sorted(cleaned) == sorted([*IN_ALL, "with"])
    reported = bench.agent.progress
    assert [each for each, _, _ in reported] == sorted(each for each, _, _ in reported)
    assert any(
        re.search(r"fixtures are torn down: \d s of 30 s; test_stop", str(e[2])) for e in reported
    )


WAITS = """
    import pathlib, time
    import pytest

    @pytest.fixture(scope="session", autouse=True)
    def resource():
        yield
        pathlib.Path("tearing").touch()
        while not pathlib.Path("go").exists():
            time.sleep(0.01)
        pathlib.Path("torn").touch()

    def test_it():
        pathlib.Path("reached").touch()
        time.sleep(1000)
"""


def reach_the_test(bench: Bench) -> None:
    """Run to the middle of the test."""
    bench.test(WAITS, wait=False)
    wait_until((bench.root / "reached").exists, "the test is reached")


def stopping(bench: Bench) -> Any:
    """A call of `test_stop` that waits for a fixture."""
    reach_the_test(bench)
    call = bench.agent.start("test_stop")
    wait_until((bench.root / "tearing").exists, "the fixture is torn down")
    return call


@full
@pytest.mark.parametrize("how", ["interrupt", "kill"])
def test_a_second_call_waits_no_longer_and_both_replies_say_so(bench: Bench, how: str) -> None:
    first = stopping(bench)
    state = bench.agent.call("debug_state")
    assert state["state"] == "stopping"
    assert [(each["nodeid"], each["phase"]) for each in state["running"]] == [
        ("test_it.py::test_it", "teardown")
    ]
    assert "test_stop" in state["next"][1]
    refused = bench.agent.refused("test_run")
    assert (refused["error"], refused["state"]) == ("run_active", "stopping")
    began = time.monotonic()
    second = bench.agent.call("test_stop", mode=how)
    assert time.monotonic() - began < 5
    end = second["end"]
    assert (end["kind"], end["teardown"], end["lastPhase"]) == ("interrupted", "cut", "teardown")
    number = "SIGTERM" if how == "interrupt" else "SIGKILL"
    assert end["message"].startswith("ended by a client; teardown of test_it.py::test_it was cut")
    assert end["message"].endswith(f" s ({number})")
    assert first.result(DEADLINE_S)["end"] == end
    assert not (bench.root / "torn").exists()
    assert bench.test("def test_next(): pass")["exit_code"] == 0


@full
def test_a_fixture_is_waited_for_as_long_as_it_has_time(bench: Bench) -> None:
    """Also when other clients look, and want the same."""
    first = stopping(bench)
    wait_until(lambda: "3 s of 30 s" in bench.agent.call("debug_state")["message"], "3 s")
    (bench.root / "go").touch()
    reply = first.result(DEADLINE_S)
    assert (reply["status"], reply["end"]["kind"]) == ("stopped", "interrupted")
    assert "teardown" not in reply["end"]
    assert (bench.root / "torn").exists()


@full
def test_a_grace_that_is_over_is_reported_with_its_length(tmp_path: Path) -> None:
    """Three seconds: a busy machine takes one to get to the fixtures."""
    with workbench(tmp_path / "project", "--cideldill-grace=3") as bench:
        reply = stopping(bench).result(DEADLINE_S)
        end = reply["end"]
        assert (reply["status"], end["teardown"]) == ("stopped", "cut")
        seconds = float(end["message"].rpartition(" after ")[2].partition(" s ")[0])
        assert 3 <= seconds < 4
        assert not (bench.root / "torn").exists()


@full
def test_without_a_grace_what_cleans_up_at_once_still_does(tmp_path: Path) -> None:
    """At once is a second, which a busy machine may not have for it."""
    with workbench(tmp_path / "project", "-o", "cideldill_grace=0") as bench:
        reach_the_test(bench)
        assert bench.agent.call("test_stop")["end"]["teardown"] == "cut"
        assert any(cleans_up(bench) for _ in range(5))


def cleans_up(bench: Bench) -> bool:
    """Whether the fixture is torn down in a run that is stopped, where nothing holds it up."""
    bench.clear()
    (bench.root / "go").touch()
    reach_the_test(bench)
    bench.agent.call("test_stop")
    return (bench.root / "torn").exists()


FINALLY = {
    "finally": "try: here()\n    finally: ends()",
    "another error meanwhile": """try: here()
    finally:
        try: {}[1]
        except KeyError: ends()""",
    "except": """try: here()
    except KeyboardInterrupt:
        ends()
        raise""",
    "asyncio": """async def main():
        try:
            pathlib.Path("reached").touch()
            await asyncio.sleep(1000)
        finally:
            for _ in range(30): await asyncio.sleep(0.1)
            ends(0)
    asyncio.run(main())""",
}


@full
@pytest.mark.sample("finally", "asyncio")
@pytest.mark.parametrize("how", FINALLY)
def test_a_test_that_handles_the_interrupt_has_its_time_as_well(bench: Bench, how: str) -> None:
    bench.test(
        f"""
import asyncio, pathlib, time
def here():
    pathlib.Path("reached").touch()
    time.sleep(1000)
def ends(seconds=3):
    time.sleep(seconds)
    pathlib.Path("ended").touch()
def test_it():
    {FINALLY[how]}
""",
        wait=False,
    )
    wait_until((bench.root / "reached").exists, "the test is reached")
    end = bench.agent.call("test_stop")["end"]
    assert (end["kind"], "teardown" in end) == ("interrupted", False)
    assert (bench.root / "ended").exists()


@full
def test_what_is_cut_at_the_exit_of_python_is_reported(bench: Bench) -> None:
    """A thread that never ends is no teardown that moves."""
    bench.test(
        """
        import pathlib, threading, time
        def test_it():
            threading.Thread(target=threading.Event().wait).start()
            pathlib.Path("reached").touch()
            time.sleep(1000)
        """,
        wait=False,
    )
    wait_until((bench.root / "reached").exists, "the test is reached")
    stopped = bench.agent.call("test_stop")
    assert (stopped["status"], stopped["end"]["teardown"]) == ("stopped", "cut")
    assert stopped["end"]["message"].startswith("KeyboardInterrupt; its threads")


# --- by the end of the server -------------------------------------------------------------------


WAYS: dict[str, Callable[[FrontEnd], None]] = {
    "end of file": lambda server: server.hang_up(),
    "SIGTERM": lambda server: server.signal(signal.SIGTERM),
    "SIGKILL": lambda server: server.signal(signal.SIGKILL),
}
LEAVES_S = 1.9
"""Clients kill servers 2 s after they have hung up."""


def end(server: FrontEnd, way: str) -> None:
    """End it; it does not wait, and in the end nothing is left."""
    began = time.monotonic()
    WAYS[way](server)
    server.process.wait(DEADLINE_S)
    assert time.monotonic() - began < LEAVES_S
    server.wait_until_nothing_is_left()


@linux
@pytest.mark.parametrize(
    ("way", "scene"),
    [
        pytest.param("SIGKILL", "in mid-test", marks=pytest.mark.soak),
        pytest.param("SIGTERM", "in mid-test", marks=full),
        pytest.param("end of file", "in mid-test", marks=full),
        pytest.param("SIGKILL", "at a pause", marks=full),
        pytest.param("end of file", "failed", marks=pytest.mark.soak),
        pytest.param("SIGKILL", "failed", marks=pytest.mark.soak),
    ],
)
def test_everything_that_cleans_up_does_so_when_the_server_ends(
    make_project: MakeProject, way: str, scene: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nobody reads any more what it prints, and the folder of its socket stays until it is over."""
    project = make_project(**files_of(scene))
    with front_end(project, "-p", "no:cacheprovider", "-s") as server:
        server.initialize()
        if scene == "at a pause":
            server.call("breakpoint_add", function_name="test_it.here")
        state = server.call("test_run", wait=scene != "in mid-test")["state"]
        assert state == ("running" if scene == "in mid-test" else "paused")
        if scene == "in mid-test":
            wait_until((project / "reached").exists, "the test is reached")
        end(server, way)
    (cleaned,) = ended(project)
    assert sorted(cleaned) == sorted([*IN_ALL, "with"])
    reported = (
        "r1 was interrupted and left to tear down its fixtures; what is left of it after 30 s"
    )
    assert (reported in capfd.readouterr().err) == (way != "SIGKILL")


@linux
@full
@pytest.mark.sample("test_stop")
@pytest.mark.parametrize("way", ["test_stop", "SIGTERM", "SIGKILL"])
def test_workers_tear_down_what_each_of_them_has(make_project: MakeProject, way: str) -> None:
    test = """
        import os, pathlib, time
        import pytest

        @pytest.fixture(scope="session", autouse=True)
        def resource(worker_id):
            yield
            time.sleep(3)
            pathlib.Path(f"torn-{worker_id}").touch()

        def test_one(worker_id):
            pathlib.Path(f"reached-{worker_id}").touch()
            time.sleep(1000)

        test_two = test_one
    """
    project = make_project(test_it=test)
    with front_end(project, "-p", "no:cacheprovider", "-n2") as server:
        server.initialize()
        server.call("test_run", wait=False)
        wait_until(lambda: len(list(project.glob("reached-*"))) == 2, "both run")
        if way == "test_stop":
            assert server.call("test_stop")["end"]["kind"] == "interrupted"
            assert server.leave() == 0
        else:
            end(server, way)
    assert sorted(each.name for each in project.glob("torn-*")) == ["torn-gw0", "torn-gw1"]


@linux
@full
def test_a_listing_under_way_ends_like_a_run(make_project: MakeProject) -> None:
    project = make_project(
        **files_of("in mid-test"),
        test_slow="import pathlib, time\npathlib.Path('reached').touch()\ntime.sleep(1000)\n",
    )
    with front_end(project, "-p", "no:cacheprovider") as server:
        server.initialize()
        server.start("test_list")
        wait_until((project / "reached").exists, "the import is reached")
        end(server, "end of file")
    (cleaned,) = ended(project)
    assert sorted(cleaned) == ["atexit", "sessionfinish", "unconfigure"]


@pytest.mark.sample("SIGKILL")
@linux
@full
@pytest.mark.parametrize("way", ["end of file", "SIGKILL"])
def test_a_server_that_ends_while_it_waits_sends_no_second_interrupt(
    make_project: MakeProject, way: str
) -> None:
    project = make_project(test_it=WAITS)
    with front_end(project, "-p", "no:cacheprovider") as server:
        server.initialize()
        server.start("test_run")
        wait_until((project / "reached").exists, "the test is reached")
        server.start("test_stop")
        wait_until((project / "tearing").exists, "the fixture is torn down")
        WAYS[way](server)
        server.process.wait(DEADLINE_S)
        (project / "go").touch()
        server.wait_until_nothing_is_left()
    assert (project / "torn").exists()


@linux
@full
def test_what_outlives_the_server_is_killed_after_the_grace(make_project: MakeProject) -> None:
    project = make_project(test_it=WAITS)
    with front_end(project, "-p", "no:cacheprovider", "--cideldill-grace=3") as server:
        server.initialize()
        server.start("test_run")
        wait_until((project / "reached").exists, "the test is reached")
        end(server, "SIGKILL")
    assert (project / "tearing").exists()
    assert not (project / "torn").exists()


@linux
@full
def test_a_recorded_run_has_its_end_although_the_server_is_gone(make_project: MakeProject) -> None:
    project = make_project(**files_of("in mid-test"))
    with front_end(project, "-p", "no:cacheprovider", "--cideldill-record=rec") as server:
        server.initialize()
        server.start("test_run")
        wait_until((project / "reached").exists, "the test is reached")
        end(server, "SIGKILL")
    (log,) = project.glob("rec/*/events.jsonl")
    assert '"type":"interrupted"' in log.read_text(encoding="utf-8")


@pytest.mark.sample("test_stop", "SIGKILL")
@linux
@full
@pytest.mark.parametrize("way", ["test_stop", "end of file", "SIGKILL"])
def test_an_evaluation_under_way_does_not_take_the_interrupt(
    make_project: MakeProject, way: str
) -> None:
    """The session goes on to its end, not to its next test."""
    project = make_project(
        test_it=f"{WAITS.replace('time.sleep(1000)', 'assert 0')}\n    test_b = test_it\n"
    )
    (project / "go").touch()
    with front_end(project, "-p", "no:cacheprovider") as server:
        server.initialize()
        (stop,) = server.call("test_run")["stops"]
        (project / "reached").unlink()
        endless = "open('evaluating', 'w') and [None for _ in iter(int, 1)]"
        asked = {"pause_id": stop["pause_id"], "timeout_s": 20, "expression": endless}
        server.start("breakpoint_repl_eval", **asked)
        wait_until((project / "evaluating").exists, "it is evaluated")
        if way == "test_stop":
            server.start("test_stop")
            wait_until(lambda: len(server.processes()) == 2, "the run is over")
            assert server.leave() == 0
        else:
            end(server, way)
    assert (project / "torn").exists()
    assert not (project / "reached").exists()
