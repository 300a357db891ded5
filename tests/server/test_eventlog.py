"""The merged event log: numbers, filters, cursors, memory and file, caps, observers, waiting.

Expectations: contract, section 4 (the log), issue 3, item 3.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cideldill_mcp import eventlog
from cideldill_mcp.eventlog import EventLog
from cideldill_mcp.eventlog import Filter
from tests.server.processes import in_loop

ALL = Filter()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    """A log with a folder; events leave memory after the 20th, ten at a time."""
    made = EventLog()
    made.keep_in(tmp_path)
    yield made
    made.close()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eventlog, "RING", 10)
    monkeypatch.setattr(eventlog, "_INDEX_STEP", 4)


def fill(log: EventLog, count: int, **values: Any) -> None:
    for number in range(count):
        log.append("call", **{"run_id": "r1", "number": number, **values})


def numbers(events: list[dict[str, Any]]) -> list[int]:
    return [event["seq"] for event in events]


# --- numbers, filters, cursors ------------------------------------------------------------------


def test_events_are_numbered_from_one_without_gaps_over_all_runs(log: EventLog) -> None:
    """Contract: one counter for the front end's life."""
    assert log.last_seq == 0
    assert [log.append("stop", run_id=f"r{n % 2}") for n in range(5)] == [1, 2, 3, 4, 5]
    assert log.last_seq == 5
    assert numbers(log.read(0, 10, ALL)[0]) == [1, 2, 3, 4, 5]


def test_an_event_keeps_its_type_values_and_the_time_of_its_process(log: EventLog) -> None:
    """Contract: `ts` is that of the process; across processes it gives the order."""
    log.append("stop", ts=12.5, run_id="r1", nodeid="t::x")
    log.append("stop", run_id="r1")
    first, second = log.read(0, 10, ALL)[0]
    assert first == {"seq": 1, "ts": 12.5, "type": "stop", "run_id": "r1", "nodeid": "t::x"}
    assert second["ts"] > 1e9


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (ALL, [1, 2, 3, 4, 5, 6, 7, 8]),
        (Filter(types={"stop"}), [1, 3, 5, 7]),
        (Filter(types={"stop", "failure"}), [1, 2, 3, 4, 5, 6, 7, 8]),
        (Filter(types=()), []),
        (Filter(nodeid="a"), [1, 2, 5, 6]),
        (Filter(run_id="r2"), [5, 6, 7, 8]),
        (Filter({"failure"}, "b", "r1"), [4]),
        (Filter(nodeid="unknown"), []),
    ],
)
def test_a_filter_admits_what_fits_in_every_respect(
    log: EventLog, wanted: Filter, expected: list[int]
) -> None:
    """`types`, `nodeid` and `run_id` of `timeline_get`."""
    for run_id in ("r1", "r2"):
        for nodeid in ("a", "b"):
            log.append("stop", run_id=run_id, nodeid=nodeid)
            log.append("failure", run_id=run_id, nodeid=nodeid)
    found, cursor = log.read(0, 100, wanted)
    assert numbers(found) == expected
    assert cursor == 8
    assert numbers(log.newest(100, wanted)) == expected
    assert log.count(0, wanted) == len(expected)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_pages_put_together_are_all_events_once(log: EventLog, limit: int) -> None:
    """A cursor never skips or repeats, in memory, in the file and across."""
    for number in range(47):
        log.append("stop" if number % 3 else "failure", run_id="r1")
    wanted = Filter(types={"stop"})
    seen: list[int] = []
    cursor = 0
    while True:
        page, following = log.read(cursor, limit, wanted)
        assert following >= cursor
        seen += numbers(page)
        if not page:
            break
        assert len(page) <= limit
        cursor = following
    assert seen == [seq for seq in range(1, 48) if (seq - 1) % 3]
    assert log.read(cursor, limit, wanted) == ([], 47)


def test_a_cursor_at_or_behind_the_end_stays_where_it_is(log: EventLog) -> None:
    """Nothing new: the same cursor comes back."""
    fill(log, 3)
    assert log.read(3, 10, ALL) == ([], 3)
    assert log.read(99, 10, ALL) == ([], 99)
    assert log.read(0, 0, ALL) == ([], 0)


def test_the_newest_are_told_oldest_first_and_only_behind_a_cursor(log: EventLog) -> None:
    """Contract, section 5: the newest of the log, oldest first."""
    fill(log, 9)
    assert numbers(log.newest(3, ALL)) == [7, 8, 9]
    assert numbers(log.newest(3, ALL, after=7)) == [8, 9]
    assert log.count(7, ALL) == 2


