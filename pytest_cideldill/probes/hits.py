"""What happens when an intercepted function is called: whether its breakpoint acts, and why.

Runs on every calling thread and reads one reference; who binds writes, under the manager's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from functools import partial
from types import CodeType
from types import FrameType
from types import FunctionType
from typing import Any
from typing import Protocol

from pytest_cideldill.capture.overtime import Overtime
from pytest_cideldill.guard import EvaluationGuard
from pytest_cideldill.probes.behaviors import DEFAULT_BEHAVIOR
from pytest_cideldill.probes.behaviors import NOTHING
from pytest_cideldill.probes.behaviors import Call
from pytest_cideldill.probes.behaviors import FunctionBreakpoint
from pytest_cideldill.probes.conditions import Conditions
from pytest_cideldill.probes.imitation import called
from pytest_cideldill.probes.narrowing import Narrowing
from pytest_cideldill.project import Project
from pytest_cideldill.sources.interpose import PASS
from pytest_cideldill.sources.interpose import OnCall


class Handling(Protocol):
    """What happens at a call that a breakpoint acts on; on the thread that calls."""

    def handle(self, call: Call, original: Callable[..., Any]) -> Any:
        """Called instead of the original function; calls it (or not) and gives the result."""

    def can_watch(self, code: CodeType) -> bool:
        """Whether `watch` is enough for calls that can only pause when they are done."""

    def watch(
        self,
        original: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        completions: Callable[[], frozenset[str]],
        make: Callable[[], Call],
    ) -> Any:
        """Like `handle`; `make` makes the call once it is needed."""


class Hits:
    """See the module.

    Args:
        project: Tells our own files.
        guard: Threads that evaluate for us hit nothing.
        overtime: Limits what conditions take.
        breakpoints: All that there are, by id; changed by the owner.
        handling: What to do at a call that a breakpoint acts on.
        on_failure: Told about a failure of our own; the call goes on untouched.
        is_handed_all: Whether calls that no breakpoint acts on are handed on too.

    Attributes:
        narrowing: Functions that are governed for some instances only.
        governing: id(function), or id(code) of planted code → the breakpoint that governs it;
            replaced whole. Then `choose`.
        default: What behaviors that yield mean. Then `choose`.
    """

    def __init__(
        self,
        project: Project,
        guard: EvaluationGuard,
        overtime: Overtime,
        breakpoints: Mapping[str, FunctionBreakpoint],
        handling: Handling,
        on_failure: Callable[[str], None],
        *,
        is_handed_all: bool,
    ) -> None:
        self._project = project
        self._guard = guard
        self._handling = handling
        self._breakpoints = breakpoints
        self._conditions = Conditions(overtime, on_failure)
        self.narrowing = Narrowing()
        self._is_handed_all = is_handed_all
        self.governing: dict[int, FunctionBreakpoint] = {}
        self.default = DEFAULT_BEHAVIOR
        # Those that act; items are set and popped, the calls read them without a lock.
        self._acting: dict[int, FunctionBreakpoint] = {}

    def choose(self) -> None:
        """Which breakpoints act on calls, as they govern now."""
        acting = {
            key: each
            for key, each in self.governing.items()
            if self._is_handed_all or each.acts(self.default) or key in self.narrowing.choices
        }
        for key in [key for key in self._acting if key not in acting]:
            self._acting.pop(key)
        self._acting.update(acting)

    def acts_on(self, key: int) -> bool:
        """Whether calls are to be handed on, as was chosen last."""
        return key in self._acting

    def renew(self, id: str) -> None:
        """A breakpoint has changed, or is gone: forget its condition."""
        self._conditions.forget(id)

    def wants(self, key: int) -> Callable[[], object]:
        """See `interpose.intercept`."""
        return partial(self._acting.get, key)

    def handler(
        self,
        key: int,
        code: CodeType,
        path: str,
        function_in: Callable[[FrameType], FunctionType | None],
    ) -> OnCall:
        """What a trampoline calls.

        Args:
            key: See `governing`.
            code: The original code.
            path: The dotted path.
            function_in: The function that runs in a trampoline's frame.
        """

        handling = self._handling

        def on_call(
            frame: FrameType,
            original: Callable[..., Any],
            args: tuple[Any, ...],
            kwargs: dict[str, Any],
        ) -> Any:
            __tracebackhide__ = True
            governing = self._governor(key, args)
            if governing is None or self._guard.is_quiet():
                return PASS
            reason = self._conditions.reason(governing, frame)
            if reason is None and not self._is_handed_all:
                return PASS
            function = function_in(frame)
            if function is None:
                return PASS
            stops = governing.stops_before(self.default) or reason != "breakpoint"
            completions = partial(self._completions, key, governing.id) if reason else frozenset

            def make() -> Call:
                return Call(
                    governing,
                    path,
                    function,
                    code,
                    frame,
                    args,
                    kwargs,
                    reason if stops else None,
                    completions,
                    partial(self._replacement, key, governing.id) if reason else str,
                )

            if not stops and not governing.replacement and handling.can_watch(code):
                return handling.watch(original, args, kwargs, completions, make)
            return called(code, partial(handling.handle, make()), original, self._project.is_ours)

        return on_call

    def _governor(self, key: int, args: tuple[Any, ...]) -> FunctionBreakpoint | None:
        """The breakpoint that acts on a call."""
        acting = self._acting.get(key)
        if acting is None or key not in self.narrowing.choices:
            return acting
        chosen = self.narrowing.chosen(key, args)
        is_idle = chosen is None or not (self._is_handed_all or chosen.acts(self.default))
        return None if is_idle else chosen

    def _now(self, key: int, id: str) -> FunctionBreakpoint | None:
        """The breakpoint that governs a function by now."""
        return (
            self._breakpoints.get(id) if key in self.narrowing.choices else self.governing.get(key)
        )

    def _completions(self, key: int, id: str) -> frozenset[str]:
        """At which completions the governing breakpoint stops now."""
        governing = self._now(key, id)
        return NOTHING if governing is None else governing.completions(self.default)

    def _replacement(self, key: int, id: str) -> str:
        governing = self._now(key, id)
        return "" if governing is None else governing.replacement
