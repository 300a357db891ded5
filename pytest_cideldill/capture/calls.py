"""A call of a function to plain values: its arguments, its signature, where it came from.

Runs on the calling thread; values pass through `snapshot`, no user code runs here.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import CO_VARARGS
from inspect import CO_VARKEYWORDS
from itertools import chain
from itertools import islice
from itertools import repeat
from os import getpid as _getpid  # tests patch `os`
from types import CodeType
from types import FrameType
from types import FunctionType
from typing import Any

from pytest_cideldill.capture.lens import Lens

MAX_ARGUMENTS = 100
"""Arguments told of each kind (contract, section 8: items per collection)."""


def dotted_path(function: FunctionType, code: CodeType) -> str:
    """`module.Class.method`: where a function is defined, whatever it was renamed to."""
    return f"{module_name(function)}.{code.co_qualname}"


def module_name(function: FunctionType) -> str:
    """The module that a function's globals belong to (decorators may change `__module__`)."""
    name = function.__globals__.get("__name__")
    return name if type(name) is str else "?"


def describe_call(
    function: FunctionType,
    code: CodeType,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    caller: FrameType | None,
    lens: Lens,
) -> dict[str, Any]:
    """The `call_data` of the contract's pause.

    Args:
        function: The intercepted function.
        code: Its original code object.
        args: Positional arguments as bound.
        kwargs: Keyword arguments as bound.
        caller: The frame that called, None at the bottom of a thread.
        lens: Shows the values.
    """
    names = code.co_varnames[: code.co_argcount]
    site = None
    if caller is not None:
        site = lens.place(caller, caller.f_lineno)
    return {
        "method_name": code.co_name,
        "qualified_name": dotted_path(function, code),
        "pretty_args": [
            lens.show(value, name)
            for name, value in zip(chain(names, repeat("")), args[:MAX_ARGUMENTS], strict=False)
        ],
        "pretty_kwargs": {
            name: lens.show(value, name) for name, value in islice(kwargs.items(), MAX_ARGUMENTS)
        },
        "argument_count": len(args) + len(kwargs),
        "signature": signature_text(function, code, lens),
        "call_site": site,
        "process_pid": _getpid(),
    }


def arguments_text(frame: FrameType, show: Callable[[object, str], str]) -> str:
    """`a=1, b='x'`: the parameters of a call that has just begun."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    values = frame.f_locals
    return ", ".join(
        f"{name}={show(values[name], name)}" for name in code.co_varnames[:count] if name in values
    )


def signature_text(function: FunctionType, code: CodeType, lens: Lens) -> str:
    """The parameters and their defaults as source text, from the code object alone.

    Unlike `inspect.signature` it runs no user code; annotations are left out.
    """
    positional = code.co_varnames[: code.co_argcount]
    keyword_only = code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
    defaults = function.__defaults__ or ()
    rest = list(code.co_varnames[code.co_argcount + code.co_kwonlyargcount :])
    parts = []
    for index, name in enumerate(positional):
        default = index - (len(positional) - len(defaults))
        parts.append(f"{name}={lens.show(defaults[default], name)}" if default >= 0 else name)
        if index + 1 == code.co_posonlyargcount:
            parts.append("/")
    if code.co_flags & CO_VARARGS:
        parts.append("*" + rest.pop(0))
    elif keyword_only:
        parts.append("*")
    named = function.__kwdefaults__ or {}
    for name in keyword_only:
        parts.append(f"{name}={lens.show(named[name], name)}" if name in named else name)
    if code.co_flags & CO_VARKEYWORDS:
        parts.append("**" + rest.pop(0))
    return f"({', '.join(parts)})"
