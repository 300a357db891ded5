"""Interception of calls by swapping a function's `__code__` for a trampoline.

Owns what receives the calls of trampolines, and how they are recognised and undone; must not know
what is done with a call. Runs in the process under test: swaps on the thread that commands, calls
on the thread that calls.
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

from pytest_cideldill.interpreter.frame_locals import read_locals
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
"""What `on_call` returns for a call that goes on as if it were not intercepted."""

FRAMES: Final = 3
"""Python frames of such a call; it would be one without us."""

_KINDS: Final = {
    inspect.CO_GENERATOR: GeneratorType,
    inspect.CO_COROUTINE: CoroutineType,
    inspect.CO_ASYNC_GENERATOR: AsyncGeneratorType,
}
_getframe: Final = sys._getframe
_ANY_KIND: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

# `warnings` leaves frames of the import system out when it counts the stack levels, and knows them
# by these words in the name of the file.
_FILE: Final = os.path.join(os.path.dirname(__file__), "importlib._bootstrap", "interpose.py")


def intercept(
    function: FunctionType, on_call: OnCall, wants: Callable[[], object] = lambda: True
) -> Callable[[], None]:
    """Send calls of `function` through `on_call` until the returned undo is called.

    `on_call(frame, original, args, kwargs)` runs on the calling thread after the arguments were
    bound. `frame` is the trampoline's frame: its locals are the parameters. `original` runs the
    original code object and takes the arguments complete, as no defaults apply to it any more. What
    `on_call` returns or raises is the outcome of the call, unless it returns `PASS`. It is not
    asked as long as `wants()` gives None, which is cheaper.

    A generator function is intercepted when it is called, before the generator is made; the same
    goes for coroutine functions. The outcome must be what `makes` says then.

    Returns:
        The undo: idempotent, and without effect if someone swapped the code again meanwhile.

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
    """Positional and keyword arguments as the locals of a trampoline's frame hold them now.

    Raises:
        TypeError: `*args` or `**kwargs` was assigned something that can't be unpacked.
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
    consts = code.co_consts  # not `_receiver_of`: asked for each recorded call
    return bool(consts) and type(consts[-1]) in _RECEIVERS


def original_code(code: CodeType) -> CodeType:
    """The code object that a trampoline stands for; any other code object is returned as it is."""
    receiver = _receiver_of(code)
    return code if receiver is None else receiver.original


def is_stand_in(function: FunctionType) -> bool:
    """Whether `function` is one that `on_call` gets as `original`; no function of the user's."""
    return function.__name__ == SENTINEL


def makes(code: CodeType) -> type | None:
    """What calls of a function with this code make before it runs: a generator, a coroutine."""
    return _KINDS.get(code.co_flags & _ANY_KIND)


def stand_in(code: CodeType, globals_: dict[str, Any], cells: tuple[CellType, ...]) -> FunctionType:
    """Runs original code. Only its own name tells it apart; tracebacks show the code's."""
    return FunctionType(code, globals_, SENTINEL, None, cells)


class _Receiver:
    """The constant inside a trampoline's code that receives its calls, and its recognition mark."""

    __slots__ = ("_makes", "_on_call", "_plain", "_wants", "original")

    def __init__(self, code: CodeType, on_call: OnCall, wants: Callable[[], object]) -> None:
        self.original = code
        self._on_call = on_call
        self._wants = wants
        self._makes: Any = makes(code)
        # A function without free variables is the same for every call: made once.
        self._plain: FunctionType | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """A function that is pickled by value calls its original wherever it is unpickled."""
        return _passing, (self.original,)


class _Swapped(_Receiver):
    """Receives the calls of one function."""

    __slots__ = ("_function", "_globals")

    def __init__(
        self, function: FunctionType, on_call: OnCall, wants: Callable[[], object]
    ) -> None:
        super().__init__(code_of(function), on_call, wants)
        self._globals = function.__globals__
        self._function = ref(function)  # it holds us, in a cycle that is never collected
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
    """Receives the calls of all functions that are made of its trampoline."""

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


_RECEIVERS: Final = (_Swapped, Planted)


def _rename(made: Any, function: FunctionType | None, code: CodeType) -> None:
    """A generator has the name of its function, not that of the stand-in."""
    made.__name__ = code.co_name if function is None else function.__name__
    made.__qualname__ = code.co_qualname if function is None else function.__qualname__


def _passing(code: CodeType) -> Planted:
    return Planted(code, lambda *_: PASS, lambda: None)


def _receiver_of(code: CodeType) -> _Receiver | None:
    consts = code.co_consts
    last = consts[-1] if consts else None
    return last if type(last) in _RECEIVERS else None
