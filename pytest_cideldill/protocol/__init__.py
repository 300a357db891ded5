"""What crosses between the front end and a process under test: one frozen dataclass per kind.

Events flow up and are named in the past tense; commands flow down and are imperatives. Every field
is plain JSON data. `KINDS` is the one table; a message whose kind is not in it is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any, get_args

from pytest_cideldill.protocol.checking import misfit
from pytest_cideldill.protocol.commands import *
from pytest_cideldill.protocol.events import *

PROTOCOL = 2
"""Version of this table. Two sides with different numbers don't talk (see `Hello`)."""


class MalformedMessage(Exception):
    """A message that does not fit `KINDS`.

    Attributes:
        kind: The kind that it claimed, for the `Refused` answer.
    """

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(f"message {kind!r}: {reason}")
        self.kind = kind


Message = Event | Command

KINDS: dict[str, type[Any]] = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower(): cls
    for cls in (*get_args(Event), *get_args(Command))
}
"""Kind → class, from the two unions above: `AddBreakpoint` travels as `add_breakpoint`."""

_NAMES: dict[type[Any], str] = {cls: kind for kind, cls in KINDS.items()}
_FIELDS: dict[type[Any], tuple[str, ...]] = {
    cls: tuple(f.name for f in fields(cls)) for cls in _NAMES
}


def kind_of(message: Message) -> str:
    """The name of a message in `KINDS`."""
    return _NAMES[type(message)]


def to_plain(message: Message) -> dict[str, Any]:
    """`{"kind": KIND, **fields}`, ready for a frame."""
    cls = type(message)
    return {"kind": _NAMES[cls], **{name: getattr(message, name) for name in _FIELDS[cls]}}


def from_plain(data: dict[str, Any]) -> Message:
    """The message of a received frame.

    Fields that this side does not know are ignored, so that a newer peer may add some.

    Raises:
        MalformedMessage: The kind is unknown, a required field is missing, or one has another type.
    """
    kind = data.get("kind")
    cls = KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise MalformedMessage(str(kind), "unknown kind")
    if (wrong := misfit(cls, data)) is not None:
        raise MalformedMessage(str(kind), wrong)
    message: Message = cls(**{name: data[name] for name in _FIELDS[cls] if name in data})
    if isinstance(message, Recorded):
        try:
            message.places()
        except ValueError as error:
            raise MalformedMessage(str(kind), str(error)) from error
    return message
