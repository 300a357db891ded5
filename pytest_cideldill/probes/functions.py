"""Function breakpoints: which functions a name means now, and what happens when one is called.

Runs in the process under test. `apply` and `bind` come from the I/O thread and the main thread,
under the manager's lock; `_on_call` runs on every calling thread and reads one reference.
"""

from __future__ import annotations

import gc
from _thread import get_ident
from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from types import CodeType
from types import FrameType
from types import FunctionType
from typing import Any
from weakref import ref

from pytest_cideldill.capture.calls import dotted_path
from pytest_cideldill.capture.calls import module_name
from pytest_cideldill.guard import EvaluationGuard
from pytest_cideldill.probes.behaviors import DEFAULT_BEHAVIOR
from pytest_cideldill.probes.behaviors import NOTHING
from pytest_cideldill.probes.behaviors import Call
from pytest_cideldill.probes.behaviors import FunctionBreakpoint
from pytest_cideldill.probes.behaviors import Overruled
from pytest_cideldill.probes.imitation import called
from pytest_cideldill.project import Project
from pytest_cideldill.sources.events import existing_functions
from pytest_cideldill.sources.headroom import Headroom
from pytest_cideldill.sources.interpose import PASS
from pytest_cideldill.sources.interpose import CannotIntercept
from pytest_cideldill.sources.interpose import intercept
from pytest_cideldill.sources.interpose import is_function
from pytest_cideldill.sources.interpose import is_stand_in
from pytest_cideldill.sources.interpose import is_trampoline
from pytest_cideldill.sources.interpose import original_code
from pytest_cideldill.syntax.condition import compile_condition
from pytest_cideldill.syntax.names import Precision
from pytest_cideldill.syntax.names import parse_function_name
from pytest_cideldill.wire import AddBreakpoint


