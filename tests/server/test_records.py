"""Records of calls: complete over all runs, filtered, paged back, bounded."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cideldill_mcp.callrecords import call_store
from cideldill_mcp.callrecords.call_store import Table
from cideldill_mcp.callrecords.records import CallFilter, CallPage, Records
from cideldill_mcp.replies.render import fit
from cideldill_mcp.tools.records import is_meant_by
from pytest_cideldill.protocol import Recorded
from pytest_cideldill.sourcecode.names import parse_function_name
from tests.server.logs import alone
from tests.server.processes import WAITING, Front, Process, in_loop, serving

KEYS = {
    "call_id", "method_name", "qualified_name", "status", "pretty_args", "pretty_kwargs",
    "pretty_result", "exception", "started_at", "completed_at", "parent_id", "nodeid", "run_id",
    "worker", "thread", "call_site", "cids",
}  # fmt: skip
EVERYTHING = CallFilter()


def row(number: int, qualified_name: str = "shop.total", **changes: Any) -> dict[str, Any]:
    """What a process tells of a call that started at second `number`."""
    return {
        "type": "call",
        "ts": float(number),
        "call_id": f"r1.main.c{number}",
        "method_name": qualified_name.rpartition(".")[2],
        "qualified_name": qualified_name,
        "status": "success",
        "pretty_args": [str(number)],
        "pretty_kwargs": {},
        "pretty_result": "6",
        "started_at": float(number),
        "completed_at": number + 0.5,
        "parent_id": None,
        "nodeid": "test_shop.py::test_total",
        "thread": 1,
        "call_site": {"file": "test_shop.py", "line": 3},
        "cids": {"args": ["ab" * 64], "kwargs": {}, "result": "cd" * 64},
    } | changes


def running(number: int, **changes: Any) -> dict[str, Any]:
    """The same, while the call has not ended."""
    reported = row(number, status="running", completed_at=None, **changes)
    del reported["pretty_result"]
    return reported


def page(
    records: Records, wanted: CallFilter = EVERYTHING, limit: int = 1_000, before: str | None = None
) -> CallPage:
    return alone(records.page(wanted, limit, before))


def numbers(found: CallPage) -> list[int]:
    """Their call numbers."""
    return [int(call["call_id"].rpartition("c")[2]) for call in found.calls]


def meant(name: str) -> CallFilter:
    return CallFilter(function=is_meant_by(parse_function_name(name)))


@pytest.fixture(params=["file", "memory"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Records]:
    """Kept in a file, and as they are when that can't be had."""
    made = Records(tmp_path if request.param == "file" else None)
    yield made
    made.close()


@pytest.fixture
def filed(tmp_path: Path) -> Iterator[Records]:
    made = Records(tmp_path)
    yield made
    made.close()


# --- what a record says -------------------------------------------------------------------------


def test_without_calls_there_is_nothing(records: Records) -> None:
    assert page(records) == CallPage([], 0, is_first=True)
    assert (records.total, records.dropped) == (0, 0)
    records.add("r1", "main", [])
    records.add("r1", "main", [{"type": "hit", "ts": 1.0}])
    assert page(records) == CallPage([], 0, is_first=True)
    records.add("r1", "main", [{"type": "hit", "ts": 1.0}], lost=2)
    assert page(records) == CallPage([], 2, is_first=True)


def test_a_record_has_every_key_and_its_run_and_worker(records: Records) -> None:
    """Null when unknown; what belongs to the event is left out."""
    error = {"type": "ValueError", "message": "no"}
    records.add("r7", "gw1", [row(1), row(2, status="exception", exception=error, altered="args")])
    first, second = page(records).calls
    assert (set(first), set(second)) == (KEYS, KEYS | {"altered"})
    assert (first["run_id"], first["worker"], first["exception"]) == ("r7", "gw1", None)
    assert (second["exception"], second["altered"]) == (error, "args")
    assert first["cids"] == {"args": ["ab" * 64], "kwargs": {}, "result": "cd" * 64}


def test_a_row_that_is_reported_stays_as_it_is(records: Records) -> None:
    """The event log gets the same object."""
    reported = row(1)
    records.add("r1", "main", [reported])
    assert reported == row(1)


