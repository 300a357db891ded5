"""Batches of rows in the event log: for readers they are events like others, wherever they lie."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cideldill_mcp.events import log as log_module
from cideldill_mcp.events.entries import LoggedRows
from cideldill_mcp.events.log import EventLog, Filter
from pytest_cideldill.protocol import Recorded, columns
from tests.server.logs import numbers, page

WANTED = (
    Filter(),
    Filter(types={"hit"}),
    Filter(types={"call", "stop"}),
    Filter(nodeid="t::b"),
    Filter(run_id="r2"),
    Filter(types={"hit"}, breakpoint_id="tp-2"),
    Filter(types={"hit"}, nodeid="t::a", run_id="r1", breakpoint_id="tp-1"),
    Filter(nodeid="t::none"),
)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EventLog]:
    """Events leave memory after the 50th, ten and more at a time."""
    monkeypatch.setattr(log_module, "RING", 40)
    monkeypatch.setattr(log_module, "BLOCK", 10)
    made = EventLog()
    made.keep_in(tmp_path)
    yield made
    made.close()


def series_of(rows: list[dict[str, Any]], *names: str) -> columns.Series:
    """Rows that have these in common."""
    others = rows[0].keys() - set(names)
    return {
        "count": len(rows),
        "common": {name: rows[0][name] for name in names},
        "columns": {name: [row[name] for row in rows] for name in others},
    }


def batch(chance: random.Random, number: int) -> tuple[Recorded, list[dict[str, Any]]]:
    """A message of a process, and its rows."""
    rows: list[dict[str, Any]] = []
    for n in range(number, number + chance.choice([1, 3, 25])):
        if chance.random() < 0.3:
            rows.append({"type": "call", "ts": float(n), "nodeid": "t::a", "call_id": f"c{n}"})
        else:
            id, nodeid = chance.choice(["tp-1", "tp-2"]), chance.choice(["t::a", "t::b"])
            hit = {"type": "hit", "ts": float(n), "nodeid": nodeid, "breakpoint_id": id}
            rows.append(hit | {"message": chance.choice([f"n={n}", f"é{n}", f"\udce9{n}"])})
    sources: dict[Any, list[dict[str, Any]]] = {}
    order = []
    for row in rows:
        key = "" if row["type"] == "call" else (row["breakpoint_id"], row["nodeid"])
        sources.setdefault("", [])
        sources.setdefault(key, []).append(row)
        order.append(list(sources).index(key))
    plain = sources.pop("")
    series = [series_of(each, "type", "nodeid", "breakpoint_id") for each in sources.values()]
    return Recorded(plain, series, columns.order(order)), rows


def fill(log: EventLog, seed: int) -> list[dict[str, Any]]:
    """Events and batches in turn; all as events."""
    chance = random.Random(seed)
    events: list[dict[str, Any]] = []
    while len(events) < 200:
        run_id = chance.choice(["r1", "r2"])
        if chance.random() < 0.4:
            log.append("stop", ts=1.0, run_id=run_id, nodeid="t::b")
            events.append({"type": "stop", "ts": 1.0, "run_id": run_id, "nodeid": "t::b"})
        else:
            recorded, rows = batch(chance, len(events))
            log.extend(recorded, run_id=run_id, worker="gw0")
            events += [row | {"run_id": run_id, "worker": "gw0"} for row in rows]
    return [event | {"seq": seq} for seq, event in enumerate(events, 1)]


@pytest.mark.full
@pytest.mark.quick("0")
@pytest.mark.parametrize("seed", range(8))
def test_readers_get_rows_as_events(log: EventLog, seed: int) -> None:
    """From any cursor, in pages of any size, in memory and in the file."""
    events = fill(log, seed)
    for wanted in WANTED:
        check_readers(log, events, wanted)


def check_readers(log: EventLog, events: list[dict[str, Any]], wanted: Filter) -> None:
    expected = [event for event in events if wanted.admits(event)]
    assert page(log, wanted=wanted).events == expected, wanted
    for limit in (1, 7):
        found, cursor, is_last = [], 0, False
        while not is_last:
            read = page(log, cursor, limit, wanted)
            assert len(read.events) <= limit, wanted
            found += read.events
            cursor, is_last = read.cursor, read.is_last
        assert found == expected, wanted
        assert cursor == log.last_seq == len(events), wanted
    for after in (0, len(events) - 20):
        recent = [event for event in expected if event["seq"] > max(after, log._first - 1)]
        assert log.newest(3, wanted, after) == recent[-3:], wanted


def test_observers_get_a_batch_or_its_events(log: EventLog) -> None:
    """In order with the events around it."""
    seen: list[int] = []
    batches: list[tuple[int, int, dict[str, int]]] = []

    def on_rows(rows: LoggedRows) -> None:
        batches.append((rows.first, rows.last, dict(rows.newest)))

    log.observe(lambda event: seen.append(event["seq"]))
    log.observe(lambda event: batches.append((event["seq"], event["seq"], {})), on_rows)
    rows = [{"type": type, "ts": 1.0} for type in ("call", "hit", "call", "log")]
    log.append("stop", run_id="r1")
    log.extend(Recorded(rows), run_id="r1", worker="main")
    log.append("stop", run_id="r1")
    assert seen == [1, 2, 3, 4, 5, 6]
    assert batches == [(1, 1, {}), (2, 5, {"call": 4, "hit": 3, "log": 5}), (6, 6, {})]


def test_rows_beyond_the_share_of_a_run_are_counted(tmp_path: Path) -> None:
    """Together with those that their process dropped; numbers have no gaps."""
    log = EventLog(max_run_bytes=1_000)
    log.keep_in(tmp_path)
    rows = [{"type": "hit", "ts": 1.0, "message": "x" * 30}] * 10
    for _ in range(5):
        log.extend(Recorded(rows, dropped=2), run_id="r1", worker="main")
    kept = log.last_seq
    assert 10 <= kept < 40
    assert log.dropped == {"r1": 50 - kept + 10}
    assert log.append("stop", run_id="r1") == kept + 1
    log.close()


def test_a_disk_that_takes_nothing_costs_batches_that_leave_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are counted; stops between them stay."""
    monkeypatch.setattr(log_module, "RING", 10)
    monkeypatch.setattr(log_module, "BLOCK", 10)
    log = EventLog()
    log.extend(Recorded([{"type": "hit", "ts": 1.0}] * 9), run_id="r1", worker="main")
    log.append("stop", run_id="r2")
    log.extend(Recorded([{"type": "hit", "ts": 1.0}] * 12), run_id="r1", worker="main")
    assert log.dropped == {"r1": 9}
    assert numbers(page(log).events) == list(range(10, 23))


def test_what_all_rows_of_a_message_have_lies_in_the_log_once(
    log: EventLog, tmp_path: Path
) -> None:
    """A million hits take what their messages take, and little more."""
    common = {"type": "hit", "nodeid": "tests/test_it.py::test_it", "breakpoint_id": "tp-1"}
    messages = [f"n={n}" for n in range(500)]
    packed = {"message": columns.texts(messages), "hit_count": columns.integers(range(500))}
    series = {"count": 500, "common": common, "columns": packed}
    for _ in range(4):
        log.extend(Recorded([], [series]), run_id="r1", worker="main")
    log.close()
    size = (tmp_path / "events.jsonl").stat().st_size
    assert 0 < size < 3 * 500 * 10
