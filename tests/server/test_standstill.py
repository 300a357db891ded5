"""Parts of `no_progress`: use of the processor, and what faulthandler writes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cideldill_mcp.processes.cpu import Usage, handles, usage, verdict
from cideldill_mcp.runs.stacks import threads_in
from cideldill_mcp.runs.stall import state_of
from pytest_cideldill.project import Project

linux = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (Usage("R", 1.0), Usage("R", 1.25), "busy"),
        (Usage("S", 1.0), Usage("S", 1.05), "busy"),
        (Usage("S", 1.0), Usage("S", 1.01), "waiting"),
        (Usage("R", 1.0), Usage("S", 1.0), "waiting"),
        (Usage("R", 1.0), Usage("R", 1.0), "busy"),
        (None, Usage("R", 1.0), None),
        (Usage("R", 1.0), None, None),
    ],
)
def test_busy_is_who_uses_the_processor_or_wants_it(
    before: Usage | None, after: Usage | None, expected: str | None
) -> None:
    """Other threads count; a share that others took does not make it wait."""
    assert verdict(before, after, 0.25) == expected


@pytest.mark.parametrize(
    ("state", "running", "reported"),
    [
        ("collecting", [{"nodeid": "test_it.py::test"}], "running"),
        ("collecting", [], "collecting"),
        ("paused", [{"nodeid": "test_it.py::test"}], "paused"),
    ],
)
def test_a_state_goes_with_the_tests_that_are_reported_beside_it(
    state: str, running: list[object], reported: str
) -> None:
    """They are ahead of events, and may be others when they are read again."""
    run: Any = SimpleNamespace(state=state)
    assert state_of(run, running) == reported


@linux
def test_the_usage_of_a_process_grows_with_its_work() -> None:
    """Of a process that is gone nothing is known."""
    before = usage(os.getpid())
    assert before is not None
    while (now := usage(os.getpid())) is not None and now.seconds < before.seconds + 0.03:
        sum(range(10_000))
    assert now is not None
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert usage(ended.pid) is None


@linux
def test_who_handles_a_signal() -> None:
    """What has no handler is not asked; nor what is stopped, as it would go on."""
    script = "import faulthandler, signal as s; faulthandler.register(s.SIGCONT); print(flush=True)"
    command = [sys.executable, "-c", f"{script}; input()"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        assert handles(process.pid, signal.SIGCONT)
        assert not handles(process.pid, signal.SIGURG)
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        assert not handles(process.pid, signal.SIGCONT)
    finally:
        process.kill()
        process.communicate()
    assert not handles(process.pid, signal.SIGCONT)


def test_a_dump_becomes_threads(tmp_path: Path) -> None:
    """Innermost first, without ours and without what called the user's code; the newest counts."""
    project = Project(str(tmp_path))
    ours = Path(sys.modules["pytest_cideldill.project"].__file__ or "").parent / "link.py"
    text = f"""\
Current thread 0x000000000000000a (most recent call first):
  File "{tmp_path}/test_it.py", line 1 in test_it

Thread 0x000000000000000b (most recent call first):
  File "{ours}", line 7 in _run

Thread 0x000000000000000c [Thread-1 (work)] (most recent call first):
  File "/nowhere/threading.py", line 5 in wait
  File "/nowhere/threading.py", line 9 in run
Current thread 0x000000000000000a (most recent call first):
  File "{tmp_path}/deep/<x>.py", line ??? in helper
  File "{tmp_path}/test_it.py", line 2 in test_it
  File "/nowhere/_pytest/python.py", line 100 in pytest_pyfunc_call

Thread 0x000000000000000d (most recent call first):
  <no Python frame>
"""
    main, other = threads_in(text, project, "gw0")
    assert main == {
        "id": 10,
        "worker": "gw0",
        "name": None,
        "is_current": True,
        "location": {"file": "deep/<x>.py", "line": None, "function": "helper", "module": None},
        "stack": ["deep/<x>.py:??? helper", "test_it.py:2 test_it"],
    }
    assert (other["id"], other["is_current"]) == (12, False)
    assert other["stack"] == ["/nowhere/threading.py:5 wait", "/nowhere/threading.py:9 run"]
    assert threads_in("no dump at all", project, "main") == []
