"""The event source by `sys.monitoring`, for 3.12 on. Callbacks run on the thread of the program.

One tool id discovers code: a global PY_START that disables itself at each code object. The other
watches: local events on single code objects, which cost nothing anywhere else; raises, which are
global only.
"""

from __future__ import annotations

import sys
from _thread import RLock, get_ident
from collections import deque
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from itertools import chain, repeat
from operator import or_
from types import CodeType, FrameType, MethodType
from typing import Any, Final

from pytest_cideldill.sourcecode.codes import lines_of
from pytest_cideldill.tracing.engine import engine
from pytest_cideldill.tracing.event_source import BaseSource
from pytest_cideldill.tracing.interface import (
    Deliberate,
    Handlers,
    Left,
    SourceUnavailable,
    Takes,
    Trail,
)
from pytest_cideldill.tracing.tool_ids import (
    NONE,
    ORIGINAL,
    claim,
    claim_back,
    claim_instead,
    end_lending,
    is_ours,
    lend,
    owners,
)
from pytest_cideldill.tracing.trails import how_it_yields

_monitoring: Final = sys.monitoring
_set_events: Final = _monitoring.set_events
_get_events: Final = _monitoring.get_events
_set_local_events: Final = _monitoring.set_local_events
_get_local_events: Final = _monitoring.get_local_events
_register_callback: Final = _monitoring.register_callback
_restart_events: Final = _monitoring.restart_events
_run: Final = deque[None](maxlen=0).extend
_DISABLE: Final = _monitoring.DISABLE
_START: Final = _monitoring.events.PY_START
_RETURN: Final = _monitoring.events.PY_RETURN
_UNWIND: Final = _monitoring.events.PY_UNWIND
_LINE: Final = _monitoring.events.LINE
_RAISE: Final = _monitoring.events.RAISE
_YIELD: Final = _monitoring.events.PY_YIELD
_RESUME: Final = _monitoring.events.PY_RESUME
_THROW: Final = _monitoring.events.PY_THROW
_JUMP: Final = _monitoring.events.JUMP
_ALL: Final = (_START, _RETURN, _UNWIND, _LINE, _YIELD, _RESUME, _THROW, _JUMP, _RAISE)
_ANYWHERE: Final = _LINE | _JUMP | _RESUME | _RETURN
"""One of these events comes in any loop sooner or later; a loop on one line has no line events."""

# Not the attribute: a class may define its own.
_traceback_of: Final = BaseException.__dict__["__traceback__"].__get__

# Bound at import: a program may patch `sys`.
_getframe: Final = sys._getframe


