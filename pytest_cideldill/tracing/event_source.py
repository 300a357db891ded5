"""The base class of event sources: keeps which events are wanted, and calls handlers safely.

Handlers run on the thread of the program, all other functions on the thread that binds breakpoints.
Must not know where events come from.
"""

from __future__ import annotations

from _thread import get_ident
from abc import ABC, abstractmethod
from types import CodeType, FrameType, TracebackType
from typing import Final

from pytest_cideldill.interpreter.borders import Border, Verdict
from pytest_cideldill.interpreter.code_files import frame_file
from pytest_cideldill.interpreter.frame_locals import has_no_snapshot_yet
from pytest_cideldill.interpreter.running import running_frames
from pytest_cideldill.patching.code_swap import is_trampoline
from pytest_cideldill.sourcecode.codes import lines_of
from pytest_cideldill.tracing.call_events import CallEvents, Recorder
from pytest_cideldill.tracing.engine import engine
from pytest_cideldill.tracing.interface import (
    Deliberate,
    Handlers,
    OnEnd,
    OnStart,
    Raises,
    Seen,
    SourceUnavailable,
    Trail,
    Watch,
)
from pytest_cideldill.tracing.passes import repeats
from pytest_cideldill.tracing.trails import Trails

# Not the attributes: a class may define its own.
_with_traceback = BaseException.with_traceback
_set_context = BaseException.__dict__["__context__"].__set__


BESIDE: Final = frozenset({-1})
"""Replaces the offsets of a line that is not watched and has run; recognized by identity."""


