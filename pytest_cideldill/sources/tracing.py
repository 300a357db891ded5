"""Events from `sys.settrace`, for 3.11. Trace functions run on the thread of the program.

Installed on all threads while anything is wanted, and not a moment longer: it costs every call. A
thread that coverage measures keeps its tracer, which is called first (`chain`).
"""

from __future__ import annotations

import dis
from _thread import allocate_lock
from types import CodeType
from types import FrameType
from typing import Any

from pytest_cideldill.sources.border import Border
from pytest_cideldill.sources.border import Verdict
from pytest_cideldill.sources.calls import Calls
from pytest_cideldill.sources.calls import Recorder
from pytest_cideldill.sources.chain import Installer
from pytest_cideldill.sources.events import Deliberate
from pytest_cideldill.sources.events import Handlers
from pytest_cideldill.sources.events import OnEnd
from pytest_cideldill.sources.events import OnStart
from pytest_cideldill.sources.events import Seen
from pytest_cideldill.sources.events import SourceUnavailable
from pytest_cideldill.sources.events import Watch
from pytest_cideldill.sources.events import running_frames
from pytest_cideldill.sources.interpose import is_trampoline
from pytest_cideldill.sources.passes import lines_of
from pytest_cideldill.sources.passes import repeats

_RETURN = dis.opmap["RETURN_VALUE"]
_YIELD = dis.opmap["YIELD_VALUE"]
_RESUME = dis.opmap["RESUME"]
_GENERATORS = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR


