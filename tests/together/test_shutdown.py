"""However the front end ends, nothing of it is left; measured from outside, on real processes.

Paused tests are released, the run ends, no process stays behind. The
seconds are printed (`pytest -rP`), not tested.
"""

from __future__ import annotations

import os
import signal
import textwrap
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.together.conftest import MakeProject
from tests.together.frontend import FrontEnd, front_end, wait_until

pytestmark = [
    pytest.mark.long(75),
    pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks into /proc"),
]

GONE_S = 45.0
"""The aim is 2 s; on a machine under load a run may need all 30 s that it has for its teardown."""

WAYS: dict[str, Callable[[FrontEnd], None]] = {
    "end of file": lambda server: server.hang_up(),
    "SIGINT": lambda server: server.signal(signal.SIGINT),
    "SIGTERM": lambda server: server.signal(signal.SIGTERM),
    "SIGKILL": lambda server: server.signal(signal.SIGKILL),
}

# Deaf to Ctrl-C, so that only a release lets its fixture be torn down.
PAUSED = """
    import pathlib, pytest, signal

    @pytest.fixture
    def resource():
        yield
        pathlib.Path("released").touch()

    def test_it(resource):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert 0
"""

REACHED = """
    import pathlib, subprocess, sys, threading, time

    def reached():
        pathlib.Path("reached").touch()
"""

SWALLOWING = """
    def test_it():
        reached()
        while True:
            try:
                time.sleep(1000)
            except BaseException:
                pass
"""

SENDING = f"""{REACHED}
    def turn(number):
        return number + 1

    def test_one():
        number = 0
        while True:
            number = turn(number)
            if number == 5_000: reached()

    test_two = test_one
"""

# What a run is doing, by what a test does; each touches `reached` or pauses.
SCENES = {
    "idle": "",
    "paused": PAUSED,
    "evaluating": PAUSED,
    "collecting": f"{REACHED}\n    reached()\n    while True: pass",
    "busy": f"""{REACHED}
    def test_it():
        reached()
        while True: pass
    """,
    "swallowing every exception": REACHED + SWALLOWING,
    "in a C loop that holds the GIL": f"""{REACHED}
    def test_it():
        reached()
        sum(range(10**12))
    """,
    "waiting for a deaf grandchild": f"""{REACHED}
    def test_it():
        deaf = subprocess.Popen(["sh", "-c", "trap '' INT TERM; sleep 1000; sleep 1000"])
        reached()
        deaf.wait()
    """,
    "left with a thread that never ends": f"""{REACHED}
    def test_it():
        threading.Thread(target=threading.Event().wait).start()
        reached()
        while True: pass
    """,
    "in two workers, one paused": f"""{REACHED}
    def test_paused():
        assert 0
    {SWALLOWING}""",
    "in two workers that send without end": SENDING,
}


def prepare(server: FrontEnd, project: Path, scene: str) -> None:
    """Bring a run to where the scene says, with a client's call still unanswered if it can be."""
    server.initialize()
    if scene == "idle":
        return
    if "send" in scene:
        line = SENDING.split("\n").index("        return number + 1") + 1
        server.call("tracepoint_set", file="test_it.py", line=line, log_message="{number}")
    if "paused" in scene or scene == "evaluating":
        (stop,) = server.call("test_run")["stops"]
        if scene == "evaluating":
            endless = "open('reached', 'w') and [None for _ in iter(int, 1)]"
            pause = {"pause_id": stop["pause_id"], "timeout_s": 20}
            server.start("breakpoint_repl_eval", expression=endless, **pause)
    else:
        server.start("test_run")
    if scene != "paused":
        wait_until((project / "reached").exists, scene)
    if "send" in scene:
        hits = {"types": ["hit"], "limit": 1}
        wait_until(lambda: bool(server.call("timeline_get", **hits)["events"]), "hits come")


