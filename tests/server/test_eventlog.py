"""The merged event log: numbers, filters, cursors, observers, waiting."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cideldill_mcp.events import log as log_module
from cideldill_mcp.events.log import EventLog, EventPage, Filter
from pytest_cideldill.protocol import Recorded
from tests.server.logs import ALL, fill, numbers, page
from tests.server.processes import in_loop


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    """A log with a folder; events leave memory after the 20th, ten at a time."""
    made = EventLog()
    made.keep_in(tmp_path)
    yield made
    made.close()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "RING", 10)
    monkeypatch.setattr(log_module, "BLOCK", 10)


# --- numbers, filters, cursors ------------------------------------------------------------------


def test_events_are_numbered_from_one_without_gaps_over_all_runs(log: EventLog) -> None:
    """One counter for the front end's life."""
    assert log.last_seq == 0
    assert [log.append("stop", run_id=f"r{n % 2}") for n in range(5)] == [1, 2, 3, 4, 5]
    assert log.last_seq == 5
    assert numbers(page(log).events) == [1, 2, 3, 4, 5]


def test_an_event_keeps_its_type_values_and_the_time_of_its_process(log: EventLog) -> None:
    """`ts` is that of the process; across processes it gives the order."""
    log.append("stop", ts=12.5, run_id="r1", nodeid="t::x")
    log.append("stop", run_id="r1")
    first, second = page(log).events
    assert first == {"seq": 1, "ts": 12.5, "type": "stop", "run_id": "r1", "nodeid": "t::x"}
    assert second["ts"] > 1e9


def test_many_events_at_once_are_as_many_one_by_one(log: EventLog) -> None:
    """A batch of hits: told one by one, numbered on; what its process dropped is counted."""
    reported: list[int] = []
    log.observe(lambda event: reported.append(event["seq"]))
    log.append("stop", run_id="r1")
    hits = [{"type": "hit", "ts": float(n), "hit_count": n} for n in range(1, 4)]
    log.extend(Recorded(hits, dropped=5), run_id="r1", worker="main")
    log.append("stop", run_id="r1")
    assert reported == numbers(page(log).events) == [1, 2, 3, 4, 5]
    common = {"run_id": "r1", "worker": "main"}
    assert page(log).events[1:4] == [hit | common | {"seq": n} for n, hit in enumerate(hits, 2)]
    assert log.dropped == {"r1": 5}


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
    read = page(log, wanted=wanted)
    assert numbers(read.events) == expected
    assert (read.cursor, read.is_last) == (8, True)
    assert numbers(log.newest(100, wanted)) == expected


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_pages_put_together_are_all_events_once(log: EventLog, limit: int) -> None:
    """A cursor never skips or repeats, in memory, in the file and across."""
    for number in range(47):
        log.append("stop" if number % 3 else "failure", run_id="r1")
    wanted = Filter(types={"stop"})
    seen: list[int] = []
    cursor = 0
    is_last = False
    while not is_last:
        read = page(log, cursor, limit, wanted)
        assert read.cursor > cursor
        assert len(read.events) <= limit
        seen += numbers(read.events)
        cursor, is_last = read.cursor, read.is_last
    assert seen == [seq for seq in range(1, 48) if (seq - 1) % 3]
    assert page(log, cursor, limit, wanted) == EventPage([], 47)


def test_a_cursor_at_or_behind_the_end_stays_where_it_is(log: EventLog) -> None:
    """Nothing new: the same cursor comes back."""
    fill(log, 3)
    assert page(log, 3) == EventPage([], 3)
    assert page(log, 99) == EventPage([], 99)


def test_a_full_page_says_whether_more_is_behind(log: EventLog) -> None:
    """Of what fits: what does not fit is passed over."""
    log.append("stop")
    log.append("stop")
    log.append("failure")
    assert not page(log, limit=2).is_last
    assert page(log, limit=3).is_last
    assert page(log, limit=2, wanted=Filter({"stop"})).is_last


def test_the_newest_are_reported_oldest_first_and_only_behind_a_cursor(log: EventLog) -> None:
    """The newest of the log, oldest first."""
    fill(log, 9)
    assert numbers(log.newest(3, ALL)) == [7, 8, 9]
    assert numbers(log.newest(3, ALL, after=7)) == [8, 9]


# --- observers and waiters ----------------------------------------------------------------------


def test_observers_get_every_event_once_in_order_until_undone(log: EventLog) -> None:
    """Also when one leaves while an event is told."""
    reported: list[tuple[str, int]] = []

    def leaving(event: dict[str, Any]) -> None:
        reported.append(("one", event["seq"]))
        undo_one()

    undo_one = log.observe(leaving)
    undo_two = log.observe(lambda event: reported.append(("two", event["seq"])))
    log.append("stop")
    log.append("stop")
    undo_two()
    log.append("stop")
    assert reported == [("one", 1), ("two", 1), ("two", 2)]


def test_an_observer_that_appends_disturbs_nobodys_order(log: EventLog) -> None:
    """What it appends is told after the event that it was called with."""
    reported: list[tuple[str, int]] = []

    def answering(event: dict[str, Any]) -> None:
        reported.append(("one", event["seq"]))
        if event["type"] == "stop":
            log.append("action")
            log.observe(lambda event: reported.append(("late", event["seq"])))

    log.observe(answering)
    log.observe(lambda event: reported.append(("two", event["seq"])))
    assert log.append("stop") == 1
    assert reported == [("one", 1), ("two", 1), ("one", 2), ("two", 2)]
    log.append("action")
    assert reported[4:] == [("one", 3), ("two", 3), ("late", 3)]


def test_an_observer_that_left_is_not_called_any_more(log: EventLog) -> None:
    """Also not with the event that is being told; and it may leave twice."""
    reported: list[int] = []
    log.observe(lambda event: undo())
    undo = log.observe(lambda event: reported.append(event["seq"]))
    log.append("stop")
    undo()
    assert reported == []


def test_an_observer_that_fails_harms_nobody_else(
    log: EventLog, capsys: pytest.CaptureFixture[str]
) -> None:
    """The process that sent the event would lose its connection by it."""
    reported: list[int] = []

    def failing(event: dict[str, Any]) -> None:
        raise KeyError("pushed")

    log.observe(failing)
    log.observe(lambda event: reported.append(event["seq"]))
    assert [log.append("stop"), log.append("stop")] == [1, 2]
    assert reported == [1, 2]
    assert capsys.readouterr().err.count("KeyError: 'pushed'") == 2


def test_a_dropped_event_is_sent_to_nobody() -> None:
    """It has no number."""
    log = EventLog(max_run_bytes=0)
    reported: list[dict[str, Any]] = []
    log.observe(reported.append)
    log.append("call", run_id="r1")
    assert reported == []


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