class TracingSource:
    """See `events.Source`. State as in `MonitoringSource`."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._border = Border(handlers.is_ours, handlers.on_failure)
        self._calls = Calls(self._border, handlers.is_quiet)
        self._recorders = self._calls.recorders
        self._discovering = False
        self._closed = False
        self._lines: dict[int, dict[int, frozenset[int]]] = {}
        self._ends: dict[int, CodeType] = {}
        # Keeps code alive whose id is in one of the dicts above; until close, as callbacks, which
        # take no lock, remove from those.
        self._kept: dict[int, CodeType] = {}
        self._shapes: dict[int, _Shape] = {}
        # Frame id → the offset where an exception came up (-1 once the frame went on) and it.
        self._raised: dict[int, tuple[int, BaseException]] = {}
        self._seen = Seen()
        # Held while installing and removing. Nobody waits for it: its holder may be a thread that
        # a signal handler stopped.
        self._lock = allocate_lock()
        # One object each: they are recognised by identity.
        self._trace_call = self._on_call
        self._trace_frame = self._on_event
        self._installer = Installer(self._trace_call, self._trace_frame, self._border.tell)
        self._installer.check()

    # --- the interface ----------------------------------------------------------------------

    def describe(self) -> dict[str, str]:
        """See `Source`."""
        shared = self._installer.shared_with
        beside = f"; it shares threads with {shared}" if shared else ""
        return {
            "name": "sys.settrace",
            "why": "Python 3.11 has no sys.monitoring: every call of the program costs about"
            f" 0.2 µs while anything is watched{beside}",
        }

    def discover(self, wanted: bool) -> None:
        """See `Source`."""
        if self._closed or wanted == self._discovering:
            return
        self._discovering = wanted
        self._update()
        if wanted:
            for frame in running_frames():
                if self._seen.is_new(frame.f_code):
                    self._offer(frame.f_code, frame)

    def watch_lines(
        self, code: CodeType, lines: frozenset[int], file: str | None = None
    ) -> frozenset[int]:
        """See `Source`."""
        if self._closed:
            return frozenset()
        held = lines & lines_of(code) if lines else lines
        if held:
            path = file or code.co_filename
            self._kept[id(code)] = code
            self._lines[id(code)] = {line: repeats(code, line, path) for line in held}
        else:
            self._lines.pop(id(code), None)
        self._update()
        if held:
            self._trace_running(code)
        return held

    def record_calls(self, code: CodeType, on_start: OnStart, on_end: OnEnd) -> None:
        """See `Source`."""
        if self._closed:
            return
        key = id(code)
        self._kept[key] = code
        self._shapes[key] = _Shape(code)
        self._recorders[key] = Recorder(on_start, on_end)
        self._update()

    def stop_recording(self, code: CodeType) -> None:
        """See `Source`."""
        if self._calls.stop(code):
            self._update()

    def refresh(self) -> None:
        """See `Source`."""
        if not self._is_wanted() or not self._lock.acquire(False):
            return
        try:
            self._installer.install()
        except SourceUnavailable as error:
            self._border.tell(str(error))
        finally:
            self._lock.release()

    def close(self) -> None:
        """See `Source`."""
        self._closed = True
        self._discovering = False
        self._lines.clear()
        self._ends.clear()
        self._calls.clear()
        self._update()
        self._kept.clear()
        self._shapes.clear()
        self._raised.clear()

    def forget(self) -> None:
        """See `Source`."""
        self._lock = allocate_lock()  # another thread may have held it at the fork
        self.close()

    # --- arming -----------------------------------------------------------------------------

    def _is_wanted(self) -> bool:
        return bool(self._discovering or self._lines or self._recorders or self._ends)

    def _update(self) -> None:
        """Install or remove. Never waits: who has the lock looks again after releasing it."""
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

    def _trace_running(self, code: CodeType) -> None:
        for frame in running_frames():
            if frame.f_code is code:
                self._installer.trace_frame(frame)

    # --- trace functions --------------------------------------------------------------------

    def _on_call(self, frame: FrameType, event: str, arg: object) -> Any:  # noqa: ARG002
        """A frame starts or a generator goes on; the answer traces the rest of the frame."""
        __tracebackhide__ = True
        try:
            key = id(frame.f_code)
            if self._discovering and key not in self._seen.ids:
                self._seen.is_new(frame.f_code)
                self._offer(frame.f_code, frame)
            if key not in self._kept:
                return None
            if key in self._recorders:
                self._entered(key, frame)
                # Lines are needed to tell a yield from an exception that leaves at a yield.
                generates = bool(frame.f_code.co_flags & _GENERATORS)
                frame.f_trace_lines = generates or key in self._lines
                return self._trace_frame
            return self._trace_frame if key in self._lines or key in self._ends else None
        except BaseException:
            self._installer.survive(frame)
            raise

    def _on_event(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Something happens in a frame that is traced."""
        __tracebackhide__ = True
        key = id(frame.f_code)
        try:
            if event == "line":
                if self._raised and id(frame) in self._raised:
                    self._raised[id(frame)] = (-1, self._raised[id(frame)][1])
                lines = self._lines.get(key)
                if lines is not None:
                    repeated = lines.get(frame.f_lineno)
                    if repeated is not None and frame.f_lasti not in repeated:
                        self._hit(frame, frame.f_lineno)
            elif event == "return":
                self._left(key, frame, arg)
            elif event == "exception" and key in self._recorders:
                self._raised[id(frame)] = (frame.f_lasti, arg[1])
            return self._trace_frame
        except BaseException as error:
            if event == "line" and key in self._recorders:
                # No event will tell it: tracing is off until `survive` brings it back.
                self._raised[id(frame)] = (frame.f_lasti, error)
            self._installer.survive(frame)
            raise

    def _offer(self, code: CodeType, frame: FrameType) -> None:
        __tracebackhide__ = True
        if is_trampoline(code):
            return  # it only looks like the user's
        try:
            if self._handlers.on_code(code, frame) is Watch.END and not self._closed:
                self._kept[id(code)] = code
                self._ends[id(code)] = code
                self._installer.trace_frame(frame)
        except BaseException as failure:
            if self._border.judge(failure, "looking at code", code) is Verdict.FOREIGN:
                raise

    def _hit(self, frame: FrameType, line: int) -> None:
        __tracebackhide__ = True
        if self._handlers.is_quiet():
            return
        code = frame.f_code
        try:
            self._handlers.on_line(frame, line)
        except Deliberate as wanted:
            error = wanted.error
        except BaseException as failure:
            verdict = self._border.judge(failure, f"the probe at line {line}", code)
            if verdict is Verdict.FOREIGN:
                raise
            if verdict is Verdict.BUG:
                lines = self._lines.get(id(code), {})
                self._lines[id(code)] = {key: lines[key] for key in lines if key != line}
            return
        else:
            return
        finally:
            _refresh_locals(frame)
        raise error

    def _entered(self, key: int, frame: FrameType) -> None:
        __tracebackhide__ = True
        self._raised.pop(id(frame), None)
        recorder = self._recorders.get(key)
        shape = self._shapes.get(key)
        if recorder is None or shape is None or frame.f_lasti != shape.start:
            return  # a generator goes on, or is thrown into
        try:
            self._calls.begin(recorder, frame)
        finally:
            _refresh_locals(frame)

    def _left(self, key: int, frame: FrameType, result: object) -> None:
        """A frame returns, yields, or an exception leaves it: settrace calls it all `return`."""
        __tracebackhide__ = True
        at, error = self._raised.pop(id(frame), (-1, None))
        if key in self._ends and frame.f_code.co_code[frame.f_lasti] == _RETURN:
            self._ended(frame.f_code, frame)
        shape = self._shapes.get(key)
        if shape is None or key not in self._recorders:
            return
        place = frame.f_lasti
        if place in shape.returns:
            error = None
        elif place in shape.yields and place != at:
            return
        try:
            self._calls.end(frame, result if place in shape.returns else None, error)
        finally:
            _refresh_locals(frame)

    def _ended(self, code: CodeType, frame: FrameType) -> None:
        __tracebackhide__ = True
        try:
            self._handlers.on_module_end(code, frame)
        except BaseException as failure:
            if self._border.judge(failure, "looking at a finished module", code) is Verdict.FOREIGN:
                raise


class _Shape:
    """Where a code object starts, returns and yields, as offsets of `f_lasti`."""

    __slots__ = ("returns", "start", "yields")

    def __init__(self, code: CodeType) -> None:
        # Two bytes per instruction; in `co_code` the caches between them are zero.
        operations = code.co_code[::2]
        self.start = 2 * operations.index(_RESUME)
        self.returns = _places(operations, _RETURN)
        self.yields = _places(operations, _YIELD)


def _places(operations: bytes, operation: int) -> frozenset[int]:
    return frozenset(2 * index for index, each in enumerate(operations) if each == operation)


def _refresh_locals(frame: FrameType) -> None:
    """The last act of a trace function that let others see the locals.

    Whoever reads `f_locals` in one makes the interpreter write that snapshot back when it returns,
    over what another thread or a closure wrote meanwhile. So the snapshot is made anew.
    """
    _ = frame.f_locals
