"""Recorded runs that end badly: little is lost, the rest opens, outcomes are pytest's own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_cideldill.records.format import EVENTS, Line
from pytest_cideldill.records.manifest import summarize
from pytest_cideldill.records.merge import raw_lines
from tests.together.driver import DEADLINE_S
from tests.together.opened import ROOM, opened
from tests.together.records import command, recorded

pytestmark = pytest.mark.full

POSIX = pytest.mark.skipif(os.name != "posix", reason="signals and limits of POSIX")

FLOW = """
import os, signal, time
from pathlib import Path

def step(number):
    return number

def test_before():
    assert step(1) == 1

def test_flow():
    for number in range(50):
        step(number)
    time.sleep(0.15)
    for number in range(50, 55):
        step(number)
    {ending}

def test_after():
    assert step(1) == 1
"""

TRACE = "--cideldill-trace=test_it.py:6=step {number}"
KEPT = [f"step {number}" for number in range(50)]


def project(folder: Path, text: str) -> Path:
    (folder / "test_it.py").write_text(textwrap.dedent(text))
    (folder / "conftest.py").touch()
    return folder


def lines(run: Path) -> list[Line]:
    """All of them; each can be read."""
    return [Line.decoded(each.text) for each in raw_lines(run)]


def flowed(found: list[Line]) -> list[str]:
    """What `test_flow` told, of which nothing is missing in between."""
    for worker in {each.worker for each in found}:
        numbers = [each.n for each in found if each.worker == worker]
        assert numbers == list(range(1, len(numbers) + 1))
    return [
        each.values["message"]
        for each in found
        if each.type == "hit" and each.values["nodeid"] == "test_it.py::test_flow"
    ]


@pytest.mark.sample("*SIGKILL*")
@POSIX
@pytest.mark.parametrize(
    ("ending", "exit_code"),
    [("os.kill(os.getpid(), signal.SIGKILL)", -9), ("os._exit(3)", 3), ("os.abort()", -6)],
)
def test_a_process_that_is_killed_loses_its_last_moments_only(
    tmp_path: Path, ending: str, exit_code: int
) -> None:
    """What is older than 100 ms is there, and is served."""
    run = recorded(project(tmp_path, FLOW.format(ending=ending)), TRACE)
    assert run.exit_code == exit_code
    assert not (run.run / EVENTS).exists()
    assert flowed(lines(run.run))[: len(KEPT)] == KEPT
    summary = summarize(run.run)
    assert (summary.cut_off, summary.exit_code) == (["main"], None)
    assert json.loads((run.record / "manifest.json").read_text())["format"] == 1
    with opened(tmp_path, run.record) as bench:
        state = bench.agent.call("debug_state")
        assert state["state"] == "crashed"
        hits = bench.agent.call("timeline_get", types=["hit"], max_chars=ROOM)["events"]
    assert [each["message"] for each in hits][1 : len(KEPT) + 1] == KEPT


@POSIX
def test_a_worker_that_is_killed_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    """Its test failed, as pytest-xdist says; another worker takes over."""
    kill = "os.kill(os.getpid(), signal.SIGKILL)"
    run = recorded(project(tmp_path, FLOW.format(ending=kill)), TRACE, "-n2")
    assert run.exit_code == 1
    assert "1 failed, 2 passed" in run.out
    found = lines(run.run)
    assert (run.run / EVENTS).exists()
    assert flowed(found)[: len(KEPT)] == KEPT
    (killed,) = {each.worker for each in found if each.values.get("message") == KEPT[30]}
    (reported,) = json.loads((run.record / "manifest.json").read_text())["runs"]
    assert reported["cut_off"] == [killed]
    assert (reported["outcomes"], reported["exit_code"]) == ({"failed": 1, "passed": 2}, 1)
    assert run.out.splitlines()[-1].endswith(f"0 dropped, the end of {killed} is missing")


@POSIX
def test_a_controller_that_is_killed_leaves_the_parts_of_all(tmp_path: Path) -> None:
    """Its workers end by themselves; whoever opens the record puts the parts together."""
    kill = "os.kill(os.getppid(), signal.SIGKILL)"
    run = recorded(project(tmp_path, FLOW.format(ending=kill)), TRACE, "-n2")
    assert run.exit_code == -9
    assert not (run.run / EVENTS).exists()
    assert flowed(lines(run.run))[: len(KEPT)] == KEPT
    assert "main" in summarize(run.run).cut_off
    with opened(tmp_path, run.record) as bench:
        assert bench.agent.call("debug_state")["state"] == "crashed"
        hits = bench.agent.call("timeline_get", types=["hit"], max_chars=ROOM)["events"]
    assert [each["message"] for each in hits if each["nodeid"].endswith("flow")][:50] == KEPT


QUICK = """
import json, os, signal, time, unittest
from pathlib import Path

began = {{}}

class Test(unittest.TestCase):
    pass

for number in range({count}):
    def test(self, number=number):
        began[number] = time.time()
    setattr(Test, f"test_{{number:04}}", test)

def test_end():
    Path("began").write_text(json.dumps([began, time.time()]))
    os.kill(os.getpid(), signal.SIGKILL)
