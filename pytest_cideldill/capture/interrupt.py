"""Stopping an evaluation that takes too long, and nothing but that evaluation.

Runs in the process under test: `run` on the thread that evaluates, `interrupt` on any other. Must
not know what is evaluated or who decides that it takes too long.
"""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from _thread import allocate_lock
from _thread import get_ident
from collections.abc import Callable
from types import FrameType
from typing import Final
from typing import TypeVar

_T = TypeVar("_T")


class Interrupted(Exception):
    """The work was interrupted before it came to an end."""


class Interruption(BaseException):
    """Raised inside the work. Code of the user's that catches it must raise it again."""


_IDLE: Final = 0
_RUNNING: Final = 1
_CLOSED: Final = 2

_JUMPS: Final = range(100)
"""Backward jumps within which a pending interruption has certainly been raised."""

# In a tuple, where libraries that patch `time` don't look.
_SLEEP: Final = (time.sleep,)
_main_thread: Final = threading.main_thread  # tests patch `threading`


class Interruptor:
    """Lets other threads interrupt what one thread runs.

    Guarantees: an interruption reaches the work or nobody, never what the thread runs afterwards;
    `interrupt` may be repeated, for code that swallows it. On the main thread it also ends blocking
    calls such as `time.sleep`; on others they run out first. C code that does not look for signals
    ends when it ends.
    """

    __slots__ = ("_ident", "_lock", "_sending", "_state", "sent")

    def __init__(self) -> None:
        self._state = _IDLE
        self._ident = 0
        self._sending = False
        # Taken by interrupting threads only: an interruption that arrived while the evaluating
        # thread takes it could leave it locked.
        self._lock = allocate_lock()
        self.sent = False
        """Whether an interruption was sent to the work that runs, or ran last."""

    def run(self, work: Callable[[], _T]) -> _T:
        """Run `work` on this thread, interruptible.

        Raises:
            Interrupted: The work was interrupted.
        """
        self._ident = get_ident()
        self.sent = False
        restore = _hear_signals()
        try:
            return self._run_and_close(work)
        finally:
            restore()

    def interrupt(self) -> bool:
        """Interrupt the work; False if none is running."""
        with self._lock:
            # Set before the state is read; the evaluating thread does it the other way round, so
            # that one of the two sees the other.
            self._sending = True
            try:
                if self._state is not _RUNNING:
                    return False
                self.sent = True
                _raise_in(self._ident, Interruption)
                _wake(self._ident)
                return True
            finally:
                self._sending = False

    def _run_and_close(self, work: Callable[[], _T]) -> _T:
        results: list[_T] = []
        try:
            self._state = _RUNNING
            results.append(work())
            self._state = _CLOSED
        except Interruption:
            pass
        finally:
            # From here on nothing may be sent. What was sent and has not arrived is waited for: it
            # arrives at one of the next jumps. To take it back instead (SetAsyncExc with NULL)
            # would leave the interpreter's eval breaker set for ever: every jump of every thread
            # would be slower, and on 3.11 the next traced function would never end.
            while True:
                try:
                    self._state = _CLOSED
                    while self._sending:
                        _SLEEP[0](0)  # lets the sender run
                    for _ in _JUMPS if self.sent else ():
                        pass
                    break
                except Interruption:
                    continue
        if not results:
            raise Interrupted
        return results[0]


def _raise_in(ident: int, exception: type[BaseException]) -> None:
    """Let a thread raise at its next jump or call."""
    # Converted here, not by `argtypes`: the function object is shared with all users of ctypes.
    argument = ctypes.py_object(exception)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), argument)


def _wake(ident: int) -> None:
    """End a blocking call of the main thread, where the platform can."""
    if ident == _main_thread().ident and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(ident, signal.SIGURG)


def _hear_signals() -> Callable[[], None]:
    """Let SIGURG end blocking calls of the main thread; returns the undo.

    A handler in Python is needed: the interruption is raised when its first bytecode runs. One
    that is there already serves as well; one installed by C code could not be put back.
    """
    if get_ident() != _main_thread().ident or not hasattr(signal, "pthread_kill"):
        return lambda: None
    before = signal.getsignal(signal.SIGURG)
    if before is not signal.SIG_DFL and before is not signal.SIG_IGN:
        return lambda: None
    signal.signal(signal.SIGURG, _ignore)
    return lambda: _restore(before)


def _restore(before: signal.Handlers) -> None:
    if signal.getsignal(signal.SIGURG) is _ignore:
        signal.signal(signal.SIGURG, before)


def _ignore(_signum: int, _frame: FrameType | None) -> None:
    """Nothing: that it runs is enough."""
