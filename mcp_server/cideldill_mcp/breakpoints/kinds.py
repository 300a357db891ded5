"""The kinds of breakpoints as clients see them: what is wanted, where it is bound, what it counted.

Lives on the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from cideldill_mcp.breakpoints.places import Place
from pytest_cideldill.protocol import AddBreakpoint, AddException, AddLine, AddTrace, Bound, Command
from pytest_cideldill.sourcecode.names import builtin_exception
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
    """The counts of one process: see `probes.linehits.LineProbe.counts`."""

    passes: int = 0
    condition_errors: int = 0
    last_condition_error: str | None = None


def _ignore() -> None:
    return None


@dataclass(slots=True)
class Breakpoint:
    """What all kinds have in common: the command that sets it, and what processes reported.

    Attributes:
        spec: The command; its id is that of the breakpoint, its request is not used.
        bound: Worker → what it is bound to there, in the current run.
        passes: Worker → `LinesPassed` of the current run; none are reported of functions.
        note: What became of it when its file was edited.
        is_lost: It has no place any more: it is sent to no process.
        changed: To be called after a change, once it is set everywhere.
    """

    spec: AddBreakpoint | AddLine | AddException
    bound: dict[str, Bound] = field(default_factory=dict)
    passes: dict[str, Passes] = field(default_factory=dict)
    note: str | None = None
    is_lost: bool = False
    changed: Callable[[], None] = field(default=_ignore, repr=False, compare=False)

    pending = PENDING

    @property
    def id(self) -> str:
        """`fn-1`, `bp-2`, `tp-3`, `ex-4`."""
        return self.spec.id

    @property
    def condition(self) -> str | None:
        """An expression that must hold at a hit; exception breakpoints have none."""
        return None if isinstance(self.spec, AddException) else self.spec.condition

    @property
    def enabled(self) -> bool:
        """Whether clients have it switched on; function breakpoints have no such switch."""
        return isinstance(self.spec, AddBreakpoint) or self.spec.enabled

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
        if not isinstance(self.spec, AddBreakpoint):
            self.spec = replace(self.spec, enabled=enabled)

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
        return "; ".join(part for part in parts if part) or None

    def begin_run(self) -> None:
        """A new run binds it, and counts, anew."""
        self.bound.clear()
        self.passes.clear()

    @property
    def hits(self) -> int:
        """Passes in all processes of the current run."""
        return sum(each.passes for each in self.passes.values())

    def command(self, request: int) -> Command:
        """The command that sets it in a process."""
        return replace(self.spec, request=request)


@dataclass(slots=True)
class FunctionBreakpoint(Breakpoint):
    """A breakpoint on the functions of a name."""

    spec: AddBreakpoint

    @property
    def via(self) -> str | None:
        """How calls are intercepted, `attribute` if so in any process; None: in none yet."""
        return min((each.via for each in self.bound.values() if each.via), default=None)


@dataclass(slots=True, kw_only=True)
class LineBreakpoint(Breakpoint):
    """A breakpoint on a line or, with a message, a tracepoint.

    Attributes:
        place: The place that the spec names, as clients see it and as it is found after edits.
        run_id: It is for that run only.
        published: The messages of the current run, since it was enabled.
        is_newer: It was set in a run that had begun when its file was edited.
    """

    spec: AddLine
    place: Place
    run_id: str | None = None
    published: int = 0
    is_newer: bool = False

    pending = PENDING_LINE

    @property
    def type(self) -> str:
        """`blocking | tracepoint`."""
        return "blocking" if self.spec.message is None else "tracepoint"

    @property
    def is_on(self) -> bool:
        """Whether it is enabled and may log more; all processes of a run share one limit."""
        return self.enabled and not 0 < self.spec.max_notifications <= self.published

    def enable(self, enabled: bool) -> None:
        """Switch it on or off; switched on again, it may log as many messages again."""
        if enabled and not self.is_on:
            self.published = 0
        Breakpoint.enable(self, enabled)

    def move(self, place: Place) -> None:
        """Its line is at another place now."""
        self.place = place
        self.spec = replace(self.spec, file=place.file, line=place.line, key=place.key)

    def begin_run(self) -> None:
        """A new run binds it, and counts, anew; its process will load the edited file."""
        Breakpoint.begin_run(self)
        self.published, self.is_newer = 0, False

    @property
    def message(self) -> str | None:
        """What became of it, and why it is not verified; None when all is well."""
        return EDITED if self.is_newer else super(LineBreakpoint, self).message

    def command(self, request: int) -> Command:
        """The command that sets it in a process, where it is off once the limit is reached."""
        return replace(self.spec, request=request, enabled=self.is_on)


@dataclass(slots=True, kw_only=True)
class FunctionTracepoint(LineBreakpoint):
    """A tracepoint on the calls of a function, as records have it; its place is the body's.

    Attributes:
        trace: The command that set it; the spec repeats what lines have too.
    """

    trace: AddTrace

    @property
    def hits(self) -> int:
        """Only its messages are counted."""
        return self.published

    @property
    def verified(self) -> bool:
        """Whether it has logged a message: processes report nothing else of it."""
        return self.published > 0

    @property
    def state(self) -> str:
        """`bound | pending`."""
        return "bound" if self.verified else "pending"

    def command(self, request: int) -> Command:  # noqa: ARG002 - it is not answered
        """The command that sets it in a process."""
        return self.trace


@dataclass(slots=True)
class ExceptionBreakpoint(Breakpoint):
    """A breakpoint on exceptions of a class."""

    spec: AddException

    pending = PENDING_CLASS

    def __post_init__(self) -> None:
        self._foresee()

    def begin_run(self) -> None:
        """A new run binds it, and counts, anew; builtin classes are known before it."""
        Breakpoint.begin_run(self)
        self._foresee()

    def _foresee(self) -> None:
        name = self.spec.exception_type
        if builtin_exception(name) is not None:
            self.bound[SOURCES] = Bound(self.id, [name], verified=True)


def _line_of(file: Path, line: int) -> str:
    """A line of source that a record names; empty if its file is not here or no source."""
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
    """A breakpoint that a record names; its file need not be on this machine."""
    if isinstance(command, AddBreakpoint):
        return FunctionBreakpoint(command)
    if isinstance(command, AddException):
        return ExceptionBreakpoint(command)
    file = Path(command.file)
    shown = file.relative_to(rootdir).as_posix() if file.is_relative_to(rootdir) else command.file
    source = _line_of(file, command.line)
    if isinstance(command, AddLine):
        function = str(command.key[0])
        place = Place(command.file, shown, command.line, function, command.key, source)
        return LineBreakpoint(spec=command, place=place)
    name, line = command.qualname, command.line
    place = Place(command.file, shown, line, name, [name, line, 0], source)
    spec = replace(place.spec, id=command.id, condition=command.condition, message=command.message)
    return FunctionTracepoint(spec=spec, place=place, trace=command)
