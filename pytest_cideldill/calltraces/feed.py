"""What both sources of a recorder's events have in common."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING

from pytest_cideldill.calltraces.libraries import Libraries
from pytest_cideldill.calltraces.recorder import CallRecorder
from pytest_cideldill.calltraces.user_code import CodeFacts, CodeTable

if TYPE_CHECKING:
    from pytest_cideldill.calltraces.starts import Starts

Fail = Callable[[BaseException], bool]
"""Takes an exception that arrived in a callback. True: it is the program's, and is raised again;
else it was a failure of ours, and nothing is recorded afterwards.

An overflow of the stack is not handed to it but dropped, with what was to be recorded: a call there
would overflow again, and the program would get that exception instead of its own."""


class Feed:
    """Calls a recorder for the events of the program; `sysmon` or `settrace`.

    Args:
        recorder: Gets the events.
        table: Knows the user's code.
        libraries: Name functions of libraries.
        fail: See there.
        starts: Note which lines run; None: that is not wanted.
    """

    def __init__(
        self,
        recorder: CallRecorder,
        table: CodeTable,
        libraries: Libraries,
        fail: Fail,
        starts: Starts | None = None,
    ) -> None:
        self._recorder = recorder
        self._table = table
        self._libraries = libraries
        self._fail = fail
        self._lined: dict[int, CodeType] = {}
        self._starts = starts
        self._lines = None if starts is None else starts.lines
        self._met: set[int] = set()

    def start(self) -> None:
        """Record from now on."""
        raise NotImplementedError

    def stop(self) -> None:
        """Record nothing until the next start."""
        raise NotImplementedError

    def renew(self) -> None:
        """All lines that ran are to be noted again."""

    def abandon(self) -> None:
        """Record nothing any more: in a forked child, and after a failure of ours."""
        self.stop()

    def close(self) -> None:
        """Stop for good."""
        self.stop()

    def watch_lines(self, code: CodeType, *, wanted: bool) -> None:
        """Set whether the recorder gets the lines of a code object."""
        if wanted:
            self._lined[id(code)] = code
        else:
            self._lined.pop(id(code), None)

    def _meet(self, code: CodeType, facts: CodeFacts | None) -> bool:
        """Code starts for the first time while lines are noted; whether its lines are wanted."""
        self._met.add(id(code))
        if self._starts is not None and facts is not None:
            self._starts.admits(facts)
        return self._lines is not None and id(code) in self._lines.owners
