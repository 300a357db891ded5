"""Whether what came from outside has the types that our tables say.

A message is checked by the annotations of its class where it is made (`from_plain`), a line of a
record with all that is nested in it where it is decoded: all code behind that finds texts where
texts should be, and numbers that are finite. What no table names is not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, Final

from pytest_cideldill.protocol.columns import is_series

Check = Callable[[Any], bool]

_MOST: Final = 1 << 64
"""Ids of threads are below that; and every number of ours is finite as a float."""

_LATEST: Final = 253_402_300_799.0
"""Epoch seconds of the last moment of the year 9999."""

_NAMED: Final[dict[str, Check]] = {
    "Any": lambda _value: True,
    "str": lambda value: type(value) is str,
    "bool": lambda value: type(value) is bool,
    "int": lambda value: type(value) is int and -_MOST < value < _MOST,
    # Not as a rule of JSON, but so that NaN compares as false.
    "float": lambda value: type(value) in (float, int) and -_MOST < value < _MOST,
    "Part": lambda value: type(value) is dict and are_parts_right(value),
    "Cids": lambda value: type(value) is dict and misfit(_CIDS, value) is None,
    "Series": is_series,
    "Pause": lambda value: type(value) is dict and misfit(_PAUSE, value) is None,
}

_CIDS: Final[Mapping[str, str]] = {
    "args": "list[str | None]",
    "kwargs": "dict[str, str | None]",
    "result": "str | None",
}

_PAUSE: Final[Mapping[str, str]] = {
    "id": "str",
    "worker": "str",
    "phase": "str",
    "pause_reason": "str",
    "nodeid?": "str | None",
    "breakpoint_id?": "str | None",
    "thread": "dict[str, Any]",
    "location?": "Part | None",
    "call_data?": "Part | None",
    "exception?": "Part | None",
}

_OR_NONE: Final = " | None"


@cache
def check_of(annotation: str) -> Check:
    """The check whether a value of JSON has a type.

    Args:
        annotation: Of `_NAMED`, `list[…]`, `dict[str, …]` and unions of them.
    """
    if annotation.endswith(_OR_NONE):
        check = check_of(annotation.removesuffix(_OR_NONE))
        return lambda value: value is None or check(value)
    if len(alternatives := _alternatives(annotation)) > 1:
        checks = [check_of(alternative) for alternative in alternatives]
        return lambda value: any(check(value) for check in checks)
    if annotation.startswith("list["):
        of_item = check_of(annotation[len("list[") : -1])
        return lambda value: type(value) is list and all(map(of_item, value))
    if annotation.startswith("dict[str, "):
        of_value = check_of(annotation[len("dict[str, ") : -1])
        return lambda value: type(value) is dict and all(map(of_value, value.values()))
    return _NAMED[annotation]


def _alternatives(annotation: str) -> list[str]:
    """The parts between `|` that are in no brackets."""
    found, depth = [""], 0
    for character in annotation.replace(" | ", "|"):
        depth += (character == "[") - (character == "]")
        if character == "|" and not depth:
            found.append("")
        else:
            found[-1] += character
    return [each.replace("|", " | ") for each in found]


def misfit(types: type[Any] | Mapping[str, str], values: Mapping[str, Any]) -> str | None:
    """What is wrong with the fields of a message, or of what is none; None: nothing.

    Args:
        types: A dataclass of this package; or key → type, `?` behind a key that may be absent.
        values: Others are not looked at.
    """
    for name, check, annotation, is_needed in _fields_of(types):
        if name in values:
            if not check(values[name]):
                return f"{name} is no {annotation}"
        elif is_needed:
            return f"{name} is missing"
    return None


_Field = tuple[str, Check, str, bool]

_known: dict[int, tuple[_Field, ...]] = {}


def _fields_of(types: type[Any] | Mapping[str, str]) -> tuple[_Field, ...]:
    """Name, check, type, whether it is needed; both kinds of tables live as long as we do."""
    found = _known.get(id(types))
    if found is None:
        found = _known[id(types)] = tuple(_all_fields(types))
    return found


def _all_fields(types: type[Any] | Mapping[str, str]) -> Iterator[_Field]:
    if isinstance(types, Mapping):
        for name, annotation in types.items():
            yield name.rstrip("?"), check_of(annotation), annotation, not name.endswith("?")
        return
    for field in fields(types):
        is_needed = field.default is MISSING and field.default_factory is MISSING
        yield field.name, check_of(str(field.type)), str(field.type), is_needed


def is_moment(value: Any) -> bool:
    """Whether a number is of epoch seconds that a calendar has."""
    return type(value) in (float, int) and 0.0 <= value <= _LATEST


# --- what is nested in the lines of a record ----------------------------------------------------

_TEXTS: Final = "str | None"
_MAP: Final = "dict[str, str]"
_PARTS: Final = "list[Part] | None"
_TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("file", "function", "name", "type", "message", "value"), "str"),
    **dict.fromkeys(("phase", "category", "outcome", "method_name", "qualified_name"), "str"),
    **dict.fromkeys(("run_id", "call_id", "status", "relation", "explanation"), "str"),
    **dict.fromkeys(("module", "source", "text", "nodeid", "worker", "parent_id"), _TEXTS),
    **dict.fromkeys(("op", "left", "right", "leftExpression", "rightExpression"), _TEXTS),
    **dict.fromkeys(("stackTraceString", "scope", "stdout", "stderr", "log", "longrepr"), _TEXTS),
    **dict.fromkeys(("note", "hint", "why", "last_condition_error", "breakpoint_id"), _TEXTS),
    **dict.fromkeys(("cid", "subtest", "pause_reason", "pretty_result"), _TEXTS),
    **dict.fromkeys(("line", "index", "depth", "totalFrames"), "int"),
    **dict.fromkeys(("userFrameIndex", "throwingFrameIndex", "thread_id"), "int | None"),
    **dict.fromkeys(("condition_errors", "hit_count", "attempt"), "int | None"),
    **dict.fromkeys(("started_at", "completed_at", "duration_s"), "float | None"),
    **dict.fromkeys(("isExternal", "isFirstChance", "whole", "recorded"), "bool | None"),
    **dict.fromkeys(("innerExceptionsTruncated", "passed_code"), "bool | None"),
    **dict.fromkeys(("location", "exception", "assertion", "call_site"), "Part | None"),
    **dict.fromkeys(("autopsy", "call_data", "variables"), "Part | None"),
    **dict.fromkeys(("frames", "arguments", "children", "innerExceptions", "fixtures"), _PARTS),
    **dict.fromkeys(("notes", "defined_in", "pretty_args"), "list[str]"),
    **dict.fromkeys(("parameters", "pretty_kwargs"), _MAP),
    "locals": f"{_MAP} | {_PARTS} | None",
    **dict.fromkeys(("values", "stoppedAt"), f"{_MAP} | None"),
    "cids": "Cids",
    "passes": "int | dict[str, Part]",  # of one breakpoint, and of all
}
"""Key of a nested object → its type, wherever it stands; the values of maps have names of users."""

_NEEDED: Final[Mapping[str, frozenset[str]]] = {
    "exception": frozenset({"type", "message"}),
    "location": frozenset({"file", "line"}),
    "call_site": frozenset({"file", "line"}),
    "frames": frozenset({"function", "location"}),
    "innerExceptions": frozenset({"type", "message"}),
    "arguments": frozenset({"name", "value"}),
    "children": frozenset({"name", "value"}),
    "fixtures": frozenset({"name", "value"}),
}
"""Key → what the object, or each of the objects, that it names must have."""


def are_parts_right(values: Mapping[str, Any]) -> bool:
    """Whether what stands in an object, and in the objects in it, is of the types that we write."""
    kinds, checks = _of_keys()
    for key, value in values.items():  # there may be very many
        if (classes := kinds.get(key)) is not None:
            if type(value) not in classes:
                return False
        elif (check := checks.get(key)) is not None and not check(value):
            return False
    return True


_PLAIN: Final[Mapping[str, frozenset[type]]] = {
    "str": frozenset({str}),
    "str | None": frozenset({str, type(None)}),
    "bool | None": frozenset({bool, type(None)}),
}


@cache
def _of_keys() -> tuple[dict[str, frozenset[type]], dict[str, Check]]:
    """Key → types of its value, where these suffice; key → check of its value, for the others."""
    kinds = {key: _PLAIN[each] for key, each in _TYPES.items() if each in _PLAIN}
    return kinds, {key: _check_of_key(key) for key in _TYPES.keys() - kinds.keys()}


def _check_of_key(key: str) -> Check:
    check, needed = check_of(_TYPES[key]), _NEEDED.get(key)
    if needed is None:
        return check
    return lambda value: check(value) and all(needed <= each.keys() for each in _objects(value))


def _objects(value: Any) -> Iterable[dict[str, Any]]:
    return [each for each in (value if type(value) is list else [value]) if type(each) is dict]
