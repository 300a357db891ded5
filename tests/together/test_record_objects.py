"""Objects of recorded runs, where a file system or a limit refuses what keeps them."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pytest_cideldill.objects.store import CIDStore
from pytest_cideldill.records.merge import raw_lines
from pytest_cideldill.records.reader import object_files
from tests.together.driver import DEADLINE_S
from tests.together.frontend import FEW_GUESTS
from tests.together.records import Recorded, command

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX"),
]

CALLS = "--cideldill-record-calls=test_it.*"

FREE = "resource.RLIM_INFINITY"
PROJECT = """
    import resource, time

    def kept(values):
        return {"all": values}

    def limit_files(most):
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))

    def test_before():
        assert kept([1, 2])

    def test_tight():
        limit_files(%(most)s)
        for number in range(20):
            kept([number, "x" * %(size)s])
        time.sleep(0.3)
        kept("tight")

    def test_after():
        limit_files(%(then)s)
        assert kept("after")

    def test_wrong():
        assert kept("wrong") is None
"""

REFUSING = """
    import ctypes, errno, os, struct, sys
    def rule(code, true, false, value):
        return struct.pack("HBBI", code, true, false, value)
    LOAD, EQUAL, BITS, RETURN = 0x20, 0x15, 0x45, 0x06
    REFUSED, ALLOWED = 0x00050000 | errno.%(error)s, 0x7FFF0000
    filter = b"".join([
        rule(LOAD, 0, 0, 0),
        rule(EQUAL, 0, 4, 72), # fcntl
        rule(LOAD, 0, 0, 24),
        rule(EQUAL, 1, 0, 6), # F_SETLK
        rule(EQUAL, 0, 7, 7), # F_SETLKW
        rule(RETURN, 0, 0, REFUSED),
        rule(EQUAL, 0, 5, 9), # mmap
        rule(LOAD, 0, 0, 40),
        rule(BITS, 0, 3, 1), # MAP_SHARED
        rule(LOAD, 0, 0, 48),
        rule(EQUAL, 1, 0, 0xFFFFFFFF), # of no file
        rule(RETURN, 0, 0, REFUSED),
        rule(RETURN, 0, 0, ALLOWED),
    ])
    libc = ctypes.CDLL(None, use_errno=True)
    text = ctypes.create_string_buffer(filter)
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
    program = Program(len(filter) // 8, ctypes.addressof(text))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0):
        sys.exit("no filter of system calls can be had here")
    os.execv(sys.executable, sys.argv[1:])
"""
"""A file system that refuses locks, and to share maps of its files: what the kernel answers."""


def project(
    folder: Path, most: object = FREE, then: object = FREE, size: int = 1_000, conftest: str = ""
) -> Path:
    """Whose files may have `most` bytes while one test runs, and `then` afterwards."""
    values = {"most": most, "then": then, "size": size}
    (folder / "test_it.py").write_text(textwrap.dedent(PROJECT % values))
    (folder / "conftest.py").write_text(textwrap.dedent(conftest))
    return folder


def run(folder: Path, *arguments: str, before: str = "") -> Recorded:
    started = command("--cideldill-record=rec", CALLS, *arguments)
    if before:
        started = [sys.executable, "-c", textwrap.dedent(before), *started]
    done = subprocess.run(
        started,
        cwd=folder,
        env={**os.environ, **FEW_GUESTS},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S * 4,
        check=False,
    )
    return Recorded(folder / "rec", done.returncode, done.stdout, done.stderr)


def named(found: Recorded) -> set[str]:
    """The objects that the calls name."""
    calls = [each.text.decode() for each in raw_lines(found.run) if each.type == b"call"]
    return set(re.findall(r"\b[0-9a-f]{128}\b", "".join(calls)))


def kept(found: Recorded, *, one_file: bool = True) -> set[str]:
    """Those of them that can be read, from one file with nothing beside it."""
    files = object_files(found.run)
    names = sorted(each.name for each in found.run.iterdir())
    if one_file:
        assert [each.name for each in files] == ["objects.sqlite"], found.out
        assert names == ["events.jsonl", "objects.sqlite", "run.json"]
    assert not [each for each in names if each.endswith(("-wal", "-shm", "-journal", ".tmp"))]
    stores = [CIDStore(each, is_reader=True) for each in files]
    cids = {cid for cid in named(found) if any(each.description(cid) for each in stores)}
    for each in stores:
        each.close()
    return cids


@pytest.mark.sample("EIO", "ENOLCK")
@pytest.mark.skipif(
    platform.machine() != "x86_64" or not hasattr(ctypes.CDLL(None), "prctl"),
    reason="a filter of system calls of Linux, by the numbers of x86_64",
)
@pytest.mark.parametrize("error", ["EIO", "ENOLCK", "EAGAIN", "ENODEV"])
def test_a_file_system_without_locks_and_shared_maps_keeps_all_objects(
    tmp_path: Path, error: str
) -> None:
    """As NFS without its lock daemon, FUSE and 9p do."""
    root = project(tmp_path)
    found = run(root, before=REFUSING % {"error": error})
    assert found.exit_code == 1, found.err
    assert "not complete" not in found.out
    assert kept(found) == named(found) != set()


@pytest.mark.parametrize("most", [1, 3_000])
def test_what_a_disk_does_not_take_for_a_while_is_kept_later(tmp_path: Path, most: int) -> None:
    """Of the objects; lines that it did not take are counted."""
    found = run(project(tmp_path, most))
    assert found.exit_code == 1
    assert "1 failed, 3 passed" in found.out
    assert "objects could not be kept" not in found.out
    assert kept(found) == named(found) != set()
    store = CIDStore(found.run / "objects.sqlite", is_reader=True)
    assert len(store) > 40  # those of calls that no line tells as well
    store.close()


@pytest.mark.sample("worker")
@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "worker"])
def test_what_a_disk_never_takes_is_counted_and_reported(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    """In the last line, and among the warnings of the record."""
    found = run(project(tmp_path, 60_000, 60_000, 100_000), *workers)
    assert "1 failed, 3 passed" in found.out
    words = r"not complete: .*\b(\d+) objects could not be kept: File too large"
    reported = re.search(words, found.out)
    assert reported is not None, found.out
    assert int(reported[1]) > 10  # how many fit before depends on who is faster
    assert "objects could not be kept" in found.of("warning")[-1]["message"]
    assert kept(found)


HOARDING = """
    import os, resource, threading

    def pytest_configure(config):
        config.add_cleanup(hoard)

    def hoard():
        hardest = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        most, hardest = %(limits)s
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hardest))
        held = []
        try:
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            give_back = lambda: [os.close(each) for each in held]
        if held:
            threading.Timer(0.7, give_back).start()
