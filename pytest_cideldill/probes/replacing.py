"""Functions that are called instead of others: found by name, and of the same signature.

Runs in the process under test; looks names up in modules that are loaded, and runs no user code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import Parameter
from types import FunctionType, ModuleType
from typing import Any

from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.interpreter.loaded_names import is_kind, loaded_prefixes, walk
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.patching.code_swap import is_stand_in, original_code
from pytest_cideldill.patching.function_code import code_of
from pytest_cideldill.patching.substitute import original_of
from pytest_cideldill.patching.trampolines import TrampolineParameters
from pytest_cideldill.probes.naming import Naming
from pytest_cideldill.project import Project
from pytest_cideldill.sourcecode.names import Precision, parse_function_name
from pytest_cideldill.tracing.interface import existing_functions

NOT_LOADED = "not_loaded"

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Replacement:
    """A function that is called instead of another."""

    path: str
    function: Callable[..., Any]


def find_replacement(text: str, project: Project) -> Replacement:
    """The function that a name means.

    Args:
        text: A name as of `breakpoint_add`, but no glob; also a callable of a loaded module.
        project: Bare names mean functions of user code.

    Raises:
        Refusal: `function_not_found`: several functions have that name, or nothing loaded has it
            (`reason: "not_loaded"`).
    """
    try:
        name = parse_function_name(text)
    except ValueError as error:
        raise Refusal(ErrorCode.FUNCTION_NOT_FOUND, str(error), function=text) from error
    if name.precision is Precision.GLOB:
        raise Refusal(
            ErrorCode.FUNCTION_NOT_FOUND, f"{text!r} is a glob; name one function", function=text
        )
    naming, functions = Naming(project), dict[str, FunctionType]()
    for each in existing_functions():
        if is_stand_in(each):
            continue
        code = original_code(code_of(each))
        path = naming.file(each, code)
        file = project.relative(path) if name.path is not None else ""
        is_meant = name.precision is Precision.EXACT or project.is_user(path)
        if is_meant and name.matches(*naming.name(each, code), file):
            functions.setdefault(naming.path(each, code), each)
    if len(functions) == 1:
        ((path, function),) = functions.items()
        return Replacement(path, function)
    if functions:
        several = ", ".join(sorted(functions)[:_MOST_NAMED])
        raise Refusal(
            ErrorCode.FUNCTION_NOT_FOUND,
            f"{text!r} means several functions: {several}; give the dotted path",
            function=text,
        )
    attribute = _attribute(text.replace(":", "."))
    if callable(attribute):
        return Replacement(text, attribute)
    raise Refusal(
        ErrorCode.FUNCTION_NOT_FOUND,
        f"no function {text!r} is loaded; give the dotted path of one that the tests have imported",
        function=text,
        reason=NOT_LOADED,
    )


def check_replacement(text: str, functions: Iterable[FunctionType], project: Project) -> None:
    """Refuse a replacement that can't stand for some functions.

    Raises:
        Refusal: As `find_replacement` and `check_signature`.
    """
    replacement = find_replacement(text, project)
    for function in functions:
        check_signature(replacement, function)


def check_signature(replacement: Replacement, function: FunctionType) -> None:
    """Refuse a replacement of another signature.

    A signature matches when names, kinds, order and the presence of defaults are equal.

    Raises:
        Refusal: `signature_mismatch`, with both signatures, or `reason: "no_signature"`.
    """
    theirs = replacement.function
    if type(theirs) is not FunctionType:
        raise Refusal(
            ErrorCode.SIGNATURE_MISMATCH,
            f"{replacement.path} is no Python function, so its signature is unknown",
            reason="no_signature",
        )
    wanted, given = _shape_wanted(function), _shape(theirs)
    if wanted != given:
        raise Refusal(
            ErrorCode.SIGNATURE_MISMATCH,
            f"{replacement.path}{_text(given)} does not have the signature {_text(wanted)}",
            signature=_text(wanted),
            replacement_signature=_text(given),
        )


_KINDS = {
    Parameter.POSITIONAL_ONLY: "/",
    Parameter.POSITIONAL_OR_KEYWORD: "",
    Parameter.VAR_POSITIONAL: "*",
    Parameter.KEYWORD_ONLY: "=",
    Parameter.VAR_KEYWORD: "**",
}

_Shape = tuple[tuple[str, str, bool], ...]
"""Name, kind (`/`, ``, `*`, `=`, `**`) and whether there is a default, of each parameter."""


def _shape_wanted(function: FunctionType) -> _Shape:
    """The shape of a function, or of the callable of C that it stands for."""
    original = original_of(original_code(code_of(function)))
    if original is None:
        return _shape(function)
    if original.signature is None:
        raise Refusal(
            ErrorCode.SIGNATURE_MISMATCH,
            f"{code_of(function).co_name} is made in C and has no signature: replace "
            "single calls with breakpoint_continue's replacement_function",
            reason="no_signature",
        )
    parameters = original.signature.parameters.values()
    return tuple(
        (each.name, _KINDS[each.kind], each.default is not each.empty) for each in parameters
    )


def _shape(function: FunctionType) -> _Shape:
    parameters = TrampolineParameters.of(original_code(code_of(function)))
    first_default = len(parameters.positional) - len(function.__defaults__ or ())
    shape = []
    for index, name in enumerate(parameters.positional):
        kind = "/" if index < parameters.positional_only else ""
        shape.append((name, kind, index >= first_default))
    if parameters.var_positional is not None:
        shape.append((parameters.var_positional, "*", False))
    named = function.__kwdefaults__ or {}
    shape += [(name, "=", name in named) for name in parameters.keyword_only]
    if parameters.var_keyword is not None:
        shape.append((parameters.var_keyword, "**", False))
    return tuple(shape)


def _text(shape: _Shape) -> str:
    parts: list[str] = []
    kinds = [kind for _, kind, _ in shape]
    for index, (name, kind, has_default) in enumerate(shape):
        if kind == "=" and "*" not in kinds and "*" not in parts:
            parts.append("*")
        stars = kind if kind.startswith("*") else ""
        parts.append(f"{stars}{name}" + ("=…" if has_default else ""))
        if kind == "/" and kinds[index + 1 : index + 2] != ["/"]:
            parts.append("/")
    return f"({', '.join(parts)})"


def _attribute(path: str) -> object:
    """What a dotted path leads to, in modules and classes that are loaded; None: nothing."""
    for module, rest in loaded_prefixes(path.split(".")):
        if is_kind(module, ModuleType):
            place = walk(module, rest)
            value: Any = None if place is None else place.value
            return value.__func__ if is_kind(value, staticmethod) else value
    return None
