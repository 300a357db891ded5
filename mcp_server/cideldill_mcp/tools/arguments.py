"""What clients send for a parameter, as a value of its JSON type.

Clients spell values in more ways than JSON Schema has: lists and objects as JSON in a string, one
text for a list of one, numbers and booleans as text, whole floats for integers. What has one
meaning is taken, all else is refused. Knows types, no tools.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

from pydantic_core import from_json

_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
"""A number as JSON spells it."""

_BOOLEANS: Final = {"true": True, "false": False}

_FORMS: Final = ("$eval", "$cid", "$literal")
"""The keys of objects that stand for a value of the program (`breakpoint_continue`)."""

_MARKED: Final = re.compile(r'\s*\[[^\]\["{]*\]\s*[^\s\],]')

_LIKE_A_FORM: Final = re.compile(r"\{\s*[\"']\$")
"""An object that begins with such a key, JSON or not."""


class UnreadableArgument(ValueError):
    """No value of the type: `expected` says which, the text why if that is not obvious."""

    def __init__(self, expected: str, why: object = "") -> None:
        super().__init__(str(why))
        self.expected = expected


def read(given: Any, json_type: str, items: str | None = None) -> Any:
    """The value of a JSON type that is meant.

    Args:
        given: What the client sent.
        json_type: `string | integer | number | boolean | array | object`, or `any`: as it is.
        items: JSON type of an array's items; None: as they are.

    Raises:
        Unreadable: It is none, or may mean several.
    """
    match json_type:
        case "any":
            return given
        case "array":
            return _array(given, items)
        case "object":
            found = _decoded(given, json_type) if isinstance(given, str) else given
            is_one = isinstance(found, dict)
        case "boolean":
            found = _BOOLEANS.get(given, given) if isinstance(given, str) else given
            is_one = isinstance(found, bool)
        case "string":
            found, is_one = given, isinstance(given, str)
        case _:
            found = _number(given, json_type)
            is_one = isinstance(found, int if json_type == "integer" else int | float)
            is_one = is_one and not isinstance(found, bool)
    if not is_one:
        raise UnreadableArgument(json_type)
    return found


def read_values(given: Any) -> Any:
    """A value for the program, in which no `$` form is a mere text.

    Texts that are objects with a `$` key, and lists and objects that hold such, are decoded; those
    inside of a form belong to it.

    Raises:
        Unreadable: Such a text is no JSON, or no form.
    """
    if isinstance(given, str):
        return _value(given)
    if isinstance(given, list):
        return [read_values(item) for item in given]
    if isinstance(given, dict) and not _is_form(given):
        return {key: read_values(item) for key, item in given.items()}
    return given


def _number(given: Any, json_type: str) -> Any:
    """`given`, of another type perhaps, where it is no number."""
    if isinstance(given, str) and _NUMBER.fullmatch(given):
        given = _decoded(given, json_type)
    if isinstance(given, float):
        if not math.isfinite(given):
            raise UnreadableArgument(json_type)
        if json_type == "integer" and given.is_integer():
            return int(given)
    return given


def _array(given: Any, items: str | None) -> list[Any]:
    expected = "array" if items is None else f"array of {items}"
    found = given
    if isinstance(given, str) and given.lstrip().startswith("[") and not _is_marked(given, items):
        found = _decoded(given, expected)
    elif (isinstance(given, dict) and items == "object") or _is_item(given, items):
        found = [given]
    if not isinstance(found, list):
        raise UnreadableArgument(expected)
    try:
        return found if items is None else [read(item, items) for item in found]
    except UnreadableArgument as error:
        raise UnreadableArgument(expected, error) from error


def _is_marked(text: str, items: str | None) -> bool:
    """Whether a text has a mark before it, as node ids may have: `[linux] test_cart.py`."""
    return items == "string" and _MARKED.match(text) is not None


def _is_item(given: Any, items: str | None) -> bool:
    """Whether a text can only be one item: `5` may be a number for a list of anything."""
    if not isinstance(given, str) or not given.strip():
        return False
    if items == "object":
        return True
    try:
        found = from_json(given)
    except ValueError:
        return items is not None or not _LIKE_A_FORM.match(given.lstrip())
    return items is not None and not isinstance(found, dict)


def _value(text: str) -> Any:
    """A text that is a form, or holds one as JSON, as that; else the text."""
    if "$" not in text or not text.lstrip().startswith(("{", "[")):
        return text
    expected = 'value: {"$eval": "…"}, {"$cid": "…"} or, for this text as it is, {"$literal": "…"}'
    try:
        found = from_json(text)
    except ValueError as error:
        if _LIKE_A_FORM.search(text):
            raise UnreadableArgument(expected, error) from error
        return text
    has_forms = _check_forms(found, expected)
    return found if has_forms else text


def _check_forms(found: Any, expected: str) -> bool:
    """Whether there is any form in a decoded text.

    Raises:
        Unreadable: There is an object with a `$` key that is none.
    """
    if _is_form(found):
        return True
    if isinstance(found, dict) and any(key.startswith("$") for key in found):
        raise UnreadableArgument(expected, f"{next(iter(found))!r} is none of {', '.join(_FORMS)}")
    inside = found.values() if isinstance(found, dict) else found
    has_forms = False
    for each in inside if isinstance(found, dict | list) else ():
        has_forms |= _check_forms(each, expected)
    return has_forms


def _is_form(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)) in _FORMS


def _decoded(text: str, expected: str) -> Any:
    try:
        return from_json(text)
    except ValueError as error:
        raise UnreadableArgument(expected, f"the text is no JSON: {error}") from error
