"""Feeds a watch through `sys.monitoring`: from 3.12 on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType
from typing import Any, Final

from pytest_cideldill.calltraces.feed import Fail
from pytest_cideldill.calltraces.tool import OF_FRAMES, MonitoringTool
from pytest_cideldill.calltraces.user_code import CodeTable
from pytest_cideldill.interpreter.running import running_frames
from pytest_cideldill.watching.recorder import WatchRecorder

_monitoring: Final = sys.monitoring
_EVENTS: Final = _monitoring.events
_DISABLE: Final = _monitoring.DISABLE
_UNKNOWN: Final = object()


class MonitoringFeed:
    """A `WatchFeed` that owns a tool id while tests are watched.

    Raises:
        SourceUnavailable: No id is free.
    """

    def __init__(self, recorder: WatchRecorder, table: CodeTable, fail: Fail) -> None:
        self._recorder, self._table, self._fail = recorder, table, fail
        self._is_on = self._is_armed = False
        callbacks = self._beginnings() | self._thrown() | self._inside()
        self._tool = MonitoringTool(callbacks, self._events, lambda _: _EVENTS.LINE)

    def start(self) -> None:
        self._is_on = True
        self._tool.update()
        _monitoring.restart_events()

    def stop(self) -> None:
        if not self._is_armed:
            self._is_on = False
            self._tool.update()

    def arm(self) -> None:
        self._is_armed = True
        for frame in running_frames():
            if self._table.meet(frame) is not None:
                self._tool.arm(frame.f_code)
        for facts in list(self._table.known.values()):
            if facts is not None:
                self._tool.arm(facts.code)
        self._tool.update()
        _monitoring.restart_events()

    def disarm(self) -> None:
        self._is_armed = False
        self._tool.disarm()
        self._tool.update()

    def abandon(self) -> None:
        self._recorder.forget()
        self._is_on = False
        self.disarm()

    def close(self) -> None:
        """Give the id back."""
        self.abandon()
        self._tool.close()

    def _events(self) -> int:
        if self._is_armed:
            return OF_FRAMES
        return _EVENTS.PY_START if self._is_on and self._recorder.wants_calls else 0

    # --- callbacks: closures, as attributes would be looked up at every event ---------------------
    # Each drops an overflow, see `feed.Fail`.

    def _beginnings(self) -> dict[int, Callable[..., Any]]:
        recorder, table, fail, quiet = self._recorder, self._table, self._fail, self._recorder.quiet
        find, getframe, key = table.known.get, sys._getframe, id

        def on_start(code: CodeType, _offset: int) -> Any:
            __tracebackhide__ = True
            frame = getframe(1)
            try:
                facts: Any = find(key(code), _UNKNOWN)
                if facts is _UNKNOWN:
                    facts = table.meet(frame)
                    if facts is not None and self._is_armed:
                        self._tool.arm(code)
                if facts is None:
                    return _DISABLE
                if quiet and recorder.is_quiet():
                    return None
                watch = recorder.watch
                if watch is not None:
                    watch.starts(frame)
                elif recorder.wants_calls and facts.matches:
                    recorder.calls(facts, frame)
                    if recorder.watch is not None:
                        recorder.watch.starts(frame)
                else:
                    return _DISABLE
            except RecursionError:
                pass
            except BaseException as error:
                if fail(error):
                    raise
            return None

        def on_resume(code: CodeType, _offset: int) -> Any:
            __tracebackhide__ = True
            frame = getframe(1)
            try:
                facts = table.meet(frame)
                if facts is None:
                    return _DISABLE
                watch = recorder.watch
                if watch is not None and not self._tool.is_armed(code):
                    self._tool.arm(code)  # it has begun before
                if watch is not None and not (quiet and recorder.is_quiet()):
                    watch.goes_on(facts, frame)
            except RecursionError:
                pass
            except BaseException as error:
                if fail(error):
                    raise
            return None

        return {_EVENTS.PY_START: on_start, _EVENTS.PY_RESUME: on_resume}

    def _thrown(self) -> dict[int, Callable[..., Any]]:
        recorder, table, fail, getframe = self._recorder, self._table, self._fail, sys._getframe

        def on_throw(_code: CodeType, _offset: int, _thrown: BaseException) -> None:
            __tracebackhide__ = True
            frame = getframe(1)
            try:
                facts = table.meet(frame)
                watch = recorder.watch
                if facts is not None and watch is not None and not recorder.is_quiet():
                    watch.goes_on(facts, frame)
            except RecursionError:
                pass
            except BaseException as error:
                if fail(error):
                    raise

        return {_EVENTS.PY_THROW: on_throw}

    def _inside(self) -> dict[int, Callable[..., Any]]:
        recorder, table, fail, quiet = self._recorder, self._table, self._fail, self._recorder.quiet
        find, getframe, key = table.known.get, sys._getframe, id

        def on_line(_code: CodeType, line: int) -> None:
            __tracebackhide__ = True
            frame = getframe(1)
            try:
                watch = recorder.watch
                if watch is not None and not (quiet and recorder.is_quiet()):
                    watch.line(frame, line)
            except RecursionError:
                pass
            except BaseException as error:
                if fail(error):
                    raise

        def leaves(code: CodeType, frame: Any, *, is_over: bool) -> Any:
            __tracebackhide__ = True
            try:
                if find(key(code)) is None:
                    return None if table.meet(frame) is not None else _DISABLE
                watch = recorder.watch
                if watch is not None and not (quiet and recorder.is_quiet()):
                    watch.leaves(frame, is_over=is_over)
            except RecursionError:
                pass
            except BaseException as error:
                if fail(error):
                    raise
            return None

        def on_return(code: CodeType, _offset: int, _value: object) -> Any:
            __tracebackhide__ = True
            return leaves(code, getframe(1), is_over=True)

        def on_yield(code: CodeType, _offset: int, _value: object) -> Any:
            __tracebackhide__ = True
            return leaves(code, getframe(1), is_over=False)

        def on_unwind(code: CodeType, _offset: int, _thrown: BaseException) -> None:
            __tracebackhide__ = True
            leaves(code, getframe(1), is_over=True)

        return {
            _EVENTS.LINE: on_line,
            _EVENTS.PY_RETURN: on_return,
            _EVENTS.PY_YIELD: on_yield,
            _EVENTS.PY_UNWIND: on_unwind,
        }
