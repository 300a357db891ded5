"""Where the lines of two calls of one function part, and the first value that differs before.

The text of the function may be another one on the right side. Lines are those of the left text as
far as they are in both; each side has numbers of its own.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from cideldill_mcp.questions.diff.counterparts import Counterparts
from cideldill_mcp.questions.recordings.listing import Listing
from cideldill_mcp.questions.recordings.recorded import Focus, Line

Lines = tuple[int, int]
"""A statement: its line on the left and on the right side; 0: it is not in that text."""

NOWHERE: Lines = (0, 0)


@dataclass(frozen=True, slots=True)
class Texts:
    """The source of a function on both sides.

    Attributes:
        left: Of the left side.
        right: Of the right side.
        counterparts: Of the lines of its file.
    """

    left: Listing
    right: Listing
    counterparts: Counterparts

    def of_left(self, first: int) -> Lines:
        """A statement of the left text by its first line."""
        for line in range(first, self.left.ends.get(first, first) + 1):
            if other := self.counterparts.right(line):
                return first, self.right.start(other)
        return first, 0

    def of_right(self, first: int) -> Lines:
        """A statement of the right text by its first line."""
        for line in range(first, self.right.ends.get(first, first) + 1):
            if other := self.counterparts.left(line):
                return self.left.start(other), first
        return 0, first

    def is_changed(self, lines: Lines) -> bool:
        """Whether a statement is not the same in both texts."""
        left, right = lines
        return not self.counterparts.is_same and (
            not left or not right or self.left.statement(left) != self.right.statement(right)
        )


@dataclass(frozen=True, slots=True)
class Parting:
    """Where two calls part.

    Attributes:
        line: The left line of the first of the following.
        value: Name and both texts of the first value that differs; None: only the lines differ.
        value_at: The statement that made it.
        changed: The first statement that ran and is not the same in both texts.
        branch: The last statement that both ran, before they ran others; none: they ran the same.
        left: The line that the left side ran next; 0: it was left.
        right: The same on the right side.
    """

    line: int
    value: tuple[str, str, str] | None = None
    value_at: Lines = NOWHERE
    changed: Lines = NOWHERE
    branch: Lines = NOWHERE
    left: int = 0
    right: int = 0

    @property
    def has_branch(self) -> bool:
        """Whether they ran other statements that both texts have, or could have."""
        return self.branch != NOWHERE or bool(self.left or self.right)


@dataclass(frozen=True, slots=True)
class _Step:
    lines: Lines
    changes: dict[str, str] = field(default_factory=dict)


def parting(left: Focus, right: Focus, texts: Texts, noise: Collection[str] = ()) -> Parting:
    """Where the lines of two calls part; all is 0 if they ran the same lines with the same values.

    Args:
        texts: The source of their function.
        noise: Names whose values differ anyway.
    """
    ours, theirs = _left_steps(left, texts), _right_steps(right, texts)
    value: tuple[tuple[str, str, str], Lines] | None = None  # of statements that both ran
    aside: tuple[tuple[str, str, str], Lines] | None = None
    changed = common = NOWHERE
    first = above = 0
    at, other_at = behind = (0, 0)  # behind the last statement that both ran
    while True:
        one = ours[at] if at < len(ours) else None
        other = theirs[other_at] if other_at < len(theirs) else None
        if one is not None and not one.lines[1]:
            other = None
        elif other is not None and not other.lines[0]:
            one = None
        elif one is None or other is None or one.lines[0] != other.lines[0]:
            break
        at, other_at = at + (one is not None), other_at + (other is not None)
        lines = one.lines[0] if one else 0, other.lines[1] if other else 0
        above = lines[0] or above
        if one is not None and other is not None:
            common, behind = lines, (at, other_at)
        if changed == NOWHERE and texts.is_changed(lines):
            changed, first = lines, first or above
        found = _differing(one or _Step(lines), other or _Step(lines), noise)
        if found is not None and 0 in lines:
            aside = aside or (found, lines)
        elif found is not None and value is None:
            value, first = (found, lines), first or above
    values = value or aside or (None, NOWHERE)
    if at == len(ours) and other_at == len(theirs):
        return Parting(first, values[0], values[1], changed)
    next_left = ours[behind[0]].lines[0] if behind[0] < len(ours) else 0
    next_right = theirs[behind[1]].lines[1] if behind[1] < len(theirs) else 0
    line = first or common[0]
    return Parting(line, values[0], values[1], changed, common, next_left, next_right)


def differing_names(first: Focus, second: Focus, texts: Texts) -> set[str]:
    """The names whose values differ between two calls that are meant to be the same.

    Both are of the left side.
    """
    names: set[str] = set()
    steps = _left_steps(first, texts), _left_steps(second, texts)
    for ours, theirs in zip(*steps, strict=False):
        other = theirs.changes
        names |= {name for name, text in ours.changes.items() if text != other.get(name)}
    return names


def _differing(ours: _Step, theirs: _Step, noise: Collection[str]) -> tuple[str, str, str] | None:
    for name in {**ours.changes, **theirs.changes}:
        texts = ours.changes.get(name, "unchanged"), theirs.changes.get(name, "unchanged")
        if texts[0] != texts[1] and name not in noise:
            return name, *texts
    return None


def _left_steps(focus: Focus, texts: Texts) -> list[_Step]:
    return [_Step(texts.of_left(line), changes) for line, changes in _passes(focus, texts.left)]


def _right_steps(focus: Focus, texts: Texts) -> list[_Step]:
    return [_Step(texts.of_right(line), changes) for line, changes in _passes(focus, texts.right)]


def _passes(focus: Focus, listing: Listing) -> list[tuple[int, dict[str, str]]]:
    """Each pass over a statement, with the last value of each name that it changed."""
    passes: list[tuple[int, dict[str, str]]] = []
    # Lines of a header do not run, unless a statement stands there, too.
    header = listing.first if listing.first not in listing.nodes else 0
    for each in focus.lines:
        line = listing.start(each.number)
        if not each.number or line == header:
            continue
        if not passes or passes[-1][0] != line:
            passes.append((line, {}))
        passes[-1][1].update(_changes(each))
    return passes


def _changes(line: Line) -> dict[str, str]:
    changes = {}
    for kind, *rest in line.events or ():
        if kind == "change":
            changes[rest[0]] = "deleted" if rest[1] is None else rest[1]
        elif kind == "raise":
            changes["raises"] = rest[0]
    return changes
