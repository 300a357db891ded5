"""Makes the Python function that stands for a callable without Python code, and calls it.

It is intercepted like any other function (`code_swap`). Runs in the process under test.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from keyword import iskeyword
from types import BuiltinFunctionType, CodeType, FunctionType, MethodDescriptorType
from typing import Any, Final

from pytest_cideldill.patching.code_swap import stand_in

_SENTINEL: Final = "\0original"

_TEMPLATE: Final = """\
def _stand_in_({params}):
    __tracebackhide__ = True
    return {sentinel!r}.call({passed})
"""

_LITERAL: Final = (type(None), bool, int, float, str, bytes)

_LOOKS_AROUND: Final = {
    "builtins": frozenset(
        {"__build_class__", "__import__", "breakpoint", "dir", "eval", "exec", "globals", "locals",
         "vars"}
    ),
    "sys": frozenset({"_getframe", "_getframemodulename"}),
}  # fmt: skip


class Original:
    """The callable behind a wrapper; the last constant in the code of the wrapper's function.

    Attributes:
        signature: Its signature; None if it has none.
    """

    __slots__ = ("call", "signature")

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call
        self.signature = _signature(call)

    @property
    def signature_text(self) -> str | None:
        """Parameters and defaults as text; no code of the program runs."""
        if self.signature is None:
            return None
        shown = [_plain(parameter) for parameter in self.signature.parameters.values()]
        return str(inspect.Signature(shown))


def original_of(code: CodeType) -> Original | None:
    """The callable that the Python function of a wrapper calls; None for all other code."""
    consts = code.co_consts
    last = consts[-1] if consts else None
    return last if type(last) is Original else None


def why_not(value: object) -> str | None:
    """The reason why a callable may not be wrapped; None if it may."""
    name = getattr(value, "__name__", "") if type(value) is BuiltinFunctionType else ""
    module = getattr(value, "__module__", "") if name else ""
    if name in _LOOKS_AROUND.get(module or "", ()):
        return "it looks at the frame that calls it, which would be another one"
    return None


def substitute(original: Original, path: str, names: dict[str, Any]) -> FunctionType:
    """Make a Python function that calls the original with exactly its own arguments.

    Parameters that every call must pass have their names; the others are `*args` and `**kwargs`.
    """
    parameters = list(original.signature.parameters.values()) if original.signature else None
    named = _required(parameters or [])
    declared = [parameter.name for parameter in named]
    only = sum(parameter.kind is parameter.POSITIONAL_ONLY for parameter in named)
    passed = list(declared)
    if only:
        declared.insert(only, "/")
    if parameters is None or len(named) < len(parameters):
        declared += ["*args", "**kwargs"]
        passed += ["*args", "**kwargs"]
    source = _TEMPLATE.format(
        params=", ".join(declared), passed=", ".join(passed), sentinel=_SENTINEL
    )
    module = compile(source, f"<{path}>", "exec", dont_inherit=True)
    code = next(constant for constant in module.co_consts if type(constant) is CodeType)
    consts = [original if constant == _SENTINEL else constant for constant in code.co_consts]
    qualname = path.removeprefix(f"{names.get('__name__')}.")
    made = code.replace(
        co_name=path.rpartition(".")[2], co_qualname=qualname, co_consts=(*consts, original)
    )
    return stand_in(made, names, ())


def _required(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """The first parameters, up to one that has a default or can't be passed by position."""
    found: list[inspect.Parameter] = []
    names = {parameter.name for parameter in parameters}
    if names & {"args", "kwargs", "__tracebackhide__"}:
        return found
    for parameter in parameters:
        by_position = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        if not by_position or parameter.default is not parameter.empty or iskeyword(parameter.name):
            break
        found.append(parameter)
    return found


def _signature(call: Callable[..., Any]) -> inspect.Signature | None:
    # Of these it comes from a text that they carry; of others it may run the program's code.
    if type(call) not in (BuiltinFunctionType, MethodDescriptorType):
        return None
    try:
        return inspect.signature(call)
    except (TypeError, ValueError):
        return None


def _plain(parameter: inspect.Parameter) -> inspect.Parameter:
    if parameter.default is parameter.empty or type(parameter.default) in _LITERAL:
        return parameter
    return parameter.replace(default=_Shown())


class _Shown:
    """Replaces a default that is no literal."""

    def __repr__(self) -> str:
        return "…"


def fitting(code: CodeType) -> Callable[[tuple[Any, ...], dict[str, Any]], bool]:
    """Whether arguments can be bound to the parameters of a stand-in."""
    required = code.co_varnames[: code.co_argcount]
    positional_only = code.co_posonlyargcount
    takes_more = bool(code.co_flags & inspect.CO_VARARGS)
    count = len(required)

    def fits(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        given = len(args)
        if not kwargs:
            return given == count or (takes_more and given > count)
        if not takes_more and (given > count or not kwargs.keys() <= {*required}):
            return False
        return (
            given >= positional_only
            and all(name in kwargs for name in required[given:])
            and not any(name in kwargs for name in required[:given])
        )

    return fits
