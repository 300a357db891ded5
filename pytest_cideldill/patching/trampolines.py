"""Makes trampolines: code objects that replace others and pass their calls to a receiver.

Pure: makes code from code. Must not know where the code is put and what a receiver does.
"""

from __future__ import annotations

import inspect
import sys
from itertools import islice
from types import CodeType
from typing import Final

from pytest_cideldill.interpreter.values import dataclass

# Replaced in the template by the receiver; a method is called on it because calling a string
# literal itself would make the compiler warn.
SENTINEL: Final = "\0cideldill"

_FUNCTION: Final = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS
"""Flags of the code of functions, but not of class bodies and modules."""

# A generator is made by an instruction of its code; the flag of its kind only says what to expect.
# So the trampolines of all kinds are plain code that returns the result of the original: the
# generator itself, with its own frame, and no code of ours runs when it goes on.
_TEMPLATE: Final = """\
def _outer_({cells}):
    def _trampoline_({params}):
        {doc}
        __tracebackhide__ = True
        return {call}
"""


class CannotIntercept(Exception):
    """A function can't be intercepted; the message names it and says why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} can't be intercepted: {reason}.")


def is_function(code: CodeType) -> bool:
    """Whether a code object is that of a function in the source.

    Class bodies, which are functions until they have run, and comprehensions are not.
    """
    is_named = code.co_name == "<lambda>" or not code.co_name.startswith("<")
    return is_named and code.co_flags & _FUNCTION == _FUNCTION


@dataclass(frozen=True, slots=True)
class TrampolineParameters:
    """The parameters of a code object, by kind."""

    positional: tuple[str, ...]
    positional_only: int
    keyword_only: tuple[str, ...]
    var_positional: str | None
    var_keyword: str | None

    @classmethod
    def of(cls, code: CodeType) -> TrampolineParameters:
        names = iter(code.co_varnames)
        positional = tuple(islice(names, code.co_argcount))
        keyword_only = tuple(islice(names, code.co_kwonlyargcount))
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
        """The text of a tuple and of a dict with all arguments."""
        args = [*self.positional]
        if self.var_positional is not None:
            args.append(f"*{self.var_positional}")
        kwargs = [f"{name!r}: {name}" for name in self.keyword_only]
        if self.var_keyword is not None:
            kwargs.append(f"**{self.var_keyword}")
        return f"({''.join(f'{arg}, ' for arg in args)}), {{{', '.join(kwargs)}}}"


def make(code: CodeType, receiver: object) -> CodeType:
    """A code object with the signature, kind, free variables and identity of the original.

    Its last constant is the receiver: `receiver.call(cells, args, kwargs)` gets the calls.

    Raises:
        CannotIntercept: The code is not that of a function, or of an unknown make.
    """
    name = code.co_qualname
    if not is_function(code):
        raise CannotIntercept(name, "it is a class body or a comprehension, not a function")
    if "__tracebackhide__" in TrampolineParameters.of(code).names():
        raise CannotIntercept(name, "it has a parameter named __tracebackhide__")
    try:
        # optimize=0 keeps the docstring under -OO too: the flags copied below may promise one.
        module = compile(_source(code), code.co_filename, "exec", dont_inherit=True, optimize=0)
    except SyntaxError as error:
        raise CannotIntercept(name, "its variable names are not valid Python") from error
    made = _inner(_inner(module))
    if _shape(made) != _shape(code):
        raise CannotIntercept(name, "its code object was not made by the Python compiler")
    made = _relocated(made, code.co_firstlineno, receiver)
    return made.replace(
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_flags=code.co_flags,
        co_consts=(*made.co_consts, receiver),
    )


def _source(code: CodeType) -> str:
    parameters = TrampolineParameters.of(code)
    free = "".join(f"{name}, " for name in code.co_freevars)
    # Only a lambda over the same names gives the running cells; it works in any function object
    # that has this code.
    cells = f"(lambda: ({free})).__closure__" if free else "None"
    return _TEMPLATE.format(
        cells=free,
        params=parameters.declared(),
        doc=_docstring(code),
        call=f"{SENTINEL!r}.call({cells}, {parameters.passed()})",
    )


def _docstring(code: CodeType) -> str:
    first = code.co_consts[0] if code.co_consts else None
    # 3.14 marks code objects with a docstring; before, the first constant is it or None.
    marked = sys.version_info < (3, 14) or bool(code.co_flags & 0x4000000)
    return repr(first) if marked and type(first) is str else "pass"


def _inner(code: CodeType) -> CodeType:
    return next(const for const in code.co_consts if type(const) is CodeType)


def _shape(code: CodeType) -> tuple[object, ...]:
    """The properties that another code object must share to replace this one in a function.

    Cells are positional, so the order of the free variables counts.
    """
    return (TrampolineParameters.of(code), code.co_freevars)


def _relocated(code: CodeType, line: int, receiver: object) -> CodeType:
    """The code, and the code inside it, all on one line and with the sentinel filled in."""
    consts = tuple(
        receiver
        if type(const) is str and const == SENTINEL
        else _relocated(const, line, receiver)
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
