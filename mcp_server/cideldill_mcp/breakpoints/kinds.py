"""One breakpoint of each kind as a client asked for it: where it is bound, what it counted.

Lives on the event loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cideldill_mcp.breakpoints.places import Place
from pytest_cideldill.protocol import AddBreakpoint, AddException, AddLine, AddTrace, Bound, Command
from pytest_cideldill.sourcecode.exceptions import builtin_exception
from pytest_cideldill.sourcecode.reading import source_bytes, text_in

PENDING = "not bound yet: no test process has loaded such a function; it is bound when one does"


PENDING_LINE = "not bound yet: no test process has run this file; it is bound when one does"

EDITED = (
    "the file was edited after this run began: a process that had loaded it has the old text, in "
    "which this line may be another; run again"
)

PENDING_CLASS = "not bound yet: no test process has such a class; it is bound when one has"

SOURCES = "sources"
"""Stands for a worker: what the sources say while no process is alive."""


@dataclass(frozen=True, slots=True)
class Passes:
    """What one process counted: see `probes.linehits.Probe`."""

    passes: int = 0
    condition_errors: int = 0
    last_condition_error: str | None = None


def _tell_nobody() -> None:
    return None


@dataclass(slots=True)
class Breakpoint(ABC):
    """What all kinds have in common.

    Attributes:
        bound: Worker → what it is bound to there, in the current run.
        passes: Worker → `LinesPassed` of the current run; of functions nothing is told.
        note: What became of it when its file was edited.
        is_lost: It has no place any more: no process is told of it.
        changed: To be called by who has changed it, when it is set everywhere.
    """

    id: str
    condition: str | None = None
    enabled: bool = True
    bound: dict[str, Bound] = field(default_factory=dict)
    passes: dict[str, Passes] = field(default_factory=dict)
    note: str | None = None
    is_lost: bool = False
    changed: Callable[[], None] = field(default=_tell_nobody, repr=False, compare=False)

    pending = PENDING

    @property
    def functions(self) -> list[str]:
        """The functions it is bound to, over all processes."""
        return sorted({name for each in self.bound.values() for name in each.functions})

    @property
    def verified(self) -> bool:
        """Whether any process has bound it."""
        return any(each.verified for each in self.bound.values())

    @property
    def is_on(self) -> bool:
        """Whether it is enabled and not done."""
        return self.enabled

    def enable(self, enabled: bool) -> None:
        """Switch it on or off."""
        self.enabled = enabled

    @property
    def state(self) -> str:
        """`bound | pending | disabled`."""
        if not self.is_on:
            return "disabled"
        live = [each for worker, each in self.bound.items() if worker != SOURCES]
        return "bound" if any(each.verified for each in live) else "pending"

    @property
    def message(self) -> str | None:
        """What became of it, and why it is not verified; None when all is well."""
        parts = [self.note]
        if not self.verified and not self.is_lost:
            reasons = [each.message for each in self.bound.values() if each.message]
            parts.append(reasons[0] if reasons else self.pending)
        return "; ".join(each for each in parts if each) or None

    def begin_run(self) -> None:
        """A new run binds it, and counts, anew."""
        self.bound.clear()
        self.passes.clear()

    @property
    def hits(self) -> int:
        """Passes in all processes of the current run."""
        return sum(each.passes for each in self.passes.values())

    @abstractmethod
    def command(self, request: int) -> Command:
        """What sets it in a process."""


@dataclass(slots=True, kw_only=True)
class FunctionBreakpoint(Breakpoint):
    """One breakpoint on functions of a name."""

    function_name: str
    behavior: str
    after_behavior: str = "yield"
    replacement: str = ""

    @property
    def via(self) -> str | None:
        """How calls are intercepted, `attribute` if so in any process; None: in none yet."""
        return min((each.via for each in self.bound.values() if each.via), default=None)

    def command(self, request: int) -> Command:
        """See `Breakpoint`."""
        return AddBreakpoint(
            request,
            self.id,
            self.function_name,
            self.behavior,
            self.condition,
            self.after_behavior,
            self.replacement,
        )


@dataclass(slots=True, kw_only=True)
class LineBreakpoint(Breakpoint):
    """A breakpoint on a line or, with a message, a tracepoint.

    Attributes:
        run_id: It is for that run only.
        published: The messages of the current run, since it was enabled.
        is_newer: It was set in a run that had begun when its file was edited.
    """

    place: Place
    hit_count: int = 1
    log_message: str | None = None
    multiple: int = 0
    max_notifications: int = 0
    run_id: str | None = None
    published: int = 0
    is_newer: bool = False

    pending = PENDING_LINE

    @property
    def type(self) -> str:
        """`blocking | tracepoint`."""
        return "blocking" if self.log_message is None else "tracepoint"

    @property
    def is_on(self) -> bool:
        """See `Breakpoint`; the limit of messages is one of all processes of a run together."""
        return self.enabled and not 0 < self.max_notifications <= self.published

    def enable(self, enabled: bool) -> None:
        """See `Breakpoint`; who switches it on anew gets as many messages anew."""
        if enabled and not self.is_on:
            self.published = 0
        self.enabled = enabled

    def begin_run(self) -> None:
        """See `Breakpoint`."""
        Breakpoint.begin_run(self)
        self.published, self.is_newer = 0, False

    @property
    def message(self) -> str | None:
        """See `Breakpoint`."""
        return EDITED if self.is_newer else super(LineBreakpoint, self).message

    def command(self, request: int) -> Command:
        """See `Breakpoint`."""
        return AddLine(
            request,
            self.id,
            self.place.file,
            self.place.line,
            self.place.key,
            condition=self.condition,
            hit_count=self.hit_count,
            message=self.log_message,
            multiple=self.multiple,
            max_notifications=self.max_notifications,
            enabled=self.is_on,
        )


@dataclass(slots=True, kw_only=True)
class FunctionTracepoint(LineBreakpoint):
    """A tracepoint on the calls of a function, which a record tells; its place is the body's."""

    at: str

    @property
    def hits(self) -> int:
        """Only what it told is counted."""
        return self.published

    @property
    def verified(self) -> bool:
        """No process tells more of it than its messages."""
        return self.published > 0

    @property
    def state(self) -> str:
        """See `Breakpoint`."""
        return "bound" if self.verified else "pending"

    def command(self, request: int) -> Command:  # noqa: ARG002 - it is not answered
        """See `Breakpoint`."""
        place, message = self.place, self.log_message or ""
        what = (place.file, str(place.key[0]), place.line, self.at, message)
        return AddTrace(self.id, *what, self.condition)


