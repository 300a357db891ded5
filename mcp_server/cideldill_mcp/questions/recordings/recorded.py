"""What a question's process saw: its tests, their calls, the lines of one call.

The columns of the rows are explained in `pytest_cideldill.protocol.trace_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pytest_cideldill.protocol.trace_rows import Row

BODIES: Final = frozenset({"module", "class"})
"""Kinds of code that run when something is defined."""

FAILED: Final = "failed"

_UNUSUAL: Final = frozenset({"skipped", "xfailed", "xpassed"})


@dataclass(slots=True)
class Code:
    """A code object: a function, or the body of a module or a class.

    Attributes:
        number: Its number in the file.
        module: Dotted name of the module.
        qualname: `co_qualname`.
        file: Relative to the rootdir, absolute outside of it.
        first: First line, with decorators.
        last: Last line.
        kind: `function`, `generator`, `coroutine`, `async_generator`, `module`, `class`.
    """

    number: int
    module: str
    qualname: str
    file: str
    first: int
    last: int
    kind: str
    name: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self.name = self.qualname.replace(".<locals>", "")

    @property
    def dotted(self) -> str:
        """The name to ask for it, as `breakpoint_add` takes it."""
        if self.module and all(part.isidentifier() for part in self.module.split(".")):
            return f"{self.module}.{self.name}"
        return f"{self.file}::{self.name}"

    @property
    def place(self) -> str:
        """`file:line` of its definition."""
        return f"{self.file}:{self.first}"


@dataclass(slots=True, eq=False)
class Call:
    """A call of user code.

    Attributes:
        number: In the order of the program, from 1.
        parent: The call that it came from; of one that was not recorded its code alone.
        code: What was called.
        ordinal: The how-manieth call of this code in the test.
        line: The line of the parent.
        thread: Name of the thread; empty for the main one.
        args: `[name, text]` of each argument.
        via: The library modules between it and its parent.
        children: The calls that came from it, in order.
        result: What it returned.
        error: The exception that left it.
        moves: `yield`, `wait` and `resume` with their texts, in order; the first ones.
        parts: How many there were, if not all are in `moves`.
        library: Functions of libraries that it called, with counts.
        begun_at: When it began: so many beginnings and ends were before.
        ended_at: When it ended; 0: it has not.
        begun: State of each argument when it began, by name; of those whose text is not all.
        ended: Those that were others at its end; `return`: of the result.
        explained: What was called in it, directly or not, to explain a failed assertion: these have
            no calls here, but these names, with counts.
        is_end_lost: Whether it has ended all the same: its test has.
        is_beyond: Whether it began beyond the limit of calls: those inside of it may be missing.
    """

    number: int
    parent: Call | None
    code: Code
    ordinal: int
    line: int
    thread: str
    args: list[list[str]]
    via: str
    children: list[Call] = field(default_factory=list)
    result: str | None = None
    error: str | None = None
    moves: list[tuple[str, str]] | None = None
    parts: int = 0
    library: list[tuple[str, int]] | None = None
    begun_at: int = 0
    ended_at: int = 0
    begun: dict[str, str] | None = None
    ended: dict[str, str] | None = None
    explained: list[tuple[str, int]] | None = None
    is_end_lost: bool = False
    is_beyond: bool = False

    @property
    def has_ended(self) -> bool:
        """Whether it returned or was left by an exception."""
        return self.result is not None or self.error is not None


Event = tuple[Any, ...]
"""`("change", name, text or None)`, `("call", Call)`, `("raise" | "yield" | "resume", text)`,
`("wait",)`, `("gap", text)`: lines are missing here."""


@dataclass(slots=True, eq=False)
class Line:
    """One pass over a line of the chosen call, and what happened in it, in order.

    Attributes:
        number: 0 for what happened before the first line.
    """

    number: int
    events: list[Event] | None = None


@dataclass(slots=True, eq=False)
class Focus:
    """The chosen call.

    Attributes:
        count: The how-manieth call of the asked function it is.
    """

    call: Call
    count: int
    lines: list[Line] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Passage:
    """A line of user code that an exception came by.

    Attributes:
        code: None where only libraries are.
        line: 0 without a code.
        library: The library function there that raised or caught it; empty if none did.
    """

    code: Code | None
    line: int
    library: str = ""

    @property
    def place(self) -> str:
        """`file:line function`."""
        return f"{self.code.file}:{self.line} {self.code.name}" if self.code is not None else ""


@dataclass(frozen=True, slots=True)
class Left:
    """What a frame had set when an exception left it, and what was still so behind the handler.

    Attributes:
        name: `self.total`.
        value: Its text.
        code: What set it.
        lines: Where; more than one if it is not certain which of them was the last.
    """

    name: str
    value: str
    code: Code
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Caught:
    """Exceptions of one class, raised at one place and caught at one place in a phase.

    Attributes:
        phase: Its name.
        text: `Type: message` of the first one.
        origin: The same of the one that it was made from in a handler; may be empty.
        raised: Where user code raised it, or called the library that did.
        place: Where it was caught.
        how: `except`, `with`, `finally`; empty: behind the last user code that it left.
        is_silent: Whether the handler does nothing about it.
        count: How many.
        last: When the last one was, a number that grows from one exception to the next.
        calls: Numbers of the first and the last call in which they were caught; 0: it has no row.
        unwound: User frames that the first one left, the inmost first.
        more: How many further ones.
        left: What these left behind.
    """

    phase: str
    text: str
    origin: str
    raised: Passage
    place: Passage
    how: str
    is_silent: bool
    count: int
    last: int
    calls: tuple[int, int]
    unwound: tuple[Passage, ...]
    more: int
    left: tuple[Left, ...]


@dataclass(slots=True, eq=False)
class Phase:
    """`setup`, `call` or `teardown` of a test.

    Attributes:
        roots: The calls of user code that came from no other.
        outcome: As pytest reports it; empty if it did not end.
        text: The first line of the failure.
        file: Its place.
        line: Its place.
        continued: Calls of an earlier phase that an exception left in this one: of fixtures.
        starts: The functions that started in it and in no phase before, in order.
        ran: The lines that ran in it and in no phase before, by function.
        frames: The functions in the traceback of its failure, the innermost first.
    """

    name: str
    roots: list[Call] = field(default_factory=list)
    continued: list[Call] = field(default_factory=list)
    starts: list[Code] = field(default_factory=list)
    ran: list[tuple[Code, set[int]]] = field(default_factory=list)
    frames: list[Code] = field(default_factory=list)
    outcome: str = ""
    text: str = ""
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame that an exception came through.

    Attributes:
        is_users: Whether its code is the user's.
    """

    file: str
    line: int
    function: str
    is_users: bool


