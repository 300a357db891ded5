"""A call of a function to plain values: its arguments, its signature, where it came from.

Runs on the calling thread; values pass through `snapshot`, no user code runs here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from inspect import CO_VARARGS, CO_VARKEYWORDS
from itertools import chain, islice, repeat
from operator import itemgetter
from types import CodeType, FrameType, FunctionType
from typing import Any, TypeVar

from pytest_cideldill.rendering.display import LONGEST_KEPT, Kept, Lens
from pytest_cideldill.rendering.exception_text import message_of
from pytest_cideldill.rendering.layout import NUMBERS, type_name

_T = TypeVar("_T")
_NOTHING: dict[str, Any] = {}


class DottedPath(str):
    """`module.Class.method`: where a function is defined, whatever it was renamed to.

    Attributes:
        module: Where the module ends in it.
        file: The `co_filename`.
    """

    __slots__ = ("file", "module")

    file: str
    module: str

    @classmethod
    def of(cls, module: str, qualname: str, file: str) -> DottedPath:
        """That of a function of a module."""
        path = cls(f"{module}.{qualname}")
        path.module, path.file = module, file
        return path


def module_name(function: FunctionType) -> str:
    """The module that a function's globals belong to (decorators may change `__module__`)."""
    name = dict.get(function.__globals__, "__name__")  # a subclass may have a `get` of its own
    return name if type(name) is str else "?"


def describe_call(
    path: str,
    code: CodeType,
    signature: str,
    arguments: tuple[tuple[Any, ...], dict[str, Any]],
    caller: FrameType | None,
    lens: Lens,
) -> dict[str, Any]:
    """The `call_data` of a pause.

    Args:
        signature: As text.
        caller: The frame that called, None at the bottom of a thread.
    """
    args, kwargs = arguments
    names, most = code.co_varnames[: code.co_argcount], lens.limits.max_items
    return {
        "method_name": path.rpartition(".")[2],
        "qualified_name": path,
        "pretty_args": [
            lens.show(value, name)
            for name, value in zip(chain(names, repeat("")), args[:most], strict=False)
        ],
        "pretty_kwargs": {
            name: lens.show(value, name) for name, value in islice(kwargs.items(), most)
        },
        "argument_count": len(args) + len(kwargs),
        "signature": signature,
        "call_site": None if caller is None else lens.place(caller, caller.f_lineno),
        "process_pid": os.getpid(),
    }


class Parameters:
    """The parameters of a code object, to take the arguments of its calls."""

    __slots__ = (
        "_edition",
        "_has_more",
        "_keep",
        "_keyword_only",
        "_most",
        "_positional",
        "_redactor",
        "_star",
        "_stars",
    )

    def __init__(self, code: CodeType, lens: Lens) -> None:
        names = iter(code.co_varnames)
        # With whether values may be kept as they are.
        self._positional = tuple((name, True) for name in islice(names, code.co_argcount))
        self._keyword_only = tuple(islice(names, code.co_kwonlyargcount))
        self._star = next(names) if code.co_flags & CO_VARARGS else None
        self._stars = next(names) if code.co_flags & CO_VARKEYWORDS else None
        self._has_more = bool(self._keyword_only or self._star or self._stars)
        self._keep, self._redactor = lens.keep, lens.redactor
        self._most = lens.limits.max_items
        self._edition = -1

    def taking(self, longest: int) -> Callable[[Mapping[str, Any]], tuple[Any, ...] | None]:
        """A function that takes the arguments of a call that has just begun; on the hot path.

        It gives None unless all of them are numbers and strings below so many characters, under
        names that may be shown: `kept` and `Objects.freeze` leave these as they are.
        """
        redactor, names = self._redactor, [name for name, _ in self._positional]
        is_sensitive, may_be, numbers = redactor.name_is_sensitive, not self._has_more, NUMBERS
        edition, are_shown, take = -1, False, _taker(names)

        def taken(values: Mapping[str, Any]) -> tuple[Any, ...] | None:
            nonlocal edition, are_shown
            if edition != redactor.edition:
                edition, are_shown = redactor.edition, may_be and not any(map(is_sensitive, names))
            if not are_shown:
                return None
            args = take(values)
            for value in args:
                if (kind := type(value)) is not int and not (
                    len(value) < longest if kind is str else id(kind) in numbers
                ):
                    return None
            return args

        return taken

    def kept(self, values: Mapping[str, Any]) -> tuple[Sequence[Kept], Mapping[str, Kept]]:
        """Positional and keyword arguments of a call that has just begun; on the hot path."""
        if self._edition != self._redactor.edition:
            self._look_at_names()
        keep, longest = self._keep, LONGEST_KEPT
        args = tuple(
            [
                value
                if is_shown
                and (
                    (kind := type(value := values[name])) is int
                    or (len(value) < longest if kind is str else id(kind) in NUMBERS)
                )
                else keep(values[name], name)
                for name, is_shown in self._positional
            ]
        )
        return self._with_more(args, values, keep) if self._has_more else (args, _NOTHING)

    def frozen(
        self, values: Mapping[str, Any], freeze: Callable[[object, str], _T]
    ) -> tuple[Sequence[_T], Mapping[str, _T]]:
        """The same arguments, for `Objects.identify`; on the hot path."""
        args = tuple([freeze(values[name], name) for name, _ in self._positional])
        return self._with_more(args, values, freeze) if self._has_more else (args, _NOTHING)

    def _with_more(
        self, args: tuple[_T, ...], values: Mapping[str, Any], take: Callable[[object, str], _T]
    ) -> tuple[Sequence[_T], Mapping[str, _T]]:
        kwargs = {name: take(values[name], name) for name in self._keyword_only}
        if self._star is not None:
            args += tuple([take(value, "") for value in islice(values[self._star], self._most)])
        if self._stars is not None:
            more = islice(values[self._stars].items(), self._most)
            kwargs |= {name: take(value, name) for name, value in more}
        return args, kwargs

    def _look_at_names(self) -> None:
        """What has a sensitive name is hidden, whatever it is."""
        self._edition = self._redactor.edition
        is_sensitive = self._redactor.name_is_sensitive
        self._positional = tuple((name, not is_sensitive(name)) for name, _ in self._positional)


def _taker(names: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """A function that gives the values of some names."""
    if len(names) > 1:
        return itemgetter(*names)
    (name,) = names or ("",)
    return (lambda values: (values[name],)) if names else lambda _values: ()


def raised(error: BaseException, lens: Lens) -> dict[str, str]:
    """`{type, message}` of an exception, from its data: `str` of it would run the user's code."""
    return {"type": type_name(error), "message": message_of(error, lens)}


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