class MonitoringSource(BaseSource):
    """The source of 3.12 and later, see `interface.Source`.

    `_armed` keeps the code objects alive for as long as anything is armed on them.
    """

    def __init__(self, handlers: Handlers) -> None:
        super().__init__(handlers)
        self._armed: dict[int, CodeType] = {}
        self._discovery, self._probe = claim()
        self._moving = RLock()
        # The reason why there are no ids at the moment.
        self._loss = ""
        self._on_line = line_callback(
            handlers.takes, handlers.quiet, self._on_other_line, self._judge_hit
        )
        self._register()
        lend(self)

    @property
    def engine(self) -> dict[str, str]:
        """The engine with the tool ids that are held, or the reason why there are none."""
        if self._probe == NONE:
            return {"name": "none", "why": self._loss}
        if self._discovery == self._probe:
            return engine(f"tool id {self._probe}, the only free one; ")
        return engine(f"tool ids {self._discovery} and {self._probe}; ")

    def watch_lines(
        self, code: CodeType, lines: frozenset[int], file: str | None = None
    ) -> frozenset[int]:
        """Replace the watched lines; lines can't be watched without a tool id."""
        self._need_ids(bool(lines))
        return super().watch_lines(code, lines, file)

    def follow(self, ident: int, trail: Trail | None) -> None:
        """Replace the trail of a thread; threads can't be followed without a tool id."""
        self._need_ids(trail is not None)
        super().follow(ident, trail)

    def _need_ids(self, needed: bool) -> None:
        if needed and not self._closed and not self._keeps_ids():
            raise SourceUnavailable(self._loss)

    def refresh(self) -> bool:
        """Claim tool ids again: a program may have taken ours, and given them back."""
        if self._closed:
            return False
        was_lost = self._probe == NONE
        if was_lost:
            with self._moving:
                self._move(claim_instead((NONE, NONE), NONE))
        return was_lost or not self._keeps_ids()

    def forget(self) -> None:
        """Replace the lock, and close."""
        self._moving = RLock()  # another thread of the parent may have held it
        super().forget()

    def _release(self) -> None:
        end_lending(self)
        self._move((NONE, NONE))

    # --- ids --------------------------------------------------------------------------------

    def holds(self, tool: object) -> bool:
        """Whether `tool` is one of the ids for discovery and for watching."""
        return isinstance(tool, int) and tool != NONE and tool in (self._discovery, self._probe)

    def leave(self, tool: int) -> None:
        """Move to other ids; if none is free, report that nothing is watched."""
        with self._moving:
            if self._closed or not self.holds(tool):
                return
            self._move(claim_instead((self._discovery, self._probe), tool))
            if self._probe != NONE:
                return
            self._loss = (
                f"The program takes tool id {tool} of sys.monitoring, and the others are taken "
                f"({owners()}): lines, calls and exceptions are not watched until an id is free "
                "at the start of a test. Let fewer tools watch at the same time."
            )
        self._handlers.on_failure(self._loss)

    def _keeps_ids(self) -> bool:
        """Whether we hold any ids; leaves those that another tool has taken without notice."""
        for tool in {self._discovery, self._probe} - {NONE}:
            if not is_ours(tool):
                self.leave(tool)
        return self._probe != NONE

    def _move(self, now: tuple[int, int]) -> None:
        """Go on with other ids, which were claimed, or with `NONE`.

        The step itself is one call of C, so other threads miss no event and get none twice. If they
        arm afterwards, they look up the new ids in one call, too.
        """
        before = (self._discovery, self._probe)
        left = {*before} - {*now, NONE}
        ours = {tool for tool in left if claim_back(tool)}
        moved = [(old, new) for old, new in zip(before, now, strict=True) if old != new]
        callbacks = {} if NONE in now else self._callbacks(is_single=now[0] == now[1])
        first = (self._on_first_start,) if callbacks else ()
        registered: dict[int, list[Any]] = {tool: [] for tool in ours}
        steps: tuple[Iterable[Any], ...] = (
            map(setattr, repeat(self), ("_discovery", "_probe"), now),
            # Discovery first: with a single id the others are right.
            map(_register_callback, now, (_START,), first),
            map(_register_callback, repeat(now[1]), callbacks, callbacks.values()),
            *(self._copied(*each) for each in moved if NONE not in each),
            *(self._vacated(*item) for item in registered.items()),
        )
        _run(chain.from_iterable(steps))
        _restart_events()  # events that were disabled stay disabled for the next owner
        for tool, held in registered.items():
            self._restore(tool, held)
        for tool in left - ours:
            self._withdraw(tool)
        if NONE not in now:
            self._register()
            for code in self._armed.copy().values():
                self._arm(code)
            self._update()

    def _codes(self) -> Iterable[CodeType]:
        """The code objects that are armed when C code reads this iterable."""
        return chain.from_iterable(map(dict.values, (self._armed,)))

    def _copied(self, old: int, new: int) -> Iterable[object]:
        """An iterable that copies the events of one id to another when it is read."""
        local = map(
            or_,
            map(_get_local_events, repeat(old), self._codes()),
            map(_get_local_events, repeat(new), self._codes()),
        )
        everywhere = map(or_, map(_get_events, (old,)), map(_get_events, (new,)))
        return chain(
            map(_set_local_events, repeat(new), self._codes(), local),
            map(_set_events, (new,), everywhere),
        )

    def _vacated(self, tool: int, registered: list[Any]) -> Iterable[object]:
        """An iterable that frees an id when it is read; the id's callbacks are put into the list.

        A freed id keeps callbacks and events for its next owner, so they are removed first.
        """
        return chain(
            map(_set_local_events, repeat(tool), self._codes(), repeat(0)),
            map(_set_events, (tool,), (0,)),
            map(registered.extend, (map(_register_callback, repeat(tool), _ALL, repeat(None)),)),
            map(ORIGINAL.free_tool_id, (tool,)),
        )

    def _withdraw(self, tool: int) -> None:
        """Remove our events and callbacks from an id that belongs to another tool by now."""
        registered = [_register_callback(tool, event, None) for event in _ALL]
        theirs = self._restore(tool, registered)
        ours = sum(_ALL) & ~theirs
        with suppress(ValueError):  # freed meanwhile
            _set_events(tool, _get_events(tool) & ~ours)
            for code in self._armed.copy().values():
                _set_local_events(tool, code, _get_local_events(tool, code) & ~ours)

    def _restore(self, tool: int, registered: list[Any]) -> int:
        """Register the program's callbacks again; returns their events."""
        events = 0
        for event, held in zip(_ALL, registered, strict=True):
            is_ours = type(held) is MethodType and held.__self__ is self
            if held is not None and held is not self._on_line and not is_ours:
                _register_callback(tool, event, held)
                events |= event
        return events

    def _with(self, role: str, function: Callable[..., Any], *columns: Iterable[object]) -> bool:
        """Call a function with the id of a role for each row; False if the id is not ours now."""
        calls: Iterable[Any] = map(function, map(getattr, repeat(self), repeat(role)), *columns)
        try:
            _run(calls)
        except ValueError:
            return False
        return True

    # --- arming -----------------------------------------------------------------------------

    def _wanted(self, code: CodeType) -> int:
        key = id(code)
        events = 0
        if self._closed:
            return events
        lines = self._lines.get(key)
        if lines:
            events |= _LINE
            # 3.13 has no line event for code on the line of its `def` or `lambda` unless the same
            # tool gets PY_START there (python/cpython#155992).
            if code.co_firstlineno in lines:
                events |= _START
        if key in self._recorders:
            events |= _START | _RETURN
        if key in self._ends:
            events |= _RETURN
        if self._trails.threads and (trails := self._trails.on(code)):
            events |= _RETURN | _YIELD
            if any(trail.lines for trail in trails):
                events |= _LINE | (_START if code.co_firstlineno in lines_of(code) else 0)
        return events

    def _arm(self, code: CodeType) -> None:
        """Set the local events. Takes no lock: each thread looks again after it has armed."""
        key = id(code)
        while True:
            wanted = self._wanted(code)
            if wanted:
                self._armed[key] = code
            elif key not in self._armed:
                return
            if not self._keeps_ids():
                if not wanted:
                    self._armed.pop(key, None)
                return
            try:
                # Off and on, so that line events come back that were disabled because no line was
                # watched. In one call of C: between two calls other threads would pass lines
                # unseen.
                off_and_on = (wanted & ~_LINE, wanted)
                is_set = self._with("_probe", _set_local_events, (code, code), off_and_on)
            except SystemError as error:  # code made by C (Cython) has no instructions
                self._drop(key)
                self._update()
                raise SourceUnavailable(f"{code.co_qualname} can't be watched: {error}.") from error
            if self._discovery == self._probe and wanted & _START:
                _restart_events()  # our own discovery has disabled PY_START there
            if not wanted:
                self._armed.pop(key, None)
            if is_set and self._wanted(code) == wanted:
                break
        self._update()

    def _drop(self, key: int) -> None:
        for state in (self._lines, self._ran, self._recorders, self._ends, self._armed):
            state.pop(key, None)

    def _update(self) -> None:
        """Set the global events of our ids where they differ. Takes no lock either."""
        while self._keeps_ids():
            start = _START if self._discovering else 0
            wanted = {"_discovery": start, "_probe": self._wanted_of_all()}
            if self._discovery == self._probe:
                wanted = dict.fromkeys(wanted, start | wanted["_probe"])
            # Set only if it differs: each setting uses up one of 2**24 versions of the process.
            differing = {
                role: events
                for role, events in wanted.items()
                if (tool := getattr(self, role)) != NONE and _get_events(tool) != events
            }
            if not differing:
                return
            for role, events in differing.items():
                self._with(role, _set_events, (events,))
            if self._discovery == self._probe and self._trails.want_starts:
                _restart_events()  # our own discovery has disabled PY_START

    def _wanted_of_all(self) -> int:
        """The events that are wanted of all code, except those for discovery."""
        if self._closed:
            return 0
        events: int = _UNWIND if self._recorders else 0
        events |= _RAISE if self._raises is not None else 0
        if self._trails.threads:
            events |= _UNWIND
            events |= _START | _RESUME | _THROW if self._trails.want_starts else 0
            events |= _ANYWHERE if self._trails.want_all else 0
        return events

    def _follow(self, _ident: int, before: Trail | None, now: Trail | None) -> None:
        self._register()
        for trail in (before, now):
            if trail is not None and trail.frame is not None:
                self._arm(trail.frame.f_code)
        self._update()

    def _register(self) -> None:
        """Register the callbacks; while a thread is followed they are others than usual."""
        while True:
            follows = bool(self._trails.threads)
            is_single = self._discovery == self._probe
            callbacks = self._callbacks(is_single=is_single)
            self._with("_probe", _register_callback, callbacks, callbacks.values())
            if not is_single:
                self._with("_discovery", _register_callback, (_START,), (self._on_first_start,))
            if (bool(self._trails.threads), self._discovery == self._probe) == (follows, is_single):
                return

    def _callbacks(self, *, is_single: bool) -> dict[int, Callable[..., Any] | None]:
        """Event → the callback for the id that watches."""
        follows = bool(self._trails.threads)
        start = self._on_only_start if is_single else self._on_start
        return {
            _START: self._on_start_followed if follows else start,
            _RETURN: self._on_return_followed if follows else self._on_return,
            _UNWIND: self._on_unwind_followed if follows else self._on_unwind,
            _LINE: self._on_line_followed if follows else self._on_line,
            _YIELD: self._on_yield if follows else None,
            _RESUME: self._on_resume if follows else None,
            _THROW: self._on_throw if follows else None,
            _JUMP: self._on_jump if follows else None,
            _RAISE: self._on_raise,
        }

    # --- callbacks --------------------------------------------------------------------------

    def _on_first_start(self, code: CodeType, _offset: int) -> Any:
        __tracebackhide__ = True
        self._offer(code, _getframe(1))
        return _DISABLE

    def _on_only_start(self, code: CodeType, _offset: int) -> Any:
        """Serve both uses of PY_START, if only one tool id was free."""
        __tracebackhide__ = True
        if self._discovering and self._seen.is_new(code):
            self._offer(code, _getframe(1))
        if not self._wanted(code) & _START:
            return _DISABLE
        recorder = self._recorders.get(id(code))
        return None if recorder is None else self._calls.begin(recorder, _getframe(1))

    def _on_start(self, code: CodeType, _offset: int) -> None:
        __tracebackhide__ = True
        recorder = self._recorders.get(id(code))
        if recorder is not None:
            self._calls.begin(recorder, _getframe(1))

    def _on_return(self, code: CodeType, _offset: int, result: object) -> None:
        __tracebackhide__ = True
        key = id(code)
        if key in self._ends:
            self._ended(code, _getframe(1))
        if key in self._recorders:
            self._calls.end(_getframe(1), result, None)

    def _on_unwind(self, code: CodeType, _offset: int, error: BaseException) -> None:
        __tracebackhide__ = True
        if id(code) in self._recorders:  # global: it comes from all code
            self._calls.end(_getframe(1), None, error)

    def _on_other_line(self, code: CodeType, line: int, frame: FrameType) -> Any:
        """Handle a line that is not watched, or that no function of `takes` handles."""
        __tracebackhide__ = True
        repeated = self._lines.get(id(code), {}).get(line)
        if repeated is None:
            return _DISABLE if self._passes_by(id(code), line) else None
        if frame.f_lasti not in repeated:
            self._hit(frame, line)
        return None

    def _on_raise(self, code: CodeType, _offset: int, error: BaseException) -> None:
        __tracebackhide__ = True
        raises = self._raises
        try:
            if raises is None or not raises.wants(type(error)):
                return
        except BaseException as failure:
            if self._judge_raises(failure, code):
                raise
            return
        self._emit_raise(_getframe(1), error, _traceback_of(error))

    # --- callbacks while a thread is followed; nothing is disabled ------------------------------

    def _on_start_followed(self, code: CodeType, _offset: int) -> None:
        __tracebackhide__ = True
        frame = _getframe(1)
        if self._discovery == self._probe and self._discovering and self._seen.is_new(code):
            self._offer(code, frame)
        recorder = self._recorders.get(id(code))
        if recorder is not None:
            self._calls.begin(recorder, frame)
        trail = self._trails.mine()
        if trail is not None:
            self._trails.start(trail, frame)

    def _on_resume(self, _code: CodeType, _offset: int) -> None:
        __tracebackhide__ = True
        trail, frame = self._trails.mine(), _getframe(1)
        if trail is not None and trail.anywhere:
            self._trails.line(trail, frame, frame.f_lineno)
        elif trail is not None:
            self._trails.start(trail, frame)

    def _on_throw(self, _code: CodeType, _offset: int, _error: BaseException) -> None:
        __tracebackhide__ = True
        trail = self._trails.mine()
        if trail is not None:
            self._trails.start(trail, _getframe(1))

    def _on_jump(self, _code: CodeType, _offset: int, _target: int) -> None:
        __tracebackhide__ = True
        trail, frame = self._trails.mine(), _getframe(1)
        if trail is not None and trail.anywhere:
            self._trails.line(trail, frame, frame.f_lineno)

    def _on_return_followed(self, code: CodeType, _offset: int, result: object) -> None:
        __tracebackhide__ = True
        frame = _getframe(1)
        key = id(code)
        if key in self._ends:
            self._ended(code, frame)
        if key in self._recorders:
            self._calls.end(frame, result, None)
        self._leaves(frame, Left.RETURN)

    def _on_yield(self, code: CodeType, _offset: int, value: object) -> None:
        __tracebackhide__ = True
        self._leaves(_getframe(1), how_it_yields(code, value))

    def _on_unwind_followed(self, code: CodeType, _offset: int, error: BaseException) -> None:
        __tracebackhide__ = True
        frame = _getframe(1)
        if id(code) in self._recorders:
            self._calls.end(frame, None, error)
        self._leaves(frame, Left.UNWIND)

    def _leaves(self, frame: FrameType, left: Left) -> None:
        __tracebackhide__ = True
        trail = self._trails.mine()
        if trail is not None and trail.anywhere and left is Left.RETURN:
            self._trails.line(trail, frame, frame.f_lineno)
        elif trail is not None and trail.frame is frame:
            self._trails.leave(trail, frame, left)

    def _on_line_followed(self, code: CodeType, line: int) -> None:
        __tracebackhide__ = True
        trail, frame = self._trails.mine(), _getframe(1)
        repeated = self._lines.get(id(code), {}).get(line)
        if repeated is None:
            self._passes_by(id(code), line)
        elif frame.f_lasti not in repeated:
            self._hit(frame, line)
        self._trails.line(trail, frame, line)


