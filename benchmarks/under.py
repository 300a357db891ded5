"""Runs `loops.py` under bdb or hunter: `python -m benchmarks.under TOOL FOLDER KIND FILE LINE`.

KIND: `log` tells each pass of the line, `condition` none of them, `calls` has it elsewhere.
"""

from __future__ import annotations

import bdb
import importlib
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


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


def main(tool: str, folder: str, kind: str, file: str, line: str) -> None:
    """Measure, and check that what was told is what was asked for."""
    sys.path.insert(0, folder)
    loops = importlib.import_module("loops")
    under = under_bdb if tool == "bdb" else under_hunter
    measured = "calls" if kind == "calls" else "hits"
    told = under(lambda: loops.main(folder, measured), kind, file, int(line))
    assert (told > 0) == (kind == "log"), told


if __name__ == "__main__":
    main(*sys.argv[1:])
