"""Pairs the start of each recorded call with its end, for both kinds of sources.

Runs on the thread of the program, without locks. A call is identified by the id of its frame, which
is unique until the frame is gone: the interpreter keeps a frame object, once made, for the frame's
whole life. So calls are distinct in recursions and across threads, and no frame is kept alive.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Collection
from types import CodeType, FrameType

from pytest_cideldill.interpreter.borders import Border, Verdict
from pytest_cideldill.interpreter.frame_locals import forget, read_locals
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.tracing.interface import Deliberate, OnEnd, OnStart


@dataclass(frozen=True, slots=True)
class Recorder:
    """The handlers for the calls of one code object.

    Attributes:
        on_start: As `interface.OnStart`.
        on_end: As `interface.OnEnd`.
        is_fresh: Whether calls have no snapshot of their locals when they start: see `forget`.
    """

    on_start: OnStart
    on_end: OnEnd
    is_fresh: bool


class CallEvents:
    """The recorded code objects, by id (the source keeps them alive), and their running calls."""

    __slots__ = ("_border", "_open", "_quiet", "recorders")

    def __init__(self, border: Border, quiet: Collection[int]) -> None:
        self._border = border
        self._quiet = quiet
        # Any thread sets and pops single items, which is atomic; there is no iteration.
        self.recorders: dict[int, Recorder] = {}
        self._open: dict[int, tuple[Recorder, object]] = {}

    def begin(self, recorder: Recorder, frame: FrameType) -> None:
        """The call in `frame` starts."""
        __tracebackhide__ = True
        if self._quiet and get_ident() in self._quiet:
            return
        values = None
        try:
            values = frame.f_locals if recorder.is_fresh else read_locals(frame)
            token = recorder.on_start(frame, values)
        except Deliberate as wanted:
            error = wanted.error
        except BaseException as failure:
            if self._is_foreign(failure, frame.f_code):
                raise
            return
        else:
            if token is not None:
                self._open[id(frame)] = (recorder, token)
            return
        finally:
            if values is not None and recorder.is_fresh:
                forget(frame, values)
        raise error

    def end(self, frame: FrameType, result: object, error: BaseException | None) -> None:
        """The call in `frame` returns, or an exception leaves it."""
        __tracebackhide__ = True
        ending = self._open.pop(id(frame), None)
        if ending is None:
            return  # it began before the recording, or `on_start` did not want it
        recorder, token = ending
        try:
            recorder.on_end(token, frame, result, error)
        except Deliberate as wanted:
            raised = wanted.error
        except BaseException as failure:
            if self._is_foreign(failure, frame.f_code):
                raise
            return
        else:
            return
        raise raised

    def stop(self, code: CodeType) -> bool:
        """Record no more calls of `code`; False if none were recorded."""
        recorder = self.recorders.pop(id(code), None)
        for key, (each, _) in self._open.copy().items():
            if each is recorder:
                self._open.pop(key, None)
        return recorder is not None

    def clear(self) -> None:
        """Forget everything."""
        self.recorders.clear()
        self._open.clear()

    def _is_foreign(self, failure: BaseException, code: CodeType) -> bool:
        verdict = self._border.judge(failure, "the recording of calls", code)
        if verdict is Verdict.BUG:
            self.recorders.pop(id(code), None)
        return verdict is Verdict.FOREIGN