@dataclass(frozen=True, slots=True)
class _Intercepted:
    """A swapped function. It is not kept alive: what a closure holds is the program's.

    Attributes:
        function: The function while it lives; another one may have its id later.
        code: Its original code.
        path: Its dotted path.
        undo: Puts the original code back.
    """

    function: ref[FunctionType]
    code: CodeType
    path: str
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
        on_hit: What to do at a call that a breakpoint acts on.
        on_failure: Told about a failure of our own; the call goes on untouched.
        record: Has the calls of a function recorded: its code, its dotted path. None: who handles
            hits records, and is handed all calls; before 3.12 a source would cost every call.
        unrecord: Ends that.
    """

    def __init__(
        self,
        project: Project,
        guard: EvaluationGuard,
        on_hit: OnHit,
        on_failure: Callable[[str], None],
        record: Callable[[CodeType, str], None] | None = lambda _code, _path: None,
        unrecord: Callable[[CodeType], None] = lambda _code: None,
    ) -> None:
        self._record = record
        self._unrecord = unrecord
        self._project = project
        self._guard = guard
        self._on_hit = on_hit
        self._on_failure = on_failure
        self._breakpoints: dict[str, FunctionBreakpoint] = {}
        self._order = 0
        self._swapped: dict[int, _Intercepted] = {}
        self._refused: dict[int, str] = {}
        self._overruled = Overruled()
        self._headroom = Headroom()
        # id(function) → the breakpoint that governs it.
        self._governing: dict[int, FunctionBreakpoint] = {}
        # Those that act; items are set and popped, the calls read them without a lock.
        self._acting: dict[int, FunctionBreakpoint] = {}
        self._default = DEFAULT_BEHAVIOR
        # Ids of the code of swapped functions; replaced whole too.
        self._bound: frozenset[int] = frozenset()
        # Thread → the code that starts on it and is to be bound.
        self._started: dict[int, CodeType] = {}
        self._failed_conditions: set[str] = set()

    def add(self, asked: AddBreakpoint) -> None:
        """Add a breakpoint, or change the one with this id.

        Raises:
            ValueError: The name or the condition is malformed.
        """
        name = parse_function_name(asked.function_name)
        condition = compile_condition(asked.condition) if asked.condition else None
        known = self._breakpoints.get(asked.id)
        self._order += 1
        self._breakpoints[asked.id] = FunctionBreakpoint(
            asked.id,
            name,
            asked.behavior,
            condition,
            known.order if known else self._order,
            asked.after_behavior,
            asked.replacement,
        )
        self._failed_conditions.discard(asked.id)

    def set_default(self, behavior: str) -> None:
        """What behaviors that yield mean from now on; then `bind`."""
        self._default = behavior

    def functions_of(self, id: str) -> list[FunctionType]:
        """The functions that a breakpoint governs now."""
        mine = [key for key, each in self._governing.items() if each.id == id]
        alive = (self._swapped[key].function() for key in mine if key in self._swapped)
        return [function for function in alive if function is not None]

    @property
    def are_any(self) -> bool:
        """Whether there is any breakpoint."""
        return bool(self._breakpoints)

    def mean_any_in(self, root: CodeType, module: str) -> bool:
        """Whether a name may mean a function of a code object that starts and is not bound yet.

        Of a module, whether it may mean any function inside. Compares names, scans nothing; called
        whenever code starts for the first time.
        """
        candidates = self._candidates(root.co_filename)
        if not candidates:
            return False
        is_module = root.co_name == "<module>"
        file = self._project.relative(root.co_filename)
        found = any(
            id(code) not in self._bound
            and is_function(code)
            and any(each.name.matches(module, code.co_qualname, file) for each in candidates)
            for code in (_codes_in(root) if is_module else (root,))
        )
        if found and not is_module:
            self._started[get_ident()] = root
        return found

    def remove(self, id: str) -> None:
        """Forget a breakpoint; unknown ids are no error."""
        self._breakpoints.pop(id, None)

    def disarm(self) -> None:
        """Put every original code object back."""
        self._breakpoints.clear()
        self.bind()

    def bind(self) -> list[Binding]:
        """Find the functions that the names mean now; swap and restore what changed.

        One scan of the garbage collector's objects (1 ms per 16,000), only with breakpoints. For a
        function that has just started, of its young objects only: that function is one of them.
        """
        started = self._started.pop(get_ident(), None)
        young = [] if started is None or id(started) in self._bound else _young_functions()
        if any(each.__code__ is started for each in young):
            found, governing = self._meant(young)
            self._governing = self._governing | governing
        else:
            self._overruled.clear()
            found, self._governing = self._meant(existing_functions() if self._breakpoints else [])
            self._refused.clear()
            for key in [key for key in self._swapped if key not in self._governing]:
                undone = self._swapped.pop(key)
                undone.undo()
                self._unrecord(undone.code)
        self._headroom.set(wanted=bool(self._governing))
        acting = {
            key: each
            for key, each in self._governing.items()
            if self._record is None or each.acts(self._default)
        }
        for key in [key for key in self._acting if key not in acting]:
            self._acting.pop(key)
        self._acting.update(acting)
        for function in found:
            self._swap(function)
        self._bound = frozenset(id(each.code) for each in self._swapped.values())
        return [self._binding(each) for each in self._breakpoints.values()]

    def _meant(
        self, functions: list[FunctionType]
    ) -> tuple[list[FunctionType], dict[int, FunctionBreakpoint]]:
        """Those of the functions that names mean, and by id the breakpoint that governs each."""
        by_file: dict[str, list[FunctionBreakpoint]] = {}
        found, governing = [], {}
        for function in functions:
            file = function.__code__.co_filename
            candidates = by_file.get(file)
            if candidates is None:
                candidates = by_file[file] = self._candidates(file)
            best = self._best(function, candidates) if candidates else None
            if best is not None:
                found.append(function)
                governing[id(function)] = best
        return found, governing

    def _candidates(self, file: str) -> list[FunctionBreakpoint]:
        """The breakpoints that may mean a function defined in this file."""
        every = list(self._breakpoints.values())
        if self._project.is_user(file):
            return every
        if self._project.is_ours(file):
            return []
        return [each for each in every if each.name.precision is Precision.EXACT]

    def _best(
        self, function: FunctionType, candidates: list[FunctionBreakpoint]
    ) -> FunctionBreakpoint | None:
        code = original_code(function.__code__)
        has_path = any(each.name.path is not None for each in candidates)
        file = self._project.relative(code.co_filename) if has_path else ""
        named = module_name(function), code.co_qualname, file
        matching = [each for each in candidates if each.name.matches(*named)]
        # A stand-in runs the code of a function that is intercepted: its call would stop twice.
        if not matching or is_stand_in(function) or not is_function(code):
            return None
        return self._overruled.best(matching)

    def _swap(self, function: FunctionType) -> None:
        key, code, alive = id(function), function.__code__, ref(function)
        if is_trampoline(code):
            return
        path = dotted_path(function, code)

        def on_call(
            frame: FrameType,
            original: Callable[..., Any],
            args: tuple[Any, ...],
            kwargs: dict[str, Any],
        ) -> Any:
            __tracebackhide__ = True
            governing, function = self._acting.get(key), alive()
            if governing is None or function is None or self._guard.is_quiet():
                return PASS
            reason = self._reason(governing, frame)
            if reason is None and self._record is not None:
                return PASS
            stops = governing.stops_before(self._default) or reason != "breakpoint"
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

        try:
            undo = intercept(function, on_call, partial(self._acting.get, key))
        except CannotIntercept as error:
            self._refused[key] = str(error)
        else:
            self._swapped[key] = _Intercepted(alive, code, path, undo)
            if self._record is not None:
                self._record(code, path)

    def _completions(self, key: int) -> frozenset[str]:
        """At which completions the governing breakpoint stops now."""
        governing = self._governing.get(key)
        return NOTHING if governing is None else governing.completions(self._default)

    def _replacement(self, key: int) -> str:
        governing = self._governing.get(key)
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

    def _binding(self, governing: FunctionBreakpoint) -> Binding:
        mine = [key for key, each in self._governing.items() if each is governing]
        bound = {self._swapped[key].path for key in mine if key in self._swapped}
        refusals = (self._refused[key] for key in mine if key in self._refused)
        message = None if bound else next(refusals, self._overruled.message(governing.id))
        return Binding(governing.id, sorted(bound), message)


def _young_functions() -> list[FunctionType]:
    """Those that the garbage collector has not seen more than twice: thousands of objects."""
    young = gc.get_objects(generation=0) + gc.get_objects(generation=1)
    return [each for each in young if type(each) is FunctionType]


def _codes_in(root: CodeType) -> Iterator[CodeType]:
    for constant in root.co_consts:
        if type(constant) is CodeType:
            yield constant
            yield from _codes_in(constant)
