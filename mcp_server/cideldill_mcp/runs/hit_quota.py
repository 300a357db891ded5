"""The quota of calls and hits of a process that get into the event log.

A limit of messages holds for all processes of a run together; each sends as many as the run may
have. Lives on the event loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from cideldill_mcp.breakpoints.collection import Desired
from cideldill_mcp.breakpoints.kinds import LineBreakpoint
from cideldill_mcp.runs.run import Run

Row = dict[str, Any]


def due(rows: list[Row], run: Run, desired: Desired, dropped: Counter[str]) -> Iterator[Row]:
    """What is logged of them; `dropped` counts by run what was lost before a row that is not."""
    for row in rows:
        for of_the_records in ("defined_in", "lost"):
            row.pop(of_the_records, None)
        if row["type"] != "hit" or _is_published(row, run, desired):
            yield row
        else:
            dropped[run.id] += row.get("dropped", 0)


def _is_published(hit: Row, run: Run, desired: Desired) -> bool:
    known = desired.get(hit["breakpoint_id"])
    if not isinstance(known, LineBreakpoint) or "condition_error" in hit:
        return True
    if not known.spec.max_notifications:
        known.published += 1
        return True
    if not known.is_on:
        return False
    known.published += 1
    if not known.is_on:  # it was the last one
        for target in run.targets.values():
            target.send(known.command(0))
    return True
