"""A tool of `sys.monitoring` while tests are recorded: its id, its callbacks, armed code. 3.12+."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import CodeType
from typing import Any, Final

from pytest_cideldill.tracing.interface import SourceUnavailable
from pytest_cideldill.tracing.tool_ids import NONE, ORIGINAL, claim_one, end_lending, lend

_monitoring: Final = sys.monitoring
_EVENTS: Final = _monitoring.events

OF_FRAMES: Final = (
    _EVENTS.PY_START
    | _EVENTS.PY_RESUME
    | _EVENTS.PY_RETURN
    | _EVENTS.PY_YIELD
    | _EVENTS.PY_UNWIND
    | _EVENTS.PY_THROW
)
"""The events of frames that begin, go on and are left."""


class MonitoringTool:
    """Owns a tool id, which the program can have if it wants it.

    Args:
        callbacks: By event.
        events: Gives the events that are wanted everywhere now.
        local_events: Gives those of a code object.

    Raises:
        SourceUnavailable: No id is free.
    """

    def __init__(
        self,
        callbacks: Mapping[int, Callable[..., Any]],
        events: Callable[[], int],
        local_events: Callable[[CodeType], int],
    ) -> None:
        self._callbacks, self._events, self._local_events = callbacks, events, local_events
        self._armed: dict[int, CodeType] = {}
        self._tool = claim_one()
        self._register()
        lend(self)

    def update(self) -> None:
        """Set the events that are wanted everywhere."""
        if self._tool == NONE:
            return
        events = self._events()
        with suppress(ValueError):
            if _monitoring.get_events(self._tool) != events:
                _monitoring.set_events(self._tool, events)

    def arm(self, code: CodeType) -> None:
        """Set the events of a code object."""
        self._armed[id(code)] = code
        if self._tool != NONE:
            with suppress(ValueError, SystemError):  # freed meanwhile; code that C has made
                _monitoring.set_local_events(self._tool, code, self._local_events(code))

    def is_armed(self, code: CodeType) -> bool:
        """Whether the events of a code object are set."""
        return id(code) in self._armed

    def disarm(self) -> None:
        """Take the events of all armed code objects back."""
        for code in list(self._armed.values()):
            if self._tool != NONE:
                with suppress(ValueError, SystemError):
                    _monitoring.set_local_events(self._tool, code, 0)
        self._armed.clear()

    def close(self) -> None:
        """Give the id back."""
        tool, self._tool = self._tool, NONE
        end_lending(self)
        if tool != NONE:
            give_back(tool, self._armed, self._callbacks)

    def holds(self, tool: object) -> bool:
        """Whether this is the id."""
        return type(tool) is int and tool == self._tool != NONE

    def leave(self, tool: int) -> None:
        """The program wants the id: go on with another one."""
        self._tool = NONE
        give_back(tool, self._armed, self._callbacks)
        with suppress(SourceUnavailable):
            self._tool = claim_one(tool)
            self._register()
            for code in list(self._armed.values()):
                self.arm(code)
            self.update()

    def _register(self) -> None:
        for event, callback in self._callbacks.items():
            _monitoring.register_callback(self._tool, event, callback)


def give_back(tool: int, armed: Mapping[int, CodeType], events: Iterable[int]) -> None:
    """Free an id, of which no code and no callback is left."""
    with suppress(ValueError):
        _monitoring.set_events(tool, 0)
        for code in list(armed.values()):
            _monitoring.set_local_events(tool, code, 0)
        for event in events:
            _monitoring.register_callback(tool, event, None)
        ORIGINAL.free_tool_id(tool)
