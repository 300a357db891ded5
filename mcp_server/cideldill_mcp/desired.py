"""The breakpoints that clients asked for. They outlive runs and are sent to every process.

Lives on the event loop.
"""

from __future__ import annotations

import itertools
from abc import ABC
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field

from pytest_cideldill.syntax.exceptions import builtin_exception
from pytest_cideldill.wire import AddBreakpoint
from pytest_cideldill.wire import AddException
from pytest_cideldill.wire import AddLine
from pytest_cideldill.wire import Bound
from pytest_cideldill.wire import Command
from pytest_cideldill.wire import LinesPassed

PENDING = "not bound yet: no test process has loaded such a function; it is bound when one does"


PENDING_LINE = "not bound yet: no test process has run this file; it is bound when one does"

PENDING_CLASS = "not bound yet: no test process has such a class; it is bound when one has"

SOURCES = "sources"
"""Stands for a worker: what the sources say while no process is alive."""


@dataclass(frozen=True, slots=True)
class Passes:
    """What one process counted: see `probes.linehits.Probe`."""

    passes: int = 0
    sent: int = 0
    condition_errors: int = 0
    last_condition_error: str | None = None


@dataclass(slots=True)
class Breakpoint(ABC):
    """What all kinds have in common.

    Attributes:
        bound: Worker → what it is bound to there, in the current run.
        passes: Worker → `LinesPassed` of the current run; of functions nothing is told.
    """

    id: str
    condition: str | None = None
    enabled: bool = True
    bound: dict[str, Bound] = field(default_factory=dict)
    passes: dict[str, Passes] = field(default_factory=dict)

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
    def state(self) -> str:
        """`bound | pending | disabled`."""
        if not self.enabled:
            return "disabled"
        live = [each for worker, each in self.bound.items() if worker != SOURCES]
        return "bound" if any(each.verified for each in live) else "pending"

    @property
    def message(self) -> str | None:
        """Why it is not verified; None when it is."""
        if self.verified:
            return None
        reasons = [each.message for each in self.bound.values() if each.message]
        return reasons[0] if reasons else self.pending

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


@dataclass(frozen=True, slots=True)
class Place:
    """A line that has code, as `syntax.helper` answers it.

    Attributes:
        file: Absolute real path.
        shown: As clients see it: relative to the rootdir when inside it.
        function: Qualified name of the code object.
        key: See `syntax.codes.CodeKey.to_plain`.
    """

    file: str
    shown: str
    line: int
    function: str
    key: list[str | int]
    source: str


@dataclass(slots=True, kw_only=True)
class LineBreakpoint(Breakpoint):
    """A breakpoint on a line or, with a message, a tracepoint."""

    place: Place
    hit_count: int = 1
    log_message: str | None = None
    multiple: int = 0
    max_notifications: int = 0

    pending = PENDING_LINE

    @property
    def type(self) -> str:
        """`blocking | tracepoint`."""
        return "blocking" if self.log_message is None else "tracepoint"

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
            enabled=self.enabled,
        )


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


class Desired:
    """All breakpoints, by id. One counter numbers every kind (contract, section 3).

    Attributes:
        default_behavior: What a behavior `yield` means: `stop | go | exception | stop_exception`.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._known: dict[str, Breakpoint] = {}
        self.default_behavior = "stop"

    def __iter__(self) -> Iterator[Breakpoint]:
        return iter(list(self._known.values()))

    def __len__(self) -> int:
        return len(self._known)

    @property
    def functions(self) -> list[FunctionBreakpoint]:
        """Those on functions."""
        return [each for each in self if isinstance(each, FunctionBreakpoint)]

    @property
    def lines(self) -> list[LineBreakpoint]:
        """Those on lines, tracepoints included."""
        return [each for each in self if isinstance(each, LineBreakpoint)]

    def add_function(
        self, function_name: str, behavior: str | None, condition: str | None
    ) -> FunctionBreakpoint:
        """Add one; the same name again keeps its id and changes only what is given."""
        known = self.named(function_name)
        if known is None:
            id = f"fn-{next(self._numbers)}"
            known = FunctionBreakpoint(
                id, condition, function_name=function_name, behavior=behavior or "yield"
            )
            self._known[id] = known
            return known
        if behavior is not None:
            known.behavior = behavior
        if condition is not None:
            known.condition = condition or None
        return known

    def add_line(
        self,
        place: Place,
        *,
        condition: str | None = None,
        hit_count: int = 1,
        log_message: str | None = None,
        multiple: int = 0,
        max_notifications: int = 0,
    ) -> LineBreakpoint:
        """Add a breakpoint, or with a message a tracepoint, on a line."""
        prefix = "bp" if log_message is None else "tp"
        added = LineBreakpoint(
            f"{prefix}-{next(self._numbers)}",
            condition,
            place=place,
            hit_count=hit_count,
            log_message=log_message,
            multiple=multiple,
            max_notifications=max_notifications,
        )
        self._known[added.id] = added
        return added

    def add_exception(
        self,
        exception_type: str,
        *,
        first_chance: bool,
        second_chance: bool,
        include_subtypes: bool,
        scope: str,
    ) -> ExceptionBreakpoint:
        """Add a breakpoint on exceptions of a class."""
        added = ExceptionBreakpoint(
            f"ex-{next(self._numbers)}",
            exception_type=exception_type,
            first_chance=first_chance,
            second_chance=second_chance,
            include_subtypes=include_subtypes,
            scope=scope,
        )
        self._known[added.id] = added
        return added

    def named(self, function_name: str) -> FunctionBreakpoint | None:
        """The breakpoint of exactly this name."""
        return next((each for each in self.functions if each.function_name == function_name), None)

    def get(self, id: str) -> Breakpoint | None:
        """The breakpoint with this id."""
        return self._known.get(id)

    def remove(self, id: str) -> None:
        """Forget one; unknown ids are no error."""
        self._known.pop(id, None)

    def note(self, worker: str, bound: Bound) -> None:
        """A process told what a breakpoint is bound to there."""
        if (known := self._known.get(bound.id)) is not None:
            known.bound[worker] = bound

    def begin_run(self) -> None:
        """A new run binds everything anew."""
        for each in self:
            each.begin_run()

    def note_passes(self, worker: str, passed: LinesPassed) -> None:
        """A process told how often lines were passed, or exceptions stopped."""
        for id, passes in passed.passes.items():
            known = self._known.get(id)
            if known is not None:
                known.passes[worker] = Passes(**passes)
