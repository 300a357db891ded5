"""The breakpoints that clients asked for. They outlive runs and are sent to every process.

Lives on the event loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field

from pytest_cideldill.wire import Bound

PENDING = "not bound yet: no test process has loaded such a function; it is bound when one does"


@dataclass(slots=True)
class FunctionBreakpoint:
    """One breakpoint on functions of a name.

    Attributes:
        bound: Worker → what it is bound to there, in the current run.
    """

    id: str
    function_name: str
    behavior: str
    condition: str | None
    after_behavior: str = "yield"
    bound: dict[str, Bound] = field(default_factory=dict)

    @property
    def functions(self) -> list[str]:
        """Dotted paths it is bound to, over all processes."""
        return sorted({name for each in self.bound.values() for name in each.functions})

    @property
    def verified(self) -> bool:
        """Whether any process has bound it."""
        return any(each.verified for each in self.bound.values())

    @property
    def message(self) -> str | None:
        """Why it is not verified; None when it is."""
        if self.verified:
            return None
        reasons = [each.message for each in self.bound.values() if each.message]
        return reasons[0] if reasons else PENDING


class Desired:
    """All breakpoints, by id. One counter numbers every kind (contract, section 3)."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._functions: dict[str, FunctionBreakpoint] = {}

    def __iter__(self) -> Iterator[FunctionBreakpoint]:
        return iter(list(self._functions.values()))

    def __len__(self) -> int:
        return len(self._functions)

    def add_function(
        self, function_name: str, behavior: str | None, condition: str | None
    ) -> FunctionBreakpoint:
        """Add one; the same name again keeps its id and changes only what is given."""
        known = self.named(function_name)
        if known is None:
            id = f"fn-{next(self._numbers)}"
            known = FunctionBreakpoint(id, function_name, behavior or "yield", condition)
            self._functions[id] = known
            return known
        if behavior is not None:
            known.behavior = behavior
        if condition is not None:
            known.condition = condition or None
        return known

    def named(self, function_name: str) -> FunctionBreakpoint | None:
        """The breakpoint of exactly this name."""
        return next((each for each in self if each.function_name == function_name), None)

    def get(self, id: str) -> FunctionBreakpoint | None:
        """The breakpoint with this id."""
        return self._functions.get(id)

    def remove(self, id: str) -> None:
        """Forget one; unknown ids are no error."""
        self._functions.pop(id, None)

    def note(self, worker: str, bound: Bound) -> None:
        """A process told what a breakpoint is bound to there."""
        if (known := self._functions.get(bound.id)) is not None:
            known.bound[worker] = bound

    def begin_run(self) -> None:
        """A new run binds everything anew."""
        for each in self:
            each.bound.clear()