def test_texts_of_all_kinds_survive(records: Records) -> None:
    """As JSON brings them, lone surrogates included."""
    odd = "\ud800 \x00 é"
    records.add("r1", "main", [row(1, pretty_args=[odd], nodeid=odd, qualified_name=f"shop.{odd}")])
    (call,) = page(records, CallFilter(nodeid=odd)).calls
    assert (call["pretty_args"], call["nodeid"]) == ([odd], odd)


BROKEN: tuple[dict[str, Any], ...] = (
    {"type": "call", "ts": 1.0, "function": "shop.total", "args": "1"},
    row(1, call_id=None),
    row(1, call_id=5),
    row(1, call_id="\ud800"),
    row(1, status="odd"),
    row(1, started_at=None),
    row(1, nodeid=[]),
)


def test_a_row_that_is_no_record_is_counted_and_harms_nothing(records: Records) -> None:
    """A process must not lose its connection by it."""
    for count, broken in enumerate(BROKEN, 1):
        records.add("r1", "main", [broken, row(count)])
        assert numbers(page(records)) == list(range(1, count + 1)), broken
        assert (records.total, records.dropped) == (2 * count, count), broken


# --- filters ------------------------------------------------------------------------------------


MEANT: dict[str, list[int]] = {
    "total": [1, 2, 5],
    "shop.cart.Cart.total": [1],
    "shop.total": [2],
    "total.shop": [],
    "cart.Cart.total": [],
    "shop.cart:Cart.total": [1],
    "shop:cart.Cart.total": [],
    "shop:cart.price": [4],
    "cart:Cart.total": [],
    "shop/cart.py::Cart.total": [1],
    "./shop/cart.py::Cart::total": [1],
    "cart.py::Cart.total": [1],
    "src/shop/cart.py::Cart.total": [1],
    "shop/__init__.py::total": [2],
    "shop/till.py::Cart.total": [],
    "elsewhere/src/shop/cart.py::Cart.total": [],
    "shop/cart.py::price": [],
    "shop.cart.*": [1, 3, 4],
    "shop.*": [1, 2, 3, 4],
    "*": [1, 2, 3, 4, 5],
    "*.tota?": [1, 2, 5],
    "inner": [3],
    "shop.cart.outer.inner": [3],
    "shop.cart.outer.<locals>.inner": [3],
    "shop/cart.py::outer.inner": [3],
    "renamed": [4],
    "shop.cart.price": [4],
    "nothing": [],
}
"""By name: the numbers of the functions below."""


def test_a_name_means_functions_as_it_does_elsewhere(records: Records) -> None:
    """Names have the forms of docs/names.md; a bare one is also the method name of a record."""
    functions = [
        row(1, "shop.cart.Cart.total", defined_in=["shop.cart", "src/shop/cart.py"]),
        row(2, "shop.total", defined_in=["shop", "src/shop/__init__.py"]),
        row(3, "shop.cart.outer.<locals>.inner", defined_in=["shop.cart", "src/shop/cart.py"]),
        row(4, "shop.cart.price", method_name="renamed"),
        row(5, "tests.total"),
    ]
    records.add("r1", "main", functions)
    for name, expected in MEANT.items():
        found = page(records, meant(name))
        assert (numbers(found), found.total) == (expected, len(expected)), name


def test_a_file_is_distinguished_from_another_of_the_same_module_name(records: Records) -> None:
    """Two conftests, say; and calls are counted by the place of their function, for a list."""
    for number, folder in enumerate(("a", "b", "b"), 1):
        place = ["conftest", f"{folder}/conftest.py"]
        records.add("r1", "main", [row(number, "conftest.outer.<locals>.f", defined_in=place)])
    assert numbers(page(records, meant("a/conftest.py::outer.f"))) == [1]
    assert numbers(page(records, meant("conftest.outer.f"))) == [1, 2, 3]
    assert "defined_in" not in page(records).calls[0]
    counted = [records.count(f"{folder}/conftest.py", "outer.f") for folder in "abc"]
    assert counted == [1, 2, 0]


