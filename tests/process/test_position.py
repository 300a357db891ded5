"""The last position of a process: written at every phase, readable after any death."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_cideldill.protocol.current_test_file import PositionFile, read_position
from tests.each_case import for_each


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "r1-main-1.position")


def reported(path: str) -> tuple[str, str] | None:
    read = read_position(path)
    return None if read is None else read[:2]


@pytest.mark.parametrize(
    ("phase", "nodeid"),
    [
        ("call", "test_a.py::test_b"),
        ("setup", "tests/test_ü.py::test_x[\n é 😀]"),
        ("teardown", "test_a.py::test_b[" + "x" * 3000 + "]"),
    ],
)
def test_what_was_written_is_read(path: str, phase: str, nodeid: str) -> None:
    """Node ids may hold anything, line breaks included; the phase ends at the first one."""
    position = PositionFile(path)
    position.write(phase, nodeid)
    assert reported(path) == (phase, nodeid)
    position.close()
    assert reported(path) == (phase, nodeid)


def test_the_newest_position_counts_whatever_was_longer_before(path: str) -> None:
    """Nothing of an old text may shine through."""
    position = PositionFile(path)
    for nodeid in ("a" * 500, "b", "c" * 50, "d"):
        position.write("call", nodeid)
        assert reported(path) == ("call", nodeid)
    position.close()


def test_the_time_is_that_of_the_clock_that_all_processes_share(path: str) -> None:
    """How long a phase lasts is told while it does not end."""
    position = PositionFile(path)
    before = time.monotonic()
    position.write("call", "test_a")
    read = read_position(path)
    assert read is not None
    assert before <= read.since <= time.monotonic()
    position.close()


def test_between_tests_there_is_no_position(path: str) -> None:
    """Both empty: a crash then is nobody's."""
    position = PositionFile(path)
    assert read_position(path) is None
    position.write("call", "test_a")
    position.write("", "")
    assert read_position(path) is None
    position.close()


@pytest.mark.parametrize("text", ["x" * 100_000, "é" * 50_000, "\ud800" * 5_000])
def test_a_text_that_is_too_long_is_cut_and_never_an_error(path: str, text: str) -> None:
    """`PositionFile`: methods never raise for long node ids; 4 KiB are there."""
    position = PositionFile(path)
    position.write("call", text)
    read = read_position(path)
    assert read is not None
    assert read[0] == "call"
    assert len(read[1]) > 1000
    position.close()


@for_each("content", [b"", b"\0\0", b"\xff" * 4096, b"\0\0\0\x05abc", b"\0" * 4096])
def test_a_file_that_is_damaged_gives_no_position_or_a_text(path: str, content: bytes) -> None:
    """The reader is the front end: no test process may make it fail."""
    Path(path).write_bytes(content)
    read = read_position(path)
    assert read is None or all(isinstance(part, str) for part in read[:2])


def test_a_file_that_is_not_there_gives_no_position(path: str) -> None:
    """The process never came that far, or ran on another machine."""
    assert read_position(path) is None


def test_only_the_owner_can_read_the_file(path: str) -> None:
    """What is ours on disk is private."""
    position = PositionFile(path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    position.close()


@pytest.mark.full
@pytest.mark.quick("os.abort*")
@pytest.mark.parametrize(
    ("death", "status"),
    [
        ("os.abort()", -signal.SIGABRT),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os._exit(3)", 3),
        ("ctypes.string_at(0)", -signal.SIGSEGV),
    ],
)
def test_the_position_survives_any_death(path: str, death: str, status: int) -> None:
    """Crashes are told with the last test."""
    script = (
        "import ctypes, os, resource, signal, sys\n"
        "from pytest_cideldill.protocol.current_test_file import PositionFile\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "PositionFile(sys.argv[1]).write('call', 'test_x.py::test_crash')\n"
    )
    command = [sys.executable, "-c", script + death, path]
    assert subprocess.run(command, check=False, timeout=30).returncode == status
    assert reported(path) == ("call", "test_x.py::test_crash")
