"""The answer to a question, and how its lines are fitted into a size.

Each line has a rank: how soon it may be missed. Lines are left out from the least useful end; where
some are missing a mark stands, and a last line says what was left out and how to get it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

MAX_CHARS: Final = 4_000
"""The default size of an answer."""

CLOSING: Final = 140
"""Characters that are kept free for the line that says what was left out."""

SHORTEST_LINE: Final = 6
"""Characters of a line with its line feed: no more lines than these are looked at."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question's tool and command reply.

    Attributes:
        text: The whole answer, ready to read.
        fields: The keys beside it, as the table of questions lists them.
        truncated: Whether something was left out for the size.
        next: Possible next calls, the most useful first.
    """

    text: str
    fields: dict[str, Any] = field(default_factory=dict)
    truncated: bool = False
    next: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Item:
    """A line of an answer.

    Attributes:
        make: Its text, with the indentation; made when it is needed.
        rank: How soon it may be missed: smaller ones stay longer.
        depth: How deep it is nested, for the mark that stands for what is missing.
        weight: How many calls, steps or lines it stands for.
        once: A text behind it that is not repeated by later lines.
    """

    make: Callable[[], str] | str
    rank: float
    depth: int = 0
    weight: int = 1
    once: str = ""

    @property
    def text(self) -> str:
        """The text, made at most once."""
        if not isinstance(self.make, str):
            self.make = self.make()
        return self.make


Mark = Callable[[Item | None, Sequence[Item]], tuple[str, str]]
"""What stands for missing lines: a text behind the line before, and a line; both may be empty."""

Closing = Callable[[Sequence[Item]], str]
"""The last line, which says what was left out."""


def no_mark(_before: Item | None, _missing: Sequence[Item]) -> tuple[str, str]:
    """No sign of what is missing."""
    return "", ""


def left_out_text(
    left_out: Sequence[Item], noun: str = "line", how: str = "a larger max_chars"
) -> str:
    """`left out: 3 steps (a larger max_chars)`; of what stands for none the count of lines."""
    count = sum(item.weight for item in left_out)
    what = counted(count, noun) if count else counted(len(left_out), "line")
    return f"left out: {what} ({how})"


def keep_above(items: Sequence[Item]) -> None:
    """Let each line stay as long as those that hang on it: deeper ones that follow."""
    ranks: list[float] = []
    for item in reversed(items):
        depth = item.depth
        if len(ranks) > depth + 1:
            item.rank = min(item.rank, *ranks[depth + 1 :])
            del ranks[depth + 1 :]
        ranks += [math.inf] * (depth + 1 - len(ranks))
        ranks[depth] = min(ranks[depth], item.rank)


def fit(
    items: Sequence[Item],
    max_chars: int,
    closing: Closing,
    mark: Mark = no_mark,
    *,
    room: int = CLOSING,
) -> tuple[str, list[Item]]:
    """The text of those lines that have room, and the lines that were left out.

    Args:
        items: In order.
        max_chars: Most characters of the text.
        closing: Is called with what is left out, if anything is.
        mark: Is called for each run of missing lines.
        room: Characters that the last line has for sure.
    """
    if len(items) * SHORTEST_LINE <= max_chars * 4:
        whole = _joined(items, range(len(items)), no_mark)
        if len(whole) <= max_chars:
            return whole, []
    ranked = sorted(range(len(items)), key=[item.rank for item in items].__getitem__)
    most = max_chars - min(room, max_chars // 3)
    low, high = 0, min(len(items), most // SHORTEST_LINE)
    while low < high:
        middle = (low + high + 1) // 2
        if len(_joined(items, sorted(ranked[:middle]), mark)) <= most:
            low = middle
        else:
            high = middle - 1
    text = clipped(_joined(items, sorted(ranked[:low]), mark), most)
    left_out = [items[at] for at in sorted(ranked[low:])]
    last = clipped(closing(left_out), max_chars - len(text) - 1)
    return f"{text}\n{last}" if text else last, left_out


def _joined(items: Sequence[Item], kept: Iterable[int], mark: Mark) -> str:
    lines: list[str] = []
    seen: set[str] = set()
    before: Item | None = None
    start = 0
    for at in kept:
        if at > start:
            _mark(lines, mark(before, items[start:at]))
        item = before = items[at]
        is_news = item.once and item.once not in seen
        seen.add(item.once)
        lines.append(f"{item.text}  {item.once}" if is_news else item.text)
        start = at + 1
    if start < len(items):
        _mark(lines, mark(before, items[start:]))
    return "\n".join(lines)


def _mark(lines: list[str], texts: tuple[str, str]) -> None:
    behind, line = texts
    if behind and lines:
        lines[-1] += behind
    if line:
        lines.append(line)


# --- short texts --------------------------------------------------------------------------------


def clipped(text: str, most: int) -> str:
    """A text without its end, if it is too long."""
    return text if len(text) <= most else text[: max(0, most - 1)] + "…"


def short(text: str, most: int) -> str:
    """A value on one line, without its middle if it is too long."""
    if "\n" in text:
        text = " ".join(text.split())
    if len(text) <= most:
        return text
    end = most // 3
    return f"{text[: most - end - 1]}…{text[len(text) - end :]}"


def ranges(numbers: Sequence[int], most: int = 6) -> str:
    """`3–7, 9, 12 …`: sorted numbers, runs of them joined, at most so many parts."""
    parts: list[str] = []
    at = 0
    while at < len(numbers) and len(parts) < most:
        start = at
        while at + 1 < len(numbers) and numbers[at + 1] == numbers[at] + 1:
            at += 1
        first, last = numbers[start], numbers[at]
        parts.append(str(first) if first == last else f"{first}–{last}")
        at += 1
    return ", ".join(parts) + (" …" if at < len(numbers) else "")


def listed(texts: Sequence[str], most: int) -> str:
    """`a, b, 4 more`."""
    more = [f"{len(texts) - most} more"] if len(texts) > most else []
    return ", ".join([*texts[:most], *more])


def counted(count: int, noun: str) -> str:
    """`1 call`, `2,000 calls`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
