"""Reports which user code starts, and which lines run, through `sys.monitoring`: from 3.12 on.

Two tool ids. One discovers code: a global event that switches itself off at each code object. The
other watches the user's functions alone, by local events. `restart_events` is no way to have those
again in the next test: each code object of pytest and of libraries would report too, and to each
tool. Arming one function again takes as long as some tens of its events, as the interpreter goes
through all of its code. So the event of starts is switched off only in functions that start often.
That of a line is at its first pass: with its function all of them are armed again at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from types import CodeType
from typing import Any, Final

from pytest_cideldill.calltraces.feed import Fail
from pytest_cideldill.calltraces.starts import Starts, StartSource
from pytest_cideldill.calltraces.tool import give_back
from pytest_cideldill.tracing.tool_ids import NONE, claim, claim_instead, end_lending, lend

_monitoring: Final = sys.monitoring
_START: Final = _monitoring.events.PY_START
_LINE: Final = _monitoring.events.LINE
_DISABLE: Final = _monitoring.DISABLE
_UNKNOWN: Final = object()
_set_local_events: Final = _monitoring.set_local_events

_OFTEN: Final = 32
"""Starts in a test after which the event is switched off."""


class MonitoringStarts(StartSource):
    """Owns the tool ids from the end of the collection on.

    With a single id functions are not switched off: a function that is called much costs time.

    Raises:
        SourceUnavailable: No id is free.
    """

    def __init__(self, starts: Starts, fail: Fail) -> None:
        super().__init__(starts, fail)
        self._armed: dict[int, CodeType] = {}
        self._off: dict[int, CodeType] = {}
        self._ids = (NONE, NONE)
        self._owners = None if starts.lines is None else starts.lines.owners
        self._on_first = self._discovery()
        self._on_start = self._watch()
        self._on_line = self._passes()
        self._move(claim())
        lend(self)

    def renew(self) -> None:
        off = self._off.copy()
        self._off.clear()
        watch = self._ids[1]
        if watch == NONE:
            return
        for code in off.values():
            with suppress(ValueError, SystemError):
                _set_local_events(watch, code, 0)  # else it stays switched off
            self._arm(code)

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
                "the program took all tool ids of sys.monitoring: what ran then was not noted"
            )

    def _move(self, now: tuple[int, int]) -> None:
        before, self._ids = self._ids, now
        for tool in {*before} - {*now, NONE}:
            give_back(tool, self._armed, (_START, _LINE))
        discovery, watch = now
        with suppress(ValueError):
            if watch not in (NONE, discovery):
                _monitoring.register_callback(watch, _START, self._on_start)
                _monitoring.set_events(watch, 0)
            if watch != NONE:
                _monitoring.register_callback(watch, _LINE, self._on_line)
                for code in list(self._armed.values()):
                    self._arm(code)
            if discovery != NONE:
                _monitoring.register_callback(discovery, _START, self._on_first)
                _monitoring.set_events(discovery, _START)

    def _arm(self, code: CodeType) -> None:
        self._armed[id(code)] = code
        discovery, watch = self._ids
        events = 0
        if watch != discovery and self.starts.table.known.get(id(code)) is not None:
            events = _START
        if self._owners is not None and id(code) in self._owners:
            events |= _LINE
        if events and watch != NONE:
            with suppress(ValueError, SystemError):  # code that C has made
                _set_local_events(watch, code, events)

    # --- callbacks ------------------------------------------------------------------------------
    # Each drops an overflow, see `feed.Fail`.

    def _discovery(self) -> Callable[..., Any]:
        """Of code that starts for the first time; of all, with a single id."""
        starts, fail, noted = self.starts, self.fail, self.starts.noted
        find, getframe, key, owners = starts.table.known.get, sys._getframe, id, self._owners

        def on_first(code: CodeType, _offset: int) -> Any:
            __tracebackhide__ = True
            try:
                number = key(code)
                facts: Any = find(number, _UNKNOWN)
                if facts is _UNKNOWN:
                    facts = starts.meets(getframe(1))
                    if facts is not None or (owners is not None and number in owners):
                        self._arm(code)
                if facts is None:
                    return _DISABLE
                if number not in noted and not starts.is_apart(getframe(1)):
                    starts.note(number)
                return _DISABLE if self._ids[0] != self._ids[1] else None
            except RecursionError:
                pass
            except BaseException as error:
                if fail(error):
                    raise
                return None

        return on_first

    def _watch(self) -> Callable[..., Any]:
        """Of the user's functions; on the hot path."""
        starts, fail, noted = self.starts, self.fail, self.starts.noted
        count_of, getframe, key = noted.get, sys._getframe, id
        off, aftermath = self._off, starts.aftermath

        def on_start(code: CodeType, _offset: int) -> Any:
            __tracebackhide__ = True
            try:
                number = key(code)
                count = count_of(number)
                if count is None:
                    if not starts.is_apart(getframe(1)):
                        starts.note(number)
                    return None
                if not aftermath.is_empty:
                    aftermath.look()
                if count < _OFTEN:
                    noted[number] = count + 1
                    return None
                off[number] = code
                return _DISABLE
            except RecursionError:
                pass
            except BaseException as error:
                if fail(error):
                    raise
                return None

        return on_start

    def _passes(self) -> Callable[..., Any]:
        """Of lines of the user's functions."""
        lines, fail, off = self.starts.lines, self.fail, self._off
        getframe, key = sys._getframe, id

        def on_line(code: CodeType, line: int) -> Any:
            __tracebackhide__ = True
            try:
                if lines is None or not lines.begins(code, line, getframe(1)):
                    return None
                off[key(code)] = code
                return _DISABLE
            except RecursionError:
                pass
            except BaseException as error:
                if fail(error):
                    raise
                return None

        return on_line
