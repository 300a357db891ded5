"""Records a watch: when it begins, what it sees as rows, and when nothing is left of it."""

from __future__ import annotations

from _thread import get_ident
from types import CodeType, FrameType, ModuleType
from typing import Any, Final, Protocol

from pytest_cideldill.calltraces.choice import CallChoice
from pytest_cideldill.calltraces.row_file import RowFile, plain
from pytest_cideldill.calltraces.user_code import CodeFacts, CodeTable
from pytest_cideldill.calltraces.value_texts import Values
from pytest_cideldill.interpreter.loaded_names import is_kind
from pytest_cideldill.interpreter.running import main_ident, thread_names
from pytest_cideldill.protocol.trace_rows import TraceRequest, WatchRequest
from pytest_cideldill.watching.aliases import Aliases
from pytest_cideldill.watching.contents import Part
from pytest_cideldill.watching.expressions import Expression
from pytest_cideldill.watching.holders import Allowance
from pytest_cideldill.watching.scope import FrameScope, ModuleScope, Scope
from pytest_cideldill.watching.watch import Place, Watch

_MOST_NAMES: Final = 20
"""Locals that are shown where `until` becomes true."""

_MOST_WRITERS: Final = 200

_OFTEN: Final = 256
"""Each so many changes that have no row of their own the counts are written."""


class Arming(Protocol):
    """A source of events."""

    def arm(self) -> None:
        """All events of user code are wanted from now on, also of frames that run."""

    def disarm(self) -> None:
        """No events are wanted any more."""


