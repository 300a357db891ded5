"""The breakpoints that clients asked for. They outlive runs and are sent to every process.

Lives on the event loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from cideldill_mcp.breakpoints.kinds import (
    Breakpoint,
    ExceptionBreakpoint,
    FunctionBreakpoint,
    LineBreakpoint,
    Passes,
)
from cideldill_mcp.breakpoints.places import Place
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.protocol import AddBreakpoint, AddException, AddLine, Bound, LinesPassed


class Desired:
    """All breakpoints, by id. One counter numbers every kind."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._known: dict[str, Breakpoint] = {}
        self._default_behavior = "stop"
        self._on_change: Callable[[], None] = _ignore
        self._on_count: Callable[[], None] = _ignore

    def observe(self, on_change: Callable[[], None], on_count: Callable[[], None]) -> None:
        """Call these from now on, instead of those before.

        Args:
            on_change: One is set, changed, bound or gone.
            on_count: Their counts have changed.
        """
        self._on_change, self._on_count = on_change, on_count

    @property
    def default_behavior(self) -> str:
        """What a behavior `yield` means: `stop | go | exception | stop_exception`."""
        return self._default_behavior

    @default_behavior.setter
    def default_behavior(self, behavior: str) -> None:
        self._default_behavior = behavior
        self._on_change()

    def __iter__(self) -> Iterator[Breakpoint]:
        return iter(list(self._known.values()))

    def __len__(self) -> int:
        return len(self._known)

    @property
    def functions(self) -> list[FunctionBreakpoint]:
        """Those on functions."""
        return [breakpoint for breakpoint in self if isinstance(breakpoint, FunctionBreakpoint)]

    @property
    def lines(self) -> list[LineBreakpoint]:
        """Those on lines, tracepoints included."""
        return [breakpoint for breakpoint in self if isinstance(breakpoint, LineBreakpoint)]

    def add_function(
        self, function_name: str, behavior: str | None, condition: str | None
    ) -> FunctionBreakpoint:
        """Add one; the same name again keeps its id and changes only what is given."""
        breakpoint = self.named(function_name)
        if breakpoint is None:
            id = f"fn-{next(self._numbers)}"
            spec = AddBreakpoint(0, id, function_name, behavior or "yield", condition)
            breakpoint = FunctionBreakpoint(spec)
            self.keep(breakpoint)
            return breakpoint
        if behavior is not None:
            breakpoint.spec = replace(breakpoint.spec, behavior=behavior)
        if condition is not None:
            breakpoint.spec = replace(breakpoint.spec, condition=condition or None)
        return breakpoint

    def add_line(self, place: Place, spec: AddLine, run_id: str | None = None) -> LineBreakpoint:
        """Add a breakpoint, or with a message a tracepoint, on a line.

        Args:
            spec: Made of `place.spec`; it is given an id.
            run_id: For that run only.
        """
        prefix = "bp" if spec.message is None else "tp"
        spec = replace(spec, id=f"{prefix}-{next(self._numbers)}")
        added = LineBreakpoint(spec=spec, place=place, run_id=run_id)
        self.keep(added)
        return added

    def add_exception(self, spec: AddException) -> ExceptionBreakpoint:
        """Add a breakpoint on exceptions of a class; its spec is given an id."""
        added = ExceptionBreakpoint(replace(spec, id=f"ex-{next(self._numbers)}"))
        self.keep(added)
        return added

    def named(self, function_name: str) -> FunctionBreakpoint | None:
        """The breakpoint of exactly this name."""
        alike = (each for each in self.functions if each.spec.function_name == function_name)
        return next(alike, None)

    def get(self, id: str) -> Breakpoint | None:
        """The breakpoint with this id."""
        return self._known.get(id)

    def meant(self, text: str) -> Breakpoint:
        """The breakpoint with this id, or with this number alone: `3` means `tp-3`.

        Raises:
            Refusal: `breakpoint_not_found`.
        """
        if (id := id_meant(text, self._known)) in self._known:
            return self._known[id]
        ids = ", ".join(self._known) or "none"
        raise Refusal(
            ErrorCode.BREAKPOINT_NOT_FOUND, f"no breakpoint {text!r}; there are: {ids}", id=text
        )

    def remove(self, id: str) -> None:
        """Forget one; unknown ids are no error."""
        if self._known.pop(id, None) is not None:
            self._on_change()

    def note(self, worker: str, bound: Bound) -> None:
        """Keep what a breakpoint is bound to in a process."""
        breakpoint = self._known.get(bound.id)
        if breakpoint is not None and breakpoint.bound.get(worker) != bound:
            breakpoint.bound[worker] = bound
            self._on_change()

    def begin_run(self) -> None:
        """A new run binds everything anew."""
        for breakpoint in self:
            breakpoint.begin_run()
        if self._known:
            self._on_change()

    def end_run(self, run_id: str) -> None:
        """Forget what belonged to one run only."""
        for line in self.lines:
            if line.run_id == run_id:
                self.remove(line.id)

    def note_passes(self, worker: str, passed: LinesPassed) -> None:
        """Keep how often lines were passed, or exceptions stopped, in a process."""
        for id, passes in passed.passes.items():
            breakpoint = self._known.get(id)
            if breakpoint is not None:
                breakpoint.passes[worker] = Passes(**passes)
        self._on_count()

    def free_id(self, like: str) -> str:
        """An id that no breakpoint has, of the same kind as another."""
        kind = like.partition("-")[0]
        ids = (f"{kind}-{number}" for number in self._numbers)
        return next(id for id in ids if id not in self._known)

    def keep(self, added: Breakpoint) -> None:
        """Add a breakpoint that has an id; its `changed` calls our observer from now on."""
        added.changed = lambda: self._on_change()
        self._known[added.id] = added


def id_meant(text: str, known: Iterable[str]) -> str:
    """One of the known ids, if the text is its number; else the text."""
    return next((id for id in known if id.partition("-")[2] == text), text)


def _ignore() -> None:
    return None
