"""Intercepts calls by swapping a function's `__code__` for a trampoline.

Owns the receivers of trampolines' calls, and recognizes and undoes trampolines; must not know what
is done with a call. Runs in the process under test: swaps on the thread that binds breakpoints,
receives calls on the threads of the program.
"""

from __future__ import annotations

import inspect
import os.path
import sys
from collections.abc import Callable
from types import (
    AsyncGeneratorType,
    CellType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
)
from typing import Any, Final
from weakref import ref

from pytest_cideldill.interpreter.frame_locals import GENERATORS, read_locals
from pytest_cideldill.patching.code_layout import function_of
from pytest_cideldill.patching.function_code import code_of
from pytest_cideldill.patching.trampolines import (
    SENTINEL,
    CannotIntercept,
    TrampolineParameters,
    make,
)

OnCall = Callable[[FrameType, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]

PASS: Final = object()
"""`on_call` returns it for a call that goes on as if it were not intercepted."""

FRAMES: Final = 3
"""Python frames of such a call; without us it is one."""

_KINDS: Final = {
    inspect.CO_GENERATOR: GeneratorType,
    inspect.CO_COROUTINE: CoroutineType,
    inspect.CO_ASYNC_GENERATOR: AsyncGeneratorType,
}
_getframe: Final = sys._getframe

# `warnings` leaves frames of the import system out when it counts the stack levels, and knows them
# by these words in the name of the file.
_FILE: Final = os.path.join(os.path.dirname(__file__), "importlib._bootstrap", "interpose.py")


def intercept(
    function: FunctionType, on_call: OnCall, wants: Callable[[], object] = lambda: True
) -> Callable[[], None]:
    """Send calls of `function` through `on_call` until the returned undo is called.

    `on_call(frame, original, args, kwargs)` runs on the calling thread after the arguments were
    bound. `frame` is the trampoline's frame: its locals are the parameters. `original` runs the
    original code object and needs all arguments, as no defaults apply to it any more. The result or
    exception of `on_call` is the outcome of the call, unless it is `PASS`. As long as `wants()`
    returns None, `on_call` is not called, which is cheaper.

    A generator function is intercepted when it is called, before the generator is made; the same
    goes for coroutine functions. The outcome must then be of the type that `makes` returns.

    Returns:
        The undo: idempotent, and without effect if other code has swapped the code again.

    Raises:
        CannotIntercept: Not a Python function, intercepted already, or of an unknown make.
    """
    if type(function) is not FunctionType:
        name = getattr(function, "__qualname__", None) or repr(function)
        raise CannotIntercept(name, f"it is a {type(function).__name__}, not a Python function")
    code = code_of(function)
    if is_trampoline(code):
        raise CannotIntercept(code.co_qualname, "it is intercepted already")
    trampoline = make(code, _Swapped(function, on_call, wants))
    function.__code__ = trampoline
    alive = ref(function)

    def undo() -> None:
        function = alive()
        if function is not None and code_of(function) is trampoline:
            function.__code__ = code

    return undo


def arguments_of(frame: FrameType) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments, from the present locals of a trampoline's frame.

    Raises:
        TypeError: `*args` or `**kwargs` was assigned a value that can't be unpacked.
    """
    parameters = TrampolineParameters.of(frame.f_code)
    values = read_locals(frame)
    args = tuple(values[name] for name in parameters.positional)
    if parameters.var_positional is not None:
        args += tuple(values[parameters.var_positional])
    kwargs = {name: values[name] for name in parameters.keyword_only}
    if parameters.var_keyword is not None:
        kwargs.update(values[parameters.var_keyword])
    return args, kwargs


def is_trampoline(code: CodeType) -> bool:
    """Whether `code` is one of our trampolines, which carry the user's file name and line."""
    # Without a further call or a comparison, as this runs at each recorded call.
    kind = type(consts[-1]) if (consts := code.co_consts) else None
    return kind is _Swapped or kind is Planted


def original_code(code: CodeType) -> CodeType:
    """The code object that a trampoline replaces; any other code object itself."""
    original: CodeType = code.co_consts[-1].original if is_trampoline(code) else code
    return original


def is_stand_in(function: FunctionType) -> bool:
    """Whether `function` is one that `on_call` gets as `original`, and not one of the user's."""
    return function.__name__ == SENTINEL


def makes(code: CodeType) -> type | None:
    """The type that calls of a function with this code make first: a generator, a coroutine."""
    return _KINDS.get(code.co_flags & GENERATORS)


def stand_in(code: CodeType, globals_: dict[str, Any], cells: tuple[CellType, ...]) -> FunctionType:
    """A function that runs original code. It has a name of its own; tracebacks show the code's."""
    return FunctionType(code, globals_, SENTINEL, None, cells)


class _Receiver:
    """The constant in a trampoline's code that receives its calls, and marks it as a trampoline."""

    __slots__ = ("_makes", "_on_call", "_plain", "_wants", "original")

    def __init__(self, code: CodeType, on_call: OnCall, wants: Callable[[], object]) -> None:
        self.original = code
        self._on_call = on_call
        self._wants = wants
        self._makes: Any = makes(code)
        # A function without free variables is the same for every call: made once.
        self._plain: FunctionType | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Let a function that is pickled by value call its original wherever it is unpickled."""
        return _passing, (self.original,)


class _Swapped(_Receiver):
    """Receives the calls of one function."""

    __slots__ = ("_function", "_globals")

    def __init__(
        self, function: FunctionType, on_call: OnCall, wants: Callable[[], object]
    ) -> None:
        super().__init__(code_of(function), on_call, wants)
        self._globals = function.__globals__
        self._function = ref(function)  # weak: it refers to us, and the cycle would stay
        if not self.original.co_freevars:
            self._plain = stand_in(self.original, self._globals, ())

    def call(
        self, cells: tuple[CellType, ...] | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        __tracebackhide__ = True
        original = self._plain
        if original is None:
            original = stand_in(self.original, self._globals, cells or ())
        result: Any = PASS
        if self._wants() is not None:
            result = self._on_call(_getframe(1), original, args, kwargs)
        if result is PASS:
            result = original(*args, **kwargs)
        if type(result) is self._makes and result.__name__ == SENTINEL:
            _rename(result, self._function(), self.original)
        return result

    call.__code__ = call.__code__.replace(co_filename=_FILE)


class Planted(_Receiver):
    """Receives the calls of all functions that are made from its trampoline."""

    __slots__ = ()

    def call(
        self, cells: tuple[CellType, ...] | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        __tracebackhide__ = True
        frame = _getframe(1)
        original = self._plain
        if original is None or original.__globals__ is not frame.f_globals:
            original = stand_in(self.original, frame.f_globals, cells or ())
            if cells is None:
                self._plain = original
        result: Any = PASS
        if self._wants() is not None:
            result = self._on_call(frame, original, args, kwargs)
        if result is PASS:
            result = original(*args, **kwargs)
        if type(result) is self._makes and result.__name__ == SENTINEL:
            _rename(result, function_of(frame), self.original)
        return result

    call.__code__ = call.__code__.replace(co_filename=_FILE)


def _rename(made: Any, function: FunctionType | None, code: CodeType) -> None:
    """Give a generator the name of its function instead of the stand-in's."""
    made.__name__ = code.co_name if function is None else function.__name__
    made.__qualname__ = code.co_qualname if function is None else function.__qualname__


def _passing(code: CodeType) -> Planted:
    return Planted(code, lambda *_: PASS, lambda: None)


TAKEN: Final = FRAMES if sys.version_info >= (3, 12) else 8
"""Frames of an intercepted call. Before 3.12 each call is passed on, to be recorded."""

_MOST: Final = 2**31 - 1 if sys.version_info >= (3, 12) else 12_000
"""The limit is never raised beyond this: on 3.11 an interception takes room on the C stack."""


class Headroom:
    """Raises the recursion limit, so that a program reaches the same depth as without us."""

    def __init__(self) -> None:
        self._limits: tuple[int, int] | None = None

    def set(self, *, wanted: bool) -> None:
        """Raise the limit, or put it back unless the program has set another one meanwhile."""
        if wanted is (self._limits is not None):
            return
        limit = sys.getrecursionlimit()
        if self._limits is None:
            raised = max(limit, min(limit * TAKEN, _MOST))
            self._limits = (limit, raised)
            sys.setrecursionlimit(raised)
            return
        before, raised = self._limits
        self._limits = None
        if limit == raised:
            try:
                sys.setrecursionlimit(before)
            except RecursionError:
                pass  # this thread is deeper than the old limit
