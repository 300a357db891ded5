"""From a plain reply to the one text a client gets: the one place that sanitizes and sizes.

Knows JSON, not what a reply means: which lists may be cut, and the cursor that continues one, are
given. What knows the meaning cuts first, and leaves the rest to `fit`: `runs.failures` by what is
least useful in an autopsy. `reports.bounds` is no third one: it limits what is held in memory of a
record, by number, whether it is ever sent or not. Pure functions for the front end's event loop.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any

DEFAULT_MAX_CHARS = 8_000
MAX_MAX_CHARS = 200_000

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_MAX_DEPTH = 100
_MAX_INT_BITS = 4_096  # beyond some 14,000 bits Python refuses to write an integer in decimal
_MAY_BE_LONG_INT = re.compile(f"[0-9]{{{len(str(1 << _MAX_INT_BITS))}}}")
_SURROGATES = re.compile("[\ud800-\udfff]")
_CURSOR_SLACK = 1_000  # a later item may fit when its cursor is that much shorter
_MARK_CHARS = 20  # a string is shortened only when that saves more than its mark adds
# How many items nested containers keep, one after the other, when shorter strings don't suffice.
_WIDTHS = (1024, 256, 64, 16, 4, 1, 0)
_KEYS_OF_OTHERS = ('"true":', '"false":', '"null":')  # what JSON makes of keys that are no strings
_SHORT = 1 << 63  # an integer below it
_NEVER_SHORTENED = frozenset(
    {"error", "id", "next_after", "next_before", "pause_id", "run_id", "status"}
)

Shape = Callable[[Any], Any]
"""An item of a list → what is shown of it."""


def dumps(value: object) -> str:
    """Compact JSON that every client can read, whatever the value.

    NaN and infinities become strings, lone surrogates visible escapes (`\\\\udcff`), keys strings;
    what is too deep, cyclic or no plain data becomes a short note in angle brackets.
    """
    return _text(value, 0)


def _text(value: object, depth: int) -> str:
    """`dumps` of a value inside so many containers."""
    if type(value) is int and -_SHORT < value < _SHORT:
        return str(value)
    text = _text_at_once(value, depth)
    return _ENCODER.encode(_plain(value, None, (0,) * depth)) if text is None else text


def _text_at_once(value: object, depth: int) -> str | None:
    """The text of data as it comes out of JSON, which needs no copy; None: that is not sure."""
    try:
        text = _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):  # no plain data, NaN, a cycle
        return None
    may_be_deep = text.count("{") + text.count("[") > _MAX_DEPTH - depth
    if may_be_deep or any(key in text for key in _KEYS_OF_OTHERS):
        return None
    if not text.isascii() and _SURROGATES.search(text) is not None:
        return None
    return None if len(text) >= _MAX_INT_BITS // 4 and _MAY_BE_LONG_INT.search(text) else text


def readable(values: dict[str, Any]) -> dict[str, Any]:
    """A copy that every client can read once it is JSON; see `dumps`."""
    plain: dict[str, Any] = _plain(values)
    return plain


def fit(
    reply: dict[str, Any],
    max_chars: int,
    *,
    lists: Sequence[str] | Mapping[str, Shape] = (),
    cursor: Callable[[Any], Any] | None = None,
    in_step: Mapping[str, Sequence[str]] | None = None,
    from_front: bool = False,
) -> str:
    """Serialize a reply into at most `max_chars` characters (of 200 or more).

    What doesn't fit is cut, and the reply says so with `truncated: true`: first the named lists,
    from their end, to the longest part that fits (one item at least); then, last resort, the
    longest strings anywhere, each ending in `…[+N chars]`; then the contents of containers. A
    top-level key is dropped only when the keys alone are too long.

    Args:
        reply: Plain data; it is not changed.
        max_chars: Characters, not bytes.
        lists: Keys of lists that may be cut, the most important first. The first is the paged
            one: when cut, the reply gets `total_count` (unless it has one) and `next_after`. Any
            other gets `<name>_total`. As a mapping, what is shown of an item: made only of items
            that may fit.
        cursor: The last kept item of the paged list → the value of `next_after`.
        in_step: For a list of names, the keys of the maps that are keyed by those names and keep
            only the names kept.
        from_front: The paged list is cut from its front; `next_before` takes the place of
            `next_after`, and the first kept item that of the last.
    """
    page = _Page(reply, lists, cursor, in_step or {}, from_front)
    text = page.whole(max_chars)
    if text is not None:
        return text
    kept = page.longest(max_chars)
    cut = page.cut(kept)
    text = page.text(cut, kept)
    return text if len(text) <= max_chars else _shorten(cut, max_chars)


def whole(value: object, max_chars: int) -> str | None:
    """`dumps` of a value that needs at most `max_chars` characters; None: it needs more.

    Takes time for `max_chars` characters, however large the value is.
    """
    try:
        text = _ENCODER.encode(_plain(value, _Budget(max_chars)))
    except _TooLarge:
        return None
    return text if len(text) <= max_chars else None


class _TooLarge(Exception):
    """The text would exceed the budget; the rest need not be looked at."""


class _Budget:
    """Counts down the least number of characters that the values seen so far need."""

    def __init__(self, chars: int) -> None:
        self._left = chars

    def spend(self, chars: int) -> None:
        self._left -= chars
        if self._left < 0:
            raise _TooLarge


def _plain(value: object, budget: _Budget | None = None, above: tuple[int, ...] = ()) -> Any:
    """A fresh copy made of JSON's own types; `above` holds the ids of the containers around."""
    if budget is not None:
        budget.spend(len(value) + 2 if isinstance(value, str) else 1)
    match value:
        case None | bool():
            return value
        case str():
            return _escape(value)
        case int():
            bits = value.bit_length()
            return int(value) if bits <= _MAX_INT_BITS else f"<int of {bits} bits>"
        case float() if value != value:
            return "NaN"
        case float() if value in (float("inf"), float("-inf")):
            return "Infinity" if value > 0 else "-Infinity"
        case float():
            return float(value)
        case dict() | list() | tuple():
            return _plain_container(value, budget, above)
        case _:
            return f"<unserializable: {_escape(type(value).__qualname__)}>"


