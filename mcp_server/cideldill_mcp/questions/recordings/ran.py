"""What a test ran, by functions and statements; shared by the parts of an answer about lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from cideldill_mcp.questions.recordings.listing import DEFINITIONS, Listing
from cideldill_mcp.questions.recordings.recorded import BODIES, Call, Code, RecordedTest

Key = tuple[str, str, int]
"""Equal for code objects of one function: file, name, first line."""


class Remark(NamedTuple):
    """Lines of a function, and what is remarkable about them, in a few words."""

    code: Code
    first: int
    last: int
    reason: str


@dataclass(frozen=True, slots=True)
class Remarks:
    """What there is to say of lines that a test ran; both are empty if there is nothing.

    Attributes:
        lines: The text.
        evidence: All of it as data, the most useful first.
    """

    lines: list[str] = field(default_factory=list)
    evidence: list[Remark] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Function:
    """A function that ran.

    Attributes:
        code: One of its code objects.
        lines: Those that ran, in all of its code objects.
    """

    code: Code
    lines: set[int]


def key_of(code: Code) -> Key:
    """The key of a function."""
    return code.file, code.name, code.first


def functions(ran: Iterable[tuple[Code, set[int]]]) -> dict[Key, Function]:
    """The functions among what ran, in order; bodies of modules and classes are not."""
    found: dict[Key, Function] = {}
    for code, lines in ran:
        last = code.name.rpartition(".")[2]
        is_made = last[:1] == "<" and last != "<lambda>"  # `<generic parameters of work>`
        if code.kind not in BODIES and not is_made:
            found.setdefault(key_of(code), Function(code, set())).lines |= lines
    return found


def is_of_tests(code: Code, test_files: Collection[str]) -> bool:
    """Whether a function is in a test file or a `conftest.py`: no code under test."""
    return code.file in test_files or os.path.basename(code.file) == "conftest.py"


class Statements:
    """The statements of a function that ran.

    Args:
        listing: Of the function.
        lines: Those that ran in it.

    Attributes:
        listing: That.
        starts: First lines of the statements; empty if its definition was not found.
    """

    def __init__(self, listing: Listing, lines: Collection[int]) -> None:
        self.listing = listing
        self._lines = lines
        known = listing.starts
        self.starts = {known[line] for line in lines if line in known}

    def has(self, line: int) -> bool:
        """Whether a line ran: as a part of a statement that began, or of the function's header."""
        if line in self._lines:
            return True
        listing = self.listing
        start = listing.starts.get(line)
        if start is None:
            return False
        if start == listing.first:
            return bool(self._lines)
        node = listing.nodes.get(start)
        if isinstance(node, DEFINITIONS) and line >= node.body[0].lineno > node.lineno:
            return False  # it is inside, and has lines of its own
        return start in self.starts


def nearness(test: RecordedTest) -> Callable[[Code], tuple[int, int]]:
    """How near functions are to the failure of a test: the smaller, the nearer.

    Those in its traceback come first, the innermost of them before all; then those that were called
    late before it.
    """
    failure = test.failure
    frames: dict[Key, int] = {}
    for at, code in enumerate(failure.frames if failure is not None else ()):
        frames.setdefault(key_of(code), at)
    begun = {key_of(call.code): call.begun_at for call in test.calls.values()}  # of the last one

    def near(code: Code) -> tuple[int, int]:
        key = key_of(code)
        return frames.get(key, len(frames)), -begun.get(key, 0)

    return near


def left_by_errors(test: RecordedTest) -> set[Key]:
    """The functions that an exception left in a test: of these, lines are missing for that."""
    calls: Iterable[Call] = test.calls.values()
    found = {key_of(call.code) for call in calls if call.error is not None}
    return found.union(*(map(key_of, phase.frames) for phase in test.phases))
