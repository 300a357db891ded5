"""Chains coverage's tracers of 3.11 with ours: one chain for each thread and each traced frame.

A chain runs on the thread of the program, in place of coverage's own tracer, and passes all events
on to that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_cideldill.tracing.installer import Installer

_DEPTH = 5
"""Levels of calls that coverage needs to note a frame, and some more."""

Trace = Callable[[FrameType, str, Any], Any]
"""A trace function, for `sys.settrace` or for `f_trace`."""


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
            if event == "return":  # coverage comes last: if we raise, `survive` calls it again
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
        """Leave the frame to coverage, whose C function does not need `f_trace`."""
        frame.f_trace = None if self.chain.is_c else self.inner


class Chain:
    """Traces one thread for us and for coverage."""

    __slots__ = ("function", "inner", "installer", "is_c")

    def __init__(self, inner: Any, function: int, installer: Installer) -> None:
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
            # Coverage comes last: it must not see the start of a frame that ends here, by an
            # exception or at the recursion limit, as it would not see the end.
            _reach(_DEPTH)
            traced = FrameChain(None, self)
            ours = installer.on_call(frame, event, arg)
            inner = self.inner(frame, event, arg)
        except BaseException:
            sys.settrace(self)
            installer.survive(frame)
            raise
        # Coverage's C tracer puts itself back at every call. No other thread can remove us between
        # the check and the call: the GIL does not change hands there.
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
        """Trace those frames that run already and were traced.

        A tracer in C gets all events of all frames, one in Python only those of frames it chose.
        """
        for frame in frames:
            inner: Any = frame.f_trace
            if type(inner) is FrameChain and inner.chain is not self:
                frame.f_trace = inner = None  # its tracer is lost
            inner = inner or (self.inner if self.is_c else None)
            if inner is not None and type(inner) is not FrameChain:
                frame.f_trace = FrameChain(inner, self)


def _reach(depth: int) -> None:
    """Raise RecursionError now if there is no room for so many levels of calls."""
    if depth:
        _reach(depth - 1)
