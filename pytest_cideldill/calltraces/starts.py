"""Which functions of the user start in each phase of a test, and which lines run, each once.

What a fixture of wider scope runs when it is set up belongs to all tests that use it, not only to
the first one. What a module runs when it is imported belongs to none: which test imports it first
is chance. Nor does what only explains a failed assertion, nor what runs while the
exception that fails the phase is on its way. An event source (`sysmon_starts`, `settrace_starts`)
notes them, on any thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from types import CodeType, FrameType
from typing import Any, Final

from pytest_cideldill.calltraces.aftermath import Aftermath
from pytest_cideldill.calltraces.feed import Fail, Feed
from pytest_cideldill.calltraces.ran import Place, RanLines
from pytest_cideldill.calltraces.row_file import RowFile
from pytest_cideldill.calltraces.user_code import CodeFacts, CodeTable

_BODIES: Final = frozenset({"module", "class"})
_IMPORTS: Final = frozenset({"exec_module", "_call_with_frames_removed"})
"""Functions that execute the body of a module for an import: pytest's and Python's."""


class StartSource:
    """Notes in `Starts.noted` when functions of the user start; by `sysmon` or `settrace`."""

    def __init__(self, starts: Starts, fail: Fail) -> None:
        self.starts = starts
        self.fail = fail

    def go_on(self) -> None:
        """A phase begins."""

    def pause(self) -> None:
        """It is over."""

    def renew(self) -> None:
        """Nothing is noted any more, and the next start or line of each function will be."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop for good."""
        raise NotImplementedError


