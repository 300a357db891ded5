"""Tests that ended: whatever of them leaves, and whenever their process dies, each counts once.

`protocol.ended_tests` has the format, `link.ended_tests` sends, the front end's
`processes.arrived_tests` puts together.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cideldill_mcp.processes.arrived_tests import ArrivedTests
from pytest_cideldill.link.ended_tests import EndedTests
from pytest_cideldill.protocol import (
    Event,
    MalformedMessage,
    NodeFinished,
    NodesFinished,
    NodeStarted,
    PhaseReported,
)
from pytest_cideldill.protocol.current_test_file import PositionFile, read_left_behind
from pytest_cideldill.protocol.ended_tests import SIZE, EndedTest, Row
from tests.each_case import for_each
from tests.wire.linked import DEADLINE_S, Linked

SKIPPED = ("call", "skipped", "skipped")
FAILED = ("call", "failed", "failed")


class Queue:
    """A link whose queue a test empties; what has left it arrives."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []
        self.arrived: list[Any] = []
        self.flushes = True

    def send(self, event: Event, *, urgent: bool = False) -> None:
        self.waiting.append(event)

    def send_test(self, event: Any, *, later: bool) -> None:
        self.waiting.append(event)

    def when_sent(self, report: Callable[[], object]) -> None:
        self.waiting.append(report)

    def flush(self, deadline_s: float) -> bool:
        if self.flushes:
            self.leave(len(self.waiting))
        return self.flushes

    def leave(self, count: int) -> None:
        for what in self.waiting[:count]:
            if callable(what):
                what()
            else:
                self.arrived.append(what)
        del self.waiting[:count]


def received(link: Queue, path: Path) -> list[Event]:
    """All events that a front end has in the end, as single ones."""
    tests = ArrivedTests()
    events: list[Event] = []
    for what in link.arrived:
        sent = NodesFinished([json.loads(what.text)]) if isinstance(what, EndedTest) else what
        events += [event for event, _ in tests.of(sent, 1.0)]
    return events + [event for event, _ in tests.left_behind(str(path))]


def run_tests(link: Queue, path: Path, rolls: random.Random) -> list[Event]:
    """Have some tests begin and end; what leaves meanwhile is chance. The events of a plain run."""
    position = PositionFile(str(path))
    tests = EndedTests(link, position.rows, waits=True)  # type: ignore[arg-type]
    link.flushes = rolls.random() < 0.5
    longest = rolls.choice([20, 2_000, 40_000])
    events: list[Event] = []
    for number in range(rolls.randrange(1, 120)):
        nodeid = f"test_it.py::test_é[{'x' * rolls.randrange(longest)}{number}]"
        position.write("setup", nodeid)
        start = NodeStarted(nodeid, 1_000.0 + number)
        tests.started(start)
        events.append(start)
        reports = []
        if rolls.random() < 0.3:
            phase, category, outcome = rolls.choice([SKIPPED, FAILED])
            report = PhaseReported(nodeid, phase, category, outcome, 0.5)
            reports.append([phase, category, outcome])
            link.send(report)
            events.append(report)
        failed = [each[:2] for each in reports if each[2] == "failed"] or None
        end = NodeFinished(nodeid, 0.25 * number, {} if reports else {"passed": 1}, failed=failed)
        tests.ended(end, reports)
        events.append(end)
        if rolls.random() < 0.3:
            link.leave(rolls.randrange(len(link.waiting) + 1))
    if rolls.random() < 0.5:
        position.write("setup", "test_it.py::test_dies")
        start = NodeStarted("test_it.py::test_dies", 5_000.0)
        tests.started(start)
        events.append(start)
    return events


def outlined(events: list[Event]) -> list[tuple[object, ...]]:
    """What counts: reports of failures that were lost stand in the ends of their tests."""
    lines: list[tuple[object, ...]] = []
    for event in events:
        if isinstance(event, PhaseReported):
            if event.outcome != "failed":
                lines.append((event.nodeid, event.phase, event.category, event.outcome))
        elif isinstance(event, NodeStarted):
            lines.append((event.nodeid[:4_000], event.ts))  # the file has no room for more
        else:
            lines.append((event,))
    return lines