def end(server: FrontEnd, way: str) -> str:
    """End the front end; the seconds until it, and until everything was gone."""
    began = time.monotonic()
    WAYS[way](server)
    status = server.process.wait(GONE_S)
    front_end_s = time.monotonic() - began
    assert status == (-signal.SIGKILL if way == "SIGKILL" else 0)
    wait_until(lambda: not server.processes(), "nothing is left", GONE_S)
    everything_s = time.monotonic() - began
    server.wait_until_nothing_is_left()
    return f"front end {front_end_s:.2f} s, everything {everything_s:.2f} s"


IMPLIED = {
    ("SIGINT", "busy"),
    ("SIGINT", "collecting"),
    ("SIGINT", "evaluating"),
    ("SIGINT", "in a C loop that holds the GIL"),
    ("SIGINT", "left with a thread that never ends"),
    ("SIGTERM", "idle"),
    ("SIGTERM", "collecting"),
    ("SIGTERM", "evaluating"),
    ("SIGTERM", "swallowing every exception"),
    ("SIGTERM", "left with a thread that never ends"),
    ("SIGKILL", "left with a thread that never ends"),
}
"""Pairs that are not tried, as SIGINT and SIGTERM take the same way in the front end."""

PAIRS = [(way, scene) for scene in SCENES for way in WAYS if (way, scene) not in IMPLIED]


@pytest.mark.full
@pytest.mark.sample(
    "SIGINT-idle",
    "end of file-paused",
    "SIGKILL-paused",
    "SIGTERM-busy",
    "SIGKILL-collecting",
    "end of file-evaluating",
    "SIGINT-swallowing every exception",
    "SIGKILL-in a C loop that holds the GIL",
    "end of file-left with a thread that never ends",
    "SIGTERM-waiting for a deaf grandchild",
    "SIGTERM-in two workers, one paused",
    "SIGKILL-in two workers that send without end",
)
@pytest.mark.parametrize(("way", "scene"), PAIRS)
def test_nothing_is_left_behind(make_project: MakeProject, way: str, scene: str) -> None:
    """After `kill -9` of the front end nothing is left either."""
    project = make_project(test_it=SCENES[scene])
    workers = ["-n", "2"] if "workers" in scene else []
    with front_end(project, "-p", "no:cacheprovider", *workers) as server:
        prepare(server, project, scene)
        # Itself and its reaper; the run; two workers; a shell and its sleep.
        at_least = 2 + (scene != "idle") + len(workers) + 2 * ("grandchild" in scene)
        wait_until(lambda: len(server.processes()) >= at_least, "everything has started")
        assert len(server.private()) == 1
        print(f"{way} while {scene}: {end(server, way)}")
        if SCENES[scene] == PAUSED:
            assert (project / "released").exists()


@pytest.mark.full
def test_the_private_directory_goes_even_when_the_reaper_was_killed(
    make_project: MakeProject,
) -> None:
    """An orderly end does not depend on it."""
    with front_end(make_project()) as server:
        server.initialize()
        (reaper,) = set(server.processes()) - {server.process.pid}
        os.kill(reaper, signal.SIGKILL)
        assert server.leave() == 0


@pytest.mark.full
def test_runs_leave_no_descriptor_and_no_thread_in_the_front_end(
    make_project: MakeProject,
) -> None:
    """File descriptors are equal, before and after.

    Only the socket that all runs share, opened by the first, is there afterwards.
    """
    project = make_project(test_it="def test_it(): pass")

    def threads() -> int:
        return len(os.listdir(f"/proc/{server.process.pid}/task"))

    with front_end(project, "-p", "no:cacheprovider") as server:
        server.initialize()
        files, tasks = sorted([*server.open_files(), "socket:"]), threads()
        for _ in range(5):
            server.call("test_run")
        server.call("test_list")
        wait_until(lambda: server.open_files() == files, f"open are only {files}")
        wait_until(lambda: threads() == tasks, f"there are {tasks} threads")
        assert server.leave() == 0


EDITED = """
    def price(amount):
        return amount * {round}

    def test_price():
        assert price(1) == 0
"""


