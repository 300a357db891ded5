"""Selects what is shown of many that are alike: first, second, last, and each that differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from cideldill_mcp.questions.texts.fitting import ranges

MIN_ROUNDS: Final = 4
"""So many in a row are folded."""

ALIKE: Final = 3
"""So many that differ in the same way are all shown; of more the first."""

KINDS: Final = 4
"""Kinds that the line for those left out counts."""


@dataclass(frozen=True, slots=True)
class Folded:
    """What is shown.

    Attributes:
        parts: Positions that are shown, and ranges of those that are not, in order.
        keys: Of all, as given.
        usual: The most frequent key.
        firsts: The first position of each key; it is shown.
    """

    parts: list[int | range]
    keys: Sequence[Hashable]
    usual: Hashable
    firsts: dict[Hashable, int]

    def is_odd(self, at: int) -> bool:
        """Whether one differs from most."""
        return self.keys[at] != self.usual

    def repeats(self, at: int) -> bool:
        """Whether an earlier one is like it."""
        return self.firsts[self.keys[at]] != at

    def like(self, span: range, name: Callable[[int], str], noun: str = "") -> str:
        """`33 rounds like #1`: what those in a range are like.

        Args:
            span: One of the parts.
            name: What one that is shown is called.
            noun: Of one, in the plural; may be empty.
        """
        counts = Counter(self.keys[at] for at in span)
        noun = f" {noun}" if noun else ""
        parts = [
            f"{count:,}{noun} like {name(self.firsts[key])}"
            for key, count in counts.most_common(KINDS)
        ]
        if len(counts) > KINDS:
            parts.append(f"{len(counts) - KINDS} more kinds")
        return ", ".join(parts)


def folded(keys: Sequence[Hashable]) -> Folded:
    """What is shown of those with these keys; all if there are few."""
    counts = Counter(keys)
    firsts: dict[Hashable, int] = {}
    for at, key in enumerate(keys):
        firsts.setdefault(key, at)
    usual = counts.most_common(1)[0][0] if keys else None
    if len(keys) < MIN_ROUNDS:
        return Folded(list(range(len(keys))), keys, usual, firsts)
    shown = {0, 1, len(keys) - 1, *firsts.values()}
    shown |= {at for at, key in enumerate(keys) if key != usual and counts[key] <= ALIKE}
    parts: list[int | range] = []
    start = 0
    for at in sorted(shown):
        if at > start:
            parts.append(range(start, at) if at > start + 1 else start)
        parts.append(at)
        start = at + 1
    return Folded(parts, keys, usual, firsts)


def span_text(numbers: Sequence[int], sign: str = "") -> str:
    """`#3–#35`: the numbers of those in a range."""
    return sign + ranges(numbers, 2).replace("–", f"–{sign}").replace(", ", f", {sign}")