@dataclass(frozen=True, slots=True)
class Behind:
    """An exception behind another one.

    Attributes:
        relation: `cause`, `context` or `member` (of a group).
        type: Its class.
        message: Its text.
        place: File, line and function where it was raised; None: in no code that is known.
    """

    relation: str
    type: str
    message: str
    place: tuple[str, int, str] | None


@dataclass(frozen=True, slots=True)
class Failed:
    """What failed in a phase.

    Attributes:
        phase: Its name.
        type: Of the exception.
        message: Its first line, or all of it.
        frames: The innermost first.
        locals: Name and text, of the user's innermost frame; those of the failing line first.
        op: Of the comparison that failed; empty: nothing was compared.
        left: Its left side, as text.
        right: Its right side.
        expressions: The expressions of both sides, where they are no literals.
        insides: `left` and `right` → path in it → text.
        behind: The exceptions behind it, the nearest first.
        stopped_at: The variables of a generator expression that was not read to its end, as texts.
        at: When it had failed: so many beginnings and ends of calls were before.
        raised_at: The same when the exception was raised, or a bit later: what began behind it
            followed from the failure.
    """

    phase: str
    type: str
    message: str
    frames: list[Frame]
    locals: list[tuple[str, str]]
    op: str = ""
    left: str = ""
    right: str = ""
    expressions: tuple[str, str] = ("", "")
    insides: dict[str, dict[str, str]] = field(default_factory=dict)
    behind: list[Behind] = field(default_factory=list)
    stopped_at: dict[str, str] = field(default_factory=dict)
    at: int = 0
    raised_at: int = 0


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression gave where a test failed, or at the end of its function.

    Attributes:
        text: The value, or an exception.
        is_error: Whether it is an exception.
        place: `file:line`.
    """

    text: str
    is_error: bool
    place: str


@dataclass(slots=True, eq=False)
class RecordedTest:
    """What one test did.

    Attributes:
        calls: By number.
        lines: How often lines ran, by code.
        matches: How many calls of the asked function there were; None: it did not get so far.
        applied: Number of a forced change → how often it was made, of how many calls or passes.
        values: Of expressions.
        watched: The rows of a watch, in order, with the phase in which each came.
        failed: What failed first.
        failed_behind: Phase, type and message of what failed behind it: subtests, its teardown.
        caught: Exceptions that were caught.
    """

    nodeid: str
    phases: list[Phase] = field(default_factory=list)
    calls: dict[int, Call] = field(default_factory=dict)
    focus: Focus | None = None
    lines: list[tuple[Code, dict[int, int]]] = field(default_factory=list)
    matches: int | None = None
    applied: dict[int, tuple[int, int]] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    watched: list[tuple[str, Row]] = field(default_factory=list)
    failed: Failed | None = None
    failed_behind: list[tuple[str, str, str]] = field(default_factory=list)
    caught: list[Caught] = field(default_factory=list)

    @property
    def ran(self) -> list[tuple[Code, set[int]]]:
        """The lines that ran in any phase, by code object; none if that was not recorded."""
        return lines_in(self.phases)

    @property
    def failure(self) -> Phase | None:
        """The first phase that failed."""
        return next((phase for phase in self.phases if phase.outcome == FAILED), None)

    @property
    def unusual(self) -> Phase | None:
        """The phase that was skipped, or whose failure was expected."""
        return next((phase for phase in self.phases if phase.outcome in _UNUSUAL), None)

    @property
    def outcome(self) -> str:
        """`passed`, `failed`, `error`, `skipped`, `xfailed`, `xpassed`; or `unfinished`."""
        failure = self.failure
        if failure is not None:
            return FAILED if failure.name == "call" else "error"
        if (unusual := self.unusual) is not None:
            return unusual.outcome
        is_whole = bool(self.phases) and all(phase.outcome for phase in self.phases)
        return "passed" if is_whole else "unfinished"


@dataclass(slots=True, eq=False)
class Recorded:
    """What a question's process saw.

    Attributes:
        python: Version of its interpreter.
        rootdir: pytest's.
        tests: By node id, in order; of a test that ran again, the last time.
        codes: By number.
        test_files: Where tests are defined.
        reached: Limits of work that were reached: name and sentence.
        missing: Node ids that no test has.
        beside: Tests that are near them.
        uncollected: Files that could not be collected, with the text of the error.
        unmatched: If the asked function was not called: dotted paths of those that were.
        leaves: What is in states, by their digests: path → text.
        neighbours: Other tests that are near.
        warnings: Failures of ours, and options that were left out.
        refusal: Error code and sentence, if the question has no answer.
        has_ended: Whether the process left pytest by itself.
        unapplied: Why forced changes could not be made: their numbers, and sentences.
        unreached: Facts about the places of forced changes, by number.
        patched: Patched files that were imported; None: no such row.
        unforked: Why forks were not made, by their numbers; -1: none can be trusted.
    """

    python: str = ""
    rootdir: str = ""
    tests: dict[str, RecordedTest] = field(default_factory=dict)
    codes: dict[int, Code] = field(default_factory=dict)
    test_files: list[str] = field(default_factory=list)
    reached: list[tuple[str, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    uncollected: list[tuple[str, str]] = field(default_factory=list)
    unmatched: list[str] | None = None
    leaves: dict[str, dict[str, str]] = field(default_factory=dict)
    neighbours: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refusal: tuple[str, str] | None = None
    has_ended: bool = False
    unapplied: list[tuple[int, str]] = field(default_factory=list)
    unreached: dict[int, dict[str, Any]] = field(default_factory=dict)
    patched: list[str] | None = None
    unforked: dict[int, str] = field(default_factory=dict)

    @property
    def cut(self) -> list[str]:
        """Why nothing was recorded from some moment on; empty: all that was wanted is here."""
        return [text for limit, text in self.reached if limit in ("events", "failure")]

    @property
    def calls_cut(self) -> list[str]:
        """The same, and why no calls were."""
        return [text for limit, text in self.reached if limit in ("calls", "events", "failure")]


def lines_in(phases: Iterable[Phase]) -> list[tuple[Code, set[int]]]:
    """The lines that ran in some phases, by code object."""
    found: dict[int, tuple[Code, set[int]]] = {}
    for phase in phases:
        for code, lines in phase.ran:
            found.setdefault(code.number, (code, set()))[1].update(lines)
    return list(found.values())


def descendants(call: Call) -> Iterator[Call]:
    """A call and all that came from it, in order."""
    pending = [call]
    while pending:
        each = pending.pop()
        yield each
        pending += reversed(each.children)


def ancestors(call: Call) -> list[Call]:
    """The calls around a call, outermost first."""
    calls: list[Call] = []
    outer = call.parent
    while outer is not None:
        calls.append(outer)
        outer = outer.parent
    return calls[::-1]
