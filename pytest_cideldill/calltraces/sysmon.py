"""Feeds a recorder through `sys.monitoring`: from 3.12 on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, Final

from pytest_cideldill.calltraces.caught import CaughtRecorder
from pytest_cideldill.calltraces.feed import Fail, Feed
from pytest_cideldill.calltraces.libraries import Libraries
from pytest_cideldill.calltraces.recorder import CallRecorder
from pytest_cideldill.calltraces.starts import Starts
from pytest_cideldill.calltraces.tool import OF_FRAMES, MonitoringTool
from pytest_cideldill.calltraces.user_code import CodeFacts, CodeTable

_monitoring: Final = sys.monitoring
_EVENTS: Final = _monitoring.events
_DISABLE: Final = _monitoring.DISABLE
_UNKNOWN: Final = object()


class MonitoringFeed(Feed):
    """Owns a tool id while tests are recorded.

    Raises:
        SourceUnavailable: No id is free.
    """

    def __init__(
        self,
        recorder: CallRecorder,
        table: CodeTable,
        libraries: Libraries,
        fail: Fail,
        starts: Starts | None = None,
    ) -> None:
        super().__init__(recorder, table, libraries, fail, starts)
        self._is_on = False
        callbacks = self._beginnings() | self._endings() | self._inside()
        if recorder.caught is not None:
            callbacks |= self._exceptions(recorder.caught)
        self._tool = MonitoringTool(callbacks, self._events, self._local_events)

    def start(self) -> None:
        self._is_on = True
        self._tool.update()
        self.renew()

    def renew(self) -> None:
        # Other tools get what they switched off, too: as in each phase of a test.
        _monitoring.restart_events()

    def stop(self) -> None:
        self._is_on = False
        self._tool.update()

    def close(self) -> None:
        """Give the id back."""
        self._is_on = False
        self._tool.close()

    def watch_lines(self, code: CodeType, *, wanted: bool) -> None:
        super().watch_lines(code, wanted=wanted)
        self._tool.arm(code)
        self._tool.update()

    def _events(self) -> int:
        """The events that are wanted everywhere."""
        if not self._is_on:
            return 0
        if self._recorder.caught is not None:
            return OF_FRAMES | _EVENTS.RAISE | _EVENTS.RERAISE
        return OF_FRAMES if self._recorder.chosen is None else OF_FRAMES | _EVENTS.RAISE

    def _local_events(self, code: CodeType) -> int:
        is_noted = self._lines is not None and id(code) in self._lines.owners
        events = _EVENTS.LINE if is_noted or id(code) in self._lined else 0
        return events | (_EVENTS.CALL if self._recorder.wants_libraries else 0)

    # --- callbacks --------------------------------------------------------------------------
    # Closures, as attributes would be looked up at every event; and each has its own border, as one
    # around all of them would be one more call. An overflow is dropped there, see `feed.Fail`.

    def _beginnings(self) -> dict[int, Callable[..., Any]]:
        """Of frames that begin or go on."""
        recorder, table, fail = self._recorder, self._table, self._fail
        find, getframe, key = table.known.get, sys._getframe, id
        has_lines, met = self._lines is not None, self._met
        begin: Callable[[CodeFacts, FrameType], None] = recorder.begin
        if recorder.caught is not None:
            begin = recorder.caught.before_begin(begin)

        def on_start(code: CodeType, _offset: int) -> Any:
            __tracebackhide__ = True
            frame = getframe(1)
            try:
                facts: Any = find(key(code), _UNKNOWN)
                if facts is _UNKNOWN:
                    facts = table.meet(frame)
                    if facts is not None and recorder.wants_libraries:
                        self._tool.arm(code)
                if has_lines and key(code) not in met and self._meet(code, facts):
                    self._tool.arm(code)
                if facts is None:
                    return _DISABLE
                begin(facts, frame)
            except RecursionError:
                pass
            except BaseException as error:
                if fail(error):
                    raise
            return None

        def on_resume(code: CodeType, _offset: int) -> Any:
            __tracebackhide__ = True
            try:
                if find(key(code)) is None:
                    return _DISABLE
                recorder.resumed(getframe(1), None)
            except RecursionError:
                pass
            except BaseException as error:
                if fail(error):
                    raise
            return None

        def on_throw(code: CodeType, _offset: int, thrown: BaseException) -> None:
            __tracebackhide__ = True
            try:
                if find(key(code)) is not None:
                    recorder.resumed(getframe(1), thrown)
            except RecursionError:
                pass
            except BaseException as error:
                if fail(error):
                    raise

        return {
            _EVENTS.PY_START: on_start,
            _EVENTS.PY_RESUME: on_resume,
            _EVENTS.PY_THROW: on_throw,
        }

    def _endings(self) -> dict[int, Callable[..., Any]]:
        """Of frames that are left, for now or for good."""
        recorder, fail, find = self._recorder, self._fail, self._table.known.get
        active, getframe, key = recorder.active, sys._getframe, id
        returned: Callable[[FrameType, object], None] = recorder.returned
        yielded: Callable[[FrameType, object], None] = recorder.yielded
        if (caught := recorder.caught) is not None:
            returned = caught.before_end(returned)
            yielded = caught.before_end(yielded)

        def leaving(leave: Callable[[FrameType, object], None]) -> Callable[..., Any]:
            def on_leave(code: CodeType, _offset: int, value: object) -> Any:
                __tracebackhide__ = True
                frame = getframe(1)
                try:
                    if key(frame) not in active:
                        return None if find(key(code)) is not None else _DISABLE
                    leave(frame, value)
                except RecursionError:
                    pass
                except BaseException as error:
                    if fail(error):
                        raise
                return None

            return on_leave

        def on_unwind(_code: CodeType, _offset: int, thrown: BaseException) -> None:
            __tracebackhide__ = True
            frame = getframe(1)
            try:
                if key(frame) in active:
                    recorder.unwound(frame, thrown)
            except RecursionError:
                pass
            except BaseException as error:
                if fail(error):
                    raise

        return {
            _EVENTS.PY_RETURN: leaving(returned),
            _EVENTS.PY_YIELD: leaving(yielded),
            _EVENTS.PY_UNWIND: on_unwind,
        }

    def _inside(self) -> dict[int, Callable[..., Any]]:
        """Of lines, exceptions and calls."""
        recorder, fail, name_of = self._recorder, self._fail, self._libraries.name
        find, noted = self._table.known.get, self._lines
        active, counts, getframe, key = recorder.active, recorder.counts_lines, sys._getframe, id

        def on_line(code: CodeType, line: int) -> Any:
            __tracebackhide__ = True
            frame = getframe(1)
            try:
                chosen = recorder.chosen
                if chosen is not None and chosen.frame_id == key(frame):
                    chosen.line(frame, line)
                if counts:
                    recorder.count_line(frame, line)
                if noted is not None and noted.begins(code, line, frame):
                    facts = find(key(code))  # each pass over a line of the asked function counts
                    return _DISABLE if facts is None or not facts.matches else None
            except RecursionError:
                pass
            except BaseException as error:
                if fail(error):
                    raise
            return None

        def on_raise(_code: CodeType, _offset: int, thrown: BaseException) -> None:
            __tracebackhide__ = True
            try:
                recorder.raises(getframe(1), thrown)
            except RecursionError:
                pass
            except BaseException as error:
                if fail(error):
                    raise

        def on_call(_code: CodeType, _offset: int, called: object, _first: object) -> Any:
            __tracebackhide__ = True
            try:
                if type(called) is FunctionType and find(key(called.__code__)) is not None:
                    return None  # it has a call of its own; the most frequent case
                frame = getframe(1)
                if key(frame) not in active:
                    return None
                name = name_of(called)
                if name:
                    recorder.library(frame, name)
                elif type(called) is not FunctionType and type(called) is not MethodType:
                    return _DISABLE  # `len`, a method of a builtin type
            except RecursionError:
                pass
            except BaseException as error:
                if fail(error):
                    raise
            return None

        return {_EVENTS.LINE: on_line, _EVENTS.RAISE: on_raise, _EVENTS.CALL: on_call}

    def _exceptions(self, caught: CaughtRecorder) -> dict[int, Callable[..., Any]]:
        """Of exceptions, in all frames."""
        recorder, fail, getframe, key = self._recorder, self._fail, sys._getframe, id
        raised, reraised, unwound = caught.raised, caught.reraised, caught.unwound
        active, lost = recorder.active, caught.lost

        def on_raise(_code: CodeType, offset: int, thrown: BaseException) -> None:
            __tracebackhide__ = True
            try:
                frame = getframe(1)
                recorder.raises(frame, thrown)
                raised(frame, offset, thrown)
            except RecursionError:
                lost.add(key(thrown))
            except BaseException as error:
                if fail(error):
                    raise

        def on_reraise(_code: CodeType, offset: int, thrown: BaseException) -> None:
            __tracebackhide__ = True
            try:
                reraised(getframe(1), offset, thrown)
            except RecursionError:
                lost.add(key(thrown))
            except BaseException as error:
                if fail(error):
                    raise

        def on_unwind(_code: CodeType, _offset: int, thrown: BaseException) -> None:
            __tracebackhide__ = True
            frame = getframe(1)
            try:
                unwound(frame, thrown)
                if key(frame) in active:
                    recorder.unwound(frame, thrown)
            except RecursionError:
                lost.add(key(thrown))
            except BaseException as error:
                if fail(error):
                    raise

        return {
            _EVENTS.RAISE: on_raise,
            _EVENTS.RERAISE: on_reraise,
            _EVENTS.PY_UNWIND: on_unwind,
        }
