"""Installing a trace function on all threads of 3.11, beside coverage, and removing it again.

Coverage's tracers are called first and see every event; any other tracer is refused, by its name.
Installing and removing run on the thread that commands, under its lock.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from collections.abc import Iterator
from types import FrameType
from types import MethodType
from typing import Any

from pytest_cideldill.sources.events import SourceUnavailable
from pytest_cideldill.sources.events import running_frames
from pytest_cideldill.sources.threadstates import LayoutUnknown
from pytest_cideldill.sources.threadstates import ThreadStates
from pytest_cideldill.sources.threadstates import Tracing

Trace = Callable[[FrameType, str, Any], Any]
"""What `sys.settrace` takes, and what traces a frame."""


class FrameChain:
    """Traces one frame for coverage and then for us."""

    __slots__ = ("_inner", "_is_c", "_ours")

    def __init__(self, inner: Any, ours: Trace, *, is_c: bool) -> None:
        self._inner = inner
        self._ours = ours
        self._is_c = is_c

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        __tracebackhide__ = True
        inner = self._inner(frame, event, arg)
        if inner is not None:
            self._inner = inner
        self._ours(frame, event, arg)
        return self

    def give_back(self, frame: FrameType) -> None:
        """Leave the frame to coverage, whose C function asks no frame whether it is traced."""
        frame.f_trace = None if self._is_c else self._inner


class Chain:
    """Traces one thread for coverage and then for us."""

    __slots__ = ("_installer", "function", "inner", "is_c")

    def __init__(self, inner: Any, function: int, installer: Installer) -> None:
        self.inner = inner
        # The C function that `inner` was installed with; 0 is the one that `sys.settrace` uses.
        self.function = function
        self.is_c = bool(function)
        self._installer = installer

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        __tracebackhide__ = True
        inner = self.inner(frame, event, arg)
        # Coverage's C tracer puts itself back at every call. No other thread can remove us between
        # the question and the answer: the GIL does not change hands there.
        if self._installer.is_installed:
            sys.settrace(self)
        lines = frame.f_trace_lines
        try:
            ours = self._installer.on_call(frame, event, arg)
        except BaseException:
            if inner is not None:
                inner(frame, "return", None)  # the frame ends here, and no event will say so
            raise
        if inner is None:
            return ours
        frame.f_trace_lines = lines
        return self.frame_chain(inner)

    def frame_chain(self, inner: Any) -> FrameChain:
        """Traces a frame for `inner` and us."""
        return FrameChain(inner, self._installer.on_event, is_c=self.is_c)

    def take_over(self, frames: Iterator[FrameType]) -> None:
        """Trace frames that run already, as far as they were traced.

        A C function gets all events of all frames, a Python one only those of frames it chose.
        """
        for frame in frames:
            inner = frame.f_trace or (self.inner if self.is_c else None)
            if inner is not None and type(inner) is not FrameChain:
                frame.f_trace = self.frame_chain(inner)


class Installer:
    """Puts `on_call` on every thread, existing and new ones.

    Args:
        on_call: Called at the start of every frame; a function of ours that is one object.
        on_event: What `on_call` gives for frames that are to be traced.
        tell: Takes a sentence about a thread that can't be traced.
    """

    def __init__(self, on_call: Trace, on_event: Trace, tell: Callable[[str], None]) -> None:
        self.on_call = on_call
        self.on_event = on_event
        self._tell = tell
        self._trace_thread = self._on_thread
        # What new threads got before: coverage's installer, or None.
        self._previous: Any = None
        self._states: ThreadStates | None = None
        self.is_installed = False
        self.shared_with: str | None = None

    def check(self) -> None:
        """Look at the own thread and at what new threads get.

        Raises:
            SourceUnavailable: Someone else traces.
        """
        for tracer in (sys.gettrace(), threading.gettrace()):
            if not self._is_known(tracer):
                raise SourceUnavailable(
                    f"{_name(tracer)} traces this program, and sys.settrace has room for one: "
                    "run without it, or with Python 3.12 or later."
                )
            if tracer is not None and not self._is_ours(tracer):
                self.shared_with = _name(tracer)

    def install(self) -> None:
        """Trace all threads that are not traced yet; see `check`."""
        self.check()
        states = self._all_states()
        if threading.gettrace() is not self._trace_thread:
            self._previous = threading.gettrace()
            threading.settrace(self._trace_thread)
        self.is_installed = True
        if states is None:
            self._take_own(0)
            return
        current = states.current()
        tracing = states.tracing(current)
        self._take_own(_own_function(states, tracing))
        for state in states.all():
            if state != current:
                self._take(states, state)

    def remove(self) -> None:
        """Put back what was found; frames that go on are no longer ours."""
        if not self.is_installed:
            return
        self.is_installed = False
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

    def trace_frame(self, frame: FrameType) -> None:
        """Trace the rest of a frame that runs already."""
        if frame.f_trace is None:
            frame.f_trace = self.on_event
        frame.f_trace_lines = True

    def survive(self, frame: FrameType) -> None:
        """Come back after an exception left a trace function, which removes it from its thread.

        Called while it leaves. The next call or return on this thread, C functions included, comes
        to a profile function first, unless the program has one: then `install` must do it.
        """
        tracer: Any = sys.gettrace()
        if tracer is None or sys.getprofile() is not None:
            return
        lost = frame.f_trace

        def come_back(where: FrameType, event: str, arg: object) -> None:
            sys.setprofile(None)
            if not self.is_installed or sys.gettrace() is not None:
                return
            sys.settrace(tracer)
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
                self._tell(f"threads that run already can't be traced: {error}")
        return self._states

    def _take_own(self, function: int) -> None:
        """Trace the calling thread. Nothing may be called or left between the last two steps."""
        tracer = sys.gettrace()
        if tracer is None:
            sys.settrace(self.on_call)
        elif not self._is_ours(tracer):
            chain = Chain(tracer, function, self)
            chain.take_over(_outwards(sys._getframe()))
            sys.settrace(chain)

    def _take(self, states: ThreadStates, state: int) -> None:
        """Trace another thread."""
        tracing = states.tracing(state)
        if tracing is None or self._is_ours(tracing[1]):
            return
        tracer = tracing[1]
        if not self._is_known(tracer):
            self._tell(f"a thread is traced by {_name(tracer)}, and nothing can be watched on it")
        elif tracer is None:
            states.trace(state, states.trampoline, self.on_call)
        else:
            chain = Chain(tracer, _own_function(states, tracing), self)
            states.trace(state, states.trampoline, chain)
            frames = sys._current_frames()
            innermost = frames.get(states.ident(state) or 0)
            chain.take_over(_outwards(innermost))

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
        if not self.is_installed or not self._is_known(tracer):
            return inner
        if tracer is None:
            sys.settrace(self.on_call)
            return self.on_call(frame, event, arg)
        function = 0
        if self._states is not None:
            function = _own_function(self._states, self._states.tracing(self._states.current()))
        chain = Chain(tracer, function, self)
        sys.settrace(chain)
        self.on_call(frame, event, arg)
        return chain.frame_chain(inner or tracer)

    def _is_ours(self, tracer: object) -> bool:
        own = tracer is self.on_call or tracer is self._trace_thread
        return own or type(tracer) is Chain

    def _is_known(self, tracer: object) -> bool:
        return (
            tracer is None
            or self._is_ours(tracer)
            or _module(tracer).partition(".")[0] == "coverage"
        )


def _own_function(states: ThreadStates, tracing: Tracing | None) -> int:
    """The C function that traces, 0 when it is the one for Python functions."""
    function = 0 if tracing is None else tracing[0]
    return 0 if function == states.trampoline else function


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _owner(tracer: object) -> object:
    return tracer.__self__ if type(tracer) is MethodType else tracer


def _module(tracer: object) -> str:
    # Read from the type's own data: a user's class may answer attributes with code.
    module = type.__getattribute__(type(_owner(tracer)), "__module__")
    return module if type(module) is str else "?"


def _name(tracer: object) -> str:
    owner = _owner(tracer)
    kind = type(owner)
    if kind.__name__ == "function" and hasattr(tracer, "__qualname__"):
        return f"{tracer.__module__}.{tracer.__qualname__}"
    return f"{_module(tracer)}.{kind.__qualname__}"