def _plain_container(
    value: dict[Any, Any] | list[Any] | tuple[Any, ...],
    budget: _Budget | None,
    above: tuple[int, ...],
) -> Any:
    if id(value) in above:
        return "<cycle>"
    if len(above) == _MAX_DEPTH:
        return "<too deep>"
    above = (*above, id(value))
    if not isinstance(value, dict):
        return [_plain(item, budget, above) for item in value]
    plain = {}
    for key, item in value.items():
        name = _escape(key if isinstance(key, str) else str(key))
        if budget is not None:
            budget.spend(len(name) + 3)
        plain[name] = _plain(item, budget, above)
    return plain


def _escape(text: str) -> str:
    if text.isascii():
        return str.__str__(text)
    return _SURROGATES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class _Page:
    """One reply whose lists are being cut; nothing in it changes. What is kept is encoded once."""

    def __init__(
        self,
        reply: dict[str, Any],
        lists: Sequence[str] | Mapping[str, Shape],
        cursor: Callable[[Any], Any] | None,
        in_step: Mapping[str, Sequence[str]],
        from_front: bool,
    ) -> None:
        self._reply = reply
        self._lists = [name for name in lists if isinstance(reply.get(name), list | tuple)]
        self._paged = next(iter(lists), "")
        self._shapes = lists if isinstance(lists, Mapping) else {}
        self._from_front = self._paged if from_front else None
        self._cursor = cursor
        self._maps = {
            name: [key for key in in_step.get(name, ()) if isinstance(reply.get(key), dict)]
            for name in self._lists
        }
        # Texts of items, in the order in which they are kept, and of other values.
        self._items: dict[str, list[str]] = {name: [] for name in self._lists}
        self._others: dict[str, str] = {}

    def whole(self, max_chars: int) -> str | None:
        """All of the reply, if it needs at most so many characters."""
        if not self._lists:
            return whole(self._reply, max_chars)
        chars = len(self.text(self._reply, dict.fromkeys(self._lists, 0)))
        for name in self._lists:
            for index, text in enumerate(self._texts(name)):
                chars += len(text) + (index > 0)
                if chars > max_chars:
                    return None
        if chars > max_chars:
            return None
        return self.text(self._reply, {name: len(self._reply[name]) for name in self._lists})

    def text(self, cut: Mapping[str, Any], kept: Mapping[str, int]) -> str:
        """The `dumps` of what `cut` made of the reply."""
        parts = []
        for key, value in cut.items():
            if key in kept:
                items = list(islice(self._texts(key), kept[key]))
                text = f"[{','.join(reversed(items) if key == self._from_front else items)}]"
            elif value is self._reply.get(key):
                text = self._others.get(key) or self._others.setdefault(key, _text(value, 1))
            else:
                text = _text(value, 1)
            parts.append(f"{dumps(str(key))}:{text}")
        return f"{{{','.join(parts)}}}"

    def _texts(self, name: str) -> Iterator[str]:
        """Of the items of a list."""
        texts, items = self._items[name], self._reply[name]
        yield from texts
        for number in range(len(texts), len(items)):
            item = items[~number if name == self._from_front else number]
            texts.append(_text(self._shown(name, item), 2))
            yield texts[-1]

    def _shown(self, name: str, item: Any) -> Any:
        shape = self._shapes.get(name)
        return item if shape is None else shape(item)

    def cut(self, kept: Mapping[str, int]) -> dict[str, Any]:
        """The reply with so many items of each list, its maps in step, and the notes on it."""
        cut = {**self._reply, "truncated": True}
        for name, count in kept.items():
            items, total = self._kept(name, count), len(self._reply[name])
            cut[name] = [self._shown(name, item) for item in items]
            for key in self._maps[name]:
                whole = self._reply[key]
                cut[key] = {item: whole[item] for item in items if item in whole}
            if count == total:
                continue
            if name != self._paged:
                cut[f"{name}_total"] = total
                continue
            if cut.get("total_count") is None:
                cut["total_count"] = total
            if self._cursor:
                key, edge = ("next_before", 0) if self._from_front else ("next_after", -1)
                cut[key] = self._cursor(items[edge]) if items else None
        return cut

    def _kept(self, name: str, count: int) -> Sequence[Any]:
        items: Sequence[Any] = self._reply[name]
        return items[len(items) - count :] if name == self._from_front else items[:count]

    def longest(self, max_chars: int) -> dict[str, int]:
        """How many items of each list fit: at least one, and the first-named list goes first."""
        nothing = dict.fromkeys(self._lists, 0)
        room = max_chars - len(self.text(self.cut(nothing), nothing))
        reserved = {name: next(self._used(name), 0) for name in self._lists}
        room -= sum(reserved.values())
        kept = {}
        for name in self._lists:
            room += reserved[name]
            kept[name], used = self._prefix(name, room)
            room -= used
        return kept

    def _prefix(self, name: str, room: int) -> tuple[int, int]:
        """The longest part of a list that `room` characters hold, and how many it takes."""
        best = (0, 0)
        for count, used in enumerate(self._used(name), 1):
            if count == 1 or used <= room:
                best = (count, used)
            elif used > room + _CURSOR_SLACK:
                break
        return best

    def _used(self, name: str) -> Iterator[int]:
        """Characters that 1, 2, … items take, with map entries and the cursor."""
        chars = 0
        maps = [self._reply[key] for key in self._maps[name]]
        empty = set(range(len(maps)))
        cursor = self._cursor if name == self._paged else None
        items = self._reply[name]
        ordered = reversed(items) if name == self._from_front else items
        for index, (item, text) in enumerate(zip(ordered, self._texts(name), strict=True)):
            chars += len(text) + (index > 0)
            for number, entries in enumerate(maps):
                if item in entries:
                    chars += len(dumps({item: entries[item]})) - 2 + (number not in empty)
                    empty.discard(number)
            yield chars + (len(dumps(cursor(item))) - len("null") if cursor else 0)


