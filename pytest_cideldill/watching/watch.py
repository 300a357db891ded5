"""One watch in one test: compares at each event of user code, and knows the line that ran before.

An event comes after a line has run, and before the next one does. So what differs then was done by
the line that the thread was in: it is remembered for each thread, and after a call it is again that
of the caller. On the threads of the program; a lock is only tried, so that none of them waits.
"""

from __future__ import annotations

from _thread import allocate_lock, get_ident
from types import CodeType, FrameType
from typing import Any, Final, Protocol

from pytest_cideldill.calltraces.row_file import plain
from pytest_cideldill.calltraces.user_code import CodeFacts, CodeTable
from pytest_cideldill.interpreter.frame_locals import read_aside
from pytest_cideldill.interpreter.running import current_frames, main_ident
from pytest_cideldill.watching.contents import Part, Show
from pytest_cideldill.watching.expressions import LOST, Expression, Failure, is_value
from pytest_cideldill.watching.following import Followed
from pytest_cideldill.watching.holders import Allowance
from pytest_cideldill.watching.scope import Scope
from pytest_cideldill.watching.seen import Seen
from pytest_cideldill.watching.writers import Writing

_FARTHEST: Final = 500
"""Frames between one of user code and the next."""

_WAITING: Final = frozenset(
    {"threading", "queue", "selectors", "socket", "concurrent", "asyncio", "multiprocessing"}
)
"""Modules in which a thread waits for others."""

_UNSET: Final = plain("unset")

_CREDIT: Final = 50_000
"""How often large objects are compared at each event, times their `every`: for some tenths of a
second. Only then are lines left out."""

_PATIENCE_S: Final = 1.0
"""Seconds for which a thread waits once while another one looks."""

Line = tuple[int, CodeType | None, int, int]
"""Thread, code, line and id of the frame that a thread is in; without code: in no user code."""


class Place:
    """A line that ran, and the one that called its function.

    Attributes:
        code: Of the line; None: no line of user code.
        line: Its number.
        caller: Code of the caller, if there is one.
        caller_line: Where.
        thread: Ident of the thread.
    """

    __slots__ = ("caller", "caller_line", "code", "line", "thread")

    def __init__(self, code: CodeType | None, line: int, thread: int) -> None:
        self.code, self.line, self.thread = code, line, thread
        self.caller: CodeType | None = None
        self.caller_line = 0


class Report(Protocol):
    """Takes what a watch sees."""

    def opens(self, cls: type) -> bool:
        """Whether what is in an instance of a class is of interest, where it is a part."""

    def first(self, text: str, frame: FrameType | None, place: Place) -> None:
        """The first value."""

    def changed(self, parts: list[Part], places: list[Place], late: int) -> bool:
        """A change, by one of these places, up to so many events ago. Whether texts are wanted."""

    def held(self, value: Any, parent: Any, frame: FrameType | None, *, is_end: bool) -> None:
        """The object as it is at the first change, or at the end so far."""

    def value(self, text: str, *, is_found: bool) -> None:
        """The value as far as it is known."""

    def lost(self, place: Place) -> None:
        """Nothing leads to the object any more."""

    def true(self, place: Place, names: dict[str, Any] | None) -> None:
        """`until` has become true; the locals there."""

    def true_at_first(self) -> None:
        """It is true at the beginning."""

    def failed(self, text: str) -> None:
        """`until` raised."""

    def over(self) -> None:
        """There is nothing left to watch."""