class WatchRecorder:
    """Begins the watch that a question asks for, and writes what it sees.

    Attributes:
        watch: The watch, while there is one.
        choice: Counts the calls of the function.
        source: The source of events; set once it is there.
    """

    def __init__(
        self, request: TraceRequest, rows: RowFile, table: CodeTable, values: Values
    ) -> None:
        assert request.watch is not None
        self._request, self._wanted = request, WatchRequest(**request.watch)
        self._rows, self._table, self._values = rows, table, values
        self._lens = values.lens
        self.choice = CallChoice(request, values.lens)
        self.quiet = self.choice.quiet
        self.watch: Watch | None = None
        self.source: Arming | None = None
        self._name = ""
        self._main = main_ident()
        self._aliases = Aliases(values.lens.project, table, self._is_user, self._show)
        self._renew()
        for source in filter(None, (self._wanted.expression, self._wanted.until)):
            Expression(source, None, self.choice.overtime)

    def _renew(self) -> None:
        self._is_begun = False
        self._changes = 0
        self._recorded = 0
        self._writers: dict[tuple[int, int], int] = {}
        self._failures: dict[str, int] = {}
        self._value: tuple[str, bool] | None = None

    # --- the test -----------------------------------------------------------------------------

    @property
    def wants_calls(self) -> bool:
        """Whether the call is still to come in which the watch begins."""
        return self.watch is None and not self._is_begun and self._request.function is not None

    def begin_test(self, module: object) -> None:
        """A test begins: a watch that is in no function begins with it.

        Args:
            module: The one that the test is in, if any.
        """
        if self._request.function is not None:
            return
        overtime = self.choice.overtime
        expression = Expression(self._wanted.expression, None, overtime)
        until = self._until(None)
        names = (*expression.names, *(until.names if until is not None else ()))
        of_test = module if is_kind(module, ModuleType) else None
        scope = ModuleScope(self._wanted.module, of_test, names)
        self._start(expression, until, scope, None)

    def calls(self, facts: CodeFacts, frame: FrameType) -> None:
        """A call of the asked function begins, and there is no watch yet."""
        if not facts.matches or not self.choice.is_chosen(frame):
            return
        expression = Expression(self._wanted.expression, frame.f_code, self.choice.overtime)
        until = self._until(frame.f_code)
        wanted = dict.fromkeys((*expression.locals, *(until.locals if until is not None else ())))
        root = "" if expression.steps else expression.root
        scope = FrameScope(frame, list(wanted), root, self._is_user, Allowance())
        self._start(expression, until, scope, frame)

    def end_test(self) -> None:
        if self.watch is not None:
            self.watch.end()
        for row in self.choice.end_test():
            self._rows.add(row)
        if self._values.is_used_up:
            self.reach("values", "values took too long to render; then only types are shown")
        self._rows.flush()
        self._renew()

    def forget(self) -> None:
        """In a forked child: nothing is watched there."""
        self.watch = None
        self._is_begun = True

    def is_quiet(self) -> bool:
        """Whether this thread evaluates for us."""
        return get_ident() in self.quiet

    def _until(self, code: CodeType | None) -> Expression | None:
        source = self._wanted.until
        return None if not source else Expression(f"not not ({source})", code, self.choice.overtime)

    def _start(
        self,
        expression: Expression,
        until: Expression | None,
        scope: Scope,
        frame: FrameType | None,
    ) -> None:
        self._is_begun = True
        self._name = expression.last_name
        watch = Watch(expression, until, scope, self._show, self._table, self)
        watch.begin(frame)
        self.watch = watch
        if self.source is not None:
            self.source.arm()

    # --- what the watch reports: see `watch.Report` -------------------------------------------

    def opens(self, cls: type) -> bool:
        return self._aliases.is_users(cls)

    def first(self, text: str, frame: FrameType | None, place: Place) -> None:
        number = self.choice.chosen if frame is not None else 0
        self._put(f'["watch",{text},{self._columns(place)},{number}]')

    def changed(self, parts: list[Part], places: list[Place], late: int) -> bool:
        self._changes += 1
        keys = [(self._number(place.code), place.line) for place in places]
        if len(places) > 1 and keys[0] not in self._writers and keys[1] in self._writers:
            places.reverse()  # who did it before is the likely one
        place = places[0]
        key = (self._number(place.code), place.line)
        if key in self._writers or len(self._writers) < _MOST_WRITERS:
            self._writers[key] = self._writers.get(key, 0) + 1
        most = self._wanted.max_changes
        if self._recorded < most:
            self._recorded += 1
            thread = "" if place.thread == self._main else self._thread(place.thread)
            other = self._columns(places[1]) if len(places) > 1 else "0,0,0,0"
            shown = ",".join(
                f"[{plain(part.place)},{part.old or 'null'},{part.new or 'null'}]" for part in parts
            )
            self._put(
                f'["changed",[{shown}],{self._columns(place)},{plain(thread)},{other},{late}]'
            )
        elif self._changes % _OFTEN == 0:
            self._write_counts()
        return self._recorded < most

    def held(self, value: Any, parent: Any, frame: FrameType | None, *, is_end: bool) -> None:
        texts = self._aliases.of(value, parent, self._wanted.expression.strip(), frame)
        self._rows.add(["aliases", "end" if is_end else "first", texts])
        self._rows.flush()

    def value(self, text: str, *, is_found: bool) -> None:
        self._value = (text, is_found)

    def lost(self, place: Place) -> None:
        self._put(f'["lost",{self._columns(place)}]')

    def true(self, place: Place, names: dict[str, Any] | None) -> None:
        shown = [
            f"[{plain(name)},{self._show(value, name)}]"
            for name, value in (names or {}).items()
            if name.isidentifier()
        ]
        self._put(f'["became",{self._columns(place)},[{",".join(shown[:_MOST_NAMES])}]]')

    def true_at_first(self) -> None:
        self._rows.add(["true_at_first"])

    def failed(self, text: str) -> None:
        self._failures[text] = self._failures.get(text, 0) + 1

    def over(self) -> None:
        self.watch = None
        if self.source is not None:
            self.source.disarm()
        self._write_counts()
        if self._value is not None:
            self._put(f'["value",{self._value[0]}]')
        for text, number in self._failures.items():
            self.reach("until", f"until raised {text} at {number:,} events")

    # --- parts --------------------------------------------------------------------------------

    def _write_counts(self) -> None:
        for (code, line), number in self._writers.items():
            self._rows.add(["writer", code, line, number])
        self._rows.flush()

    def _put(self, row: str) -> None:
        """Write a row at once: the process may end at any time."""
        self._rows.add_text(row)
        self._rows.flush()

    def reach(self, limit: str, text: str) -> None:
        """Leave that a limit was reached; a sentence says what it means."""
        self._rows.add(["reached", limit, text])

    def _show(self, value: object, name: str = "") -> str:
        """The text of a value, as JSON; all that is in a secret has its name."""
        lens = self._lens
        if self._name and lens.is_sensitive(self._name):
            name = self._name
        return self._values.show(value, name, hidden=bool(name) and lens.is_sensitive(name))

    def _columns(self, place: Place) -> str:
        """`code,line,caller,line` of a row."""
        caller = self._number(place.caller)
        return f"{self._number(place.code)},{place.line},{caller},{place.caller_line}"

    def _number(self, code: CodeType | None) -> int:
        """The number of a code object in the rows; 0 for none."""
        facts = self._table.known.get(id(code))
        return 0 if facts is None else self._table.number(facts, self._rows)

    def _thread(self, ident: int) -> str:
        return self._lens.text(thread_names().get(ident, "another thread"), 100)

    def _is_user(self, frame: FrameType) -> bool:
        return self._table.meet(frame) is not None
