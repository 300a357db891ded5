"""What happens when an intercepted function is called: whether its breakpoint acts, and why.

Runs on every calling thread and reads one reference; who binds writes, under the manager's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import CodeType
from types import FrameType
from types import FunctionType
from typing import Any

from pytest_cideldill.guard import EvaluationGuard
from pytest_cideldill.probes.behaviors import DEFAULT_BEHAVIOR
from pytest_cideldill.probes.behaviors import NOTHING
from pytest_cideldill.probes.behaviors import Call
from pytest_cideldill.probes.behaviors import FunctionBreakpoint
from pytest_cideldill.probes.imitation import called
from pytest_cideldill.project import Project
from pytest_cideldill.sources.interpose import PASS
from pytest_cideldill.sources.interpose import OnCall

OnHit = Callable[[Call, Callable[..., Any]], Any]
"""Called instead of the original function; calls it (or not) and gives the result."""


class Hits:
    """See the module.

    Args:
        project: Tells our own files.
        guard: Threads that evaluate for us hit nothing.
        on_hit: What to do at a call that a breakpoint acts on.
        on_failure: Told about a failure of our own; the call goes on untouched.
        is_handed_all: Whether calls that no breakpoint acts on are handed on too.

    Attributes:
        governing: id(function), or id(code) of planted code → the breakpoint that governs it;
            replaced whole. Then `choose`.
        default: What behaviors that yield mean. Then `choose`.
    """

    def __init__(
        self,
        project: Project,
        guard: EvaluationGuard,
        on_hit: OnHit,
        on_failure: Callable[[str], None],
        *,
        is_handed_all: bool,
    ) -> None:
        self._project = project
        self._guard = guard
        self._on_hit = on_hit
        self._on_failure = on_failure
        self._is_handed_all = is_handed_all
        self.governing: dict[int, FunctionBreakpoint] = {}
        self.default = DEFAULT_BEHAVIOR
        # Those that act; items are set and popped, the calls read them without a lock.
        self._acting: dict[int, FunctionBreakpoint] = {}
        self._failed_conditions: set[str] = set()

    def choose(self) -> None:
        """Which breakpoints act on calls, as they govern now."""
        acting = {
            key: each
            for key, each in self.governing.items()
            if self._is_handed_all or each.acts(self.default)
        }
        for key in [key for key in self._acting if key not in acting]:
            self._acting.pop(key)
        self._acting.update(acting)

    def renew(self, id: str) -> None:
        """A breakpoint has changed: its condition may fail anew."""
        self._failed_conditions.discard(id)

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

        def on_call(
            frame: FrameType,
            original: Callable[..., Any],
            args: tuple[Any, ...],
            kwargs: dict[str, Any],
        ) -> Any:
            __tracebackhide__ = True
            governing = self._acting.get(key)
            if governing is None or self._guard.is_quiet():
                return PASS
            reason = self._reason(governing, frame)
            if reason is None and not self._is_handed_all:
                return PASS
            function = function_in(frame)
            if function is None:
                return PASS
            stops = governing.stops_before(self.default) or reason != "breakpoint"
            call = Call(
                governing,
                path,
                function,
                code,
                frame,
                args,
                kwargs,
                reason if stops else None,
                partial(self._completions, key) if reason else frozenset,
                partial(self._replacement, key) if reason else str,
            )
            return called(code, partial(self._on_hit, call), original, self._project.is_ours)

        return on_call

    def _completions(self, key: int) -> frozenset[str]:
        """At which completions the governing breakpoint stops now."""
        governing = self.governing.get(key)
        return NOTHING if governing is None else governing.completions(self.default)

    def _replacement(self, key: int) -> str:
        governing = self.governing.get(key)
        return "" if governing is None else governing.replacement

    def _reason(self, governing: FunctionBreakpoint, frame: FrameType) -> str | None:
        """Why this call pauses, None when its condition says no.

        A condition that raises stops once, then counts as false (contract, section 3).
        """
        if governing.condition is None:
            return "breakpoint"
        try:
            with self._guard.evaluating():
                # One namespace: with two, nested scopes would not see the arguments.
                holds = eval(governing.condition, {**frame.f_globals, **frame.f_locals})
                return "breakpoint" if holds else None
        except Exception as error:  # noqa: BLE001 - the user's expression; signals pass through
            if governing.id in self._failed_conditions:
                return None
            self._failed_conditions.add(governing.id)
            self._on_failure(
                f"condition of {governing.id} ({governing.name.text}) raised {type(error).__name__}"
            )
            return "condition_error"