class Watch:
    """Follows one expression from now on.

    Args:
        expression: What is watched.
        until: Ends the watch when it becomes true; its values are booleans.
        scope: Where the names are.
        show: Renders.
        table: Knows user code.
        report: Takes what is seen.
    """

    def __init__(
        self,
        expression: Expression,
        until: Expression | None,
        scope: Scope,
        show: Show,
        table: CodeTable,
        report: Report,
    ) -> None:
        self._expression, self._until, self._scope = expression, until, scope
        self._show, self._table, self._report = show, table, report
        self._seen: Seen
        lock = allocate_lock()
        self._take, self._release = lock.acquire, lock.release
        self._main = main_ident()
        self._now: dict[int, Line] = {}
        self._last: Line | None = None
        self._writing = Writing()
        self._was_false = False
        self._wants_parts = True
        self._is_first = True
        self._ticks = 0
        self._credit = _CREDIT
        self._late = 0
        self._object: Followed | None = None
        self._holder = 0
        self._is_impatient = False
        self.is_lost = self.is_over = False

    def begin(self, frame: FrameType | None) -> None:
        """See the first value. `frame`: the one in whose scope the expression is."""
        held, names = self._scope.read(frame)
        value = self._expression.value(held, names)
        is_made = not self._expression.is_chain
        name, opens = self._expression.last_name, self._report.opens
        self._seen = Seen(value, self._show, name, opens, is_made=is_made)
        del value
        self._note()
        place = Place(None, 0, get_ident())
        if frame is not None:
            place.code, place.line = frame.f_code, frame.f_code.co_firstlineno
            self._add_caller(place, frame)
        self._report.first(self._seen.text, frame, place)
        if self._until is not None:
            if self._until.value(held, names) is True:
                self._report.true_at_first()
            else:
                self._was_false = True

    # --- events -----------------------------------------------------------------------------

    def line(self, frame: FrameType, line: int) -> None:
        """A line begins."""
        ident = get_ident()
        self._look(frame, ident)
        self._now[ident] = self._last = (ident, frame.f_code, line, id(frame))

    def starts(self, frame: FrameType) -> None:
        """A frame begins."""
        ident = get_ident()
        self._look(frame, ident)
        code = frame.f_code
        self._now[ident] = self._last = (ident, code, code.co_firstlineno, id(frame))

    def goes_on(self, facts: CodeFacts, frame: FrameType) -> None:
        """A generator or a coroutine goes on."""
        ident = get_ident()
        self._look(frame, ident)
        self._now[ident] = self._last = (ident, frame.f_code, facts.line_at(frame), id(frame))

    def leaves(self, frame: FrameType, *, is_over: bool) -> None:
        """A frame is left, for now or for good."""
        ident = get_ident()
        outer = self._outer(frame)
        self._look(frame, ident, is_end=outer is None or frame is self._scope.frame)
        if outer is None and ident == self._main and is_over and not self.is_over:
            self._look_around(frame)
        self._scope.leave(frame, is_over=is_over)
        if self._object is not None:
            self._object.leave(frame)
        if outer is None:
            self._now[ident] = self._last = (ident, None, 0, 0)
        else:
            self._now[ident] = self._last = (ident, *outer)
        if self._scope.is_constant and not self.is_over:
            self.end()

    def end(self) -> None:
        """Nothing more is to be seen."""
        if self.is_over:
            return
        self.is_over = True
        self._scope.drop()
        self._object = None
        self._now.clear()
        self._last = None
        self._report.over()

    # --- what differs -----------------------------------------------------------------------

    def _look(self, frame: FrameType, ident: int, *, is_end: bool = False) -> None:
        """Compare; at each event. `is_end`: a last look, which leaves nothing out."""
        if not self._take(False) and not self._waits_for_lock(ident):
            return
        self._holder = ident
        try:
            if self.is_over:
                return
            if self._object is None:
                held, names = self._scope.read(frame)
                value = self._expression.value(held, names)
                if value is LOST:
                    value = self._value(frame)
            else:
                value = self._value(frame)
            seen = self._seen
            glances = True
            if seen.every > 1:
                self._ticks += 1
                self._credit -= seen.every
                glances = self._credit > 0 or self._ticks % seen.every == 0 or is_end
            if value is LOST:
                self._late += 1
                if self.is_lost:
                    self._report.lost(self._places(frame, ident)[0])
                    self.end()
                return
            if seen.is_same(value, glances):
                self._late = 0 if glances else self._late + 1
            else:
                self._differs(value, frame, ident)
                self._late = 0
            if self._until is not None:
                self._decide(frame, ident)
        finally:
            self._holder = 0
            self._release()

    def _waits_for_lock(self, ident: int) -> bool:
        """Wait for it; an expression of the client may hold it for as long as it wants."""
        if self._holder == ident or self._is_impatient:
            return False
        has_it = self._take(timeout=_PATIENCE_S)
        self._is_impatient = not has_it
        return has_it

    def _differs(self, value: Any, frame: FrameType, ident: int) -> None:
        had_value = self._seen.text != _UNSET
        parts = self._seen.changes(value, self._show, wants_parts=self._wants_parts)
        if not parts:
            return
        self._note()
        places = self._places(frame, ident)
        self._wants_parts = self._report.changed(parts, places, self._late)
        if self._is_first and had_value:
            self._is_first = False
            self._held(value, frame, is_end=False)

    def _decide(self, frame: FrameType, ident: int) -> None:
        """Whether `until` has become true."""
        assert self._until is not None
        verdict = self._until.value(*self._scope.read(frame))
        if verdict is False:
            self._was_false = True
        elif type(verdict) is Failure:
            self._report.failed(verdict.text)
        elif verdict is True and self._was_false:
            place = self._places(frame, ident)[0]
            writer = self._now.get(ident)
            inner = self._frame_of(frame, writer[3]) if writer is not None else None
            self._report.value(self._seen.text, is_found=True)
            self._report.true(place, None if inner is None else dict(read_aside(inner)))
            self.end()

    def _value(self, frame: FrameType) -> Any:
        """What the expression gives; once it gives nothing any more, the object that it gave."""
        if self._object is None:
            value = self._expression.value(*self._scope.read(frame))
            if value is not LOST or not self._scope.is_over:
                return value
            address = self._seen.address
            if address is None or not self._expression.steps:
                self.is_lost = True
                return LOST
            self._object = Followed.at(*address, self._is_user, Allowance())
            self._note()
        value = self._object.get(frame)
        self.is_lost = self._object.is_gone
        return value

    def _look_around(self, frame: FrameType) -> None:
        """The outermost frame is left: who holds the object now, and what it is."""
        value = self._value(frame)
        if is_value(value):
            self._report.value(self._show(value, self._expression.last_name), is_found=True)
            self._held(value, frame, is_end=True)

    def _held(self, value: Any, frame: FrameType, *, is_end: bool) -> None:
        if self._seen.looks and self._expression.is_chain:
            parent = self._expression.parent(*self._scope.read(frame))
            self._report.held(value, parent, self._scope.frame, is_end=is_end)

    def _note(self) -> None:
        self._scope.note(self._seen.looks, is_empty=self._seen.is_empty)
        if self._object is not None:
            self._object.note(self._seen.looks, is_empty=self._seen.is_empty)

    # --- where ------------------------------------------------------------------------------

    def _places(self, frame: FrameType, ident: int) -> list[Place]:
        """The lines that can have made what differs now, the likely one first."""
        own, last = self._now.get(ident), self._last
        lines = [each for each in (own, last) if each is not None]
        if own is not None and last is not None and (last[0] == ident or last[1] is None):
            lines = [own]
        if len(lines) == 2:
            lines = self._likely(lines)
        places = []
        for thread, code, line, frame_id in lines or [(ident, None, 0, 0)]:
            place = Place(code, line, thread)
            inner = self._frame_of(frame, frame_id) if thread == ident else None
            if inner is not None:
                self._add_caller(place, inner)
            places.append(place)
        return places

    def _likely(self, lines: list[Line]) -> list[Line]:
        """Of the lines of two threads those that can have done it."""
        chances = [self._writing.likelihood(line[1], line[2]) if line[1] else 0 for line in lines]
        if self._waits(lines[1][0]):
            chances[1] = 0
        if not all(chances):
            return [lines[1] if chances[1] else lines[0]]
        return lines if chances[0] >= chances[1] else lines[::-1]

    def _waits(self, thread: int) -> bool:
        """Whether another thread waits for something just now."""
        innermost = current_frames().get(thread)
        module = None if innermost is None else innermost.f_globals.get("__name__")
        return type(module) is str and module.partition(".")[0] in _WAITING

    def _add_caller(self, place: Place, frame: FrameType) -> None:
        outer = self._outer(frame)
        if outer is not None:
            place.caller, place.caller_line, _ = outer

    def _frame_of(self, frame: FrameType, frame_id: int) -> FrameType | None:
        """The frame with an id, on the stack of the frame that has the event."""
        each: FrameType | None = frame
        for _ in range(_FARTHEST):
            if each is None or id(each) == frame_id:
                return each
            each = each.f_back
        return None

    def _is_user(self, frame: FrameType) -> bool:
        return self._table.meet(frame) is not None

    def _outer(self, frame: FrameType) -> tuple[CodeType, int, int] | None:
        """The nearest frame of user code that a frame was called from: code, line, id."""
        back = frame.f_back
        for _ in range(_FARTHEST):
            if back is None:
                return None
            facts = self._table.meet(back)
            if facts is not None:
                return back.f_code, facts.line_at(back), id(back)
            back = back.f_back
        return None
