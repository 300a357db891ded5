"""Runs `loops.py` under bdb, hunter or a bare callback of the interpreter, for `debuggers` and
`served`: `python -m benchmarks.under TOOL FOLDER KIND FILE LINE [WORK COUNT]`.

KIND: `log` reports each pass of the line, `condition` none of them, `calls` has it elsewhere, and
`record` reports each call of `order` (a bare callback only). WORK and COUNT go to `loops.main`.
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


class Reporting(bdb.Bdb):
    """Formats the message at each stop, and goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.reported: list[str] = []

    def user_line(self, frame: FrameType) -> None:
        """A breakpoint; the first one is the first line of all."""
        if frame.f_code.co_name == "lined":
            self.reported.append(message(frame.f_locals))
        self.set_continue()


def message(values: Any) -> str:
    """The report of a pass."""
    return f"{values['number']} of {values['count']}: {values['total']}"


def call(values: Any) -> str:
    """The report of a call's arguments."""
    return f"{values['amount']!r}, {values['name']!r}"


def under_bdb(run: Callable[[], None], kind: str, file: str, line: int) -> int:
    """How many passes were reported."""
    debugger = Reporting()
    problem = debugger.set_break(file, line, cond="number < 0" if kind == "condition" else None)
    assert problem is None, problem
    debugger.runcall(run)
    return len(debugger.reported)


def under_hunter(run: Callable[[], None], kind: str, file: str, line: int) -> int:
    """How many passes were reported."""
    hunter = importlib.import_module("hunter")
    reported: list[str] = []
    place = hunter.Query(filename=file, lineno=line, kind="line")
    if kind == "condition":
        place = hunter.And(place, lambda event: event.locals["number"] < 0)
    with hunter.trace(place, action=lambda event: reported.append(message(event.locals))):
        run()
    return len(reported)


def under_bare(run: Callable[[], None], kind: str, _file: str, line: int) -> int:
    """How many passes, or starts and ends of calls, were reported."""
    loops, reported = importlib.import_module("loops"), list[str]()
    code: CodeType = (loops.order if kind == "record" else loops.lined).__code__

    def report(values: Any) -> None:
        if kind == "record":
            reported.append(call(values))
        elif kind == "log" or values["number"] < 0:
            reported.append(message(values))

    by = _by_monitoring if sys.version_info >= (3, 12) else _by_settrace
    by(run, code, None if kind == "record" else line, report, reported.append)
    return len(reported)


def _by_monitoring(
    run: Callable[[], None],
    code: CodeType,
    line: int | None,
    report: Callable[[Any], object],
    returns: Callable[[str], object],
) -> None:
    """Report the locals at a line of the code; None: at its start, and its results."""
    monitoring, events = sys.monitoring, sys.monitoring.events

    def on_line(_code: CodeType, passed: int) -> Any:
        if passed != line:
            return monitoring.DISABLE
        report(sys._getframe(1).f_locals)
        return None

    def on_start(_code: CodeType, _offset: int) -> None:
        report(sys._getframe(1).f_locals)

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
    report: Callable[[Any], object],
    returns: Callable[[str], object],
) -> None:
    """The same with `sys.settrace`."""

    def local(frame: FrameType, event: str, value: object) -> Any:
        if event == "line" and frame.f_lineno == line:
            report(frame.f_locals)
        elif event == "return" and line is None:
            returns(repr(value))
        return local

    def on_call(frame: FrameType, _event: str, _value: object) -> Any:
        if frame.f_code is not code:
            return None
        if line is None:
            report(frame.f_locals)
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
    """Measure, and check that the reports are those that were asked for."""
    sys.path.insert(0, folder)
    loops = importlib.import_module("loops")
    measured = work or ("calls" if kind == "calls" else "hits",)
    reported = TOOLS[tool](lambda: loops.main(folder, *measured), kind, file, int(line))
    assert (reported > 0) == (kind in ("log", "record")), reported


if __name__ == "__main__":
    main(*sys.argv[1:])
