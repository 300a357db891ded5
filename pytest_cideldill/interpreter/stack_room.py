"""Owns room on the stack: what recurses in C runs on a thread with enough of it.

Programs start threads with stacks of 32 KiB. The pickler, the parser and the compiler take some
hundred bytes for each level of what they are given, and a thread at the end of its stack ends the
process. Runs on any thread of the process under test.
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
"""Bytes that a thread of ours has."""

_LEAST: Final = 256 * 1024
"""A thread with fewer has no room."""

MAIN: Final = get_ident()
"""The thread that has loaded this: that of pytest, which has room."""

_ATTRIBUTES: Final = 256
"""Bytes that hold a `pthread_attr_t` everywhere."""


class _OfThread(_local):
    """What is known of a thread, once that was asked for."""

    is_small: bool | None = None


_known: Final = _OfThread()


def is_small() -> bool:
    """Whether the calling thread has little room on its stack."""
    if get_ident() == MAIN:
        return False
    found = _known.is_small
    if found is None:
        found = _known.is_small = 0 < _size() < _LEAST
    return found


def with_room(work: Callable[[], _T]) -> _T:
    """The result of work that runs no code of the program, or what it raises.

    On another thread, which is waited for, where this one has no room.

    Raises:
        RecursionError: There is none to be had.
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
    # of C: no other thread meets ours, nor a signal.
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
