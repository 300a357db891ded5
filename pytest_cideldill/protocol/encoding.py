"""Plain data to JSON text, and what is done about data that is none.

What a program holds is shown as text long before; but a failure must never be lost because a value
slipped through.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from json import JSONEncoder
from typing import Any, Final

from pytest_cideldill.interpreter.borders import note, text_of

# ensure_ascii keeps lone surrogates as escapes, so that every text is encodable.
encoded: Final = JSONEncoder(separators=(",", ":")).encode
"""The text of a value, for ourselves: numbers like NaN are in it as Python reads them.

Raises:
    TypeError, ValueError, RecursionError: It is no plain data.
"""

standard: Final = JSONEncoder(separators=(",", ":"), allow_nan=False).encode
"""The same for everybody: numbers that JSON lacks are a ValueError."""

_DEPTH: Final = 100
_DIGITS: Final = 4_000
"""Of an integer; Python refuses to write more than 4,300."""

_SHORT: Final = 1_000
_FEW: Final = 50
"""Characters of each text and items of each collection that a shortened copy has."""

_MOST_NAMED: Final = 3
_name_of: Final = type.__dict__["__name__"].__get__


def repaired(
    values: dict[str, Any], why: BaseException, *, shortened: bool = False
) -> dict[str, Any]:
    """A copy that can be encoded; a text stands for what could not be, and `incomplete` says so.

    No code of the values runs.

    Args:
        values: Of a message or a line; as much of them stays as can.
        shortened: Long texts and collections are cut as well.
    """
    repair = _Repair(shortened)
    made: dict[str, Any] = repair.plain(values, "", 0)
    places = repair.places
    named = ", ".join(places[:_MOST_NAMED]) or "some of it"
    more = f" and {len(places) - _MOST_NAMED} more" if len(places) > _MOST_NAMED else ""
    note(made, f"{named}{more} could not be sent: {text_of(why)}")
    return made


class _Repair:
    """One copy. `places`: where something else stands, as `pause.locals.x`."""

    def __init__(self, is_short: bool) -> None:
        self._is_short = is_short
        self.places: list[str] = []

    def plain(self, value: Any, place: str, depth: int) -> Any:
        kind = type(value)
        if value is None or kind is bool:
            return value
        if depth > _DEPTH:
            return self._instead(place, "<nested too deeply>")
        if issubclass(kind, str):
            return self._cut(str.__str__(value), place)
        if issubclass(kind, int) and int.bit_length(value) < 3 * _DIGITS:
            return int.__int__(value)
        if issubclass(kind, float) and math.isfinite(value):
            return float.__float__(value)
        if issubclass(kind, dict):
            return dict(self._items(value, place, depth + 1))
        if issubclass(kind, list | tuple):
            base = list if issubclass(kind, list) else tuple
            return [
                self.plain(each, f"{place}[{number}]", depth + 1)
                for number, each in enumerate(self._few(list(base.__iter__(value)), place))
            ]
        if issubclass(kind, float):
            return self._instead(place, float.__repr__(value))
        return self._instead(place, f"<{_name_of(kind)}>")

    def _items(self, value: dict[Any, Any], place: str, depth: int) -> Iterator[tuple[str, Any]]:
        for key, each in self._few(list(dict.items(value)), place):
            name = self.plain(key, f"{place} (a key)", depth)
            text = name if isinstance(name, str) else encoded(name)
            yield text, self.plain(each, f"{place}.{text}" if place else text, depth)

    def _few(self, items: list[Any], place: str) -> list[Any]:
        if not self._is_short or len(items) <= _FEW:
            return items
        self.places.append(place)
        return items[:_FEW]

    def _cut(self, text: str, place: str) -> str:
        if not self._is_short or len(text) <= _SHORT:
            return text
        return self._instead(place, f"{text[:_SHORT]}…")

    def _instead(self, place: str, text: str) -> str:
        self.places.append(place)
        return text
