"""Control of running code: steps from a pause to the next, and pauses of what runs.

Commands come on the I/O thread. The thread that runs the tests is stopped by a signal, which finds
it in blocking calls as well; where that can't be, and on other threads, at the next place in user
code. Nobody waits here: the stop is reported when it comes.
"""

from __future__ import annotations

import signal
import sys
from _thread import get_ident
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from pytest_cideldill.context import Context
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.evaluation.interrupt import Unseen, getsignal, is_free, is_ours, setsignal
from pytest_cideldill.frames.threads import describe_threads
from pytest_cideldill.interpreter.borders import contained
from pytest_cideldill.interpreter.running import current_frames
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.patching.code_swap import original_code
from pytest_cideldill.pauses.parking import Pause
from pytest_cideldill.pauses.pauses import Pauses
from pytest_cideldill.pauses.stepping import StepOrder, Steps
from pytest_cideldill.protocol import CancelPause, PauseNow, Step
from pytest_cideldill.sourcecode.codes import lines_of
from pytest_cideldill.tracing.interface import Deliberate, Source, SourceUnavailable

_STANDS = frozenset({"breakpoint", "condition_error", "step"})
"""Why a thread is stopped exactly at a line of its innermost frame, the user's or not."""

_kill = getattr(signal, "pthread_kill", None)
_getframe = sys._getframe
_SIGURG = getattr(signal, "SIGURG", None)


@dataclass(slots=True)
class _Wanted:
    """A pause that is asked for. `undo` takes back what was armed."""

    undo: Callable[[], object] = lambda: None


