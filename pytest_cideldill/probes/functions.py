"""Function breakpoints of this process: binds them to the functions that their names mean now.

`add` and `bind` run on the I/O thread and the main thread, under the manager's lock; calls of the
functions are handled by `hits`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import CodeType, FunctionType
from weakref import ref

from pytest_cideldill.context import Context
from pytest_cideldill.frames.arguments import DottedPath
from pytest_cideldill.interpreter.code_files import file_now
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.patching.code_layout import function_of
from pytest_cideldill.patching.code_swap import Headroom, intercept, is_trampoline, original_code
from pytest_cideldill.patching.function_code import code_of, show
from pytest_cideldill.patching.planting import Planting
from pytest_cideldill.patching.substitute import original_of
from pytest_cideldill.patching.trampolines import CannotIntercept
from pytest_cideldill.probes.behaviors import FunctionProbe, Tally
from pytest_cideldill.probes.compiler_functions import Compiled
from pytest_cideldill.probes.hits import Handling, Hits
from pytest_cideldill.probes.meanings import Meanings
from pytest_cideldill.probes.nesting import Nesting, Root, roots, young_functions
from pytest_cideldill.probes.unhit import Fact, of_function
from pytest_cideldill.protocol import AddBreakpoint, Bound
from pytest_cideldill.sourcecode.names import parse_function_name
from pytest_cideldill.sourcecode.quiet import compile_condition


@dataclass(frozen=True, slots=True)
class _Intercepted:
    """A swapped function, one that is recorded only, or planted code. None is kept alive.

    Attributes:
        function: The function while it lives, another one may have its id later; or one that was
            made of the code.
        code: Its original code.
        undo: Puts the original code back.
    """

    function: Callable[[], FunctionType | None]
    code: CodeType
    path: str
    undo: Callable[[], None]


def _nothing() -> None:
    return None


class FunctionProbes:
    """All function breakpoints of this process.

    Args:
        context: Bare names and globs mean functions of user code only; threads that its guard marks
            hit nothing.
        handling: What to do at a call that a breakpoint acts on.
        record: Has the calls of a function recorded: its code, its dotted path. None: `handling`
            records, and gets all calls; before 3.12 an event source would slow every call.
        unrecord: Ends that.
    """

    def __init__(
        self,
        context: Context,
        handling: Handling,
        record: Callable[[CodeType, str], None] | None = lambda _code, _path: None,
        unrecord: Callable[[CodeType], None] = lambda _code: None,
    ) -> None:
        self._record = record
        self._unrecord = unrecord
        self._breakpoints: dict[str, FunctionProbe] = {}
        self._meanings = Meanings(context.project, self._breakpoints)
        self._hits = Hits(context, self._breakpoints, handling, is_handed_all=record is None)
        self._order, self._were_any = 0, False
        self._swapped: dict[int, _Intercepted] = {}
        self._refused: dict[int, str] = {}
        self._headroom = Headroom()
        # Ids of the code of swapped functions; replaced whole too.
        self._bound: frozenset[int] = frozenset()
        self._hides = False
        self._compiled = Compiled()
        # Breakpoint → the compiler of the functions of its name.
        self._compilers: dict[str, str] = {}
        self._nesting = Nesting(
            self._meanings.may_mean,
            self._meanings.of_code,
            self._plant,
            self._record_code,
            self._is_compiled,
            self._hits.may_act,
        )

    def add(self, spec: AddBreakpoint, *, from_start: bool = True) -> None:
        """Add a breakpoint, or change the one with this id.

        `from_start`: no code of the tests has run yet.

        Raises:
            ValueError: The name or the condition is malformed.
        """
        name = parse_function_name(spec.function_name)
        if spec.condition:
            compile_condition(spec.condition)
        probe = self._breakpoints.get(spec.id)
        tally = probe.tally if probe else Tally(from_start=from_start)
        if probe:
            tally.watching.change(True)
        self._were_any = True
        self._order += 1
        order = probe.order if probe else self._order
        self._breakpoints[spec.id] = FunctionProbe(spec, name, order, tally)
        self._meanings.renew()
        self._hits.renew(spec.id)

    def set_default(self, behavior: str) -> None:
        """Set the meaning of `yield`; then `bind`."""
        self._hits.default = behavior

    def functions_of(self, id: str) -> list[FunctionType]:
        """The functions that a breakpoint governs now."""
        alive = (self._swapped[key].function() for key in self._keys_of(id))
        return [function for function in alive if function is not None]

    def refusal(self, id: str) -> str | None:
        """Why what a name leads to can't be intercepted."""
        return self._meanings.refusal(id)

    def unhit(self) -> dict[str, Fact]:
        """Why each was not hit."""
        meanings, default = self._meanings, self._hits.default
        return {
            id: of_function(
                breakpoint,
                default,
                meanings.refusal(id),
                meanings.deciding(id),
                None if self._keys_of(id) else self._compiled_by(id),
                meanings.beside,
            )
            for id, breakpoint in self._breakpoints.items()
        }

    @property
    def are_any(self) -> bool:
        """Whether there is any breakpoint."""
        return bool(self._breakpoints)

    def mean_any_in(self, root: CodeType, module: str) -> bool:
        """As `Meanings.are_in`; called whenever code starts for the first time."""
        return self._meanings.are_in(root, module, self._bound)

    @property
    def await_import(self) -> bool:
        """Whether an exact name is not bound: it may lead into a module that is not loaded."""
        exact = [each for each in self._breakpoints.values() if each.name.is_exact]
        return any(not self._keys_of(probe.id) for probe in exact)

    def mean_any_of(self, module: str) -> bool:
        """Whether an exact name may lead into a module that is imported."""
        names = [breakpoint.name for breakpoint in self._breakpoints.values()]
        return any(name.is_exact and name.may_be_in((module,), "") for name in names)

    def remove(self, id: str) -> None:
        """Forget a breakpoint; unknown ids are no error."""
        self._breakpoints.pop(id, None)
        self._meanings.renew()
        self._hits.renew(id)

    def disarm(self) -> None:
        """Put every original code object back."""
        for id in list(self._breakpoints):
            self.remove(id)
        self.bind()

    def forget(self) -> None:
        """As `disarm`, in a forked child: without looking through all objects.

        That would copy the memory which the child shares with its parent, and take as long as many
        a child lives. Functions that were made of planted code keep it, and their calls pass.
        """
        self._nesting.forget()
        self.disarm()

    def bind(self, started: Root | None = None) -> list[Bound]:
        """Find the functions that the names mean now; swap and restore what changed.

        One scan of the garbage collector's objects (1 ms per 16,000), only with breakpoints. For a
        function that has just started, of its young objects only: that function is one of them. For
        a module none: its functions are not made yet.

        Args:
            started: Code that starts now and is to be bound, or what is in it, of a module.
        """
        if not self._were_any:
            return []
        functions = self._find_all() if started is None else self._find_in(*started)
        self._hits.choose()
        self._headroom.set(wanted=self._hits.act_on_any)
        for function in functions:
            self._swap(function)
        self._bound = frozenset(id(each.code) for each in self._swapped.values())
        return [self._binding(breakpoint) for breakpoint in self._breakpoints.values()]

    def _find_all(self) -> list[FunctionType]:
        """The functions that names mean; what they don't mean any more is restored."""
        functions = self._meanings.functions()
        self._refused.clear()
        self._compilers.clear()
        self._compiled.begin()
        self._meanings.begin()
        nested, has_grown = self._nesting.grow(roots(functions))
        if has_grown:  # what was made meanwhile was made of the original
            functions = self._meanings.functions()
        found, governing = self._meanings.of(functions, self._is_apart)
        nested = {key: best for key, best in nested.items() if not self._compiled.has(key)}
        led = self._meanings.leads()
        self._hits.narrowing.take(led, governing)
        found += [lead.function for lead, _ in led]
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
            if not any(code_of(function) is code for function in young):
                return self._find_all()
        nested, _ = self._nesting.grow([(code, module)])
        functions, governing = self._meanings.of(young, self._is_apart)
        self._hits.governing = self._hits.governing | governing | nested
        return functions

    def _swap(self, function: FunctionType) -> None:
        """Intercept a function; one whose calls are only recorded needs nothing but that."""
        code, alive, key = code_of(function), ref(function), id(function)
        known = self._swapped.get(key)
        original = original_code(code)
        is_recorded = self._record is not None and not self._hits.acts_on(key)
        if is_recorded and not original_of(original):
            # Its id may have been that of another one.
            if known is None or known.function() is not function or known.undo is not _nothing:
                path = self._meanings.path(function, original)
                self._keep(key, _Intercepted(alive, original, path, _nothing))
                if known is not None:
                    known.undo()
            return
        if is_trampoline(code):
            return
        self._hide()
        path = self._meanings.path(function, code)
        on_call = self._hits.handler(key, code, path, lambda _frame: alive())
        try:
            undo = intercept(function, on_call, self._hits.wants(key))
        except CannotIntercept as error:
            self._refused[key] = str(error)
        else:
            self._keep(key, _Intercepted(alive, code, path, undo))

    def _plant(self, code: CodeType, module: str) -> Planting | None:
        """Intercept the functions that will be made of some code."""
        self._hide()
        key = id(code)
        path = DottedPath.of(module, code.co_qualname, file_now(code.co_filename))
        on_call = self._hits.handler(key, code, path, function_of)
        try:
            planting = Planting(code, on_call, self._hits.wants(key))
        except CannotIntercept as error:
            self._refused[key] = str(error)
            return None
        one = partial(self._nesting.one_of, code)
        self._keep(key, _Intercepted(one, code, path, planting.undo))
        return planting

    def _hide(self) -> None:
        """Have the program see code without trampolines, before there are any."""
        if not self._hides:
            self._hides = True
            show(self._nesting.shown.of)

    def _record_code(self, code: CodeType, module: str) -> None:
        """Have the calls of all functions of some code recorded; nothing of them is changed."""
        path = DottedPath.of(module, code.co_qualname, file_now(code.co_filename))
        one = partial(self._nesting.one_of, code)
        self._keep(id(code), _Intercepted(one, code, path, _nothing))

    def _is_apart(self, function: FunctionType, best: FunctionProbe) -> bool:
        """Whether a function is left alone, or is governed by its code."""
        self._compiled.look(function)
        code = original_code(code_of(function))
        return self._is_compiled(code, best) or self._nesting.has(function)

    def _is_compiled(self, code: CodeType, best: FunctionProbe) -> bool:
        compiler = self._compiled.by(code)
        if compiler is not None:
            self._compilers[best.id] = compiler
        return compiler is not None

    def _compiled_by(self, id: str) -> str | None:
        """That a breakpoint means functions that were compiled; None: it does not."""
        compiler = self._compilers.get(id)
        if compiler is None:
            return None
        return f"compiled by {compiler}: calls of compiled code will not stop"

    def _keep(self, key: int, intercepted: _Intercepted) -> None:
        self._swapped[key] = intercepted
        if self._record is not None:
            self._record(intercepted.code, intercepted.path)

    def _binding(self, governing: FunctionProbe) -> Bound:
        bound = [self._swapped[key] for key in self._keys_of(governing.id)]
        if bound:
            governing.tally.was_bound = True
            via = "attribute" if any(original_of(each.code) for each in bound) else "code"
            return Bound(governing.id, sorted({each.path for each in bound}), True, via=via)
        mine = [key for key, probe in self._hits.governing.items() if probe is governing]
        refusals = (self._refused[key] for key in mine if key in self._refused)
        message = next(refusals, None)
        message = message or self._compiled_by(governing.id) or self._meanings.why_not(governing.id)
        return Bound(governing.id, [], False, message)

    def _keys_of(self, id: str) -> list[int]:
        """What a breakpoint governs that is intercepted."""
        mine = [key for key, probe in self._hits.governing.items() if probe.id == id]
        mine += self._hits.narrowing.keys_of(id)
        return [key for key in dict.fromkeys(mine) if key in self._swapped]
