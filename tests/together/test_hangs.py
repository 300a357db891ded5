"""Hangs and crashes: how each is told, and that the server and the next run take no harm.

The classes are those of `docs/hangs.md`.
"""

from __future__ import annotations

import os
import select
import signal
import textwrap
import time
from dataclasses import dataclass
from typing import Any

import pytest

from tests.together.driver import DEADLINE_S, only_stop
from tests.together.test_endings import ended
from tests.together.workbench import OVER, Bench

ANSWER_S = 2.0
"""The server answers within it, whatever the tests do."""

full = pytest.mark.full
pytestmark = [
    pytest.mark.long(95),
    pytest.mark.skipif(
        not hasattr(os, "pidfd_open"), reason="needs /proc, and a way to wait for any process"
    ),
]
TEST = "test_it.py::test_it"


@dataclass(frozen=True)
class Hang:
    """A test module that hangs, and what is told of it.

    Attributes:
        text: The module.
        at: A part of a line of the stack of the thread that runs the tests.
        cpu: Whether the processor is used.
        phase: Where it hangs; outside of these three there is no test.
        is_deaf: No Python code runs: it can't be paused.
        others: Functions in which other threads or tasks are.
        files: Further files of the project.
        args: Arguments of the run.
    """

    text: str
    at: str
    cpu: str
    phase: str = "call"
    is_deaf: bool = False
    others: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    args: tuple[str, ...] = ()


HANGS = {
    "busy loop": Hang("def test_it():\n    while True: pass\n", "test_it.py:6 test_it", "busy"),
    "sleep": Hang("import time\ndef test_it(): time.sleep(600)\n", "test_it.py:6", "waiting"),
    "lock": Hang(
        "import threading\n"
        "def test_it():\n"
        "    lock = threading.Lock()\n"
        "    with lock: lock.acquire()\n",
        "test_it.py:8",
        "waiting",
    ),
    "join of deadlocked threads": Hang(
        """
        import threading
        one, two, met = threading.Lock(), threading.Lock(), threading.Barrier(2)
        def left():
            with one, [met.wait()] and two: pass
        def right():
            with two, [met.wait()] and one: pass
        def test_it():
            threads = [threading.Thread(target=each) for each in (left, right)]
            for each in threads: each.start()
            for each in threads: each.join()
        """,
        "test_it.py:14 test_it",
        "waiting",
        others=("left", "right"),
    ),
    "regular expression": Hang(
        "import re\ndef test_it(): re.match('(a+)+$', 'a' * 60 + 'b')\n",
        "test_it.py:6 test_it",
        "busy",
        is_deaf=True,
    ),
    "loop in C": Hang(
        "def test_it(): sum(range(10**12))\n", "test_it.py:5 test_it", "busy", is_deaf=True
    ),
    "asyncio": Hang(
        """
        import asyncio
        async def wait_for_ever(): await asyncio.Event().wait()
        async def main():
            task = asyncio.create_task(wait_for_ever(), name="the waiter")
            await task
        def test_it(): asyncio.run(main())
        """,
        "test_it.py:10 test_it",
        "waiting",
        others=("wait_for_ever", "main"),
    ),
    "SIGINT swallowed": Hang(
        """
        def test_it():
            while True:
                try:
                    while True: pass
                except KeyboardInterrupt: pass
        """,
        "test_it.py:8 test_it",
        "busy",
    ),
    "SIGTERM ignored": Hang(
        """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        def test_it():
            while True:
                try: time.sleep(60)
                except KeyboardInterrupt: pass
        """,
        "test_it.py:9 test_it",
        "waiting",
    ),
    "import": Hang("while True: pass\n", "test_it.py:5 <module>", "busy", "collect"),
    "setup": Hang(
        """
        import pytest, time
        @pytest.fixture
        def slow(): time.sleep(600)
        def test_it(slow): pass
        """,
        "test_it.py:7 slow",
        "waiting",
        "setup",
    ),
    "teardown": Hang(
        """
        import pytest, time
        @pytest.fixture
        def slow():
            yield
            time.sleep(600)
        def test_it(slow): pass
        """,
        "test_it.py:9 slow",
        "waiting",
        "teardown",
    ),
    "finish": Hang(
        "def test_it(): pass\n",
        "conftest.py:3 pytest_sessionfinish",
        "waiting",
        "finish",
        files=(("conftest", "import time\ndef pytest_sessionfinish():\n    time.sleep(600)\n"),),
    ),
    "start": Hang(
        "def test_it(): pass\n",
        "",
        "waiting",
        "start",
        is_deaf=True,
        files=(
            (
                "early",
                "import pathlib, os, time\npathlib.Path('pid').write_text(str(os.getpid()))\n"
                "time.sleep(600)\n",
            ),
        ),
        args=("-p", "early"),
    ),
}

