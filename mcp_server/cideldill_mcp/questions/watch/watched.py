"""What a watch has seen, out of its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cideldill_mcp.questions.recordings.recorded import Code, Recorded, RecordedTest

Part = tuple[str, str | None, str | None]
"""`(place in the object, text before, text afterwards)`."""


@dataclass(frozen=True, slots=True)
class Place:
    """A line that ran, and the one that called its function; without code: none of user code."""

    code: Code | None
    line: int
    caller: Code | None
    caller_line: int

    @property
    def key(self) -> tuple[int, int]:
        """What is one writer: the code and the line."""
        return (0 if self.code is None else self.code.number, self.line)

    @property
    def text(self) -> str:
        """`file:line function`."""
        if self.code is None:
            return "outside of your code"
        return f"{self.code.file}:{self.line} {self.code.name}"

    @property
    def by(self) -> str:
        """`from caller file:line`; empty without a caller."""
        if self.caller is None:
            return ""
        return f"from {self.caller.name} {self.caller.file}:{self.caller_line}"

    @property
    def fields(self) -> dict[str, Any]:
        """As in replies."""
        if self.code is None:
            return {"function": "", "file": "", "line": 0}
        return {"function": self.code.dotted, "file": self.code.file, "line": self.line}


@dataclass(frozen=True, slots=True)
class Change:
    """A change.

    Attributes:
        phase: Of the test; empty before the first one.
        place: The line that made it.
        other: One of another thread that may have made it instead.
        thread: The name of the thread; empty for the main one.
        late: How many lines later it was seen, at most.
    """

    phase: str
    parts: Sequence[Part]
    place: Place
    other: Place | None
    thread: str
    late: int


@dataclass(slots=True, eq=False)
class Watched:
    """A watch.

    Attributes:
        first: The first value.
        begins: Where the watch begins.
        call: The how-manieth call of the function that is.
        counts: How often each line made a change.
        aliases: What else holds the object, `first` and at the `end`.
        became: Behind this line `until` was true.
        names: The locals there.
        value: The value at the end, if that is known.
        lost: Behind this line nothing leads to the object.
    """

    first: str = ""
    begins: Place = field(default_factory=lambda: Place(None, 0, None, 0))
    call: int = 0
    changes: list[Change] = field(default_factory=list)
    counts: dict[tuple[int, int], int] = field(default_factory=dict)
    aliases: dict[str, list[str]] = field(default_factory=dict)
    became: Place | None = None
    names: list[tuple[str, str]] = field(default_factory=list)
    was_true: bool = False
    value: str | None = None
    lost: Place | None = None

    @property
    def total(self) -> int:
        """How many changes there were."""
        return max(sum(self.counts.values()), len(self.changes))

    @property
    def has_no_value(self) -> bool:
        """Whether there was none at any time: it was unset, or the expression raised."""
        return not self.changes and (self.first == "unset" or self.first.startswith("✗ "))


def read_watched(recorded: Recorded, test: RecordedTest) -> Watched:
    """The watch of a test."""
    watched = Watched()
    codes = recorded.codes
    for phase, row in test.watched:
        try:
            _add(watched, codes, phase, row)
        except (LookupError, TypeError, ValueError):
            continue  # of another version, or cut off
    if not watched.counts:  # the process has not come so far
        watched.counts = Counter(change.place.key for change in watched.changes)
    return watched


def _add(watched: Watched, codes: dict[int, Code], phase: str, row: list[Any]) -> None:
    kind, *columns = row
    if kind == "watch":
        watched.first, watched.begins = str(columns[0]), _place(codes, columns[1:5])
        watched.call = columns[5]
    elif kind == "changed":
        parts = [(str(part[0]), part[1], part[2]) for part in columns[0]]
        other = _place(codes, columns[6:10])
        watched.changes.append(
            Change(
                phase,
                parts,
                _place(codes, columns[1:5]),
                None if other.code is None else other,
                str(columns[5]),
                int(columns[10]),
            )
        )
    elif kind == "writer":
        watched.counts[columns[0], columns[1]] = columns[2]
    elif kind == "aliases":
        watched.aliases[columns[0]] = [str(each) for each in columns[1]]
    elif kind == "became":
        watched.became = _place(codes, columns[:4])
        watched.names = [(name, text) for name, text in columns[4]]
    elif kind == "true_at_first":
        watched.was_true = True
    elif kind == "lost":
        watched.lost = _place(codes, columns)
    elif kind == "value":
        watched.value = str(columns[0])


def _place(codes: dict[int, Code], columns: Sequence[int]) -> Place:
    code, line, caller, caller_line = columns
    return Place(codes.get(code), line, codes.get(caller), caller_line)
