"""Records are input from strangers: whatever they hold, the rest is told, and nothing hangs.

Made by changing what a real run has recorded: bytes, lines, the values of fields at any depth, and
files of odd kinds. Each comes from a seed, so that one that fails can be made again.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_cideldill.objects.store import READ_S
from pytest_cideldill.records.format import EVENTS, MANIFEST
from tests.process.slowstore import slow_store
from tests.process.written import Writer, call, write
from tests.together.driver import DEADLINE_S
from tests.together.opened import opened
from tests.together.records import recorded

pytestmark = pytest.mark.long(55)

RUNS = 25
"""Of one record, each changed in another way."""

PROJECT = """
import pytest

def total(prices):
    amount = 0
    for price in prices:
        amount += price
    return amount

@pytest.fixture
def prices(): return [1, 2]

@pytest.mark.parametrize("expected", [3, 4])
def test_total(prices, expected, cideldill):
    cideldill.log("before", n=1)
    print("printed")
    assert total(prices) == expected

def test_raises():
    try:
        {}["x"]
    except KeyError as error:
        raise ValueError("no price") from error
"""

WATCHED = (
    "--cideldill-trace=test_it.py:7 => {price} of {prices}",
    "--cideldill-record-calls=test_it.*",
)

ODD: tuple[Any, ...] = (
    None, 5, -1, 10**400, 1e308, 1.5, True, "x", "", "\x1b[31m\u202e", [], [1], [None], {},
    {"a": 1}, {"file": 1}, [[]], [{}],
)  # fmt: skip
"""What may stand where something else is expected."""


def places(value: Any) -> list[tuple[Any, Any]]:
    """Each container in a value, and each key or index of it."""
    keys: Any = range(len(value)) if isinstance(value, list) else value
    own = [(value, key) for key in keys] if isinstance(value, (dict, list)) else []
    return own + [each for container, key in own for each in places(container[key])]


def other_value(line: bytes, chance: random.Random) -> bytes:
    made = json.loads(line)
    container, key = chance.choice(places(made))
    container[key] = chance.choice(ODD)
    return json.dumps(made, separators=(",", ":")).encode() + b"\n"


def less(line: bytes, chance: random.Random) -> bytes:
    made = json.loads(line)
    container, key = chance.choice(places(made))
    del container[key]
    return json.dumps(made, separators=(",", ":")).encode() + b"\n"


def other_bytes(line: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(line))
    return line[:at] + chance.randbytes(chance.randrange(1, 8)) + line[at + chance.randrange(8) :]


def longer(line: bytes, chance: random.Random) -> bytes:
    return line[:-2] + chance.choice([b"[" * 50_000, b'{"a":' * 50_000, b" " * 500_000]) + b"}\n"


LINES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(other_value,) * 6, *(less,) * 3, other_bytes, longer,
)  # fmt: skip


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "main-1.part.jsonl")
    (folder / EVENTS).unlink()
    os.mkfifo(folder / EVENTS)


def device(folder: Path) -> None:
    (folder / EVENTS).unlink()
    (folder / EVENTS).symlink_to("/dev/zero")


def outside(folder: Path) -> None:
    shutil.copyfile(folder / EVENTS, folder.parent.parent / "secret")
    (folder / EVENTS).unlink()
    (folder / EVENTS).symlink_to("../../secret")


def directory(folder: Path) -> None:
    (folder / EVENTS).unlink()
    (folder / EVENTS).mkdir()


def endless(folder: Path) -> None:
    """A line that does not end, of zeros that take no room."""
    with (folder / EVENTS).open("r+b") as file:
        file.truncate(300_000_000)


def manifest(folder: Path) -> None:
    for name in (folder / "run.json", folder.parent / MANIFEST):
        name.unlink(missing_ok=True)
        name.write_bytes(b'{"format":' + b"[" * 200_000)


def objects(folder: Path) -> None:
    for each in folder.glob("objects.sqlite*"):
        each.unlink()
        each.write_bytes(b"SQLite format 3\0" + b"x" * 5_000)


def pipe_of_objects(folder: Path) -> None:
    (folder / "objects.sqlite").unlink(missing_ok=True)
    os.mkfifo(folder / "objects.sqlite")


def endless_objects(folder: Path) -> None:
    """A view that never ends in the place of the table."""
    path = folder / "objects.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript(
            "DROP TABLE objects; CREATE VIEW objects AS WITH RECURSIVE more(cid) AS"
            " (SELECT 1 UNION ALL SELECT cid + 1 FROM more)"
            " SELECT cid, '{}' AS description, NULL AS data FROM more WHERE cid < 0"
        )


FILES = (
    pipe, device, outside, directory, endless, manifest, objects, pipe_of_objects, endless_objects,
)  # fmt: skip


def changed(folder: Path, chance: random.Random) -> None:
    """Change one thing of a run, now and then several."""
    if chance.random() < 0.1:
        chance.choice(FILES)(folder)
        return
    lines = (folder / EVENTS).read_bytes().splitlines(keepends=True)
    for _ in range(chance.choice([1, 1, 1, 5])):
        at = chance.randrange(len(lines))
        if chance.random() < 0.1:
            lines.insert(at, chance.choice(lines))
            continue
        with contextlib.suppress(ValueError, RecursionError):  # it was changed before
            lines[at] = chance.choice(LINES)(lines[at], chance)
    (folder / EVENTS).write_bytes(b"".join(lines))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run."""
    root = tmp_path_factory.mktemp("real")
    (root / "test_it.py").write_text(PROJECT)
    run = recorded(root, *WATCHED)
    assert run.exit_code == 1
    return run.run