PROLOGUE = """\
import pathlib
pathlib.Path("pid").write_text(str(__import__("os").getpid()))


"""


def begin(bench: Bench, text: str, **options: Any) -> dict[str, Any]:
    bench.write(test_it=PROLOGUE + textwrap.dedent(text).lstrip("\n"))
    return bench.run(["test_it.py"], **options)


def hanging(bench: Bench, reply: dict[str, Any], phase: str) -> dict[str, Any]:
    """The first reply that tells of no progress in a phase: a process may start slowly."""
    deadline = time.monotonic() + DEADLINE_S
    while [each["phase"] for each in reply.get("no_progress", ())] != [phase]:
        assert reply["state"] not in OVER
        assert time.monotonic() < deadline, reply
        reply = bench.agent.call("breakpoint_wait", timeout_ms=1_000)
    return reply


def answered(bench: Bench) -> dict[str, Any]:
    """`debug_state`, in time."""
    before = time.monotonic()
    state = bench.agent.call("debug_state")
    assert time.monotonic() - before < ANSWER_S
    return state


def works_on(bench: Bench) -> None:
    """Nothing of the run is left, and the next one works."""
    pid = int((bench.root / "pid").read_text(encoding="utf-8"))
    assert is_gone(pid), f"process {pid} is left"
    reply = bench.test("def test_next(): pass", timeout_s=20)
    assert ended(reply) == ("finished", "finished", 0)
    assert "no_progress" not in reply


