"""Tracers of 3.11 that serve coverage and us: one for each thread, one for each traced frame.

Run on the thread of the program, in place of coverage's own; they see what it would see.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Protocol

_DEPTH = 5
"""Calls that coverage needs to take note of a frame, and some more."""

Trace = Callable[[FrameType, str, Any], Any]
"""What `sys.settrace` takes, and what traces a frame."""


class Installing(Protocol):
    """Who puts chains on threads and takes them off; see `installer.Installer`."""

    is_installed: bool
    on_call: Trace
    on_event: Trace

    def survive(self, frame: FrameType) -> None:
        """An exception leaves a tracer, which is removed by that."""

    def leave(self, tracer: object) -> None:
        """`tracer` was called though nothing is installed."""


class FrameChain:
    """Traces one frame for coverage and for us."""

    __slots__ = ("chain", "inner")

    def __init__(self, inner: Any, chain: Chain) -> None:
        self.inner = inner
        self.chain = chain

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        __tracebackhide__ = True
        installer = self.chain.installer
        try:
            if event == "return":  # coverage comes last: `survive` tells it again when we raise
                ours = installer.on_event(frame, event, arg)
                self.inner(frame, event, arg)
            else:
                inner = self.inner(frame, event, arg)
                if inner is not None:
                    self.inner = inner
                ours = installer.on_event(frame, event, arg)
            if ours is None:
                self.give_back(frame)
                return None
        except BaseException:
            installer.survive(frame)
            raise
        return self

    def give_back(self, frame: FrameType) -> None:
        """Leave the frame to coverage, whose C function asks no frame whether it is traced."""
        frame.f_trace = None if self.chain.is_c else self.inner


class Chain:
    """Traces one thread for us and for coverage."""

    __slots__ = ("function", "inner", "installer", "is_c")

    def __init__(self, inner: Any, function: int, installer: Installing) -> None:
        self.inner = inner
        # The C function that `inner` was installed with; 0 is the one that `sys.settrace` uses.
        self.function = function
        self.is_c = bool(function)
        self.installer = installer

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        __tracebackhide__ = True
        installer = self.installer
        if not installer.is_installed:
            installer.leave(self)
            return self.inner(frame, event, arg)
        lines = frame.f_trace_lines
        try:
            # Coverage comes last: a frame that ends here, by an exception or at the recursion
            # limit, must not have begun for it, as it would not be told of the end.
            _reach(_DEPTH)
            traced = FrameChain(None, self)
            ours = installer.on_call(frame, event, arg)
            inner = self.inner(frame, event, arg)
        except BaseException:
            sys.settrace(self)
            installer.survive(frame)
            raise
        # Coverage's C tracer puts itself back at every call. No other thread can remove us between
        # the question and the answer: the GIL does not change hands there.
        if installer.is_installed:
            sys.settrace(self)
        if inner is None:
            return ours
        if not installer.is_installed:
            return inner
        frame.f_trace_lines = lines
        traced.inner = inner
        return traced

    def take_over(self, frames: Iterator[FrameType]) -> None:
        """Trace frames that run already, as far as they were traced.

        A C function gets all events of all frames, a Python one only those of frames it chose.
        """
        for frame in frames:
            inner: Any = frame.f_trace
            if type(inner) is FrameChain and inner.chain is not self:
                frame.f_trace = inner = None  # its tracer is lost
            inner = inner or (self.inner if self.is_c else None)
            if inner is not None and type(inner) is not FrameChain:
                frame.f_trace = FrameChain(inner, self)


def _reach(depth: int) -> None:
    """Raise RecursionError here and now when there is no room for so many calls."""
    if depth:
        _reach(depth - 1)
