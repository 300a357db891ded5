"""Function breakpoints in this process: their behaviors, which of them decides, one call.

Pure; read by calling threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from types import CodeType, FrameType, FunctionType
from typing import Any

from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.probes.counting import Counter, Watching
from pytest_cideldill.protocol import AddBreakpoint
from pytest_cideldill.protocol.current_test_file import During
from pytest_cideldill.sourcecode.names import FunctionName

DEFAULT_BEHAVIOR = "stop"

_STOPPING = frozenset({"stop", "stop_exception"})
"""Before-behaviors, and defaults, that pause before a call."""

_SHOWN = 3
"""Breakpoints named in a message."""

NOTHING: frozenset[str] = frozenset()
"""No completion pauses."""

_COMPLETIONS = {
    "stop": frozenset({"after"}),
    "exception": frozenset({"exception"}),
    "stop_exception": frozenset({"after", "exception"}),
}
"""Explicit after-behavior → the completions at which it pauses."""

_BY_DEFAULT = {"exception": frozenset({"exception"}), "stop_exception": frozenset({"exception"})}
"""Default behavior → the completions at which an after-behavior pauses that yields to it."""


class Tally:
    """Whether a breakpoint was bound and hit; calling threads write.

    Attributes:
        was_bound: Whether it ever had a function.
        was_hit: Whether it ever acted on a call.
        misses: The calls at which its condition did not hold.
        watching: In how much of the run it was set as it is now.
    """

    __slots__ = ("misses", "was_bound", "was_hit", "watching")

    def __init__(self, *, from_start: bool = True) -> None:
        self.was_bound = self.was_hit = False
        self.misses = Counter()
        self.watching = Watching(True, from_start=from_start)


@dataclass(frozen=True, slots=True)
class FunctionProbe:
    """A function breakpoint in this process; replaced by another one when its spec changes.

    Attributes:
        name: The function name of the spec, parsed.
        order: Grows with each new breakpoint: the newest of equals wins.
        tally: Stays when the spec changes.
    """

    spec: AddBreakpoint
    name: FunctionName
    order: int
    tally: Tally = field(default_factory=Tally, compare=False)

    @property
    def id(self) -> str:
        """The id of the breakpoint: `fn-1`."""
        return self.spec.id

    @property
    def rank(self) -> tuple[int, int]:
        """Exact beats bare beats glob, then the newest wins."""
        return (int(self.name.precision), self.order)

    def stops_before(self, default: str) -> bool:
        """Whether a call pauses before it begins."""
        behavior = self.spec.behavior
        return (default if behavior == "yield" else behavior) in _STOPPING

    def completions(self, default: str) -> frozenset[str]:
        """The phases at which a call pauses when it is done: `after`, `exception`."""
        behavior = self.spec.after_behavior
        if behavior == "yield":
            return _BY_DEFAULT.get(default, NOTHING)
        return _COMPLETIONS.get(behavior, NOTHING)

    def acts(self, default: str) -> bool:
        """Whether it does more to calls than having them recorded."""
        pauses = self.stops_before(default) or bool(self.completions(default))
        return pauses or bool(self.spec.replacement)


class Overruled:
    """Breakpoints on functions that other breakpoints decide about."""

    def __init__(self) -> None:
        # Id of a breakpoint → those that decide about functions of its name, by their id.
        self._by: dict[str, dict[str, FunctionProbe]] = {}

    def clear(self) -> None:
        """Forget all, before all functions are looked at anew."""
        self._by.clear()

    def best(self, matching: list[FunctionProbe]) -> FunctionProbe:
        """The one of them that decides about a function."""
        best = max(matching, key=lambda each: each.rank)
        for probe in matching:
            if probe is not best:
                self._by.setdefault(probe.id, {})[best.id] = best
        return best

    def deciding(self, id: str) -> list[str]:
        """Ids of the breakpoints that decide about functions of the name of this one."""
        return sorted(self._by.get(id, ()))

    def message(self, id: str) -> str | None:
        """Why a breakpoint has no functions, if others have them."""
        deciding = [f"{probe.id} ({probe.name.text})" for probe in self._by.get(id, {}).values()]
        if not deciding:
            return None
        more = f" and {len(deciding) - _SHOWN} more" if len(deciding) > _SHOWN else ""
        return (
            f"the functions of this name that are loaded have other breakpoints: "
            f"{', '.join(deciding[:_SHOWN])}{more}; an exact name goes before a bare one, that "
            "before a glob, and of equals the newest: change or remove those"
        )


@dataclass(slots=True)  # not frozen, which would cost a microsecond per call
class Call:
    """One intercepted call, as `hits.Handling` gets it; not changed.

    Attributes:
        frame: The trampoline's; its locals are the parameters.
        reason: Why it pauses before it begins; None: it does not.
        completions: Asked when it is done: the phases at which it pauses then.
        replacement: Asked when it goes on: the name of the function to call instead.
        during: The test in which it was made.
    """

    breakpoint: FunctionProbe
    path: str
    function: FunctionType
    code: CodeType
    frame: FrameType
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    reason: str | None
    completions: Callable[[], frozenset[str]]
    replacement: Callable[[], str]
    during: During