@dataclass(frozen=True, slots=True)
class _Slot:
    """A string that may be shortened, and where it stands."""

    holder: Any  # dict or list
    key: Any
    text: str


def _shorten(reply: dict[str, Any], max_chars: int) -> str:
    """The last resort: strings first, then ever narrower containers, at last whole keys."""
    plain: dict[str, Any] = {**_plain(reply), "truncated": True}
    text = _with_shorter_strings(plain, max_chars)
    for width in _WIDTHS:
        if text is not None:
            return text
        plain = {key: _narrow(value, width) for key, value in plain.items()}
        text = _with_shorter_strings(plain, max_chars)
    return text if text is not None else _with_fewer_keys(plain, max_chars)


def _with_shorter_strings(plain: dict[str, Any], max_chars: int) -> str | None:
    """Cut the longest strings to one common length, the greatest that fits; None if none does."""
    slots = sorted(_slots(plain), key=lambda slot: len(slot.text), reverse=True)
    sizes = [len(_ENCODER.encode(slot.text)) for slot in slots]
    uncut = list(accumulate(reversed(sizes), initial=0))[::-1]  # of slot i and all shorter ones
    fixed = len(_ENCODER.encode(plain)) - uncut[0]

    def size(limit: int) -> int:
        total = fixed
        for slot, rest in zip(slots, uncut, strict=False):
            short = _shortened(slot.text, limit)
            if short is slot.text:
                return total + rest
            total += len(_ENCODER.encode(short))
        return total

    limit = bisect_right(range(max_chars + 1), max_chars, key=size) - 1
    if limit < 0:
        return None
    for slot in slots:
        slot.holder[slot.key] = _shortened(slot.text, limit)
    return _ENCODER.encode(plain)