@pytest.mark.full
@pytest.mark.quick("seeds0")
@pytest.mark.parametrize("seeds", [range(15), range(15, 60)])
def test_whenever_a_process_dies_each_test_counts_once(tmp_path: Path, seeds: range) -> None:
    for seed in seeds:
        check_that_each_test_counts_once(tmp_path / f"position {seed}", seed)


def check_that_each_test_counts_once(path: Path, seed: int) -> None:
    """What had left, with what its file holds, is all, in order; unless nobody read for long."""
    rolls = random.Random(seed)
    link = Queue()
    events = run_tests(link, path, rolls)
    if not link.flushes and len(outlined(received(link, path))) < len(outlined(events)):
        # No room was left, and nobody read: a part in the middle is gone, nothing is there twice.
        shown = outlined(received(link, path))
        assert len(set(map(repr, shown))) == len(shown), seed
        assert set(map(repr, shown)) <= set(map(repr, outlined(events))), seed
        return
    assert outlined(received(link, path)) == outlined(events), seed


@pytest.mark.full
@for_each("seed", range(20))
def test_a_damaged_file_gives_rows_or_none(tmp_path: Path, seed: int) -> None:
    """The reader is the front end: no test process may make it fail."""
    rolls = random.Random(seed)
    path = tmp_path / f"position {seed}"
    run_tests(Queue(), path, rolls)
    data = bytearray(path.read_bytes())
    for _ in range(rolls.choice([1, 50, 5_000])):
        data[rolls.randrange(4096, len(data))] = rolls.randrange(256)
    path.write_bytes(data[: rolls.choice([len(data), 4096 + SIZE - 1, 5_000])])
    left = read_left_behind(str(path))
    assert left is None or all(isinstance(row, Row) for row in left.rows)
    list(ArrivedTests().left_behind(str(path)))


@for_each(
    "row",
    [
        [],
        [1, 1, 1.0, 2.0, [], "t::x", 0.1],
        [1, 1, 1.0, "2", [], "t::x", 0.1, {}],
        [1, 1, 1.0, 2.0, [["call"]], "t::x", 0.1, {}],
        [1, 1, 1.0, 2.0, [], None, 0.1, {}],
        [1, True, 1.0, 2.0, [], "t::x", 0.1, {"passed": "1"}],
    ],
)
def test_a_row_that_is_none_is_refused_by_name(row: list[Any]) -> None:
    """As any message that does not fit the table."""
    with pytest.raises(MalformedMessage) as refused:
        list(ArrivedTests().of(NodesFinished([row]), 1.0))
    assert refused.value.kind == "nodes_finished"


def test_tests_leave_in_one_message_without_their_starts() -> None:
    """A start leaves by itself when its test has not ended."""
    with Linked() as linked:
        tests = EndedTests(linked.link, None, waits=True)
        for number in range(3):
            tests.started(NodeStarted(f"t::{number}", float(number)))
            tests.ended(NodeFinished(f"t::{number}", 0.5, {"passed": 1}), [])
        tests.started(NodeStarted("t::3", 3.0))
        assert linked.link.flush(DEADLINE_S)
        ended, started = linked.receive(2)
        assert started == NodeStarted("t::3", 3.0)
        assert isinstance(ended, NodesFinished)
        events = [event for event, _ in ArrivedTests().of(ended, 1.0)]
        kinds = [NodeStarted, NodeFinished] * 3
        assert [type(event) for event in events] == kinds


def test_an_event_between_tests_keeps_its_place() -> None:
    """What a test reports stands between its start and its end."""
    report = PhaseReported("t::0", *SKIPPED, 0.1)
    with Linked() as linked:
        tests = EndedTests(linked.link, None, waits=True)
        tests.started(NodeStarted("t::0", 1.0))
        linked.link.send(report)
        tests.ended(NodeFinished("t::0", 0.5, {}), [[*SKIPPED]])
        assert linked.link.flush(DEADLINE_S)
        started, reported, ended = linked.receive(3)
        assert (started, reported) == (NodeStarted("t::0", 1.0), report)
        assert isinstance(started, NodeStarted)
        assert isinstance(ended, NodesFinished)
        arrived = ArrivedTests()
        assert [event for event, _ in arrived.of(started, 1.0)] == [started]
        assert [event for event, _ in arrived.of(ended, 1.0)] == [NodeFinished("t::0", 0.5, {})]