def is_gone(pid: int) -> bool:
    """Wait for its end."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return select.select([process], [], [], DEADLINE_S)[0] == [process]
    finally:
        os.close(process)


@pytest.mark.sample(
    *("busy loop", "sleep", "loop in C", "join of deadlocked threads", "asyncio", "setup"),
    *("import", "start", "finish", "SIGINT swallowed", "SIGTERM ignored"),
)
@pytest.mark.full
@pytest.mark.parametrize("how", HANGS)
def test_a_hang_is_reported_and_ended(bench: Bench, how: str) -> None:
    """Test, phase, time, stacks, tasks, CPU; then a pause, the end, the next."""
    hang = HANGS[how]
    is_in_test = hang.phase in ("setup", "call", "teardown")
    nodeid = TEST if is_in_test else None
    bench.write(**dict(hang.files))
    reply = begin(bench, hang.text, timeout_s=2, args=list(hang.args))
    reply = hanging(bench, reply, hang.phase)
    assert reply["state"] == "running" or not is_in_test
    (reported,) = reply["no_progress"]
    assert (reported["worker"], reported["nodeid"], reported["phase"]) == (
        "main",
        nodeid,
        hang.phase,
    )
    assert reported["seconds"] >= 0.9
    assert reported["cpu"] == hang.cpu
    if hang.at:
        assert reported["threads"][0]["is_current"]
        assert any(hang.at in line for line in reported["threads"][0]["stack"])
    shown = str(reported["threads"][1:]) + str(reported["tasks"])
    assert all(f"'function': '{name}'" in shown for name in hang.others)
    assert ("message" in reported) == hang.is_deaf

    state = answered(bench)
    running = [(each["nodeid"], each["phase"]) for each in state["running"]]
    assert running == ([(TEST, hang.phase)] if is_in_test else [])
    if hang.is_deaf and is_in_test:
        refused = bench.agent.call("debug_pause")
        assert (refused["status"], refused["pause_id"]) == ("not_stopped", None)
        assert refused["message"].startswith("main can't be paused: no Python code runs")
        assert any(hang.at in line for line in refused["threads"][0]["stack"])
    if hang.is_deaf:
        answered(bench)
    else:
        stop = only_stop(bench.agent.call("debug_pause"))
        assert (stop["reason"], stop.get("nodeid")) == ("interrupt", nodeid)
        assert "no_progress" not in bench.agent.call("breakpoint_wait", timeout_ms=1)

    stopped = bench.agent.call("test_stop")
    kind = "finished" if hang.phase == "finish" else "interrupted"
    assert (stopped["status"], stopped["end"]["kind"]) == ("stopped", kind)
    assert stopped["end"].get("lastTest") == nodeid
    assert stopped["end"].get("lastPhase") == (hang.phase if is_in_test else None)
    answered(bench)
    for name, _ in hang.files:
        (bench.root / f"{name}.py").unlink()
    works_on(bench)


CRASHES = {
    "segfault": ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
    "abort": ("import os; os.abort()", -signal.SIGABRT),
    "killed": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    "exited": ("import os; os._exit(3)", 3),
    "exited in order": ("import os; os._exit(0)", 0),
    "exited by a thread": (
        "import os, threading; threading.Thread(target=os._exit, args=(5,)).start()\n"
        "    while True: pass",
        5,
    ),
}


@pytest.mark.full
@pytest.mark.sample("exited*", "killed", "segfault")
@pytest.mark.parametrize("how", CRASHES)
def test_a_crash_reports_the_signal_the_last_test_and_the_stacks(bench: Bench, how: str) -> None:
    """Exit codes lie (`os._exit(3)` is no internal error): what counts is what was not said."""
    statement, code = CRASHES[how]
    reply = begin(bench, f"def test_before(): pass\ndef test_it():\n    {statement}\n")
    assert ended(reply) == ("crashed", "crashed", code)
    end = reply["end"]
    assert (end["lastTest"], end["lastPhase"]) == (TEST, "call")
    assert end.get("signal") == (signal.Signals(-code).name if code < 0 else None)
    assert ("stacks" in end) == (how in ("segfault", "abort"))
    if "stacks" in end:
        assert "Fatal Python error" in end["stacks"]
        assert "test_it.py" in end["stacks"]
    state = answered(bench)
    assert (state["state"], state["running"]) == ("crashed", [])
    works_on(bench)


@full
def test_a_program_that_handles_the_signal_of_the_stacks_never_gets_it(bench: Bench) -> None:
    """What a test would notice is not done; what is known without is told."""
    reply = bench.test(
        """
        import ctypes
        import os
        import signal
        import pytest

        heard = []
        os.mkfifo("gate")

        @pytest.fixture
        def handler():
            before = signal.signal(signal.SIGCONT, lambda *_: heard.append(1))
            assert before is signal.SIG_DFL
            yield
            signal.signal(signal.SIGCONT, before)

        def test_it(handler):
            gate = os.open("gate", os.O_RDWR)
            # Unlike CDLL it keeps the interpreter.
            assert ctypes.PyDLL(None).read(gate, ctypes.create_string_buffer(1), 1) == 1
            assert not heard
        """,
        timeout_s=2,
    )
    reply = hanging(bench, reply, "call")
    (reported,) = reply["no_progress"]
    assert (reported["nodeid"], reported["phase"], reported["cpu"]) == (TEST, "call", "waiting")
    assert reported["threads"] == []
    assert "handles SIGCONT" in reported["message"]
    (bench.root / "gate").write_bytes(b"x")
    assert bench.until("finished")["outcomes"] == {"passed": 1}


@full
def test_only_the_worker_that_hangs_is_reported(bench: Bench) -> None:
    """The controller, and workers that are done, wait for it."""
    bench.write(test_other="def test_ok(): pass\n")
    bench.write(test_it="import time\ndef test_it(): time.sleep(600)\n")
    reply = bench.run(args=["-n2", "--dist=loadfile"], timeout_s=6)
    reply = hanging(bench, reply, "call")
    (reported,) = reply["no_progress"]
    assert reported["worker"] in ("gw0", "gw1")
    assert (reported["nodeid"], reported["phase"], reported["cpu"]) == (TEST, "call", "waiting")
    assert reported["threads"][0]["stack"] == ["test_it.py:2 test_it"]


OTHER_ENDS = {
    "sys.exit": ("import sys\ndef test_it(): sys.exit(0)\n", "finished", 1),
    "a thread that never ends": (
        "import threading\n"
        "def test_it(): threading.Thread(target=threading.Event().wait).start()\n",
        "finished",
        0,
    ),
    "Ctrl-C": ("def test_it(): raise KeyboardInterrupt\n", "interrupted", 2),
}


@full
@pytest.mark.parametrize("how", OTHER_ENDS)
def test_an_end_that_is_no_crash(bench: Bench, how: str) -> None:
    """What looks like a crash, or hangs only when all has been told."""
    text, kind, code = OTHER_ENDS[how]
    reply = begin(bench, text, pause_on="never")
    assert ended(reply) == ("finished", kind, code)
    assert "no_progress" not in reply
    answered(bench)
    works_on(bench)
