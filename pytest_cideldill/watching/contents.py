"""What a value holds at a moment, and how that differs later; on the threads of the program.

Nothing of the program is kept alive, copied or compared by its own code: numbers, texts and the
like are remembered by their value, which is also why their ids can't be given to others meanwhile;
of all else the id is remembered, and the text that it had.
"""

from __future__ import annotations

import datetime
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import islice
from types import ModuleType
from typing import Any, Final, NamedTuple

from pytest_cideldill.interpreter.loaded_names import module_dict_of
from pytest_cideldill.rendering import layout
from pytest_cideldill.rendering.layout import Layout
from pytest_cideldill.rendering.types import LEAVES, PATHS, is_mock, pairs_of
from pytest_cideldill.watching import memory
from pytest_cideldill.watching.memory import Fingerprint

_PLAIN: Final = (int, float, bool, str, bytes, complex, type(None))
SCALARS: Final = frozenset(map(id, (*_PLAIN, Decimal, datetime.date, datetime.timedelta)))
"""Types by id, as a metaclass may define how its classes are hashed: their values never change, and
to compare them runs no code of the program."""

MOST_TEXTS: Final = 200
"""Parts of an object whose texts are made in advance; of others only scalars can be shown."""

_SHOWN_PARTS: Final = 4
"""Parts that are shown one by one if they change together; of more the object is shown."""

_MOST_INNER: Final = 16
"""Parts of an object that are looked into."""

_DETAILED: Final = 20_000
"""Parts of a dictionary or a set; of larger ones it is seen that they change, and not in what."""

_RAW_SHARE: Final = 16_384
_ID_SHARE: Final = 64
"""Items that are compared at each line: of what memory holds in a row, and one by one."""

UNKNOWN: Final = '"…"'
"""The text of a part that was not rendered in advance, as JSON."""

Mark = Any
"""What is remembered of a value: a scalar itself, else `(id, id of its type)`."""

Show = Callable[[object, str], str]
"""Renders a value that has a name, as JSON text."""


class Part(NamedTuple):
    """A change of a part of an object, or of the value itself.

    Attributes:
        place: `[2]`, `['k']`, `.price`; empty for the value itself and for members.
        old: Text before, as JSON; None: it was added.
        new: Text afterwards; None: it was removed.
    """

    place: str
    old: str | None
    new: str | None


def mark_of(value: object) -> Mark:
    """What is remembered of a value."""
    kind = id(type(value))
    return value if kind in SCALARS else (id(value), kind)


def is_same(mark: Mark, value: object) -> bool:
    """Whether a value is the one of a mark: for scalars an equal one of the same type."""
    if mark is value:
        return True
    kind = type(value)
    if type(mark) is tuple:
        return mark == (id(value), id(kind))
    return type(mark) is kind and bool(mark == value)


class Look:
    """What one object held when it was looked at.

    Attributes:
        every: At each how-manieth line it is compared: 1, but for large ones.
    """

    every = 1

    inner: Sequence[Any] = ()
    """The keys of parts that may change in themselves; the first ones."""

    _print: Callable[[Any], Fingerprint]
    _seen: Fingerprint

    def part(self, value: Any, key: Any) -> Any:
        """The part of a key of `inner`; None if it is gone."""
        raise NotImplementedError

    def place(self, key: Any, show: Show) -> str:
        """How a part is written behind the object."""
        raise NotImplementedError

    def is_same(self, value: Any) -> bool:
        """Whether it holds the same, at a glance: False may be wrong, `changes` knows."""
        return self._print(value) == self._seen

    def changes(self, value: Any, show: Show | None) -> list[Part] | None:
        """Look again: what differs, part by part.

        Args:
            value: The object.
            show: Renders; None: it is only wanted whether something differs.

        Returns:
            Empty: nothing. None: so much, or in such a way, that the whole object is to be shown.
        """
        raise NotImplementedError


