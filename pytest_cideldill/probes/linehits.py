"""What happens when a watched line is passed: count, condition, multiple, limit, message or stop.

Replies rely on that order. `Watcher.passed` is the hot path: it runs on every thread
of the program, takes no lock, and leaves a tuple behind.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable
from dataclasses import replace
from types import CodeType, FrameType
from typing import Final

from pytest_cideldill.evaluation.messages import MAX_TEXT, RenderedMessage
from pytest_cideldill.evaluation.time_limit import Overtime
from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.link.position import Position
from pytest_cideldill.probes.conditions import ConditionFailure, Judge, judging
from pytest_cideldill.probes.counting import MANY, Counter, Watching
from pytest_cideldill.probes.reached import Reach
from pytest_cideldill.project import Project
from pytest_cideldill.protocol import AddLine
from pytest_cideldill.protocol.rows import HitFormat, RowSink
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.sourcecode.codes import CodeKey
from pytest_cideldill.sourcecode.condition import compile_condition
from pytest_cideldill.sourcecode.template import parse_template

_args_of: Final = BaseException.__dict__["args"].__get__


@dataclass(frozen=True, slots=True)
class LineBreakpoint:
    """A breakpoint or tracepoint on a line, as it was asked for.

    Attributes:
        id: `bp-1`, `tp-2`.
        file: Absolute real path.
        line: 1-based.
        key: Which code object of the file holds the line.
        condition: An expression; only passes where it holds count further.
        hit_count: A breakpoint stops, a tracepoint tells, from this pass on.
        message: The template of a tracepoint; None: it stops.
        multiple: A tracepoint tells the passes whose number is a multiple of it; 0: every pass.
        max_notifications: After so many a tracepoint is done; 0: never.
        enabled: Whether it watches.
    """

    id: str
    file: str
    line: int
    key: CodeKey
    condition: str | None = None
    hit_count: int = 1
    message: str | None = None
    multiple: int = 0
    max_notifications: int = 0
    enabled: bool = True

    @property
    def chooses(self) -> bool:
        """Whether only some of its passes are for it, told by their numbers."""
        return self.hit_count > 1 or self.multiple > 1

    @property
    def tells_all(self) -> bool:
        """Whether each pass is a message."""
        return not (self.condition or self.chooses or self.max_notifications)


def line_breakpoint(command: AddLine, project: Project) -> LineBreakpoint:
    """What a command asks for."""
    fields = {each: getattr(command, each) for each in LineBreakpoint.__slots__}
    file, key = project.here(command.file), CodeKey.from_plain(command.key)
    return LineBreakpoint(**fields | {"file": file, "key": key})


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What watchers work with.

    Attributes:
        lens: Shows values.
        overtime: Limits what expressions may take.
        position: Tells the test.
        rows: Take one per message.
        stop: Parks the thread: `(probe, frame, pass number, pause_reason)`.
    """

    lens: Lens
    overtime: Overtime
    position: Position
    rows: RowSink
    stop: Callable[[Probe, FrameType, int, str], None]

    def format_number(self, asked: LineBreakpoint, *, condition_error: bool = False) -> int:
        """The number, in the rows of a watcher, of the format of its hits."""
        location = {
            "file": self.lens.project.relative(asked.file),
            "line": asked.line,
            "function": asked.key.qualname,
        }
        hit_format = HitFormat(asked.id, location, self.lens.text, condition_error)
        return self.rows.number(hit_format)