"""


@POSIX
@pytest.mark.parametrize("count", [600, 900])
def test_of_quick_tests_those_of_the_last_moments_only_are_lost(tmp_path: Path, count: int) -> None:
    """Beside tests that are in and out of system calls all the time our thread hardly runs."""
    trace = "--cideldill-trace=test_it.py:15=at the end"
    run = recorded(project(tmp_path, QUICK.format(count=count)), trace)
    assert run.exit_code == -9
    began, killed = json.loads((tmp_path / "began").read_text())
    due = {
        f"test_it.py::Test::test_{number:>04}" for number, at in began.items() if at < killed - 0.1
    }
    assert len(due) > 100
    assert due <= {each.values["nodeid"] for each in lines(run.run) if each.type == "test_started"}


FALLING = """
import os, signal
import pytest

@pytest.fixture
def falling():
    yield
    os.kill(os.getpid(), signal.SIGKILL)

@pytest.mark.parametrize("number", range(20))
def test_quick(number):
    pass

def test_wrong(falling, cideldill):
    cideldill.log("wrong", number=6)
    assert 6 * 7 == 43
"""


@POSIX
def test_a_run_that_is_only_recorded_loses_nothing_when_it_is_killed(tmp_path: Path) -> None:
    """What it tells is written at once: how the last test failed is there."""
    run = recorded(project(tmp_path, FALLING))
    assert run.exit_code == -9
    found = lines(run.run)
    reported = [each.type for each in found if each.values.get("nodeid") is not None]
    assert reported == [*["test_started", "test_outcome"] * 20, "test_started", "log", "test_phase"]
    assert found[-1].values["exception"]["type"] == "AssertionError"
    with opened(tmp_path, run.record) as bench:
        (failed,) = bench.agent.call("test_results", outcome="failed")["tests"]
    assert failed["nodeid"] == "test_it.py::test_wrong"


MANY = """
def step(number):
    return number

def test_many():
    for number in range(5_000):
        step(number)

def test_wrong():
    assert step(1) == 2

def test_right():
    assert step(1) == 1
"""

MANY_TRACE = "--cideldill-trace=test_it.py:3=step {number}"

LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
os.execv(sys.executable, sys.argv[1:])
"""


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system with room for 300 kB."""
    folder = Path(tempfile.mkdtemp(prefix="cideldill-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        folder.rmdir()
        pytest.skip("no file system can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
        folder.rmdir()


def check_full(done: subprocess.CompletedProcess[str], record: Path, why: str) -> None:
    """Outcomes and exit code are pytest's own; what is there opens, what is missing is told."""
    assert done.returncode == 1
    assert "1 failed, 2 passed" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert re.search(rf"cideldill: recorded in .*; it is not complete: {why}$", last), last
    assert "is missing" in last
    (run,) = record.glob("run-*")
    found = lines(run)
    assert [each.type for each in found][:2] == ["worker_up", "add_line"]
    hits = [each for each in found if each.type == "hit"]
    assert 500 < len(hits) < 5_000
    assert f"{len(hits)} hits" in last
    assert not [path for path in run.iterdir() if path.name.endswith(".tmp")]


@pytest.mark.sample("alone")
@POSIX
@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "n2"])
def test_a_file_that_may_not_grow_changes_no_outcome(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    """`RLIMIT_FSIZE`; each process has that limit, and what is put together as well."""
    started = command("--cideldill-record=rec", MANY_TRACE, *workers)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *started],
        cwd=project(tmp_path, MANY),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S * 4,
        check=False,
    )
    check_full(done, tmp_path / "rec", "File too large")


@pytest.mark.sample("n2")
@POSIX
@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "n2"])
def test_a_full_disk_changes_no_outcome(
    tmp_path: Path, small_disk: Path, workers: tuple[str, ...]
) -> None:
    """No process finds room."""
    record = small_disk / "rec"
    done = subprocess.run(
        command(f"--cideldill-record={record}", MANY_TRACE, *workers),
        cwd=project(tmp_path, MANY),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S * 4,
        check=False,
    )
    check_full(done, record, "No space left on device")


@pytest.mark.sample("conftest.py/rec", "locked/rec")
@pytest.mark.parametrize("folder", ["conftest.py", "conftest.py/rec", "/proc/rec", "locked/rec"])
def test_a_folder_that_can_not_be_made_is_refused_at_the_start(tmp_path: Path, folder: str) -> None:
    """With a sentence that names it; no test runs."""
    project(tmp_path, MANY)
    if folder.startswith("/proc") and not Path("/proc/self").exists():
        pytest.skip("there is no /proc")
    if folder.startswith("locked"):
        (tmp_path / "locked").mkdir(mode=0o555)
        if os.access(tmp_path / "locked", os.W_OK):
            pytest.skip("this user may write everywhere")
    run = recorded(tmp_path, record=folder)
    assert run.exit_code == 4
    assert re.search(rf"ERROR: --cideldill-record: {folder}: \w", run.err), run.err
    assert "test_it" not in run.out


def test_a_record_of_a_newer_format_is_not_written_into(tmp_path: Path) -> None:
    """And stays as it is."""
    project(tmp_path, MANY)
    manifest = tmp_path / "rec" / "manifest.json"
    manifest.parent.mkdir()
    manifest.write_text('{"format": 99}')
    run = recorded(tmp_path)
    assert run.exit_code == 4
    said = "has format 99, and this pytest-cideldill reads up to 1: upgrade it, or use another"
    assert said in run.err
    assert [path.name for path in run.record.iterdir()] == ["manifest.json"]
    assert manifest.read_text() == '{"format": 99}'
