"""The interface of event sources, the same for every Python version.

Runs in the process under test: handlers are called on the thread of the program, everything else on
the thread that commands. Must not know what an event means to its consumer.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from enum import Enum
from itertools import chain
from operator import attrgetter
from types import (
    AsyncGeneratorType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    TracebackType,
)
from typing import Any, Protocol

from pytest_cideldill.interpreter.borders import at_exit, at_fork
from pytest_cideldill.interpreter.code_files import file_of
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.patching.code_swap import original_code
from pytest_cideldill.patching.function_code import code_of
from pytest_cideldill.tracing.frozen import Frozen
from pytest_cideldill.tracing.trail import Trail


class SourceUnavailable(Exception):
    """Events can't be had here; the message is a sentence that names who is in the way."""


class Deliberate(Exception):
    """Raised by a handler to raise `error` in the program, at the place of the event.

    Without it, an exception that starts in a handler is taken for a bug of ours and swallowed.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class Watch(Enum):
    """What a consumer wants to be told about a code object that starts."""

    NOTHING = "nothing"
    END = "end"
    """Each time it returns: for `<module>` code, whose functions exist then."""


OnStart = Callable[[FrameType, Mapping[str, Any]], object]
"""`on_start(frame, locals) -> token`; the locals are good until it returns.

None: this call is not recorded, and its end not told."""

OnEnd = Callable[[object, FrameType, object, BaseException | None], None]
"""`on_end(token, frame, result, error)`; `error` is what leaves the call, None when it returned."""


@dataclass(frozen=True, slots=True)
class Raises:
    """Which raised exceptions are told; all of it runs no code of the program.

    Attributes:
        wants: By their class; asked for every exception that is raised anywhere: it must be fast.
        in_file: By the file of the frame, as `origin` tells it.
        tell: `(frame, error, traceback)`, once for each frame that an exception passes, from the
            one where it was raised outwards. The traceback begins at that frame.
    """

    wants: Callable[[type], object]
    in_file: Callable[[str], bool]
    tell: Callable[[FrameType, BaseException, TracebackType], None]


Takes = dict[int, dict[int, tuple[frozenset[int], Callable[[FrameType], None]]]]
"""id(code) → line → the offsets that don't count (`passes.repeats`), what is called there."""


@dataclass(frozen=True, slots=True)
class Handlers:
    """What the consumer of a source does with events; called on the thread of the program.

    An exception that starts in a handler, or below it in the standard library, disarms what it was
    called for and is told once through `on_failure`. Everything else passes into the program:
    Ctrl-C, what signal handlers raise, and what a handler (not `on_code`) wraps in `Deliberate`.

    Attributes:
        on_code: `(code, frame)`: a code object that starts or runs while `Source.discover` is on.
            At least once for each, when it starts before its first line; must be idempotent.
        on_module_end: `(code, frame)`: code for which `on_code` answered `Watch.END` returned.
        on_line: `(frame, line)`: a watched line is about to run. Once per pass over its statement.
        on_failure: A sentence about a failure of ours; any thread.
        is_ours: Whether a `co_filename` belongs to the consumer. This package always does.
        quiet: Threads whose events are to be ignored now (evaluations), by ident.
        takes: May be called instead of `on_line`. Kept by the consumer.
    """

    on_code: Callable[[CodeType, FrameType], Watch]
    on_module_end: Callable[[CodeType, FrameType], None]
    on_line: Callable[[FrameType, int], None]
    on_failure: Callable[[str], None]
    is_ours: Callable[[str], bool]
    quiet: Collection[int]
    takes: Takes = field(default_factory=dict)