class Probe:
    """A line breakpoint in this process, with its counters.

    Attributes:
        asked: What the client wants.
        passes: How often the line was passed while watched; not after its last message.
        notices: The messages that were due since it was enabled, those beyond the limit as well;
            of a tracepoint that tells all nobody counts them, they are its passes.
        held: How often its condition held at a pass that its numbers left out.
        reach: How near the program came to the line.
        was_hit: Whether it stopped, or told a message before it was enabled again.
        watching: In how much of the run it was enabled.
        condition_errors: How often its condition raised.
        last_condition_error: What it raised last, as `Type: message`; it may hold secrets.

    Raises:
        ValueError: The condition or the template is malformed.
    """

    __slots__ = (
        "_passes_before",
        "asked",
        "condition_errors",
        "held",
        "last_condition_error",
        "notices",
        "passes",
        "reach",
        "template",
        "was_hit",
        "watching",
    )

    def __init__(self, asked: LineBreakpoint, *, from_start: bool = True) -> None:
        self.template = None if asked.message is None else parse_template(asked.message)
        if asked.condition:
            compile_condition(asked.condition)
        self.asked = asked
        self.passes = Counter()
        self.notices = Counter()
        self._passes_before = 0
        self.held = Counter()
        self.reach = Reach()
        self.was_hit = False
        self.watching = Watching(asked.enabled, from_start=from_start)
        self.condition_errors = Counter()
        self.last_condition_error: str | None = None

    def enable(self, enabled: bool) -> None:
        """Watch or rest; enabling begins a new count of messages."""
        self.asked = replace(self.asked, enabled=enabled)
        self.watching.change(enabled)
        if enabled:
            self.was_hit = self.is_hit
            self.notices = Counter()
            self._passes_before = self.passes.value

    @property
    def is_hit(self) -> bool:
        """Whether it has stopped or told anything; its condition that raised is told too."""
        return self.was_hit or bool(self.sent or self.condition_errors.value)

    @property
    def limit(self) -> int:
        """How many messages may be told."""
        return self.asked.max_notifications or len(MANY)

    @property
    def sent(self) -> int:
        """How many messages were told since it was enabled."""
        if self.template is not None and self.asked.tells_all:
            return self.passes.value - self._passes_before
        return min(self.notices.value, self.limit)

    @property
    def is_watching(self) -> bool:
        """Whether its line is to be armed."""
        return self.asked.enabled and self.sent < self.limit

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
        probe: The probe.
        passed: `passed(frame)`: the line is about to run.

    Raises:
        ValueError: Its expressions can't be compiled.
    """

    __slots__ = ("passed", "probe")

    def __init__(self, probe: Probe, code: CodeType, surroundings: Surroundings) -> None:
        self.probe = probe
        self.passed: Callable[[FrameType], None]
        judge = None
        if probe.asked.condition:
            judge = judging(probe.asked.condition, code, surroundings.overtime)
        if probe.template is None:
            self.passed = _stopping(probe, judge, surroundings)
        else:
            message = RenderedMessage(
                probe.template, code, surroundings.lens, surroundings.overtime
            )
            self.passed = _telling(probe, judge, message, surroundings)


def taking(watchers: tuple[Watcher, ...]) -> Callable[[FrameType], None]:
    """What is called when the line of these is passed."""
    if len(watchers) == 1:
        return watchers[0].passed

    def passed(frame: FrameType) -> None:
        __tracebackhide__ = True
        for watcher in watchers:
            watcher.passed(frame)

    return passed


def _stopping(
    probe: Probe, judge: Judge | None, surroundings: Surroundings
) -> Callable[[FrameType], None]:
    """The hot path of a breakpoint."""
    next_pass, stop, hit_count = probe.passes.next, surroundings.stop, probe.asked.hit_count
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


def _telling(
    probe: Probe, judge: Judge | None, message: RenderedMessage, surroundings: Surroundings
) -> Callable[[FrameType], None]:
    """The hot path of a tracepoint."""
    format, position = surroundings.format_number(probe.asked), surroundings.position
    failed = surroundings.format_number(probe.asked, condition_error=True)
    cut, now, render = surroundings.lens.text, clock.ticking(), message.text
    add = surroundings.rows.add
    next_pass, next_held, limit = probe.passes.next, probe.held.next, probe.limit
    first, multiple = probe.asked.hit_count, probe.asked.multiple or 1
    chooses, tells_all = probe.asked.chooses, probe.asked.tells_all

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
        if chooses and (number < first or number % multiple):
            if judge is not None:
                next_held()
            return
        if not tells_all and probe.notices.next() > limit:
            return
        text = render(frame)
        if len(text) > MAX_TEXT:
            text = cut(text, MAX_TEXT)
        add((format, now(), position.nodeid, get_ident(), number, text))

    def passed_until_done(frame: FrameType) -> None:
        __tracebackhide__ = True
        if probe.notices.value < limit:  # else it is off, and disarmed in a moment
            passed(frame)

    return passed_until_done if probe.asked.max_notifications else passed


def _is_first(probe: Probe, failure: ConditionFailure) -> bool:
    """Whether the condition of `probe` never raised before; later it just does not hold."""
    probe.last_condition_error = failure.text
    return probe.condition_errors.next() == 1