class BaseSource(ABC):
    """The part of a source that all Python versions share, see `interface.Source`.

    State is in plain dicts keyed by `id(code)`; values are replaced, or only grow. Subclasses arm
    the wanted events, and keep the code objects alive.
    """

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._on_wanted_line = handlers.on_line
        self._quiet = handlers.quiet
        self._border = Border(handlers.is_ours, handlers.on_failure)
        self._calls = CallEvents(self._border, handlers.quiet)
        self._recorders = self._calls.recorders
        self._trails = Trails(self._border, handlers.quiet)
        self._discovering = False
        self._closed = False
        # Code → line → the offsets that begin no new pass.
        self._lines: dict[int, dict[int, frozenset[int]]] = {}
        # Code → its unwatched lines that ran since the last `watch_lines`; only added to.
        self._ran: dict[int, set[int]] = {}
        # Code for whose end `on_module_end` is called.
        self._ends: dict[int, CodeType] = {}
        self._seen = Seen()
        # Replaced whole.
        self._raises: Raises | None = None

    # --- arming, by subclasses --------------------------------------------------------------

    @abstractmethod
    def _arm(self, code: CodeType) -> None:
        """Get the events of `code` that are wanted now, and no others."""

    @abstractmethod
    def _update(self) -> None:
        """Get the events of all code that are wanted now, and no others."""

    @abstractmethod
    def _follow(self, ident: int, before: Trail | None, now: Trail | None) -> None:
        """Get the events of a thread's new trail, and no longer those of its old one."""

    @abstractmethod
    def _release(self) -> None:
        """Disarm everything, for good."""

    # --- the interface ----------------------------------------------------------------------

    @property
    def engine(self) -> dict[str, str]:
        """The engine of this interpreter; a source with tool ids adds them."""
        return engine()

    def discover(self, wanted: bool) -> None:
        """Clear what was seen, and offer all running code if discovery begins."""
        if self._closed or wanted == self._discovering:
            return
        self._discovering = wanted
        if not wanted:
            for key, code in self._ends.copy().items():
                self._ends.pop(key, None)
                self._arm(code)
        self._seen.ids.clear()
        self._update()
        if wanted:
            for frame in running_frames():
                self._offer(frame.f_code, frame)

    def watch_lines(
        self, code: CodeType, lines: frozenset[int], file: str | None = None
    ) -> frozenset[int]:
        """Note the lines that this code has, with their repeated offsets, and arm the code."""
        if self._closed:
            return frozenset()
        held = lines & lines_of(code) if lines else lines
        if held:
            path = file or code.co_filename
            self._ran[id(code)] = set()
            self._lines[id(code)] = {line: repeats(code, line, path) for line in held}
        else:
            self._lines.pop(id(code), None)
            self._ran.pop(id(code), None)
        self._arm(code)
        return held

    def ran(self, code: CodeType) -> set[int]:
        """The unwatched lines that handlers noted; empty for code without watched lines."""
        return self._ran.get(id(code), set())

    def record_calls(self, code: CodeType, on_start: OnStart, on_end: OnEnd) -> None:
        """Note the recorder of a code object, and arm the code."""
        if not self._closed:
            self._recorders[id(code)] = Recorder(on_start, on_end, has_no_snapshot_yet(code))
            self._arm(code)

    def stop_recording(self, code: CodeType) -> None:
        """Remove the recorder of a code object, and disarm what only it needed."""
        if self._calls.stop(code):
            self._arm(code)

    def watch_raises(self, raises: Raises | None) -> None:
        """Replace the handler of raised exceptions, and update the events of all code."""
        if not self._closed and raises is not self._raises:
            self._raises = raises
            self._update()

    def follow(self, ident: int, trail: Trail | None) -> None:
        """Replace the trail of a thread; remove it if the source can't follow the thread."""
        if self._closed:
            return
        before = self._trails.put(ident, trail)
        try:
            self._follow(ident, before, trail)
        except SourceUnavailable:
            self._trails.put(ident, None)
            self._follow(ident, trail, None)
            raise

    def refresh(self) -> bool:
        """Do nothing: only some sources can be removed by a program."""
        return False

    def close(self) -> None:
        """Clear all that was wanted, and disarm everything."""
        if self._closed:
            return
        self._closed = True
        self._discovering = False
        self._lines.clear()
        self._ran.clear()
        self._ends.clear()
        self._raises = None
        self._calls.clear()
        self._trails.threads.clear()
        self._release()

    def forget(self) -> None:
        """Do the same as `close`."""
        self.close()

    # --- handlers, called on the thread of the program --------------------------------------

    def _offer(self, code: CodeType, frame: FrameType) -> None:
        __tracebackhide__ = True
        if is_trampoline(code):
            return  # code of ours, though its file name looks like the user's
        try:
            if self._handlers.on_code(code, frame) is Watch.END and self._discovering:
                self._ends[id(code)] = code
                self._arm(code)
        except BaseException as failure:
            if self._border.judge(failure, "looking at code", code) is Verdict.FOREIGN:
                raise

    def _ended(self, code: CodeType, frame: FrameType) -> None:
        __tracebackhide__ = True
        try:
            self._handlers.on_module_end(code, frame)
        except BaseException as failure:
            if self._border.judge(failure, "looking at a finished module", code) is Verdict.FOREIGN:
                raise

    def _hit(self, frame: FrameType, line: int) -> None:
        __tracebackhide__ = True
        if self._quiet and get_ident() in self._quiet:
            return
        try:
            self._on_wanted_line(frame, line)
        except Deliberate as wanted:
            error = wanted.error
        except BaseException as failure:
            if self._judge_hit(failure, frame, line):
                raise
            return
        else:
            return
        raise error

    def _judge_hit(self, failure: BaseException, frame: FrameType, line: int) -> bool:
        """Whether an exception that left a handler of lines belongs to the program."""
        code = frame.f_code
        verdict = self._border.judge(failure, f"the probe at line {line}", code)
        if verdict is Verdict.BUG:
            self._drop_line(code, line)
        return verdict is Verdict.FOREIGN

    def _passes_by(self, key: int, line: int) -> bool:
        """Note that an unwatched line of armed code runs; False if an evaluation runs it."""
        if get_ident() in self._quiet:
            return False
        ran = self._ran.get(key)
        if ran is not None:
            ran.add(line)
        return True

    def _emit_raise(
        self, frame: FrameType, error: BaseException, traceback: TracebackType | None
    ) -> None:
        """Handle an exception that passes a frame; unwanted classes were left out before."""
        __tracebackhide__ = True
        raises = self._raises
        if raises is None or get_ident() in self._quiet:
            return
        # The StopIteration that ends a `for` loop does not have its frame.
        if traceback is None or traceback.tb_frame is not frame:
            return
        try:
            if raises.in_file(frame_file(frame)) and not is_trampoline(frame.f_code):
                raises.on_raise(frame, error, traceback)
        except Deliberate as wanted:
            instead = wanted.error
        except BaseException as failure:
            if self._judge_raises(failure, frame.f_code):
                raise
            return
        else:
            return
        # For the interpreter the frame has raised already: it would be missing in the traceback.
        place = TracebackType(None, frame, traceback.tb_lasti, traceback.tb_lineno)
        try:
            raise _with_traceback(instead, place)
        finally:
            # Set here, as `raise` puts the exception there that is being handled.
            _set_context(instead, error)

    def _judge_raises(self, failure: BaseException, code: CodeType) -> bool:
        """Whether an exception that left a handler of raises belongs to the program."""
        verdict = self._border.judge(failure, "looking at an exception", code)
        if verdict is Verdict.BUG:
            self.watch_raises(None)
        return verdict is Verdict.FOREIGN

    def _drop_line(self, code: CodeType, line: int) -> None:
        """Ignore the events of a line. It stays armed: to disarm it could race with a command."""
        self._handlers.takes.get(id(code), {}).pop(line, None)
        lines = self._lines.get(id(code), {}).copy()
        left = {key: each for key, each in lines.items() if key != line and each is not BESIDE}
        if left:
            self._lines[id(code)] = left
        else:
            self._lines.pop(id(code), None)
