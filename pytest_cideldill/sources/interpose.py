"""Interception of calls by swapping a function's `__code__` for a trampoline.

Owns the making, recognising and undoing of trampolines; must not know what is done with a call.
Runs in the process under test: swaps on the thread that commands, calls on the thread that calls.
"""

from __future__ import annotations

import inspect
import os.path
import sys
from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import dataclass
from types import AsyncGeneratorType
from types import CellType
from types import CodeType
from types import CoroutineType
from types import FrameType
from types import FunctionType
from types import GeneratorType
from typing import Any
from typing import Final
from weakref import ref

OnCall = Callable[[FrameType, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]

PASS: Final = object()
"""What `on_call` returns for a call that goes on as if it were not intercepted."""

FRAMES: Final = 3
"""Python frames of such a call; it would be one without us."""

# Stands in the template for the trampoline object; a method is called on it because calling a
# string literal itself would make the compiler warn.
_SENTINEL: Final = "\0cideldill"

_KINDS: Final = {
    inspect.CO_GENERATOR: GeneratorType,
    inspect.CO_COROUTINE: CoroutineType,
    inspect.CO_ASYNC_GENERATOR: AsyncGeneratorType,
}
_getframe: Final = sys._getframe  # tests patch `sys`
_ANY_KIND: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

_FUNCTION: Final = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS
"""Flags of the code of a function; that of a class body or a module has them not."""

# A generator is made by an instruction of its code; the flag of its kind only tells others what to
# expect. So the trampolines of all kinds are plain code that returns what the original gives: the
# generator itself, with its own frame, and nothing of ours runs when it goes on.
_TEMPLATE: Final = """\
def _outer_({cells}):
    def _trampoline_({params}):
        {doc}
        __tracebackhide__ = True
        return {call}
"""

# `warnings` leaves frames of the import system out when it counts the stack levels, and knows them
# by these words in the name of the file.
_FILE: Final = os.path.join(os.path.dirname(__file__), "importlib._bootstrap", "interpose.py")


class CannotIntercept(Exception):
    """A function can't be intercepted; the message names it and says why."""

    def __init__(self, function: object, reason: str) -> None:
        name = getattr(function, "__qualname__", None) or repr(function)
        super().__init__(f"{name} can't be intercepted: {reason}.")


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
        raise CannotIntercept(function, f"it is a {type(function).__name__}, not a Python function")
    code = function.__code__
    if is_trampoline(code):
        raise CannotIntercept(function, "it is intercepted already")
    trampoline = _make(function, _Trampoline(function, on_call, wants))
    function.__code__ = trampoline
    alive = ref(function)

    def undo() -> None:
        function = alive()
        if function is not None and function.__code__ is trampoline:
            function.__code__ = code

    return undo


def arguments_of(frame: FrameType) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments as the locals of a trampoline's frame hold them now.

    Raises:
        TypeError: `*args` or `**kwargs` was assigned something that can't be unpacked.
    """
    parameters = _Parameters.of(frame.f_code)
    values = frame.f_locals
    args = tuple(values[name] for name in parameters.positional)
    if parameters.var_positional is not None:
        args += tuple(values[parameters.var_positional])
    kwargs = {name: values[name] for name in parameters.keyword_only}
    if parameters.var_keyword is not None:
        kwargs.update(values[parameters.var_keyword])
    return args, kwargs


def is_trampoline(code: CodeType) -> bool:
    """Whether `code` is one of our trampolines, which carry the user's file name and line."""
    return _trampoline_of(code) is not None


def original_code(code: CodeType) -> CodeType:
    """The code object that a trampoline stands for; any other code object is returned as it is."""
    trampoline = _trampoline_of(code)
    return code if trampoline is None else trampoline.original


def is_stand_in(function: FunctionType) -> bool:
    """Whether `function` is one that `on_call` gets as `original`; no function of the user's."""
    return function.__name__ == _SENTINEL


def is_function(code: CodeType) -> bool:
    """Whether functions of this code object are what programs call functions.

    Not so for class bodies, which are functions until they have run, and for comprehensions.
    """
    is_named = code.co_name == "<lambda>" or not code.co_name.startswith("<")
    return is_named and code.co_flags & _FUNCTION == _FUNCTION


def makes(code: CodeType) -> type | None:
    """What calls of a function with this code make before it runs: a generator, a coroutine."""
    return _KINDS.get(code.co_flags & _ANY_KIND)


def _stand_in(
    code: CodeType, globals_: dict[str, Any], cells: tuple[CellType, ...]
) -> FunctionType:
    """Runs original code. Only its own name tells it apart; tracebacks show the code's."""
    return FunctionType(code, globals_, _SENTINEL, None, cells)


class _Trampoline:
    """The constant inside a trampoline's code that receives its calls, and its recognition mark."""

    __slots__ = ("_function", "_globals", "_makes", "_on_call", "_plain", "_wants", "original")

    def __init__(
        self, function: FunctionType, on_call: OnCall, wants: Callable[[], object]
    ) -> None:
        self.original = code = function.__code__
        self._on_call = on_call
        self._wants = wants
        self._makes: Any = makes(code)
        self._globals = function.__globals__
        self._function = ref(function)  # it holds us, in a cycle that is never collected
        # A function without free variables is the same for every call: made once.
        self._plain = None if code.co_freevars else _stand_in(code, self._globals, ())

    def call(
        self, cells: tuple[CellType, ...] | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        __tracebackhide__ = True
        original = self._plain
        if original is None:
            original = _stand_in(self.original, self._globals, cells or ())
        result: Any = PASS
        if self._wants() is not None:
            result = self._on_call(_getframe(1), original, args, kwargs)
        if result is PASS:
            result = original(*args, **kwargs)
        if type(result) is self._makes and result.__name__ == _SENTINEL:
            named: Any = self._function() or self.original
            result.__name__ = named.__name__  # not that of the stand-in
            result.__qualname__ = named.__qualname__
        return result

    call.__code__ = call.__code__.replace(co_filename=_FILE)


@dataclass(frozen=True, slots=True)
class _Parameters:
    """The parameters of a code object, by kind."""

    positional: tuple[str, ...]
    positional_only: int
    keyword_only: tuple[str, ...]
    var_positional: str | None
    var_keyword: str | None

    @classmethod
    def of(cls, code: CodeType) -> _Parameters:
        names = iter(code.co_varnames)
        positional = _take(names, code.co_argcount)
        keyword_only = _take(names, code.co_kwonlyargcount)
        var_positional = next(names) if code.co_flags & inspect.CO_VARARGS else None
        var_keyword = next(names) if code.co_flags & inspect.CO_VARKEYWORDS else None
        return cls(positional, code.co_posonlyargcount, keyword_only, var_positional, var_keyword)

    def names(self) -> tuple[str, ...]:
        stars = (self.var_positional, self.var_keyword)
        return (*self.positional, *self.keyword_only, *(name for name in stars if name))

    def declared(self) -> str:
        """The text between the parentheses of `def`; defaults stay on the function object."""
        parts = list(self.positional)
        if self.positional_only:
            parts.insert(self.positional_only, "/")
        if self.var_positional is not None:
            parts.append(f"*{self.var_positional}")
        elif self.keyword_only:
            parts.append("*")
        parts += self.keyword_only
        if self.var_keyword is not None:
            parts.append(f"**{self.var_keyword}")
        return ", ".join(parts)

    def passed(self) -> str:
        """The text of a tuple and a dict display that hold all arguments."""
        args = [*self.positional]
        if self.var_positional is not None:
            args.append(f"*{self.var_positional}")
        kwargs = [f"{name!r}: {name}" for name in self.keyword_only]
        if self.var_keyword is not None:
            kwargs.append(f"**{self.var_keyword}")
        return f"({''.join(f'{arg}, ' for arg in args)}), {{{', '.join(kwargs)}}}"


def _take(names: Iterator[str], count: int) -> tuple[str, ...]:
    return tuple(next(names) for _ in range(count))


def _trampoline_of(code: CodeType) -> _Trampoline | None:
    consts = code.co_consts
    last = consts[-1] if consts else None
    return last if type(last) is _Trampoline else None


def _make(function: FunctionType, trampoline: _Trampoline) -> CodeType:
    """A code object with the signature, kind, free variables and identity of the original."""
    code = trampoline.original
    if not is_function(code):
        raise CannotIntercept(function, "it is a class body or a comprehension, not a function")
    if "__tracebackhide__" in _Parameters.of(code).names():
        raise CannotIntercept(function, "it has a parameter named __tracebackhide__")
    try:
        # optimize=0 keeps the docstring under -OO too: the flags copied below may promise one.
        module = compile(_source(code), code.co_filename, "exec", dont_inherit=True, optimize=0)
    except SyntaxError as error:
        raise CannotIntercept(function, "its variable names are not valid Python") from error
    made = _inner(_inner(module))
    if _shape(made) != _shape(code):
        raise CannotIntercept(function, "its code object was not made by the Python compiler")
    made = _relocated(made, code.co_firstlineno, trampoline)
    return made.replace(
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_flags=code.co_flags,
        co_consts=(*made.co_consts, trampoline),
    )


def _source(code: CodeType) -> str:
    parameters = _Parameters.of(code)
    free = "".join(f"{name}, " for name in code.co_freevars)
    # A lambda over the same names is the one expression that yields the running cells; it works
    # for whatever function object the code ends up in.
    cells = f"(lambda: ({free})).__closure__" if free else "None"
    return _TEMPLATE.format(
        cells=free,
        params=parameters.declared(),
        doc=_docstring(code),
        call=f"{_SENTINEL!r}.call({cells}, {parameters.passed()})",
    )


def _docstring(code: CodeType) -> str:
    first = code.co_consts[0] if code.co_consts else None
    # 3.14 marks code objects with a docstring; before, the first constant is it or None.
    marked = sys.version_info < (3, 14) or bool(code.co_flags & 0x4000000)
    return repr(first) if marked and type(first) is str else "pass"


def _inner(code: CodeType) -> CodeType:
    return next(const for const in code.co_consts if type(const) is CodeType)


def _shape(code: CodeType) -> tuple[object, ...]:
    """What must be equal for the function object to go on with another code object.

    Cells are positional, so the order of the free variables counts.
    """
    return (_Parameters.of(code), code.co_freevars)


def _relocated(code: CodeType, line: int, trampoline: _Trampoline) -> CodeType:
    """The code, and the code inside it, all on one line and with the sentinel filled in."""
    consts = tuple(
        trampoline
        if type(const) is str and const == _SENTINEL
        else _relocated(const, line, trampoline)
        if type(const) is CodeType
        else const
        for const in code.co_consts
    )
    return code.replace(
        co_consts=consts, co_firstlineno=line, co_linetable=_one_line(len(code.co_code) // 2)
    )


def _one_line(units: int) -> bytes:
    """A location table that puts `units` code units on the first line, without columns.

    An entry is `0x80 | kind << 3 | units - 1` for at most 8 units, kind 13 being "no columns",
    followed by the line delta: CPython's Objects/locations.md.
    """
    table = bytearray()
    while units > 0:
        table += bytes((0x80 | 13 << 3 | min(8, units) - 1, 0))
        units -= 8
    return bytes(table)
