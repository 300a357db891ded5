"""Attributes that a breakpoint's name leads to when no `def` has that name.

A class means its `__init__`, an alias or a `partial` the function behind it; a callable of C has no
function, so its attribute is replaced (`patching.builtin_wrapper`). Under the manager's lock; looks
names up in modules that are loaded, and runs no code of the program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Container, Iterator
from types import FunctionType, ModuleType
from typing import Any, Final

from pytest_cideldill.interpreter.code_files import file_of
from pytest_cideldill.interpreter.loaded_names import (
    AttributePlace,
    class_dict_of,
    file_of_module,
    find_in_bases,
    is_kind,
    loaded_prefixes,
    module_dict_of,
    walk,
)
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.patching.builtin_wrapper import Wrapping, wrapping_function
from pytest_cideldill.patching.function_code import code_of
from pytest_cideldill.patching.substitute import why_not
from pytest_cideldill.probes.behaviors import FunctionProbe
from pytest_cideldill.probes.naming import Naming, behind, implementations
from pytest_cideldill.project import Project
from pytest_cideldill.sourcecode.names import FunctionName, Precision, method_of_c

_HEAP_TYPE: Final = 1 << 9
_IMMUTABLE_TYPE: Final = 1 << 8

_WRAPPED_IN_CLASSES: Final = frozenset(
    {"builtin_function_or_method", "method_descriptor", "staticmethod", "partial",
     "_lru_cache_wrapper", "cython_function_or_method"}
)  # fmt: skip

_flags_of: Final = type.__dict__["__flags__"].__get__


@dataclass(frozen=True, slots=True)
class Lead:
    """A function that a name leads to.

    Attributes:
        only: Calls for instances of this class are meant only; None: all.
    """

    function: FunctionType
    only: type | None = None


class _Unreachable(Exception):
    """What a name leads to can't be intercepted; the message says why, and the way out."""


