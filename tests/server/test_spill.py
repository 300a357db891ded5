"""The event log beyond memory: the file, broken disks, caps, what is missing, long scans."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cideldill_mcp.events import log as log_module
from cideldill_mcp.events.log import EventLog, EventPage, Filter
from pytest_cideldill.protocol import Recorded
from tests.server.logs import fill, numbers, page
from tests.server.processes import in_loop, serving


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    """A log with a folder."""
    made = EventLog()
    made.keep_in(tmp_path)
    yield made
    made.close()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events leave memory after the 20th, ten at a time."""
    monkeypatch.setattr(log_module, "RING", 10)
    monkeypatch.setattr(log_module, "BLOCK", 10)


# --- memory and file ----------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("total", [19, 20, 21, 40, 55])
def test_every_event_can_be_read_wherever_it_is(log: EventLog, total: int) -> None:
    """In memory a ring, behind it a file."""
    fill(log, total)
    for after in range(total + 1):
        read = page(log, after)
        assert numbers(read.events) == list(range(after + 1, total + 1))
        assert [event["number"] for event in read.events] == list(range(after, total))
        assert (read.cursor, read.is_last) == (total, True)
    assert numbers(page(log, 3, 4).events) == [4, 5, 6, 7]
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
def test_events_are_found_in_the_file_whatever_is_beside_their_name(log: EventLog) -> None:
    """A lone surrogate has a line spelled in another way."""
    for text in ("plain", "\udc80"):
        log.append("stop", run_id="r1", nodeid="test_é.py::test", text=text)
    fill(log, 30)
    assert numbers(page(log, wanted=Filter(nodeid="test_é.py::test")).events) == [1, 2]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("way", ["no folder", "a folder that never was", "full disk", "closed"])
def test_a_disk_that_takes_nothing_costs_hits_only_and_counts_them(
    tmp_path: Path, way: str
) -> None:
    """Stops and outcomes are never dropped, and appending never fails."""
    log = EventLog()
    if way != "no folder":
        log.keep_in(tmp_path / "absent" if way == "a folder that never was" else tmp_path)
    if way == "full disk":
        (tmp_path / "events.jsonl").symlink_to("/dev/full")
    if way == "closed":
        log.close()
    fill(log, 15, text="x" * 5000)
    log.append("stop", run_id="r2", pause_id="p")
    fill(log, 39)
    read = page(log)
    assert numbers(read.events) == [16, *range(41, 56)]
    assert read.events[0]["pause_id"] == "p"
    assert (read.cursor, read.is_last, log.last_seq) == (55, True, 55)
    assert log.dropped == {"r1": 39}
    assert numbers(page(log, 15, 1).events) == [16]
    assert numbers(page(log, wanted=Filter(types={"stop"})).events) == [16]
    log.close()


@pytest.mark.usefixtures("small")
def test_what_a_disk_took_before_it_was_full_stays_readable(tmp_path: Path) -> None:
    """And it is used again when it has room."""
    log = EventLog()
    log.keep_in(tmp_path)
    fill(log, 25)
    whole = log._spill._file
    with open("/dev/full", "r+b", buffering=0) as full:
        log._spill._file = full
        fill(log, 10)
    log._spill._file = whole
    fill(log, 20)
    assert numbers(page(log).events) == [*range(1, 11), *range(21, 56)]
    assert log.dropped == {"r1": 10}
    log.close()


@pytest.mark.usefixtures("small")
def test_a_folder_that_is_removed_takes_nothing_along(log: EventLog, tmp_path: Path) -> None:
    """A cleaner of temporary files came by."""
    fill(log, 25)
    shutil.rmtree(tmp_path)
    fill(log, 30)
    assert numbers(page(log).events) == list(range(1, 56))
    assert not log.dropped


@pytest.mark.usefixtures("small")
def test_a_file_that_was_cut_costs_what_was_in_it_and_counts_it(
    log: EventLog, tmp_path: Path
) -> None:
    """Reading goes on behind it."""
    fill(log, 35)
    path = tmp_path / "events.jsonl"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1)
    for _ in range(2):
        assert numbers(page(log).events) == [*range(1, 11), *range(21, 36)]
        assert log.dropped == {"r1": 10}


