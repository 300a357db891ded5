"""Interrupts an evaluation that takes too long, and nothing but that evaluation.

Runs in the process under test: `run` on the thread that evaluates, `interrupt` on any other. Must
not know the code that is evaluated or the time limits.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found, unused-ignore]
import ctypes
import opcode
import signal
import sys
from _thread import allocate_lock, get_ident
from collections.abc import Callable
from types import FrameType, MethodType
from typing import Any, Final, TypeVar

from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.running import current_frames, main_ident

_A = TypeVar("_A")
_T = TypeVar("_T")


class EvaluationInterrupted(Exception):
    """The work was interrupted before it came to an end.

    Its cause is the exception that was being handled at that moment, if there was one.
    """


class Interruption(BaseException):
    """Raised inside the work. Our code around calls of user code must let it pass."""


_IDLE: Final = 0
_RUNNING: Final = 1
_CLOSED: Final = 2

_JUMPS: Final = range(100)
"""Backward jumps within which a pending interruption has certainly been raised."""

# The functions of `signal` turn handlers into enumeration members, if they equal a number.
getsignal: Final[Callable[[int], Any]] = _signal.getsignal
setsignal: Final[Callable[[int, Any], Any]] = _signal.signal
_HAS_SIGNALS: Final = hasattr(signal, "pthread_kill")
_BREAKS: Final = frozenset(
    number
    for name, number in opcode.opmap.items()
    if name == "RESUME" or ("JUMP_BACKWARD" in name and "NO_INTERRUPT" not in name)
)
"""Operations at which a thread that waits for the GIL raises an exception sent to it."""


class Unseen(int):
    """A signal handler that equals `SIG_DFL`, a number.

    A test that looks at the handler finds the default one, as without us.
    """

    handle: Callable[[int, FrameType | None], None]

    def __new__(cls, handle: Callable[[int, FrameType | None], None]) -> Unseen:
        self = super().__new__(cls, signal.SIG_DFL)
        self.handle = handle
        return self

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        __tracebackhide__ = True
        self.handle(signum, frame)


class Interruptor:
    """Lets other threads interrupt the work of one thread.

    Guarantees: an interruption reaches the work or is dropped, it never reaches code that the
    thread runs afterwards; `interrupt` may be repeated, for code that swallows it. On the main
    thread it also ends blocking calls such as `time.sleep`; on others they run out first. C code
    that does not check for signals can't be interrupted.
    """

    __slots__ = ("_before", "_ident", "_lock", "_sending", "_state", "_to_raise", "sent", "soften")

    def __init__(self) -> None:
        self._state = _IDLE
        self._ident = get_ident()
        self._sending = False
        self._before: Any = None
        # Whether the signal handler has to raise.
        self._to_raise = False
        # Taken by interrupting threads only: an interruption that arrived while the evaluating
        # thread takes it could leave it locked.
        self._lock = allocate_lock()
        self.sent = False
        """Whether an interruption was sent to the work that runs or that ran last."""
        self.soften: Callable[[FrameType | None], bool] | None = None
        """On the main thread, with the running frame: True if it ends the work in another way."""

    def run(self, work: Callable[[], _T]) -> _T:
        """Run `work` on this thread, interruptible.

        Raises:
            EvaluationInterrupted: The work was interrupted.
        """
        self._ident = get_ident()
        restore = self.hear_signals()
        try:
            return self.call(_call, work)
        finally:
            if restore is not None:
                restore()

    @property
    def is_running(self) -> bool:
        """Whether there is work to interrupt."""
        return self._state is _RUNNING

    def call(self, work: Callable[[_A], _T], argument: _A) -> _T:
        """`run(lambda: work(argument))` for the hot path, always on the thread that made this.

        `hear_signals` is the caller's business.

        Raises:
            EvaluationInterrupted: The work was interrupted.
        """
        __tracebackhide__ = True
        self.sent = self._to_raise = False
        is_done = False
        handled: BaseException | None = None
        stray: BaseException | None = None
        try:
            self._state = _RUNNING
            result = work(argument)
            self._state = _CLOSED
            is_done = True
            return result
        except Interruption as interruption:
            handled = interruption.__context__
        finally:
            # From here on nothing may be sent. What was sent and has not arrived is waited for: it
            # arrives at one of the next jumps. To take it back instead (SetAsyncExc with NULL)
            # would leave the interpreter's eval breaker set for ever: every jump of every thread
            # would be slower, and on 3.11 the next traced function would never end.
            while not is_done or self._sending or self.sent:
                try:
                    self._state = _CLOSED
                    while self._sending:
                        clock.sleep(0)  # lets the sender run
                    for _ in _JUMPS if self.sent else ():
                        pass
                    break
                except Interruption:
                    continue
                except BaseException as error:  # noqa: BLE001 - Ctrl-C must not end the wait
                    stray = error
            if stray is not None:
                raise stray
        raise EvaluationInterrupted from handled

    def interrupt(self, is_meant: Callable[[], bool] = lambda: True) -> bool:
        """Interrupt the work.

        Args:
            is_meant: Called while the work can't be replaced by another one; must be quick.

        Returns:
            False if no work runs, `is_meant` returns False, or the work can't be interrupted now.
        """
        with self._lock:
            # Set before the state is read; the evaluating thread does it the other way round, so
            # that one of the two sees the other.
            self._sending = True
            try:
                if self._state is not _RUNNING or not is_meant():
                    return False
                return self._send()
            finally:
                self._sending = False

    def hear_signals(self) -> Callable[[], None] | None:
        """Let SIGURG interrupt the main thread, blocking calls as well.

        A handler that the program has installed stays. Of several of ours the latest is in force.

        Returns:
            The undo, for the main thread; None when nothing was done.
        """
        if not is_main_thread() or not _HAS_SIGNALS:
            return None
        before: Any = getsignal(signal.SIGURG)
        if before == self._on_signal or not (is_free(before) or is_ours(before)):
            return None
        self._before = before
        setsignal(signal.SIGURG, self._on_signal)

        def restore() -> None:
            if getsignal(signal.SIGURG) == self._on_signal:
                setsignal(signal.SIGURG, before)

        return restore

    def _send(self) -> bool:
        handler: Any = getsignal(signal.SIGURG) if _HAS_SIGNALS else None
        if handler == self._on_signal:
            self.sent = self._to_raise = True
            signal.pthread_kill(self._ident, signal.SIGURG)
            return True
        # A handler of the program's ends blocking calls as well.
        can_wake = callable(handler) and self._ident == main_ident()
        if not can_wake and not _is_at_a_break(self._ident):
            return False
        self.sent = True
        _raise_in(self._ident, Interruption)
        if can_wake:
            signal.pthread_kill(self._ident, signal.SIGURG)
        return True

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        """On the main thread, hence never too late: it looks at the work that runs now."""
        __tracebackhide__ = True
        if self._to_raise and self._state is _RUNNING:
            self._to_raise = False
            if self.soften is None or not self.soften(frame):
                raise Interruption
        elif is_ours(self._before):  # it is meant for another interruptor
            self._before(signum, frame)


def is_main_thread() -> bool:
    """Whether this is the thread that signal handlers run on."""
    return get_ident() == main_ident()


def _call(work: Callable[[], _T]) -> _T:
    return work()


def is_free(handler: Any) -> bool:
    """Whether a signal with this handler does nothing."""
    return type(handler) is int and handler in (signal.SIG_DFL, signal.SIG_IGN)


def is_ours(handler: Any) -> bool:
    """Whether a handler of a signal belongs to this plugin."""
    if type(handler) is Unseen:
        return True
    return type(handler) is MethodType and handler.__func__ is Interruptor._on_signal


def _is_at_a_break(ident: int) -> bool:
    """Whether a thread will raise an exception that is sent to it at once.

    On 3.11 no traced thread can begin a function while an exception waits for any thread, and we
    trace all threads. So nothing is sent to a thread that is in C code there: it may wait for
    another thread.
    """
    if sys.version_info >= (3, 12):
        return True
    frame = current_frames().get(ident)
    return frame is not None and frame.f_code.co_code[frame.f_lasti] in _BREAKS


def _raise_in(ident: int, exception: type[BaseException]) -> None:
    """Make a thread raise an exception at its next jump or call."""
    # Converted here, not by `argtypes`: the function object is shared with all users of ctypes.
    argument = ctypes.py_object(exception)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), argument)
