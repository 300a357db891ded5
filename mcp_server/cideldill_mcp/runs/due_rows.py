"""Which calls and hits of a process get into the event log."""

from __future__ import annotations

from dataclasses import replace

from cideldill_mcp.breakpoints.collection import Desired
from cideldill_mcp.breakpoints.kinds import LineBreakpoint
from cideldill_mcp.runs.run import Run
from pytest_cideldill.protocol import Recorded
from pytest_cideldill.protocol.columns import Row

_OF_RECORDS = "defined_in"
"""A key that only records of calls have."""


def due(recorded: Recorded, run: Run, desired: Desired) -> Recorded:
    """What gets into the log of the rows that a process sent.

    A limit of messages holds for all processes of a run together; each sends as many as the run
    may have.
    """
    parts = recorded.parts()
    counted = [(known, n) for row, n in parts if (known := _counting(row, desired)) is not None]
    if any(known.spec.max_notifications for known, _ in counted):
        rows = [row for row in recorded.in_order() if _is_published(row, run, desired)]
        recorded = replace(recorded, rows=rows, series=[], order="")
    else:
        for known, count in counted:
            known.published += count
    if not any(_OF_RECORDS in row for row, _ in parts):
        return recorded
    return replace(
        recorded,
        rows=[_as_logged(row) for row in recorded.rows],
        series=[each | {"common": _as_logged(each["common"])} for each in recorded.series],
    )


def _counting(row: Row, desired: Desired) -> LineBreakpoint | None:
    """The breakpoint that counts a row, or the rows of a series that have this in common."""
    if row["type"] != "hit" or "condition_error" in row:
        return None
    breakpoint = desired.get(row["breakpoint_id"])
    return breakpoint if isinstance(breakpoint, LineBreakpoint) else None


def _is_published(row: Row, run: Run, desired: Desired) -> bool:
    """Whether no limit leaves a row out; it is counted."""
    breakpoint = _counting(row, desired)
    if breakpoint is None:
        return True
    if not breakpoint.spec.max_notifications:
        breakpoint.published += 1
        return True
    if not breakpoint.is_on:
        return False
    breakpoint.published += 1
    if not breakpoint.is_on:  # it was the last one
        for target in run.targets.values():
            target.send(breakpoint.command(0))
    return True


def _as_logged(row: Row) -> Row:
    return {key: value for key, value in row.items() if key != _OF_RECORDS}