@pytest.mark.soak
def test_ten_runs_with_edits_between_them_leak_nothing(make_project: MakeProject) -> None:
    """Each stops twice and is looked into. Counted from outside, while paused and when over:
    processes, threads and descriptors (sockets among them), of the server and of all it started.
    """
    project = make_project(test_it=EDITED.format(round=1))

    def census() -> Counter[tuple[int, int]]:
        """How many processes have so many descriptors and threads."""
        return Counter(
            (len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task")))
            for pid in server.processes()
        )

    def settled() -> Counter[tuple[int, int]]:
        """The same as soon as nothing is about to be closed any more."""
        looks = [census()]

        def is_still() -> bool:
            server.call("debug_state")  # its event loop has come round
            looks.append(census())
            return looks[-1] == looks[-2]

        wait_until(is_still, "two looks in a row are the same")
        return looks[-1]

    def round_trip(number: int) -> tuple[Counter[tuple[int, int]], Counter[tuple[int, int]]]:
        (project / "test_it.py").write_text(textwrap.dedent(EDITED.format(round=number)))
        call = server.call("test_run")["stops"][0]
        assert call["phase"] == "before"
        asked = {"pause_id": call["pause_id"], "expression": "amount"}
        assert server.call("breakpoint_repl_eval", **asked)["output"] == "1"
        failed = server.call("breakpoint_continue", pause_id=call["pause_id"], wait=True)
        (stop,) = failed["stops"]
        assert stop["autopsy"]["assertion"]["left"] == str(number)
        server.call("exception_get_context", pause_id=stop["pause_id"])
        paused = census()
        reply = server.call("breakpoint_continue", pause_id=stop["pause_id"], wait=True)
        assert (reply["state"], reply["exit_code"]) == ("finished", 1)
        wait_until(lambda: len(server.processes()) == 2, "the server and its reaper are left")
        return paused, settled()

    with front_end(project, "-p", "no:cacheprovider", PYTHONDONTWRITEBYTECODE="1") as server:
        server.initialize()
        server.call("breakpoint_add", function_name="test_it.price")
        round_trip(1)  # what all runs share is opened by the first
        first_paused, first = round_trip(2)
        assert (first_paused.total(), first.total()) == (3, 2)
        for number in range(3, 12):
            paused, _ = round_trip(number)
            assert paused == first_paused
        wait_until(lambda: census() == first, f"descriptors and threads are {first}")
        assert server.leave() == 0


LOSING = """
    import os, socket, sys, threading, time

    def sockets():
        for name in os.listdir("/proc/self/fd"):
            try:
                if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                    yield int(name)
            except FileNotFoundError:
                pass

    def refuse(event, args):
        if event == "socket.connect":
            raise ConnectionRefusedError

    def cut():
        while not os.path.exists("cut"):
            time.sleep(0.01)
        sys.addaudithook(refuse)
        for number in sockets():
            socket.socket(fileno=os.dup(number)).shutdown(socket.SHUT_RDWR)

    def test_losing():
        threading.Thread(target=cut, daemon=True).start()
        assert 0

    def test_passed():
        assert True

    def test_failed():
        assert 0
"""


@pytest.mark.full
def test_a_lost_link_releases_the_pause_and_the_run_ends_as_it_would_have(
    make_project: MakeProject,
) -> None:
    """A lost link never hurts the run; the front end lives on.

    The program allows no other connection; else the process connects again.
    """
    project = make_project(test_it=LOSING)
    with front_end(project, "-p", "no:cacheprovider", "--junitxml=report.xml") as server:
        server.initialize()
        assert server.call("test_run")["state"] == "paused"
        (project / "cut").touch()
        wait_until(lambda: len(server.processes()) == 2, "the run is over")
        report = (project / "report.xml").read_text(encoding="utf-8")
        assert 'errors="0" failures="2" skipped="0" tests="3"' in report
        over = ("finished", "crashed")
        wait_until(lambda: server.call("debug_state")["state"] in over, "the front end knows")
        assert server.call("test_run", keyword="passed")["exit_code"] == 0
        assert server.leave() == 0
