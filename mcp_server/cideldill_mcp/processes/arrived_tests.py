"""Events of tests one by one: those that came together, and those that a dead process left behind.

A process sends the ends of its tests as rows, many at once (`protocol.ended_tests`), and keeps them
in a file until they have left. Both sides count, so that none is taken twice.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_cideldill import protocol
from pytest_cideldill.protocol.current_test_file import read_left_behind, read_position
from pytest_cideldill.protocol.ended_tests import Row
from pytest_cideldill.protocol.reducer import LOST

Stamped = tuple[protocol.Event, float]
"""An event, and its epoch seconds."""


class ArrivedTests:
    """The events of the tests of one process, in their order."""

    def __init__(self) -> None:
        self._begun = self._ended = 0
        self._reports: set[tuple[str, str, str]] = set()

    def of(self, event: protocol.Event, ts: float) -> Iterator[Stamped]:
        """What an event stands for: itself, or those of several tests.

        Raises:
            MalformedMessage: It has rows that are none.
        """
        if isinstance(event, protocol.NodesFinished):
            for row in map(_decoded, event.tests):
                yield from self._start_of(row)
                yield row.event, row.ended
            return
        if isinstance(event, protocol.NodeStarted):
            self._begun += 1
            self._reports.clear()
        elif isinstance(event, protocol.PhaseReported):
            self._reports.add((event.phase, event.category, event.outcome))
        yield event, ts

    def left_behind(self, path: str) -> Iterator[Stamped]:
        """What did not arrive of a process that is gone, by its file.

        Reports are lost but for their categories; of failures the ends of their tests know.
        """
        left = read_left_behind(path)
        if left is None:
            return
        for row in left.rows:
            if row.number > self._ended:
                yield from self._start_of(row)
                yield from self._lost_reports(row)
                yield row.event, row.ended
        position = read_position(path)
        if left.begun > self._begun and position is not None:
            self._begun = left.begun
            yield protocol.NodeStarted(position.nodeid, left.started), left.started

    def _start_of(self, row: Row) -> Iterator[Stamped]:
        """The start of a test that has ended, unless it came before."""
        self._ended = row.number
        if row.begun > self._begun:
            self._begun = row.begun
            self._reports.clear()
            yield protocol.NodeStarted(row.event.nodeid, row.started), row.started

    def _lost_reports(self, row: Row) -> Iterator[Stamped]:
        """What stands for those that did not arrive."""
        for phase, category, outcome in row.reports:
            if outcome != "failed" and (phase, category, outcome) not in self._reports:
                test = row.event.nodeid
                lost = protocol.PhaseReported(test, phase, category, outcome, 0.0, incomplete=LOST)
                yield lost, row.ended


def _decoded(row: list[object]) -> Row:
    try:
        return Row.decoded(row)
    except ValueError as error:
        raise protocol.MalformedMessage("nodes_finished", str(error)) from error