# --- the callback of lines ----------------------------------------------------------------------


def line_callback(
    takes: Takes,
    quiet: Collection[int],
    other_line: Callable[[CodeType, int, FrameType], Any],
    is_theirs: Callable[[BaseException, FrameType, int], bool],
) -> Callable[[CodeType, int], Any]:
    """The callback for `LINE`: as short a path as there is, on the thread that passes the line.

    It is a closure, as a method would look up each attribute of the source at every line.

    Args:
        takes: The functions that handle watched lines.
        quiet: The threads that evaluate for us.
        other_line: Called at a line for which `takes` has no function.
        is_theirs: Whether an exception that `take` raised at a line belongs to the program.
    """
    getframe, ident, key = sys._getframe, get_ident, id

    def on_line(code: CodeType, line: int) -> Any:
        __tracebackhide__ = True
        try:
            watched = takes[key(code)][line]
        except KeyError:
            watched = None
        frame = getframe(1)
        if watched is None:  # not above: there the KeyError would be the context of exceptions
            return other_line(code, line, frame)
        repeated, take = watched
        if repeated and frame.f_lasti in repeated:
            return None
        if quiet and ident() in quiet:
            return None
        try:
            take(frame)
        except Deliberate as wanted:
            error = wanted.error
        except BaseException as failure:
            if is_theirs(failure, frame, line):
                raise
            return None
        else:
            return None
        raise error

    return on_line