def test_a_full_run_drops_and_counts_calls_and_hits_only(tmp_path: Path) -> None:
    """Beyond the cap hits are counted as `dropped`; stops and outcomes never are."""
    log = EventLog(max_run_bytes=1_000)
    log.keep_in(tmp_path)
    while log.append("call", run_id="r1"):
        pass
    last = log.last_seq
    assert 5 < last < 20
    assert log.append("hit", run_id="r1") == 0
    for type in ("stop", "resumed", "test_outcome", "failure", "run_finished", "warning"):
        assert log.append(type, run_id="r1") == log.last_seq
    assert log.append("call", run_id="r2") == last + 7
    assert log.dropped == {"r1": 2}
    assert numbers(page(log).events) == list(range(1, last + 8))
    log.close()


@pytest.mark.usefixtures("small")
def test_a_run_never_takes_more_of_the_disk_than_its_cap(tmp_path: Path) -> None:
    """By hits, up to one event; wherever its events are."""
    log = EventLog(max_run_bytes=2_000)
    log.keep_in(tmp_path)
    fill(log, 200)
    for _ in range(30):
        log.append("call", run_id="r2")
    assert log.dropped["r1"] > 150
    lines = (tmp_path / "events.jsonl").read_bytes().splitlines(keepends=True)
    assert 0 < sum(len(line) for line in lines if b'"r1"' in line) < 2_100
    log.close()


def test_what_a_process_dropped_is_counted_with_its_run(log: EventLog) -> None:
    """The event behind the gap says how many; it does not carry that on."""
    log.append("call", run_id="r1", dropped=3)
    log.append("call", run_id="r1")
    log.append("call", run_id="r2", dropped=1)
    assert log.dropped == {"r1": 3, "r2": 1}
    assert not any("dropped" in event for event in page(log).events)


def test_a_gap_is_counted_also_by_an_event_that_is_dropped() -> None:
    """Both are missing."""
    log = EventLog(max_run_bytes=0)
    assert log.append("call", run_id="r1", dropped=3) == 0
    assert log.dropped == {"r1": 4}


@in_loop
async def test_gaps_that_processes_report_are_in_the_replies() -> None:
    """`dropped` of `timeline_get`, `counts.dropped` of `debug_state`."""
    async with serving() as front:
        await front.start()
        main, gw0 = await front.live("main", "gw0")
        await main.send(
            Recorded([{"type": "call", "ts": 1.0}, {"type": "call", "ts": 2.0}], dropped=3)
        )
        await gw0.send(Recorded([{"type": "call", "ts": 3.0}], dropped=1))
        await front.until(lambda: front.log.dropped["r1"] == 4)
        reported = await front.call("timeline_get", types=["call"])
        assert (len(reported["events"]), reported["dropped"]) == (3, 4)
        assert (await front.call("timeline_get", run_id="r1"))["dropped"] == 4
        assert (await front.call("debug_state"))["counts"]["dropped"] == 4


