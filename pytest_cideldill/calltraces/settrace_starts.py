"""Reports which user code starts, and which lines run, through `sys.settrace`: on 3.11.

Coverage goes on behind it.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from pytest_cideldill.calltraces.feed import Fail
from pytest_cideldill.calltraces.settrace import GENERATORS, LOST
from pytest_cideldill.calltraces.starts import Starts, StartSource
from pytest_cideldill.interpreter.frame_locals import keep_as_they_are
from pytest_cideldill.tracing.code_shapes import Shape
from pytest_cideldill.tracing.installer import Installer


class TracingStarts(StartSource):
    """Owns the trace functions while tests run.

    A frame is traced beyond its start if lines are wanted and one of its function has still to run.

    Raises:
        SourceUnavailable: Another tool traces.
    """

    def __init__(self, starts: Starts, fail: Fail) -> None:
        super().__init__(starts, fail)
        self._noted, self._lines = starts.noted, starts.lines
        self._foreign: set[int] = set()
        self._on_call, self._on_frame = self._call, self._event
        self._installer = Installer(self._on_call, self._on_frame, starts.lose)
        self._installer.check()

    def go_on(self) -> None:
        self._installer.install()

    def pause(self) -> None:
        if self._installer.is_installed and sys.gettrace() is None:
            self.starts.lose(LOST)
        self._installer.remove()

    def renew(self) -> None:
        """Frames that run are traced again when they go on, or at their next call."""

    def close(self) -> None:
        self._installer.remove()

    def _call(self, frame: FrameType, _event: str, _arg: object) -> Any:
        """A frame begins or goes on; None: the rest of it is not traced."""
        __tracebackhide__ = True
        code = frame.f_code
        key = id(code)
        if key in self._foreign:
            return None
        if key in self._noted and self._lines is None and self.starts.aftermath.is_empty:
            return None
        try:
            if not self._installer.is_installed:
                self._installer.leave(self._on_call)
                return None
            if key not in self._noted:
                self._start(frame, key)
            elif not self.starts.aftermath.is_empty:
                self.starts.aftermath.look()
            if self._lines is not None and self._lines.is_open(code):
                return self._on_frame
        except RecursionError:
            pass
        except BaseException as error:
            if self.fail(error):
                self._installer.survive(frame)
                raise
        return None

    def _start(self, frame: FrameType, key: int) -> None:
        code = frame.f_code
        known = self.starts.table.known
        facts = known[key] if key in known else self.starts.meets(frame)
        if facts is None:
            if self._lines is None or key not in self._lines.owners:
                self._foreign.add(key)
        elif not code.co_flags & GENERATORS or frame.f_lasti == Shape(code).start:
            try:
                if not self.starts.is_apart(frame):
                    self.starts.note(key)
            finally:
                keep_as_they_are(frame)

    def _event(self, frame: FrameType, event: str, _arg: Any) -> Any:
        """Of a frame whose lines are wanted, or that ran when the tracing began."""
        __tracebackhide__ = True
        lines = self._lines
        if lines is None or not self._installer.is_installed:
            frame.f_trace = None
            return None
        try:
            # Most events are those of a loop, all of whose lines are noted.
            missing = lines.missing.get(id(frame.f_code))
            if missing and event == "line" and frame.f_lineno not in missing:
                keep_as_they_are(frame)
                return self._on_frame
            try:
                if event != "line" or lines.passes(frame):
                    return self._on_frame
            finally:
                keep_as_they_are(frame)
        except RecursionError:
            return self._on_frame
        except BaseException as error:
            if self.fail(error):
                self._installer.survive(frame)
                raise
        frame.f_trace = None
        return None
