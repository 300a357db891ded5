"""The calls of a test: their tree, or one of them with its lines; on the threads that call.

An event source (`sysmon`, `settrace`) calls it. The caller of a call is found on the stack, so that
threads, generators and greenlets need no bookkeeping.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from gc import get_referents
from itertools import count
from types import CodeType, FrameType
from typing import Any, Final, Protocol

from pytest_cideldill.calltraces.aftermath import Aftermath
from pytest_cideldill.calltraces.caught import CaughtRecorder, Names
from pytest_cideldill.calltraces.choice import CallChoice
from pytest_cideldill.calltraces.row_file import RowFile, plain
from pytest_cideldill.calltraces.states import NOTHING, Begun, States
from pytest_cideldill.calltraces.traced_lines import LineRecorder
from pytest_cideldill.calltraces.user_code import CodeFacts, CodeTable
from pytest_cideldill.calltraces.value_texts import LARGE, Values
from pytest_cideldill.frames.arguments import raised
from pytest_cideldill.interpreter.frame_locals import forget, read_locals
from pytest_cideldill.interpreter.running import main_ident, thread_names
from pytest_cideldill.protocol.trace_rows import EXPLANATION, TraceRequest
from pytest_cideldill.rendering.exception_text import headline, without_hint
from pytest_cideldill.tracing.interface import Left
from pytest_cideldill.tracing.trails import how_it_yields

_MOST_PARTS: Final = 10
"""Items, waits and resumptions of one call that are recorded; the others are counted."""

_exc_info: Final = sys.exc_info

_FARTHEST: Final = 500
"""Frames of libraries between a call and its caller."""

_BEYOND: Final = 4
"""Calls near a test may exceed the limit by a fourth."""

_SHARE: Final = 16
"""Of that a function may have a sixteenth, so that none takes the room of another."""

_MOST_LIBRARIES: Final = 50
"""Functions of libraries that are counted for one call."""

_ASYNC_GENERATOR: Final = 0x200

_ENDS_OF_PROCESSES: Final = frozenset(
    {
        *("posix._exit", "posix.kill", "posix.killpg", "posix.abort", "signal.raise_signal"),
        *("nt._exit", "nt.kill", "nt.abort", "_signal.raise_signal", "faulthandler._sigsegv"),
        *("posix.execv", "posix.execve", "signal.pthread_kill", "_signal.pthread_kill"),
    }
)
"""Functions after which there may be no process."""


class Arming(Protocol):
    """Arms code for lines; an event source."""

    def watch_lines(self, code: CodeType, *, wanted: bool) -> None:
        """Set whether the recorder gets the lines of a code object."""


class ActiveCall:
    """A call that is not over.

    Args:
        depth: How many recorded calls are around it.
    """

    __slots__ = ("depth", "facts", "library", "number", "parts", "states")

    def __init__(self, number: int, facts: CodeFacts, depth: int) -> None:
        self.number = number
        self.facts = facts
        self.depth = depth
        self.library: dict[str, int] | None = None
        self.parts = 0
        self.states: Begun | None = None


class CallRecorder:
    """Records the calls that a question asks for.

    Attributes:
        active: Id of a frame → its call.
        choice: Counts the calls of the asked function.
        chosen: The recorder of the chosen call, while that is not over.
        quiet: Threads that evaluate for us.
        wants_libraries: Whether calls of library functions are counted.
        counts_lines: Whether `count_line` is wanted.
        is_full: Whether the limit of calls was reached.
        source: The source of events; set once it is there.
        caught: Records exceptions that are caught, if these are wanted.
    """

    def __init__(
        self, request: TraceRequest, rows: RowFile, table: CodeTable, values: Values
    ) -> None:
        self._request = request
        self._rows, self._table, self._values = rows, table, values
        self._add, self._show = rows.add_text, values.show
        self._lens = values.lens
        self.choice = choice = CallChoice(request, values.lens)
        self.quiet = choice.quiet
        self._numbers = count(1)
        self._threads: dict[str, str] = {}
        self._tree = request.tree
        self._main = main_ident()
        self.active: dict[int, ActiveCall] = {}
        self.chosen: LineRecorder | None = None
        self._chosen_call: ActiveCall | None = None
        self.counts_lines = request.counts
        self._counts: dict[int, tuple[CodeFacts, dict[int, int]]] = {}
        self._aftermath: Aftermath[int] = Aftermath()
        self._recorded = 0
        self._most = request.calls
        self.wants_libraries = request.tree or request.counts or choice.is_wanted
        self.is_full = False
        # Number of the code → calls that were recorded beyond the limit; calls since the last one.
        self._beyond: dict[int, int] = {}
        self._skipped: dict[int, int] = {}
        self.source: Arming | None = None
        self._states = States(rows, values, request.states_from) if request.states else None
        self.caught: CaughtRecorder | None = None
        if request.caught:
            names = Names(self._number, self._number_of_call, self._error)
            self.caught = CaughtRecorder(rows, table, values, names, self.quiet)

    # --- calls ------------------------------------------------------------------------------

    def begin(self, facts: CodeFacts, frame: FrameType) -> None:
        """A call of user code begins."""
        if self.quiet and get_ident() in self.quiet:
            return
        is_chosen = facts.matches and self._is_chosen(facts, frame)
        if not self._tree and not is_chosen and not self._is_near(facts, frame):
            return
        code = facts.number or self._number(facts)
        if self._recorded >= self._most and not is_chosen and not self._takes_share(code, frame):
            self._skipped[code] = self._skipped.get(code, 0) + 1
            return
        if self._skipped and (count := self._skipped.pop(code, 0)):
            self._add(f'["skipped",{code},{count}]')
        self._recorded += 1
        number = next(self._numbers)
        back = frame.f_back
        parent = self.active.get(id(back))
        caller, via = None, ""
        if parent is not None and parent.facts.code is back.f_code:  # type: ignore[union-attr]
            place = back.f_lasti  # type: ignore[union-attr]
            lines = parent.facts.lines
            line = lines[place] if place in lines else parent.facts.line_at(back)  # type: ignore[arg-type]
            above = parent.number
            if parent.facts.messages and place in parent.facts.messages:
                via = EXPLANATION
        else:
            parent, caller, line, via = self._origin(frame)
            above = 0 if parent is None else parent.number
        thread = "" if get_ident() == self._main else self._thread()
        self._add(
            f'["call",{number},{above},{code},{line},"{thread}",['
            f'{self._arguments(facts, frame) if facts.names else ""}],"{via}"]'
        )
        if caller is not None and not self._tree:
            self._add(f'["caller",{number},{self._number(caller)},{line}]')
        depth = 0 if parent is None else parent.depth + 1
        if _exc_info()[1] is not None or not self._aftermath.is_empty:
            self._aftermath.see(number)
        self.active[id(frame)] = call = ActiveCall(number, facts, depth)
        if self._states is not None:
            call.states = self._states.begin(number, facts, frame)
        if is_chosen:
            self._choose(call, frame)

    def returned(self, frame: FrameType, value: object) -> None:
        call = self.active.pop(id(frame), None)
        if call is None or call.facts.code is not frame.f_code:
            return
        if self._states is not None:
            self._states.end(call.number, call.states, frame, value)
        name = call.facts.result_name
        if type(value) is int and not name and -LARGE < value < LARGE:
            text = f'"{value}"'
        else:
            text = self._show(value, name, hidden=bool(name))
        row = f'["return",{call.number},{text}]'
        if call.library or call.parts or call is self._chosen_call:
            self._ended(call, row, frame)
        else:
            self._add(row)

    def unwound(self, frame: FrameType, error: BaseException | None) -> None:
        """An exception leaves a frame; None: it is not known which."""
        call = self.active.pop(id(frame), None)
        if call is not None and call.facts.code is frame.f_code:
            if self._states is not None:
                self._states.end(call.number, call.states, frame, NOTHING)
            self._ended(call, plain(["unwind", call.number, self._error(error)]), frame)

    def yielded(self, frame: FrameType, value: object) -> None:
        """A frame hands out an item, or waits."""
        call = self._of(frame)
        if call is None:
            return
        is_chosen = call is self._chosen_call
        if is_chosen and self.chosen is not None:
            self.chosen.changes(frame)
        call.parts += 1
        if not is_chosen and call.parts > _MOST_PARTS:
            return
        if how_it_yields(frame.f_code, value) is Left.AWAIT:
            row = f'["wait",{call.number}]'
        else:
            row = f'["yield",{call.number},{self._values.show(_handed_out(frame, value))}]'
        self._put(row, is_chosen=is_chosen)

    def resumed(self, frame: FrameType, error: BaseException | None) -> None:
        """A frame goes on, perhaps with an exception."""
        call = self._of(frame)
        if call is None:
            return
        is_chosen = call is self._chosen_call
        if is_chosen and self.chosen is not None:
            self.chosen.resumes(frame)
        if is_chosen or (error is not None and call.parts <= _MOST_PARTS):
            row = plain(["resume", call.number, self._error(error)])
            self._put(row, is_chosen=is_chosen)

    def library(self, frame: FrameType, name: str) -> None:
        """A frame calls a function of a library."""
        if name in _ENDS_OF_PROCESSES:
            self._rows.flush()
        call = self._of(frame)
        if call is None:
            return
        counts = call.library
        if counts is None:
            counts = call.library = {}
        if name in counts or len(counts) < _MOST_LIBRARIES:
            counts[name] = counts.get(name, 0) + 1

    # --- lines ------------------------------------------------------------------------------

    def count_line(self, frame: FrameType, line: int) -> None:
        """A line of the function that is asked for begins."""
        facts = self._table.known.get(id(frame.f_code))
        if facts is not None and facts.matches:
            _, counts = self._counts.setdefault(id(facts.code), (facts, {}))
            counts[line] = counts.get(line, 0) + 1

    def raises(self, frame: FrameType, error: BaseException) -> None:
        """An exception arises in a frame, or arrives there."""
        chosen = self.chosen
        if chosen is not None and chosen.frame_id == id(frame):
            chosen.add(plain(["raise", self._error(error)]))

    # --- a test -----------------------------------------------------------------------------

    def end_phase(self, failure: BaseException | None) -> None:
        """A phase is over, perhaps with an exception."""
        if number := min(self._aftermath.of(failure), default=0):
            self._rows.add(["aftermath", number])
        self._aftermath.clear()
        if self.caught is not None:
            self.caught.end_phase(failure)

    def end_test(self) -> None:
        """A test is over: leave what was counted in it; the next one has its own chosen call."""
        for facts, counts in self._counts.values():
            self._rows.add(["lines", self._number(facts), sorted(counts.items())])
        self._counts.clear()
        self._skipped.clear()
        for row in self.choice.end_test():
            self._rows.add(row)
        if self._values.is_used_up:
            self.reach(
                "values", "values took too long to render; from then on only their types are shown"
            )
        self._rows.flush()

    def reach(self, limit: str, text: str) -> None:
        """Leave that a limit was reached; a sentence says what it means."""
        self._rows.add(["reached", limit, text])

    # --- parts ------------------------------------------------------------------------------

    def _of(self, frame: FrameType) -> ActiveCall | None:
        call = self.active.get(id(frame))
        return call if call is not None and call.facts.code is frame.f_code else None

    def _number_of_call(self, frame: FrameType) -> int:
        call = self._of(frame)
        return 0 if call is None else call.number

    def _ended(self, call: ActiveCall, row: str, frame: FrameType) -> None:
        for name, number in (call.library or {}).items():
            self._rows.add(["library", call.number, name, number])
        if call.parts > _MOST_PARTS and call is not self._chosen_call:
            self._rows.add(["parts", call.number, call.parts])
        if call is self._chosen_call:
            self._leave_chosen(call, frame)
        self._rows.add_text(row)

    def _put(self, row: str, *, is_chosen: bool) -> None:
        if is_chosen and self.chosen is not None:
            self.chosen.add(row)
        else:
            self._rows.add_text(row)

    def _is_near(self, facts: CodeFacts, frame: FrameType) -> bool:
        """Whether a call is recorded where the tree is not: by what it is, or by its caller."""
        if self.counts_lines and facts.matches:
            return True
        parent = self._origin(frame)[0] if self.active else None
        if parent is None:
            return False
        if parent is self._chosen_call and self.chosen is not None and self.chosen.is_full:
            return False  # their lines come later, out of order
        return parent is self._chosen_call or (self.counts_lines and parent.facts.matches)

    def _is_chosen(self, facts: CodeFacts, frame: FrameType) -> bool:
        if self.counts_lines and self.source is not None and id(facts.code) not in self._counts:
            self._counts[id(facts.code)] = facts, {}
            self.source.watch_lines(facts.code, wanted=True)
        return self.choice.is_chosen(frame)

    def _choose(self, call: ActiveCall, frame: FrameType) -> None:
        self._chosen_call = call
        self._rows.add(["focus", call.number, self.choice.chosen])
        lines = LineRecorder(self._rows, self._values, self._request.lines)
        lines.begin(frame, self._lens.texts)
        self.chosen = lines
        if self.source is not None:
            self.source.watch_lines(frame.f_code, wanted=True)

    def _leave_chosen(self, call: ActiveCall, frame: FrameType) -> None:
        chosen = self.chosen
        if chosen is not None:
            chosen.changes(frame)
            chosen.end()
        self.chosen = self._chosen_call = None
        if self.source is not None and not self.counts_lines:
            self.source.watch_lines(call.facts.code, wanted=False)

    def _origin(self, frame: FrameType) -> tuple[ActiveCall | None, CodeFacts | None, int, str]:
        """Where a frame was called from: the call, or the code if that call has no row; the line.

        The last part are the libraries in between, as the inside of a JSON text.
        """
        code, back = frame.f_code, frame.f_back
        through: dict[str, None] = {}
        table, explains, via = self._table, False, ""
        for _ in range(_FARTHEST):
            if back is None:
                break
            if (call := self._of(back)) is not None:
                if back.f_lasti in call.facts.messages:
                    via = EXPLANATION
                elif not explains:
                    via = plain(", ".join(reversed(through)))[1:-1] if through else ""
                return call, None, call.facts.line_at(back), via
            facts = table.meet(back)
            if facts is not None:
                return None, facts, facts.line_at(back), via
            if not explains and table.explanations.has(back.f_code, code):
                explains, via = True, EXPLANATION
            if id(back.f_code) not in table.through:
                module = back.f_globals.get("__name__")
                through[module.partition(".")[0] if type(module) is str else "?"] = None
            back = back.f_back
        return None, None, 0, via

    def _number(self, facts: CodeFacts) -> int:
        """The number of a code object in the rows."""
        return self._table.number(facts, self._rows)

    def _arguments(self, facts: CodeFacts, frame: FrameType) -> str:
        """The items of the list `args`, as JSON."""
        show = self._show
        is_fresh = facts.is_fresh
        values: Any = frame.f_locals if is_fresh else read_locals(frame)
        args = []
        for head, name, hidden in facts.names:
            if name in values:
                value = values[name]
                if type(value) is int and not hidden and -LARGE < value < LARGE:
                    args.append(f'{head}"{value}"]')  # as `show` would: most arguments are numbers
                else:
                    args.append(f"{head}{show(value, name, hidden=hidden)}]")
        if is_fresh:
            forget(frame, values)
        return ",".join(args)

    def _thread(self) -> str:
        """The name of this thread, as the inside of a JSON text."""
        name = thread_names().get(get_ident(), "another thread")
        text = self._threads.get(name)
        if text is None:
            text = self._threads[name] = plain(self._lens.text(name, 100))[1:-1]
        return text

    def _error(self, error: BaseException | None) -> str:
        if error is None:
            return ""
        shown = raised(error, self._lens)
        message = headline(without_hint(shown["message"]))
        return f"{shown['type']}: {message}" if message else shown["type"]

    def _takes_share(self, code: int, frame: FrameType) -> bool:
        """Whether a call beyond the limit takes a place: near a test, as each answer about one that
        calls much would lack its end. Of a function a level has half as many as the one above.
        """
        if not self.is_full:
            self.is_full = True
            text = f"after {self._most:,} calls only some of those near the test were recorded"
            self.reach("calls", text)
        room = self._most // _BEYOND
        parent = None if frame.f_back is None else self._of(frame.f_back)
        if self._recorded - self._most >= room or (parent is None and self.active):
            return False
        count, level = self._beyond.get(code, 0), 0 if parent is None else parent.depth
        if count >= room // _SHARE >> level:
            return False
        self._beyond[code] = count + 1
        return True


def _handed_out(frame: FrameType, value: object) -> object:
    """The item that a frame yields; an async generator yields it in a wrapper made in C."""
    if frame.f_code.co_flags & _ASYNC_GENERATOR:
        held = get_referents(value)
        return held[0] if len(held) == 1 else value
    return value
