"""Which lines of the user's functions run: sources of events note each once among the starts.

Lines of a comprehension that has a frame of its own, and of the body of a class, are those of the
function around it. Those of module bodies are not noted, and none of what an import runs.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FrameType

from pytest_cideldill.calltraces.user_code import CodeFacts, parts_of
from pytest_cideldill.sourcecode.codes import lines_of

Place = tuple[int, int]
"""A line that ran: the id of the function's code, and the line."""


class RanLines:
    """Notes lines, on any thread.

    Args:
        note: Notes a place that a frame is at, if it counts; whether it does.

    Attributes:
        owners: Id of a code object whose lines are wanted → that of its function.
        missing: Id of a code object → its lines that have still to run, as far as `is_open` was
            asked; for `sys.settrace`, which can't switch a single line off.
    """

    def __init__(self, note: Callable[[Place, FrameType], bool]) -> None:
        self._note = note
        self.owners: dict[int, int] = {}
        self._lines: dict[int, frozenset[int]] = {}
        self.missing: dict[int, set[int]] = {}

    def meet(self, facts: CodeFacts) -> None:
        """From now on the lines of a function are wanted."""
        owner = id(facts.code)
        for part in parts_of(facts.code):  # the function keeps them
            self.owners.setdefault(id(part), owner)
        self.owners[owner] = owner

    def begins(self, code: CodeType, line: int, frame: FrameType) -> bool:
        """A line begins; whether it is noted, so that its next pass says no more."""
        owner = self.owners.get(id(code))
        return owner is not None and self._note((owner, line), frame)

    # --- for `sys.settrace` ---------------------------------------------------------------------

    def renew(self) -> None:
        """All lines are wanted again."""
        self.missing.clear()

    def is_open(self, code: CodeType) -> bool:
        """Whether a line of a code object has still to run."""
        key = id(code)
        missing = self.missing.get(key)
        if missing is None:
            if key not in self.owners:
                return False
            if key not in self._lines:
                self._lines[key] = lines_of(code)
            missing = self.missing[key] = set(self._lines[key])
        return bool(missing)

    def passes(self, frame: FrameType) -> bool:
        """A line of a frame begins; whether one of its code has still to run."""
        code = frame.f_code
        if not self.is_open(code):
            return False
        line = frame.f_lineno
        missing = self.missing.get(id(code), ())
        if line in missing and self.begins(code, line, frame) and isinstance(missing, set):
            missing.discard(line)
        return bool(missing)
