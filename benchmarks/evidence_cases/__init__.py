"""The cases of `benchmarks.evidence`, by the project that they are in."""

from __future__ import annotations

from typing import Final

from benchmarks.evidence_cases import depot, feeds, ledger, releases, sheets, workflows
from benchmarks.evidence_cases.cases import Case

MADE_UP: Final[tuple[Case, ...]] = (
    *ledger.CASES,
    *depot.CASES,
    *feeds.CASES,
    *workflows.CASES,
    *sheets.CASES,
)
"""In small programs."""

REAL: Final[tuple[Case, ...]] = releases.CASES
"""In releases of packages that others wrote."""
