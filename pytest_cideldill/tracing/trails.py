"""Keeps the trails of threads that are followed, and calls their handlers, for both sources.

Runs on the thread of the program, without locks. Each thread has at most one trail.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable, Collection
from types import CodeType, FrameType
from typing import Any

from pytest_cideldill.interpreter.borders import Border, Verdict
from pytest_cideldill.interpreter.code_files import frame_file
from pytest_cideldill.tracing.interface import Deliberate, Left, Trail
from pytest_cideldill.tracing.passes import continuations, repeats

_COROUTINES = 0x80 | 0x200  # CO_COROUTINE, CO_ASYNC_GENERATOR
_HANDED_OUT = "async_generator_wrapped_value"
"""The type of values that an asynchronous generator yields to its consumer, not to the loop."""

_name_of = type.__dict__["__name__"].__get__  # a user's metaclass may define its own


class Trails:
    """The trails of all threads.

    Attributes:
        threads: Thread → its trail. Single items are set and popped, which is atomic.
    """

    __slots__ = ("_border", "_quiet", "_repeats", "threads")

    def __init__(self, border: Border, quiet: Collection[int]) -> None:
        self._border = border
        self._quiet = quiet
        self.threads: dict[int, Trail] = {}
        # Code and line → the offsets that begin no new pass; the code is kept, so its id stays
        # taken.
        self._repeats: dict[tuple[int, int, bool], tuple[CodeType, frozenset[int]]] = {}

    def put(self, ident: int, trail: Trail | None) -> Trail | None:
        """Replace the trail of a thread; returns the old one."""
        before = self.threads.get(ident)
        if trail is None:
            self.threads.pop(ident, None)
        else:
            self.threads[ident] = trail
        if not self.threads:
            self._repeats.clear()
        return before

    def mine(self) -> Trail | None:
        """The trail of the calling thread."""
        return self.threads.get(get_ident())

    def on(self, code: CodeType) -> list[Trail]:
        """The trails of frames of this code."""
        return [
            trail
            for trail in self.threads.copy().values()
            if trail.frame is not None and trail.frame.f_code is code
        ]

    @property
    def want_starts(self) -> bool:
        """Whether any trail wants the starts of frames."""
        return any(thread.starts for thread in self.threads.copy().values())

    @property
    def want_all(self) -> bool:
        """Whether any trail wants lines of all frames."""
        return any(thread.anywhere for thread in self.threads.copy().values())

    def line(self, trail: Trail | None, frame: FrameType, line: int) -> None:
        """Handle a line that is about to run.

        Args:
            trail: The trail that the thread had before breakpoints handled the line.
        """
        __tracebackhide__ = True
        if trail is None or self.mine() is not trail or get_ident() in self._quiet:
            return
        if not trail.anywhere:
            if frame is not trail.frame or not trail.lines or trail.only not in (None, line):
                return
            if frame.f_lasti in self._old(frame, line, whole=trail.only is None):
                return
        self._emit(frame.f_code, trail.on_line, frame, line)

    def start(self, trail: Trail, frame: FrameType) -> None:
        """Handle a frame that starts or goes on."""
        __tracebackhide__ = True
        if trail.starts and get_ident() not in self._quiet:
            self._emit(frame.f_code, trail.on_start, frame)

    def leave(self, trail: Trail, frame: FrameType, left: Left) -> None:
        """Handle that the frame of the trail is left."""
        __tracebackhide__ = True
        self._emit(frame.f_code, trail.on_leave, frame, left)

    def _old(self, frame: FrameType, line: int, *, whole: bool) -> frozenset[int]:
        """Offsets where an event of `line` begins no new pass, over the line or its statement."""
        code = frame.f_code
        key = (id(code), line, whole)
        known = self._repeats.get(key)
        if known is None:
            file = frame_file(frame)
            found = (continuations if whole else repeats)(code, line, file)
            known = self._repeats[key] = (code, found)
        return known[1]

    def _emit(self, code: CodeType, handler: Callable[..., None], *arguments: Any) -> None:
        __tracebackhide__ = True
        try:
            handler(*arguments)
        except Deliberate as wanted:
            error = wanted.error
        except BaseException as failure:
            verdict = self._border.judge(failure, "following the program", code)
            if verdict is Verdict.FOREIGN:
                raise
            # Its trail is removed, so it gets no more events. They are disarmed with the next
            # trail.
            self.threads.pop(get_ident(), None)
            return
        else:
            return
        raise error


def how_it_yields(code: CodeType, value: object) -> Left:
    """Whether a frame that yields hands out an item or waits."""
    waits = code.co_flags & _COROUTINES and _name_of(type(value)) != _HANDED_OUT
    return Left.AWAIT if waits else Left.YIELD
