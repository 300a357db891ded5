"""Dataclasses that are made quickly.

A process under test makes a hundred of them before its first test. The original writes and compiles
six methods for each frozen one, which takes as long as to import all else of ours; here it makes
`__init__` only, and the others are shared. They do what the original's do, for which type checkers
take this one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING
from typing import Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        *, frozen: bool = False, slots: bool = False, eq: bool = True
    ) -> Callable[[type[Any]], type[Any]]:
        """See `dataclasses.dataclass`.

        Args:
            frozen: Whether each value can be set but once, by `__init__`; only with `slots`.
            slots: Whether it has slots, and no `__dict__`.
            eq: Whether it is compared by its values; else it is equal to itself only.
        """

        def made(cls: type[Any]) -> type[Any]:
            own = dataclasses.dataclass(repr=False, eq=False, slots=slots)(cls)
            fields = dataclasses.fields(own)
            own.__repr__ = _representing([each.name for each in fields if each.repr])
            if eq:
                equals, hashed = _comparing([each.name for each in fields if each.compare])
                own.__eq__, own.__hash__ = equals, hashed if frozen else None
            if frozen:
                own.__setattr__, own.__delattr__ = _set_once, _delete
            return own

        return made


def _representing(names: list[str]) -> Callable[[object], str]:
    @recursive_repr()
    def represent(self: object) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({values})"

    return represent


def _comparing(
    names: list[str],
) -> tuple[Callable[[object, object], bool], Callable[[object], int]]:
    values: Callable[[object], object] = attrgetter(*names) if names else lambda _: ()

    def equals(self: object, other: object) -> bool:
        return values(self) == values(other) if type(other) is type(self) else NotImplemented

    def hashed(self: object) -> int:
        return hash((type(self), values(self)))

    return equals, hashed


def _set_once(self: object, name: str, value: object) -> None:
    if hasattr(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _delete(_self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
