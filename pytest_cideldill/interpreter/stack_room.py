"""Runs work that recurses in C on a thread with enough room on its stack.

Programs start threads with stacks of 32 KiB. The pickler, the parser and the compiler take some
hundred bytes for each level of their input, and a thread that overruns its stack ends the process.
Runs on any thread of the process under test.
"""

from __future__ import annotations

import ctypes
import signal
from _thread import _local, allocate_lock, get_ident, stack_size, start_new_thread
from collections.abc import Callable
from itertools import chain
from typing import Final, TypeVar

_T = TypeVar("_T")

STACK: Final = 8 * 1024 * 1024
"""Bytes of the stack of a thread of ours."""

_LEAST: Final = 256 * 1024
"""A thread with fewer bytes has too little room."""

MAIN: Final = get_ident()
"""The thread that loaded this module: pytest's main thread, which has room."""

_ATTRIBUTES: Final = 256
"""Bytes that hold a `pthread_attr_t` everywhere."""


class _OfThread(_local):
    """Whether the calling thread has a small stack; None until it was looked at."""

    is_small: bool | None = None


_of_thread: Final = _OfThread()


def is_small() -> bool:
    """Whether the calling thread has little room on its stack."""
    if get_ident() == MAIN:
        return False
    is_small_here = _of_thread.is_small
    if is_small_here is None:
        is_small_here = _of_thread.is_small = 0 < _size() < _LEAST
    return is_small_here


def with_room(work: Callable[[], _T]) -> _T:
    """The result of work that runs no code of the program, or its exception.

    If this thread has no room, the work runs on another one, and this one waits.

    Raises:
        RecursionError: No thread with room can be started.
    """
    if not is_small():
        return work()
    results: list[_T] = []
    errors: list[BaseException] = []
    is_running = allocate_lock()
    is_running.acquire()

    def run() -> None:
        try:
            without_signals()
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - it is raised where it belongs
            errors.append(error)
        finally:
            is_running.release()

    try:
        start(run)
    except RuntimeError:
        raise RecursionError("there is no room on the stack") from None
    is_running.acquire()
    if errors:
        raise errors.pop()
    return results.pop()


def start(run: Callable[[], object]) -> None:
    """Start a thread that `threading` does not know, with room, whatever the program has chosen.

    Raises:
        RuntimeError: There can be no more threads, or the interpreter is ending.
    """
    # The size is one for the process, and can't be read without setting it. All of this is one call
    # of C, so that neither another thread nor a signal handler sees our size.
    before: list[int] = []
    steps = chain(
        map(before.append, map(stack_size, (STACK,))),
        map(start_new_thread, (run,), ((),)),
        map(stack_size, before),
    )
    try:
        list(steps)
    except ValueError:  # the system does not take the size
        start_new_thread(run, ())
    except BaseException:
        for size in before:
            stack_size(size)
        raise


def without_signals() -> None:
    """Leave signals to the threads of the program."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def _size() -> int:
    """Bytes of the calling thread's stack; 0: unknown."""
    try:
        library = ctypes.PyDLL(None)
        if hasattr(library, "pthread_get_stacksize_np"):  # macOS
            ask = library.pthread_get_stacksize_np
            ask.argtypes, ask.restype = (ctypes.c_void_p,), ctypes.c_size_t
            return int(ask(get_ident()))
        attributes, sizes = (ctypes.c_char * _ATTRIBUTES)(), (ctypes.c_size_t * 1)()
        if library.pthread_getattr_np(ctypes.c_void_p(get_ident()), attributes) != 0:
            return 0
        library.pthread_attr_getstacksize(attributes, sizes)
        library.pthread_attr_destroy(attributes)
        return int(sizes[0])
    except (AttributeError, OSError, TypeError):  # Windows, say
        return 0
