"""The states of arguments and results of calls, as rows: what a call got, changed and gave.

On the threads of the program. Of an argument the state when the call begins is recorded, and that
at its end if it is another one; nothing is kept alive meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FrameType
from typing import Any, Final

from pytest_cideldill.calltraces.leaves import LeafReader, digest, is_flat
from pytest_cideldill.calltraces.row_file import RowFile, plain
from pytest_cideldill.calltraces.user_code import CodeFacts
from pytest_cideldill.calltraces.value_texts import Values
from pytest_cideldill.interpreter.borders import passes
from pytest_cideldill.interpreter.frame_locals import read_locals

RESULT: Final = "return"
"""The name of a result among the states: no argument is called so."""

MOST_LEAVES: Final = 700_000
"""Leaves that are read in one process: some 2 s."""

MOST_WRITTEN: Final = 400_000
"""Leaves that are written; of later states only the digest is."""

NOTHING: Final = object()

Begun = dict[str, tuple[int, str]]
"""Name of an argument → the id of the object, and the digest of its state."""


class States:
    """Records states.

    Args:
        rows: Take them.
        values: Render them.
        first: The number of the first call whose states are wanted.
    """

    def __init__(self, rows: RowFile, values: Values, first: int) -> None:
        self._first = first
        self._rows = rows
        self._values = values
        self._reader = LeafReader(values)
        self._known: set[str] = set()
        self._left = MOST_LEAVES
        self._room = MOST_WRITTEN

    def begin(self, call: int, facts: CodeFacts, frame: FrameType) -> Begun | None:
        """A call begins; the result is for its end."""
        try:
            return self._begin(call, facts, frame)
        except Exception as error:  # a border: there may be no room on the stack, odd objects
            if passes(error):
                raise
            return None

    def end(self, call: int, begun: Begun | None, frame: FrameType, result: object) -> None:
        """A call ends: what it changed in its arguments, and its result unless that is NOTHING."""
        try:
            self._end(call, begun, frame, result)
        except Exception as error:  # a border, as in `begin`
            if passes(error):
                raise

    def _begin(self, call: int, facts: CodeFacts, frame: FrameType) -> Begun | None:
        if self._left <= 0 or not facts.names or call < self._first:
            return None
        names = read_locals(frame)
        begun: Begun = {}
        for _, name, _ in facts.names:
            value = names.get(name)
            if not is_flat(value):
                begun[name] = id(value), self._state(name, value)
        pairs = [[name, state] for name, (_, state) in begun.items()]
        if pairs:
            self._rows.add_text(plain(["state", call, "begin", pairs]))
        return begun

    def _end(self, call: int, begun: Begun | None, frame: FrameType, result: object) -> None:
        if self._left <= 0:
            if begun:
                unknown = [[name, ""] for name in begun]
                self._rows.add_text(plain(["state", call, "end", unknown]))
            return
        if call < self._first:
            return
        pairs = self._changed(begun, read_locals(frame)) if begun else []
        if result is not NOTHING and not is_flat(result):
            pairs.append([RESULT, self._state(RESULT, result)])
        if pairs:
            self._rows.add_text(plain(["state", call, "end", pairs]))

    def _changed(self, begun: Begun, names: Mapping[str, Any]) -> list[list[str]]:
        pairs = []
        for name, (address, before) in begun.items():
            value = names.get(name)
            if id(value) == address and not is_flat(value):  # else the name means another one now
                state = self._state(name, value)
                if state != before:
                    pairs.append([name, state])
        return pairs

    def _state(self, name: str, value: object) -> str:
        """The digest of a state; empty where it is not known."""
        if self._left <= 0:
            return ""
        leaves = self._reader.leaves(name, value)
        self._left = MOST_LEAVES - self._reader.work
        if self._left <= 0 or self._values.is_used_up:
            self._left = 0
            self._rows.add(["reached", "states", _REACHED])
            return ""
        key = digest(leaves)
        if key not in self._known and self._room > 0:
            self._known.add(key)
            self._room -= len(leaves)
            self._rows.add_text(plain(["leaves", key, leaves]))
        return key


_REACHED: Final = (
    "objects were too many or too large to compare all of them inside; of later calls only the "
    "short texts of values are compared"
)
