"""Reads and sets the tracers of all threads of a 3.11 interpreter.

Python itself offers that for the calling thread only. Runs on the thread that binds breakpoints,
holding the GIL. A thread may end, and its state be freed, when the GIL changes hands, which can
happen after any bytecode. So each access to another thread's state is one expression of C
functions, which walks the list of states anew and touches only states in it.
"""

from __future__ import annotations

import ctypes
import sys
from _thread import get_ident
from collections import deque
from collections.abc import Iterator
from itertools import accumulate, chain, repeat, takewhile
from operator import attrgetter, truth
from typing import Any

_WORDS = 60
"""Words of a thread state that are looked at; its fields of interest are among the first."""

_WORD = ctypes.sizeof(ctypes.c_void_p)
_NULL: Any = ctypes.py_object()

# A pair of a C function and the object it is called with; (0, None) when nothing traces.
Tracing = tuple[int, object]


class LayoutUnknown(Exception):
    """This interpreter lays out its thread states in another way than CPython 3.11."""


class ThreadStates:
    """Reads and sets the tracer of each thread. A state is identified by its address."""

    def __init__(self) -> None:
        # A handle of our own: argument types set on `ctypes.pythonapi` would affect other code.
        api = ctypes.PyDLL(None)
        self._head = _function(api.PyInterpreterState_ThreadHead, ctypes.c_void_p, ctypes.c_void_p)
        # `accumulate` passes a second argument, which the C function ignores.
        self._next = _function(
            api.PyThreadState_Next, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long
        )
        self._interpreter = _function(api.PyInterpreterState_Get, ctypes.c_void_p)()
        self._current = _function(api.PyThreadState_Get, ctypes.c_void_p)
        self._copy = _function(
            api.PyBytes_FromStringAndSize, ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t
        )
        self._set = _function(
            api._PyEval_SetTrace, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.py_object
        )
        self._tracer_at = self._ident_at = self.trampoline = 0
        self._learn_layout()

    def _learn_layout(self) -> None:
        """Find the fields of a thread state by values that must be in them."""

        def mark(*_: object) -> None:
            pass

        state, tracer = self._current(), sys.gettrace()
        # No Python function may be called or left between the two changes: a tracer would notice.
        before = memoryview(self._copy(state, _WORDS * _WORD)).cast("P")
        sys.settrace(mark)
        after = memoryview(self._copy(state, _WORDS * _WORD)).cast("P")
        word = -1
        for index in range(2, _WORDS):
            if after[index] == id(mark):
                word = index
        function = before[word - 2]
        if tracer is None or word < 0:
            sys.settrace(tracer)
        else:
            self._set(state, function, tracer)
        idents = [index for index in range(_WORDS) if before[index] == get_ident()]
        if word < 0 or not idents:
            raise LayoutUnknown("the fields of a thread state were not found")
        self._tracer_at = word * _WORD
        self._ident_at = idents[0] * _WORD
        self.trampoline = after[word - 2]

    def current(self) -> int:
        """The state of the calling thread."""
        state: int = self._current()
        return state

    def all(self) -> list[int]:
        """The states of all threads."""
        return list(self._walk())

    def ident(self, state: int) -> int | None:
        """The ident of a thread; None if it is gone."""
        words = self._words(state)
        return None if words is None else words[self._ident_at // _WORD]

    def tracing(self, state: int) -> Tracing | None:
        """The tracer of a thread; None if the thread is gone."""
        addresses = map(self._tracer_at.__add__, filter(state.__eq__, self._walk()))
        try:
            found = list(map(attrgetter("value"), map(ctypes.py_object.from_address, addresses)))
        except ValueError:  # a null pointer
            return 0, None
        words = self._words(state)
        if not found or words is None:
            return None
        return words[self._tracer_at // _WORD - 2], found[0]

    def trace(self, state: int, function: int, tracer: object) -> None:
        """Let `function(tracer, ...)` trace a thread; if `function` is 0, nothing traces it."""
        value = tracer if function else _NULL
        alive = filter(state.__eq__, self._walk())
        deque(map(self._set, alive, repeat(function), repeat(value)), maxlen=0)

    def _words(self, state: int) -> memoryview[int] | None:
        alive = filter(state.__eq__, self._walk())
        copies = list(map(self._copy, alive, repeat(_WORDS * _WORD)))
        return memoryview(copies[0]).cast("P") if copies else None

    def _walk(self) -> Iterator[int]:
        heads = map(self._head, (self._interpreter,))
        return takewhile(truth, accumulate(chain(heads, repeat(0)), self._next))


def _function(function: Any, result: Any, *arguments: Any) -> Any:
    function.restype = result
    function.argtypes = arguments
    return function
