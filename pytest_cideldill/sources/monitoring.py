"""Events from `sys.monitoring`, 3.12 and later. Callbacks run on the thread of the program.

One tool id discovers code: a global PY_START that disables itself at each code object. The other
watches: local events on single code objects, which cost nothing anywhere else.
"""

from __future__ import annotations

import sys
from types import CodeType
from types import FrameType
from typing import Any
from typing import Final

from pytest_cideldill.sources.border import Border
from pytest_cideldill.sources.border import Verdict
from pytest_cideldill.sources.calls import Calls
from pytest_cideldill.sources.calls import Recorder
from pytest_cideldill.sources.events import Deliberate
from pytest_cideldill.sources.events import Handlers
from pytest_cideldill.sources.events import OnEnd
from pytest_cideldill.sources.events import OnStart
from pytest_cideldill.sources.events import Seen
from pytest_cideldill.sources.events import SourceUnavailable
from pytest_cideldill.sources.events import Watch
from pytest_cideldill.sources.events import running_frames
from pytest_cideldill.sources.interpose import is_trampoline
from pytest_cideldill.sources.passes import lines_of
from pytest_cideldill.sources.passes import repeats

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

# Bound at import: a program may patch `sys`.
_getframe: Final = sys._getframe


class MonitoringSource:
    """See `events.Source`.

    State is in plain dicts keyed by `id(code)`; values are replaced, never changed. `_armed` keeps
    the code objects alive for as long as anything is armed on them.
    """

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._on_wanted_line = handlers.on_line
        self._is_quiet = handlers.is_quiet
        self._border = Border(handlers.is_ours, handlers.on_failure)
        self._calls = Calls(self._border, handlers.is_quiet)
        self._recorders = self._calls.recorders
        self._discovering = False
        self._closed = False
        # Code → line → the offsets that don't count.
        self._lines: dict[int, dict[int, frozenset[int]]] = {}
        # Code whose end is told.
        self._ends: dict[int, CodeType] = {}
        self._armed: dict[int, CodeType] = {}
        self._seen = Seen()
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

    # --- the interface ----------------------------------------------------------------------

    def describe(self) -> dict[str, str]:
        """See `Source`."""
        ids = sorted({self._discovery, self._probe})
        which = f"tool id{'s' if len(ids) > 1 else ''} {' and '.join(map(str, ids))}"
        return {
            "name": "sys.monitoring",
            "why": f"Python 3.12 or later, {which}; code that nothing watches runs at full speed",
        }

    def discover(self, wanted: bool) -> None:
        """See `Source`."""
        if self._closed or wanted == self._discovering:
            return
        self._discovering = wanted
        self._set_global()
        if wanted:
            for frame in running_frames():
                self._offer(frame.f_code, frame)

    def watch_lines(
        self, code: CodeType, lines: frozenset[int], file: str | None = None
    ) -> frozenset[int]:
        """See `Source`."""
        if self._closed:
            return frozenset()
        held = lines & lines_of(code) if lines else lines
        if held:
            path = file or code.co_filename
            self._lines[id(code)] = {line: repeats(code, line, path) for line in held}
        else:
            self._lines.pop(id(code), None)
        self._arm(code)
        return held

    def record_calls(self, code: CodeType, on_start: OnStart, on_end: OnEnd) -> None:
        """See `Source`."""
        if not self._closed:
            self._recorders[id(code)] = Recorder(on_start, on_end)
            self._arm(code)
            self._set_global()

    def stop_recording(self, code: CodeType) -> None:
        """See `Source`."""
        if self._calls.stop(code):
            self._arm(code)
            self._set_global()

    def refresh(self) -> None:
        """See `Source`: a program can't remove us here."""

    def close(self) -> None:
        """See `Source`."""
        if self._closed:
            return
        self._closed = True
        self._discovering = False
        self._lines.clear()
        self._ends.clear()
        self._calls.clear()
        for code in self._armed.copy().values():
            self._arm(code)
        self._set_global()
        # Freeing an id leaves its callbacks and events to the next owner: they go first.
        for tool in {self._discovery, self._probe}:
            for event in (_START, _RETURN, _UNWIND, _LINE):
                _monitoring.register_callback(tool, event, None)
            _monitoring.free_tool_id(tool)

    def forget(self) -> None:
        """See `Source`. There is no lock that another thread could have held at the fork."""
        self.close()

    # --- arming -----------------------------------------------------------------------------

    def _wanted(self, code: CodeType) -> int:
        key = id(code)
        events = 0
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
        """Set the local events that are wanted. Lock-free: who arms last looks again afterwards."""
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
                raise SourceUnavailable(f"{code.co_qualname} can't be watched: {error}.") from error
            if self._discovery == self._probe and wanted & _START:
                _monitoring.restart_events()  # our own discovery has disabled PY_START there
            if not wanted:
                self._armed.pop(key, None)
            if self._wanted(code) == wanted:
                return

    def _drop(self, key: int) -> None:
        for state in (self._lines, self._recorders, self._ends, self._armed):
            state.pop(key, None)

    def _set_global(self) -> None:
        """As `_arm`, for the events of all code."""
        while True:
            wanted = {self._discovery: _START if self._discovering else 0}
            unwind = _UNWIND if self._recorders else 0
            wanted[self._probe] = wanted.get(self._probe, 0) | unwind
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

    def _offer(self, code: CodeType, frame: FrameType) -> None:
        __tracebackhide__ = True
        if is_trampoline(code):
            return  # it only looks like the user's
        try:
            if self._handlers.on_code(code, frame) is Watch.END and not self._closed:
                self._ends[id(code)] = code
                self._arm(code)
        except BaseException as failure:
            if self._border.judge(failure, "looking at code", code) is Verdict.FOREIGN:
                raise

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

    def _ended(self, code: CodeType, frame: FrameType) -> None:
        __tracebackhide__ = True
        try:
            self._handlers.on_module_end(code, frame)
        except BaseException as failure:
            if self._border.judge(failure, "looking at a finished module", code) is Verdict.FOREIGN:
                raise

    def _on_line(self, code: CodeType, line: int) -> Any:
        __tracebackhide__ = True
        try:
            repeated = self._lines[id(code)][line]
        except KeyError:
            return _DISABLE
        if self._is_quiet():
            return None
        frame = _getframe(1)
        if repeated and frame.f_lasti in repeated:
            return None
        try:
            self._on_wanted_line(frame, line)
        except Deliberate as wanted:
            error = wanted.error
        except BaseException as failure:
            verdict = self._border.judge(failure, f"the probe at line {line}", code)
            if verdict is Verdict.FOREIGN:
                raise
            return self._disarm(code, line) if verdict is Verdict.BUG else None
        else:
            return None
        raise error

    def _disarm(self, code: CodeType, line: int) -> Any:
        """Without a call to `sys.monitoring`, which could race with a command: it just dies out."""
        lines = self._lines.get(id(code), {})
        self._lines[id(code)] = {key: value for key, value in lines.items() if key != line}
        return _DISABLE


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
