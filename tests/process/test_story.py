"""What a record tells: read once, bounded, and never broken by what stands in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_cideldill.reports.digest import KEPT, read, runs_in
from tests.process.written import BEGAN, Writer, call, hit, phase, write, write_part


def test_tests_failures_hits_and_calls_are_reported_of_all_processes(tmp_path: Path) -> None:
    main, worker = Writer().begin(), Writer("gw0").begin()
    passed = worker.test("test_right", hit("total=3"), call("c1"))
    failed = worker.test("test_wrong", hit("total=4", 2), failure={})
    reported = read(write(tmp_path, main.end(), worker.end()))
    assert [(each.nodeid, each.worker, each.outcome) for each in reported.tests] == [
        (passed, "gw0", "passed"),
        (failed, "gw0", "failed"),
    ]
    (failure,) = reported.failures
    assert (failure.nodeid, failure.place) == (failed, "test_shop.py:10")
    assert failure.cause == "AssertionError: assert 3 == 4"
    assert failure.statement == "assert total([1, 2]) == 4"
    (tracepoint,) = reported.hottest
    assert (tracepoint.place, tracepoint.message) == ("shop.py:5", "total={total}")
    messages = [line.values["message"] for line in tracepoint.hits.lines()]
    assert (messages, reported.calls.count, reported.damaged) == (["total=3", "total=4"], 1, 0)
    assert reported.summary.outcomes == {"failed": 1, "passed": 1}


def test_of_many_rows_the_first_and_the_last_are_kept(tmp_path: Path) -> None:
    writer = Writer().begin()
    writer.test("test_hot", *(hit(f"n={number}", number) for number in range(5)))
    (tracepoint,) = read(write(tmp_path, writer.end())).hottest
    assert tracepoint.hits.count == 5
    assert [line.values["hit_count"] for line in tracepoint.hits.lines(4)] == [0, 1, 3, 4]
    assert [line.values["hit_count"] for line in tracepoint.hits.lines(1)] == [4]


@pytest.mark.full
def test_what_is_kept_of_a_hot_tracepoint_does_not_drown_another_one(tmp_path: Path) -> None:
    """Hits are taken in by blocks where they can be."""
    writer = Writer().begin()
    rare, many = {3, KEPT, KEPT * 2}, KEPT * 4
    hits = [hit("rare" if n in rare else "hot", n, f"tp-{int(n in rare)}") for n in range(many)]
    writer.test("test_hot", *hits)
    hot, other = read(write(tmp_path, writer.end())).hottest
    assert (hot.hits.count, other.hits.count) == (many - 3, 3)
    assert [line.values["hit_count"] for line in other.hits.lines()] == sorted(rare)
    kept = [line.values["hit_count"] for line in hot.hits.lines(many)]
    assert kept[:KEPT] == [n for n in range(KEPT + 2) if n not in rare]
    assert kept[-KEPT:] == [*range(many - KEPT, many)]
    assert len(kept) < 2 * KEPT + 1_000  # a block more


def test_a_tracepoint_of_a_function_reports_where_and_when(tmp_path: Path) -> None:
    writer = Writer().begin()
    place = {"file": "/project/shop.py", "qualname": "Cart.add", "line": 7, "at": "return"}
    writer.append("add_trace", id="tp-2", message="{result}", condition="item", **place)
    reported = read(write(tmp_path, writer.end())).tracepoints["tp-2"]
    assert (reported.place, reported.message, reported.condition) == (
        "shop.py:7 Cart.add@return",
        "{result}",
        "item",
    )


def test_a_test_whose_process_was_killed_is_unfinished(tmp_path: Path) -> None:
    writer = Writer().begin()
    writer.test("test_right")
    writer.append("test_started", nodeid="test_shop.py::test_killer")
    write_part(tmp_path / "run-x", writer.lines)
    reported = read(tmp_path / "run-x")
    assert [each.outcome for each in reported.tests] == ["passed", "unfinished"]
    assert reported.summary.finished_at is None


def test_what_its_worker_reported_of_a_test_is_not_reported_again(tmp_path: Path) -> None:
    """xdist's controller tells the tests of a worker that crashed; it can't know which we know."""
    main, worker = Writer().begin(), Writer("gw0").begin()
    failed = worker.test("test_wrong", failure={})
    main.now = worker.now
    again = phase(failed)
    lost = phase("test_shop.py::test_lost", phase="???", exception=None, longrepr="crashed")
    for nodeid, reported in ((failed, again), (lost["nodeid"], lost)):
        ended: dict[str, Any] = {"plain": {}, "duration_s": 0.1, "has_ended": nodeid == failed}
        main.append("node_relayed", about="gw0", nodeid=nodeid, phases=[reported], **ended)
    story = read(write(tmp_path, main.end(), worker))
    assert [(each.nodeid, each.phase) for each in story.failures] == [
        (failed, "call"),
        (lost["nodeid"], "???"),
    ]
    assert [each.outcome for each in story.tests] == ["failed", "failed"]
    assert story.failures[1].cause == "crashed"
    assert story.summary.outcomes == {"failed": 2}


def test_attempts_of_a_test_are_one_test(tmp_path: Path) -> None:
    """pytest-rerunfailures: what counts is the last one."""
    writer = Writer().begin()
    nodeid = "test_shop.py::test_flaky"
    writer.append("test_started", nodeid=nodeid)
    writer.append("test_phase", **phase(nodeid, category="rerun", attempt=1))
    writer.append("test_outcome", nodeid=nodeid, duration_s=1.0, plain={}, again=True)
    writer.test("test_flaky")
    (test,) = read(write(tmp_path, writer.end(0))).tests
    assert (test.outcome, test.duration_s) == ("passed", 1.002)
    assert test.began == pytest.approx(BEGAN + 0.003)


def test_a_file_that_is_not_collected_is_a_failure_once(tmp_path: Path) -> None:
    workers = [Writer(name).begin() for name in ("gw0", "gw1")]
    for each in workers:
        each.append("collection_failed", nodeid="test_x.py", longrepr="E   ImportError: no x")
    story = read(write(tmp_path, *workers))
    assert story.summary.outcomes == {"error": 1}
    (failure,) = story.failures
    assert (failure.nodeid, failure.phase, failure.cause) == (
        "test_x.py",
        "collect",
        "ImportError: no x",
    )


def test_words_of_the_run_are_notes(tmp_path: Path) -> None:
    writer = Writer().begin()
    writer.append("warning", message="a probe is gone")
    writer.append("log", message="after checkout", values={"total": "40"}, nodeid="t.py::test_a")
    notes = read(write(tmp_path, writer.end())).notes
    assert [(each.type, each.text, each.nodeid) for each in notes] == [
        ("warning", "a probe is gone", None),
        ("log", "after checkout total=40", "t.py::test_a"),
    ]


@pytest.mark.parametrize(
    "values",
    [
        {"type": "test_outcome", "nodeid": "x", "plain": {}},
        {"type": "test_started", "nodeid": ["x"]},
        {"type": "add_line", "id": {}, "file": 3},
        {"type": "log", "message": "x", "values": 3},
    ],
)
def test_a_line_that_makes_no_sense_is_counted(tmp_path: Path, values: dict[str, Any]) -> None:
    """A record may come from anywhere."""
    writer = Writer().begin()
    writer.append(**values)
    assert read(write(tmp_path, writer.end())).damaged == 1


def test_the_runs_of_a_record_are_found_by_folder_and_id(tmp_path: Path) -> None:
    first = write(tmp_path, Writer().begin(), name="run-20260101T000000Z-c1")
    second = write(tmp_path, Writer().begin(), name="run-20260102T000000Z-c2")
    assert runs_in(tmp_path) == [first, second]
    assert runs_in(tmp_path, "c2") == runs_in(second) == [second]
    with pytest.raises(ValueError, match="no run 'c3'; there are run-20260101T000000Z-c1, run-"):
        runs_in(tmp_path, "c3")
    with pytest.raises(ValueError, match="elsewhere is no folder"):
        runs_in(tmp_path / "elsewhere")