def _slots(plain: dict[str, Any]) -> Iterator[_Slot]:
    pending: list[Any] = [plain]
    while pending:
        holder = pending.pop()
        entries = holder.items() if isinstance(holder, dict) else enumerate(holder)
        for key, value in entries:
            if isinstance(value, dict | list):
                pending.append(value)
            elif isinstance(value, str) and not (holder is plain and key in _NEVER_SHORTENED):
                yield _Slot(holder, key, value)


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit + _MARK_CHARS:
        return text
    return f"{text[:limit]}…[+{len(text) - limit} chars]"


def _narrow(value: Any, width: int) -> Any:
    if isinstance(value, dict):
        return {key: _narrow(item, width) for key, item in islice(value.items(), width)}
    if isinstance(value, list):
        return [_narrow(item, width) for item in value[:width]]
    return value


def _with_fewer_keys(plain: dict[str, Any], max_chars: int) -> str:
    """Every key as null while there is room, then the values that still fit."""
    kept: dict[str, Any] = {"truncated": True}
    room = max_chars - len(_ENCODER.encode(kept))
    for key in plain:
        chars = len(_ENCODER.encode({key: None})) - 1  # a comma for two braces
        if key not in kept and chars <= room:
            kept[key] = None
            room -= chars
    for key in kept:
        value = plain[key]
        short = _shortened(value, 0) if isinstance(value, str) else value
        for candidate in (value, short):
            more = len(_ENCODER.encode(candidate)) - len(_ENCODER.encode(kept[key]))
            if more <= room:
                kept[key] = candidate
                room -= more
                break
    return _ENCODER.encode(kept)
