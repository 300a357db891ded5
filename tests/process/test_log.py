"""Recorded calls between the hot path and the wire: rows in, bounded events out."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import pytest

from pytest_cideldill.callrecords.recorder import Recording
from pytest_cideldill.link import row_log as log_module
from pytest_cideldill.link.row_log import RowLog
from pytest_cideldill.project import Project
from pytest_cideldill.protocol import Event, Recorded, Warned
from pytest_cideldill.protocol.rows import Batch, HitFormat, Loss, Row
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.display import Lens
from tests.process.contexts import made_context
from tests.process.kept_rows import KeptRows


def report(row: Row) -> dict[str, Any]:
    return {"type": "call", "ts": row[1]}


def row(number: int) -> Row:
    return (report, float(number))


def reported(events: list[Event]) -> list[dict[str, Any]]:
    return [call for each in events if isinstance(each, Recorded) for call in each.in_order()]


def test_rows_are_reported_by_who_made_them() -> None:
    """Nothing here knows what they hold."""
    log = RowLog(lambda: None)
    log.add(row(1))
    assert list(log.take(log)) == [Recorded([{"type": "call", "ts": 1.0}])]


def test_only_the_first_row_of_a_batch_nudges() -> None:
    """And the first one after it was taken."""
    nudges: list[None] = []
    log = RowLog(lambda: nudges.append(None))
    for number in range(5):
        log.add(row(number))
    assert len(nudges) == 1
    assert len(reported(list(log.take(log)))) == 5
    assert list(log.take(log)) == []
    log.add(row(5))
    assert len(nudges) == 2


def test_rows_leave_in_order_in_bounded_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """`MAX_BATCH` rows in one event."""
    monkeypatch.setattr(log_module, "MAX_BATCH", 4)
    log = RowLog(lambda: None)
    for number in range(10):
        log.add(row(number))
    events = list(log.take(log))
    assert [len(event.rows) for event in events if isinstance(event, Recorded)] == [4, 4, 2]
    assert [call["ts"] for call in reported(events)] == list(map(float, range(10)))


def test_beyond_the_cap_the_oldest_rows_are_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Memory is bounded; the client is warned once, and a row tells how many are missing."""
    monkeypatch.setattr(log_module, "MAX_WAITING", 3)
    log = RowLog(lambda: None)
    for number in range(5):
        log.add(row(number))
    events = list(log.take(log))
    assert [call["ts"] for call in reported(events)] == [2.0, 3.0, 4.0]
    assert [each for each in events if isinstance(each, Warned)] == [
        Warned("recorded calls were dropped: too many at once; debug_state counts them")
    ]
    for number in range(5):
        log.add(row(number))
    (recorded,) = log.take(log)
    assert isinstance(recorded, Recorded)
    assert recorded.dropped == 2


def test_what_is_dropped_is_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that another row tells of is missing in the log, and has a record all the same."""
    monkeypatch.setattr(log_module, "MAX_WAITING", 1)
    losses: list[Loss] = ["hit", "record", "call", "record"]
    log = RowLog(lambda: None)
    log.loses = lambda row: losses[int(row[1])]
    for number in range(5):
        log.add(row(number))
    *warned, first = list(log.take(log))
    assert first == Recorded([{"type": "call", "ts": 4.0}], dropped=4, lost=2)
    assert warned == [
        Warned(f"{kind} were dropped: too many at once; debug_state counts them")
        for kind in ("hits", "recorded calls")
    ]
    for number in range(2):
        log.add(row(number))
    assert list(log.take(log)) == [Recorded([{"type": "call", "ts": 1.0}], dropped=1)]


def test_before_an_item_that_is_late_few_rows_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest; what is behind the item stays, and what a second look finds is not dropped."""
    monkeypatch.setattr(log_module, "MAX_LATE", 2)
    log = RowLog(lambda: None)
    item = object()
    for number in range(8):
        if number == 5:
            log.mark(item)
        log.add(row(number))
    _warned, first = log.take(item, is_late=True)
    assert isinstance(first, Recorded)
    assert ([call["ts"] for call in first.in_order()], first.dropped) == ([3.0, 4.0], 3)
    assert [call["ts"] for call in reported(list(log.take(log)))] == [5.0, 6.0, 7.0]