class Control:
    """Steps from pauses, and pauses running threads; made on the thread that runs the tests.

    Args:
        context: Threads that its guard marks are not stopped.
        stop: Parks the calling thread at a frame, for a reason.
        source: Gives the event source; raises `SourceUnavailable`.
    """

    def __init__(
        self,
        context: Context,
        pauses: Pauses,
        stop: Callable[[FrameType, str], None],
        source: Callable[[], Source],
    ) -> None:
        self._warn = context.warn
        self._lens = context.lens
        self._guard = context.guard
        self._pauses = pauses
        self._stop = stop
        self._tests = get_ident()
        self.steps = Steps(context.project, source, self._stop_step, pauses.step_left)
        pauses.steps = self.steps
        # Thread → the pause that is asked for. The thread that takes it out has to see to it.
        self._wanted: dict[int, _Wanted] = {}
        self._hear_no_more: Callable[[], None] = lambda: None

    def apply(self, command: Step | PauseNow | CancelPause) -> None:
        """Carry out a command.

        Raises:
            Refusal: `pause_not_found`, `thread_not_found`, `invalid_action`.
        """
        match command:
            case Step():
                self._pauses.step(command, lambda pause: self._begin(command, pause))
            case PauseNow():
                self._pauses.reply(command.request, self._pause_now(command.thread_id))
            case CancelPause():
                self._pauses.reply(command.request, self._cancel())

    # --- steps ------------------------------------------------------------------------------

    def _stop_step(self, frame: FrameType) -> None:
        """A step ends at `frame`."""
        __tracebackhide__ = True
        self._stop(frame, "step")

    def _begin(self, command: Step, pause: Pause) -> None:
        """Arm for the next stop; on the parked thread."""
        if pause.phase == "post_mortem":
            raise Refusal(
                ErrorCode.INVALID_ACTION,
                "the test has failed already, nothing is left to step through; set a breakpoint "
                "before the failing line (breakpoint_set) and run the test again",
                allowed=["continue"],
            )
        steps = self.steps
        stands = pause.phase == "line" and pause.report["pause_reason"] in _STANDS
        frame = pause.frames[0] if stands else steps.user_frame(_getframe())
        enters = False
        if command.until_line is not None:
            enters = self._check_until(command.until_line, pause, frame)
        try:
            order = StepOrder(command.mode, command.count, command.until_line)
            steps.begin(frame, order, enters=enters)
        except SourceUnavailable as reason:
            raise Refusal(ErrorCode.INVALID_ACTION, f"can't step here: {reason}") from reason

    def _check_until(self, line: int, pause: Pause, frame: FrameType | None) -> bool:
        """Whether a line is one of the call that begins; refuses it if it is none of the frame."""
        codes = [] if frame is None else [frame.f_code]
        callee = original_code(pause.frames[0].f_code) if pause.phase == "before" else None
        if callee is not None:
            codes.append(callee)
        lines = {code: lines_of(code) for code in codes}
        if frame is not None and line in lines[frame.f_code]:
            return False
        if callee is not None and line in lines[callee]:
            return True
        known = sorted({each for found in lines.values() for each in found})
        nearest = min(known, key=lambda each: abs(each - line), default=None)
        names = " and ".join(code.co_qualname for code in codes) or "no frame"
        raise Refusal(
            ErrorCode.INVALID_LINE,
            f"until_line {line} is no line with code of {names}; the nearest is {nearest}. For "
            "another function set a breakpoint",
            line=line,
            nearestValidLine=nearest,
        )

    def stop_here(self, frame: FrameType, reason: str) -> None:
        """Park the calling thread, which is no handler of events, at `frame`."""
        __tracebackhide__ = True
        try:
            self._stop(frame, reason)
        except Deliberate as wanted:
            error = wanted.error
        else:
            return
        raise error

    # --- pauses of what runs ----------------------------------------------------------------

    def hear_signals(self) -> Callable[[], None]:
        """Let a signal stop the calling thread, which runs the tests; the undo.

        A handler that somebody has installed stays.
        """
        if _SIGURG is None or _kill is None or not is_free(getsignal(_SIGURG)):
            return lambda: None
        handler = Unseen(self._on_signal)
        try:
            before = setsignal(_SIGURG, handler)
        except ValueError:  # pytest runs on another thread than Python's first
            return lambda: None

        def restore() -> None:
            if getsignal(_SIGURG) is handler:
                setsignal(_SIGURG, before)

        self._hear_no_more = restore
        return restore

    def forget(self) -> None:
        """In a forked child: nobody asks it to pause."""
        self._wanted.clear()
        self._hear_no_more()

    def _pause_now(self, ident: int | None) -> dict[str, Any]:
        ident = self._tests if ident is None else ident
        pause_id = self._pauses.parked.get(ident)
        if pause_id is not None:
            return {"status": "already_paused", "pause_id": pause_id}
        if ident not in current_frames():
            raise Refusal(
                ErrorCode.THREAD_NOT_FOUND,
                f"no thread {ident} in this process; threads_list shows them",
                thread_id=ident,
            )
        self._wanted[ident] = _Wanted()
        reply: dict[str, Any] = {"status": "asked", "pause_id": None, "thread_id": ident}
        if ident == self._tests and _SIGURG is not None:
            if _kill is not None and is_ours(getsignal(_SIGURG)):  # which hands it on to us
                _kill(ident, _SIGURG)
                return reply
            owner = "this program has set SIGURG itself: it stops at its next line, not in a call"
            reply["message"] = owner
        self._seize(ident)
        return reply

    def _seize(self, ident: int) -> None:
        """Stop a thread at the next place in user code."""
        wanted = self._wanted.get(ident)
        if wanted is None:
            return
        try:
            wanted.undo = self.steps.seize(ident, lambda frame: self._stop_wanted(ident, frame))
        except SourceUnavailable as reason:
            self._wanted.pop(ident, None)
            raise Refusal(ErrorCode.INVALID_ACTION, f"can't stop it: {reason}") from reason
        if self._wanted.get(ident) is not wanted:
            wanted.undo()  # it was cancelled meanwhile

    def _stop_wanted(self, ident: int, frame: FrameType) -> None:
        __tracebackhide__ = True
        if self._wanted.pop(ident, None) is not None:
            self._stop(frame, "interrupt")

    def _on_signal(self, _signum: int, frame: FrameType | None) -> None:
        """Between two operations of whatever runs: it may be code of ours, which holds locks."""
        __tracebackhide__ = True
        may_stop = contained("a signal", lambda: self._may_stop(frame), self._warn, False)
        if may_stop and self._wanted.pop(self._tests, None) is not None and frame is not None:
            self.stop_here(frame, "interrupt")

    def _may_stop(self, frame: FrameType | None) -> bool:
        """Whether a thread that is to stop can do it here; else it stops at its next line."""
        if self._tests not in self._wanted:
            return False
        if self._tests in self._pauses.parked:  # it has stopped by itself just now
            self._wanted.pop(self._tests, None)
            return False
        if self._place(frame) is not None and not self._guard.is_quiet():
            return True
        with suppress(Refusal):  # the client learns that nothing stopped
            self._seize(self._tests)
        return False

    def _place(self, frame: FrameType | None) -> FrameType | None:
        """The user's frame that a signal came to, in a library perhaps, but not in our code."""
        project = self._lens.project
        while frame is not None and not project.is_ours(frame.f_code.co_filename):
            if self.steps.is_user(frame):
                return frame
            frame = frame.f_back
        return None

    def _cancel(self) -> dict[str, Any]:
        for ident in list(self._wanted):
            wanted = self._wanted.pop(ident, None)
            if wanted is not None:
                wanted.undo()
        return {"threads": describe_threads(self._lens, self._pauses.parked, stacks=True)}
