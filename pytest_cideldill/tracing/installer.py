"""Installs a trace function on all threads of 3.11, beside coverage, and removes it again.

Coverage's tracers go on behind ours (`coverage`); any other tracer is an error that names it. It
installs and removes on the thread that binds breakpoints, under that thread's lock.
"""

from __future__ import annotations

import sys
import threading
from _thread import get_ident
from collections.abc import Callable, Iterator
from types import FrameType, MethodType
from typing import Any

from pytest_cideldill.interpreter.borders import is_ours
from pytest_cideldill.interpreter.running import current_frames, main_ident, running_frames
from pytest_cideldill.tracing.coverage import Chain, FrameChain, Trace
from pytest_cideldill.tracing.interface import SourceUnavailable
from pytest_cideldill.tracing.thread_states import LayoutUnknown, ThreadStates, Tracing

_MAIN = main_ident()
_REMOVED = (
    "the program used sys.settrace, which has room for one, or came to its recursion limit: what "
    "its main thread did then was not watched; with Python 3.12 or later it would have been"
)


class Installer:
    """Puts `on_call` on every thread, existing and new ones.

    Args:
        on_call: Called at the start of every frame; a function of ours that is one object.
        on_event: The result of `on_call` for frames that are to be traced.
        report: Called with a sentence about a thread that can't be traced.
    """

    def __init__(self, on_call: Trace, on_event: Trace, report: Callable[[str], None]) -> None:
        self.on_call = on_call
        self.on_event = on_event
        self._report = report
        self._trace_thread = self._on_thread
        # The tracer that new threads got before: coverage's installer, or None.
        self._previous: Any = None
        self._states: ThreadStates | None = None
        # Whether coverage measured the main thread when we took it over.
        self._shares_main = False
        # Whether we trace the main thread, unless the program removed us.
        self._has_main = False
        self.is_installed = False

    def check(self) -> None:
        """Look at the tracer of this thread and at the one that new threads get.

        Raises:
            SourceUnavailable: Another tool traces.
        """
        for tracer in (sys.gettrace(), threading.gettrace()):
            if not self._is_known(tracer):
                raise SourceUnavailable(
                    f"{_name(tracer)} traces this program, and sys.settrace has room for one: "
                    "run without it, or with Python 3.12 or later."
                )

    def install(self) -> bool:
        """Trace all threads that are not traced yet; see `check`.

        Returns:
            Whether any of these threads runs the program.
        """
        self.check()
        states = self._all_states()
        self.is_installed = True
        if threading.gettrace() is not self._trace_thread:
            self._previous = threading.gettrace()
            threading.settrace(self._trace_thread)
        if states is None:
            return self._take_own(0)
        current = states.current()
        taken = [self._take_own(self._function_of_own())]
        taken += [self._take(states, state) for state in states.all() if state != current]
        return any(taken)

    def remove(self) -> None:
        """Put back the tracers that were there before; running frames are no longer ours."""
        if not self.is_installed:
            return
        self.is_installed = False
        self._shares_main = self._has_main = False
        if threading.gettrace() is self._trace_thread:
            threading.settrace(self._previous)
        states = self._states
        if states is None:
            if sys.gettrace() is self.on_call:
                sys.settrace(None)
        else:
            for state in states.all():
                self._give_back(states, state)
        for frame in running_frames():
            tracer = frame.f_trace
            if tracer is self.on_event:
                frame.f_trace = None
                frame.f_trace_lines = True
            elif type(tracer) is FrameChain:
                tracer.give_back(frame)

    def leave(self, tracer: object) -> None:
        """Remove `tracer` again, which the program put back on its thread after `remove`."""
        if sys.gettrace() is tracer:
            sys.settrace(tracer.inner if type(tracer) is Chain else None)
        if threading.gettrace() is self._trace_thread:
            threading.settrace(self._previous)

    def trace_frame(self, frame: FrameType) -> None:
        """Trace the rest of a frame that runs already."""
        if frame.f_trace is None:
            frame.f_trace = self.on_event
        frame.f_trace_lines = True

    def survive(self, frame: FrameType) -> None:
        """Come back after an exception left a trace function, by which Python removes the function.

        Called while the exception leaves. A profile function gets the next call or return on this
        thread, C functions included. If the program has one of its own, `install` must do it.
        """
        tracer: Any = sys.gettrace()
        if tracer is None or sys.getprofile() is not None:
            return
        lost = frame.f_trace

        def come_back(where: FrameType, event: str, arg: object) -> None:
            sys.setprofile(None)
            if sys.gettrace() is not None:
                return
            sys.settrace(tracer)
            if not self.is_installed:
                self.leave(tracer)
                return
            if event == "call":
                where.f_trace = tracer(where, event, None)
            if event == "return" and where is frame and lost is not None:
                lost(frame, event, arg)
            elif frame.f_trace is None:
                frame.f_trace = lost

        sys.setprofile(come_back)

    # --- threads ----------------------------------------------------------------------------

    def _all_states(self) -> ThreadStates | None:
        if self._states is None:
            try:
                self._states = ThreadStates()
            except (LayoutUnknown, AttributeError, OSError) as error:
                self._report(f"threads that run already can't be traced: {error}")
        return self._states

    def _function_of_own(self) -> int:
        """The C function that traces the calling thread; 0 for the one that `sys.settrace` uses."""
        states = self._states
        return 0 if states is None else _own_function(states, states.tracing(states.current()))

    def _take_own(self, function: int) -> bool:
        """Trace the calling thread. Nothing may be called or left between the last two steps."""
        tracer = sys.gettrace()
        if self._is_ours(tracer):
            return False
        if tracer is None and self._shares_main and get_ident() == _MAIN:
            tracer, function = self._measure_again()
        if get_ident() == _MAIN:
            if self._has_main:  # only the program can have removed us
                self._report(_REMOVED)
            self._has_main = True
        if tracer is None:
            sys.settrace(self.on_call)
        else:
            self._shares_main |= get_ident() == _MAIN
            chain = Chain(tracer, function, self)
            chain.take_over(_outwards(sys._getframe()))
            sys.settrace(chain)
        return _runs_program(sys._getframe())

    def _measure_again(self) -> tuple[Any, int]:
        """Let coverage make a new tracer, after an exception removed ours and its own with it.

        The old one would take the lines of any file for those of the function where it was removed.
        """
        if self._previous is None or _package(self._previous) != "coverage":
            return None, 0
        self._previous(sys._getframe(), "call", None)
        return sys.gettrace(), self._function_of_own()

    def _take(self, states: ThreadStates, state: int) -> bool:
        """Trace another thread."""
        tracing = states.tracing(state)
        if tracing is None or self._is_ours(tracing[1]):
            return False
        tracer = tracing[1]
        if not self._is_known(tracer):
            self._report(f"a thread is traced by {_name(tracer)}, and nothing can be watched on it")
            return False
        ident = states.ident(state) or 0
        if tracer is None and self._shares_main and ident == _MAIN:
            return False  # it has lost coverage too, and only that thread itself can get it back
        # A thread that has not begun has the ident of the thread that starts it.
        is_own = ident == get_ident()
        self._has_main |= ident == _MAIN and not is_own
        if tracer is None:
            states.trace(state, states.trampoline, self.on_call)
        else:
            self._shares_main |= ident == _MAIN
            chain = Chain(tracer, _own_function(states, tracing), self)
            states.trace(state, states.trampoline, chain)
            chain.take_over(_outwards(current_frames().get(ident)))
        return not is_own and _runs_program(current_frames().get(ident))

    def _give_back(self, states: ThreadStates, state: int) -> None:
        tracing = states.tracing(state)
        tracer = None if tracing is None else tracing[1]
        if type(tracer) is Chain:
            states.trace(state, tracer.function or states.trampoline, tracer.inner)
        elif self._is_ours(tracer):
            states.trace(state, 0, None)

    def _on_thread(self, frame: FrameType, event: str, arg: Any) -> Any:
        """The first event of a thread that `threading` starts while we are installed."""
        __tracebackhide__ = True
        inner = self._previous(frame, event, arg) if self._previous else None
        tracer = sys.gettrace()
        if tracer is self._trace_thread:
            sys.settrace(None)
            tracer = None
        if not self.is_installed:
            self.leave(tracer)
            return inner
        if not self._is_known(tracer):
            return inner
        if tracer is None:
            sys.settrace(self.on_call)
            return self.on_call(frame, event, arg)
        chain = Chain(tracer, self._function_of_own(), self)
        sys.settrace(chain)
        self.on_call(frame, event, arg)
        return FrameChain(inner or tracer, chain)

    def _is_ours(self, tracer: object) -> bool:
        own = tracer is self.on_call or tracer is self._trace_thread
        return own or type(tracer) is Chain

    def _is_known(self, tracer: object) -> bool:
        return tracer is None or self._is_ours(tracer) or _package(tracer) == "coverage"


def _own_function(states: ThreadStates, tracing: Tracing | None) -> int:
    """The C function that traces; 0 for the one that calls Python functions."""
    function = 0 if tracing is None else tracing[0]
    return 0 if function == states.trampoline else function


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _runs_program(frame: FrameType | None) -> bool:
    """Whether the thread of a frame has begun and was not started by us."""
    frames = list(_outwards(frame))
    return bool(frames) and not is_ours(frames[-1].f_code.co_filename)


def _owner(tracer: object) -> object:
    return tracer.__self__ if type(tracer) is MethodType else tracer


def _module(tracer: object) -> str:
    # Read from the type's own data: a user's class may answer attributes with code.
    module = type.__getattribute__(type(_owner(tracer)), "__module__")
    return module if type(module) is str else "?"


def _package(tracer: object) -> str:
    return _module(tracer).partition(".")[0]


def _name(tracer: object) -> str:
    owner = _owner(tracer)
    kind = type(owner)
    if kind.__name__ == "function" and hasattr(tracer, "__qualname__"):
        return f"{tracer.__module__}.{tracer.__qualname__}"
    return f"{_module(tracer)}.{kind.__qualname__}"