def test_what_finds_no_room_is_taken_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the mark of the item, whichever batch reaches it."""
    monkeypatch.setattr(log_module, "MAX_BATCH", 2)
    answers = iter([False, False])
    log = RowLog(lambda: None, has_room=lambda: next(answers))
    item = object()
    for number in range(4):
        log.add(row(number))
    log.mark(item)
    log.add(row(4))
    for expected in ([0.0, 1.0], [2.0, 3.0], []):
        assert [call["ts"] for call in reported(list(log.take(item)))] == expected
    assert [call["ts"] for call in reported(list(log.take()))] == [4.0]


def test_a_call_is_lost_when_no_other_row_reports_it() -> None:
    """One that was told as running keeps that record; one that was not told is told again."""
    lens = Lens(Project("/"), Redactor(environ={}))
    rows: list[Row] = []
    recording = Recording(made_context(lens, KeptRows(rows.append)))
    data: dict[str, Any] = {"pretty_args": [], "pretty_kwargs": {}}
    begun = recording.begin("shop.total", data, sys._getframe(), None)
    recording.log_running()
    ended = (report, begun, "success")
    assert recording.loses(ended) == "call"
    assert recording.loses(rows[0]) == "call"
    assert recording.loses(ended) == "record"
    recording.log_running()
    assert rows[0] == rows[1]
    recording.amend(begun, "result", 1, None)
    assert recording.loses(ended) == "call"
    assert recording.loses((report, 1.5, "t::x")) == "hit"


def test_taking_ends_although_rows_keep_coming() -> None:
    """A stop behind them must not wait for a busy thread."""
    log = RowLog(lambda: None)

    def busy(taken: Row) -> dict[str, Any]:
        log.add((busy, 99.0))
        return report(taken)

    log.add((busy, 1.0))
    log.add((busy, 2.0))
    assert [call["ts"] for call in reported(list(log.take(log)))] == [1.0, 2.0]
    assert [call["ts"] for call in reported(list(log.take(log)))] == [99.0, 99.0]


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_what_is_before_a_mark_leaves_before_its_item(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """However many rows are taken at once; several marks may follow each other."""
    monkeypatch.setattr(log_module, "MAX_BATCH", most)
    log = RowLog(lambda: None)
    left: list[int | str] = []
    script: list[int | str] = ["a", 1, 2, "b", "c", 3, 4, 5, "d", "e", 6]
    items = {each: [each] for each in script if isinstance(each, str)}
    for each in script:
        if isinstance(each, str):
            log.mark(items[each])
        else:
            log.add(row(each))
    for name in ("a", "b", "c", "d", "e"):
        left += [int(each["ts"]) for each in reported(list(log.take(items[name])))]
        left.append(name)
    left += [int(each["ts"]) for each in reported(list(log.take()))]
    assert left == script


def test_without_an_item_the_rows_before_any_mark_are_taken() -> None:
    log, item = RowLog(lambda: None), ["item"]
    for number in range(3):
        log.add(row(number))
    log.mark(item)
    log.add(row(3))
    assert [each["ts"] for each in reported(list(log.take()))] == [0, 1, 2]
    assert list(log.take()) == []
    assert list(log.take(item)) == []
    assert [each["ts"] for each in reported(list(log.take()))] == [3]


def test_what_reports_the_same_has_one_number() -> None:
    """Code that is watched again and again leaves nothing behind; rows told before stay told."""
    log = RowLog(lambda: None)

    def hit_format(id: str, *, condition_error: bool = False) -> HitFormat:
        return HitFormat(id, {"file": "x.py", "line": 1, "function": "f"}, str, condition_error)

    number = log.number(hit_format("tp-1"))
    assert log.number(hit_format("tp-1")) == number
    assert len({number, log.number(hit_format("tp-2"))}) == 2
    failed = log.number(hit_format("tp-1", condition_error=True))
    assert failed != number
    log.add((failed, 1.0, "t::x", 7, 1, "told"))
    (hit,) = reported(list(log.take()))
    assert (hit["breakpoint_id"], hit["condition_error"]) == ("tp-1", True)


class Clock:
    """A clock that tests move on.

    Attributes:
        naps: How long those who added rows waited.
    """

    def __init__(self) -> None:
        self.moment = 1.0
        self.naps: list[float] = []

    def monotonic(self) -> float:
        return self.moment

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)

    def report(self, batches: Iterable[Batch | Event], took: float) -> None:
        """Make something of batches, each of which takes so long."""
        for _ in batches:
            self.moment += took


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(log_module, "clock", made)
    monkeypatch.setattr(log_module, "MAX_BATCH", 10)
    return made


def fill(log: RowLog, count: int) -> None:
    for number in range(count):
        log.add(row(number))


def test_calls_wait_when_those_before_them_would_take_long(fake: Clock) -> None:
    """Else a stop or an outcome would wait for many seconds behind few rows, and lose them."""
    log = RowLog(lambda: None)
    fill(log, 30)
    fake.report(log.batches(), 0.15)
    assert fake.naps == []
    fill(log, 3)
    assert fake.naps == [log_module.STEP_S] * 3


def test_the_time_between_batches_counts(fake: Clock) -> None:
    """The interpreter's lock may be missing when they are sent, too."""
    log = RowLog(lambda: None)
    fill(log, 30)
    fake.report(log.batches(), 0.01)
    fill(log, 1)
    fake.moment += 0.2
    fake.report(log.batches(), 0.01)
    fill(log, 1)
    assert len(fake.naps) == 1


