"""Reports of failures that did not arrive, though their test says that there were any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_cideldill.protocol.events import PhaseReported

LOST = "the report could not be made: it got lost on its way"


def lost_reports(
    nodeid: str, failed: Iterable[Sequence[str]] | None, known: Iterable[tuple[str, str]]
) -> list[PhaseReported]:
    """What stands for the reports that are missing.

    Args:
        nodeid: The test.
        failed: Of its `NodeFinished`.
        known: The same of the reports that arrived.
    """
    missing = Counter((phase, category) for phase, category in failed or ())
    missing.subtract(known)
    return [
        PhaseReported(nodeid, phase, category, "failed", 0.0, incomplete=LOST)
        for (phase, category), count in missing.items()
        for _ in range(count)
    ]
