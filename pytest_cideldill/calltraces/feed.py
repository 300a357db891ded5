"""What both sources of a recorder's events have in common."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType

from pytest_cideldill.calltraces.codes import CodeTable
from pytest_cideldill.calltraces.libraries import Libraries
from pytest_cideldill.calltraces.recorder import CallRecorder

Fail = Callable[[BaseException], bool]
"""Takes an exception that arrived in a callback. True: it is the program's, and is raised again;
else it was a failure of ours, and nothing is recorded afterwards."""


class Feed:
    """Calls a recorder for the events of the program; `sysmon` or `settrace`.

    Args:
        recorder: Gets the events.
        table: Knows the user's code.
        libraries: Name functions of libraries.
        fail: See there.
    """

    def __init__(
        self, recorder: CallRecorder, table: CodeTable, libraries: Libraries, fail: Fail
    ) -> None:
        self._recorder = recorder
        self._table = table
        self._libraries = libraries
        self._fail = fail
        self._lined: dict[int, CodeType] = {}

    def start(self) -> None:
        """Record from now on."""
        raise NotImplementedError

    def stop(self) -> None:
        """Record nothing until the next start."""
        raise NotImplementedError

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
