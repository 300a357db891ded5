"""What crosses between the front end and a process under test: one frozen dataclass per kind.

Events flow up and are named in the past tense; commands flow down and are imperatives. Every field
is plain JSON data. `KINDS` is the one table; a message whose kind is not in it is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from dataclasses import field
from dataclasses import fields
from typing import Any
from typing import get_args

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


@dataclass(frozen=True, slots=True)
class Hello:
    """A process under test has connected; always its first message."""

    protocol: int
    run_id: str
    pid: int
    worker: str
    python: str
    executable: str
    pytest: str
    rootdir: str
    cwd: str
    argv: list[str]
    engine: dict[str, Any]
    position_file: str | None = None


@dataclass(frozen=True, slots=True)
class Collected:
    """Collection ended. `nodeids` only when the run was asked to list them."""

    total: int
    missing: list[str]
    nodeids: list[str] | None = None


@dataclass(frozen=True, slots=True)
class CollectionFailed:
    """A file or folder could not be collected."""

    nodeid: str
    longrepr: str


@dataclass(frozen=True, slots=True)
class NodeStarted:
    """A test's protocol (setup, call, teardown) begins. `ts`: epoch seconds."""

    nodeid: str
    ts: float


@dataclass(frozen=True, slots=True)
class PhaseReported:
    """One phase of a test did not just pass; by pytest's own category (`failed`, `error`, …)."""

    nodeid: str
    phase: str
    category: str
    outcome: str
    duration_s: float
    exception: dict[str, Any] | None = None
    location: dict[str, Any] | None = None
    longrepr: str | None = None
    stdout: str = ""
    stderr: str = ""
    log: str = ""


@dataclass(frozen=True, slots=True)
class NodeFinished:
    """A test's protocol ended.

    `duration_s`: all phases together, pauses excluded. `plain`: category → count of the reports
    that have nothing to tell but their category (a passed call, passed subtests).
    """

    nodeid: str
    duration_s: float
    plain: dict[str, int]


@dataclass(frozen=True, slots=True)
class Bound:
    """A breakpoint found (more) functions, or can't be set on what it found."""

    id: str
    functions: list[str]
    verified: bool
    message: str | None = None


@dataclass(frozen=True, slots=True)
class CallsRecorded:
    """Recorded calls that ended, oldest first: `{n, ts, function, nodeid, thread, status, …}`."""

    calls: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Stopped:
    """A thread is parked. `pause` is the pause of the contract (section 2) plus its autopsy."""

    pause: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Resumed:
    """A parked thread goes on. `by`: `client | lease | disconnect | stop`."""

    pause_id: str
    action: str
    by: str


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """xdist's controller lost a worker."""

    worker: str
    error: str


@dataclass(frozen=True, slots=True)
class Warned:
    """Our own failure inside the guest: the probe is gone, the test goes on."""

    message: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Ctrl-C or `pytest.exit` ended the run; where it struck."""

    message: str


@dataclass(frozen=True, slots=True)
class InternalErrorRaised:
    """pytest reported an internal error (a bug in a hook of some plugin or conftest)."""

    longrepr: str


@dataclass(frozen=True, slots=True)
class Finished:
    """`pytest_sessionfinish`: the verdict of the run, whatever the process does afterwards."""

    exit_code: int


@dataclass(frozen=True, slots=True)
class Departed:
    """pytest unconfigured itself in order; nothing more comes."""


@dataclass(frozen=True, slots=True)
class Replied:
    """The answer to the command with the same `request`: exactly one of `result` and `error`."""

    request: int
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The peer sent something this side does not know; it is named and was ignored."""

    refused_kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class Configure:
    """Settings of the run; the first command of a handshake.

    `record_calls`: globs over dotted paths of functions.

    `wanted`: node ids (or files, or classes) to run, None for all. `pause_on`: `never | failure |
    error`.
    """

    pause_on: str
    lease_s: float
    wanted: list[str] | None = None
    list_nodeids: bool = False
    record_calls: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Begin:
    """Ends the handshake: every breakpoint is there, the process may load conftests and collect."""


@dataclass(frozen=True, slots=True)
class AddBreakpoint:
    """Watch a function, or change the breakpoint that has this id."""

    request: int
    id: str
    function_name: str
    behavior: str
    condition: str | None = None


@dataclass(frozen=True, slots=True)
class RemoveBreakpoint:
    """Stop watching. Pauses that it caused stay."""

    request: int
    id: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Let a parked thread go on; validated on that thread before it is released."""

    request: int
    pause_id: str
    action: str
    modified_args: list[Any] | None = None
    modified_kwargs: dict[str, Any] | None = None
    fake_result: Any = None
    exception_type: str = "Exception"
    exception_message: str = ""


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Run source text on a parked thread, in the frame `frame_index`."""

    request: int
    pause_id: str
    expression: str
    session_id: str | None = None
    frame_index: int = 0


@dataclass(frozen=True, slots=True)
class Interrupt:
    """End the evaluation that the command `request` started. Not answered itself."""

    request: int


@dataclass(frozen=True, slots=True)
class ReleaseAll:
    """Let every parked thread go on and stop nowhere any more. `by` as in `Resumed`."""

    by: str


Event = (
    Hello
    | Collected
    | CollectionFailed
    | NodeStarted
    | PhaseReported
    | NodeFinished
    | Bound
    | CallsRecorded
    | Stopped
    | Resumed
    | WorkerLost
    | Warned
    | Interrupted
    | InternalErrorRaised
    | Finished
    | Departed
    | Replied
    | Refused
)
Command = (
    Configure
    | Begin
    | AddBreakpoint
    | RemoveBreakpoint
    | Resume
    | Evaluate
    | Interrupt
    | ReleaseAll
    | Refused
)
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
        MalformedMessage: The kind is unknown or a required field is missing.
    """
    kind = data.get("kind")
    cls = KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise MalformedMessage(str(kind), "unknown kind")
    known = {name: data[name] for name in _FIELDS[cls] if name in data}
    try:
        message: Message = cls(**known)
    except TypeError as error:
        raise MalformedMessage(str(kind), str(error)) from error
    return message
