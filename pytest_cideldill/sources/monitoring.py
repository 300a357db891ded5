"""Events from `sys.monitoring`, 3.12 and later. Callbacks run on the thread of the program.

One tool id discovers code: a global PY_START that disables itself at each code object. The other
watches: local events on single code objects, which cost nothing anywhere else; raises, which are
global only.
"""

from __future__ import annotations

import sys
from collections import deque
from types import CodeType
from types import FrameType
from typing import Any
from typing import Final

from pytest_cideldill.sources.base import BaseSource
from pytest_cideldill.sources.engine import engine
from pytest_cideldill.sources.events import Handlers
from pytest_cideldill.sources.events import SourceUnavailable
from pytest_cideldill.sources.linecall import line_callback
from pytest_cideldill.sources.toolids import claim
from pytest_cideldill.sources.trail import Left
from pytest_cideldill.sources.trail import Trail
from pytest_cideldill.sources.trails import how_it_yields
from pytest_cideldill.syntax.codes import lines_of

_monitoring: Final = sys.monitoring
_set_local_events: Final = _monitoring.set_local_events
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
"""What a loop of any kind gives sooner or later: one on a single line has no line events."""

# Not the attribute: a class may define its own.
_traceback_of: Final = BaseException.__dict__["__traceback__"].__get__

# Bound at import: a program may patch `sys`.
_getframe: Final = sys._getframe


class MonitoringSource(BaseSource):
    """See `events.Source`: a program can't remove it, so there is nothing to refresh.

    `_armed` keeps the code objects alive for as long as anything is armed on them.
    """

    def __init__(self, handlers: Handlers) -> None:
        super().__init__(handlers)
        self._armed: dict[int, CodeType] = {}
        self._discovery, self._probe = claim()
        self._on_line = line_callback(
            handlers.takes, handlers.quiet, self._on_other_line, self._judge_hit
        )
        if self._discovery != self._probe:
            _monitoring.register_callback(self._discovery, _START, self._on_first_start)
        _monitoring.register_callback(self._probe, _RAISE, self._on_raise)
        self._register()

    @property
    def engine(self) -> dict[str, str]:
        """See `Source`."""
        if self._discovery == self._probe:
            return engine(f"tool id {self._probe}, the only free one; ")
        return engine(f"tool ids {self._discovery} and {self._probe}; ")

    def _release(self) -> None:
        for code in self._armed.copy().values():
            self._arm(code)
        self._update()
        # Freeing an id leaves its callbacks and events to the next owner: they go first.
        for tool in {self._discovery, self._probe}:
            for event in _ALL:
                _monitoring.register_callback(tool, event, None)
            _monitoring.free_tool_id(tool)

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
            if any(each.lines for each in trails):
                events |= _LINE | (_START if code.co_firstlineno in lines_of(code) else 0)
        return events

    def _arm(self, code: CodeType) -> None:
        """Lock-free: who arms last looks again afterwards."""
        key = id(code)
        while True:
            wanted = self._wanted(code)
            if wanted:
                self._armed[key] = code
            elif key not in self._armed:
                return
            try:
                # Off and on: line events that were disabled, as nobody wanted them, come back. In
                # one call of C: another thread that came between would pass lines unseen.
                off_and_on = (wanted & ~_LINE, wanted)
                _run(map(_set_local_events, (self._probe,) * 2, (code,) * 2, off_and_on))
            except SystemError as error:  # code made by C (Cython) has no instructions
                self._drop(key)
                self._update()
                raise SourceUnavailable(f"{code.co_qualname} can't be watched: {error}.") from error
            if self._discovery == self._probe and wanted & _START:
                _monitoring.restart_events()  # our own discovery has disabled PY_START there
            if not wanted:
                self._armed.pop(key, None)
            if self._wanted(code) == wanted:
                break
        self._update()

    def _drop(self, key: int) -> None:
        for state in (self._lines, self._ran, self._recorders, self._ends, self._armed):
            state.pop(key, None)

    def _update(self) -> None:
        """Lock-free as well."""
        while True:
            wanted = {self._discovery: _START if self._discovering else 0}
            wanted[self._probe] = wanted.get(self._probe, 0) | self._wanted_of_all()
            # Only what differs: each setting uses up one of 2**24 versions of the process.
            if all(_monitoring.get_events(tool) == events for tool, events in wanted.items()):
                return
            for tool, events in wanted.items():
                if _monitoring.get_events(tool) != events:
                    _monitoring.set_events(tool, events)
            if self._discovery == self._probe and self._trails.want_starts:
                _monitoring.restart_events()  # our own discovery has disabled PY_START

    def _wanted_of_all(self) -> int:
        """What is wanted of all code, discovery aside."""
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
        """Other callbacks while a thread is followed: those for every day have no test for it."""
        single = self._discovery == self._probe
        while True:
            follows = bool(self._trails.threads)
            start = self._on_only_start if single else self._on_start
            usual = {
                _START: self._on_start_followed if follows else start,
                _RETURN: self._on_return_followed if follows else self._on_return,
                _UNWIND: self._on_unwind_followed if follows else self._on_unwind,
                _LINE: self._on_line_followed if follows else self._on_line,
                _YIELD: self._on_yield if follows else None,
                _RESUME: self._on_resume if follows else None,
                _THROW: self._on_throw if follows else None,
                _JUMP: self._on_jump if follows else None,
            }
            for event, callback in usual.items():
                _monitoring.register_callback(self._probe, event, callback)
            if bool(self._trails.threads) == follows:
                return

    # --- callbacks --------------------------------------------------------------------------

    def _on_first_start(self, code: CodeType, _offset: int) -> Any:
        __tracebackhide__ = True
        self._offer(code, _getframe(1))
        return _DISABLE

    def _on_only_start(self, code: CodeType, _offset: int) -> Any:
        """Both uses of PY_START, when only one tool id was free."""
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
        """One that nobody watches, or that nobody takes by itself."""
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
        self._tell_raise(_getframe(1), error, _traceback_of(error))

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
