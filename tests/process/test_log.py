"""Recorded calls between the hot path and the wire: rows in, bounded events out."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_cideldill import log as log_module
from pytest_cideldill.log import CallLog
from pytest_cideldill.log import Row
from pytest_cideldill.wire import CallsRecorded
from pytest_cideldill.wire import Event
from pytest_cideldill.wire import Warned


def row(number: int, exception: str | None = None) -> Row:
    return (float(number), 0.123456789, "shop.total", "t::x", 7, "(1)", "2", exception)


def told(events: list[Event]) -> list[dict[str, Any]]:
    return [call for each in events if isinstance(each, CallsRecorded) for call in each.calls]


def test_a_row_becomes_a_call_with_its_result() -> None:
    """The keys of an event of type `call`."""
    log = CallLog(lambda: None)
    log.add(row(1))
    (event,) = log.take()
    assert event == CallsRecorded(
        [
            {
                "ts": 1.0,
                "duration_s": 0.1234568,
                "function": "shop.total",
                "nodeid": "t::x",
                "thread": 7,
                "args": "(1)",
                "status": "success",
                "result": "2",
            }
        ]
    )


def test_a_call_that_raised_tells_its_exception_and_no_result() -> None:
    """Contract, section 2: `status` is `success` or `exception`."""
    log = CallLog(lambda: None)
    log.add(row(1, "KeyError: 'a'"))
    (call,) = told(log.take())
    assert (call["status"], call["exception"]) == ("exception", "KeyError: 'a'")
    assert "result" not in call


def test_only_the_first_row_of_a_batch_nudges() -> None:
    """And the first one after it was taken."""
    nudges: list[None] = []
    log = CallLog(lambda: nudges.append(None))
    for number in range(5):
        log.add(row(number))
    assert len(nudges) == 1
    assert len(told(log.take())) == 5
    assert log.take() == []
    log.add(row(5))
    assert len(nudges) == 2


def test_rows_leave_in_order_in_bounded_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """`MAX_BATCH` rows in one event."""
    monkeypatch.setattr(log_module, "MAX_BATCH", 4)
    log = CallLog(lambda: None)
    for number in range(10):
        log.add(row(number))
    events = log.take()
    assert [len(event.calls) for event in events if isinstance(event, CallsRecorded)] == [4, 4, 2]
    assert [call["ts"] for call in told(events)] == list(map(float, range(10)))


def test_beyond_the_cap_the_oldest_rows_are_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Memory is bounded; the client learns how many are missing, once."""
    monkeypatch.setattr(log_module, "MAX_WAITING", 3)
    log = CallLog(lambda: None)
    for number in range(5):
        log.add(row(number))
    events = log.take()
    assert [call["ts"] for call in told(events)] == [2.0, 3.0, 4.0]
    assert [each for each in events if isinstance(each, Warned)] == [
        Warned("2 recorded calls were dropped: too many at once")
    ]
    log.add(row(5))
    assert len(log.take()) == 1


def test_taking_ends_although_rows_keep_coming(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop behind them must not wait for a busy thread."""
    log = CallLog(lambda: None)
    made = log_module._told

    def busy(taken: Row) -> dict[str, Any]:
        log.add(row(99))
        return made(taken)

    monkeypatch.setattr(log_module, "_told", busy)
    log.add(row(1))
    log.add(row(2))
    assert [call["ts"] for call in told(log.take())] == [1.0, 2.0]
    assert [call["ts"] for call in told(log.take())] == [99.0, 99.0]
