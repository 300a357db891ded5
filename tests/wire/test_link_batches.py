"""What the hot path leaves for the link: rows before the stop behind them, numbers, wake-ups.

A process numbers its own events, and drains its hits before it sends a stop.
"""

from __future__ import annotations

import itertools
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_cideldill.link import row_log as log_module
from pytest_cideldill.link import threaded as link_module
from pytest_cideldill.link.row_log import MAX_BATCH, MAX_LATE, RowLog
from pytest_cideldill.protocol import Event, NodeStarted, Recorded, Stopped, Warned
from pytest_cideldill.protocol.framing import FrameDecoder
from pytest_cideldill.protocol.rows import Loss
from tests.wire.linked import DEADLINE_S, Linked


class Recording:
    """A link that drains a call log."""

    def __init__(self) -> None:
        self.nudges = 0
        self.log = RowLog(self._nudge, has_room=lambda: self.linked.link.has_room())
        log = self.log
        self.linked = Linked(mark=log.mark, is_next=log.is_next, collect=log.take)
        self._decoder = FrameDecoder()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *args: object) -> None:
        self.linked.__exit__(*args)

    def _nudge(self) -> None:
        self.nudges += 1
        self.linked.link.nudge()

    def add(self, count: int, function: str = "shop.total") -> None:
        """Record calls of a function, numbered by their start."""
        for number in range(count):
            self.log.add((reported, float(number), 0.5, function, "t::x", 1, "(1)", "2", None))

    def frames(self, until: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """The frames that arrive, as plain data, until there are enough."""
        frames: list[dict[str, Any]] = []
        while not until(frames):
            data = self.linked.socket.recv(65536)
            assert data, "hung up"
            frames += self._decoder.feed(data)
        return frames


def reported(row: tuple[Any, ...]) -> dict[str, Any]:
    return {"type": "call", "ts": row[1], "function": row[3]}


def calls_in(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [call for frame in frames for call in frame.get("rows", ())]


def stops_in(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [frame for frame in frames if "pause" in frame]


@pytest.mark.full
def test_rows_are_taken_at_any_depth_of_the_stack() -> None:
    """A recursion without end records calls where no frame is left to wake the link."""

    def dive(depth: int, act: Callable[[], object]) -> None:
        if depth:
            dive(depth - 1, act)
        else:
            act()

    def deepest(act: Callable[[], object]) -> int:
        for depth in range(sys.getrecursionlimit(), 0, -1):
            try:
                dive(depth, act)
            except RecursionError:
                continue
            return depth
        raise AssertionError

    with Recording() as recording:
        row = (reported, 0.0, 0.5, "shop.total", "t::x", 1, "(1)", "2", None)
        added: list[object] = []
        most = deepest(lambda: added.append(row))
        for missing in range(30):
            dive(most - missing, lambda: recording.log.add(row))
            recording.add(1)
            assert len(calls_in(recording.frames(lambda frames: len(calls_in(frames)) > 1))) == 2


def test_rows_wake_the_link_by_themselves() -> None:
    """No event follows; they are told all the same."""
    with Recording() as recording:
        recording.add(1)
        (event,) = recording.linked.receive(1)
        assert isinstance(event, Recorded)
        assert event.rows[0]["function"] == "shop.total"


def test_a_nudge_without_rows_sends_nothing() -> None:
    """And harms nothing."""
    with Recording() as recording:
        recording.linked.link.nudge()
        recording.linked.link.send(Warned("next"))
        assert recording.linked.receive(1) == [Warned("next")]


def test_what_was_recorded_before_a_stop_is_reported_before_it() -> None:
    """Whatever the I/O thread was doing: the order is exact per process."""
    with Recording() as recording:
        for round in range(50):
            recording.add(7, f"f{round}")
            recording.linked.link.send(Stopped({"round": round}), urgent=True)
        frames = recording.frames(lambda got: len(stops_in(got)) == 50)
        for round, stop in enumerate(stops_in(frames)):
            before = calls_in(frames[: frames.index(stop)])
            mine = [call for call in before if call["function"] == f"f{round}"]
            assert [call["ts"] for call in mine] == list(map(float, range(7)))


def test_what_was_recorded_after_an_event_is_reported_after_it() -> None:
    """However long the I/O thread takes to come to it: the hits of a test follow its start."""
    with Recording() as recording:
        for round in range(3):
            recording.linked.link.send(Warned(str(round)))
            recording.add(5, f"f{round}")
        frames = recording.frames(lambda got: len(calls_in(got)) == 15)
        reported = [each.get("message") or each["rows"][0]["function"] for each in frames]
        assert reported == ["0", "f0", "1", "f1", "2", "f2"]


def test_a_test_that_ends_while_rows_are_taken_stands_before_those_of_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The I/O thread has seen all of the queue, and no row, when the program goes on."""
    with Recording() as recording:
        looks = itertools.count()

        def collect(until: object, is_late: bool) -> Iterator[Event]:
            if recording.nudges and next(looks) == 1:  # the row of the first one has been taken
                recording.linked.link.send_test(NodeStarted("next", 1.0), later=True)
                recording.add(1, "of the next")
            return recording.log.take(until, is_late)

        monkeypatch.setattr(recording.linked.owner, "_collect", collect)
        recording.add(1, "of the first")
        frames = recording.frames(lambda got: len(calls_in(got)) == 2)
        found = [each.get("nodeid") or each["rows"][0]["function"] for each in frames]
        assert found == ["of the first", "next", "of the next"]


def test_an_event_whose_mark_was_dropped_is_reported_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the rows before it; those behind it still follow."""
    monkeypatch.setattr(log_module, "MAX_WAITING", 3)
    log = RowLog(lambda: None)
    first, second = object(), object()
    for item, rows in ((first, 2), (second, 4)):
        log.mark(item)
        for number in range(rows):
            log.add((reported, float(number), 0.5, "shop.total", "t::x", 1, "(1)", "2", None))
    assert list(log.take(first)) == []
    assert list(log.take(second)) == []
    (warned, recorded) = log.take()
    assert isinstance(recorded, Recorded)
    assert len(recorded.rows) == 3
    assert isinstance(warned, Warned)
    assert recorded.dropped == 3
    assert list(log.take()) == []


def test_a_stop_does_not_wait_long_for_what_was_recorded_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The newest rows come before it, the others are dropped and counted; commands have their turn.

    No stop is lost, and xdist kills a worker that does not end.
    """
    monkeypatch.setattr(link_module, "PATIENCE_S", 0.1)
    monkeypatch.setattr(link_module, "HIGH_WATER", 10_000)
    with Recording() as recording:

        def slow(row: tuple[Any, ...]) -> dict[str, Any]:
            if row[1] >= 0.0:
                threading.Event().wait(0.002)
            return reported((*row, *[None] * 9))

        total = 30 * MAX_BATCH
        for number in range(total):
            recording.log.add((slow, -1.0 if number % 100 else float(number), 0, "f"))
        recording.linked.link.send(Stopped({}), urgent=True)
        recording.log.add((slow, 1e6, 0, "g"))
        frames = recording.frames(lambda got: "g" in {call["function"] for call in calls_in(got)})
        (stop,) = stops_in(frames)
        before = calls_in(frames[: frames.index(stop)])
        assert {call["function"] for call in before} == {"f"}
        assert len(before) + dropped_in(frames) == total
        assert MAX_LATE <= len(before) < total


def test_rows_alone_arrive_before_a_flush_is_over() -> None:
    """At the end of a run nothing stays behind."""
    with Recording() as recording:
        recording.add(5)
        assert recording.linked.link.flush(DEADLINE_S)
        recording.linked.socket.setblocking(False)
        (event,) = recording.linked.receive(1)
        assert isinstance(event, Recorded)
        assert len(event.rows) == 5


def test_events_carry_gapless_rising_numbers_in_the_order_of_the_wire() -> None:
    """`n`: a gap means dropped. Collected batches and events of several threads share them."""
    with Recording() as recording:

        def produce() -> None:
            for number in range(100):
                recording.add(3)
                recording.linked.link.send(Warned(str(number)), urgent=number % 10 == 0)

        threads = [threading.Thread(target=produce) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
        frames = recording.frames(
            lambda got: len(calls_in(got)) == 1200 and sum("message" in f for f in got) == 400
        )
        assert [frame["n"] for frame in frames] == list(range(1, len(frames) + 1))
        stamps = [frame["ts"] for frame in frames]
        assert all(stamp > 1e9 for stamp in stamps)


def test_batches_are_bounded_and_lose_no_row() -> None:
    """One event never holds more than `MAX_BATCH` rows."""
    with Recording() as recording:
        total = 3 * MAX_BATCH + 1
        recording.add(total)
        frames = recording.frames(lambda got: len(calls_in(got)) == total)
        assert max(len(frame["rows"]) for frame in frames) <= MAX_BATCH
        assert [call["ts"] for call in calls_in(frames)] == list(map(float, range(total)))


def dropped_in(frames: list[dict[str, Any]]) -> int:
    return sum(frame.get("dropped", 0) for frame in frames)


def test_rows_that_are_dropped_are_counted_by_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The count stands at the gap, and at no other. One warning says that there are gaps."""
    monkeypatch.setattr(log_module, "MAX_WAITING", 4)
    monkeypatch.setattr(log_module, "MAX_BATCH", 2)
    log = RowLog(lambda: None)
    batches: list[tuple[int, int]] = []
    for count in (6, 3, 5):
        for number in range(count):
            log.add((reported, float(number), 0.5, "shop.total", "t::x", 1, "(1)", "2", None))
        events = list(log.take(log))
        recorded = [event for event in events if isinstance(event, Recorded)]
        batches += [(len(each.rows), each.dropped) for each in recorded]
        assert sum(isinstance(event, Warned) for event in events) == (count == 6)
    assert batches == [(2, 2), (2, 0), (2, 0), (1, 0), (2, 1), (2, 0)]
    assert list(log.take(log)) == []


@pytest.mark.parametrize("batch", [2, 4])
@pytest.mark.parametrize("until", ["mark", None])
def test_rows_that_are_dropped_while_the_link_takes_are_counted(
    monkeypatch: pytest.MonkeyPatch, until: str | None, batch: int
) -> None:
    """Also if the row behind them is among those that it takes, and no other follows."""
    monkeypatch.setattr(log_module, "MAX_WAITING", 4)
    monkeypatch.setattr(log_module, "MAX_BATCH", batch)
    log = RowLog(lambda: None)
    popped = log._popped
    rounds = iter((6, 3, 0, 5))
    added = 0

    def add(count: int) -> None:
        nonlocal added
        added += count
        for number in range(count):
            log.add((reported, float(number), 0.5, "shop.total", "t::x", 1, "(1)", "2", None))

    def other_threads_first(count: int) -> list[Any]:
        add(next(rounds, 0))
        return popped(count)

    monkeypatch.setattr(log, "_popped", other_threads_first)
    add(4)
    events: list[Any] = []
    while more := list(log.take(until)):
        events += more
    recorded = [event for event in events if isinstance(event, Recorded)]
    assert sum(len(event.rows) + event.dropped for event in recorded) == added >= 10


def test_every_row_is_reported_or_counted_wherever_it_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Threads drop and append while the link takes: nothing is lost in between or counted twice."""
    monkeypatch.setattr(log_module, "MAX_WAITING", 3)
    with Recording() as recording:
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            threads = [threading.Thread(target=recording.add, args=(5_000,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(DEADLINE_S)
        finally:
            sys.setswitchinterval(interval)
        recording.add(1, "last")
        frames = recording.frames(lambda got: any(c["function"] == "last" for c in calls_in(got)))
        assert len(calls_in(frames)) + dropped_in(frames) == 20_001
        assert dropped_in(frames) > 0
        assert [frame["n"] for frame in frames] == list(range(1, len(frames) + 1))


def test_a_peer_that_does_not_read_costs_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond what the link has encoded rows wait, and beyond their cap they are counted."""
    monkeypatch.setattr(log_module, "MAX_WAITING", 500)
    monkeypatch.setattr(log_module, "MAX_BATCH", 100)
    monkeypatch.setattr(link_module, "HIGH_WATER", 10_000)
    with Recording() as recording:
        outlet = recording.linked.outlet
        added, most = 0, 0
        dropped: list[object] = []

        def lose(row: object) -> Loss:
            dropped.append(row)
            return "call"

        recording.log.loses = lose
        while not dropped:
            recording.add(100)
            added += 100
            most = max(most, len(outlet.unsent))
        assert most < 10_000 + 100 * 200
        recording.add(1, "last")
        frames = recording.frames(lambda got: any(c["function"] == "last" for c in calls_in(got)))
        assert len(calls_in(frames)) + dropped_in(frames) == added + 1


def test_a_flush_waits_for_what_was_there_and_not_for_what_comes() -> None:
    """A thread that goes on must not wait for the hits of the others."""
    more_than_a_socket_takes = Recorded([{"message": "x" * 1_000_000}])
    with Linked(collect=lambda _until, _is_late: [more_than_a_socket_takes]) as linked:

        def reading() -> None:
            while linked.socket.recv(65536):
                pass

        reader = threading.Thread(target=reading)
        reader.start()
        try:
            assert all(linked.link.flush(DEADLINE_S) for _ in range(3))
        finally:
            linked.socket.shutdown(socket.SHUT_RDWR)
            reader.join(DEADLINE_S)


def test_stops_behind_dropped_rows_are_all_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stops and outcomes are never dropped."""
    monkeypatch.setattr(log_module, "MAX_WAITING", 3)
    with Recording() as recording:
        for round in range(50):
            recording.add(20)
            recording.linked.link.send(Stopped({"round": round}))
        frames = recording.frames(lambda got: len(stops_in(got)) == 50)
        assert [stop["pause"]["round"] for stop in stops_in(frames)] == list(range(50))
        assert len(calls_in(frames)) + dropped_in(frames) == 1_000


def test_a_nudge_serves_many_rows() -> None:
    """On the hot path most rows cost no wake-up."""
    with Recording() as recording:
        recording.add(20_000)
        recording.frames(lambda got: len(calls_in(got)) == 20_000)
        assert recording.nudges < 2_000


def test_a_closed_link_is_nudged_in_vain() -> None:
    """The test goes on after the front end went away."""
    with Recording() as recording:
        recording.linked.link.close(DEADLINE_S)
        recording.add(3)
        assert recording.nudges == 1
