"""Which reports are those of attempts at a test that failed and were made again."""

from __future__ import annotations

from typing import Final

OUTCOMES: Final = frozenset({"passed", "failed", "skipped"})
"""pytest's own; plugins have their own ones for attempts that they make again."""

CRASHED: Final = "???"
"""The phase, for xdist and pytest-forked, of a test in which its process died."""


def is_made_again(category: str, outcome: str, attempt: int | None) -> bool:
    """Of the fields of a `PhaseReported`; the outcome of the test is that of a later attempt."""
    return category == "rerun" or (attempt is not None and outcome not in OUTCOMES)