def test_filters_hold_together(records: Records) -> None:
    """By function, test and status, in all combinations."""
    rows = [
        row(n, f"shop.f{n % 2}", nodeid=f"t{n % 3}", status=("success", "exception")[n % 5 == 0])
        for n in range(1, 61)
    ]
    records.add("r1", "main", rows)
    for function in (None, "f0", "f1", "f2"):
        for nodeid in (None, "t0", "t2", "t9", "t"):
            for status in (None, "success", "exception", "running"):
                expected = [
                    n
                    for n, each in enumerate(rows, 1)
                    if function in (None, each["method_name"])
                    and nodeid in (None, each["nodeid"])
                    and status in (None, each["status"])
                ]
                is_meant = meant(function).function if function else None
                found = page(records, CallFilter(is_meant, nodeid, status))
                assert (numbers(found), found.total) == (expected, len(expected))


def test_calls_of_no_test_are_reported_and_have_no_node_id(records: Records) -> None:
    records.add("r1", "main", [row(1, nodeid=None), row(2)])
    assert numbers(page(records)) == [1, 2]
    assert numbers(page(records, CallFilter(nodeid="test_shop.py::test_total"))) == [2]


# --- order and pages ----------------------------------------------------------------------------


def test_the_newest_are_reported_oldest_first(records: Records) -> None:
    """`total_count` is that before the limit."""
    records.add("r1", "main", [row(n) for n in range(1, 10)])
    found = page(records, limit=3)
    assert (numbers(found), found.total, found.is_first) == ([7, 8, 9], 9, False)
    found = page(records, limit=9)
    assert (len(found.calls), found.total, found.is_first) == (9, 9, True)


def test_calls_stand_where_they_started_and_not_where_they_ended(records: Records) -> None:
    """An inner call ends first and is told first; across processes the clock decides."""
    records.add("r1", "main", [row(3), row(2), row(5)])
    records.add("r1", "gw0", [row(4), row(1)])
    assert numbers(page(records)) == [1, 2, 3, 4, 5]
    assert numbers(page(records, limit=2)) == [4, 5]


def test_calls_of_one_tick_of_the_clock_stand_in_the_order_of_their_numbers(
    records: Records,
) -> None:
    reported = [row(n, started_at=7.0) for n in (10, 9, 2, 11)]
    records.add("r1", "main", reported)
    assert numbers(page(records)) == [2, 9, 10, 11]
    assert numbers(page(records, before="r1.main.c10")) == [2, 9]


