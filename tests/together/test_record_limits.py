"""A hot tracepoint can't fill the disk: what is dropped is counted and shown, the rest is there."""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pytest_cideldill.records.quota import MAX_ROWS_PER_S
from tests.together.records import Recorded, recorded

pytestmark = pytest.mark.long(40)

HOT = """
import warnings
import pytest

def step(number):
    return number

@pytest.mark.parametrize("part", range(4))
def test_hot(part):
    for number in range({count}):
        step(number)

@pytest.mark.parametrize("part", range(4))
def test_wrong(part):
    assert step(part) == -1
"""

TRACE = "--cideldill-trace=test_it.py:6=step {number}"
CALLS = "--cideldill-record-calls=test_it.step"
SMALLEST = 65_536
OVER = 4_000
"""Bytes by which a last line, and lines that are never dropped between hits, may go beyond."""


def run_hot(tmp_path: Path, count: int, *options: str, ini: str = "") -> Recorded:
    (tmp_path / "test_it.py").write_text(textwrap.dedent(HOT).replace("{count}", str(count)))
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{ini}")
    run = recorded(tmp_path, *options)
    assert run.exit_code == 1
    assert "4 failed, 4 passed" in run.out
    return run


def is_slow(run: Recorded, type: str) -> bool:
    """Whether so few rows were made in each second that none need be dropped.

    Two of the seconds in which rows are counted may share one of any clock.
    """
    stamps = [row["ts"] for row in run.of(type)]
    pairs = zip(stamps, stamps[2 * MAX_ROWS_PER_S :], strict=False)
    return all(last - first >= 0.9 for first, last in pairs)


def check_reported(
    run: Recorded, wanted: dict[str, int], *, may_keep_all: bool = False
) -> dict[str, Any]:
    """Every row is there or counted, in all places alike; nothing else is missing."""
    events = run.events
    dropped: Counter[str] = Counter()
    for worker in {each["worker"] for each in events}:
        own = [each for each in events if each["worker"] == worker]
        numbers = [each["n"] for each in own]
        assert numbers == sorted(set(numbers))
        reported: Counter[str] = Counter()
        for each in own:
            if each["type"] == "dropped":
                reported.update(each["rows"])
        assert numbers[-1] - len(own) == reported.total()
        dropped += reported
    assert {type: len(run.of(type)) + dropped[type] for type in wanted} == wanted
    (summary,) = json.loads((run.record / "manifest.json").read_text())["runs"]
    assert summary["dropped"] == dropped.total()
    assert dropped.total() > 0 or may_keep_all
    assert summary["outcomes"] == {"failed": 4, "passed": 4}
    assert run.out.splitlines()[-1].endswith(f", {dropped.total()} dropped")
    assert len(run.of("test_outcome")) == len(run.of("test_started")) == 8
    assert len([each for each in run.of("test_phase") if "autopsy" in each]) == 4
    reported_summary: dict[str, Any] = summary
    return reported_summary


@pytest.mark.full
@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "n2"])
def test_hits_and_calls_take_so_many_bytes_of_a_run(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    """`cideldill_max_log_bytes`, for all processes together."""
    ini = f"cideldill_max_log_bytes = {SMALLEST}"
    run = run_hot(tmp_path, 500, TRACE, CALLS, *workers, ini=ini)
    check_reported(run, {"hit": 2_004, "call": 2_004})
    lines = (run.run / "events.jsonl").read_bytes().splitlines()
    rows = sum(len(line) for line in lines if re.search(rb'"type":"(hit|call)"', line[:80]))
    assert SMALLEST / 3 < rows < SMALLEST + OVER


@pytest.mark.full
def test_in_any_second_so_many_hits_are_written(tmp_path: Path) -> None:
    """So that something is left for the tests behind."""
    count = MAX_ROWS_PER_S * 2
    run = run_hot(tmp_path, count, TRACE)
    check_reported(run, {"hit": count * 4 + 4})
    tests = Counter(each["nodeid"] for each in run.of("hit"))
    assert max(tests.values()) < count
    stamps = [each["ts"] for each in run.of("hit")]
    most = max(
        sum(stamp <= other < stamp + 1 for other in stamps[at : at + MAX_ROWS_PER_S * 2 + 1])
        for at, stamp in enumerate(stamps)
        if at % 5_000 == 0
    )
    assert most <= MAX_ROWS_PER_S * 2  # two of our seconds share one of theirs


@pytest.mark.soak
def test_the_calls_of_a_hot_function_are_limited_the_same(tmp_path: Path) -> None:
    """Each row is a call here."""
    count = MAX_ROWS_PER_S
    run = run_hot(tmp_path, count, CALLS)
    is_kept = len(run.of("call")) == count * 4 + 4 and is_slow(run, "call")
    check_reported(run, {"call": count * 4 + 4}, may_keep_all=is_kept)
    assert is_kept or len(run.of("call")) < count * 4
