"""Tests that ended: what a process sends of them in one message, and keeps until that has left.

Each is a row of JSON: `[number, begun, started, ended, reports, *fields of NodeFinished]`. They are
sent late, many at once, and their process may die before. So the rows also lie in the file that
survives it (`current_test_file`) until they have left; the numbers say which of them have arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from json import JSONDecoder
from struct import Struct
from typing import Any, Final, NamedTuple

from pytest_cideldill.protocol.checking import check_of, is_moment, misfit
from pytest_cideldill.protocol.encoding import encoded
from pytest_cideldill.protocol.events import NodeFinished

_BEGUN: Final = Struct(">Qd")
_USED: Final = Struct(">I")
_HALF: Final = 28 * 1024
_HALVES: Final = (_BEGUN.size, _BEGUN.size + _HALF)
_ROOM: Final = _HALF - _USED.size

SIZE: Final = _BEGUN.size + 2 * _HALF
"""Bytes of the file that these rows have."""

_FIELDS: Final = ("nodeid", "duration_s", "plain", "again", "failed", "apart")
_OF_REPORT: Final = 3
_decode: Final = JSONDecoder().decode


class EndedTest(NamedTuple):
    """A test on its way: the text of its row for the front end, its event for a record."""

    text: str
    event: NodeFinished


class Row(NamedTuple):
    """What is known of a test that ended.

    Attributes:
        number: How many tests have ended in its process, with this one.
        begun: How many have begun.
        started: When it began, in epoch seconds.
        ended: The same of its end.
        reports: Phase, category and outcome of each report that was sent by itself.
        event: Its end.
    """

    number: int
    begun: int
    started: float
    ended: float
    reports: list[list[str]]
    event: NodeFinished

    @classmethod
    def decoded(cls, row: Sequence[Any]) -> Row:
        """The inverse. Raises ValueError: it is no such row."""
        number, begun, started, ended, reports, *values = row
        fields = dict(zip(_FIELDS, values, strict=False))
        is_right = (
            type(number) is type(begun) is int
            and is_moment(started)
            and is_moment(ended)
            and check_of("list[list[str]]")(reports)
            and all(len(report) == _OF_REPORT for report in reports)
        )
        if not is_right or misfit(NodeFinished, fields) is not None:
            raise ValueError(f"{row!r:.100} is no test that ended")
        return cls(number, begun, started, ended, reports, NodeFinished(**fields))


def row_of(
    number: int,
    begun: int,
    started: float,
    ended: float,
    reports: list[list[str]],
    event: NodeFinished,
) -> str:
    """The text of a `Row`. Raises TypeError, ValueError: a plugin made something of it no JSON."""
    values = [number, begun, started, ended, reports, event.nodeid, event.duration_s, event.plain]
    if event.again or event.failed is not None or event.apart:
        values += [event.again, event.failed, event.apart]
    return encoded(values)


class KeptRows:
    """The writing side of the file's rows, in two halves: one is filled while that of the other
    leaves.

    Args:
        put: Writes bytes at a place of the file, counted from where its rows begin.
    """

    def __init__(self, put: Callable[[int, bytes], None]) -> None:
        self._put = put
        self._half = 0
        self._used = 0

    def begin(self, begun: int, started: float) -> None:
        """A test begins; how many have, and when."""
        self._put(0, _BEGUN.pack(begun, started))

    def add(self, text: str) -> bool:
        """Keep a row. False: it has no room in this half."""
        data = text.encode("ascii") + b"\n"
        used = self._used + len(data)
        if used > _ROOM:
            return False
        place = _HALVES[self._half]
        self._put(place + _USED.size + self._used, data)
        self._put(place, _USED.pack(used))  # last: a reader takes whole rows only
        self._used = used
        return True

    def turn(self) -> None:
        """Go on in the other half; its rows have left."""
        self._half, self._used = 1 - self._half, 0
        self._put(_HALVES[self._half], _USED.pack(0))


class LeftBehind(NamedTuple):
    """What a process has kept in its file: rows in the order of their ends, the latest start."""

    rows: list[Row]
    begun: int
    started: float


def read_rows(data: bytes) -> LeftBehind | None:
    """What the rows' part of a file holds; None: it is too short. Damaged rows are left out."""
    if len(data) < SIZE:
        return None
    rows = [row for place in _HALVES for row in _rows_of(data[place : place + _HALF])]
    begun, started = _BEGUN.unpack_from(data)
    started = started if is_moment(started) else 0.0
    return LeftBehind(sorted(rows, key=lambda row: row.number), begun, started)


def _rows_of(half: bytes) -> Iterator[Row]:
    (used,) = _USED.unpack_from(half)
    for line in half[_USED.size : _USED.size + used].splitlines():
        try:
            yield Row.decoded(_decode(line.decode("ascii")))
        except (ValueError, TypeError, RecursionError):
            continue
