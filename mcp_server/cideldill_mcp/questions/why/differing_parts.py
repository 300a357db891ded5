"""Where the two sides of a comparison differ: the first of their parts."""

from __future__ import annotations

import re
from typing import Final

from cideldill_mcp.questions.diff.differences import Difference, states_between
from cideldill_mcp.questions.recordings.recorded import Failed

_STEPS: Final = re.compile(r"\[(\d+)\]|.[^.\[]*", re.DOTALL)
"""The parts of a path. Those of a key that is a text may be parts of it: its order stays."""

_KINDS: Final = frozenset({"list", "tuple", "dict", "set", "frozenset"})
"""A value of one is equal to none of another, but for both kinds of sets."""

_SIZED: Final = re.compile(r"([^'\"]+) of (\d+)")
"""`list of 3`."""


def first_difference(failed: Failed) -> Difference | None:
    """The first part that differs in both sides of a comparison, perhaps by its size alone.

    None: they are no such values, or are of different sizes themselves, or of kinds of which none
    is equal to another.
    """
    difference = next(iter(_differences(failed)), None)
    return difference if difference is None or difference.path else None


def _may_be_equal(difference: Difference) -> bool:
    """Whether both have as many items, and one is of a class that may compare itself otherwise."""
    sized = _sized(difference)
    if sized is None:
        return False
    (kind, count), (other, others) = sized
    return count == others and not {kind, other} <= _KINDS


def _sized(difference: Difference) -> tuple[tuple[str, int], tuple[str, int]] | None:
    """The kinds and sizes of both sides; None: one is no collection or text."""
    ours, theirs = (_SIZED.fullmatch(text) for text in (difference.left, difference.right))
    if ours is None or theirs is None:
        return None
    return (ours[1], int(ours[2])), (theirs[1], int(theirs[2]))


def first_other_part(failed: Failed) -> Difference | None:
    """The first part that one side has and the other has not, or that is another value there.

    None: they are no such values, or are of different kinds, or one is empty.
    """
    differences = _differences(failed)
    if differences and not differences[0].path and not _is_of_size(differences[0], least=1):
        return None
    return next((each for each in differences if each.path and not _is_of_size(each)), None)


def _differences(failed: Failed) -> list[Difference]:
    """Where both sides differ, in the order of their parts; in their kinds, if that matters."""
    left, right = failed.insides.get("left"), failed.insides.get("right")
    if failed.op not in ("==", "is", "in", "not in", "!=") or left is None or right is None:
        return []
    ranks: dict[str, int] = {}
    found = sorted(states_between(left, right), key=lambda each: _position(each.path, ranks))
    return found[1:] if found and not found[0].path and _may_be_equal(found[0]) else found


def _position(path: str, ranks: dict[str, int]) -> list[int]:
    """For sorting: items of sequences by their numbers, all else as it came.

    Args:
        path: As `[0].name[2]`.
        ranks: By what the path begins with; what is new is added.
    """
    position: list[int] = []
    for step in _STEPS.finditer(path):
        rank = ranks.setdefault(path[: step.end()], len(ranks))
        position.append(int(step[1]) if step[1] else rank)
    return position


def _is_of_size(difference: Difference, least: int = 0) -> bool:
    """Whether both are of one kind and have at least so many items, and not the same number."""
    sized = _sized(difference)
    if sized is None:
        return False
    (kind, count), (other, others) = sized
    return kind == other and min(count, others) >= least
