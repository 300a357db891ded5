"""Which functions of the user start in each phase of a test; each counts at its first start.

What a fixture of wider scope runs when it is set up belongs to all tests that use it, not only to
the first one. What a module runs when it is imported belongs to none: which test imports it first
is chance. An event source (`sysmon_starts`, `settrace_starts`) calls `note`, on any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from types import CodeType, FrameType
from typing import Any, Final

from pytest_cideldill.calltraces.codes import CodeFacts, CodeTable
from pytest_cideldill.calltraces.row_file import RowFile
from pytest_cideldill.project import Project

Fail = Callable[[BaseException], bool]
"""As `feed.Fail`."""

_BODIES: Final = frozenset({"module", "class"})
_IMPORTS: Final = frozenset({"exec_module", "_call_with_frames_removed"})
"""Functions that execute the body of a module for an import: pytest's and Python's."""

Codes = dict[int, CodeFacts]
"""By the id of the code, in the order of their first starts."""


class StartSource:
    """Calls `Starts.note` when user code starts, until that was noted; `sysmon` or `settrace`.

    Args:
        starts: Takes them.
        fail: See there.
    """

    def __init__(self, starts: Starts, fail: Fail) -> None:
        self.starts = starts
        self.fail = fail

    def go_on(self) -> None:
        """A phase begins."""

    def pause(self) -> None:
        """It is over."""

    def renew(self, codes: Iterable[CodeType]) -> None:
        """The next start of each of these is noted again."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop for good."""
        raise NotImplementedError


class Starts:
    """Collects the starts of a test, and of fixtures that tests share.

    Args:
        rows: Take them.
        table: Knows the user's code.
        project: Names its files.

    Attributes:
        table: That.
        source: The source of events; set once it is there.
    """

    def __init__(self, rows: RowFile, table: CodeTable, project: Project) -> None:
        self.table = table
        self.source: StartSource | None = None
        self._rows, self._project = rows, project
        self._numbers = count(1)
        self._is_on = self._has_imported = self._has_lost = False
        self._test: Codes = {}
        self._phase: Codes = {}
        self._windows: list[Codes] = []
        self._shared: dict[int, tuple[object, Codes]] = {}

    # --- events, on any thread ------------------------------------------------------------------

    def meets(self, frame: FrameType) -> CodeFacts | None:
        """The function of the user's of which a code object starts for the first time."""
        facts = self.table.meet(frame)
        if facts is None or facts.kind not in _BODIES:
            return facts
        self._has_imported = True
        self.table.known[id(facts.code)] = None  # its next start says no more than this one
        return None

    def note(self, facts: CodeFacts, frame: FrameType) -> bool:
        """Note a start; whether it counts, so that further ones in this test say nothing new."""
        if not self._is_on or (self._has_imported and _is_imported(frame)):
            return False
        self._phase[id(facts.code)] = facts
        return True

    # --- tests, on the main thread --------------------------------------------------------------

    def begin_test(self) -> None:
        self._renew(self._test)
        self._test = {}

    def go_on(self) -> None:
        """A phase of the test begins."""
        self._phase, self._has_imported = {}, False
        self._is_on = True
        if self.source is not None:
            self.source.go_on()

    def pause(self, used: Iterable[object]) -> None:
        """It is over.

        Args:
            used: The fixtures of the test.
        """
        self._is_on = False
        if self.source is not None:
            self.source.pause()
        phase, self._phase = self._phase.copy(), {}  # other threads may still note
        for fixture in used:
            _, codes = self._shared.get(id(fixture), (None, {}))
            phase = codes | phase
        news = [facts for key, facts in phase.items() if key not in self._test]
        self._test |= phase
        if news:
            self._rows.add(["starts", [self.number(facts) for facts in news]])

    def begin_shared(self) -> None:
        """A fixture of wider scope is set up."""
        self._renew(self._test | self._phase)
        self._windows.append(self._phase)
        self._phase = {}

    def end_shared(self, fixture: object) -> None:
        """It was set up, or failed to."""
        codes, self._phase = self._phase, self._windows.pop()
        self._phase |= codes
        self._shared[id(fixture)] = fixture, codes

    def frames(self, codes: Iterable[CodeType]) -> None:
        """Note the frames of a failure, the innermost first."""
        known = [self.table.known.get(id(code)) for code in codes]
        numbers = [self.number(facts) for facts in known if facts is not None]
        if numbers:
            self._rows.add(["frames", list(dict.fromkeys(numbers))])

    def lose(self, message: str) -> None:
        """Note, once, that starts are missing from now on."""
        if not self._has_lost:
            self._has_lost = True
            self._rows.add(["reached", "events", message])

    def number(self, facts: CodeFacts) -> int:
        """The number of a code object in the rows."""
        if not facts.number:
            facts.number = next(self._numbers)
            self._rows.add(facts.row(self._project))
        return facts.number

    def _renew(self, codes: Codes) -> None:
        if self.source is not None:
            self.source.renew([facts.code for facts in codes.values()])


def _is_imported(frame: FrameType) -> bool:
    """Whether a module that is being imported calls this frame, directly or not."""
    above: Any = frame
    while (above := above.f_back) is not None:
        if above.f_code.co_name == "<module>":
            importer = above.f_back
            if importer is not None and importer.f_code.co_name in _IMPORTS:
                return True
    return False
