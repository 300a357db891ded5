"""Runs `loops.py` under bdb, hunter or a bare callback of the interpreter, for `debuggers` and
`served`: `python -m benchmarks.under TOOL FOLDER KIND FILE LINE [WORK COUNT]`.

KIND: `log` tells each pass of the line, `condition` none of them, `calls` has it elsewhere, and
`record` tells each call of `order` (a bare callback only). WORK and COUNT go to `loops.main`.
"""

from __future__ import annotations

import bdb
import importlib
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

TOOL = 4
"""The id of the tool that asks `sys.monitoring`."""


class Telling(bdb.Bdb):
    """Formats the message at each stop, and goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def user_line(self, frame: FrameType) -> None:
        """A breakpoint; the first one is the first line of all."""
        if frame.f_code.co_name == "lined":
            self.told.append(message(frame.f_locals))
        self.set_continue()


def message(values: Any) -> str:
    """What is told of a pass."""
    return f"{values['number']} of {values['count']}: {values['total']}"


def call(values: Any) -> str:
    """What is told of a call's arguments."""
    return f"{values['amount']!r}, {values['name']!r}"


def under_bdb(run: Callable[[], None], kind: str, file: str, line: int) -> int:
    """How many passes were told."""
    debugger = Telling()
    problem = debugger.set_break(file, line, cond="number < 0" if kind == "condition" else None)
    assert problem is None, problem
    debugger.runcall(run)
    return len(debugger.told)


def under_hunter(run: Callable[[], None], kind: str, file: str, line: int) -> int:
    """How many passes were told."""
    hunter = importlib.import_module("hunter")
    told: list[str] = []
    place = hunter.Query(filename=file, lineno=line, kind="line")
    if kind == "condition":
        place = hunter.And(place, lambda event: event.locals["number"] < 0)
    with hunter.trace(place, action=lambda event: told.append(message(event.locals))):
        run()
    return len(told)


def under_bare(run: Callable[[], None], kind: str, _file: str, line: int) -> int:
    """How many passes, or starts and ends of calls, were told."""
    loops, told = importlib.import_module("loops"), list[str]()
    code: CodeType = (loops.order if kind == "record" else loops.lined).__code__

    def tell(values: Any) -> None:
        if kind == "record":
            told.append(call(values))
        elif kind == "log" or values["number"] < 0:
            told.append(message(values))

    by = _by_monitoring if sys.version_info >= (3, 12) else _by_settrace
    by(run, code, None if kind == "record" else line, tell, told.append)
    return len(told)


def _by_monitoring(
    run: Callable[[], None],
    code: CodeType,
    line: int | None,
    tells: Callable[[Any], object],
    returns: Callable[[str], object],
) -> None:
    """Tell the locals at a line of the code; None: at its start, and its results."""
    monitoring, events = sys.monitoring, sys.monitoring.events

    def on_line(_code: CodeType, passed: int) -> Any:
        if passed != line:
            return monitoring.DISABLE
        tells(sys._getframe(1).f_locals)
        return None

    def on_start(_code: CodeType, _offset: int) -> None:
        tells(sys._getframe(1).f_locals)

    def on_return(_code: CodeType, _offset: int, result: object) -> None:
        returns(repr(result))

    monitoring.use_tool_id(TOOL, "bare")
    monitoring.register_callback(TOOL, events.LINE, on_line)
    monitoring.register_callback(TOOL, events.PY_START, on_start)
    monitoring.register_callback(TOOL, events.PY_RETURN, on_return)
    of_a_call = events.PY_START | events.PY_RETURN
    monitoring.set_local_events(TOOL, code, of_a_call if line is None else events.LINE)
    run()
    monitoring.set_local_events(TOOL, code, 0)
    monitoring.free_tool_id(TOOL)


def _by_settrace(
    run: Callable[[], None],
    code: CodeType,
    line: int | None,
    tells: Callable[[Any], object],
    returns: Callable[[str], object],
) -> None:
    """The same with `sys.settrace`."""

    def local(frame: FrameType, event: str, value: object) -> Any:
        if event == "line" and frame.f_lineno == line:
            tells(frame.f_locals)
        elif event == "return" and line is None:
            returns(repr(value))
        return local

    def on_call(frame: FrameType, _event: str, _value: object) -> Any:
        if frame.f_code is not code:
            return None
        if line is None:
            tells(frame.f_locals)
            frame.f_trace_lines = False
        return local

    sys.settrace(on_call)
    run()
    sys.settrace(None)


TOOLS: dict[str, Callable[[Callable[[], None], str, str, int], int]] = {
    "bdb": under_bdb,
    "hunter": under_hunter,
    "bare": under_bare,
}


def main(tool: str, folder: str, kind: str, file: str, line: str, *work: str) -> None:
    """Measure, and check that what was told is what was asked for."""
    sys.path.insert(0, folder)
    loops = importlib.import_module("loops")
    measured = work or ("calls" if kind == "calls" else "hits",)
    told = TOOLS[tool](lambda: loops.main(folder, *measured), kind, file, int(line))
    assert (told > 0) == (kind in ("log", "record")), told


if __name__ == "__main__":
    main(*sys.argv[1:])
