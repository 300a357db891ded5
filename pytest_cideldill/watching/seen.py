"""The value of an expression as it was seen last, and how the next one differs."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from pytest_cideldill.calltraces.row_file import plain
from pytest_cideldill.watching.contents import (
    SCALARS,
    Look,
    Part,
    Show,
    is_same,
    items_of_result,
    looks_at,
    mark_of,
)
from pytest_cideldill.watching.expressions import UNSET, Failure

Opens = Callable[[type], bool]
"""Whether instances of a class are looked into where they are parts of an object."""

_INNER_SHARE: Final = 3
"""Parts that are looked into at each line."""

_CONTAINERS: Final = frozenset(map(id, (list, dict, set, deque)))
_LARGEST: Final = 200
"""Items of a part that is looked into."""


class _Inner:
    """A part of an object that may change in itself.

    Attributes:
        look: Of the object.
        key: Of the part, for it.
        place: How it is written behind the object.
    """

    __slots__ = ("_check", "_looks", "_mark", "_part", "_text", "key", "look", "place")

    def __init__(self, look: Look, key: Any, value: Any, show: Show) -> None:
        self.look, self.key = look, key
        self.place = look.place(key, show)
        self._mark = mark_of(value)
        self._text = show(value, _name_of(key))
        self._looks = looks_at(value, show)
        self._part = look.part
        self._check = self._looks[0].is_same if len(self._looks) == 1 else None

    def is_same(self, value: Any) -> bool:
        """Whether it holds the same; also where it is another object, which is no change of it."""
        part = self._part(value, self.key)
        if id(part) != self._mark[0]:
            return True
        check = self._check
        if check is not None:
            return check(part)
        return all(look.is_same(part) for look in self._looks)

    def is_of(self, look: Look, key: Any, part: Any) -> bool:
        """Whether it is this part."""
        return self.look is look and self.key == key and is_same(self._mark, part)

    def changes(self, value: Any, show: Show, *, wants_parts: bool) -> list[Part]:
        """As of `Seen`."""
        part = self.look.part(value, self.key)
        if not is_same(self._mark, part):
            return []
        parts: list[Part] = []
        is_whole = False
        for look in self._looks:
            found = look.changes(part, show if wants_parts else None)
            is_whole = is_whole or found is None
            parts += found or ()
        if not parts and not is_whole:
            return []
        if not wants_parts:
            return [Part("", "", "")]
        before, self._text = self._text, show(part, _name_of(self.key))
        if is_whole:
            return [Part(self.place, before, self._text)]
        return [Part(f"{self.place}{each.place}", each.old, each.new) for each in parts]


def _name_of(key: Any) -> str:
    return key if type(key) is str else ""


class Seen:
    """What an expression gave.

    Args:
        value: The value, `UNSET` or a `Failure`.
        show: Renders.
        name: The name of the value.
        opens: See there.
        is_made: Whether the expression makes a new object each time, so that only what is in it
            counts.

    Attributes:
        text: The text of the value, as JSON.
        looks: What is in it.
        every: At each how-manieth event what is in it is compared.
    """

    def __init__(self, value: Any, show: Show, name: str, opens: Opens, *, is_made: bool) -> None:
        self._name, self._opens, self._is_made = name, opens, is_made
        self._inner: list[_Inner] = []
        self._mark: Any = None
        self._failure = ""
        self.text = ""
        self.looks: tuple[Look, ...] = ()
        self.every = 1
        self._set(value, show)

    def is_same(self, value: Any, glances: bool = True) -> bool:
        """Whether nothing differs, at a glance; False may be wrong.

        Args:
            value: What the expression gives now.
            glances: Whether to look at what is in it.
        """
        mark = self._mark
        if type(mark) is not tuple:
            return is_same(mark, value)
        if type(value) is Failure:
            return bool(value.text == self._failure)
        if mark[0] != id(value) and not (self._is_made and self.looks):
            return False
        if mark[1] != id(type(value)):
            return False
        if glances:
            for look in self.looks:
                if not look.is_same(value):
                    return False
            for inner in self._inner:
                if not inner.is_same(value):
                    return False
        return True

    @property
    def address(self) -> tuple[int, int] | None:
        """The id of the object and that of its type; None where nothing of it can change."""
        return self._mark if self.looks and type(self._mark) is tuple else None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it by which it could be recognized."""
        return json.loads(self.text) in ("[]", "{}") if self.text else True

    def changes(self, value: Any, show: Show, *, wants_parts: bool) -> list[Part]:
        """What differs; empty if nothing does after all. From then on this is the value.

        Args:
            value: What the expression gives now.
            show: Renders.
            wants_parts: Whether texts are wanted; if not, one part stands for all.
        """
        before = self.text
        if not self._is_one(value):
            kind_before = self._mark[1] if type(self._mark) is tuple else None
            had_parts = bool(self.looks)
            self._set(value, show)
            if self.text != before:
                return [Part("", before, self.text)]
            is_other = had_parts and kind_before == id(type(value)) and not self._is_made
            if not is_other:
                return []
            return [Part("", before, plain(f"{json.loads(before)} (another object)"))]
        parts: list[Part] = []
        is_whole = False
        for look in self.looks:
            found = look.changes(value, show if wants_parts else None)
            is_whole = is_whole or found is None
            parts += found or ()
        for inner in self._inner:
            parts += inner.changes(value, show, wants_parts=wants_parts)
        self._mark = mark_of(value)
        if wants_parts:
            self._set_inner(value, show)
        self._set_every()
        if not parts and not is_whole:
            return []
        if not wants_parts:
            return [Part("", "", "")]
        self.text = show(value, self._name)
        return [Part("", before, self.text)] if is_whole else parts

    def _is_one(self, value: Any) -> bool:
        """Whether it is the object that was there, or takes its place."""
        mark = self._mark
        if type(mark) is not tuple or type(value) is Failure or not self.looks:
            return False
        return mark[1] == id(type(value)) and (self._is_made or mark[0] == id(value))

    def _set(self, value: Any, show: Show) -> None:
        self._failure, self.looks, self.every, self._inner = "", (), 1, []
        if type(value) is Failure:
            self._mark, self._failure = (0, 0), value.text
            self.text = plain(f"✗ {value.text}")
            return
        self._mark = mark_of(value)
        if value is UNSET:
            self.text = plain("unset")
            return
        self.text = show(value, self._name)
        make = items_of_result if self._is_made else looks_at
        self.looks = make(value, show)
        self._set_inner(value, show)
        self._set_every()

    def _set_every(self) -> None:
        most = max((look.every for look in self.looks), default=1)
        self.every = most + len(self._inner) // _INNER_SHARE

    def _set_inner(self, value: Any, show: Show) -> None:
        """Look into parts; into those that stay there only once."""
        known, self._inner = self._inner, []
        if self._is_made:
            return
        for look in self.looks:
            for key in look.inner:
                part = look.part(value, key)
                old = next((each for each in known if each.is_of(look, key, part)), None)
                if old is not None:
                    self._inner.append(old)
                elif self._is_opened(part):
                    self._inner.append(_Inner(look, key, part, show))

    def _is_opened(self, part: Any) -> bool:
        kind = type(part)
        if id(kind) in _CONTAINERS:
            return len(part) <= _LARGEST
        return id(kind) not in SCALARS and self._opens(kind)
