"""Lines of hits that lie one behind the other in a file of events, counted by their tracepoints.

There may be very many of them. Who wrote them knows where they are and how many, so that who sums
up the run need not read what it will not show.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pytest_cideldill.interpreter.values import dataclass

HIT: Final = b',"type":"hit","worker":"'
"""In a line of a hit, and in no other: in texts quotes are escaped."""

_LEAST: Final = 16_384
"""Bytes of a stretch that is worth remembering: to read less costs less."""

_MOST: Final = 262_144
"""Bytes from which on another one begins: of each only all or nothing can be read."""

# Found nowhere else in such a line, as above.
_IDS: Final = re.compile(rb',"breakpoint_id":"([^"\\]*)"')


@dataclass(frozen=True, slots=True)
class HitBlock:
    """Adjacent lines of hits in a file of events, counted by breakpoint.

    Attributes:
        counts: Id of the breakpoint → how many of the lines.
        count: How many lines.
        text: `text()`: the lines.
    """

    counts: Mapping[str, int]
    count: int
    text: Callable[[], bytes]


def ids_in(text: bytes) -> list[str]:
    """The breakpoints of lines of hits, line by line."""
    return [id.decode(errors="replace") for id in _IDS.findall(text)]


def block_of(text: bytes) -> HitBlock:
    """Lines of hits that were read."""
    ids = Counter(_IDS.findall(text))  # decoded when they are few
    counts = {id.decode(errors="replace"): count for id, count in ids.items()}
    return HitBlock(counts, text.count(b"\n"), lambda: text)


@dataclass(slots=True)
class Stretch:
    """Where a block lies in a file.

    Attributes:
        start: The byte at which it begins.
        end: That behind it.
        counts: As those of a block.
    """

    start: int
    end: int
    counts: Counter[str]

    def block(self, path: Path) -> HitBlock:
        """The block, whose text is read when it is wanted."""

        def text() -> bytes:
            with path.open("rb") as file:
                file.seek(self.start)
                return file.read(self.end - self.start)

        return HitBlock(self.counts, self.counts.total(), text)


class Stretches:
    """Those of a file that is being written; short ones are not worth it."""

    def __init__(self) -> None:
        self._all: list[Stretch] = []

    def add(self, start: int, end: int, counts: Mapping[str, int]) -> None:
        """Lines of hits have been written behind all that was added before."""
        last = self._all[-1] if self._all else None
        if last is not None and last.end == start and last.end - last.start < _MOST:
            last.end = end
            last.counts.update(counts)
            return
        if last is not None and last.end - last.start < _LEAST:
            self._all.pop()
        self._all.append(Stretch(start, end, Counter(counts)))

    def all(self) -> list[Stretch]:
        """In their order."""
        return list(self._all)