# --- long scans ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "wanted",
    [
        Filter(types={"stop", "failure"}),
        Filter(nodeid='t::x["é\\"]'),
        Filter(types={"stop"}, nodeid='t::x["é\\"]'),
        Filter(run_id="r2"),
        Filter(types={"run_finished"}),
    ],
)
def test_only_lines_that_look_like_it_are_parsed(
    log: EventLog, wanted: Filter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parsing all of a full file would take a minute."""
    fill(log, 53, nodeid="t::y", args='"type":"stop", "run_id":"r2"')
    log.append("stop", run_id="r2", nodeid='t::x["é\\"]')
    fill(log, 30)
    parsed: list[bytes] = []
    loads = json.loads

    def counting(line: bytes) -> Any:
        parsed.append(line)
        return loads(line)

    monkeypatch.setattr(json, "loads", counting)
    read = page(log, wanted=wanted)
    assert numbers(read.events) == ([] if wanted.types == {"run_finished"} else [54])
    assert len(parsed) == len(read.events)


@in_loop
@pytest.mark.usefixtures("small")
async def test_a_long_scan_lets_others_work_and_appends_happen(tmp_path: Path) -> None:
    """The loop gets its turn between two blocks; what comes meanwhile is read as well."""
    log = EventLog()
    log.keep_in(tmp_path)
    fill(log, 500)
    scan = asyncio.create_task(log.read(0, 10, Filter(types={"call"}, nodeid="t::rare")))
    turns = 0
    while not scan.done():
        await asyncio.sleep(0)
        turns += 1
        if turns < 30:
            fill(log, 3)
    assert turns >= 50
    assert scan.result() == EventPage([], log.last_seq)
    log.append("stop")
    assert numbers((await log.read(0, 10, Filter(types={"stop"}))).events) == [log.last_seq]
    log.close()


@in_loop
@pytest.mark.usefixtures("small")
async def test_other_tools_answer_while_one_scans() -> None:
    """A rare filter over a long log must not hold up who asks for the state."""
    async with serving() as front:
        run = await front.start()
        front.log.append("stop", run_id=run.id, nodeid="t::first")
        fill(front.log, 2_000)
        scan = front.call("timeline_get", nodeid="t::rare")
        states = [await front.call("debug_state") for _ in range(20)]
        assert not scan.done()
        assert all(state["run_id"] == run.id for state in states)
        reported = await scan
        assert (reported["events"], reported["next_after"]) == ([], front.log.last_seq)
        assert "truncated" not in reported


@in_loop
@pytest.mark.usefixtures("small")
async def test_a_scan_that_is_too_long_says_so_and_can_be_continued(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`truncated`, `next_after`. The work of one call is bounded."""
    monkeypatch.setattr(log_module, "SCAN_BYTES", 3_000)
    async with serving() as front:
        run = await front.start()
        fill(front.log, 400)
        rare = front.log.append("stop", run_id=run.id, nodeid="t::rare")
        fill(front.log, 400)
        options: dict[str, Any] = {"nodeid": "t::rare", "after": 0}
        found, calls = [], 0
        while (reported := await front.call("timeline_get", **options)).get("truncated"):
            assert reported["total_count"] is None
            assert options["after"] < reported["next_after"] <= options["after"] + 100
            if not reported["events"]:
                assert str(reported["next_after"]) in reported["next"][0]
            found += reported["events"]
            options["after"] = reported["next_after"]
            calls += 1
        assert calls > 10
        assert numbers(found) == [rare]
        assert reported["next_after"] == front.log.last_seq


@in_loop
@pytest.mark.usefixtures("small")
async def test_masses_of_other_runs_and_types_are_in_nobody_s_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is rare is found at once behind any number of hits: a block knows what it holds."""
    monkeypatch.setattr(log_module, "SCAN_BYTES", 3_000)
    async with serving() as front:
        run = await front.start()
        before = front.log.last_seq
        fill(front.log, 400, run_id="r0")
        call = front.log.append("call", run_id=run.id)
        fill(front.log, 400, run_id="r0")
        stop = front.log.append("stop", run_id="r0")
        fill(front.log, 400, run_id="r0")
        for wanted, rare in (({"types": ["stop"]}, stop), ({"run_id": run.id}, call)):
            reported = await front.call("timeline_get", **wanted, after=before)
            assert numbers(reported["events"]) == [rare]
            assert "truncated" not in reported


@in_loop
async def test_a_page_is_bounded_whatever_the_limit(log: EventLog) -> None:
    """More never fit into a reply."""
    async with serving() as front:
        await front.start()
        fill(front.log, 3_000)
        reported = await front.call("timeline_get", limit=10**9, max_chars=200_000)
        assert reported["truncated"]
        assert reported["next_after"] == reported["events"][-1]["seq"] <= 2_000