class Attributes:
    """Finds the functions behind attributes that breakpoints name, or replaces the attributes.

    Args:
        project: Bare names mean user code.
    """

    def __init__(self, project: Project, naming: Naming) -> None:
        self._project = project
        self._naming = naming
        # Breakpoint → the attribute that it has replaced.
        self._wrapped: dict[str, tuple[FunctionName, Wrapping, Lead]] = {}
        self.refusals: dict[str, str] = {}
        """Breakpoint → why what it leads to can't be intercepted; the first reason."""

    def follow(
        self, breakpoints: Collection[FunctionProbe], defined: Container[str]
    ) -> dict[str, list[Lead]]:
        """The functions that names lead to now, by breakpoint.

        Attributes that were replaced for others are put back.

        Args:
            defined: Ids of those whose names a definition has; only what a `singledispatch`
                function of that name calls is added to it.
        """
        self.refusals.clear()
        wanted = {each.id: each for each in breakpoints if each.id not in defined}
        for id, (name, wrapping, _) in [*self._wrapped.items()]:
            if id not in wanted or wanted[id].name != name:
                del self._wrapped[id]
                wrapping.undo()
        return {
            each.id: list(self._leads(each) if each.id in wanted else self._dispatched(each))
            for each in breakpoints
        }

    def _dispatched(self, breakpoint: FunctionProbe) -> Iterator[Lead]:
        for place in self._places(breakpoint.name):
            for implementation in implementations(place.value):
                yield Lead(implementation)

    def _leads(self, breakpoint: FunctionProbe) -> Iterator[Lead]:
        known = self._wrapped.get(breakpoint.id)
        if known is not None:
            yield known[2]
            return
        for place in self._places(breakpoint.name):
            try:
                yield from self._from(place, breakpoint)
            except _Unreachable as reason:
                self.refusals.setdefault(breakpoint.id, str(reason))

    # --- where ------------------------------------------------------------------------------

    def _places(self, name: FunctionName) -> Iterator[AttributePlace]:
        if name.precision is Precision.BARE:
            for module in self._naming.user_modules():
                value = module_dict_of(module).get(name.target)
                if self._is_own(module, value):
                    yield AttributePlace(
                        module, name.target, f"{module.__name__}.{name.target}", value
                    )
        elif name.precision is Precision.EXACT and "<" not in name.target:
            for module, rest in self._starts(name):
                place = walk(module, rest)
                if place is not None:
                    yield place
                    return

    def _is_own(self, module: ModuleType, value: object) -> bool:
        """Whether what a module of the user holds is user code: its class, a function."""
        if is_kind(value, type):
            names = module_dict_of(module)
            return bool(class_dict_of(value).get("__module__") == names.get("__name__"))
        function = behind(value)
        is_function = type(function) is FunctionType
        return is_function and self._project.is_user(
            file_of(code_of(function), function.__globals__)
        )

    def _starts(self, name: FunctionName) -> Iterator[tuple[ModuleType, list[str]]]:
        """Modules that a name may begin with, and what is left of it."""
        parts, least = name.target.split("."), 1
        if name.path is not None:
            for module in list(sys.modules.values()):
                file = file_of_module(module)
                if file is not None and name.is_in(self._project.relative(file)):
                    yield module, parts
            return
        if name.module is not None:
            of_module = name.module.split(".")
            parts, least = [*of_module, *parts], len(of_module)
        for start, rest in loaded_prefixes(parts, least):
            if is_kind(start, ModuleType):
                yield start, rest
        if name.module is None:
            yield sys.modules["builtins"], parts

    # --- what is there ----------------------------------------------------------------------

    def _from(self, place: AttributePlace, breakpoint: FunctionProbe) -> Iterator[Lead]:
        standing = wrapping_function(place.value)
        if standing is not None:
            yield Lead(standing)
            return
        function = behind(place.value)
        if type(function) is FunctionType:
            if not self._project.is_ours(code_of(function).co_filename):
                yield Lead(function)
                yield from self._dispatched(breakpoint)
            return
        if is_kind(place.value, type):
            lead = self._init_of(place)
            if lead is not None:
                yield lead
                return
        elif not callable(place.value) or _calls_python(place.value):
            return
        if breakpoint.name.precision is Precision.EXACT:
            yield self._wrap(place, breakpoint)

    def _init_of(self, place: AttributePlace) -> Lead | None:
        """The `__init__` of a class; None: the class is a function of C's by another name."""
        cls = place.value
        owner, init = find_in_bases(cls, "__init__")
        function = behind(init)
        if type(function) is FunctionType:
            return Lead(function, None if owner is cls else cls)
        if _is_made_in_c(cls):
            if place.name != cls.__name__:
                return None
            raise _Unreachable(
                f"{place.path} is a class made in C, and code that asks for it by isinstance would "
                "not find it behind a wrapper: name a function that makes or gets its instances"
            )
        _, new = find_in_bases(cls, "__new__")
        other = f"{place.path}.__new__ or another" if type(behind(new)) is FunctionType else "a"
        raise _Unreachable(
            f"{place.path} has no __init__ in Python, {owner.__name__}'s is made in C: name "
            f"{other} method of it, or a function that makes its instances"
        )

    def _wrap(self, place: AttributePlace, breakpoint: FunctionProbe) -> Lead:
        owner: Any = place.owner
        if is_kind(owner, type):
            flags = _flags_of(owner)
            if not flags & _HEAP_TYPE or flags & _IMMUTABLE_TYPE:
                raise _Unreachable(method_of_c(place.path, str(owner.__name__)))
            if type(place.value).__name__ not in _WRAPPED_IN_CLASSES:
                raise _Unreachable(
                    f"{place.path} is a {type(place.value).__name__} made in C: define a method "
                    "that calls it, or name a function that does"
                )
        reason = why_not(place.value)
        if reason is not None:
            raise _Unreachable(
                f"{place.path} can't be replaced, {reason}: name a function that calls it"
            )
        is_shared: Callable[[ModuleType], bool] = self._naming.is_user
        if is_kind(owner, ModuleType) and self._naming.is_user(owner):
            is_shared = _never  # this name, and not the others that the project has for it
        wrapping = Wrapping(owner, place.name, place.value, place.path, is_shared)
        lead = Lead(wrapping.function)
        self._wrapped[breakpoint.id] = (breakpoint.name, wrapping, lead)
        return lead


def _never(_module: ModuleType) -> bool:
    return False


def _calls_python(value: object) -> bool:
    """Whether calling an object runs a method of its class: a mock, a decorator's object."""
    return type(find_in_bases(type(value), "__call__")[1]) is FunctionType


def _is_made_in_c(cls: type) -> bool:
    """Whether a class was made in C, and not by a `class` statement; a guess from its module."""
    flags = _flags_of(cls)
    if not flags & _HEAP_TYPE or flags & _IMMUTABLE_TYPE:
        return True
    file = file_of_module(sys.modules.get(str(class_dict_of(cls).get("__module__"))))
    return file is not None and not file.endswith(".py")
