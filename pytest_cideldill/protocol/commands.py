"""Commands: messages down to a process under test, named in the imperative."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.protocol.events import Refused


@dataclass(frozen=True, slots=True)
class Configure:
    """Settings of the run; the first command of a handshake.

    `record_calls`: globs over dotted paths of functions.

    `wanted`: node ids (or files, or classes) to run, None for all. `pause_on`: `never | failure |
    error`.

    `tag_key`: hex text of the run's key for tags of secrets; itself a secret. `no_redact`: nothing
    is hidden.

    `rootdir`: the real path of the main process's rootdir; paths in other commands begin with it.
    None: it is not known there.
    """

    pause_on: str
    lease_s: float
    wanted: list[str] | None = None
    list_nodeids: bool = False
    record_calls: list[str] = field(default_factory=list)
    tag_key: str = field(default="", repr=False)
    no_redact: bool = False
    rootdir: str | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    """Ends the handshake: every breakpoint is there, the process may load conftests and collect.

    `received`: of a process that joins again, how many bytes of its former connections were read.
    """

    received: int | None = None


@dataclass(frozen=True, slots=True)
class AddBreakpoint:
    """Watch a function, or change the breakpoint that has this id.

    This and the three commands below are what a breakpoint is on both sides: a probe in the process
    under test and a breakpoint of the front end hold one as their `spec`.

    Attributes:
        request: Number of the request; 0: no reply is waited for.
        id: `fn-1`.
        function_name: See `sourcecode.names`.
        behavior: Before a call: `stop | go | yield`.
        condition: An expression over the arguments; only calls for which it holds are hits.
        after_behavior: After a call: `stop | go | exception | stop_exception | yield`.
        replacement: The name of the function that is called instead; empty: none.
    """

    request: int
    id: str
    function_name: str
    behavior: str
    condition: str | None = None
    after_behavior: str = "yield"
    replacement: str = ""


@dataclass(frozen=True, slots=True)
class SetDefaultBehavior:
    """Change what `yield` means: `stop | go | exception | stop_exception`. Not answered."""

    behavior: str


@dataclass(frozen=True, slots=True)
class AddLine:
    """Watch a line, or change whether the probe that has this id is enabled.

    Attributes:
        request: See `AddBreakpoint`.
        id: `bp-1`, `tp-2`.
        file: Absolute real path.
        line: 1-based.
        key: Which code object of the file holds the line; see `sourcecode.codes.CodeKey.to_plain`.
        condition: An expression; only passes where it holds count further.
        hit_count: A breakpoint stops, a tracepoint logs, from this pass on.
        message: The template of a tracepoint; None: it stops.
        multiple: A tracepoint logs the passes whose number is a multiple of it; 0: every pass.
        max_notifications: After so many messages a tracepoint is done; 0: never.
    """

    request: int
    id: str
    file: str
    line: int
    key: list[str | int]
    condition: str | None = None
    hit_count: int = 1
    message: str | None = None
    multiple: int = 0
    max_notifications: int = 0
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class AddTrace:
    """Log a message at the calls of a function; only in a handshake, or declared up front.

    Attributes:
        id: `tp-1`.
        file: Absolute real path.
        qualname: Of the function, in that file.
        line: Where its body begins.
        at: When it logs: `call | return | raise`.
        message: A template.
        condition: An expression; only calls for which it holds count.
    """

    id: str
    file: str
    qualname: str
    line: int
    at: str
    message: str
    condition: str | None = None


@dataclass(frozen=True, slots=True)
class AddException:
    """Watch exceptions of a class, or change whether the probe that has this id is enabled.

    Attributes:
        request: See `AddBreakpoint`.
        id: `ex-3`.
        exception_type: A builtin, a dotted path, or a bare name: each class of that name.
        first_chance: Stop where it is raised.
        second_chance: Stop when it escaped a test, a fixture or a thread.
        include_subtypes: Whether subclasses are meant too.
        scope: Raised where: `user`, in the first frame of user code; `all`, in any.
    """

    request: int
    id: str
    exception_type: str
    first_chance: bool = True
    second_chance: bool = True
    include_subtypes: bool = True
    scope: str = "user"
    enabled: bool = True


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
    replacement_function: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """Let a parked thread go on to its next stop, which is the same pause; else `StepEnded` comes.

    `mode`: `in | over | out`; `until_line` beats it and `count`.
    """

    request: int
    pause_id: str
    mode: str = "over"
    count: int = 1
    until_line: int | None = None


@dataclass(frozen=True, slots=True)
class PauseNow:
    """Stop a running thread where it is, by default the one that runs the tests.

    Answered at once; the stop comes, or not, until `CancelPause`.
    """

    request: int
    thread_id: int | None = None


@dataclass(frozen=True, slots=True)
class CancelPause:
    """Cancel `PauseNow`; reply with the stacks of all threads."""

    request: int


@dataclass(frozen=True, slots=True)
class PauseOn:
    """Change which failures pause from now on: `never | failure | error`. Not answered."""

    pause_on: str


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Run source text on a parked thread, in the frame `frame_index`.

    None: in the one that the pause shows.
    """

    request: int
    pause_id: str
    expression: str
    session_id: str | None = None
    frame_index: int | None = None


