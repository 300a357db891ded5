"""A decorator that makes dataclasses quickly.

A process under test makes a hundred dataclasses before its first test. The original decorator
writes and compiles six methods for each frozen one, which takes as long as all other imports of
ours. Here the methods are shared, except the `__init__` of classes that are not frozen, of which
there may be very many instances; the original makes those classes. The methods do the same as the
original's, `fields` and `replace` work, and type checkers take this decorator for the original.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

_set = object.__setattr__
_IS_FIELD: Any = vars(dataclasses)["_FIELD"]

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        *, frozen: bool = False, slots: bool = False, eq: bool = True
    ) -> Callable[[type[Any]], type[Any]]:
        """Make a dataclass like `dataclasses.dataclass`, but faster.

        Args:
            frozen: Whether only `__init__` can set values; needs `slots`.
            slots: Whether instances have slots, and no `__dict__`.
            eq: Whether instances are compared by their values; else each equals only itself.
        """

        def made(cls: type[Any]) -> type[Any]:
            if frozen:
                own = _with_fields(cls)
            else:
                own = dataclasses.dataclass(repr=False, eq=False, slots=slots)(cls)
            fields = dataclasses.fields(own)
            own.__repr__ = _representing([field.name for field in fields if field.repr])
            if eq:
                equals, hashed = _comparing([field.name for field in fields if field.compare])
                own.__eq__, own.__hash__ = equals, hashed if frozen else None
            if frozen:
                own.__init__, own.__setstate__ = _initializing(fields), _restore
                own.__setattr__, own.__delattr__ = _keep, _keep
            return own

        return made


def _with_fields(cls: type[Any]) -> type[Any]:
    """The class again, with slots for its fields; it has no base that is a dataclass."""
    fields: dict[str, Any] = {}
    values = dict(vars(cls))
    for name, annotation in values.get("__annotations__", {}).items():
        default = values.pop(name, dataclasses.MISSING)
        is_field = isinstance(default, dataclasses.Field)
        made: Any = default if is_field else dataclasses.field(default=default)
        made.name, made.type, made.kw_only = name, annotation, False
        made._field_type = _IS_FIELD
        fields[name] = made
    for name in ("__dict__", "__weakref__"):
        values.pop(name, None)
    values["__slots__"] = values["__match_args__"] = tuple(fields)
    values["__dataclass_fields__"] = fields
    own: type[Any] = type(cls)(cls.__name__, cls.__bases__, values)  # type: ignore[misc]
    own.__qualname__ = cls.__qualname__
    return own


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


def _initializing(fields: Sequence[dataclasses.Field[Any]]) -> Callable[..., None]:
    names = [field.name for field in fields]
    defaults = {field.name: field.default for field in fields}
    factories = {field.name: field.default_factory for field in fields}

    def initialize(self: object, /, *values: object, **named: object) -> None:
        given = dict(zip(names, values, strict=False))
        if len(given) < len(values) or given.keys() & named or not named.keys() <= defaults.keys():
            raise TypeError(f"{type(self).__name__} takes {', '.join(names)}, each at most once")
        given |= named
        for name in names:
            if name in given:
                value = given[name]
            elif (factory := factories[name]) is not dataclasses.MISSING:
                value = factory()
            elif (value := defaults[name]) is dataclasses.MISSING:
                raise TypeError(f"{type(self).__name__} is missing {name!r}")
            _set(self, name, value)

    return initialize


def _restore(self: object, state: tuple[None, dict[str, object]]) -> None:
    for name, value in state[1].items():
        _set(self, name, value)


def _keep(_self: object, name: str, _value: object = None) -> None:
    raise dataclasses.FrozenInstanceError(f"{name!r} stays as it is")
