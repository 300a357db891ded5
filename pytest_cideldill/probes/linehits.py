"""A pass of a watched line: count, condition, multiple, limit, then a message or a stop.

That order is part of the interface. `Watcher.passed` is the hot path: it runs on every thread of
the program, takes no lock, and appends a tuple.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import CodeType, FrameType

from pytest_cideldill.evaluation.messages import MAX_TEXT, RenderedMessage
from pytest_cideldill.evaluation.time_limit import Overtime
from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.probes.conditions import ConditionFailure, Judge, judging
from pytest_cideldill.probes.counting import MANY, Counter, Watching
from pytest_cideldill.protocol import AddLine, AddTrace
from pytest_cideldill.protocol.current_test_file import Position
from pytest_cideldill.protocol.rows import HitFormat, RowSink
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.sourcecode.codes import CodeKey
from pytest_cideldill.sourcecode.quiet import compile_condition
from pytest_cideldill.sourcecode.template import parse_template


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What watchers work with.

    Attributes:
        stop: Parks the thread: `(probe, frame, pass number, pause_reason)`.
    """

    lens: Lens
    overtime: Overtime
    position: Position
    rows: RowSink
    stop: Callable[[LineProbe, FrameType, int, str], None]


class LineProbe:
    """A line breakpoint in this process, with its counters.

    Attributes:
        spec: The command that set it; its file is an absolute real path of this machine.
        key: Which code object of the file holds the line.
        passes: How often the line was passed while watched; not after its last message.
        notices: The messages that were due since it was enabled, those beyond the limit included;
            not counted for a tracepoint that logs all passes: they are its passes.
        held: How often its condition held at a pass that its numbers left out.
        stretches: Of all code that has the line, while it was watched.
        is_absent: Whether what was loaded is known to have no such line.
        was_hit: Whether it stopped, or logged a message before it was enabled again.
        watching: In how much of the run it was enabled.
        condition_errors: How often its condition raised.
        last_condition_error: What it raised last, as `Type: message`; it may hold secrets.

    Raises:
        ValueError: The condition or the template is malformed.
    """

    __slots__ = (
        "_passes_before",
        "condition_errors",
        "held",
        "is_absent",
        "key",
        "last_condition_error",
        "notices",
        "passes",
        "spec",
        "stretches",
        "template",
        "was_hit",
        "watching",
    )

    def __init__(self, spec: AddLine, *, from_start: bool = True) -> None:
        self.template = None if spec.message is None else parse_template(spec.message)
        if spec.condition:
            compile_condition(spec.condition)
        self.spec = spec
        self.key = CodeKey.from_plain(spec.key)
        self.passes = Counter()
        self.notices = Counter()
        self._passes_before = 0
        self.held = Counter()
        self.stretches: list[LineStretch] = []
        self.is_absent = False
        self.was_hit = False
        self.watching = Watching(spec.enabled, from_start=from_start)
        self.condition_errors = Counter()
        self.last_condition_error: str | None = None

    def enable(self, enabled: bool) -> None:
        """Switch it on or off; switching it on begins a new count of messages."""
        self.spec = replace(self.spec, enabled=enabled)
        self.watching.change(enabled)
        if enabled:
            self.was_hit = self.is_hit
            self.notices = Counter()
            self._passes_before = self.passes.value

    @property
    def is_hit(self) -> bool:
        """Whether it has stopped or logged anything, be it that its condition raised."""
        return self.was_hit or bool(self.sent or self.condition_errors.value)

    @property
    def limit(self) -> int:
        """How many messages may be logged."""
        return self.spec.max_notifications or len(MANY)

    @property
    def logs_some_passes(self) -> bool:
        """Whether a tracepoint logs a pass by its number, and not every one."""
        return self.spec.hit_count > 1 or self.spec.multiple > 1

    @property
    def logs_all_passes(self) -> bool:
        """Whether each pass of a tracepoint is a message."""
        spec = self.spec
        return not (spec.condition or self.logs_some_passes or spec.max_notifications)

    @property
    def sent(self) -> int:
        """How many messages were logged since it was enabled."""
        if self.template is not None and self.logs_all_passes:
            return self.passes.value - self._passes_before
        return min(self.notices.value, self.limit)

    @property
    def is_watching(self) -> bool:
        """Whether its line is to be armed."""
        return self.spec.enabled and self.sent < self.limit

    @property
    def nearest(self) -> int | None:
        """The line that ran and is nearest to its own; None: its code never ran."""
        ran = {line for stretch in self.stretches for line in stretch.lines}
        own = self.spec.line
        return min(ran, key=lambda line: (abs(line - own), line), default=None)

    def counts(self, lens: Lens) -> dict[str, object]:
        """For `protocol.LinesPassed`."""
        error = self.last_condition_error
        return {
            "passes": self.passes.value,
            "condition_errors": self.condition_errors.value,
            "last_condition_error": None if error is None else lens.text(error, MAX_TEXT),
        }