class _Items(Look):
    """The items of a list, a deque, or a tuple, in order."""

    def part(self, value: Any, key: Any) -> Any:
        return value[key] if type(value) is list and key < len(value) else None

    def place(self, key: Any, show: Show) -> str:  # noqa: ARG002
        return f"[{key}]"

    def __init__(self, value: Any, kind: type, show: Show) -> None:
        self._kind = kind
        self._print = memory.of_list if kind is list else self._ids
        self._seen = self._print(value)
        items = tuple(kind.__iter__(value))  # type: ignore[attr-defined]
        self._marks = [mark_of(item) for item in items]
        self._texts = [_text(item, "", show) for item in items[:MOST_TEXTS]]
        self._texts += [None] * (len(items) - len(self._texts))
        self._set_share()

    def _ids(self, value: Any) -> tuple[int, ...]:
        return tuple(map(id, self._kind.__iter__(value)))  # type: ignore[attr-defined]

    def _set_share(self) -> None:
        share = _RAW_SHARE if type(self._seen) is bytes else _ID_SHARE
        self.every = 1 + len(self._marks) // share
        if self._kind is list:
            marks = self._marks[:_MOST_INNER]
            self.inner = [at for at, mark in enumerate(marks) if type(mark) is tuple]

    def changes(self, value: Any, show: Show | None) -> list[Part] | None:
        marks, texts = self._marks, self._texts
        seen = self._print(value)
        items = tuple(self._kind.__iter__(value))  # type: ignore[attr-defined]
        first, last = memory.alike_at_ends(self._seen, seen)
        self._seen = seen
        most = min(len(marks), len(items))
        while first < most and is_same(marks[first], items[first]):
            first += 1
        while last < most - first and is_same(marks[-1 - last], items[-1 - last]):
            last += 1
        old_end, new_end = len(marks) - last, len(items) - last
        old, old_texts = marks[first:old_end], texts[first:old_end]
        new = items[first:new_end]
        if not old and not new:
            return []
        marks[first:old_end] = [mark_of(each) for each in new]
        room = max(0, MOST_TEXTS - first) if show is not None else 0
        shown = [_text(each, "", show) for each in new[:room]] if show is not None else []
        texts[first:old_end] = [*shown, *[None] * (len(new) - len(shown))]
        self._set_share()
        if show is None or max(len(old), len(new)) > _SHOWN_PARTS:
            return None
        before = [_known(*each, show) for each in zip(old, old_texts, strict=True)]
        after = [show(each, "") for each in new]
        if len(old) == len(new):
            pairs = zip(old, new, before, after, strict=True)
            return [
                Part(f"[{first + at}]", was, now)
                for at, (mark, each, was, now) in enumerate(pairs)
                if not is_same(mark, each)
            ]
        if old and new:
            return None
        place = f"[{first}]" if last else ""
        gone = [Part(place, each, None) for each in before]
        return gone + [Part(place, None, each) for each in after]


class _Members(Look):
    """The members of a set."""

    def __init__(self, value: Any, show: Show) -> None:
        self._print = memory.of_set
        self._seen = self._print(value)
        self._texts: dict[Mark, tuple[Mark, str | None]] = {}
        for at, each in enumerate(tuple(set.__iter__(value))):
            text = _text(each, "", show) if at < MOST_TEXTS else None
            self._texts[_key(each)] = mark_of(each), text
        self._set_share()

    def _set_share(self) -> None:
        share = _RAW_SHARE // 4 if type(self._seen) is bytes else _ID_SHARE
        self.every = 1 + len(self._texts) // share

    def changes(self, value: Any, show: Show | None) -> list[Part] | None:
        self._seen = self._print(value)
        before = self._texts
        now = {_key(each): each for each in tuple(set.__iter__(value))}
        parts: list[Part] = []
        gone = [key for key in before if key not in now]
        come = [(key, each) for key, each in now.items() if key not in before]
        for key in gone:
            mark, text = before.pop(key)
            if show is not None and len(parts) <= _SHOWN_PARTS:
                parts.append(Part("", _known(mark, text, show), None))
        for key, each in come:
            text = _text(each, "", show) if show and len(before) < MOST_TEXTS else None
            before[key] = mark_of(each), text
            if show is not None and len(parts) <= _SHOWN_PARTS:
                parts.append(Part("", None, show(each, "")))
        self._set_share()
        if not gone and not come:
            return []
        return parts if show is not None and len(gone) + len(come) <= _SHOWN_PARTS else None