def test_the_time_in_which_nothing_waits_does_not_count(fake: Clock) -> None:
    log = RowLog(lambda: None)
    item = object()
    fill(log, 10)
    log.mark(item)
    fake.report(log.batches(), 0.01)
    assert list(log.batches(item)) == []
    fake.moment += 10
    fill(log, 30)
    fake.report(log.batches(), 0.01)
    fill(log, 1)
    assert fake.naps == []


def test_calls_wait_until_little_is_left(fake: Clock) -> None:
    log = RowLog(lambda: None)
    fill(log, 100)
    fake.report(log.batches(), 0.15)
    for _ in range(4):
        fake.report(log.batches(), 0.01)
        fill(log, 1)
    assert len(fake.naps) == 4
    fake.report(log.batches(log), 0.01)
    fill(log, 1)
    assert len(fake.naps) == 4


@pytest.mark.parametrize(("waiting", "took"), [(20, 0.15), (50, 0.04)])
def test_calls_do_not_wait_for_what_is_soon_done(fake: Clock, waiting: int, took: float) -> None:
    log = RowLog(lambda: None)
    fill(log, waiting)
    fake.report(log.batches(), took)
    fill(log, 5)
    assert fake.naps == []


HIT: Row = (1, 0.0, "t::x", 1, 1, "a message")


def test_hits_do_not_wait(fake: Clock) -> None:
    """They may be very many: a tracepoint must not make a loop slow."""
    log = RowLog(lambda: None)
    fill(log, 1000)
    fake.report(log.batches(), 0.15)
    log.add(HIT)
    assert fake.naps == []


def test_hits_are_not_waited_for(fake: Clock) -> None:
    log = RowLog(lambda: None)
    for _ in range(1000):
        log.add(HIT)
    fake.report(log.batches(), 0.15)
    fill(log, 1)
    assert fake.naps == []


def test_calls_do_not_wait_for_nothing(fake: Clock) -> None:
    """A front end that is stopped reads nothing, and the I/O thread may be gone."""
    log = RowLog(lambda: None)
    fill(log, 100)
    fake.report(log.batches(), 0.15)
    fill(log, 1)
    fake.moment += log_module.EASED_S + 0.1
    fill(log, 5)
    assert len(fake.naps) == 1