class Starts:
    """Collects the starts and lines of a test, and of fixtures that tests share.

    Attributes:
        noted: Ids of the code that started, and lines that ran, in order; with a number for the
            source.
        lines: Notes lines; None: they are not wanted.
        has_imported: Whether a module of the user's was executed in this phase.
        source: The source of events; set once it is there.
        aftermath: What was noted while an exception was handled.
        feed: What notes lines while it records calls; set once it is there.
    """

    def __init__(self, rows: RowFile, table: CodeTable, *, has_lines: bool = False) -> None:
        self.table = table
        self.noted: dict[int | Place, int] = {}
        self.lines = RanLines(self._notes) if has_lines else None
        self.has_imported = False
        self.source: StartSource | None = None
        self.feed: Feed | None = None
        self._rows = rows
        self._texts: dict[int, str] = {}
        self._has_lost = False
        self._earlier: set[int | Place] = set()
        self._kept = 0
        self._windows: list[list[int | Place]] = []
        self._shared: dict[int, tuple[object, list[int | Place]]] = {}
        self.aftermath: Aftermath[int | Place] = Aftermath()
        self._pending: list[int | Place] = []

    def meets(self, frame: FrameType) -> CodeFacts | None:
        """The function of the user's of which a code object starts for the first time.

        On any thread, as is all that sources call.
        """
        facts = self.table.meet(frame)
        if facts is None or self.admits(facts):
            return facts
        self.table.known[id(facts.code)] = None  # its next start says no more than this one
        return None

    def admits(self, facts: CodeFacts) -> bool:
        """Whether code that starts is a function; its lines are wanted then."""
        if facts.kind in _BODIES:
            self.has_imported = True
            return False
        if self.lines is not None:
            self.lines.meet(facts)
        return True

    def _notes(self, place: Place, frame: FrameType) -> bool:
        if place not in self.noted:
            if self.is_apart(frame):
                return False
            self.note(place)
        return True

    def note(self, key: int | Place) -> None:
        """Something starts, or a line runs, for the first time."""
        self.noted[key] = 1
        self.aftermath.see(key)

    def is_apart(self, frame: FrameType) -> bool:
        """Whether what a frame runs belongs to no test; asked where something would be noted."""
        if self.has_imported and _is_imported(frame):
            return True
        return self.table.explanations.has_any and self._explains(frame)

    def _explains(self, frame: FrameType) -> bool:
        """Whether this frame was called to explain a failure, directly or not."""
        known, has = self.table.known, self.table.explanations.has
        called, above = frame.f_code, frame.f_back
        while above is not None:
            code = above.f_code
            if has(code, called):
                return True
            if (facts := known.get(id(code))) is not None:
                if above.f_lasti in facts.messages:
                    return True
                called = code
            above = above.f_back
        return False

    # --- tests, on the main thread --------------------------------------------------------------

    def begin_test(self) -> None:
        self._renew()
        self._earlier = set()

    def go_on(self) -> None:
        """A phase of the test begins."""
        self.has_imported = False
        # What pytest's own work has called since is not the test's, but may be called by it, too.
        if len(self.noted) > self._kept:
            self._renew()
        if self.source is not None:
            self.source.go_on()

    def pause(self, used: Iterable[object]) -> None:
        """It is over.

        Args:
            used: The fixtures of the test.
        """
        if self.source is not None:
            self.source.pause()
        started = list(self.noted)  # other threads may note still
        self._kept = len(started)
        earlier = self._earlier
        news = [key for key in started if key not in earlier]
        if self._shared:
            found = [self._shared[id(each)][1] for each in used if id(each) in self._shared]
            news = list(dict.fromkeys(chain(*found, news)))
            news = [key for key in news if key not in earlier]
        if news:
            earlier.update(news)
            self._pending += [key for key in news if key in self.aftermath]
            self._leave([key for key in news if key not in self.aftermath])

    def end_phase(self, failure: BaseException | None) -> None:
        """It is known how a phase ended that is over."""
        if self._pending:
            gone = self.aftermath.of(failure)
            self._leave([key for key in self._pending if key not in gone])
            self._pending = []
        self.aftermath.clear()

    def begin_shared(self) -> None:
        """A fixture of wider scope is set up."""
        self._windows.append(list(self.noted))
        self._renew()

    def end_shared(self, fixture: object) -> None:
        """It was set up, or failed to."""
        self._shared[id(fixture)] = fixture, list(self.noted)
        for key in self._windows.pop():
            self.noted.setdefault(key, 1)

    def frames(self, codes: Iterable[CodeType]) -> None:
        """Note the frames of a failure, the innermost first."""
        known = self.table.known
        keys = dict.fromkeys(id(code) for code in codes if known.get(id(code)) is not None)
        if keys:
            self._rows.add(["frames", [int(self._text(key)) for key in keys]])

    def lose(self, message: str) -> None:
        """Note, once, that starts are missing from now on."""
        if not self._has_lost:
            self._has_lost = True
            self._rows.add(["reached", "events", message])

    def _leave(self, news: list[int | Place]) -> None:
        starts = [key for key in news if type(key) is int]
        if starts:
            texts = self._texts  # a list of numbers would take several times as long
            numbers = ",".join([texts.get(key) or self._text(key) for key in starts])
            self._rows.add_text(f'["starts",[{numbers}]]')
        ran: dict[int, list[int]] = {}
        if self.lines is not None:
            for code, line in [key for key in news if type(key) is tuple]:
                ran.setdefault(code, []).append(line)
        for code, lines in ran.items():
            self._rows.add(["ran", int(self._text(code)), sorted(lines)])

    def _text(self, key: int) -> str:
        """The number of a code object in the rows, as it is written."""
        facts = self.table.known[key]
        assert facts is not None
        text = self._texts[key] = str(self.table.number(facts, self._rows))
        return text

    def _renew(self) -> None:
        self._kept = 0
        self.noted.clear()
        if self.lines is not None:
            self.lines.renew()
        if self.source is not None:
            self.source.renew()
        if self.feed is not None:
            self.feed.renew()


def _is_imported(frame: FrameType) -> bool:
    """Whether a module that is being imported calls this frame, directly or not."""
    above: Any = frame
    while (above := above.f_back) is not None:
        if above.f_code.co_name == "<module>":
            importer = above.f_back
            if importer is not None and importer.f_code.co_name in _IMPORTS:
                return True
    return False
