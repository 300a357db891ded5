"""Breakpoints on classes that inherit their `__init__`: only calls for their instances are meant.

Replaced whole when names are bound, under the manager's lock; read by calling threads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import ref

from pytest_cideldill.interpreter.loaded_names import mro_of
from pytest_cideldill.probes.attributes import Lead
from pytest_cideldill.probes.behaviors import FunctionProbe

_Choices = list[tuple[ref[type] | None, FunctionProbe]]
"""A class, None for any, and the breakpoint that governs calls for its instances."""


class Narrowing:
    """Limits breakpoints on an inherited `__init__` to calls for instances of their class.

    Attributes:
        choices: id(function) → the breakpoints that govern it, for which instances; replaced whole.
    """

    def __init__(self) -> None:
        self.choices: dict[int, _Choices] = {}

    def take(
        self,
        led: Iterable[tuple[Lead, FunctionProbe]],
        governing: dict[int, FunctionProbe],
    ) -> None:
        """Have the functions that names lead to governed too; adds to `governing`, by id."""
        choices: dict[int, _Choices] = {}
        for lead, each in led:
            key = id(lead.function)
            if lead.only is not None:
                choices.setdefault(key, []).append((ref(lead.only), each))
            elif key not in governing or each.rank > governing[key].rank:
                governing[key] = each
        for key, narrow in choices.items():
            if key in governing:
                narrow.append((None, governing[key]))
            governing[key] = max((each for _, each in narrow), key=lambda each: each.rank)
        self.choices = choices

    def keys_of(self, id: str) -> list[int]:
        """The functions that a breakpoint governs for some instances."""
        found = self.choices.items()
        return [key for key, narrow in found if any(each.id == id for _, each in narrow)]

    def chosen(self, key: int, args: tuple[Any, ...]) -> FunctionProbe | None:
        """The breakpoint that governs a call of a function that is in here."""
        bases = mro_of(type(args[0])) if args else ()
        mine = [
            each
            for only, each in self.choices.get(key, ())
            if only is None or any(base is only() for base in bases)
        ]
        return max(mine, key=lambda each: each.rank, default=None)
