"""Feeds a recorder through `sys.settrace`: on 3.11. Coverage's tracers go on behind ours."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final

from pytest_cideldill.calltraces.feed import Fail, Feed
from pytest_cideldill.calltraces.libraries import Libraries
from pytest_cideldill.calltraces.recorder import CallRecorder
from pytest_cideldill.calltraces.starts import Starts
from pytest_cideldill.calltraces.user_code import CodeFacts, CodeTable
from pytest_cideldill.interpreter.frame_locals import keep_as_they_are
from pytest_cideldill.tracing.code_shapes import Raised, Shape
from pytest_cideldill.tracing.installer import Installer

_ENDS_OF_LOOPS: Final = frozenset({dis.opmap["FOR_ITER"], dis.opmap["SEND"]})
GENERATORS: Final = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR

LOST: Final = (
    "the test used sys.settrace, or came to its recursion limit, which ends tracing on 3.11: "
    "what it did afterwards was not recorded; with 3.12 or later it would have been"
)


class TracingFeed(Feed):
    """Owns the trace functions while tests are recorded.

    Raises:
        SourceUnavailable: Another tool traces.
    """

    def __init__(
        self,
        recorder: CallRecorder,
        table: CodeTable,
        libraries: Libraries,
        fail: Fail,
        starts: Starts | None = None,
    ) -> None:
        super().__init__(recorder, table, libraries, fail, starts)
        self._shapes: dict[int, Shape] = {}
        self._raised: dict[int, Raised] = {}
        self._missing = {} if self._lines is None else self._lines.missing
        self._on_frame = self._event
        self._said_lost = False
        self._installer = Installer(self._call, self._on_frame, self._say_lost)
        self._installer.check()
        self._begin: Callable[[CodeFacts, FrameType], None] = recorder.begin
        self._returned: Callable[[FrameType, object], None] = recorder.returned
        self._yielded: Callable[[FrameType, object], None] = recorder.yielded
        self._caught = caught = recorder.caught
        if caught is not None:
            caught.sees_libraries = False
            self._begin = caught.before_begin(recorder.begin)
            self._returned = caught.before_end(recorder.returned)
            self._yielded = caught.before_end(recorder.yielded)

    def start(self) -> None:
        self._installer.install()

    def stop(self) -> None:
        if self._installer.is_installed and sys.gettrace() is None:
            self._say_lost(LOST)
        self._installer.remove()
        self._raised.clear()

    def _say_lost(self, message: str) -> None:
        if not self._said_lost:
            self._said_lost = True
            self._recorder.reach("events", message)

    # --- trace functions --------------------------------------------------------------------

    def _call(self, frame: FrameType, event: str, arg: object) -> Any:  # noqa: ARG002
        """A frame begins or goes on; the result traces the rest of it."""
        __tracebackhide__ = True
        code = frame.f_code
        try:
            if not self._installer.is_installed:
                self._installer.leave(self._installer.on_call)
                return None
            key = id(code)
            known = self._table.known
            facts = known[key] if key in known else self._table.meet(frame)
            if self._lines is not None and key not in self._met:
                self._meet(code, facts)
            if facts is None:
                self._count_library(frame)
                return self._on_frame if self._is_open(code) else None
            shape = self._shapes.get(key)
            if shape is None:
                shape = self._shapes[key] = Shape(code)
            try:
                if frame.f_lasti == shape.start:
                    self._raised.pop(id(frame), None)
                    self._begin(facts, frame)
                else:
                    self._recorder.resumed(frame, None)
            finally:
                keep_as_they_are(frame)
            frame.f_trace_lines = self._wants_lines(code)
            return self._on_frame
        except RecursionError:
            pass
        except BaseException as error:
            if not self._fail(error):
                return None
            self._installer.survive(frame)
            raise

    def _event(self, frame: FrameType, event: str, arg: Any) -> Any:
        """An event of a frame of the user's."""
        __tracebackhide__ = True
        if not self._installer.is_installed:
            frame.f_trace = None  # a generator stood still when we went
            return None
        try:
            if event == "line":
                # Most events are those of a loop, all of whose lines are noted.
                missing = self._missing.get(id(frame.f_code))
                if missing and frame.f_lineno not in missing and not self._wants_more(frame):
                    keep_as_they_are(frame)
                else:
                    self._line(frame)
            elif id(frame.f_code) not in self._shapes:
                pass  # a part of a function, whose lines alone are wanted
            elif event == "return":
                self._leave(frame, arg)
            elif event == "exception":
                self._exception(frame, arg[1], arg[2])
            return self._on_frame
        except RecursionError:
            pass
        except BaseException as error:
            if not self._fail(error):
                return self._on_frame
            self._installer.survive(frame)
            raise

    def _line(self, frame: FrameType) -> None:
        raised = self._raised.get(id(frame))
        if raised is not None:
            self._goes_on(frame, raised)
        code = frame.f_code
        if not self._wants_lines(code):
            if self._lines is not None:  # the last one has run
                frame.f_trace_lines = id(frame) in self._raised
            return
        try:
            if self._lines is not None:
                self._lines.passes(frame)
            if id(code) not in self._lined:
                return
            line = frame.f_lineno
            chosen = self._recorder.chosen
            if chosen is not None and chosen.frame_id == id(frame):
                chosen.line(frame, line)
            if self._recorder.counts_lines:
                self._recorder.count_line(frame, line)
        finally:
            keep_as_they_are(frame)

    def _wants_lines(self, code: CodeType) -> bool:
        return id(code) in self._lined or self._is_open(code)

    def _wants_more(self, frame: FrameType) -> bool:
        """Whether a line says more than that it ran."""
        return id(frame) in self._raised or id(frame.f_code) in self._lined

    def _is_open(self, code: CodeType) -> bool:
        return self._lines is not None and self._lines.is_open(code)

    def _goes_on(self, frame: FrameType, raised: Raised) -> None:
        """A line begins after an exception: forget it once it is handled, so that it is freed."""
        shape, place = self._shapes[id(frame.f_code)], frame.f_lasti
        arrives = place in shape.catches
        if self._caught is not None and raised.entries:
            error = raised.entries[-1][0]
            handler = place if arrives else shape.handler(place)
            if handler is not None and (arrives or sys.exc_info()[1] is error):
                self._caught.handled(frame, handler, error)
        if arrives:
            return
        raised.see(sys.exc_info()[1], frame.f_lasti)
        if not raised.entries:
            del self._raised[id(frame)]
            frame.f_trace_lines = self._wants_lines(frame.f_code)

    def _exception(self, frame: FrameType, error: Any, traceback: Any) -> None:
        if type(error) is StopIteration and frame.f_code.co_code[frame.f_lasti] in _ENDS_OF_LOOPS:
            return  # no exception of the program's: later versions don't report it either
        raised = self._raised.get(id(frame))
        if raised is None:
            raised = self._raised[id(frame)] = Raised()
        raised.add(error, frame.f_lasti)
        frame.f_trace_lines = True  # lines show when it is handled
        self._recorder.raises(frame, error)
        if self._caught is not None:
            self._caught.raised(frame, frame.f_lasti, error, traceback)

    def _leave(self, frame: FrameType, value: object) -> None:
        """A frame returns, yields, or an exception leaves it: 3.11 does not say which."""
        shape = self._shapes[id(frame.f_code)]
        place = frame.f_lasti
        try:
            if place in shape.returns:
                self._raised.pop(id(frame), None)  # before others look at what is alive
                self._returned(frame, value)
                return
            raised = self._raised.get(id(frame)) or Raised()
            if shape.leaves(place, raised):
                self._raised.pop(id(frame), None)
                error = shape.leaving(place, raised)
                if self._caught is not None and error is not None:
                    self._caught.unwound(frame, error)
                self._recorder.unwound(frame, error)
            else:
                self._yielded(frame, value)
        finally:
            keep_as_they_are(frame)

    def _count_library(self, frame: FrameType) -> None:
        back = frame.f_back
        recorder = self._recorder
        if back is None or not recorder.wants_libraries or id(back) not in recorder.active:
            return
        code = frame.f_code
        if code.co_flags & GENERATORS and code.co_code[frame.f_lasti + 1]:
            return  # it goes on
        name = self._libraries.of_function(frame.f_code, frame.f_globals)
        if name:
            recorder.library(back, name)
