"""Where the lines of two calls of one function part, and the first value that differs before."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cideldill_mcp.questions.listing import Listing
from cideldill_mcp.questions.recorded import Focus, Line


@dataclass(frozen=True, slots=True)
class Parting:
    """Where two calls part.

    Attributes:
        line: The line of the first value that differs, or after which other lines run.
        value: Name and both texts of that value; None: only the lines differ.
        branch: The last line that both ran, before they ran others; 0: they ran the same lines.
        left: The line that the left side ran next; 0: it was left.
        right: The same on the right side.
    """

    line: int
    value: tuple[str, str, str] | None
    branch: int
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class _Step:
    line: int
    changes: dict[str, str]


def parting(
    left: Focus, right: Focus, listing: Listing, noise: Collection[str] = ()
) -> Parting | None:
    """Where the lines of two calls part; None: they ran the same lines with the same values.

    Args:
        noise: Names whose values differ anyway.
    """
    ours, theirs = _steps(left, listing), _steps(right, listing)
    value: tuple[str, str, str] | None = None
    at_value = 0
    at = 0
    while at < len(ours) and at < len(theirs) and ours[at].line == theirs[at].line:
        if value is None and (found := _differing(ours[at], theirs[at], noise)) is not None:
            value, at_value = found, ours[at].line
        at += 1
    if at == len(ours) == len(theirs):
        return None if value is None else Parting(at_value, value, 0, 0, 0)
    branch = ours[at - 1].line if at else 0
    next_left = ours[at].line if at < len(ours) else 0
    next_right = theirs[at].line if at < len(theirs) else 0
    return Parting(at_value or branch, value, branch, next_left, next_right)


def differing_names(first: Focus, second: Focus, listing: Listing) -> set[str]:
    """The names whose values differ between two calls that are meant to be the same."""
    names: set[str] = set()
    for ours, theirs in zip(_steps(first, listing), _steps(second, listing), strict=False):
        found = ours.changes, theirs.changes
        names |= {name for name in ours.changes if found[0][name] != found[1].get(name)}
    return names


def _differing(ours: _Step, theirs: _Step, noise: Collection[str]) -> tuple[str, str, str] | None:
    for name in {**ours.changes, **theirs.changes}:
        texts = ours.changes.get(name, "unchanged"), theirs.changes.get(name, "unchanged")
        if texts[0] != texts[1] and name not in noise:
            return name, *texts
    return None


def _steps(focus: Focus, listing: Listing) -> list[_Step]:
    """Each pass over a statement, with the last value of each name that it changed."""
    steps: list[_Step] = []
    for each in focus.lines:
        if not each.number:
            continue
        line = listing.start(each.number)
        if not steps or steps[-1].line != line:
            steps.append(_Step(line, {}))
        steps[-1].changes.update(_changes(each))
    return steps


def _changes(line: Line) -> dict[str, str]:
    changes = {}
    for kind, *rest in line.events or ():
        if kind == "change":
            changes[rest[0]] = "deleted" if rest[1] is None else rest[1]
        elif kind == "raise":
            changes["raises"] = rest[0]
    return changes