class Watcher:
    """A probe at one code object.

    Attributes:
        passed: `passed(frame)`: the line is about to run.

    Raises:
        ValueError: Its expressions can't be compiled.
    """

    __slots__ = ("passed", "probe")

    def __init__(self, probe: LineProbe, code: CodeType, surroundings: Surroundings) -> None:
        self.probe = probe
        judge = None
        if probe.spec.condition:
            judge = judging(probe.spec.condition, code, surroundings.overtime)
        if probe.template is None:
            self.passed = _stopping(probe, judge, surroundings)
        else:
            message = RenderedMessage(
                probe.template, code, surroundings.lens, surroundings.overtime
            )
            self.passed = _logging(probe, judge, message, surroundings)


def taking(watchers: tuple[Watcher, ...]) -> Callable[[FrameType], None]:
    """One callable for all watchers of a line, in their order."""
    if len(watchers) == 1:
        return watchers[0].passed

    def passed(frame: FrameType) -> None:
        __tracebackhide__ = True
        for watcher in watchers:
            watcher.passed(frame)

    return passed


def _stopping(
    probe: LineProbe, judge: Judge | None, surroundings: Surroundings
) -> Callable[[FrameType], None]:
    """The hot path of a breakpoint."""
    next_pass, stop, hit_count = probe.passes.next, surroundings.stop, probe.spec.hit_count
    next_held = probe.held.next

    def passed(frame: FrameType) -> None:
        __tracebackhide__ = True
        number = next_pass()
        if judge is not None:
            verdict = judge(frame)
            if verdict is False:
                return
            if verdict is not True:
                if type(verdict) is ConditionFailure and _is_first(probe, verdict):
                    stop(probe, frame, number, "condition_error")
                return
        if number >= hit_count:
            probe.was_hit = True
            stop(probe, frame, number, "breakpoint")
        elif judge is not None:
            next_held()

    return passed


def _logging(
    probe: LineProbe, judge: Judge | None, message: RenderedMessage, surroundings: Surroundings
) -> Callable[[FrameType], None]:
    """The hot path of a tracepoint."""
    lens, position, rows = surroundings.lens, surroundings.position, surroundings.rows
    logged, failed = register_hits(rows, lens, probe.spec, probe.key.qualname)
    cut, now, render, add = lens.text, clock.ticking(), message.text, rows.add
    next_pass, next_held, limit = probe.passes.next, probe.held.next, probe.limit
    first, multiple = probe.spec.hit_count, probe.spec.multiple or 1
    logs_some, logs_all = probe.logs_some_passes, probe.logs_all_passes

    def passed(frame: FrameType) -> None:
        __tracebackhide__ = True
        number = next_pass()
        if judge is not None:
            verdict = judge(frame)
            if verdict is not True:
                if type(verdict) is ConditionFailure and _is_first(probe, verdict):
                    text = cut(f"<condition error: {verdict.text}>", MAX_TEXT)
                    # It counts for no limit.
                    add((failed, now(), position.nodeid, get_ident(), number, text))
                return
        if logs_some and (number < first or number % multiple):
            if judge is not None:
                next_held()
            return
        if not logs_all and probe.notices.next() > limit:
            return
        text = render(frame)
        if len(text) > MAX_TEXT:
            text = cut(text, MAX_TEXT)
        add((logged, now(), position.nodeid, get_ident(), number, text))

    def passed_until_done(frame: FrameType) -> None:
        __tracebackhide__ = True
        if probe.notices.value < limit:  # else it is off, and disarmed in a moment
            passed(frame)

    return passed_until_done if probe.spec.max_notifications else passed


def register_hits(
    rows: RowSink, lens: Lens, spec: AddLine | AddTrace, function: str
) -> tuple[int, int]:
    """Register how rows of a tracepoint become events of type `hit`.

    Returns:
        The numbers with which they begin: its messages, and where its condition raised.
    """
    location = {"file": lens.project.relative(spec.file), "line": spec.line, "function": function}
    logged, failed = (
        rows.number(HitFormat(spec.id, location, lens.text, is_error, lens.redactor.is_plain))
        for is_error in (False, True)
    )
    return logged, failed


def _is_first(probe: LineProbe, failure: ConditionFailure) -> bool:
    """Whether the condition of `probe` never raised before; later it just does not hold."""
    probe.last_condition_error = failure.text
    return probe.condition_errors.next() == 1


class LineStretch:
    """A code object from one arming of its lines to the next: which of its lines ran meanwhile.

    The event source reports each line that is not watched once, which costs nothing later; lines
    that are watched have counts of passes. Read when the run is over.

    Args:
        ran: The other lines that run; grows.
        watched: The lines that are watched, each with a counter of its passes.
    """

    __slots__ = ("_passed", "_ran", "_watched")

    def __init__(self, ran: set[int], watched: Iterable[tuple[int, Counter]]) -> None:
        self._ran = ran
        self._passed: set[int] = set()
        self._watched = {passes: (line, passes.value) for line, passes in watched}

    def covers(self, watched: Iterable[tuple[int, Counter]]) -> bool:
        """Whether it began with all these."""
        return all(passes in self._watched for _, passes in watched)

    def end(self) -> None:
        """End it: later passes do not belong to it."""
        self._passed = self._passed_now()
        self._watched = {}

    @property
    def lines(self) -> set[int]:
        """The lines that ran."""
        return self._ran | self._passed_now()

    def _passed_now(self) -> set[int]:
        passed = {line for passes, (line, n) in self._watched.items() if passes.value > n}
        return self._passed | passed
