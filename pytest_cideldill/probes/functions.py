"""Function breakpoints: which functions a name means now, and what happens when one is called.

Runs in the process under test. `apply` and `bind` come from the I/O thread and the main thread,
under the manager's lock; `_on_call` runs on every calling thread and reads one reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import CodeType
from types import FunctionType
from weakref import ref

from pytest_cideldill.capture.calls import dotted_path
from pytest_cideldill.capture.calls import module_name
from pytest_cideldill.guard import EvaluationGuard
from pytest_cideldill.probes.behaviors import FunctionBreakpoint
from pytest_cideldill.probes.behaviors import Overruled
from pytest_cideldill.probes.hits import Hits
from pytest_cideldill.probes.hits import OnHit
from pytest_cideldill.probes.nesting import Nesting
from pytest_cideldill.probes.nesting import Root
from pytest_cideldill.probes.nesting import codes_in
from pytest_cideldill.probes.nesting import roots
from pytest_cideldill.probes.nesting import young_functions
from pytest_cideldill.project import Project
from pytest_cideldill.sources.events import existing_functions
from pytest_cideldill.sources.headroom import Headroom
from pytest_cideldill.sources.interpose import intercept
from pytest_cideldill.sources.interpose import is_stand_in
from pytest_cideldill.sources.interpose import is_trampoline
from pytest_cideldill.sources.interpose import original_code
from pytest_cideldill.sources.layout import function_of
from pytest_cideldill.sources.planting import Planting
from pytest_cideldill.sources.trampolines import CannotIntercept
from pytest_cideldill.sources.trampolines import is_function
from pytest_cideldill.syntax.condition import compile_condition
from pytest_cideldill.syntax.names import Precision
from pytest_cideldill.syntax.names import parse_function_name
from pytest_cideldill.wire import AddBreakpoint


@dataclass(frozen=True, slots=True)
class _Intercepted:
    """A swapped function, or planted code. No function is kept alive: it is the program's.

    Attributes:
        function: The function while it lives, another one may have its id later; or one that was
            made of the code.
        code: Its original code.
        path: Its dotted path.
        undo: Puts the original code back.
    """

    function: Callable[[], FunctionType | None]
    code: CodeType
    path: str
    undo: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Binding:
    """What a breakpoint is bound to now."""

    id: str
    functions: list[str]
    message: str | None


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
        self._hits = Hits(project, guard, on_hit, on_failure, is_handed_all=record is None)
        self._breakpoints: dict[str, FunctionBreakpoint] = {}
        self._order = 0
        self._swapped: dict[int, _Intercepted] = {}
        self._refused: dict[int, str] = {}
        self._overruled = Overruled()
        self._headroom = Headroom()
        # Ids of the code of swapped functions; replaced whole too.
        self._bound: frozenset[int] = frozenset()
        self._nesting = Nesting(self._may_mean, self._best, self._plant)
        self._renew()

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
        self._renew()
        self._hits.renew(asked.id)

    def set_default(self, behavior: str) -> None:
        """What behaviors that yield mean from now on; then `bind`."""
        self._hits.default = behavior

    def functions_of(self, id: str) -> list[FunctionType]:
        """The functions that a breakpoint governs now."""
        mine = [key for key, each in self._hits.governing.items() if each.id == id]
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
        if not self._candidates(root.co_filename):
            return False
        codes = codes_in(root) if root.co_name == "<module>" else (root,)
        return any(
            id(code) not in self._bound and self._best(code, module) is not None for code in codes
        )

    def remove(self, id: str) -> None:
        """Forget a breakpoint; unknown ids are no error."""
        self._breakpoints.pop(id, None)
        self._renew()

    def disarm(self) -> None:
        """Put every original code object back."""
        self._breakpoints.clear()
        self._renew()
        self.bind()

    def _renew(self) -> None:
        """The breakpoints have changed, and with them where functions are looked for."""
        # File → those that may mean a function there; file and module → whether any may.
        self._by_file: dict[str, list[FunctionBreakpoint]] = {}
        self._by_module: dict[tuple[str, str], bool] = {}

    def bind(self, started: Root | None = None) -> list[Binding]:
        """Find the functions that the names mean now; swap and restore what changed.

        One scan of the garbage collector's objects (1 ms per 16,000), only with breakpoints. For a
        function that has just started, of its young objects only: that function is one of them. For
        a module none: its functions are not made yet.

        Args:
            started: Code that starts now and is to be bound, or what is in it, of a module.
        """
        found = self._find_all() if started is None else self._find_in(*started)
        self._headroom.set(wanted=bool(self._hits.governing))
        self._hits.choose()
        for function in found:
            self._swap(function)
        self._bound = frozenset(id(each.code) for each in self._swapped.values())
        return [self._binding(each) for each in self._breakpoints.values()]

    def _find_all(self) -> list[FunctionType]:
        """The functions that names mean; what they don't mean any more is restored."""
        functions = self._functions()
        self._refused.clear()
        self._overruled.clear()
        nested, has_grown = self._nesting.grow(roots(functions))
        if has_grown:  # what was made meanwhile was made of the original
            functions = self._functions()
        found, governing = self._meant(functions)
        self._hits.governing = governing | nested
        gone = [key for key in self._swapped if key not in self._hits.governing]
        undone = [self._swapped.pop(key) for key in gone]
        for each in undone:
            each.undo()
        self._nesting.clear(gone)
        left = {id(each.code) for each in self._swapped.values()}
        for code in {id(each.code): each.code for each in undone}.values():
            if id(code) not in left:
                self._unrecord(code)
        return found

    def _find_in(self, code: CodeType, module: str) -> list[FunctionType]:
        """The functions of code that has just started, and what is nested in it."""
        young = []
        if code.co_name != "<module>":
            young = young_functions()
            if not any(each.__code__ is code for each in young):
                return self._find_all()
        nested, _ = self._nesting.grow([(code, module)])
        found, governing = self._meant(young)
        self._hits.governing = self._hits.governing | governing | nested
        return found

    def _meant(
        self, functions: list[FunctionType]
    ) -> tuple[list[FunctionType], dict[int, FunctionBreakpoint]]:
        """Those of the functions that names mean, and by id the breakpoint that governs each."""
        found, governing = [], {}
        for function in functions:
            best = self._best(original_code(function.__code__), module_name(function))
            # A stand-in runs the code of a function that is intercepted: its call would stop twice.
            if best is not None and not is_stand_in(function) and not self._nesting.has(function):
                found.append(function)
                governing[id(function)] = best
        return found, governing

    def _functions(self) -> list[FunctionType]:
        """Those that names may mean, by the files and modules that they are in."""
        return [
            each
            for each in (existing_functions() if self._breakpoints else ())
            if self._may_mean(each.__code__.co_filename, module_name(each))
        ]

    def _candidates(self, file: str) -> list[FunctionBreakpoint]:
        """The breakpoints that may mean a function defined in this file."""
        known = self._by_file
        found = known.get(file)
        if found is None:
            found = [] if self._project.is_ours(file) else list(self._breakpoints.values())
            if not self._project.is_user(file):
                found = [each for each in found if each.name.precision is Precision.EXACT]
            known[file] = found
        return found

    def _may_mean(self, file: str, module: str) -> bool:
        """Whether there may be such a function in a file that is this module."""
        known, key = self._by_module, (file, module)
        found = known.get(key)
        if found is None:
            path = self._project.relative(file)
            may_be = (each.name.may_be_in((module,), path) for each in self._candidates(file))
            found = known[key] = any(may_be)
        return found

    def _best(self, code: CodeType, module: str) -> FunctionBreakpoint | None:
        candidates = self._candidates(code.co_filename)
        has_path = any(each.name.path is not None for each in candidates)
        file = self._project.relative(code.co_filename) if has_path else ""
        named = module, code.co_qualname, file
        matching = [each for each in candidates if each.name.matches(*named)]
        if not matching or not is_function(code):
            return None
        return self._overruled.best(matching)

    def _swap(self, function: FunctionType) -> None:
        """Intercept a function."""
        code, alive = function.__code__, ref(function)
        if is_trampoline(code):
            return
        key, path = id(function), dotted_path(function, code)
        on_call = self._hits.handler(key, code, path, lambda _frame: alive())
        try:
            undo = intercept(function, on_call, self._hits.wants(key))
        except CannotIntercept as error:
            self._refused[key] = str(error)
        else:
            self._keep(key, _Intercepted(alive, code, path, undo))

    def _plant(self, code: CodeType, module: str) -> Planting | None:
        """Intercept the functions that will be made of some code."""
        key, path = id(code), f"{module}.{code.co_qualname}"
        on_call = self._hits.handler(key, code, path, function_of)
        try:
            planting = Planting(code, on_call, self._hits.wants(key))
        except CannotIntercept as error:
            self._refused[key] = str(error)
            return None
        one = partial(self._nesting.one_of, code)
        self._keep(key, _Intercepted(one, code, path, planting.undo))
        return planting

    def _keep(self, key: int, intercepted: _Intercepted) -> None:
        self._swapped[key] = intercepted
        if self._record is not None:
            self._record(intercepted.code, intercepted.path)

    def _binding(self, governing: FunctionBreakpoint) -> Binding:
        mine = [key for key, each in self._hits.governing.items() if each is governing]
        bound = {self._swapped[key].path for key in mine if key in self._swapped}
        refusals = (self._refused[key] for key in mine if key in self._refused)
        message = None if bound else next(refusals, self._overruled.message(governing.id))
        return Binding(governing.id, sorted(bound), message)