# --- memory and file ----------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("total", [19, 20, 21, 40, 55])
def test_every_event_can_be_read_wherever_it_is(log: EventLog, total: int) -> None:
    """In memory a ring, behind it a file."""
    fill(log, total)
    for after in range(total + 1):
        found, cursor = log.read(after, 1000, ALL)
        assert numbers(found) == list(range(after + 1, total + 1))
        assert [event["number"] for event in found] == list(range(after, total))
        assert cursor == total
    assert numbers(log.read(3, 4, ALL)[0]) == [4, 5, 6, 7]
    assert log.last_seq == total


@pytest.mark.usefixtures("small")
def test_the_file_holds_one_line_of_json_per_event(log: EventLog, tmp_path: Path) -> None:
    """What left memory is in the run directory; surrogates and odd numbers included."""
    fill(log, 20, text="é\udc80\n", value=float("inf"))
    log.close()
    lines = (tmp_path / "events.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, 11))
    assert json.loads(lines[0])["text"] == "é\udc80\n"


@pytest.mark.usefixtures("small")
def test_without_a_folder_old_events_are_forgotten(log: EventLog) -> None:
    """And the numbers go on."""
    bare = EventLog()
    fill(bare, 25)
    assert numbers(bare.read(0, 100, ALL)[0]) == list(range(11, 26))
    assert bare.last_seq == 25


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("way", ["no folder", "full disk"])
def test_a_disk_that_takes_nothing_costs_only_what_left_memory(tmp_path: Path, way: str) -> None:
    """Appending never fails: a process under test would lose its connection by it."""
    log = EventLog()
    log.keep_in(tmp_path / "absent" if way == "no folder" else tmp_path)
    if way == "full disk":
        (tmp_path / "events.jsonl").symlink_to("/dev/full")
    fill(log, 55, text="x" * 5000)
    found, cursor = log.read(0, 100, ALL)
    assert numbers(found) == list(range(41, 56))
    assert (cursor, log.last_seq) == (55, 55)
    log.close()


@pytest.mark.usefixtures("small")
def test_a_full_run_drops_and_counts_calls_and_hits_only(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contract: beyond the cap hits are counted as `dropped`; stops and outcomes never are."""
    monkeypatch.setattr(eventlog, "MAX_RUN_BYTES", 100)
    fill(log, 20)
    assert log.append("call", run_id="r1") == log.append("hit", run_id="r1") == 0
    for type in ("stop", "resumed", "test_outcome", "failure", "run_finished", "warning"):
        assert log.append(type, run_id="r1") == log.last_seq
    assert log.append("call", run_id="r2") == 27
    assert (log.dropped["r1"], log.dropped["r2"], log.dropped.total()) == (2, 0, 2)
    assert numbers(log.read(0, 100, ALL)[0]) == list(range(1, 28))


# --- observers and waiters ----------------------------------------------------------------------


def test_observers_get_every_event_once_in_order_until_undone(log: EventLog) -> None:
    """Also when one leaves while an event is told."""
    told: list[tuple[str, int]] = []

    def leaving(event: dict[str, Any]) -> None:
        told.append(("one", event["seq"]))
        undo_one()

    undo_one = log.observe(leaving)
    undo_two = log.observe(lambda event: told.append(("two", event["seq"])))
    log.append("stop")
    log.append("stop")
    undo_two()
    log.append("stop")
    assert told == [("one", 1), ("two", 1), ("two", 2)]


def test_a_dropped_event_is_told_nobody(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no number."""
    monkeypatch.setattr(eventlog, "MAX_RUN_BYTES", 0)
    told: list[dict[str, Any]] = []
    log.observe(told.append)
    log.append("call", run_id="r1")
    assert told == []


@in_loop
async def test_waiting_ends_with_the_event_that_makes_it_true() -> None:
    """It is looked at after every event, and by any number of waiters."""
    log = EventLog()

    def reached(number: int) -> bool:
        return log.last_seq >= number

    waiting = [
        asyncio.create_task(log.until(functools.partial(reached, wanted), 10.0))
        for wanted in (1, 2, 2)
    ]
    await asyncio.sleep(0)
    log.append("stop")
    assert await waiting[0]
    assert not any(each.done() for each in waiting[1:])
    log.append("stop")
    assert await asyncio.gather(*waiting[1:]) == [True, True]


@in_loop
async def test_waiting_is_bounded_and_says_what_it_found() -> None:
    """What holds already needs no time; what never holds takes no more than asked."""
    log = EventLog()
    assert await log.until(lambda: True, 0.0)
    assert not await log.until(lambda: False, 0.0)
    assert not await log.until(lambda: False, 0.001)


@in_loop
async def test_a_cancelled_waiter_hinders_nobody() -> None:
    """Its client went away."""
    log = EventLog()
    gone = asyncio.create_task(log.until(lambda: False, 10.0))
    stays = asyncio.create_task(log.until(lambda: log.last_seq > 0, 10.0))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    log.append("stop")
    assert gone.cancelled()
    assert await stays
