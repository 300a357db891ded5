"""Records of calls: when, by whom, with what, to what end. Nothing of the program is changed.

Recorded are the functions chosen by glob and those that have a breakpoint. Runs on the calling
threads, through the event source; rows go to the log. The hot path is `_starting` and `_ending`.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import Token
from fnmatch import fnmatchcase
from functools import partial
from itertools import count
from types import CodeType, FrameType
from typing import Any

from pytest_cideldill.callrecords.active_call import (
    AS_KEPT,
    NOT_FROZEN,
    NUMBER,
    PARENT,
    Begun,
    Intercepted,
    Start,
    current,
    expected_in,
    leave,
    start_of,
)
from pytest_cideldill.callrecords.event_builder import CallEventBuilder
from pytest_cideldill.context import Context
from pytest_cideldill.frames.arguments import DottedPath, Parameters, module_name, raised
from pytest_cideldill.interpreter.clock import monotonic, ticking
from pytest_cideldill.interpreter.code_files import file_now, file_of
from pytest_cideldill.objects.content_ids import Objects
from pytest_cideldill.patching.code_swap import is_trampoline, original_code
from pytest_cideldill.patching.function_code import code_of
from pytest_cideldill.probes.functiontraces import FunctionTraces
from pytest_cideldill.probes.unhit import Fact, of_glob
from pytest_cideldill.protocol import CALLS_OF
from pytest_cideldill.protocol.rows import Loss, Row
from pytest_cideldill.rendering.display import LONGEST_KEPT, Kept
from pytest_cideldill.rendering.layout import NUMBERS
from pytest_cideldill.tracing.interface import (
    OnEnd,
    OnStart,
    Source,
    SourceUnavailable,
    existing_functions,
)

_GENERATES = 0x20 | 0x200  # CO_GENERATOR, CO_ASYNC_GENERATOR

_MOST_ANNOUNCED = 100


class Recording:
    """Records the calls of functions that a glob matches or that have a breakpoint.

    Args:
        context: Its rows take one per call that ended, and per call that runs while something
            stops.
        patterns: Globs over dotted paths, as `shop.cart.*`.
        traces: Tracepoints on functions, whose messages are sent beside the records.
    """

    def __init__(
        self,
        context: Context,
        patterns: Iterable[str] = (),
        objects: Objects | None = None,
        traces: FunctionTraces | None = None,
    ) -> None:
        lens = context.lens
        self._traces = traces
        self._events = CallEventBuilder(lens, context.identity.prefix, objects)
        self._patterns = tuple(patterns)
        self._unmatched = set(self._patterns)
        self._lens = lens
        self._add = context.rows.add
        self._position = context.position
        self._chosen: set[int] = set()
        self._seen: set[int] = set()
        # Bound once, for the hot path.
        self._freeze = None if objects is None else objects.freeze
        self._longest = LONGEST_KEPT
        if objects is not None:
            self._longest = min(LONGEST_KEPT, objects.longest_atom)
        self._keep = lens.keep
        self._event_of = self._events.event_of
        self._next_number = count(1).__next__
        # All that run, by number. Single items are set and popped: atomic.
        self._running: dict[int, Begun] = {}
        self._logged_running: set[int] = set()  # or logged and changed
        # Thread → the calls that it is about to make, which have a number already.
        self._announced: dict[int, list[tuple[CodeType, Intercepted]]] = {}
        # Outermost call that runs → what takes the variable out of the program's context again.
        self._tokens: dict[int, Token[int | None]] = {}
        # Thread that makes calls which may pause when they are done → the last one that ended.
        self._watched: dict[int, Begun | None] = {}
        self._ours: dict[str, bool] = {}  # file → whether it is one of ours

    @property
    def wants_any(self) -> bool:
        """Whether functions were chosen by glob, or have tracepoints."""
        return bool(self._patterns) or (self._traces is not None and self._traces.are_any)

    # --- what is recorded -------------------------------------------------------------------

    def consider(self, source: Source, root: CodeType, module: str) -> None:
        """Record the functions inside a code object (a module's, or one function's) that match."""
        file = file_now(root.co_filename)
        if not self._lens.project.is_user(file):
            return
        for code in _functions_in(root):
            name = _dotted(module, code)
            matching = [pattern for pattern in self._patterns if fnmatchcase(name, pattern)]
            if matching:
                self._unmatched.difference_update(matching)
                self._chosen.add(id(code))
                self.record(source, code, DottedPath.of(module, code.co_qualname, file))
            else:
                self._record_calls(source, code)

    def unhit(self) -> dict[str, Fact]:
        """Of the globs, as `unhit.Knowing`: the facts about those that no function matched."""
        loaded, project = dict(_loaded()) if self._unmatched else {}, self._lens.project
        return {
            CALLS_OF + each: of_glob(each, loaded if each in self._unmatched else None, project)
            for each in self._patterns
        }

    def unrecord(self, source: Source, code: CodeType) -> None:
        """Record no more calls of a function that was not chosen by glob."""
        if id(code) not in self._chosen:
            source.stop_recording(code)
            self._seen.discard(id(code))
            self._record_calls(source, code)

    def record(self, source: Source, code: CodeType, name: str) -> None:
        """Record the calls of one function from now on."""
        self._seen.add(id(code))  # the source keeps the code object
        if not self._record_calls(source, code, (self._starting(code, name), self._ending(code))):
            self._seen.discard(id(code))

    def _record_calls(
        self, source: Source, code: CodeType, *handlers: tuple[OnStart, OnEnd]
    ) -> bool:
        """Have the handlers called, and those of the tracepoints that mean these calls."""
        if self._traces is not None and (traces := self._traces.of(code)):
            handlers = (*handlers, self._traces.handlers(code, traces))
        try:
            if handlers:
                source.record_calls(code, *_together(handlers))
        except SourceUnavailable:
            return False  # made by C: it has no Python calls
        return True

    # --- on the calling threads -------------------------------------------------------------

    def begin(
        self, name: str, call_data: dict[str, Any], frame: FrameType, nodeid: str | None
    ) -> Intercepted:
        """A call that is intercepted, before it begins; then `announce` or `end` it.

        Args:
            call_data: What a pause reports of it.
            frame: The trampoline's.
            nodeid: Of the test in which the call begins.
        """
        caller = self._caller(frame.f_back)
        begun = Intercepted(
            Start(
                number=self._next_number(),
                name=name,
                args=[(text,) for text in call_data["pretty_args"]],
                kwargs={name: (text,) for name, text in call_data["pretty_kwargs"].items()},
                caller=None if caller is None else caller.f_code,
                place=0 if caller is None else caller.f_lasti,
                nodeid=nodeid,
                parent=current.get(),
                thread=get_ident(),
                began=monotonic(),
                frozen=NOT_FROZEN,
            )
        )
        self._running[begun.start.number] = begun
        return begun

    def sees(self, code: CodeType) -> bool:
        """Whether the event source sees the calls of a function."""
        return id(code) in self._seen

    def announce(self, begun: Intercepted, code: CodeType) -> None:
        """The next call of `code` on this thread is `begun`, if the event source sees it."""
        expected = self._announced.setdefault(get_ident(), [])
        expected.append((code, begun))
        del expected[:-_MOST_ANNOUNCED]  # of generators that never start

    def watch(self) -> None:
        """Remember on this thread which call ended last, from now on."""
        self._watched.setdefault(get_ident(), None)

    def watched(self, name: str) -> Intercepted | None:
        """The call of a function that has just ended on this thread, if the event source saw it."""
        begun = self._watched.get(get_ident())
        if begun is None or start_of(begun).name != name:
            return None
        if type(begun) is Intercepted:
            return begun
        seen = Intercepted(start_of(begun))
        seen.frozen = seen.start.frozen
        return seen

    def end(self, begun: Intercepted, result: object, error: BaseException | None) -> None:
        """An intercepted call ended; unless the event source has seen that already."""
        if self._running.pop(begun.start.number, None) is not None:
            announced = self._announced.get(get_ident(), [])
            announced[:] = [each for each in announced if each[1] is not begun]
            self._finish(begun, result, error)

    def amend(
        self, begun: Intercepted, altered: str, result: object, error: BaseException | None
    ) -> None:
        """A client changed how a call ended: `altered` is `result` or `exception`."""
        begun.altered = altered
        self._logged_running.add(begun.start.number)
        self._finish(begun, result, error)

    def log_running(self) -> None:
        """Have the log know the calls under way; before something stops."""
        running = self._running.copy()
        logged = self._logged_running.intersection(running)
        for number, begun in running.items():
            if number not in logged:
                self._add((self._event_of, begun, "running", None, None, None, None))
        self._logged_running = logged.union(running)

    def loses(self, row: Row) -> Loss:
        """What is lost with a row that the log drops."""
        if type(begun := row[1]) is not tuple and type(begun) is not Intercepted:
            return "hit"
        number = start_of(begun).number
        if row[2] == "running":
            self._logged_running.discard(number)  # its end logs it, or the next stop
            return "call"
        return "call" if number in self._logged_running else "record"

    def id_of(self, begun: Intercepted) -> str:
        """The `call_id` that clients see."""
        return self._events.id_of(begun.start.number)

    def _starting(self, code: CodeType, name: str) -> OnStart:
        parameters = Parameters(code, self._lens)
        kept, frozen_of = parameters.kept, parameters.frozen
        taken, as_kept = parameters.taking(self._longest), AS_KEPT
        nothing: Mapping[str, Any] = {}
        generates = code.co_flags & _GENERATES
        next_number, running, announced = self._next_number, self._running, self._announced
        freeze, position, caller_of = self._freeze, self._position, self._caller
        get_current, set_current, now = current.get, current.set, ticking()
        tokens, ours = self._tokens, self._ours

        def on_start(frame: FrameType, values: Mapping[str, Any]) -> object:
            begun: Begun
            if announced and (expected := expected_in(announced, code)) is not None:
                begun, number = expected, expected.start.number
                parent = expected.start.parent
            else:
                number, parent = next_number(), get_current()
                args: Sequence[Kept] | None = taken(values)
                kwargs, frozen = nothing, as_kept
                if args is None:
                    args, kwargs = kept(values)
                    frozen = NOT_FROZEN if freeze is None else frozen_of(values, freeze)
                caller, outer = frame.f_back, None
                if caller is not None:
                    outer = caller.f_code
                    if ours.get(outer.co_filename, True) or is_trampoline(outer):
                        caller = caller_of(caller)
                        outer = None if caller is None else caller.f_code
                begun = running[number] = (
                    number,
                    name,
                    args,
                    kwargs,
                    outer,
                    0 if caller is None else caller.f_lasti,
                    position.nodeid,
                    parent,
                    get_ident(),
                    now(),
                    frozen,
                )
            if not generates:  # a generator is left at a yield, and others run meanwhile
                token = set_current(number)
                if parent is None:
                    tokens[number] = token
            return begun

        return on_start

    def _ending(self, code: CodeType) -> OnEnd:
        generates = code.co_flags & _GENERATES
        is_over, ended, watched = self._running.pop, self._tokens.pop, self._watched
        finish, set_current = self._finish, current.set
        add, calls, keep, now = self._add, self._events, self._keep, ticking()
        freeze = self._freeze
        longest, numbers = self._longest, NUMBERS
        if secret := self._lens.result_name(code.co_name):
            longest, numbers = 0, frozenset()
            keep = partial(keep, name=secret)
            freeze = freeze and partial(freeze, name=secret)

        def on_end(
            begun: Any, _frame: FrameType, result: object, error: BaseException | None
        ) -> None:
            if watched and (ident := get_ident()) in watched:
                watched[ident] = begun
            start = begun if type(begun) is tuple else begun.start
            is_over(number := start[NUMBER], None)
            if not generates:
                if (parent := start[PARENT]) is not None or (token := ended(number, None)) is None:
                    set_current(parent)
                else:
                    leave(token)
            if error is not None or begun is not start:
                finish(begun, result, error)
            elif len(result) < longest if (kind := type(result)) is str else id(kind) in numbers:  # type: ignore[arg-type]
                add((calls, begun, now(), result, result))  # it is kept and frozen as it is
            else:
                frozen = None if freeze is None else freeze(result)
                add((calls, begun, now(), keep(result), frozen))

        return on_end

    def _caller(self, frame: FrameType | None) -> FrameType | None:
        """Where a call from a frame came from, our own frames left out."""
        ours, caller = self._ours, frame
        while caller is not None:
            code = caller.f_code
            if (is_ours := ours.get(code.co_filename)) is None:
                is_ours = ours[code.co_filename] = self._lens.project.is_ours(code.co_filename)
            if not is_ours and not is_trampoline(code):
                break
            caller = caller.f_back
        return caller

    def _finish(self, begun: Begun, result: object, error: BaseException | None) -> None:
        ended = monotonic()
        if error is None:
            secret = self._lens.result_name(start_of(begun).name.rpartition(".")[2])
            frozen = None if self._freeze is None else self._freeze(result, secret)
            kept = self._keep(result, secret)
            self._add((self._event_of, begun, "success", ended, kept, None, frozen))
        else:
            shown = raised(error, self._lens)
            self._add((self._event_of, begun, "exception", ended, None, shown, None))


def _functions_in(root: CodeType) -> Iterator[CodeType]:
    """The code of functions and methods, nested ones too; no class bodies, no lambdas."""
    if root.co_flags & 0x02 and not root.co_name.startswith("<"):  # CO_NEWLOCALS: no class body
        yield root
    for constant in root.co_consts:
        if type(constant) is CodeType:
            yield from _functions_in(original_code(constant))


def _loaded() -> Iterator[tuple[str, str]]:
    """All functions that exist: the name that globs are compared with, and the file."""
    for function in existing_functions():
        code = original_code(code_of(function))
        yield _dotted(module_name(function), code), file_of(code, function.__globals__)


def _dotted(module: str, code: CodeType) -> str:
    """`module.Class.method`, of a nested function `module.outer.inner`."""
    return f"{module}.{code.co_qualname.replace('.<locals>', '')}"


def _together(handlers: Sequence[tuple[OnStart, OnEnd]]) -> tuple[OnStart, OnEnd]:
    """Several as one; the usual case is that there is one."""
    if len(handlers) == 1:
        return handlers[0]

    def on_start(frame: FrameType, values: Mapping[str, Any]) -> object:
        return [start(frame, values) for start, _ in handlers]

    def on_end(tokens: Any, frame: FrameType, result: object, error: BaseException | None) -> None:
        for token, (_, end) in zip(tokens, handlers, strict=True):
            if token is not None:
                end(token, frame, result, error)

    return on_start, on_end