"""


@pytest.mark.parametrize("limits", ["3, hardest", "100, 100"], ids=["raised", "awaited"])
def test_descriptors_that_are_used_up_for_a_moment_cost_no_object(
    tmp_path: Path, limits: str
) -> None:
    """When the run is over and its files are put together; where more are allowed, they are had."""
    found = run(project(tmp_path, conftest=HOARDING % {"limits": limits}))
    assert found.exit_code == 1
    assert "1 failed, 3 passed" in found.out
    assert "not complete" not in found.out
    assert kept(found) == named(found) != set()


def test_descriptors_that_are_used_up_for_good_leave_the_objects_where_they_are(
    tmp_path: Path,
) -> None:
    """They can be read there, and the last line says why nothing was put together."""
    found = run(project(tmp_path, conftest=HOARDING % {"limits": "3, 3"}))
    assert found.exit_code == 1
    assert "1 failed, 3 passed" in found.out
    assert "not complete: Too many open files" in found.out
    assert kept(found, one_file=False) == named(found) != set()


def test_a_folder_that_takes_no_new_file_leaves_the_objects_where_they_are(tmp_path: Path) -> None:
    """As one that is read-only, or whose user has no more room: the last line says so."""
    conftest = """
        import pathlib, resource, time

        def tighten():
            (objects,) = pathlib.Path("rec").rglob("*.objects")
            until = time.monotonic() + 20
            while objects.read_bytes().count(b"wrong") < 5:  # the last call's objects
                assert time.monotonic() < until
                time.sleep(0.01)
            resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, -1))

        def pytest_configure(config):
            config.add_cleanup(tighten)
    """
    found = run(project(tmp_path, size=10_000, conftest=conftest))
    assert found.exit_code == 1
    assert "objects in 1 file of its processes: " in found.out
    assert kept(found, one_file=False) == named(found) != set()
