"""The interface of event sources, the same for every Python version.

Runs in the process under test: handlers are called on the thread of the program, all other
functions on the thread that binds breakpoints. Must not know what an event means to its consumer.
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


class SourceUnavailable(Exception):
    """There can be no events here; the message is a sentence that names the cause."""


class Deliberate(Exception):
    """A handler raises it to raise `error` in the program, at the place of the event.

    Without it, an exception that starts in a handler is taken for a bug of ours and swallowed.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class Watch(Enum):
    """The further events of a code object that a consumer wants."""

    NOTHING = "nothing"
    END = "end"
    """Each time it returns: for `<module>` code, whose functions exist then."""


OnStart = Callable[[FrameType, Mapping[str, Any]], object]
"""`on_start(frame, locals) -> token`; the locals are good until it returns.

If the token is None, this call is not recorded and `on_end` is not called."""

OnEnd = Callable[[object, FrameType, object, BaseException | None], None]
"""`on_end(token, frame, result, error)`; `error` leaves the call, or is None if it returned."""


@dataclass(frozen=True, slots=True)
class Raises:
    """The handler for raised exceptions, and the choice of exceptions; runs no program code.

    Attributes:
        wants: Whether a class is of interest. Called for every exception that is raised anywhere,
            so it must be fast.
        in_file: Whether the file of a frame is of interest, as `code_files.frame_file` gives it.
        on_raise: `(frame, error, traceback)`, once for each frame that an exception passes, from
            the one where it was raised outwards. The traceback begins at that frame.
    """

    wants: Callable[[type], object]
    in_file: Callable[[str], bool]
    on_raise: Callable[[FrameType, BaseException, TracebackType], None]


Takes = dict[int, dict[int, tuple[frozenset[int], Callable[[FrameType], None]]]]
"""id(code) → line → the offsets that begin no new pass (`passes.repeats`), the function to call."""


@dataclass(frozen=True, slots=True)
class Handlers:
    """The handlers of a source's consumer; called on the thread of the program.

    An exception that starts in a handler, or below it in the standard library, disarms the line or
    call and is reported once through `on_failure`. All other exceptions pass into the program:
    Ctrl-C, those of signal handlers, and those that a handler (not `on_code`) wraps in
    `Deliberate`.

    Attributes:
        on_code: `(code, frame)`: a code object that starts or runs while `Source.discover` is on.
            At least once for each, when it starts before its first line; must be idempotent.
        on_module_end: `(code, frame)`: code for which `on_code` answered `Watch.END` returned.
        on_line: `(frame, line)`: a watched line is about to run. Once per pass over its statement.
        on_failure: Called with a sentence about a failure of ours, on any thread.
        is_ours: Whether a `co_filename` belongs to the consumer. This package always does.
        quiet: Idents of threads whose events are ignored now, as they evaluate.
        takes: Functions that are called instead of `on_line`. The consumer changes the table.
    """

    on_code: Callable[[CodeType, FrameType], Watch]
    on_module_end: Callable[[CodeType, FrameType], None]
    on_line: Callable[[FrameType, int], None]
    on_failure: Callable[[str], None]
    is_ours: Callable[[str], bool]
    quiet: Collection[int]
    takes: Takes = field(default_factory=dict)


# --- trails: threads that are followed -----------------------------------------------------------


class Left(Enum):
    """A way to leave a frame."""

    RETURN = "returns"
    YIELD = "hands out an item"
    AWAIT = "waits; something else runs until it goes on"
    UNWIND = "an exception leaves it"


def _ignore(*_: object) -> None:
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Trail:
    """The wanted events of one thread, until it is replaced; handlers may replace it.

    Attributes:
        frame: The frame whose lines and end are wanted.
        lines: Whether its lines are wanted, once per pass over a statement.
        only: If given, the only line that is wanted.
        starts: Whether it is wanted that any frame starts or goes on.
        anywhere: Whether lines of all frames are wanted, and some places between lines.
        on_line: `(frame, line)`: a line is about to run. As `Handlers.on_line`.
        on_start: `(frame)`: a frame starts or goes on.
        on_leave: `(frame, left)`: the frame is left.
    """

    frame: FrameType | None = None
    lines: bool = False
    only: int | None = None
    starts: bool = False
    anywhere: bool = False
    on_line: Callable[[FrameType, int], None] = _ignore
    on_start: Callable[[FrameType], None] = _ignore
    on_leave: Callable[[FrameType, Left], None] = _ignore


REST = Trail()
"""The trail of a thread that stands still: no event is wanted, but the thread stays armed."""


# --- sources ------------------------------------------------------------------------------------