def test_pages_put_together_are_all_records_once(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`before` goes back, also where a search takes several steps."""
    monkeypatch.setattr(call_store, "SLICE", 10)
    records.add("r1", "main", [row(n, f"shop.f{n % 3}") for n in range(1, 100)])
    wanted = meant("f1")
    for limit in (1, 2, 7, 33, 100):
        found = page(records, wanted, limit)
        seen = numbers(found)
        while not found.is_first:
            assert len(found.calls) == limit
            found = page(records, wanted, limit, found.calls[0]["call_id"])
            assert found.total == 33
            seen = numbers(found) + seen
        assert seen == list(range(1, 100, 3)), limit


def test_one_may_go_back_from_any_call(records: Records) -> None:
    """Also from one that the filter leaves out."""
    records.add("r1", "main", [row(n, f"shop.f{n % 2}") for n in range(1, 7)])
    assert numbers(page(records, meant("f0"), before="r1.main.c5")) == [2, 4]
    assert numbers(page(records, before="r1.main.c1")) == []
    for unknown in ("r1.main.c7", "", "\ud800"):
        with pytest.raises(LookupError):
            page(records, before=unknown)


def test_before_the_first_record_there_is_no_call_to_go_back_from(records: Records) -> None:
    with pytest.raises(LookupError):
        page(records, before="r1.main.c1")


# --- calls that have not ended ------------------------------------------------------------------


def test_a_call_that_ends_is_updated_in_place(records: Records) -> None:
    """One record; it stands where it started."""
    records.add("r1", "main", [running(1), running(2)])
    found = page(records, CallFilter(status="running"))
    assert (numbers(found), found.total) == ([1, 2], 2)
    assert {call["pretty_result"] for call in found.calls} == {None}
    records.add("r1", "main", [row(3), row(2, status="exception")])
    records.add("r1", "main", [row(1, nodeid="late")])
    found = page(records)
    assert (numbers(found), found.total, records.total) == ([1, 2, 3], 3, 3)
    assert [call["status"] for call in found.calls] == ["success", "exception", "success"]
    assert page(records, CallFilter(status="running")) == CallPage([], 0, is_first=True)
    assert numbers(page(records, CallFilter(nodeid="late"))) == [1]
    assert page(records, CallFilter(nodeid="test_shop.py::test_total")).total == 2


def test_a_call_may_be_reported_as_running_more_than_once(records: Records) -> None:
    """At each pause; also with its end in one batch."""
    records.add("r1", "main", [running(1), running(1)])
    records.add("r1", "main", [running(1), running(2), row(2), running(3)])
    records.add("r1", "main", [running(3), row(3)])
    found = page(records)
    assert [(call["call_id"][-1], call["status"]) for call in found.calls] == [
        ("1", "running"),
        ("2", "success"),
        ("3", "success"),
    ]
    assert page(records, CallFilter(status="running")).total == 1
    assert page(records, CallFilter(status="success")).total == 2


@pytest.mark.parametrize("together", [True, False])
def test_an_end_that_a_client_changed_takes_the_place_of_the_one_before(
    records: Records, together: bool
) -> None:
    """`altered`; the call had ended and been told when it paused."""
    failed = row(1, status="exception", exception={"type": "E", "message": ""})
    skipped = row(1, altered="result", pretty_result="7")
    reported = [
        failed,
        row(2),
        skipped,
        row(3, altered="args"),
        running(4),
        row(4),
        row(4, altered="x"),
    ]
    for batch in [reported] if together else [[each] for each in reported]:
        records.add("r1", "main", batch)
    found = page(records)
    assert (numbers(found), found.total, records.total) == ([1, 2, 3, 4], 4, 4)
    assert (found.calls[0]["pretty_result"], found.calls[0]["altered"]) == ("7", "result")
    assert [call["status"] for call in found.calls] == ["success"] * 4
    assert page(records, CallFilter(status="exception")) == CallPage([], 0, is_first=True)
    assert page(records, CallFilter(status="success")).total == 4


# --- what is lost -------------------------------------------------------------------------------


def test_what_a_process_dropped_counts_when_everything_is_wanted(records: Records) -> None:
    """`total_count` includes dropped records; nobody knows which functions they were."""
    records.add("r1", "main", [row(1), row(2)], lost=40)
    assert (page(records).total, records.total, records.dropped) == (42, 42, 40)
    assert page(records, meant("total")).total == 2


def test_the_oldest_go_and_still_count(filed: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded by number; the filters hold for what is gone, too."""
    monkeypatch.setattr(call_store, "MAX_RECORDS", 50)
    for start in range(1, 121, 8):
        filed.add("r1", "main", [row(n, f"shop.f{n % 4}") for n in range(start, start + 8)])
    found = page(filed)
    assert (numbers(found), found.total) == (list(range(71, 121)), 120)
    assert (filed.total, filed.dropped, found.is_first) == (120, 70, True)
    found = page(filed, meant("f1"))
    assert (numbers(found), found.total) == (list(range(73, 121, 4)), 30)
    with pytest.raises(LookupError):
        page(filed, before="r1.main.c70")


def test_a_running_call_that_is_gone_still_ends_in_the_count(
    filed: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_store, "MAX_RECORDS", 5)
    filed.add("r1", "main", [running(1), *(row(n) for n in range(2, 10))])
    filed.add("r1", "main", [row(1)])
    assert (numbers(page(filed)), filed.total) == ([5, 6, 7, 8, 9], 9)
    assert page(filed, CallFilter(status="running")).total == 0
    assert page(filed, CallFilter(status="success")).total == 9


@pytest.mark.full
def test_the_file_does_not_grow_beyond_its_bound(
    filed: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What left makes room for what comes."""
    bound = 2_000_000
    monkeypatch.setattr(call_store, "MAX_BYTES", bound)
    for start in range(1, 4_001, 100):
        filed.add(
            "r1", "main", [row(n, pretty_result="x" * 2_000) for n in range(start, start + 100)]
        )
    kept = numbers(page(filed, limit=10_000))
    assert 500 < len(kept) < 1_000
    assert kept == list(range(kept[0], 4_001))
    assert (filed.total, filed.dropped) == (4_000, 4_000 - len(kept))
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert size < 1.3 * bound


def test_one_batch_that_is_larger_than_the_bound_leaves_nothing_and_ends(
    filed: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_store, "MAX_BYTES", 1)
    filed.add("r1", "main", [row(n) for n in range(1, 30)])
    assert (page(filed).calls, filed.total, filed.dropped) == ([], 29, 29)


def test_a_full_disk_costs_the_batch_and_no_more(filed: Records) -> None:
    """It is told as dropped; with room again records are kept again."""
    filed.add("r1", "main", [running(1), row(2)])
    table = filed._store
    assert isinstance(table, Table)
    ((pages,),) = table._database.execute("PRAGMA page_count")
    table._database.execute(f"PRAGMA max_page_count = {pages}")
    filed.add("r1", "main", [row(n, pretty_result="x" * 5_000) for n in range(3, 103)])
    assert (numbers(page(filed)), filed.total, filed.dropped) == ([1, 2], 102, 100)
    table._database.execute("PRAGMA max_page_count = 1000000")
    filed.add("r1", "main", [row(200), row(1)])
    assert (numbers(page(filed)), filed.total, filed.dropped) == ([1, 2, 200], 103, 100)
    assert page(filed, CallFilter(status="running")).total == 0


def test_memory_keeps_the_newest_and_counts_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that are gone it does not know which they were."""
    monkeypatch.setattr(call_store, "MAX_IN_MEMORY", 10)
    records = Records()
    records.add("r1", "main", [row(n) for n in range(1, 31)])
    assert numbers(page(records)) == list(range(21, 31))
    assert (page(records).total, records.total, records.dropped) == (30, 30, 20)
    assert page(records, meant("total")).total == 10


@pytest.mark.parametrize("how", ["no module", "no folder", "no database"])
def test_without_a_file_records_are_kept_in_memory(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pythons are built without `sqlite3`; a folder may be gone."""
    folder = tmp_path
    if how == "no module":
        monkeypatch.setitem(sys.modules, "sqlite3", None)
    elif how == "no folder":
        folder = tmp_path / "gone"
    else:
        (tmp_path / "records.db").write_bytes(b"something else" * 1_000)
    records = Records(folder)
    records.add("r1", "main", [row(1)])
    assert isinstance(records._store, call_store.Memory)
    assert numbers(page(records)) == [1]
    records.close()


# --- many ---------------------------------------------------------------------------------------


@pytest.mark.full
def test_a_hundred_thousand_records_are_taken_and_found_quickly(filed: Records) -> None:
    """No batch holds up the event loop: it takes less than 10 ms, on a slow machine more."""
    took = []
    for start in range(1, 100_001, 1_000):
        rows = [
            row(n, f"shop.f{n % 97}", nodeid=f"t{n // 500}") for n in range(start, start + 1_000)
        ]
        began = time.thread_time()
        filed.add("r1", "main", rows)
        took.append(time.thread_time() - began)
    assert statistics.median(took) < 0.05
    assert (filed.total, filed.dropped) == (100_000, 0)
    found = page(filed, meant("f5"), limit=3)
    assert (numbers(found), found.total) == ([99_721, 99_818, 99_915], 1_031)
    found = page(filed, CallFilter(nodeid="t0"))
    assert (numbers(found), found.total) == (list(range(1, 500)), 499)
    assert numbers(page(filed, limit=2, before="r1.main.c50000")) == [49_998, 49_999]
    assert page(filed, CallFilter(status="exception")).calls == []


def test_a_long_search_lets_the_event_loop_run(
    filed: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_store, "SLICE", 10)
    filed.add("r1", "main", [row(1, "shop.rare"), *(row(n) for n in range(2, 201))])
    turns = 0

    async def search() -> CallPage:
        nonlocal turns
        searching = asyncio.create_task(filed.page(meant("rare"), 100))
        while not searching.done():
            turns += 1
            await asyncio.sleep(0)
        return await searching

    assert numbers(asyncio.run(search())) == [1]
    assert turns >= 20


def test_records_that_come_while_one_searches_do_no_harm(
    filed: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do those that go meanwhile."""
    monkeypatch.setattr(call_store, "SLICE", 10)
    monkeypatch.setattr(call_store, "MAX_RECORDS", 200)
    filed.add("r1", "main", [row(n, f"shop.f{n % 2}") for n in range(1, 201)])

    async def search() -> CallPage:
        searching = asyncio.create_task(filed.page(meant("f1"), 1_000))
        number = 200
        while not searching.done():
            number += 1
            filed.add("r1", "main", [row(number, f"shop.f{number % 2}")])
            await asyncio.sleep(0)
        return await searching

    found = numbers(asyncio.run(search()))
    assert found == sorted(set(found))
    assert found[-1] == 201  # it began after the first that came
    assert found[0] < 50


# --- the tool -----------------------------------------------------------------------------------

TOOL = "breakpoint_get_call_records"


async def reported(front: Front, process: Process, *rows: dict[str, Any]) -> None:
    """Send rows and wait until they have arrived."""
    total = front.runs.records.total + len(rows)
    await process.send(Recorded(list(rows)))
    await front.until(lambda: front.runs.records.total >= total)


@in_loop
async def test_without_a_run_the_list_is_empty_and_says_how_to_fill_it() -> None:
    async with serving() as front:
        reply = await front.call(TOOL)
        assert (reply["calls"], reply["total_count"], reply["truncated"]) == ([], 0, False)
        (go,) = reply["next"]
        assert '"behavior":"go"' in go
        assert "next_before" not in reply


@in_loop
async def test_calls_are_reported_with_total_and_truncated() -> None:
    """The default limit is 100."""
    async with serving() as front:
        await front.start()
        (process,) = await front.live("main")
        await reported(front, process, *(row(n, f"shop.f{n % 2}") for n in range(1, 151)))
        reply = await front.call(TOOL, max_chars=200_000)
        assert len(reply["calls"]) == 100
        assert (reply["total_count"], reply["truncated"]) == (150, True)
        assert reply["next_before"] == reply["calls"][0]["call_id"] == "r1.main.c51"
        reply = await front.call(TOOL, max_chars=200_000, before="r1.main.c51")
        assert (len(reply["calls"]), reply["total_count"], reply["truncated"]) == (50, 150, False)
        assert "next_before" not in reply
        reply = await front.call(TOOL, function_name="shop.f1", limit=2)
        assert [call["call_id"] for call in reply["calls"]] == ["r1.main.c147", "r1.main.c149"]
        assert (reply["total_count"], reply["truncated"]) == (75, True)
        reply = await front.call(TOOL, status="exception")
        assert (reply["calls"], reply["total_count"], reply["truncated"]) == ([], 0, False)
        assert "next" not in reply
        assert (await front.call("debug_state"))["counts"]["records"] == 150


@in_loop
async def test_what_is_cut_to_size_is_the_oldest_and_pages_join() -> None:
    """Records accept `before`, and a limit never lifts the cap."""
    async with serving() as front:
        await front.start()
        (process,) = await front.live("main")
        await reported(front, process, *(row(n) for n in range(1, 41)))
        seen: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            reply = await front.call(TOOL, limit=25, max_chars=5_000, **cursor)
            assert len(json.dumps(reply, ensure_ascii=False, separators=(",", ":"))) <= 5_000
            assert reply["total_count"] == 40
            seen = [call["call_id"] for call in reply["calls"]] + seen
            if not reply["truncated"]:
                break
            assert reply["next_before"] == seen[0]
            cursor = {"before": seen[0]}
        assert seen == [f"r1.main.c{n}" for n in range(1, 41)]


@in_loop
async def test_a_record_that_alone_is_too_long_is_shortened() -> None:
    """One at least is told, and one can go on behind it."""
    async with serving() as front:
        await front.start()
        (process,) = await front.live("main")
        await reported(front, process, row(1), row(2, pretty_result="x" * 50_000))
        reply = await front.call(TOOL)
        (call,) = reply["calls"]
        assert call["pretty_result"].endswith("chars]")
        assert (reply["truncated"], reply["next_before"]) == (True, "r1.main.c2")


REFUSED: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({"limit": 0}, "invalid_limit", "limit"),
    ({"limit": -3}, "invalid_limit", "limit"),
    ({"limit": "five"}, "invalid_limit", "limit"),
    ({"status": "failed"}, "invalid_parameter", "status"),
    ({"function_name": "a b"}, "invalid_parameter", "function_name"),
    ({"before": "r1.main.c99"}, "invalid_parameter", "before"),
    ({"before": 5}, "invalid_parameter", "before"),
)


@in_loop
async def test_what_does_not_fit_is_refused() -> None:
    async with serving() as front:
        for arguments, error, parameter in REFUSED:
            reply = await front.call(TOOL, **arguments)
            assert (reply["error"], reply["parameter"]) == (error, parameter), arguments


@in_loop
async def test_a_limit_beyond_any_reply_is_no_error() -> None:
    async with serving() as front:
        await front.start()
        (process,) = await front.live("main")
        await reported(front, process, row(1))
        reply = await front.call(TOOL, limit=10**30)
        assert (len(reply["calls"]), reply["truncated"]) == (1, False)


@in_loop
async def test_records_are_complete_over_runs_and_workers() -> None:
    """Until discarded; a call that never ended stays as running."""
    async with serving() as front:
        run = await front.start()
        one, two = await front.live("gw0", "gw1")
        await reported(front, one, row(1, call_id="r1.gw0.c1"), running(4, call_id="r1.gw0.c2"))
        await reported(front, two, row(2, call_id="r1.gw1.c1"))
        await front.runs.ladder.stop(run, kill=True)
        await front.start()
        again = await front.greeted("main", "r2")
        await again.until_begin()
        await reported(front, again, row(9, call_id="r2.main.c1"))
        reply = await front.call(TOOL)
    assert [(call["call_id"], call["run_id"], call["worker"]) for call in reply["calls"]] == [
        ("r1.gw0.c1", "r1", "gw0"),
        ("r1.gw1.c1", "r1", "gw1"),
        ("r1.gw0.c2", "r1", "gw0"),
        ("r2.main.c1", "r2", "main"),
    ]
    assert [call["status"] for call in reply["calls"]][2] == "running"


@in_loop
async def test_what_is_dropped_is_reported() -> None:
    """`total_count` has it, `truncated` has not: nobody can page to it."""
    async with serving() as front:
        await front.start()
        (process,) = await front.live("main")
        await process.send(Recorded([row(1)], dropped=9, lost=7))
        await front.until(lambda: front.runs.records.total >= 8)
        reply = await front.call(TOOL)
    assert (reply["total_count"], reply["dropped"], reply["truncated"]) == (8, 7, False)


@in_loop
async def test_the_event_log_keeps_its_calls() -> None:
    """Events of type `call`; both rows of one call are events."""
    async with serving() as front:
        await front.start()
        (process,) = await front.live("main")
        await reported(front, process, running(1))
        await process.send(Recorded([row(1), row(2)]))
        await front.until(lambda: front.runs.records.total == 2)
        reply = await front.call("timeline_get", types=["call"])
    assert [event["call_id"][-2:] for event in reply["events"]] == ["c1", "c1", "c2"]
    assert [event["status"] for event in reply["events"]] == ["running", "success", "success"]


@in_loop
async def test_listing_tests_records_nothing() -> None:
    """Imports run code; a listing is no run that a client knows."""
    async with serving() as front:
        front.runs.recipe = WAITING
        await front.start(listing=True)
        process = await front.greeted("main", "l1")
        await process.until_begin()
        await process.send(Recorded([row(1)]))
        await front.until(lambda: front.log.last_seq >= 3)
        assert (await front.call(TOOL))["total_count"] == 0


# --- cutting from the front ---------------------------------------------------------------------


@pytest.mark.parametrize("most", [500, 900, 3_000])
def test_a_list_that_is_cut_from_its_front_keeps_as_much_as_fits(most: int) -> None:
    """The maps in step keep the same items."""
    items = [f"item {n}" for n in range(500)]
    body = {"items": items, "of": dict.fromkeys(items, "x" * 9), "truncated": False}
    text = fit(body, most, lists=["items"], cursor=str, in_step={"items": ["of"]}, from_front=True)
    cut = json.loads(text)
    assert most - 60 < len(text) <= most
    assert cut["items"] == items[-len(cut["items"]) :]
    assert list(cut["of"]) == cut["items"]
    assert (cut["truncated"], cut["total_count"]) == (True, 500)
    assert cut["next_before"] == cut["items"][0]
    assert "next_after" not in cut