class Source(Protocol):
    """Where events come from. Methods may be called from any thread, handlers included.

    Guarantees: no lock is taken in a callback; what is armed works at once in running frames,
    suspended generators and the frame that is stopped in a handler; nothing is armed after `close`,
    and nothing in a forked child.

    Differences: a loop written on one line passes once with `sys.monitoring`, once per round with
    `sys.settrace`. An exception that leaves a handler blinds `sys.settrace` on its thread until the
    next call or return there; at the recursion limit, or when a signal handler raises as a handler
    begins, until `refresh`. While raises are told, an exception that is raised in the last frame
    below the recursion limit becomes a RecursionError.
    """

    @property
    def engine(self) -> dict[str, str]:
        """As `engine()`, with what was found here."""

    def discover(self, wanted: bool) -> None:
        """Whether `on_code` and `on_module_end` are called.

        Running code is offered first, on the calling thread.

        Raises:
            SourceUnavailable: Someone else's tracer came meanwhile (3.11). What was asked for stays
                wanted: `refresh` tries again.
        """

    def watch_lines(
        self, code: CodeType, lines: frozenset[int], file: str | None = None
    ) -> frozenset[int]:
        """Replace the watched lines of a code object; empty disarms.

        Args:
            code: The code object that holds the lines.
            lines: Others than its own are ignored: a line event costs more, the farther it is from
                the first line of its code object, so nothing may be armed in vain.
            file: Where the source is, when `co_filename` is stale.

        Returns:
            The lines that are watched now.

        Raises:
            SourceUnavailable: This code object can't be armed (made by C), or as `discover`.
        """

    def ran(self, code: CodeType) -> set[int]:
        """The other lines of a code object that ran since its lines are watched as they are now.

        The set goes on growing until `watch_lines` is called again. What evaluations run is left
        out.
        """

    def record_calls(self, code: CodeType, on_start: OnStart, on_end: OnEnd) -> None:
        """Tell calls from their start to their return or to the exception that leaves them.

        Yields and resumptions are no calls. Calls that run already are not told, and neither is the
        end of a generator that 3.13 closes without running it.

        Raises:
            SourceUnavailable: As `watch_lines`.
        """

    def stop_recording(self, code: CodeType) -> None:
        """Tell no more calls; the ends of those under way are not told."""

    def watch_raises(self, raises: Raises | None) -> None:
        """Tell exceptions that are raised, in Python or C; None: no more.

        Not told: what is raised again as it is (`raise`, `finally`), and the ends of `for` loops.

        Raises:
            SourceUnavailable: As `discover`.
        """

    def follow(self, ident: int, trail: Trail | None) -> None:
        """Replace what is told of a thread, from its next event on; None: nothing.

        Costs calls and other threads nothing with `sys.monitoring`; with `sys.settrace` every call
        while any thread has a trail.

        Raises:
            SourceUnavailable: As `watch_lines`; nothing is told then.
        """

    def refresh(self) -> bool:
        """Arm again where a program removed us (3.11); cheap, meant for the start of a test.

        Returns:
            Whether we were removed somewhere: events since then are lost.

        Raises:
            SourceUnavailable: Someone else traces now.
        """

    def close(self) -> None:
        """Leave no trace: nothing armed, registered or claimed. Idempotent."""

    def forget(self) -> None:
        """`close` in a forked child. Sources call it themselves."""


def source_class() -> Callable[[Handlers], Source]:
    """That of this Python version, imported when it is first asked for."""
    if sys.version_info >= (3, 12):
        from pytest_cideldill.tracing.sysmon import MonitoringSource

        return MonitoringSource
    from pytest_cideldill.tracing.settrace import TracingSource

    return TracingSource


def open_source(handlers: Handlers) -> Source:
    """The event source of this Python version, with nothing armed.

    Raises:
        SourceUnavailable: All tool ids are taken (3.12+), or someone else traces (3.11).
    """
    source = source_class()(handlers)
    at_fork(after_in_child=_if_alive(source, attrgetter("forget")))
    # While the interpreter ends finalizers run code of the program, and ours is gone by then.
    at_exit("watching", _if_alive(source, attrgetter("close")))
    return source


def _if_alive(
    source: Source, method: Callable[[Source], Callable[[], object]]
) -> Callable[[], None]:
    """Calls a method; hooks that can't be removed let a closed source go by a weak reference."""
    reference = weakref.ref(source)

    def call() -> None:
        source = reference()
        if source is not None:
            method(source)()

    return call


# --- what exists already ------------------------------------------------------------------------

_frozen = Frozen()


def existing_functions() -> list[FunctionType]:
    """All Python functions the garbage collector knows (1 ms per 16,000 objects), or has frozen.

    A swapped one still carries its trampoline: `code_swap.original_code`.
    """
    # By type identity: isinstance would run a user's __class__ property.
    found = [each for each in gc.get_objects() if type(each) is FunctionType]
    return found + _frozen.beside(found)


def existing_code() -> list[tuple[CodeType, str]]:
    """The code of all functions, suspended generators and coroutines, each once, and its file."""
    found: dict[int, tuple[CodeType, str]] = {}
    # Not in a new list: the collector has that as well, and it would hold itself and all others.
    for each in chain(_frozen.beside([]), gc.get_objects()):
        code, names = _code_of(each)
        if type(code) is CodeType:
            code = original_code(code)
            found[id(code)] = (code, file_of(code, names))
    return list(found.values())


def _code_of(each: Any) -> tuple[object, Any]:
    """Code and globals of an object that has any."""
    kind, frame = type(each), None
    if kind is FunctionType:
        return code_of(each), each.__globals__
    code: object = None
    if kind is GeneratorType:
        code, frame = each.gi_code, each.gi_frame
    elif kind is CoroutineType:
        code, frame = each.cr_code, each.cr_frame
    elif kind is AsyncGeneratorType:
        code, frame = each.ag_code, each.ag_frame
    return code, {} if frame is None else frame.f_globals


class Seen:
    """Which code objects were seen, without keeping them alive.

    Keyed by id: hashing a code object walks its bytecode.
    """

    __slots__ = ("ids",)

    def __init__(self) -> None:
        self.ids: dict[int, weakref.ref[CodeType]] = {}

    def is_new(self, code: CodeType) -> bool:
        """Whether `code` was not asked about before."""
        key = id(code)
        references = self.ids
        if key in references:
            return False
        references[key] = weakref.ref(code, lambda _: references.pop(key, None))
        return True