class Source(Protocol):
    """A source of events. Methods may be called from any thread, also in handlers.

    Guarantees: no callback takes a lock; a line or call that is armed gives events at once, also in
    running frames, in suspended generators and in a frame that a handler has stopped; nothing is
    armed after `close`, and nothing in a forked child.

    Differences: a loop written on one line passes once with `sys.monitoring`, once per round with
    `sys.settrace`. After an exception leaves a handler, `sys.settrace` gives no events on that
    thread until the next call or return there; if that was at the recursion limit, or if a signal
    handler raised it as a handler began, until `refresh`. While raises are watched, an exception
    that is raised in the last frame below the recursion limit becomes a RecursionError.
    """

    @property
    def engine(self) -> dict[str, str]:
        """The result of `engine()`, with the tool ids of this source."""

    def discover(self, wanted: bool) -> None:
        """Set whether `on_code` and `on_module_end` are called.

        They are called for running code first, on the calling thread.

        Raises:
            SourceUnavailable: Another tool's tracer came meanwhile (3.11). The request stays
                noted, and `refresh` tries again.
        """

    def watch_lines(
        self, code: CodeType, lines: frozenset[int], file: str | None = None
    ) -> frozenset[int]:
        """Replace the watched lines of a code object; empty disarms.

        Args:
            code: The code object that holds the lines.
            lines: Lines that the code object does not have are ignored. A line event costs more,
                the farther it is from the first line of its code object, so no line is armed in
                vain.
            file: The path of the source, where `co_filename` is stale.

        Returns:
            The lines that are watched now.

        Raises:
            SourceUnavailable: This code object can't be armed (C code made it), or as `discover`.
        """

    def ran(self, code: CodeType) -> set[int]:
        """The unwatched lines of a code object that ran since the last `watch_lines` for it.

        The set goes on growing until `watch_lines` is called again. Lines that evaluations run are
        left out.
        """

    def record_calls(self, code: CodeType, on_start: OnStart, on_end: OnEnd) -> None:
        """Record calls, from their start to their return or to the exception that leaves them.

        Yields and resumptions are no calls. Calls that run already are not recorded, and neither is
        the end of a generator that 3.13 closes without running it.

        Raises:
            SourceUnavailable: As `watch_lines`.
        """

    def stop_recording(self, code: CodeType) -> None:
        """Record no more calls; the ends of running calls are not recorded."""

    def watch_raises(self, raises: Raises | None) -> None:
        """Watch exceptions that are raised, in Python or C; None ends it.

        Exceptions that are raised again unchanged (`raise`, `finally`) and the ends of `for` loops
        give no events.

        Raises:
            SourceUnavailable: As `discover`.
        """

    def follow(self, ident: int, trail: Trail | None) -> None:
        """Replace the trail of a thread, from its next event on; None removes it.

        Costs calls and other threads nothing with `sys.monitoring`; with `sys.settrace` every call
        while any thread has a trail.

        Raises:
            SourceUnavailable: As `watch_lines`; then the thread has no trail.
        """

    def refresh(self) -> bool:
        """Arm again where a program removed us (3.11); cheap enough for the start of each test.

        Returns:
            Whether a thread had lost us: its events since then are lost.

        Raises:
            SourceUnavailable: Another tool traces now.
        """

    def close(self) -> None:
        """Disarm, unregister and release everything. Idempotent."""

    def forget(self) -> None:
        """Do the work of `close` in a forked child. Sources call it themselves."""


def source_class() -> Callable[[Handlers], Source]:
    """The class of sources of this Python version, imported at the first call."""
    if sys.version_info >= (3, 12):
        from pytest_cideldill.tracing.sysmon import MonitoringSource

        return MonitoringSource
    from pytest_cideldill.tracing.settrace import TracingSource

    return TracingSource


def open_source(handlers: Handlers) -> Source:
    """The event source of this Python version, with nothing armed.

    Raises:
        SourceUnavailable: All tool ids are taken (3.12+), or another tool traces (3.11).
    """
    source = source_class()(handlers)
    at_fork(after_in_child=_if_alive(source, attrgetter("forget")))
    # While the interpreter ends, finalizers run code of the program, but our code is gone by then.
    at_exit("watching", _if_alive(source, attrgetter("close")))
    return source


def _if_alive(
    source: Source, method: Callable[[Source], Callable[[], object]]
) -> Callable[[], None]:
    """A function that calls a method by a weak reference, for hooks that can't be removed."""
    reference = weakref.ref(source)

    def call() -> None:
        source = reference()
        if source is not None:
            method(source)()

    return call


# --- code that exists already -------------------------------------------------------------------

_frozen = Frozen()


def existing_functions() -> list[FunctionType]:
    """All Python functions the garbage collector knows (1 ms per 16,000 objects), or has frozen.

    A swapped one still carries its trampoline: `code_swap.original_code`.
    """
    # By type identity: isinstance would run a user's __class__ property.
    functions = [each for each in gc.get_objects() if type(each) is FunctionType]
    return functions + _frozen.beside(functions)


def existing_code() -> list[tuple[CodeType, str]]:
    """The code of all functions, suspended generators and coroutines, each once, and its file."""
    found: dict[int, tuple[CodeType, str]] = {}
    # Not collected in a new list: the collector would return that list as well, with all objects.
    for each in chain(_frozen.beside([]), gc.get_objects()):
        code, names = _code_of(each)
        if type(code) is CodeType:
            code = original_code(code)
            found[id(code)] = (code, file_of(code, names))
    return list(found.values())


def _code_of(each: Any) -> tuple[object, Any]:
    """The code and globals of an object, if it has any."""
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
    """The code objects that were seen; they are not kept alive.

    They are keyed by id, as hashing a code object walks its bytecode.
    """

    __slots__ = ("ids",)

    def __init__(self) -> None:
        self.ids: dict[int, weakref.ref[CodeType]] = {}

    def is_new(self, code: CodeType) -> bool:
        """Whether this is the first call for `code`."""
        key = id(code)
        references = self.ids
        if key in references:
            return False
        references[key] = weakref.ref(code, lambda _: references.pop(key, None))
        return True
