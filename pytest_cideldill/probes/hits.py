"""Calls of intercepted functions: whether the breakpoint acts on one, and why.

Runs on every calling thread and reads one reference, which the binding thread writes under the
manager's lock.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import CodeType, FrameType, FunctionType
from typing import Any, Protocol
from weakref import ref

from pytest_cideldill.context import Context
from pytest_cideldill.interpreter.loaded_names import mro_of
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.patching.code_swap import PASS, OnCall
from pytest_cideldill.probes.attributes import Lead
from pytest_cideldill.probes.behaviors import DEFAULT_BEHAVIOR, NOTHING, Call, FunctionProbe, Tally
from pytest_cideldill.probes.conditions import Conditions
from pytest_cideldill.probes.imitation import called
from pytest_cideldill.protocol.current_test_file import Position

_Choices = list[tuple[ref[type] | None, FunctionProbe]]
"""A class, None for any, and the breakpoint that governs calls for its instances."""


class Narrowing:
    """Limits breakpoints on an inherited `__init__` to calls for instances of their class.

    Attributes:
        choices: id(function) → the breakpoints that govern it, for which instances; replaced whole
            when names are bound, under the manager's lock; read by calling threads.
    """

    def __init__(self) -> None:
        self.choices: dict[int, _Choices] = {}

    def take(
        self, led: Iterable[tuple[Lead, FunctionProbe]], governing: dict[int, FunctionProbe]
    ) -> None:
        """Have the functions that names lead to governed too; adds to `governing`, by id."""
        choices: dict[int, _Choices] = {}
        for lead, probe in led:
            key = id(lead.function)
            if lead.only is not None:
                choices.setdefault(key, []).append((ref(lead.only), probe))
            elif key not in governing or probe.rank > governing[key].rank:
                governing[key] = probe
        for key, narrow in choices.items():
            if key in governing:
                narrow.append((None, governing[key]))
            governing[key] = max((probe for _, probe in narrow), key=lambda each: each.rank)
        self.choices = choices

    def keys_of(self, id: str) -> list[int]:
        """The functions that a breakpoint governs for some instances."""
        items = self.choices.items()
        return [key for key, narrow in items if any(probe.id == id for _, probe in narrow)]

    def chosen(self, key: int, args: tuple[Any, ...]) -> FunctionProbe | None:
        """The breakpoint that governs a call of a function that is in here."""
        bases = mro_of(type(args[0])) if args else ()
        mine = [
            probe
            for only, probe in self.choices.get(key, ())
            if only is None or any(base is only() for base in bases)
        ]
        return max(mine, key=lambda each: each.rank, default=None)


_UNCOUNTED = Tally()


@dataclass(frozen=True, slots=True)
class _Acting:
    """A breakpoint that acts on calls, with what it does under the present default.

    Attributes:
        tally: Counts its calls; a shared one that nobody reads while they are only handed on.
    """

    breakpoint: FunctionProbe
    stops: bool
    completions: frozenset[str]
    tally: Tally


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
        make: Callable[[], Call | None],
    ) -> Any:
        """Like `handle`; `make` makes the call once it is needed, unless its function is gone."""


class Hits:
    """Decides whether a breakpoint acts on a call of an intercepted function, and why.

    Args:
        context: Threads that its guard marks hit nothing.
        breakpoints: All that there are, by id; changed by the owner.
        handling: What to do at a call that a breakpoint acts on.
        is_handed_all: Whether calls that no breakpoint acts on are handed on too.

    Attributes:
        narrowing: Functions that are governed for some instances only.
        governing: id(function), or id(code) of planted code → the breakpoint that governs it;
            replaced whole. Then `choose`.
        default: What behaviors that yield mean. Then `choose`.
    """

    def __init__(
        self,
        context: Context,
        breakpoints: Mapping[str, FunctionProbe],
        handling: Handling,
        *,
        is_handed_all: bool,
    ) -> None:
        self._project = context.project
        self._quiet = context.guard.depths
        self._position = context.position
        self._handling = handling
        self._breakpoints = breakpoints
        self._conditions = Conditions(context.overtime, context.warn)
        self.narrowing = Narrowing()
        self._is_handed_all = is_handed_all
        self.governing: dict[int, FunctionProbe] = {}
        self.default = DEFAULT_BEHAVIOR
        # Those that act; items are set and popped, the calls read them without a lock.
        self._acting: dict[int, _Acting] = {}

    def choose(self) -> None:
        """Which breakpoints act on calls, as they govern now."""
        acting = {
            key: self._as_of_now(probe)
            for key, probe in self.governing.items()
            if self.may_act(probe) or key in self.narrowing.choices
        }
        for key in [key for key in self._acting if key not in acting]:
            self._acting.pop(key)
        self._acting.update(acting)

    def acts_on(self, key: int) -> bool:
        """Whether calls are to be handed on, as was chosen last."""
        return key in self._acting

    @property
    def act_on_any(self) -> bool:
        """Whether any calls are to be handed on, as was chosen last."""
        return bool(self._acting)

    def renew(self, id: str) -> None:
        """A breakpoint has changed, or is gone: forget its condition."""
        self._conditions.forget(id)

    def wants(self, key: int) -> Callable[[], object]:
        """The test for `code_swap.intercept`: gives None while no breakpoint acts on calls."""
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
            function_in: The function that runs in a trampoline's frame.
        """

        handling, quiet, now = self._handling, self._quiet, self._acting.get
        call_of = partial(_call, self._position)
        completions_now = partial(self._completions, key, None)

        def on_call(
            frame: FrameType,
            original: Callable[..., Any],
            args: tuple[Any, ...],
            kwargs: dict[str, Any],
        ) -> Any:
            __tracebackhide__ = True
            acting, completions = now(key), completions_now
            if key in self.narrowing.choices:
                acting = self._narrowed(key, args)
                id = None if acting is None else acting.breakpoint.id
                completions = partial(self._completions, key, id)
            if acting is None or (quiet and get_ident() in quiet):
                return PASS
            governing, stops = acting.breakpoint, acting.stops
            reason: str | None = "breakpoint"
            if governing.spec.condition:
                reason = self._conditions.reason(governing, frame)
                if reason is None:
                    acting.tally.misses.next()
                    if not self._is_handed_all:
                        return PASS
                stops = stops or reason == "condition_error"
            if reason is not None:
                acting.tally.was_hit = True
            known = (governing, path, function_in, code, frame, args, kwargs)
            if reason is None:
                make = partial(call_of, known, None, frozenset, str)
            elif not stops and not governing.spec.replacement and handling.can_watch(code):
                make = partial(call_of, known, None, completions, str)
                return handling.watch(original, args, kwargs, completions, make)
            else:
                replacement = partial(self._replacement, key, governing.spec.id)
                make = partial(call_of, known, reason if stops else None, completions, replacement)
            call = make()
            if call is None:
                return PASS
            return called(code, partial(handling.handle, call), original, self._project.is_ours)

        return on_call

    def may_act(self, governing: FunctionProbe) -> bool:
        """Whether calls that a breakpoint governs are to be handed on."""
        return self._is_handed_all or governing.acts(self.default)

    def _as_of_now(self, governing: FunctionProbe) -> _Acting:
        default = self.default
        stops, completions = governing.stops_before(default), governing.completions(default)
        tally = governing.tally if governing.acts(default) else _UNCOUNTED
        return _Acting(governing, stops, completions, tally)

    def _narrowed(self, key: int, args: tuple[Any, ...]) -> _Acting | None:
        """What acts on a call that is governed by its instance."""
        chosen = self.narrowing.chosen(key, args)
        return self._as_of_now(chosen) if chosen is not None and self.may_act(chosen) else None

    def _now(self, key: int, id: str) -> FunctionProbe | None:
        """The breakpoint that governs a function by now."""
        if key in self.narrowing.choices:
            return self._breakpoints.get(id)
        return self.governing.get(key)

    def _completions(self, key: int, id: str | None) -> frozenset[str]:
        """At which completions the governing breakpoint stops now.

        Args:
            id: Which one it is, if several govern the function.
        """
        if id is None:
            acting = self._acting.get(key)
            return NOTHING if acting is None else acting.completions
        governing = self._now(key, id)
        return NOTHING if governing is None else governing.completions(self.default)

    def _replacement(self, key: int, id: str) -> str:
        governing = self._now(key, id)
        return "" if governing is None else governing.spec.replacement


_Known = tuple[
    FunctionProbe,
    str,
    Callable[[FrameType], FunctionType | None],
    CodeType,
    FrameType,
    tuple[Any, ...],
    dict[str, Any],
]
"""What is at hand at a call: its breakpoint, dotted path, what finds its function in the frame, its
code, frame and arguments. A plain tuple: it is made on the hot path."""


def _call(
    position: Position,
    known: _Known,
    reason: str | None,
    completions: Callable[[], frozenset[str]],
    replacement: Callable[[], str],
) -> Call | None:
    """The call; None when its function is gone."""
    governing, path, function_in, code, frame, args, kwargs = known
    function = function_in(frame)
    if function is None:
        return None
    return Call(
        governing,
        path,
        function,
        code,
        frame,
        args,
        kwargs,
        reason,
        completions,
        replacement,
        position.during,
    )