def record_of(tmp_path: Path, real: Path, seed: int) -> Path:
    record = tmp_path / "rec"
    for number in range(RUNS):
        folder = record / f"run-20260101T0000{number:02}.000Z-c{number}"
        shutil.copytree(real, folder)
        if number:  # one is as it was
            changed(folder, random.Random(seed * RUNS + number))
    return record


def command(*arguments: object, cwd: Path) -> str:
    """What `cideldill` prints; it ends without a traceback, in time and within its memory."""
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (900_000_000,) * 2); "
        "from pytest_cideldill.cli import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
    assert all(each.startswith("cideldill: left out: ") for each in done.stderr.splitlines())
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", done.stdout)
    return done.stdout


TOOLS: dict[str, dict[str, Any]] = {
    "test_list": {},
    "breakpoint_get_call_records": {"limit": 100, "max_chars": 100_000},
    "breakpoint_list": {},
    "timeline_get": {"limit": 200, "max_chars": 100_000},
}
RESOURCES = ("debugger://session", "debugger://breakpoints", "debugger://threads")


def look(tmp_path: Path, record: Path) -> None:
    """Ask all that reads; a bug of ours would be an error of the kind `internal_error`."""
    with opened(tmp_path, record) as bench:
        while bench.agent.call("debug_state")["state"] == "starting":
            pass
        for tool, arguments in TOOLS.items():
            bench.agent.call(tool, **arguments)
        for number in range(1, int(bench.agent.call("debug_state")["run_id"][1:]) + 1):
            of_run = {"run_id": f"r{number}"}
            tests = bench.agent.call("test_results", **of_run, max_chars=100_000)["tests"]
            for test in tests:
                if test["outcome"] == "failed":
                    asked = {"nodeid": test["nodeid"], **of_run}
                    reported = bench.agent.raw("exception_get_context", asked).content[0].text
                    assert "bug of pytest-cideldill" not in reported
        for call in bench.agent.call("breakpoint_get_call_records", limit=100)["calls"]:
            for cid in filter(None, call["cids"]["args"]):
                bench.agent.raw("breakpoint_inspect_object", {"cid": cid})
        for uri in RESOURCES:
            bench.agent.read(uri)


def check(tmp_path: Path, real: Path, seed: int) -> None:
    record = record_of(tmp_path, real, seed)
    reported = command("show", record, cwd=tmp_path)
    assert reported.count("run-20260101T") >= 1
    assert "FAILED test_it.py::test_raises" in reported
    command("report", record, cwd=tmp_path)
    look(tmp_path, record)
    assert not list(record.rglob("*.tmp"))


@pytest.mark.full
def test_a_page_is_written_through_no_link(tmp_path: Path, real: Path) -> None:
    """Of names that processes would take next, and of the page itself."""
    record = tmp_path / "rec"
    shutil.copytree(real, record / real.name)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (record / "report.html").symlink_to(victim)
    for number in range(os.getpid(), os.getpid() + 3_000):
        for name in ("report.html", MANIFEST, "run.json"):
            (record / f"{name}.{number}.tmp").symlink_to(victim)
    (record / real.name / f"{EVENTS}.tmp").symlink_to(victim)
    command("report", record, cwd=tmp_path)
    (tmp_path / "test_it.py").write_text(PROJECT)
    assert recorded(tmp_path, *WATCHED).exit_code == 1
    assert victim.read_text() == "mine"
    assert not (record / "report.html").is_symlink()


@pytest.mark.full
@pytest.mark.sample("0", "1")
@pytest.mark.parametrize("seed", range(20))
def test_five_hundred_changed_runs_are_reported(tmp_path: Path, real: Path, seed: int) -> None:
    check(tmp_path, real, seed)


@pytest.mark.soak
@pytest.mark.parametrize("hundred", range(10))
def test_five_thousand_changed_runs_are_reported(tmp_path: Path, real: Path, hundred: int) -> None:
    for number in range(20):
        each = tmp_path / str(number)
        each.mkdir()
        check(each, real, 1_000 + hundred * 20 + number)
        shutil.rmtree(each)


@pytest.mark.full
def test_a_store_that_takes_years_to_read_ends_at_its_deadline(tmp_path: Path) -> None:
    """Once, however many objects are named; all else of the record is told."""
    worker = Writer().begin()
    cids: dict[str, Any] = {
        "args": [f"{number:0128x}" for number in range(20)],
        "kwargs": {},
        "result": None,
    }
    worker.test("test_it", call("c1.1", cids=cids))
    run = write(tmp_path / "rec", worker.end(0))
    slow_store(run / "objects.sqlite")
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest_cideldill", "report", str(tmp_path / "rec")],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S * 2,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert READ_S <= time.monotonic() - began < 2 * READ_S
    assert "test_it" in (tmp_path / "rec" / "report.html").read_text(encoding="utf-8")
