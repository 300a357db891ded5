"""Finds where two recordings part: the calls that got the same and did something else.

Both trees are walked side by side in the order of the program. Where the arguments of two calls
differ, all that follows inside may differ for that reason alone; a call with equal arguments that
does something else is where the reason is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from cideldill_mcp.questions.diff.alignment import Both, aligned, either
from cideldill_mcp.questions.diff.differences import ABSENT, Comparer, Difference, Noise, Side
from cideldill_mcp.questions.recordings.recorded import Call

MOST: Final = 4
"""Divergences that are looked for: the first, and three later ones."""

MOST_COLLECTED: Final = 200
"""Divergences of which these are taken, and as many calls that got something else."""

_NOTHING: Final = frozenset({None, "None"})
"""Results that say nothing."""

How = Literal["arguments", "call", "outcome"]


@dataclass(frozen=True, slots=True)
class Divergence:
    """Two calls of one function that did something else.

    Attributes:
        left: The call on the left side; None: what pytest calls.
        right: The same on the right side.
        how: What differs: the `arguments` of a call inside, the `call` itself, which one side does
            not make, or the `outcome` of these calls.
        child: The call inside; None with `outcome`.
        differences: Of arguments or outcome, the first one first.
        has_same_input: Whether the arguments were equal.
        inputs: The arguments that were not, where the outcome is the same.
    """

    left: Call | None
    right: Call | None
    how: How
    child: Both | None = None
    differences: tuple[Difference, ...] = ()
    has_same_input: bool = True
    inputs: tuple[Difference, ...] = ()


@dataclass(slots=True)
class Found:
    """What a comparison has found.

    Attributes:
        divergences: Calls with equal arguments that did something else, in the order of their ends.
        entry: The first calls whose arguments differ without a reason inside: the tests do.
        suspects: Calls with other arguments that did something else, the inmost first.
        alike: Calls with other arguments and the same outcome.
    """

    divergences: list[Divergence] = field(default_factory=list)
    entry: Divergence | None = None
    suspects: list[Divergence] = field(default_factory=list)
    alike: list[Divergence] = field(default_factory=list)

    def begins_behind(self, number: int) -> bool:
        """Whether what parted first did so when a call of the left side had begun."""
        first = self.divergences[0]
        child = first.child[0] if first.child is not None else None
        if child is not None:
            return child.number > number
        call = first.left
        while call is not None and call.children:
            call = call.children[-1]
        return call is not None and call.number > number

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not self.divergences and self.entry is None and not self.suspects


@dataclass(slots=True)
class _Pair:
    """Two calls that are compared now.

    Attributes:
        is_equal: Whether they got the same.
        is_inside: Whether they count: they are in the function that is asked for.
        children: What they call, aligned.
        inputs: The arguments that differ.
        has_parted: Whether a divergence was found in or below them.
    """

    left: Call | None
    right: Call | None
    is_equal: bool
    is_inside: bool
    children: Iterator[Both]
    inputs: tuple[Difference, ...] = ()
    has_parted: bool = False


def everything(_call: Call) -> bool:
    """No function is asked for."""
    return True


class Walk:
    """Compares two tests.

    Args:
        comparer: Compares calls.
        is_same: Whether it is the same test on both sides.
        is_asked: Whether a call is one of the function that is asked for.
    """

    def __init__(
        self, comparer: Comparer, *, is_same: bool, is_asked: Callable[[Call], bool] = everything
    ) -> None:
        self._comparer = comparer
        self._is_same = is_same
        self._is_asked = is_asked
        self.found = Found()

    def run(self) -> Found:
        """Compare them."""
        left, right = self._comparer.left.test, self._comparer.right.test
        others = {phase.name: phase for phase in right.phases}
        for phase in left.phases:
            other = others.get(phase.name)
            if other is not None:
                self._phase(phase.roots, other.roots)
        self._order()
        return self.found

    def _order(self) -> None:
        """Order by time; without calls in which others of other threads parted before."""
        kept: list[Divergence] = []
        for divergence in sorted(self.found.divergences, key=_moment):
            call = divergence.left
            if call is None or not any(_spans(call, other.left) for other in kept):
                kept.append(divergence)
        self.found.divergences = kept[:MOST]

    def _phase(self, left: list[Call], right: list[Call]) -> None:
        threads = dict.fromkeys(call.thread for call in (*left, *right))
        for thread in threads:
            ours = [call for call in left if call.thread == thread]
            theirs = [call for call in right if call.thread == thread]
            self._walk(self._pair(None, None, ours, theirs))

    def _pair(
        self,
        a: Call | None,
        b: Call | None,
        ours: list[Call],
        theirs: list[Call],
        above: _Pair | None = None,
        *,
        is_equal: bool | None = None,
    ) -> _Pair:
        left, right = self._comparer.left, self._comparer.right
        is_inside = (above is not None and above.is_inside) or (
            self._is_asked is everything or (a is not None and self._is_asked(a))
        )
        same = self._is_same if is_equal is None else is_equal
        # Between those beyond the limit of calls others are missing.
        ours = [call for call in ours if not call.is_beyond]
        theirs = [call for call in theirs if not call.is_beyond]
        children = self._recorded(list(aligned(ours, theirs, left.key, right.key)))
        children = self._before_failure(a, b, children)
        return _Pair(a, b, same, is_inside, iter(children))

    def _before_failure(self, a: Call | None, b: Call | None, children: list[Both]) -> list[Both]:
        """Without what follows from the failure of a side, and what only the other side goes on to
        call behind the line that failed.
        """
        left, right = self._comparer.left, self._comparer.right
        stops = (0 if a is None else left.left_at(a), 0 if b is None else right.left_at(b))
        kept = [
            (ours, theirs)
            for ours, theirs in children
            if not (ours and left.is_behind(ours)) and not (theirs and right.is_behind(theirs))
        ]
        for at, stop in enumerate(stops):
            while stop and kept and kept[-1][at] is None and either(kept[-1]).line > stop:
                kept.pop()
        return kept

    def _recorded(self, children: list[Both]) -> list[Both]:
        """Without calls at the end that the other side may have made, too."""
        left, right = self._comparer.left, self._comparer.right
        if not (left.is_cut or right.is_cut):
            return children
        last = max((at for at, (a, b) in enumerate(children) if a and b), default=-1)
        rest = children[last + 1 :]
        kept = [(a, b) for a, b in rest if not (left if a is None else right).is_cut]
        return children[: last + 1] + kept

    def _walk(self, root: _Pair) -> None:
        stack = [root]
        while stack:
            pair = stack[-1]
            both = next(pair.children, None)
            if both is None:
                stack.pop()
                self._end(pair)
                if stack:
                    stack[-1].has_parted = stack[-1].has_parted or pair.has_parted
                continue
            a, b = both
            if a is None or b is None:
                self._alone(pair, both)
                continue
            differences = self._comparer.arguments(a, b)
            if differences:
                self._differ(pair, both, differences)
            is_test = self._comparer.left.key(a) == ""
            is_equal = not differences and (self._is_same or not is_test)
            inner = self._pair(a, b, a.children, b.children, pair, is_equal=is_equal)
            inner.inputs = tuple(differences)
            stack.append(inner)

    def _alone(self, pair: _Pair, both: Both) -> None:
        """A call that only one side makes."""
        comparer = self._comparer
        side = comparer.left if both[0] is not None else comparer.right
        above = "" if pair.left is None else comparer.left.key(pair.left)
        if (above, side.key(either(both))) not in comparer.noise.calls:
            self._report(pair, "call", both)

    def _differ(self, pair: _Pair, both: Both, differences: list[Difference]) -> None:
        """Arguments differ."""
        # One test may have fixtures that the other one has not.
        given = [each for each in differences if ABSENT not in (each.left, each.right)]
        if self.found.entry is None and not pair.is_equal and pair.is_inside and given:
            self.found.entry = Divergence(*both, "arguments", both, tuple(given), False)
        if pair.is_equal:
            self._report(pair, "arguments", both, differences)

    def _end(self, pair: _Pair) -> None:
        """Two calls are over."""
        a, b = pair.left, pair.right
        if a is None or b is None:
            return
        differences = self._comparer.outcome(a, b)
        given = {(difference.left, difference.right) for difference in pair.inputs}
        of_its_own = [each for each in differences if (each.left, each.right) not in given]
        if of_its_own:  # else it hands on what it got
            self._report(pair, "outcome", None, of_its_own)
        elif differences:
            return
        elif pair.inputs and pair.is_inside and a.result not in _NOTHING:
            made = Divergence(a, b, "outcome", None, (), False, pair.inputs)
            self.found.alike += [made][: MOST - len(self.found.alike)]

    def _report(
        self,
        pair: _Pair,
        how: How,
        child: Both | None,
        differences: list[Difference] | None = None,
    ) -> None:
        if not pair.is_inside:
            return
        found = self.found
        made = Divergence(
            pair.left, pair.right, how, child, tuple(differences or ()), pair.is_equal
        )
        if not pair.is_equal:
            if len(found.suspects) < MOST_COLLECTED and pair.left is not None:
                found.suspects.append(made)
            return
        if not pair.has_parted and len(found.divergences) < MOST_COLLECTED:
            found.divergences.append(made)
        pair.has_parted = True


def _moment(divergence: Divergence) -> int:
    """When the left side parted; a call that it did not make counts as one at the end."""
    child = None if divergence.child is None else divergence.child[0]
    if child is not None:
        return child.begun_at
    call = divergence.left
    return sys.maxsize if call is None or not call.ended_at else call.ended_at


def _spans(outer: Call, inner: Call | None) -> bool:
    """Whether a call of another thread lies inside of a call, in time."""
    if inner is None or inner.thread == outer.thread:
        return False
    return outer.begun_at < inner.begun_at and inner.ended_at < (outer.ended_at or sys.maxsize)


def noise_of_call(noise: Noise, first: Side, call: Call, second: Side, again: Call) -> bool:
    """Note what one call and those that it made did otherwise in a further run.

    Returns:
        Whether that is news.
    """
    before = noise.count
    comparer = Comparer(first, second, Noise())
    inner = aligned(call.children, again.children, first.key, second.key)
    for both in ((call, again), *inner):
        _add_noise(noise, comparer, first.key(call), both)
    return noise.count > before


def noise_between(first: Side, second: Side) -> Noise:
    """What differs between two runs of the same test."""
    noise, keys = Noise(), (first.key, second.key)
    comparer = Comparer(first, second, Noise())
    pending: list[tuple[str, Iterator[Both]]] = []
    others = {phase.name: phase for phase in second.test.phases}
    for phase in first.test.phases:
        if phase.name in others:
            pending.append(("", aligned(phase.roots, others[phase.name].roots, *keys)))
    while pending:
        above, pairs = pending.pop()
        for a, b in pairs:
            _add_noise(noise, comparer, above, (a, b))
            if a is not None and b is not None:
                pending.append((first.key(a), aligned(a.children, b.children, *keys)))
    return noise


def _add_noise(noise: Noise, comparer: Comparer, above: str, both: Both) -> None:
    """Note what differs between two calls that the same function made."""
    key, (a, b) = comparer.left.key, both
    if a is None or b is None:
        noise.calls |= {(above, key(call)) for call in both if call is not None}
    else:
        noise.add(key(a), comparer.arguments(a, b))
        noise.add(key(a), comparer.outcome(a, b))
