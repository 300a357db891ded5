"""Feeds a watch through `sys.settrace`: on 3.11."""

from __future__ import annotations

from types import FrameType
from typing import Any, Final, cast

from pytest_cideldill.calltraces import settrace
from pytest_cideldill.calltraces.feed import Fail
from pytest_cideldill.calltraces.libraries import Libraries
from pytest_cideldill.calltraces.user_code import CodeFacts, CodeTable
from pytest_cideldill.interpreter.running import running_frames
from pytest_cideldill.watching.recorder import WatchRecorder


class TracingFeed(settrace.TracingFeed):
    """A `WatchFeed` that owns the trace functions while tests are watched.

    Raises:
        SourceUnavailable: Another tool traces.
    """

    def __init__(self, recorder: WatchRecorder, table: CodeTable, fail: Fail) -> None:
        self._watching = recorder
        self._is_armed = False
        events = _Events(recorder, table, self)
        # All that the base class calls of a recorder is there.
        super().__init__(cast(Any, events), table, cast(Libraries, None), fail)

    def start(self) -> None:
        if not self._installer.is_installed:
            super().start()

    def stop(self) -> None:
        if not self._is_armed:
            super().stop()

    def arm(self) -> None:
        self._is_armed = True
        self.start()
        for frame in running_frames():
            if self._table.meet(frame) is not None:
                self.watch_lines(frame.f_code, wanted=True)
                self._installer.trace_frame(frame)

    def arm_code(self, facts: CodeFacts) -> None:
        """The lines of a code object that begins count."""
        if self._is_armed:
            self.watch_lines(facts.code, wanted=True)

    def disarm(self) -> None:
        self._is_armed = False
        self._lined.clear()

    def abandon(self) -> None:
        self._watching.forget()
        self.disarm()
        super().stop()

    def close(self) -> None:
        self.abandon()


class _Events:
    """Hands the events of a traced call on to the watch."""

    chosen: Final = None
    caught: Final = None
    counts_lines: Final = True
    wants_libraries: Final = False

    def __init__(self, recorder: WatchRecorder, table: CodeTable, feed: TracingFeed) -> None:
        self._recorder, self._table, self._feed = recorder, table, feed
        self.active: dict[int, Any] = {}

    def begin(self, facts: CodeFacts, frame: FrameType) -> None:
        recorder = self._recorder
        if recorder.is_quiet():
            return
        self._feed.arm_code(facts)
        if recorder.watch is None and recorder.wants_calls:
            recorder.calls(facts, frame)
        if recorder.watch is not None:
            recorder.watch.starts(frame)

    def count_line(self, frame: FrameType, line: int) -> None:
        watch = self._recorder.watch
        if watch is not None and not self._recorder.is_quiet():
            watch.line(frame, line)

    def resumed(self, frame: FrameType, _error: BaseException | None) -> None:
        watch = self._recorder.watch
        facts = self._table.meet(frame)
        if watch is not None and facts is not None and not self._recorder.is_quiet():
            self._feed.arm_code(facts)
            watch.goes_on(facts, frame)

    def returned(self, frame: FrameType, _value: object) -> None:
        self._leave(frame, is_over=True)

    def unwound(self, frame: FrameType, _error: BaseException | None) -> None:
        self._leave(frame, is_over=True)

    def yielded(self, frame: FrameType, _value: object) -> None:
        self._leave(frame, is_over=False)

    def raises(self, frame: FrameType, error: BaseException) -> None:
        """Not of interest."""

    def reach(self, limit: str, text: str) -> None:
        self._recorder.reach(limit, text)

    def _leave(self, frame: FrameType, *, is_over: bool) -> None:
        watch = self._recorder.watch
        if watch is not None and not self._recorder.is_quiet():
            watch.leaves(frame, is_over=is_over)
