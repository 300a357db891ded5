"""Records of very much: what is told is bounded, what is left out is said, and counts are exact."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_cideldill.reports.bounds import MOST
from tests.process.written import Writer, write
from tests.together.driver import DEADLINE_S
from tests.together.opened import ROOM, opened

pytestmark = pytest.mark.full

MORE = 70
BEYOND = "only counted, as there are too many"
KINDS = {"passed test": "passed", "other test": "skipped", "failure": "failed", "note": "passed"}


def begun() -> Writer:
    about = {"run_id": "c1", "python": "3.12.1", "pytest": "9.0.0", "rootdir": "/project", "pid": 1}
    engine = {"name": "sys.monitoring", "why": "Python 3.12.1 has it"}
    return Writer().append("worker_up", **about, engine=engine)


def reported(worker: Writer, kind: str, number: int) -> None:
    if kind == "note":
        worker.append("log", nodeid=None, message=f"note {number}", values={})
    elif kind == "tracepoint":
        place = {"file": "shop.py", "line": 5, "function": "total"}
        hit = {"thread": 1, "location": place, "hit_count": 1, "message": "here", "nodeid": None}
        worker.append("hit", breakpoint_id=f"tp-{number}", **hit)
    elif kind == "passed test":
        worker.test(f"test_it[{number}]")
    else:
        category = KINDS[kind]
        failure = {"category": category, "outcome": category, "autopsy": None}
        worker.test(f"test_it[{number}]", failure=failure)


def large(record: Path, kind: str) -> None:
    """A record with more of one kind than is told one by one."""
    worker = begun()
    for number in range(MOST[kind] + MORE):
        reported(worker, kind, number)
    write(record, worker.end(1 if kind == "failure" else 0))


def cideldill(*arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest_cideldill", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S * 2,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.sample("failure", "note", "tracepoint")
@pytest.mark.parametrize("kind", ["passed test", "other test", "failure", "note", "tracepoint"])
def test_what_is_beyond_a_bound_is_counted_and_said_to_people(tmp_path: Path, kind: str) -> None:
    """In the terminal and on the page; the counts of outcomes are those of all tests."""
    large(tmp_path / "rec", kind)
    shown = cideldill("show", tmp_path / "rec")
    (said,) = (each for each in shown.splitlines() if each.endswith(BEYOND))
    assert f"{MORE} {kind}s" in said
    if kind in ("passed test", "other test", "failure"):
        assert f" {MOST[kind] + MORE:,} {KINDS[kind]}" in shown.splitlines()[-1]
    cideldill("report", tmp_path / "rec", "-o", tmp_path / "page.html")
    assert said in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.sample("other test", "passed test")
@pytest.mark.parametrize("kind", ["passed test", "other test", "failure"])
def test_what_is_beyond_a_bound_is_counted_and_said_to_clients(tmp_path: Path, kind: str) -> None:
    """In `warnings`; the counts are those of all tests, and those that are held are told."""
    large(tmp_path / "rec", kind)
    with opened(tmp_path, tmp_path / "rec") as bench:
        state = bench.agent.call("debug_state", max_chars=ROOM)
        results = bench.agent.call("test_results", limit=3)
    (said,) = (each for each in state["warnings"] if each.endswith(BEYOND))
    assert f"{MORE} {kind}s" in said
    assert state["outcomes"][KINDS[kind]] == MOST[kind] + MORE
    assert len(results["tests"]) == 3


def test_lines_without_sense_are_counted_however_many_there_are(tmp_path: Path) -> None:
    """The tools answer when all are read."""
    run = write(tmp_path / "rec", begun())
    line = b'{"n":9,"ts":1790000001,"type":"test_outcome","worker":"main","nodeid":7}'
    with (run / "events.jsonl").open("ab") as file:
        file.write((line + b"\n") * 100_000)
    with opened(tmp_path, tmp_path / "rec") as bench:
        state = bench.agent.call("debug_state")
    assert "100,000 lines of the record made no sense and were passed over" in state["warnings"]
