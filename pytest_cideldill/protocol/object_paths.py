"""Paths into an object, as `.items[2].price`, and the same steps as keys of a stored snapshot.

Pure text and plain data. A snapshot's `attributes` are keyed by the steps themselves:

- `price`: an attribute; one that is no Python name is quoted, `'odd name'`, also in a path.
- `[2]`, `['key']`: an item, by its index or its key, a literal.
- `[#3]`: the fourth item of what has no such keys, a set or a dictionary of objects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.sourcecode.quiet import literal

MAX_PATH: Final = 1_000
"""Characters of a path."""

_NAME: Final = re.compile(r"[^\W\d]\w*")
_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_POSITION: Final = re.compile(r"#(\d{1,18})\]")

_SHOWN: Final = 8
"""Steps that a message names as those that are there."""


class Unreachable(LookupError):
    """There is nothing at the end of a path, or nothing that may be looked at.

    Attributes:
        is_cut: The snapshot ends before it; the live object may have more.
    """

    def __init__(self, message: str, *, is_cut: bool = False) -> None:
        super().__init__(message)
        self.is_cut = is_cut


@dataclass(frozen=True, slots=True)
class PathStep:
    """One step of a path.

    Attributes:
        kind: How it goes on.
        value: The attribute's name, the index or key, the number of the item.
        end: How many characters of the path lead there.
    """

    kind: Literal["attribute", "item", "position"]
    value: Any
    end: int

    @property
    def key(self) -> str:
        """What the step is called in a snapshot."""
        if self.kind == "attribute":
            return attribute_key(self.value)
        return f"[{self.value!r}]" if self.kind == "item" else position_key(self.value)


def attribute_key(name: str) -> str:
    """The step to an attribute, without the dot."""
    return name if name.isidentifier() else repr(name)


def item_key(key: object, longest: int = 100) -> str | None:
    """The step to an item under a key; None if the key is no short literal.

    Looks only at keys that are exactly of a built-in type.
    """
    if type(key) is tuple:
        parts = [item_key(each, longest) for each in key] if len(key) <= longest else [None]
        inner = [part[1:-1] for part in parts if part is not None]
        if len(inner) < len(parts):
            return None
        shown = f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
    elif not _is_short_literal(key, longest):
        return None
    else:
        shown = repr(key)
    return f"[{shown}]" if len(shown) <= longest else None


def _is_short_literal(key: Any, longest: int) -> bool:
    kind = type(key)
    if kind is str or kind is bytes:
        return len(key) <= longest
    if kind is int:
        return bool(key.bit_length() <= longest)
    # Not inf and nan, which are names.
    return bool(abs(key) < float("inf")) if kind is float else key is None or kind is bool


def position_key(number: int) -> str:
    """The step to the item of this number, from 0."""
    return f"[#{number}]"


def parse_path(path: str) -> tuple[PathStep, ...]:
    """The steps of a path; an empty one has none. The first dot may be missing.

    Raises:
        ValueError: The path is malformed; the message says what and where.
    """
    if len(path) > MAX_PATH:
        raise ValueError(f"the path has {len(path)} characters, more than {MAX_PATH}")
    steps: list[PathStep] = []
    at = 0
    while at < len(path):
        if path[at] == "[":
            step = _bracket(path, at + 1)
        elif path[at] == ".":
            step = _attribute(path, at + 1)
        elif not steps and _NAME.match(path):
            step = _attribute(path, 0)
        else:
            raise _malformed(path, at, "expected '.' or '['")
        steps.append(step)
        at = step.end
    return tuple(steps)


def navigate_description(description: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The part of a stored snapshot that a path leads to.

    Raises:
        ValueError: As for `parse_path`.
        Unreachable: There is no such part.
    """
    found = dict(description)
    before = 0
    for step in parse_path(path):
        inner = found.get("attributes") or {}
        key = _known_key(step, found, inner)
        if key is None:
            place = path[:before] or "the object"
            if found.get("truncated"):
                raise Unreachable(
                    f"the snapshot of {place} ends before {path[before : step.end]!r}", is_cut=True
                )
            raise missing(f"{place} ({found.get('type')})", path[before : step.end], list(inner))
        found = dict(inner[key])
        before = step.end
    return found


def _known_key(step: PathStep, found: Mapping[str, Any], inner: Mapping[str, Any]) -> str | None:
    if step.key in inner:
        return step.key
    items = [key for key in inner if key.startswith("[")]
    length = found.get("length")
    if step.kind == "item" and type(step.value) is int and step.value < 0 and type(length) is int:
        from_start = f"[{length + step.value}]"
        is_sequence = items == [f"[{number}]" for number in range(len(items))]
        return from_start if is_sequence and from_start in items else None
    # A position of a list, or of a dictionary whose keys are literals.
    is_there = step.kind == "position" and step.value < len(items)
    return items[step.value] if is_there else None


def missing(place: str, step: str, keys: list[str]) -> Unreachable:
    """What to raise for a step that leads nowhere; it names some that lead somewhere."""
    known = ", ".join(key if key.startswith("[") else f".{key}" for key in keys[:_SHOWN])
    rest = f", … +{len(keys) - _SHOWN}" if len(keys) > _SHOWN else ""
    has = f"it has {known}{rest}" if keys else "there is nothing to look into"
    return Unreachable(f"{place} has no {step!r}; {has}")


def _attribute(path: str, at: int) -> PathStep:
    name = _NAME.match(path, at)
    if name is not None:
        return PathStep("attribute", name[0], name.end())
    quoted = _QUOTED.match(path, at)
    if quoted is None:
        raise _malformed(path, at, "expected the name of an attribute")
    return PathStep("attribute", _literal(path, at, quoted.end()), quoted.end())


def _bracket(path: str, at: int) -> PathStep:
    position = _POSITION.match(path, at)
    if position is not None:
        return PathStep("position", int(position[1]), position.end())
    end = path.find("]", at)
    while end >= 0:
        try:
            value = _literal(path, at, end)
        except ValueError:
            end = path.find("]", end + 1)  # that one was inside of a string
            continue
        if item_key(value, MAX_PATH) is None:
            break
        return PathStep("item", value, end + 1)
    raise _malformed(path, at, "expected an index, a quoted key or #number, and ']'")


def _literal(path: str, start: int, end: int) -> Any:
    try:
        return literal(path[start:end].strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError) as error:
        raise _malformed(path, start, "expected a literal") from error


def _malformed(path: str, at: int, expected: str) -> ValueError:
    return ValueError(f"{expected} at position {at} of {path!r}")
