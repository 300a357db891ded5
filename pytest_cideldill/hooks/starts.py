"""Records which functions each test starts, and which lines run, for questions about many tests.

On pytest's main thread; what starts is noted on any thread (`calltraces.starts`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any, Final

import pytest

from pytest_cideldill.calltraces.row_file import RowFile
from pytest_cideldill.calltraces.starts import Starts, StartSource
from pytest_cideldill.calltraces.user_code import CodeTable
from pytest_cideldill.hooks.guest import guest
from pytest_cideldill.hooks.host import Host
from pytest_cideldill.hooks.tracebacks import raw_places
from pytest_cideldill.interpreter.borders import at_fork, passes, text_of
from pytest_cideldill.protocol.trace_rows import TraceRequest
from pytest_cideldill.rendering.display import Lens

_MOST_FRAMES: Final = 200
"""Frames of a failure that are looked at."""

_MOST_CAUSES: Final = 20
"""Exceptions behind a failure whose frames are looked at."""


class StartWatch:
    """Notes starts and lines in the phases of tests; a plugin of pytest.

    Args:
        table: Knows the user's code for a feed, which notes lines while it records calls; None:
            there is no feed, and starts are noted too.

    Attributes:
        host: Gets failures of ours.
        starts: What is noted.

    Raises:
        SourceUnavailable: There can be no events here.
    """

    def __init__(
        self, request: TraceRequest, rows: RowFile, lens: Lens, table: CodeTable | None = None
    ) -> None:
        self.host: Host | None = None
        self._rows, self._lens = rows, lens
        self._item: pytest.Item | None = None
        self._failed = False
        self.starts = Starts(rows, table or CodeTable(lens, None), has_lines=request.ran)
        if table is None:
            source = self.starts.source = _source()(self.starts, self._fail)
            at_fork(after_in_child=source.close)

    # --- what the plugin of the question calls ----------------------------------------------

    def begin_test(self, item: pytest.Item) -> None:
        self._item = item
        self.starts.begin_test()

    def end_phase(self, failure: BaseException | None) -> None:
        """A phase is over, perhaps with an exception."""
        self.starts.end_phase(failure)

    def begin_setup(self, module: object) -> None:
        """Which module a test is in does not matter."""

    def go_on(self) -> None:
        """A phase of a test begins."""
        if not self._failed:
            self.starts.go_on()

    def pause(self) -> None:
        """It is over."""
        self.starts.pause(_fixtures_of(self._item))

    def end_test(self) -> None:
        self._item = None

    def close(self) -> None:
        if self.starts.source is not None:
            self.starts.source.close()

    def _fail(self, error: BaseException) -> bool:
        """Whether an exception is the program's; else it is a failure of ours, and the end."""
        if passes(error):
            return True
        if not self._failed:
            self._failed = True
            self.close()
            self._rows.add(["reached", "failure", f"pytest-cideldill failed: {text_of(error)}"])
        return False

    # --- hooks --------------------------------------------------------------------------------

    @pytest.hookimpl(trylast=True)
    @guest
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Leave in which files tests are; a doctest may be anywhere."""
        files = {str(item.path) for item in session.items if isinstance(item, pytest.Function)}
        named = sorted(self._lens.project.relative(file) for file in files)
        self._rows.add(["test_files", named])

    @pytest.hookimpl(wrapper=True, trylast=True)
    @guest
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        is_shared = fixturedef.scope != "function"
        if is_shared:
            self.starts.begin_shared()
        yield
        if is_shared:
            self.starts.end_shared(fixturedef)

    @pytest.hookimpl(trylast=True)
    @guest
    def pytest_exception_interact(
        self, call: pytest.CallInfo[Any], report: pytest.CollectReport | pytest.TestReport
    ) -> None:
        """A phase has failed."""
        if isinstance(report, pytest.TestReport) and call.excinfo is not None:
            self.starts.frames(_frames(call.excinfo.value))


def _frames(error: BaseException) -> Iterator[CodeType]:
    """The code of the frames that an exception came through, and of those of its causes first.

    The innermost first, of the first cause: there it went wrong.
    """
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and len(chain) < _MOST_CAUSES and all(e is not cause for e in chain):
        chain.append(cause)
        cause = _cause_of(cause)
    for exception in reversed(chain):
        places = raw_places(_traceback_of(exception))
        yield from (frame.f_code for frame, _ in places[-_MOST_FRAMES:])


# Not the attributes: a class may define its own.
_traceback_of = BaseException.__dict__["__traceback__"].__get__
_given_cause_of = BaseException.__dict__["__cause__"].__get__
_context_of = BaseException.__dict__["__context__"].__get__
_hides_context = BaseException.__dict__["__suppress_context__"].__get__


def _cause_of(error: BaseException) -> BaseException | None:
    cause = _given_cause_of(error)
    if cause is None and not _hides_context(error):
        cause = _context_of(error)
    return cause if isinstance(cause, BaseException) else None


def _fixtures_of(item: pytest.Item | None) -> list[object]:
    """The fixtures of a test: those that it asked for, and by its signature if one failed."""
    asked = getattr(getattr(item, "_request", None), "_fixture_defs", None) or {}
    known = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", None) or {}
    return [*asked.values(), *(each[-1] for each in known.values() if each)]


def _source() -> type[StartSource]:
    """The class that notices starts on this Python version."""
    if sys.version_info >= (3, 12):
        from pytest_cideldill.calltraces.sysmon_starts import MonitoringStarts

        return MonitoringStarts
    from pytest_cideldill.calltraces.settrace_starts import TracingStarts

    return TracingStarts
