"""Which tests are near another one and may pass: of the same parameters, class or file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import Final

from cideldill_mcp.questions.asking.asker import FAILING

MOST: Final = 6
"""Candidates that are run to find one that passes."""

MOST_COMPARED: Final = 30
"""Tests that are run to compare their lines with those of a failing one."""

_MOST_LOOKED_AT: Final = 500
"""Tests whose names are compared, which takes time."""

Outcome = Callable[[str], str | None]
"""What became of a test before; None: it is not known."""


def candidates(nodeid: str, others: Sequence[str], before: Outcome, most: int = MOST) -> list[str]:
    """Tests that may pass and are near, the nearest first.

    Args:
        nodeid: The test whose neighbours they are.
        others: The other tests of its file.
        before: Those that passed come first, those that failed last.
        most: So many at most: `MOST`, or `MOST_COMPARED`.
    """

    parameters = _parameters(nodeid)

    def rank(other: str) -> tuple[bool, int, bool, int]:
        outcome = before(other)
        same = sum(map(str.__eq__, parameters, _parameters(other)))
        return outcome in FAILING, _distance(nodeid, other), outcome != "passed", -same

    def likeness(other: str) -> float:
        return SequenceMatcher(None, nodeid, other, False).ratio()

    near = [each for each in others if each != nodeid and before(each) != "skipped"]
    first = sorted(near, key=rank)[:_MOST_LOOKED_AT]
    return sorted(first, key=lambda other: (*rank(other), -likeness(other)))[:most]


def _parameters(nodeid: str) -> list[str]:
    return nodeid.partition("[")[2].rstrip("]").split("-")


def _distance(nodeid: str, other: str) -> int:
    function, _, _ = nodeid.partition("[")
    other_function, _, _ = other.partition("[")
    if function == other_function:
        return 0
    return 1 if function.rpartition("::")[0] == other_function.rpartition("::")[0] else 2


def relation(nodeid: str, other: str) -> str:
    """How near another test is, in words."""
    if nodeid == other:
        return "the same test"
    if nodeid.partition("::")[0] != other.partition("::")[0]:
        return "of another file"
    scope = nodeid.partition("[")[0].rpartition("::")[0]
    return {
        0: "the same test with other parameters",
        1: "of the same class" if "::" in scope else "of the same file",
        2: "of the same file",
    }[_distance(nodeid, other)]
