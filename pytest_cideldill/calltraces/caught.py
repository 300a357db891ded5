"""Exceptions that were caught on the way of a test: where raised, where caught, what they left.

On the threads of the program. An exception is followed from the first frame of user code that it
passes to the last handler that gets it; what it becomes is known when it is gone, or raised again.
Nothing of it is kept: exceptions and frames are known by their ids. That a new exception has the id
of an earlier one shows at its first frame, where its traceback has no other.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, Final, NamedTuple

from pytest_cideldill.calltraces.exception_data import all_of, context_of, contexts_of, traceback_of
from pytest_cideldill.calltraces.flights import Flight, Group, Place, Source
from pytest_cideldill.calltraces.handlers import Handler, Handlers
from pytest_cideldill.calltraces.left_behind import LeftBehind
from pytest_cideldill.calltraces.libraries import Libraries
from pytest_cideldill.calltraces.row_file import RowFile
from pytest_cideldill.calltraces.user_code import CodeFacts, CodeTable
from pytest_cideldill.calltraces.value_texts import Values
from pytest_cideldill.interpreter.borders import is_ours, passes, text_of
from pytest_cideldill.interpreter.frame_locals import read_aside
from pytest_cideldill.rendering import layout

MOST_GROUPS: Final = 200
"""Groups of one phase that have rows."""

_MOST_FLIGHTS: Final = 1_000
"""Exceptions that are followed at a time."""

_MOST_UNWOUND: Final = 20
"""Frames of user code that are named for one exception."""

_MOST_SOURCES: Final = 2_000
_MOST_WRAPPERS: Final = 20
_FARTHEST: Final = 500
_FIRST: Final = 3
"""So many exceptions of one class and place are looked at closely."""

_MOST_LOOKS: Final = 500
"""Frames of one test that are searched for what they leave behind."""

_ENDS: Final = frozenset({StopIteration, StopAsyncIteration, GeneratorExit})
"""They end loops and generators."""

_RUNNERS: Final = ("_pytest", "pluggy", "unittest", "pytest", "hypothesis")
"""Libraries that catch what tests raise."""

_PROTOCOLS: Final = {
    "__getattr__": "AttributeError",
    "__getattribute__": "AttributeError",
    "__getitem__": "IndexError",
}
"""What these methods raise for the interpreter, which catches it."""

_UNCERTAIN: Final = frozenset({"CancelledError", "RecursionError"})
"""These end tasks, or are replaced by others of their kind where the stack has no room."""


class Names(NamedTuple):
    """What the recorder of calls knows.

    Attributes:
        number: The number of a code object in the rows.
        call: The number of the call of a frame; 0 if it has none.
        text: `Type: message` of an exception.
    """

    number: Callable[[CodeFacts], int]
    call: Callable[[FrameType], int]
    text: Callable[[BaseException], str]


class CaughtRecorder:
    """Records exceptions that are caught.

    Args:
        rows: Take the groups.
        table: Knows the user's code.
        values: Render values.
        names: Of the recorder of calls.
        quiet: Threads that evaluate for us.

    Attributes:
        sees_libraries: Whether the source of events sees frames of libraries.
        waiting: Exceptions that left something behind, which is looked at again.
        lost: Ids of exceptions of which an event was lost, as there was no room on the stack.
    """

    def __init__(
        self,
        rows: RowFile,
        table: CodeTable,
        values: Values,
        names: Names,
        quiet: Mapping[int, int],
    ) -> None:
        self._rows, self._table, self._names, self._quiet = rows, table, names, quiet
        self._libraries = Libraries(values.lens.project)
        self.sees_libraries = True
        self._handlers = Handlers()
        self._left = LeftBehind(values)
        self._flights: dict[int, Flight] = {}
        self._sources: dict[tuple[int, int, int, int], Source] = {}
        self._groups: dict[tuple[int, tuple[int, int]], Group] = {}
        self.waiting: dict[int, Flight] = {}
        self._moments = count(1)
        self._left_out = self._looks = 0
        self._tests: list[CodeType] = []
        self.lost: set[int] = set()
        self._is_broken = False

    # --- events -----------------------------------------------------------------------------
    # A failure of ours ends this part alone: the calls of the test are recorded on. Where the stack
    # has no room, one event is lost.

    def raised(
        self, frame: FrameType, place: int, error: BaseException, traceback: Any = None
    ) -> None:
        """An exception arises in a frame, or arrives there.

        Args:
            frame: Runs.
            place: Offset of the instruction.
            error: The exception.
            traceback: From this frame inwards; None: it is that of the exception already.
        """
        try:
            self._raise(frame, place, error, traceback or traceback_of(error))
        except RecursionError:
            self.lost.add(id(error))
        except Exception as failure:
            if self._fail(failure):
                raise

    def reraised(self, frame: FrameType, place: int, error: BaseException) -> None:
        """A frame raises what it was handling, or cleaned up for."""
        try:
            self._reraise(frame, place, error)
        except RecursionError:
            self.lost.add(id(error))
        except Exception as failure:
            if self._fail(failure):
                raise

    def handled(self, frame: FrameType, place: int, error: BaseException) -> None:
        """A handler begins; for sources of events that see it."""
        flight = self._flights.get(id(error))
        if flight is None:
            return
        try:
            if not flight.is_at(id(frame), (id(frame.f_code), place)):
                flight.leaves(id(frame))
                self._arrive(flight, frame, self._handlers.at(frame, place, type(error)), error)
        except RecursionError:
            self.lost.add(id(error))
        except Exception as failure:
            if self._fail(failure):
                raise

    def unwound(self, frame: FrameType, error: BaseException) -> None:
        """An exception leaves a frame."""
        flight = self._flights.get(id(error))
        try:
            if self.waiting:
                self._look_again(frame, error)
            if flight is not None:
                self._unwind(flight, frame, error)
        except RecursionError:
            self.lost.add(id(error))
        except Exception as failure:
            if self._fail(failure):
                raise

    def passes(self, frame: FrameType, *, is_end: bool) -> None:
        """Another event of user code: a call begins, or a frame is left (`is_end`)."""
        try:
            self._pass(frame, is_end=is_end)
        except RecursionError:
            return
        except Exception as failure:
            if self._fail(failure):
                raise

    def _fail(self, failure: Exception) -> bool:
        """See `feed.Fail`."""
        if passes(failure):
            return True
        self._is_broken = True
        self._flights.clear()
        self.waiting.clear()
        self._groups.clear()
        text = f"caught exceptions were not recorded: {text_of(failure)}"
        self._rows.add(["reached", "caught", text])
        return False

    def _raise(self, frame: FrameType, place: int, error: BaseException, traceback: Any) -> None:
        flight = self._flights.get(id(error))
        if flight is not None and (self._is_new(traceback) or id(error) in self.lost):
            self._end(flight)
            flight = None
        if flight is None:
            if not self._is_followed(frame, error):
                return
            flight = self._begin(frame, error, traceback)
        elif flight.handlers:
            if sys.exc_info()[1] is not error:
                flight.handlers.clear()  # it was over, and is raised again
            else:
                flight.leaves(id(frame))
        flight.behind = None
        facts = self._table.known.get(id(frame.f_code))
        if facts is not None:
            flight.places[id(frame)] = place, facts.line_at(frame)
        self._arrive(flight, frame, self._handlers.after(frame, place, type(error)), error)

    def _reraise(self, frame: FrameType, place: int, error: BaseException) -> None:
        flight = self._flights.get(id(error))
        if flight is None:
            if not self._is_followed(frame, error):
                return
            flight = self._begin(frame, error, traceback_of(error))
        flight.leaves(id(frame))
        self._arrive(flight, frame, self._handlers.after(frame, place, type(error)), error)

    def _unwind(self, flight: Flight, frame: FrameType, error: BaseException) -> None:
        flight.leaves(id(frame))
        flight.moment = next(self._moments)
        self._replace(flight, frame, error, is_leaving=True)
        facts = self._table.known.get(id(frame.f_code))
        if facts is None:
            return
        place, line = flight.places.pop(id(frame), (-1, 0))
        if len(flight.unwound) < _MOST_UNWOUND:
            flight.unwound.append((facts, line or facts.line_at(frame)))
        else:
            flight.more += 1
        flight.behind = self._beyond(frame)
        if place >= 0 and self._looks < _MOST_LOOKS and not self._was_seen(flight.source, frame):
            self._looks += 1
            self._notice(flight, facts, frame, place)
        if flight.left:
            flight.anchor = self._above(frame)
            self.waiting[flight.error] = flight

    def _pass(self, frame: FrameType, *, is_end: bool) -> None:
        back = 0 if is_end else id(frame.f_back)
        handled = set(map(id, contexts_of(sys.exc_info()[1])))
        for flight in list(self.waiting.values()):
            if flight.anchor not in (id(frame), back) or flight.error in handled:
                continue
            if is_end or flight.handlers:
                self._verify(flight, frame if flight.anchor == id(frame) else frame.f_back)

    def _is_followed(self, frame: FrameType, error: BaseException) -> bool:
        """Whether an exception is one of user code that does not end a loop or a generator."""
        if self._table.meet(frame) is None or type(error) in _ENDS or self._is_broken:
            return False
        return not (self._quiet and get_ident() in self._quiet)

    def before_begin(
        self, begin: Callable[[CodeFacts, FrameType], None]
    ) -> Callable[[CodeFacts, FrameType], None]:
        """A function for the beginnings of calls that calls `passes` first, where it matters."""
        waiting, passes = self.waiting, self.passes

        def begins(facts: CodeFacts, frame: FrameType) -> None:
            __tracebackhide__ = True
            if waiting:
                passes(frame, is_end=False)
            begin(facts, frame)

        return begins

    def before_end(
        self, end: Callable[[FrameType, object], None]
    ) -> Callable[[FrameType, object], None]:
        """The same for frames that return or yield."""
        waiting, passes = self.waiting, self.passes

        def ends(frame: FrameType, value: object) -> None:
            __tracebackhide__ = True
            if waiting:
                passes(frame, is_end=True)
            end(frame, value)

        return ends

    # --- a test -----------------------------------------------------------------------------

    def begin_test(self, function: Any) -> None:
        """A test begins; what its own function catches is expected."""
        self._flights.clear()
        self.waiting.clear()
        self._groups.clear()
        self._tests = []
        self._looks = 0
        for _ in range(_MOST_WRAPPERS):
            if type(function) is MethodType:
                function = function.__func__
            if type(function) is not FunctionType:
                return
            self._tests.append(function.__code__)
            function = function.__dict__.get("__wrapped__")

    def end_phase(self, failure: BaseException | None) -> None:
        """A phase is over: leave its groups.

        Args:
            failure: What came out of it; that was not caught.
        """
        for error in all_of(failure):
            self._drop(self._flights.get(id(error)))
        for flight in list(self._flights.values()):
            self._end(flight)
        self.waiting.clear()
        self.lost.clear()
        self._sources.clear()
        groups, self._groups = list(self._groups.values()), {}
        for group in groups:
            self._rows.add(self._row(group))
        if self._left_out:
            text = f"{self._left_out:,} caught exceptions of further places are not shown"
            self._rows.add(["reached", "caught", text])
            self._left_out = 0

    # --- parts ------------------------------------------------------------------------------

    def _is_new(self, traceback: Any) -> bool:
        """Whether an exception is raised for the first time, by its traceback."""
        place = None if traceback is None else traceback.tb_next
        if place is None:
            return True
        if self.sees_libraries:  # without room on the stack, one of ours may become the program's
            return is_ours(place.tb_frame.f_code.co_filename)
        for _ in range(_FARTHEST):
            if place is None:
                return True
            if self._table.known.get(id(place.tb_frame.f_code)) is not None:
                return False
            place = place.tb_next
        return False

    def _begin(self, frame: FrameType, error: BaseException, traceback: Any) -> Flight:
        facts = self._table.known[id(frame.f_code)]
        assert facts is not None
        inner = traceback.tb_next if traceback is not None else None
        code = None if inner is None else inner.tb_frame.f_code
        kind = type(error)
        key = id(kind), id(facts.code), frame.f_lasti, id(code)
        source = self._sources.get(key)
        if source is None:
            name = "" if inner is None else self._library(inner.tb_frame)
            if len(self._sources) >= _MOST_SOURCES:
                self._sources.clear()
            source = self._sources[key] = Source(kind, facts, facts.line_at(frame), name)
        if source.texts < _FIRST:
            source.text = self._names.text(error)
            source.texts += 1
        if len(self._flights) >= _MOST_FLIGHTS:
            with suppress(RuntimeError, StopIteration):  # another thread has changed it
                self._end(next(iter(self._flights.values())))
        self.lost.discard(id(error))
        flight = self._flights[id(error)] = Flight(id(error), source, source.text)
        self._look_for_origin(flight, error, traceback)
        return flight

    def _look_for_origin(self, flight: Flight, error: BaseException, traceback: Any) -> None:
        """A library may have made it of another one, in frames that were not followed."""
        context = context_of(error)
        before = None if context is None else self._flights.get(id(context))
        if before is None or not before.handlers or traceback is None:
            return
        frame = before.handlers[-1].frame
        place = traceback.tb_next
        for _ in range(_FARTHEST):
            if place is None:
                return
            if id(place.tb_frame) == frame:
                flight.of = before.text
                self._drop(before)
                return
            place = place.tb_next

    def _arrive(
        self, flight: Flight, frame: FrameType, handler: Handler | None, error: BaseException
    ) -> None:
        """An exception goes to a handler of a frame, or to none that could end it."""
        flight.moment = next(self._moments)
        self._replace(flight, frame, error, is_leaving=False)
        if handler is None:
            return
        code = frame.f_code
        place = Place(id(frame), (id(code), handler.offset))
        place.facts = facts = self._table.known.get(id(code))
        place.line, place.how, place.is_silent = handler.line, handler.how, handler.is_silent
        place.is_left_out = handler.is_expected
        if facts is not None:
            place.call = self._names.call(frame)
            place.is_left_out = place.is_left_out or self._is_test(code)
            if flight.left:
                flight.anchor = id(frame)
        else:
            self._name(place, frame)
        flight.handlers.append(place)

    def _replace(
        self, flight: Flight, frame: FrameType, error: BaseException, *, is_leaving: bool
    ) -> None:
        """A handler raised another exception in the place of the one that it got."""
        first = context_of(error)
        if first is None:
            return
        handled = None if is_leaving else sys.exc_info()[1]
        for context in contexts_of(first):
            if context is handled:
                return  # that one, and what is around it, is still being handled
            before = self._flights.get(id(context))
            if before is not None and before is not flight and before.is_in(id(frame)):
                flight.of = flight.of or before.text
                self._drop(before)

    def _name(self, place: Place, frame: FrameType) -> None:
        """Where a frame of a library is: its name, and the line of user code that led there.

        If that library only lies behind user code, the name is that of the function which the user
        has called: where inside of it the exception was caught is not known.
        """
        place.library = self._library(frame) or frame.f_code.co_qualname
        place.is_left_out = _is_runner(frame)
        below, back = frame, frame.f_back
        for _ in range(_FARTHEST):
            if back is None:
                return
            facts = self._table.meet(back)
            if facts is not None:
                place.facts, place.line = facts, facts.line_at(back)
                place.call = self._names.call(back)
                if not place.how:
                    is_part = id(below.f_code) in self._table.through  # a comprehension
                    place.library = "" if is_part else self._library(below) or place.library
                return
            below, back = back, back.f_back

    def _beyond(self, frame: FrameType) -> Place | None:
        """Where an exception goes that leaves a frame of user code, if nothing else is seen."""
        back = frame.f_back
        if back is None:
            return None
        place = Place(0, (id(frame.f_code), id(back.f_code)))
        facts = self._table.known.get(id(back.f_code))
        if facts is None:
            self._name(place, back)
            return place
        place.facts, place.line, place.call = facts, facts.line_at(back), self._names.call(back)
        place.is_left_out = self._is_test(back.f_code)
        return place

    def _library(self, frame: FrameType) -> str:
        return self._libraries.of_function(frame.f_code, frame.f_globals)

    def _is_test(self, code: CodeType) -> bool:
        """Whether code is the function of the test, or inside of it; wrappers have its name."""
        return any(
            code is test
            or (
                code.co_filename == test.co_filename and test.co_name in code.co_qualname.split(".")
            )
            for test in self._tests
        )

    # --- what is left behind ----------------------------------------------------------------

    def _was_seen(self, source: Source, frame: FrameType) -> bool:
        """Whether exceptions of a source have left this function often enough; counts this one."""
        key = id(frame.f_code)
        looks = source.looks.get(key, 0)
        source.looks[key] = looks + 1
        return looks >= _FIRST

    def _notice(self, flight: Flight, facts: CodeFacts, frame: FrameType, place: int) -> None:
        known = {(left.address, left.steps) for _, left in flight.left}
        for left in self._left.of(frame, place):
            if (left.address, left.steps) not in known:
                flight.left.append((facts, left))

    def _above(self, frame: FrameType) -> int:
        """The id of the frame of user code from which a frame was called."""
        back = frame.f_back
        for _ in range(_FARTHEST):
            if back is None or self._table.known.get(id(back.f_code)) is not None:
                break
            back = back.f_back
        return id(back)

    def _look_again(self, frame: FrameType, error: BaseException) -> None:
        """A frame is left by an exception: what others left behind in it is final."""
        for flight in list(self.waiting.values()):
            if flight.anchor == id(frame) and flight.error != id(error):
                self._verify(flight, frame)

    def _verify(self, flight: Flight, frame: FrameType | None) -> None:
        """Keep of what is left behind what is still so."""
        self.waiting.pop(flight.error, None)
        names = {} if frame is None or not frame.f_code.co_flags & 1 else read_aside(frame)
        flight.left = [each for each in flight.left if self._left.is_still(each[1], names)]

    # --- the end ----------------------------------------------------------------------------

    def _drop(self, flight: Flight | None) -> None:
        if flight is not None:
            self._flights.pop(flight.error, None)
            self.waiting.pop(flight.error, None)

    def _end(self, flight: Flight) -> None:
        """An exception is gone: count it where it was caught."""
        if flight.error in self.waiting:
            self._verify(flight, None)
        self._drop(flight)
        place = flight.catcher
        if place is None or place.is_left_out or self._is_protocol(flight):
            return
        key = id(flight.source), place.key
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= MOST_GROUPS:
                self._left_out += 1
                return
            group = self._groups[key] = Group(flight, place)
        group.count += 1
        if flight.moment > group.last:
            group.last = flight.moment
            group.calls = group.calls[0], place.call

    def _is_protocol(self, flight: Flight) -> bool:
        """Whether the interpreter, or what runs tasks, has caught what is meant for it."""
        if flight.handlers:
            return False
        name = layout.class_name(flight.source.kind).rpartition(".")[2]
        if name in _UNCERTAIN:
            return True
        inmost = flight.unwound[0][0].code.co_name if flight.unwound else ""
        return len(flight.unwound) == 1 and _PROTOCOLS.get(inmost) == name

    def _row(self, group: Group) -> list[Any]:
        flight, place, number = group.first, group.place, self._names.number
        source = flight.source
        caught = 0 if place.facts is None else number(place.facts)
        return [
            "caught",
            flight.text,
            flight.of,
            [number(source.facts), source.line, source.library],
            [caught, place.line, place.library, place.how, place.is_silent],
            group.count,
            group.last,
            list(group.calls),
            [[number(facts), line] for facts, line in flight.unwound],
            flight.more,
            [
                [left.name, left.value, number(facts), list(left.lines)]
                for facts, left in flight.left
            ],
        ]


def _is_runner(frame: FrameType) -> bool:
    """Whether a frame is one of the libraries that run tests."""
    module = frame.f_globals.get("__name__")
    return type(module) is str and module.partition(".")[0] in _RUNNERS
