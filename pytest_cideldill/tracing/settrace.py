"""The event source by `sys.settrace`, for 3.11. Trace functions run on the thread of the program.

They are installed on all threads while any event is wanted, and not a moment longer, as they cost
time at every call. A thread that coverage measures keeps its tracer, which goes on behind ours
(`coverage`).
"""

from __future__ import annotations

import sys
from _thread import allocate_lock, get_ident
from types import CodeType, FrameType, TracebackType
from typing import Any

from pytest_cideldill.interpreter.code_files import frame_file
from pytest_cideldill.interpreter.frame_locals import GENERATORS, keep_as_they_are
from pytest_cideldill.interpreter.running import current_frames, running_frames
from pytest_cideldill.tracing.code_shapes import RETURN, YIELD, Raised, Shape
from pytest_cideldill.tracing.event_source import BESIDE, BaseSource
from pytest_cideldill.tracing.installer import Installer
from pytest_cideldill.tracing.interface import Handlers, Left, Raises, Trail
from pytest_cideldill.tracing.trails import how_it_yields

_set_traceback = BaseException.__dict__["__traceback__"].__set__


class TracingSource(BaseSource):
    """The source of 3.11, see `interface.Source`."""

    def __init__(self, handlers: Handlers) -> None:
        super().__init__(handlers)
        # Keeps code alive whose id is in one of the dicts. Until close, as callbacks remove items
        # from the dicts and take no lock.
        self._kept: dict[int, CodeType] = {}
        self._shapes: dict[int, Shape] = {}
        # By the id of the frame.
        self._raised: dict[int, Raised] = {}
        # Whether calls are of interest beyond the code that is kept: one test for the hot path.
        self._is_alert = False
        self._followed = self._trails.threads
        # Thread → the place where an exception came up last in the frame that is followed.
        self._came_up: dict[int, int] = {}
        # Held while installing and removing. No thread waits for it: its holder may be a thread
        # that a signal handler stopped.
        self._lock = allocate_lock()
        # One object each: they are recognised by identity.
        self._trace_call = self._on_call
        self._trace_frame = self._on_event
        self._installer = Installer(self._trace_call, self._trace_frame, self._border.report)
        self._installer.check()

    def refresh(self) -> bool:
        """Install the trace functions again where they were removed, if any event is wanted."""
        if not self._is_wanted() or not self._lock.acquire(False):
            return False
        try:
            return self._installer.install()
        finally:
            self._lock.release()

    def forget(self) -> None:
        """Replace the lock and close; release even if the parent had closed before the fork."""
        self._lock = allocate_lock()  # another thread may have held it at the fork
        self.close()
        self._release()

    def watch_raises(self, raises: Raises | None) -> None:
        """Replace the handler, and trace the running frames whose files it wants."""
        super().watch_raises(raises)
        for frame in running_frames() if raises is not None else ():
            if frame.f_trace is None and self._may_raise(frame):
                self._installer.trace_frame(frame)
                frame.f_trace_lines = False

    # --- arming -----------------------------------------------------------------------------

    def _is_wanted(self) -> bool:
        watched = self._discovering or self._lines or self._recorders
        return bool(watched or self._raises or self._followed) and not self._closed

    def _arm(self, code: CodeType) -> None:
        key = id(code)
        if key in self._recorders and key not in self._shapes:
            self._shapes[key] = Shape(code)
        if key in self._lines or key in self._recorders or key in self._ends:
            self._kept[key] = code
        self._update()
        if key in self._lines or key in self._ends:
            for frame in running_frames():
                if frame.f_code is code:
                    self._installer.trace_frame(frame)

    def _update(self) -> None:
        """Install or remove. Never waits: the thread that has the lock looks again afterwards."""
        self._is_alert = self._discovering or bool(self._followed)
        while self._is_wanted() != self._installer.is_installed:
            if not self._lock.acquire(False):
                return
            try:
                if self._is_wanted():
                    self._installer.install()
                else:
                    self._installer.remove()
                    self._raised.clear()
            finally:
                self._lock.release()

    def _follow(self, ident: int, before: Trail | None, now: Trail | None) -> None:  # noqa: ARG002
        self._update()
        if now is not None and now.frame is not None:
            self._installer.trace_frame(now.frame)
        frame = current_frames().get(ident) if now is not None and now.anywhere else None
        while frame is not None:
            self._installer.trace_frame(frame)
            frame = frame.f_back

    def _release(self) -> None:
        self._update()
        self._kept.clear()
        self._shapes.clear()
        self._raised.clear()

    # --- trace functions --------------------------------------------------------------------

    def _on_call(self, frame: FrameType, event: str, arg: object) -> Any:  # noqa: ARG002
        """Handle the start of a frame or of a generator's next part; the result traces the rest."""
        __tracebackhide__ = True
        try:
            key = id(frame.f_code)
            is_followed = False
            if self._is_alert:
                if self._discovering and key not in self._seen.ids:
                    self._seen.is_new(frame.f_code)
                    self._offer(frame.f_code, frame)
                if self._followed:
                    is_followed = self._is_followed(frame)
            elif not self._installer.is_installed:
                self._installer.leave(self._trace_call)
                return None
            if key in self._kept:
                if key in self._recorders:
                    self._entered(key, frame)
                    frame.f_trace_lines = self._needs_lines(key, frame)
                    return self._trace_frame
                if key in self._lines or key in self._ends:
                    frame.f_trace_lines = True  # a generator may have gone on without
                    return self._trace_frame
            if is_followed:
                return self._trace_frame
            if self._may_raise(frame):
                frame.f_trace_lines = False
                return self._trace_frame
            return None
        except BaseException:
            self._installer.survive(frame)
            raise

    def _on_event(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Handle an event of a frame that is traced."""
        __tracebackhide__ = True
        if not self._installer.is_installed:
            frame.f_trace = None  # a generator stood still when we went
            return None
        key = id(frame.f_code)
        try:
            if event == "line":
                if self._raised and id(frame) in self._raised:
                    self._goes_on(key, frame)
                if self._followed:
                    self._passed_followed(key, frame)
                elif (lines := self._lines.get(key)) is not None:
                    self._passed(key, lines, frame)
            elif event == "return":
                self._left(key, frame, arg)
                if self._followed:
                    self._leaves(frame, arg)
            elif event == "exception":
                if self._raises is not None:
                    self._passes_raise(frame, *arg)
                if key in self._recorders:
                    self._noted(frame, arg[1])
                    frame.f_trace_lines = True  # they show when it is handled
                if self._followed:
                    self._comes_up(frame)
            return self._trace_frame
        except BaseException as error:
            if event in ("line", "exception") and key in self._recorders:
                # There will be no event for it: tracing is off until `survive` brings it back.
                self._noted(frame, error)
            self._installer.survive(frame)
            raise

    # --- threads that are followed ----------------------------------------------------------

    def _is_followed(self, frame: FrameType) -> bool:
        """Whether the events of a frame that starts or goes on are wanted by a trail."""
        __tracebackhide__ = True
        trail = self._trails.mine()
        if trail is not None and frame is not trail.frame and not trail.anywhere:
            self._trails.start(trail, frame)
            trail = self._trails.mine()
        followed = trail is not None and (frame is trail.frame or trail.anywhere)
        if followed:
            self._came_up.pop(get_ident(), None)
            frame.f_trace_lines = True
        return followed

    def _passed_followed(self, key: int, frame: FrameType) -> None:
        __tracebackhide__ = True
        trail = self._trails.mine()
        if (lines := self._lines.get(key)) is not None:
            self._passed(key, lines, frame)
        if trail is None or (frame is not trail.frame and not trail.anywhere):
            return
        self._came_up.pop(get_ident(), None)
        try:
            self._trails.line(trail, frame, frame.f_lineno)
        finally:
            keep_as_they_are(frame)

    def _comes_up(self, frame: FrameType) -> None:
        trail = self._trails.mine()
        if trail is not None and trail.frame is frame:
            self._came_up[get_ident()] = frame.f_lasti

    def _leaves(self, frame: FrameType, value: object) -> None:
        """Handle the end of a frame that is followed: a return, a yield or an exception."""
        __tracebackhide__ = True
        trail = self._trails.mine()
        if trail is None or (frame is not trail.frame and not trail.anywhere):
            return
        if trail.anywhere:
            try:
                self._trails.line(trail, frame, frame.f_lineno)
            finally:
                keep_as_they_are(frame)
            return
        place = frame.f_lasti
        operation = frame.f_code.co_code[place]
        left = Left.UNWIND
        if operation == RETURN:
            left = Left.RETURN
        elif operation == YIELD and self._came_up.get(get_ident()) != place:
            left = how_it_yields(frame.f_code, value)
        self._trails.leave(trail, frame, left)

    # --- lines and calls --------------------------------------------------------------------

    def _passed(self, key: int, lines: dict[int, frozenset[int]], frame: FrameType) -> None:
        __tracebackhide__ = True
        line = frame.f_lineno
        repeated = lines.get(line)
        if repeated is None:
            if self._passes_by(key, line):
                lines[line] = BESIDE
        elif repeated is not BESIDE and frame.f_lasti not in repeated:
            try:
                self._hit(frame, line)
            finally:
                keep_as_they_are(frame)

    def _entered(self, key: int, frame: FrameType) -> None:
        __tracebackhide__ = True
        recorder = self._recorders.get(key)
        shape = self._shapes.get(key)
        if recorder is None or shape is None or frame.f_lasti != shape.start:
            return  # a generator goes on, or an exception is thrown into it
        self._raised.pop(id(frame), None)  # entries of an older frame that had this id
        try:
            self._calls.begin(recorder, frame)
        finally:
            keep_as_they_are(frame)

    def _noted(self, frame: FrameType, error: BaseException) -> None:
        raised = self._raised.get(id(frame))
        if raised is None:
            raised = self._raised[id(frame)] = Raised()
        raised.add(error, frame.f_lasti)

    def _may_raise(self, frame: FrameType) -> bool:
        raises = self._raises
        return raises is not None and raises.in_file(frame_file(frame))

    def _passes_raise(
        self, frame: FrameType, cls: type, error: BaseException, traceback: TracebackType | None
    ) -> None:
        """Handle an exception that is raised in a frame or passes it."""
        __tracebackhide__ = True
        raises = self._raises
        try:
            if raises is None or traceback is None or not raises.wants(cls):
                return
        except BaseException as failure:
            if self._judge_raises(failure, frame.f_code):
                raise
            return
        _set_traceback(error, traceback)  # as on later versions; it is put there when it is caught
        try:
            self._emit_raise(frame, error, traceback)
        finally:
            keep_as_they_are(frame)

    def _goes_on(self, key: int, frame: FrameType) -> None:
        shape, raised = self._shapes.get(key), self._raised[id(frame)]
        if shape is None or frame.f_lasti in shape.catches:
            return
        raised.see(sys.exc_info()[1], frame.f_lasti)
        if not raised.entries:
            del self._raised[id(frame)]
            if frame.f_trace is self._trace_frame:  # else coverage needs them too
                frame.f_trace_lines = self._needs_lines(key, frame)

    def _needs_lines(self, key: int, frame: FrameType) -> bool:
        # In a generator, to distinguish a yield from an exception that leaves at a yield.
        kept = key in self._lines or bool(frame.f_code.co_flags & GENERATORS)
        return kept or bool(self._followed and self._trails.on(frame.f_code))

    def _left(self, key: int, frame: FrameType, result: object) -> None:
        """Handle the event `return`: a frame returns, yields, or an exception leaves it."""
        __tracebackhide__ = True
        if key in self._ends and frame.f_code.co_code[frame.f_lasti] == RETURN:
            self._ended(frame.f_code, frame)
        shape = self._shapes.get(key)
        if shape is None or key not in self._recorders:
            self._raised.pop(id(frame), None)
            return
        place = frame.f_lasti
        raised = self._raised.get(id(frame)) or Raised()
        returns = place in shape.returns
        if not returns and not shape.leaves(place, raised):
            return
        self._raised.pop(id(frame), None)
        try:
            if returns:
                self._calls.end(frame, result, None)
            else:
                self._calls.end(frame, None, shape.leaving(place, raised))
        finally:
            keep_as_they_are(frame)
