"""Limits the time of expressions in tracepoints and conditions.

`limited` is on the hot path of every thread; the I/O thread calls `check` at regular times, which
interrupts evaluations that take too long. So no hit has to start a timer.
"""

from __future__ import annotations

import functools
import sys
from _thread import get_ident
from collections.abc import Callable, Iterator
from signal import Handlers, getsignal, valid_signals
from types import CodeType, FunctionType, MethodType
from typing import Any, Final, TypeVar

from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.evaluation.interrupt import (
    EvaluationInterrupted,
    Interruption,
    Interruptor,
    is_main_thread,
)
from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.borders import is_ours
from pytest_cideldill.rendering.layout import context_of, find_in_class, traceback_of, type_name

_A = TypeVar("_A")
_T = TypeVar("_T")

LIMIT_S: Final = 1.0
"""Seconds per expression."""

CHECK_S: Final = 0.2
"""Seconds between calls of `check` while anything is watched."""

TIMEOUT: Final = "<error: timeout>"

_LONGEST_CHAIN: Final = 20
"""Exceptions in a chain of contexts that are looked at."""


class _Limited(Interruptor):
    """The evaluations of one thread. `since`: the `Overtime.now` of the present expression."""

    __slots__ = ("since",)

    def __init__(self) -> None:
        super().__init__()
        self.since = 0.0


class Overtime:
    """The evaluations of all threads under one time limit.

    Attributes:
        now: The time of the latest `check`. Each one sets a new object, to be compared by identity.
        threads: By ident; each thread adds itself. Code that evaluates several expressions sets
            `since` to `now` before each.

    Args:
        guard: Marks the threads that evaluate; nothing stops or records them.
        limit_s: Seconds that one expression may take.
    """

    def __init__(self, guard: EvaluationGuard, limit_s: float = LIMIT_S) -> None:
        self.now = clock.monotonic()
        self.threads: dict[int, _Limited] = {}
        self._quiet = guard.depths
        # What is started now was started at the latest `check`, or up to CHECK_S later.
        self._limit_s = limit_s + CHECK_S
        self._stop_hearing: Callable[[], None] | None = None

    def limited(self, work: Callable[[_A], _T], late: _T) -> Callable[[_A], _T]:
        """A function like `work` that is quiet and interruptible; not re-entrant.

        Args:
            work: Called on the hot path.
            late: The result if `work` was interrupted and did not handle that.
        """
        quiet, threads, begin = self._quiet, self.threads, self._begin

        def run(argument: _A) -> _T:
            __tracebackhide__ = True
            ident = get_ident()
            thread = threads.get(ident)
            if thread is None or thread.since is not self.now:
                thread = begin(ident)
            quiet[ident] = 1
            try:
                return thread.call(work, argument)
            except EvaluationInterrupted as error:
                theirs = _of_the_program(error.__cause__)
                if theirs is not None:
                    raise theirs  # noqa: B904 - as if nothing had been in between
                return late
            finally:
                del quiet[ident]

        return run

    def failed(self) -> str:
        """The text in place of the value of an expression that raised; called in its `except`.

        Ctrl-C and exceptions of signal handlers belong to the test and are raised again.
        """
        error = sys.exc_info()[1]
        assert error is not None
        try:
            theirs = _of_the_program(error)
            if theirs is not None:
                raise theirs
            thread = self.threads.get(get_ident())
            if thread is not None and any(type(each) is Interruption for each in _chain(error)):
                thread.since = self.now  # the next expression has its own time
                return TIMEOUT
            return f"<error: {type_name(error)}>"
        finally:
            del error  # its traceback may hold this frame

    def check(self) -> None:
        """Interrupt evaluations that take too long; on the I/O thread, every `CHECK_S`."""
        before, self.now = self.now, clock.monotonic()
        is_late = self.now - before > 2 * CHECK_S  # held up: no evaluation's time is known
        for thread in list(self.threads.values()):
            if not thread.is_running:
                continue
            if is_late:
                thread.since = self.now
            elif self._is_due(thread):
                # It may be at the next expression by now.
                thread.interrupt(functools.partial(self._is_due, thread))

    def close(self) -> None:
        """Restore the signal handler; only the main thread can, on others this does nothing."""
        if self._stop_hearing is not None and is_main_thread():
            self._stop_hearing()
            self._stop_hearing = None

    def _is_due(self, thread: _Limited) -> bool:
        return self.now - thread.since > self._limit_s

    def _begin(self, ident: int) -> _Limited:
        """The first evaluation of a thread, and the first one after each `check`."""
        thread = self.threads.get(ident)
        if thread is None:
            thread = self.threads[ident] = _Limited()
        # For good, until `close`; but the program may have put its own handler there, or none.
        self._stop_hearing = thread.hear_signals() or self._stop_hearing
        thread.since = self.now
        return thread


def _of_the_program(error: BaseException | None) -> BaseException | None:
    """The exception that must reach the program: Ctrl-C, or one that its signal handler raised.

    That is the error itself, or one that was passing through our code when the error was raised.
    """
    for exception in _chain(error):
        place = traceback_of(exception)
        is_here = place is not None and is_ours(place.tb_frame.f_code.co_filename)
        if not is_here or type(exception) is Interruption:
            continue
        if issubclass(type(exception), KeyboardInterrupt) or _came_by_signal(exception):
            return exception
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, the one that was being handled when it was raised, and so on."""
    for _ in range(_LONGEST_CHAIN):
        if error is None:
            return
        yield error
        error = context_of(error)


def _came_by_signal(error: BaseException) -> bool:
    """Whether a signal handler of the program raised it while the expression ran."""
    place = traceback_of(error)
    if place is None or place.tb_next is None or not is_main_thread():
        return False
    handlers = {id(code) for code in _signal_handlers()}
    while place is not None:
        if id(place.tb_frame.f_code) in handlers:
            return True
        place = place.tb_next
    return False


def _signal_handlers() -> Iterator[CodeType]:
    """The code of the program's signal handlers that are written in Python."""
    for number in valid_signals():
        handler: Any = getsignal(number)
        if handler is None or type(handler) is Handlers:  # of C code, the default, or ignored
            continue
        while type(handler) in (functools.partial, MethodType):
            handler = handler.func if type(handler) is functools.partial else handler.__func__
        if type(handler) is not FunctionType:
            handler = find_in_class(type(handler), "__call__")
        if type(handler) is FunctionType:
            yield handler.__code__
