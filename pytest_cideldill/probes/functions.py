"""Function breakpoints: which functions a name means now, and what happens when one is called.

Runs in the process under test. `apply` and `bind` come from the I/O thread and the main thread,
under the manager's lock; `_on_call` runs on every calling thread and reads one reference.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from types import FrameType
from types import FunctionType
from typing import Any

from pytest_cideldill.capture.calls import dotted_path
from pytest_cideldill.capture.calls import module_name
from pytest_cideldill.guard import EvaluationGuard
from pytest_cideldill.project import Project
from pytest_cideldill.sources.interpose import CannotIntercept
from pytest_cideldill.sources.interpose import intercept
from pytest_cideldill.sources.interpose import is_stand_in
from pytest_cideldill.sources.interpose import is_trampoline
from pytest_cideldill.sources.interpose import original_code
from pytest_cideldill.syntax.condition import compile_condition
from pytest_cideldill.syntax.names import FunctionName
from pytest_cideldill.syntax.names import Precision
from pytest_cideldill.syntax.names import parse_function_name

STOPPING = frozenset({"stop", "stop_exception"})
DEFAULT_BEHAVIOR = "stop"


@dataclass(frozen=True, slots=True)
class FunctionBreakpoint:
    """A breakpoint as it was asked for. `order` grows: the newest of equals wins."""

    id: str
    name: FunctionName
    behavior: str
    condition: CodeType | None
    order: int

    @property
    def rank(self) -> tuple[int, int]:
        """Exact beats bare beats glob, then the newest wins (contract, section 2)."""
        return (int(self.name.precision), self.order)

    @property
    def stops_before(self) -> bool:
        """Whether a call pauses before it begins."""
        return (DEFAULT_BEHAVIOR if self.behavior == "yield" else self.behavior) in STOPPING


@dataclass(frozen=True, slots=True)
class Call:
    """One intercepted call, as handed to the owner of pauses."""

    breakpoint: FunctionBreakpoint
    function: FunctionType
    code: CodeType
    frame: FrameType
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    reason: str


@dataclass(slots=True)
class _Intercepted:
    """A swapped function. The strong reference keeps its id from being reused."""

    function: FunctionType
    code: CodeType
    undo: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Binding:
    """What a breakpoint is bound to now."""

    id: str
    functions: list[str]
    message: str | None


OnHit = Callable[[Call, Callable[..., Any]], Any]
"""Called instead of the original function; calls it (or not) and gives the result."""


class FunctionProbes:
    """All function breakpoints of this process.

    Args:
        project: Bare names and globs mean functions of user code only.
        guard: Threads that evaluate for us hit nothing.
        on_hit: What to do at a call that pauses.
        on_failure: Told about a failure of our own; the call goes on untouched.
    """

    def __init__(
        self,
        project: Project,
        guard: EvaluationGuard,
        on_hit: OnHit,
        on_failure: Callable[[str], None],
    ) -> None:
        self._project = project
        self._guard = guard
        self._on_hit = on_hit
        self._on_failure = on_failure
        self._breakpoints: dict[str, FunctionBreakpoint] = {}
        self._order = 0
        self._swapped: dict[int, _Intercepted] = {}
        self._refused: dict[int, str] = {}
        # id(function) → the breakpoint that governs it; replaced whole, read without a lock.
        self._governing: dict[int, FunctionBreakpoint] = {}
        self._failed_conditions: set[str] = set()

    def add(self, id: str, function_name: str, behavior: str, condition: str | None) -> None:
        """Add a breakpoint, or change the one with this id.

        Raises:
            ValueError: The name or the condition is malformed.
        """
        name = parse_function_name(function_name)
        code = compile_condition(condition) if condition else None
        known = self._breakpoints.get(id)
        self._order += 1
        order = known.order if known else self._order
        self._breakpoints[id] = FunctionBreakpoint(id, name, behavior, code, order)
        self._failed_conditions.discard(id)

    @property
    def are_any(self) -> bool:
        """Whether there is any breakpoint."""
        return bool(self._breakpoints)

    def mean_any_in(self, root: CodeType, module: str) -> bool:
        """Whether a name may mean a function inside a code object that is not bound yet.

        Compares names, scans nothing; called whenever code starts for the first time.
        """
        names = [each.name for each in list(self._breakpoints.values())]
        file = self._project.relative(root.co_filename)
        bound = {id(each.code) for each in list(self._swapped.values())}
        pending = [root] if names else []
        while pending:
            code = pending.pop()
            if any(name.matches(module, code.co_qualname, file) for name in names):
                return id(code) not in bound
            pending += [each for each in code.co_consts if type(each) is CodeType]
        return False

    def remove(self, id: str) -> None:
        """Forget a breakpoint; unknown ids are no error."""
        self._breakpoints.pop(id, None)

    def disarm(self) -> None:
        """Put every original code object back."""
        self._breakpoints.clear()
        self.bind()

    def bind(self) -> list[Binding]:
        """Find the functions that the names mean now; swap and restore what changed.

        One scan of the garbage collector's objects (1 ms per 16,000), only with breakpoints.
        """
        governing: dict[int, FunctionBreakpoint] = {}
        functions: dict[int, FunctionType] = {}
        if self._breakpoints:
            for function in self._all_functions():
                best = self._best(function)
                if best is not None:
                    governing[id(function)] = best
                    functions[id(function)] = function
        self._governing = governing
        self._refused.clear()
        for key in [key for key in self._swapped if key not in governing]:
            self._swapped.pop(key).undo()
        for key, function in functions.items():
            self._swap(key, function)
        return [self._binding(each, functions) for each in self._breakpoints.values()]

    def _all_functions(self) -> list[FunctionType]:
        # By type identity: isinstance would run a user's __class__ property.
        return [each for each in gc.get_objects() if type(each) is FunctionType]

    def _best(self, function: FunctionType) -> FunctionBreakpoint | None:
        code = original_code(function.__code__)
        matching = [
            each for each in self._breakpoints.values() if self._means(each.name, function, code)
        ]
        # A stand-in runs the code of a function that is intercepted: its call would stop twice.
        if not matching or is_stand_in(function) or self._project.is_ours(code.co_filename):
            return None
        return max(matching, key=lambda each: each.rank)

    def _means(self, name: FunctionName, function: FunctionType, code: CodeType) -> bool:
        file = "" if name.path is None else self._project.relative(code.co_filename)
        if not name.matches(module_name(function), code.co_qualname, file):
            return False
        return name.precision is Precision.EXACT or self._project.is_user(code.co_filename)

    def _swap(self, key: int, function: FunctionType) -> None:
        if key in self._swapped or is_trampoline(function.__code__):
            return
        code = function.__code__

        def on_call(
            frame: FrameType,
            original: Callable[..., Any],
            args: tuple[Any, ...],
            kwargs: dict[str, Any],
        ) -> Any:
            __tracebackhide__ = True
            governing = self._governing.get(key)
            if governing is None or not governing.stops_before or self._guard.is_quiet():
                return original(*args, **kwargs)
            reason = self._reason(governing, frame)
            if reason is None:
                return original(*args, **kwargs)
            call = Call(governing, function, code, frame, args, kwargs, reason)
            return self._on_hit(call, original)

        try:
            undo = intercept(function, on_call)
        except CannotIntercept as error:
            self._refused[key] = str(error)
        else:
            self._swapped[key] = _Intercepted(function, code, undo)

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

    def _binding(
        self, governing: FunctionBreakpoint, functions: dict[int, FunctionType]
    ) -> Binding:
        mine = [key for key, each in self._governing.items() if each is governing]
        bound = [
            dotted_path(functions[key], self._swapped[key].code)
            for key in mine
            if key in self._swapped
        ]
        refusals = [self._refused[key] for key in mine if key in self._refused]
        message = refusals[0] if refusals and not bound else None
        return Binding(governing.id, sorted(set(bound)), message)
