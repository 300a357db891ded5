"""Events from `sys.monitoring`, 3.12 and later. Callbacks run on the thread of the program.

One tool id discovers code: a global PY_START that disables itself at each code object. The other
watches: local events on single code objects, which cost nothing anywhere else; raises, which are
global only.
"""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any
from typing import Final

from pytest_cideldill.sources.base import BaseSource
from pytest_cideldill.sources.events import Handlers
from pytest_cideldill.sources.events import SourceUnavailable

IDS: Final = (4, 5, 2)
"""Tool ids in the order they are tried.

Never 0: pytest-timeout then ignores every timeout. 1 is coverage's, and with 3 taken Hypothesis
gives up explaining.
"""

_NAME: Final = "pytest-cideldill"

_monitoring: Final = sys.monitoring
_DISABLE: Final = _monitoring.DISABLE
_START: Final = _monitoring.events.PY_START
_RETURN: Final = _monitoring.events.PY_RETURN
_UNWIND: Final = _monitoring.events.PY_UNWIND
_LINE: Final = _monitoring.events.LINE
_RAISE: Final = _monitoring.events.RAISE

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
        self._discovery, self._probe = _claim()
        register = _monitoring.register_callback
        if self._discovery == self._probe:
            register(self._probe, _START, self._on_only_start)
        else:
            register(self._discovery, _START, self._on_first_start)
            register(self._probe, _START, self._on_start)
        register(self._probe, _RETURN, self._on_return)
        register(self._probe, _UNWIND, self._on_unwind)
        register(self._probe, _LINE, self._on_line)
        register(self._probe, _RAISE, self._on_raise)

    def _release(self) -> None:
        for code in self._armed.copy().values():
            self._arm(code)
        self._update()
        # Freeing an id leaves its callbacks and events to the next owner: they go first.
        for tool in {self._discovery, self._probe}:
            for event in (_START, _RETURN, _UNWIND, _LINE, _RAISE):
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
                # Off and on: line events that were disabled, as nobody wanted them, come back.
                _monitoring.set_local_events(self._probe, code, wanted & ~_LINE)
                _monitoring.set_local_events(self._probe, code, wanted)
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
        for state in (self._lines, self._recorders, self._ends, self._armed):
            state.pop(key, None)

    def _update(self) -> None:
        """Lock-free as well."""
        while True:
            wanted = {self._discovery: _START if self._discovering else 0}
            unwind = _UNWIND if self._recorders and not self._closed else 0
            raises = _RAISE if self._raises is not None else 0
            wanted[self._probe] = wanted.get(self._probe, 0) | unwind | raises
            # Only what differs: each setting uses up one of 2**24 versions of the process.
            if all(_monitoring.get_events(tool) == events for tool, events in wanted.items()):
                return
            for tool, events in wanted.items():
                if _monitoring.get_events(tool) != events:
                    _monitoring.set_events(tool, events)

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

    def _on_line(self, code: CodeType, line: int) -> Any:
        __tracebackhide__ = True
        try:
            repeated = self._lines[id(code)][line]
        except KeyError:
            return _DISABLE
        frame = _getframe(1)
        if not repeated or frame.f_lasti not in repeated:
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


def _claim() -> tuple[int, int]:
    """Two tool ids, or the same one twice when no second is free."""
    taken = []
    for tool in IDS:
        try:
            _monitoring.use_tool_id(tool, _NAME)
        except ValueError:
            continue
        taken.append(tool)
        if len(taken) == 2:
            break
    if not taken:
        owners = ", ".join(f"{tool} ({_monitoring.get_tool(tool)})" for tool in IDS)
        raise SourceUnavailable(f"No tool id of sys.monitoring is free: {owners}.")
    return taken[0], taken[-1]