class _Named(Look):
    """Parts that have keys: the items of a dictionary, or attributes."""

    def __init__(self, value: Any, show: Show) -> None:
        self._held: dict[Mark, tuple[str, str, Mark, str | None]] = {}
        self._is_large = False
        self._see(value)
        self._look(value, show)
        self._set_inner(value)

    def _set_inner(self, value: Any) -> None:
        pairs = self._pairs(value) if len(self._held) <= _DETAILED else ()
        found = (key for key, each in pairs if id(type(each)) not in SCALARS)
        self.inner = [key for key in islice(found, _MOST_INNER) if id(type(key)) in SCALARS]

    def _pairs(self, value: Any) -> Sequence[tuple[Any, Any]]:
        raise NotImplementedError

    def _see(self, value: Any) -> None:
        self._seen = seen = self._print(value)
        self.every = 1 + (len(seen) if type(seen) is tuple else 0) // _ID_SHARE

    def changes(self, value: Any, show: Show | None) -> list[Part] | None:
        self._see(value)
        found = self._look(value, show)
        if show is not None and (found is None or found):
            self._set_inner(value)
        return found

    def _look(self, value: Any, show: Show | None) -> list[Part] | None:
        pairs = self._pairs(value)
        if len(pairs) > _DETAILED:
            self._held.clear()
            self._is_large = True
            return None
        was_large, self._is_large = self._is_large, False
        held, count = self._held, 0
        parts: list[Part] = []
        now = set()
        for key, each in pairs:
            found = _key(key)
            now.add(found)
            known = held.get(found)
            if known is not None and is_same(known[2], each):
                continue
            count += 1
            name = key if type(key) is str else ""
            if known is not None:
                place = known[0]
            else:
                place = self.place(key, show) if show and len(held) < MOST_TEXTS else ""
            if show is not None and count <= _SHOWN_PARTS:
                place = place or self.place(key, show)
                old = None if known is None else _known(known[2], known[3], show, name)
                parts.append(Part(place, old, show(each, name)))
            text = _text(each, name, show) if show and len(held) < MOST_TEXTS else None
            held[found] = (place, name, mark_of(each), text)
        for found in [found for found in held if found not in now]:
            count += 1
            place, name, mark, text = held.pop(found)
            if show is not None and count <= _SHOWN_PARTS:
                parts.append(Part(place or "[…]", _known(mark, text, show, name), None))
        if was_large:
            return None
        if not count:
            return []
        return parts if show is not None and count <= _SHOWN_PARTS else None


class _Pairs(_Named):
    """The items of a dictionary."""

    def part(self, value: Any, key: Any) -> Any:
        return dict.get(value, key)

    def _print(self, value: Any) -> Fingerprint:
        return memory.of_dict(value)

    def _pairs(self, value: Any) -> Sequence[tuple[Any, Any]]:
        return tuple(pairs_of(value))

    def place(self, key: Any, show: Show) -> str:
        return f"[{json.loads(show(key, ''))}]"


