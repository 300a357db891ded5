"""The value of an expression as it was seen last, and how the next one differs."""

from __future__ import annotations

import json
from typing import Any

from pytest_cideldill.calltraces.row_file import plain
from pytest_cideldill.watching.contents import (
    Look,
    Part,
    Show,
    is_same,
    items_of_result,
    looks_at,
    mark_of,
)
from pytest_cideldill.watching.expressions import UNSET, Failure


class Seen:
    """What an expression gave.

    Args:
        value: The value, `UNSET` or a `Failure`.
        show: Renders.
        name: The name of the value.
        is_made: Whether the expression makes a new object each time, so that only what is in it
            counts.

    Attributes:
        text: The text of the value, as JSON.
        looks: What is in it.
        every: At each how-manieth event what is in it is compared.
    """

    def __init__(self, value: Any, show: Show, name: str, *, is_made: bool) -> None:
        self._name, self._is_made = name, is_made
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
            return [Part("", before, _another(before))] if is_other else []
        parts: list[Part] = []
        is_whole = False
        for look in self.looks:
            found = look.changes(value, show if wants_parts else None)
            is_whole = is_whole or found is None
            parts += found or ()
        self._mark = mark_of(value)
        self.every = max((look.every for look in self.looks), default=1)
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
        self._failure, self.looks, self.every = "", (), 1
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
        self.every = max((look.every for look in self.looks), default=1)


def _another(text: str) -> str:
    return plain(f"{json.loads(text)} (another object)")