@dataclass(slots=True, kw_only=True)
class ExceptionBreakpoint(Breakpoint):
    """A breakpoint on exceptions of a class; see `probes.classes.ExceptionBreakpoint`."""

    exception_type: str
    first_chance: bool = True
    second_chance: bool = True
    include_subtypes: bool = True
    scope: str = "user"

    pending = PENDING_CLASS

    def __post_init__(self) -> None:
        self._foresee()

    def begin_run(self) -> None:
        """See `Breakpoint`."""
        Breakpoint.begin_run(self)
        self._foresee()

    def _foresee(self) -> None:
        if builtin_exception(self.exception_type) is not None:
            self.bound[SOURCES] = Bound(self.id, [self.exception_type], verified=True)

    def command(self, request: int) -> Command:
        """See `Breakpoint`."""
        return AddException(
            request,
            self.id,
            self.exception_type,
            first_chance=self.first_chance,
            second_chance=self.second_chance,
            include_subtypes=self.include_subtypes,
            scope=self.scope,
            enabled=self.enabled,
        )


def _line_of(file: Path, line: int) -> str:
    """A line of source that a record names, where it is here: of what is no source, nothing."""
    if file.suffix != ".py":
        return ""
    try:
        lines = text_in(source_bytes(str(file))).split("\n")
    except (OSError, ValueError):
        return ""
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def from_command(
    command: AddLine | AddTrace | AddBreakpoint | AddException, rootdir: str
) -> Breakpoint:
    """A breakpoint as a record tells it; its file need not be on this machine."""
    if isinstance(command, AddBreakpoint):
        return FunctionBreakpoint(
            command.id,
            command.condition,
            function_name=command.function_name,
            behavior=command.behavior,
            after_behavior=command.after_behavior,
            replacement=command.replacement,
        )
    if isinstance(command, AddException):
        return ExceptionBreakpoint(
            command.id,
            enabled=command.enabled,
            exception_type=command.exception_type,
            first_chance=command.first_chance,
            second_chance=command.second_chance,
            include_subtypes=command.include_subtypes,
            scope=command.scope,
        )
    file = Path(command.file)
    shown = file.relative_to(rootdir).as_posix() if file.is_relative_to(rootdir) else command.file
    source = _line_of(file, command.line)
    if isinstance(command, AddTrace):
        name, line = command.qualname, command.line
        return FunctionTracepoint(
            command.id,
            command.condition,
            place=Place(command.file, shown, line, name, [name, line, 0], source),
            log_message=command.message,
            at=command.at,
        )
    function = str(command.key[0])
    return LineBreakpoint(
        command.id,
        command.condition,
        enabled=command.enabled,
        place=Place(command.file, shown, command.line, function, command.key, source),
        hit_count=command.hit_count,
        log_message=command.message,
        multiple=command.multiple,
        max_notifications=command.max_notifications,
    )
