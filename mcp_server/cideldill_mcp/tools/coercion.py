"""Conversion of the values that clients send to the JSON types of parameters.

Clients spell values in more ways than JSON Schema has: lists and objects as JSON in a string, one
text for a list of one, numbers and booleans as text, whole floats for integers. A value with one
meaning is converted, every other one is refused. This module knows types, but no tools.
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
    """A value is not of the type `expected`; the text says why if that is not obvious."""

    def __init__(self, expected: str, why: object = "") -> None:
        super().__init__(str(why))
        self.expected = expected


def read(value: Any, json_type: str, items: str | None = None) -> Any:
    """Convert a value that a client sent to a JSON type.

    Args:
        value: The value that the client sent.
        json_type: `string | integer | number | boolean | array | object`, or `any`: left as it is.
        items: JSON type of an array's items; None: left as they are.

    Raises:
        UnreadableArgument: The value has no such type, or several meanings.
    """
    match json_type:
        case "any":
            return value
        case "array":
            return _array(value, items)
        case "object":
            result = _decoded(value, json_type) if isinstance(value, str) else value
            is_valid = isinstance(result, dict)
        case "boolean":
            result = _BOOLEANS.get(value, value) if isinstance(value, str) else value
            is_valid = isinstance(result, bool)
        case "string":
            result, is_valid = value, isinstance(value, str)
        case _:
            result = _number(value, json_type)
            is_valid = isinstance(result, int if json_type == "integer" else int | float)
            is_valid = is_valid and not isinstance(result, bool)
    if not is_valid:
        raise UnreadableArgument(json_type)
    return result


def read_values(value: Any) -> Any:
    """Decode the `$` forms in a value for the program, so that none of them stays a text.

    Texts of JSON objects with a `$` key are decoded, and so are texts of lists and objects that
    contain such objects. Texts inside a form belong to the form and stay texts.

    Raises:
        UnreadableArgument: Such a text is not JSON, or not a form.
    """
    if isinstance(value, str):
        return _value(value)
    if isinstance(value, list):
        return [read_values(item) for item in value]
    if isinstance(value, dict) and not _is_form(value):
        return {key: read_values(item) for key, item in value.items()}
    return value


def _number(value: Any, json_type: str) -> Any:
    """Convert to a number if possible; another value is returned as it is."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = _decoded(value, json_type)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UnreadableArgument(json_type)
        if json_type == "integer" and value.is_integer():
            return int(value)
    return value


def _array(value: Any, items: str | None) -> list[Any]:
    expected = "array" if items is None else f"array of {items}"
    array = value
    if isinstance(value, str) and value.lstrip().startswith("[") and not _is_marked(value, items):
        array = _decoded(value, expected)
    elif (isinstance(value, dict) and items == "object") or _is_item(value, items):
        array = [value]
    if not isinstance(array, list):
        raise UnreadableArgument(expected)
    try:
        return array if items is None else [read(item, items) for item in array]
    except UnreadableArgument as error:
        raise UnreadableArgument(expected, error) from error


def _is_marked(text: str, items: str | None) -> bool:
    """Whether a text begins with a mark, as node ids may: `[linux] test_cart.py`."""
    return items == "string" and _MARKED.match(text) is not None


def _is_item(value: Any, items: str | None) -> bool:
    """Whether a text can only be a single item; `5` may be a number in a list of any type."""
    if not isinstance(value, str) or not value.strip():
        return False
    if items == "object":
        return True
    try:
        decoded = from_json(value)
    except ValueError:
        return items is not None or not _LIKE_A_FORM.match(value.lstrip())
    return items is not None and not isinstance(decoded, dict)


def _value(text: str) -> Any:
    """Decode a text that is a form or JSON that contains one; return any other text."""
    if "$" not in text or not text.lstrip().startswith(("{", "[")):
        return text
    expected = 'value: {"$eval": "…"}, {"$cid": "…"} or, for this text as it is, {"$literal": "…"}'
    try:
        decoded = from_json(text)
    except ValueError as error:
        if _LIKE_A_FORM.search(text):
            raise UnreadableArgument(expected, error) from error
        return text
    return decoded if _check_forms(decoded, expected) else text


def _check_forms(decoded: Any, expected: str) -> bool:
    """Whether a decoded text contains a form.

    Raises:
        UnreadableArgument: It contains an object with a `$` key that is not a form.
    """
    if _is_form(decoded):
        return True
    if isinstance(decoded, dict) and any(key.startswith("$") for key in decoded):
        raise UnreadableArgument(
            expected, f"{next(iter(decoded))!r} is none of {', '.join(_FORMS)}"
        )
    inside = decoded.values() if isinstance(decoded, dict) else decoded
    has_forms = False
    for item in inside if isinstance(decoded, dict | list) else ():
        has_forms |= _check_forms(item, expected)
    return has_forms


def _is_form(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)) in _FORMS


def _decoded(text: str, expected: str) -> Any:
    try:
        return from_json(text)
    except ValueError as error:
        raise UnreadableArgument(expected, f"the text is no JSON: {error}") from error
