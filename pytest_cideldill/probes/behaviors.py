"""What a function breakpoint asks for, and a call that it acts on (contract, section 2).

Pure; read by calling threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from types import FrameType
from types import FunctionType
from typing import Any

from pytest_cideldill.syntax.names import FunctionName

DEFAULT_BEHAVIOR = "stop"

_STOPPING = frozenset({"stop", "stop_exception"})
"""Before-behaviors, and defaults, that pause before a call."""

NOTHING: frozenset[str] = frozenset()
"""No completion pauses."""

_COMPLETIONS = {
    "stop": frozenset({"after"}),
    "exception": frozenset({"exception"}),
    "stop_exception": frozenset({"after", "exception"}),
}
"""At which completions an explicit after-behavior pauses (contract, section 2)."""

_BY_DEFAULT = {
    "exception": frozenset({"exception"}),
    "stop_exception": frozenset({"exception"}),
}
"""The same for a default that an after-behavior yields to."""


@dataclass(frozen=True, slots=True)
class FunctionBreakpoint:
    """A breakpoint as it was asked for. `order` grows: the newest of equals wins."""

    id: str
    name: FunctionName
    behavior: str
    condition: CodeType | None
    order: int
    after_behavior: str = "yield"
    replacement: str = ""

    @property
    def rank(self) -> tuple[int, int]:
        """Exact beats bare beats glob, then the newest wins (contract, section 2)."""
        return (int(self.name.precision), self.order)

    def stops_before(self, default: str) -> bool:
        """Whether a call pauses before it begins."""
        return (default if self.behavior == "yield" else self.behavior) in _STOPPING

    def completions(self, default: str) -> frozenset[str]:
        """The phases at which a call pauses when it is done: `after`, `exception`."""
        if self.after_behavior == "yield":
            return _BY_DEFAULT.get(default, NOTHING)
        return _COMPLETIONS.get(self.after_behavior, NOTHING)

    def acts(self, default: str) -> bool:
        """Whether it does more to calls than having them recorded."""
        return (
            self.stops_before(default) or bool(self.completions(default)) or bool(self.replacement)
        )


@dataclass(frozen=True, slots=True)
class Call:
    """One intercepted call, as handed to who handles it.

    Attributes:
        path: Dotted path of the function.
        frame: The trampoline's; its locals are the parameters.
        reason: Why it pauses before it begins; None: it does not.
        completions: Asked when it is done: the phases at which it pauses then.
        replacement: Asked when it goes on: the name of the function to call instead.
    """

    breakpoint: FunctionBreakpoint
    path: str
    function: FunctionType
    code: CodeType
    frame: FrameType
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    reason: str | None
    completions: Callable[[], frozenset[str]]
    replacement: Callable[[], str]