@dataclass(frozen=True, slots=True)
class Inspect:
    """Describe a kept object, deeper than its snapshot, on a parked thread."""

    request: int
    pause_id: str
    cid: str
    path: str
    depth: int


@dataclass(frozen=True, slots=True)
class ReadStack:
    """Reply with the frames of a pause, or of the thread `thread_id` while it runs."""

    request: int
    pause_id: str | None = None
    thread_id: int | None = None
    start: int = 0
    most: int = 20


@dataclass(frozen=True, slots=True)
class ReadVariables:
    """Reply with the variables of a frame of a pause: their names, or the values of `names`.

    `frame_index`: as of `Evaluate`.
    `scope`: `locals | globals | closure`.
    """

    request: int
    pause_id: str
    frame_index: int | None = None
    scope: str = "locals"
    names: list[str] | None = None


@dataclass(frozen=True, slots=True)
class ReadContext:
    """Reply with the exception of a pause, described anew to the extent that is asked for.

    `max_frames`: None for as many as the limits say.
    """

    request: int
    pause_id: str
    max_frames: int | None = None
    variables_for: int = 1
    max_inner: int = 5


@dataclass(frozen=True, slots=True)
class ReadThreads:
    """Reply with all threads and asyncio tasks; `stacks`: and the stack of each thread."""

    request: int
    stacks: bool = False


@dataclass(frozen=True, slots=True)
class FindCode:
    """Reply whether code of a file is loaded. `file`: an absolute real path."""

    request: int
    file: str


@dataclass(frozen=True, slots=True)
class Interrupt:
    """End the evaluation that the command `request` started. Not answered itself."""

    request: int


@dataclass(frozen=True, slots=True)
class ReleaseAll:
    """Let every parked thread go on and stop nowhere any more. `by` as in `Resumed`."""

    by: str


@dataclass(frozen=True, slots=True)
class Relay:
    """Have xdist's controller relay the tests of a worker that is not connected."""

    worker: str


@dataclass(frozen=True, slots=True)
class Changed:
    """A client changed how a test goes on, in words; for the record of the run. Not answered."""

    what: str
    nodeid: str | None = None


Command = (
    Configure
    | Begin
    | AddBreakpoint
    | SetDefaultBehavior
    | AddLine
    | AddTrace
    | AddException
    | RemoveBreakpoint
    | Resume
    | Step
    | PauseNow
    | CancelPause
    | PauseOn
    | Evaluate
    | Inspect
    | ReadContext
    | ReadStack
    | ReadVariables
    | ReadThreads
    | FindCode
    | Interrupt
    | ReleaseAll
    | Relay
    | Changed
    | Refused
)