class _Attributes(_Named):
    """The attributes of an instance, a module or a class."""

    def __init__(self, value: Any, found: Layout | None, show: Show) -> None:
        self._layout = found
        self._get = None if found is None or found.slots else found.get_dict
        super().__init__(value, show)

    def part(self, value: Any, key: Any) -> Any:
        found = self._layout
        if found is None:
            return _names_of(value).get(key)
        names = None if found.get_dict is None else found.get_dict(value, found.cls)
        if type(names) is dict and (not found.slots or key in names):
            return names.get(key)
        return next((each for name, each in found.attributes(value) if name == key), None)

    def is_same(self, value: Any) -> bool:
        get = self._get
        if get is not None:
            names = get(value, type(value))
            if type(names) is dict:
                return memory.of_dict(names) == self._seen
        return self._print(value) == self._seen

    def _print(self, value: Any) -> Fingerprint:
        found = self._layout
        if found is None:
            names = _names_of(value)
            return memory.of_dict(names) if type(names) is dict else _ids(names.values())
        names = None if found.get_dict is None else found.get_dict(value, found.cls)
        if not found.slots and names is not None and layout.is_a(type(names), dict):
            return memory.of_dict(names)
        # Slots are few, and so is what has them in a row with a dictionary.
        pairs = () if names is None else dict.values(names)
        return _ids((*pairs, *_slot_values(found, value)))

    def _pairs(self, value: Any) -> Sequence[tuple[Any, Any]]:
        if self._layout is not None:
            return tuple(self._layout.attributes(value))
        names = tuple(_names_of(value).items())
        return [(key, each) for key, each in names if type(key) is str and key[:2] != "__"]

    def place(self, key: Any, show: Show) -> str:  # noqa: ARG002
        return f".{key}"


def _ids(values: Iterable[Any]) -> tuple[int, ...]:
    return tuple(map(id, values))


def _slot_values(found: Layout, value: Any) -> Iterator[Any]:
    for _, descriptor in found.slots:
        try:
            yield descriptor.__get__(value, found.cls)
        except AttributeError:
            yield _slot_values  # never assigned


def _names_of(value: Any) -> Any:
    """The names of a module or a class."""
    return module_dict_of(value) if type(value) is ModuleType else layout.class_dict(value)


class _Bytes(Look):
    """The content of a bytearray."""

    def __init__(self, value: bytearray) -> None:
        self._content = bytearray.__getitem__(value, slice(None))
        self.every = 1 + len(self._content) // _RAW_SHARE

    def is_same(self, value: Any) -> bool:
        return bool(bytearray.__eq__(value, self._content))

    def changes(self, value: Any, show: Show | None) -> list[Part] | None:  # noqa: ARG002
        if self.is_same(value):
            return []
        self._content = bytearray.__getitem__(value, slice(None))
        return None


def looks_at(value: Any, show: Show) -> tuple[Look, ...]:
    """What can change in a value; empty where nothing can, or nothing can be seen of it."""
    cls = type(value)
    if id(cls) in SCALARS:
        return ()
    if cls is list or cls is deque:
        return (_Items(value, cls, show),)
    if cls is dict:
        return (_Pairs(value, show),)
    if cls is set:
        return (_Members(value, show),)
    if cls is bytearray:
        return (_Bytes(value),)
    if cls is ModuleType or layout.flags(cls) & layout.IS_CLASS:
        return (_Attributes(value, None, show),)
    if id(cls) in LEAVES or id(cls) in PATHS or is_mock(cls):
        return ()
    looks: list[Look] = []
    for base in layout.mro(cls):
        if base is list or base is deque:
            looks.append(_Items(value, base, show))
        elif base is dict:
            looks.append(_Pairs(value, show))
        elif base is set:
            looks.append(_Members(value, show))
    found = Layout.of(cls)
    if not found.is_opaque:
        looks.append(_Attributes(value, found, show))
    return tuple(looks)


def items_of_result(value: Any, show: Show) -> tuple[Look, ...]:
    """The same for a value that an expression makes anew each time: a tuple's items as well."""
    return (_Items(value, tuple, show),) if type(value) is tuple else looks_at(value, show)


def _key(value: object) -> Mark:
    """A mark as a key: numbers of different types are different."""
    mark = mark_of(value)
    return mark if type(mark) is tuple else (type(mark).__name__, mark)


def _text(value: object, name: str, show: Show) -> str | None:
    """The text that is made in advance; scalars can be shown at any time."""
    return None if id(type(value)) in SCALARS else show(value, name)


def _known(mark: Mark, text: str | None, show: Show, name: str = "") -> str:
    if type(mark) is not tuple:
        return show(mark, name)
    return UNKNOWN if text is None else text
