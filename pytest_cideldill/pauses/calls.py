"""What happens at an intercepted call: pauses before and after it, replacements.

Runs on the calling threads. Which call is intercepted, and by which breakpoint, is decided in
`probes.functions`; a failure of ours is sent once, and the call goes on as without us.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain, islice, repeat
from types import CodeType, FrameType
from typing import Any

from pytest_cideldill.callrecords.active_call import NOT_FROZEN, Intercepted, Start
from pytest_cideldill.callrecords.recorder import Recording
from pytest_cideldill.context import Context
from pytest_cideldill.errors import Refusal
from pytest_cideldill.frames.arguments import describe_call, raised, signature_text
from pytest_cideldill.frames.failure import Place
from pytest_cideldill.frames.frames import visible_stack, visible_traceback
from pytest_cideldill.interpreter.borders import contained
from pytest_cideldill.objects.content_ids import Frozen, Held
from pytest_cideldill.patching.code_swap import makes
from pytest_cideldill.patching.substitute import original_of
from pytest_cideldill.pauses.parking import Pause, Resolution, Resolve, Stop
from pytest_cideldill.pauses.pauses import Pauses
from pytest_cideldill.pauses.report import stack_at
from pytest_cideldill.pauses.resume import Load, resolve_call, resolve_completion
from pytest_cideldill.probes.behaviors import Call
from pytest_cideldill.probes.imitation import follow
from pytest_cideldill.probes.replacing import Replacement, check_signature, find_replacement
from pytest_cideldill.protocol import Resume

Guest = Callable[[Callable[[], Resolution]], Resolution]
"""Runs our side of a hit; see `BreakpointManager`."""

_MADE = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR

_PASSING = (KeyboardInterrupt, GeneratorExit)
"""What ends a run, or a generator that is closed: no outcome of a call to look at."""


class Calls:
    """Handles intercepted calls: pauses before and after them, and replaces them.

    Args:
        recording: Gets the calls that the event source can't see.
        guest: Runs our side of a hit.
    """

    def __init__(
        self, context: Context, pauses: Pauses, recording: Recording, guest: Guest
    ) -> None:
        self._lens = context.lens
        self._keeping = context.keeping
        self._position = context.position
        self._warn = context.warn
        self._pauses = pauses
        self._recording = recording
        self._guest = guest

    def handle(self, call: Call, original: Callable[..., Any]) -> Any:
        """The outcome of a call that may pause or has a replacement."""
        __tracebackhide__ = True
        data = self._described(call)
        begun = self._begin(call, data)
        resolution = self._stop_before(call, data, begun)
        if resolution.action == "skip":
            begun.altered = "result"
            self._end(begun, resolution.value, None)
            return resolution.value
        if resolution.action == "raise":
            begun.altered = "exception"
            self._end(begun, None, resolution.value)
            raise resolution.value
        args, kwargs = call.args, call.kwargs
        replacement, arguments = None, resolution.value
        if resolution.action == "replace":
            replacement, arguments = resolution.value
        elif name := call.replacement():
            replacement = self._standing(call, name)
        if arguments is not None:
            args, kwargs = arguments
            begun.altered = "args"
        if replacement is not None:
            begun.replaced_by = replacement.path
        else:
            announce = partial(self._announce, call, begun)
            contained("the record of a call", announce, self._warn, None)
        run = original if replacement is None else replacement.function
        if makes(call.code) is not None:
            return self._made(call, data, begun, run(*args, **kwargs))
        try:
            result = run(*args, **kwargs)
        except _PASSING as error:
            self._end(begun, None, error)
            raise
        except BaseException as error:
            given = self._raised(call, data, begun, error)
            if given is None:
                raise
            return given.value
        return self._returned(call, data, begun, result)

    def _standing(self, call: Call, name: str) -> Replacement | None:
        """The replacement of a breakpoint; None when it can't be had, which warns once.

        It may have been chosen before it, or the function, was loaded.
        """
        try:
            replacement = find_replacement(name, self._lens.project)
            check_signature(replacement, call.function)
            return replacement
        except Refusal as refusal:
            self._warn(f"{call.breakpoint.id}: {refusal.message}; the call was not replaced")
            return None

    # --- calls that pause when they are done only -------------------------------------------

    def can_watch(self, code: CodeType) -> bool:
        """Whether calls of this code are recorded; never for generators and coroutines."""
        return self._recording.sees(code) and not code.co_flags & _MADE

    def watch(
        self,
        original: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        completions: Callable[[], frozenset[str]],
        make: Callable[[], Call | None],
    ) -> Any:
        """Nothing is described before it is needed: the event source records the call."""
        __tracebackhide__ = True
        self._recording.watch()
        try:
            result = original(*args, **kwargs)
        except _PASSING:
            raise
        except BaseException as error:
            call = make() if "exception" in completions() else None
            if call is None:
                raise
            given = self._raised(call, *self._seen(call), error)
            if given is None:
                raise
            return given.value
        call = make() if "after" in completions() else None
        return result if call is None else self._returned(call, *self._seen(call), result)

    def _seen(self, call: Call) -> tuple[dict[str, Any], Intercepted]:
        """A call that has just ended as it began: what the record of it holds."""
        data = self._described(call)
        begun = self._recording.watched(call.path) or self._begin(call, data)
        start, show = begun.start, self._lens.render_kept
        data["pretty_args"] = list(map(show, start.args))
        data["pretty_kwargs"] = {name: show(value) for name, value in start.kwargs.items()}
        data["call_id"] = self._recording.id_of(begun)
        return data, begun

    # --- completion -------------------------------------------------------------------------

    def _made(self, call: Call, data: dict[str, Any], begun: Intercepted, made: Any) -> Any:
        """A generator or a coroutine: its call completes when it is exhausted."""
        if not call.completions() and self._recording.sees(call.code):
            return made

        def returned(result: Any) -> Any:
            return self._returned(call, data, begun, result)

        def failed(error: BaseException) -> Resolution | None:
            return self._raised(call, data, begun, error)

        return follow(call.code, made, returned, failed)

    def _returned(self, call: Call, data: dict[str, Any], begun: Intercepted, result: Any) -> Any:
        __tracebackhide__ = True
        self._end(begun, result, None)
        if "after" not in call.completions():
            return result
        resolution = self._guest(lambda: self._pause_after(call, data, result))
        if resolution.action == "skip":
            self._amend(begun, "result", resolution.value, None)
            return resolution.value
        if resolution.action == "raise":
            self._amend(begun, "exception", None, resolution.value)
            raise resolution.value
        return result

    def _raised(
        self, call: Call, data: dict[str, Any], begun: Intercepted, error: BaseException
    ) -> Resolution | None:
        """What the call gives instead of its exception; None: it is to be raised again."""
        __tracebackhide__ = True
        self._end(begun, None, error)
        if "exception" not in call.completions():
            return None
        resolution = self._guest(lambda: self._pause_raised(call, data, error))
        if resolution.action == "raise":
            self._amend(begun, "exception", None, resolution.value)
            raise resolution.value
        if resolution.action == "skip":
            self._amend(begun, "result", resolution.value, None)
            return resolution
        return None

    # --- what we note of a call, whatever fails in that -------------------------------------

    def _begin(self, call: Call, data: dict[str, Any]) -> Intercepted:
        """The record of a call; one that could not begin has no number, and is not sent."""
        begin = partial(self._recording.begin, call.path, data, call.frame, call.during.nodeid)
        begun = contained("the record of a call", begin, self._warn, None)
        if begun is None:
            return Intercepted(Start(0, call.path, (), {}, None, 0, None, None, 0, 0.0, NOT_FROZEN))
        data["call_id"] = self._recording.id_of(begun)
        return begun

    def _announce(self, call: Call, begun: Intercepted) -> None:
        if begun.start.number and self._recording.sees(call.code):
            self._recording.announce(begun, call.code)

    def _end(self, begun: Intercepted, result: object, error: BaseException | None) -> None:
        end = partial(self._recording.end, begun, result, error)
        contained("the record of a call", end, self._warn, None)

    def _amend(
        self, begun: Intercepted, altered: str, result: object, error: BaseException | None
    ) -> None:
        if begun.start.number:
            amend = partial(self._recording.amend, begun, altered, result, error)
            contained("the record of a call", amend, self._warn, None)

    def _described(self, call: Call) -> dict[str, Any]:
        """What a pause reports of a call; where that fails, its name."""
        bare = {
            "method_name": call.path.rpartition(".")[2],
            "qualified_name": call.path,
            "pretty_args": [],
            "pretty_kwargs": {},
            "argument_count": len(call.args) + len(call.kwargs),
            "signature": "(...)",
            "call_site": None,
        }
        return contained("describing a call", partial(self._describe, call), self._warn, bare)

    # --- pauses -----------------------------------------------------------------------------

    def _describe(self, call: Call) -> dict[str, Any]:
        frames = visible_stack(call.frame, self._lens.project)
        caller = frames[1] if len(frames) > 1 else None
        original = original_of(call.code)
        signature = None if original is None else original.signature_text
        if signature is None:
            signature = signature_text(call.function, call.code, self._lens)
        arguments = (call.args, call.kwargs)
        return describe_call(call.path, call.code, signature, arguments, caller, self._lens)

    def _stop_before(self, call: Call, data: dict[str, Any], begun: Intercepted) -> Resolution:
        """Take the arguments; a pause holds them."""
        held: dict[str, Held] = {}
        self._guest(lambda: self._keep(call, begun, held))
        if call.reason is None:
            return Resolution()
        return self._guest(lambda: self._pause_before(call, data, held))

    def _keep(self, call: Call, begun: Intercepted, held: dict[str, Held]) -> Resolution:
        names, most = call.code.co_varnames[: call.code.co_argcount], self._lens.limits.max_items
        objects = self._keeping.objects

        def take(value: object, name: str) -> Frozen:
            if call.reason is None:
                return objects.freeze(value, name)
            return objects.take(held, value, name)

        named = zip(call.args[:most], chain(names, repeat("")), strict=False)
        more = islice(call.kwargs.items(), most)
        begun.frozen = (
            [take(value, name) for value, name in named],
            {name: take(value, name) for name, value in more},
        )
        return Resolution()

    def _pause_before(self, call: Call, data: dict[str, Any], held: dict[str, Held]) -> Resolution:
        assert call.reason is not None

        def resolve(command: Resume, pause: Pause) -> Resolution:
            return resolve_call(
                command,
                call,
                data["signature"],
                touched=pause.touched,
                find=partial(find_replacement, project=self._lens.project),
                load=self._loading(pause),
            )

        stack = stack_at(call.frame, self._lens)
        details = {"call_data": data, "breakpoint_id": call.breakpoint.id}
        return self._pauses.pause(
            Stop("before", call.reason, stack, details, resolve, held=held, during=call.during)
        )

    def _loading(self, pause: Pause) -> Load:
        """What makes kept objects anew, those that the pause holds among them."""
        return partial(self._keeping.load, held=pause.held)

    def _pause_after(self, call: Call, data: dict[str, Any], result: Any) -> Resolution:
        def more() -> dict[str, Any]:
            name = self._lens.result_name(call.code.co_name)
            return {"call_data": data | {"pretty_result": self._lens.show(result, name)}}

        during = self._position.during
        stop = Stop(
            "after",
            "breakpoint",
            stack_at(call.frame, self._lens),
            {"call_data": data, "breakpoint_id": call.breakpoint.id},
            self._resolving("after", call.frame),
            more=more,
            names={"__return__": result},
            during=during,
        )
        return self._pauses.pause(stop)

    def _resolving(self, phase: str, frame: FrameType) -> Resolve:
        """What checks the resume commands of a call that is done."""

        def resolve(command: Resume, pause: Pause) -> Resolution:
            return resolve_completion(phase, command, frame, self._loading(pause), pause.names)

        return resolve

    def _pause_raised(self, call: Call, data: dict[str, Any], error: BaseException) -> Resolution:
        def more() -> dict[str, Any]:
            return {"call_data": data | {"exception": raised(error, self._lens)}}

        during = self._position.during
        look = partial(visible_traceback, error, self._lens.project)
        places = contained("looking at a traceback", look, self._warn, list[Place]())
        outer = stack_at(call.frame, self._lens)
        frames = [frame for frame, _ in places] + outer
        lines = [line for _, line in places] + [frame.f_lineno for frame in outer]
        stop = Stop(
            "exception",
            "exception",
            frames,
            {"call_data": data, "breakpoint_id": call.breakpoint.id},
            self._resolving("exception", frames[0]),
            more=more,
            lines=lines,
            names={"__exception__": error},
            during=during,
        )
        return self._pauses.pause(stop)
