"""Tells which user code starts, through `sys.monitoring`: from 3.12 on.

Two tool ids. One discovers code: a global event that switches itself off at each code object. The
other watches the user's functions alone, by local events that switch themselves off as well, and
are armed again for the functions that a test has started: `restart_events` would let each code
object of pytest and of libraries report again, in each test and to each tool.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import CodeType
from typing import Any, Final

from pytest_cideldill.calltraces.starts import Fail, Starts, StartSource
from pytest_cideldill.tracing.tool_ids import (
    NONE,
    ORIGINAL,
    claim,
    claim_instead,
    end_lending,
    lend,
)

_monitoring: Final = sys.monitoring
_START: Final = _monitoring.events.PY_START
_DISABLE: Final = _monitoring.DISABLE
_UNKNOWN: Final = object()
_set_local_events: Final = _monitoring.set_local_events


class MonitoringStarts(StartSource):
    """Owns the tool ids from the end of the collection on.

    With a single id functions are not switched off: a function that is called much costs time.

    Raises:
        SourceUnavailable: No id is free.
    """

    def __init__(self, starts: Starts, fail: Fail) -> None:
        super().__init__(starts, fail)
        self._armed: dict[int, CodeType] = {}
        self._ids = (NONE, NONE)
        self._on_first = self._callback(is_discovery=True)
        self._on_start = self._callback(is_discovery=False)
        self._move(claim())
        lend(self)

    def renew(self, codes: Iterable[CodeType]) -> None:
        discovery, watch = self._ids
        if watch == NONE or discovery == watch:
            return
        for code in codes:
            with suppress(ValueError, SystemError):
                _set_local_events(watch, code, 0)  # else it stays switched off
                _set_local_events(watch, code, _START)

    def close(self) -> None:
        """Give the ids back."""
        end_lending(self)
        self._move((NONE, NONE))

    # --- the ids --------------------------------------------------------------------------------

    def holds(self, tool: object) -> bool:
        return type(tool) is int and tool != NONE and tool in self._ids

    def leave(self, tool: int) -> None:
        """The program wants an id: go on with others."""
        self._move(claim_instead(self._ids, tool))
        _monitoring.restart_events()  # what was switched off stays so for the next owner
        if self._ids[1] == NONE:
            self.starts.lose(
                "the program took all tool ids of sys.monitoring: functions that started then were "
                "not noted"
            )

    def _move(self, now: tuple[int, int]) -> None:
        before, self._ids = self._ids, now
        for tool in {*before} - {*now, NONE}:
            with suppress(ValueError):
                _monitoring.set_events(tool, 0)
                for code in list(self._armed.values()):
                    _set_local_events(tool, code, 0)
                _monitoring.register_callback(tool, _START, None)
                ORIGINAL.free_tool_id(tool)
        discovery, watch = now
        with suppress(ValueError):
            if watch not in (NONE, discovery):
                _monitoring.register_callback(watch, _START, self._on_start)
                _monitoring.set_events(watch, 0)
                for code in list(self._armed.values()):
                    self._arm(code)
            if discovery != NONE:
                _monitoring.register_callback(discovery, _START, self._on_first)
                _monitoring.set_events(discovery, _START)

    def _arm(self, code: CodeType) -> None:
        self._armed[id(code)] = code
        discovery, watch = self._ids
        if watch not in (NONE, discovery):
            with suppress(ValueError, SystemError):  # code that C has made
                _set_local_events(watch, code, _START)

    # --- callbacks ------------------------------------------------------------------------------

    def _callback(self, *, is_discovery: bool) -> Callable[..., Any]:
        starts, fail = self.starts, self.fail
        find, note, getframe, key = starts.table.known.get, starts.note, sys._getframe, id

        def on_start(code: CodeType, _offset: int) -> Any:
            __tracebackhide__ = True
            try:
                frame = getframe(1)
                facts: Any = find(key(code), _UNKNOWN)
                if facts is _UNKNOWN:
                    facts = starts.meets(frame)
                    if facts is not None:
                        self._arm(code)
                if facts is None:
                    return _DISABLE
                is_noted = note(facts, frame)
                if is_discovery:
                    return _DISABLE if self._ids[0] != self._ids[1] else None
                return _DISABLE if is_noted else None
            except BaseException as error:
                if fail(error):
                    raise
                return None

        return on_start
