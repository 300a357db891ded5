"""The answer to a question, and how its lines are fitted into a size.

Each line has a rank: how soon it may be missed. Lines are left out from the least useful end; where
some are missing a mark stands, and a last line says what was left out and how to get it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

MAX_CHARS: Final = 4_000
"""The default size of an answer."""

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


def fit(
    items: Sequence[Item],
    max_chars: int,
    closing: Closing,
    mark: Mark = no_mark,
) -> tuple[str, list[Item]]:
    """The text of those lines that have room, and the lines that were left out.

    Args:
        items: In order.
        max_chars: Most characters of the text.
        closing: Is called with what is left out, if anything is.
        mark: Is called for each run of missing lines.
    """
    whole = _joined(items, no_mark, None) if len(items) * SHORTEST_LINE <= max_chars * 4 else ""
    if whole and len(whole) <= max_chars:
        return whole, []
    ranked = sorted(range(len(items)), key=lambda at: (items[at].rank, at))

    def text_of(count: int) -> str:
        kept = set(ranked[:count])
        return _joined(items, mark, closing, kept)

    low, high = 0, min(len(items), max_chars // SHORTEST_LINE)
    while low < high:
        middle = (low + high + 1) // 2
        if len(text_of(middle)) <= max_chars:
            low = middle
        else:
            high = middle - 1
    text = text_of(low)
    while low and len(text) > max_chars:
        low -= 1
        text = text_of(low)
    return clipped(text, max_chars), [items[at] for at in sorted(ranked[low:])]


def _joined(
    items: Sequence[Item],
    mark: Mark,
    closing: Closing | None,
    kept: set[int] | None = None,
) -> str:
    lines: list[str] = []
    seen: set[str] = set()
    missing: list[Item] = []
    left_out: list[Item] = []
    before: Item | None = None
    for at, item in enumerate(items):
        if kept is not None and at not in kept:
            missing.append(item)
            continue
        if missing:
            _mark(lines, mark(before, missing))
            left_out += missing
            missing = []
        is_news = item.once and item.once not in seen
        seen.add(item.once)
        lines.append(f"{item.text}  {item.once}" if is_news else item.text)
        before = item
    if missing:
        _mark(lines, mark(before, missing))
        left_out += missing
    if left_out and closing is not None:
        lines.append(closing(left_out))
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


def counted(count: int, noun: str) -> str:
    """`1 call`, `2,000 calls`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
