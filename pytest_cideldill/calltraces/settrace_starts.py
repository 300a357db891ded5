"""Tells which user code starts, through `sys.settrace`: on 3.11; coverage goes on behind it."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Final

from pytest_cideldill.calltraces.feed import Fail
from pytest_cideldill.calltraces.settrace import LOST
from pytest_cideldill.calltraces.starts import Starts, StartSource, is_imported
from pytest_cideldill.interpreter.frame_locals import keep_as_they_are
from pytest_cideldill.tracing.code_shapes import Shape
from pytest_cideldill.tracing.installer import Installer

_GENERATORS: Final = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR


class TracingStarts(StartSource):
    """Owns the trace functions while tests run. No frame is traced beyond its start.

    Raises:
        SourceUnavailable: Another tool traces.
    """

    def __init__(self, starts: Starts, fail: Fail) -> None:
        super().__init__(starts, fail)
        self._noted = starts.noted
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
        self.starts.noted.clear()

    def close(self) -> None:
        self._installer.remove()

    def _call(self, frame: FrameType, _event: str, _arg: object) -> Any:
        """A frame begins or goes on; None: the rest of it is not traced."""
        __tracebackhide__ = True
        code = frame.f_code
        key = id(code)
        if key in self._noted or key in self._foreign:
            return None
        try:
            if not self._installer.is_installed:
                self._installer.leave(self._on_call)
                return None
            known = self.starts.table.known
            facts = known[key] if key in known else self.starts.meets(frame)
            if facts is None:
                self._foreign.add(key)
            elif not code.co_flags & _GENERATORS or frame.f_lasti == Shape(code).start:
                try:
                    if not (self.starts.has_imported and is_imported(frame)):
                        self._noted[key] = 1
                finally:
                    keep_as_they_are(frame)
        except BaseException as error:
            if self.fail(error):
                self._installer.survive(frame)
                raise
        return None

    def _event(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        """Of a frame that ran when the tracing began."""
        frame.f_trace = None
        return None
