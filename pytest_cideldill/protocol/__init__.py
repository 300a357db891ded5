"""What crosses between the front end and a process under test: one frozen dataclass per kind.

Events flow up and are named in the past tense; commands flow down and are imperatives. Every field
is plain JSON data. `KINDS` is the one table; a message whose kind is not in it is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any
from typing import get_args

from pytest_cideldill.protocol.attempts import CRASHED
from pytest_cideldill.protocol.attempts import OUTCOMES
from pytest_cideldill.protocol.attempts import is_made_again
from pytest_cideldill.protocol.checking import is_moment
from pytest_cideldill.protocol.checking import misfit
from pytest_cideldill.protocol.commands import AddBreakpoint
from pytest_cideldill.protocol.commands import AddException
from pytest_cideldill.protocol.commands import AddLine
from pytest_cideldill.protocol.commands import AddTrace
from pytest_cideldill.protocol.commands import Begin
from pytest_cideldill.protocol.commands import CancelPause
from pytest_cideldill.protocol.commands import Changed
from pytest_cideldill.protocol.commands import Command
from pytest_cideldill.protocol.commands import Configure
from pytest_cideldill.protocol.commands import Evaluate
from pytest_cideldill.protocol.commands import FindCode
from pytest_cideldill.protocol.commands import Inspect
from pytest_cideldill.protocol.commands import Interrupt
from pytest_cideldill.protocol.commands import PauseNow
from pytest_cideldill.protocol.commands import PauseOn
from pytest_cideldill.protocol.commands import ReadContext
from pytest_cideldill.protocol.commands import ReadStack
from pytest_cideldill.protocol.commands import ReadThreads
from pytest_cideldill.protocol.commands import ReadVariables
from pytest_cideldill.protocol.commands import Relay
from pytest_cideldill.protocol.commands import ReleaseAll
from pytest_cideldill.protocol.commands import RemoveBreakpoint
from pytest_cideldill.protocol.commands import Resume
from pytest_cideldill.protocol.commands import SetDefaultBehavior
from pytest_cideldill.protocol.commands import Step
from pytest_cideldill.protocol.events import CALLS_OF
from pytest_cideldill.protocol.events import Bound
from pytest_cideldill.protocol.events import Collected
from pytest_cideldill.protocol.events import CollectionFailed
from pytest_cideldill.protocol.events import Departed
from pytest_cideldill.protocol.events import EngineChosen
from pytest_cideldill.protocol.events import Event
from pytest_cideldill.protocol.events import Finished
from pytest_cideldill.protocol.events import Hello
from pytest_cideldill.protocol.events import InternalErrorRaised
from pytest_cideldill.protocol.events import Interrupted
from pytest_cideldill.protocol.events import ItemsFound
from pytest_cideldill.protocol.events import LinesPassed
from pytest_cideldill.protocol.events import NodeFinished
from pytest_cideldill.protocol.events import NodeRelayed
from pytest_cideldill.protocol.events import NodeStarted
from pytest_cideldill.protocol.events import PhaseReported
from pytest_cideldill.protocol.events import Recorded
from pytest_cideldill.protocol.events import RedactionChosen
from pytest_cideldill.protocol.events import Refused
from pytest_cideldill.protocol.events import Rejoined
from pytest_cideldill.protocol.events import Replied
from pytest_cideldill.protocol.events import Resumed
from pytest_cideldill.protocol.events import StepEnded
from pytest_cideldill.protocol.events import Stopped
from pytest_cideldill.protocol.events import Warned
from pytest_cideldill.protocol.events import Watched
from pytest_cideldill.protocol.events import WorkerLost
from pytest_cideldill.protocol.events import WorkerReady
from pytest_cideldill.protocol.lost import lost_reports

__all__ = [
    "CALLS_OF",
    "CRASHED",
    "KINDS",
    "OUTCOMES",
    "PROTOCOL",
    "AddBreakpoint",
    "AddException",
    "AddLine",
    "AddTrace",
    "Begin",
    "Bound",
    "CancelPause",
    "Changed",
    "Collected",
    "CollectionFailed",
    "Command",
    "Configure",
    "Departed",
    "EngineChosen",
    "Evaluate",
    "Event",
    "FindCode",
    "Finished",
    "Hello",
    "Inspect",
    "InternalErrorRaised",
    "Interrupt",
    "Interrupted",
    "ItemsFound",
    "LinesPassed",
    "MalformedMessage",
    "Message",
    "NodeFinished",
    "NodeRelayed",
    "NodeStarted",
    "PauseNow",
    "PauseOn",
    "PhaseReported",
    "ReadContext",
    "ReadStack",
    "ReadThreads",
    "ReadVariables",
    "Recorded",
    "RedactionChosen",
    "Refused",
    "Rejoined",
    "Relay",
    "ReleaseAll",
    "RemoveBreakpoint",
    "Replied",
    "Resume",
    "Resumed",
    "SetDefaultBehavior",
    "Step",
    "StepEnded",
    "Stopped",
    "Warned",
    "Watched",
    "WorkerLost",
    "WorkerReady",
    "from_plain",
    "is_made_again",
    "is_moment",
    "kind_of",
    "lost_reports",
    "to_plain",
]

PROTOCOL = 1
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
    return message
