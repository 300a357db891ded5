"""Opens recorded runs: what their processes told is told to `Runs` again, as it was then.

So the tools that read answer of a record what they answered live. Lives on the event loop, which
runs on between the lines; nothing is unpickled.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from pathlib import Path
from typing import Any

from cideldill_mcp.breakpoints import from_command
from cideldill_mcp.run import Order
from cideldill_mcp.run import Run
from cideldill_mcp.runs import Runs
from cideldill_mcp.targets import MAIN
from cideldill_mcp.targets import Target
from pytest_cideldill.position import Position
from pytest_cideldill.record.format import DROPPED
from pytest_cideldill.record.format import ROWS
from pytest_cideldill.record.format import Line
from pytest_cideldill.record.merging import raw_lines
from pytest_cideldill.record.reader import run_folders
from pytest_cideldill.record.words import NOT_HIDING
from pytest_cideldill.record.words import counted
from pytest_cideldill.wire import AddBreakpoint
from pytest_cideldill.wire import AddException
from pytest_cideldill.wire import AddLine
from pytest_cideldill.wire import AddTrace
from pytest_cideldill.wire import Changed
from pytest_cideldill.wire import Event
from pytest_cideldill.wire import Hello
from pytest_cideldill.wire import NodeFinished
from pytest_cideldill.wire import NodeStarted
from pytest_cideldill.wire import Recorded
from pytest_cideldill.wire import RedactionChosen

_is_id = re.compile(r"(?:bp|tp|ex|fn)-[0-9]{1,9}").fullmatch

_AT_ONCE = 500
"""Lines between two looks at the event loop; some milliseconds."""


async def open_records(runs: Runs, records: Sequence[Path]) -> None:
    """Fill `runs` with all runs of these records, by the time of their start."""
    runs.log.is_told = False
    folders = [folder for record in records for folder in run_folders(record)]
    for folder in sorted(folders, key=lambda each: each.name):
        try:
            await _Opening(runs, folder).read()
        except Exception as error:  # noqa: BLE001 - a border: the others are read
            sys.stderr.write(f"pytest-cideldill: {folder} can't be read to its end: {error!r}\n")
    runs.log.now, runs.log.is_told = time.time, True


class _Opening:
    """One run on its way from a folder to `Runs`."""

    def __init__(self, runs: Runs, folder: Path) -> None:
        self._runs = runs
        self._folder = folder
        self._run: Run | None = None
        self._targets: dict[str, Target] = {}
        self._names = _Names("", "")
        self._under_way: dict[str, tuple[str, float]] = {}
        self._began = 0.0
        self._damaged = 0
        self._is_hiding = True

    async def read(self) -> None:
        """All of it; lines that this version does not know are passed over."""
        now = 0.0
        for number, raw in enumerate(raw_lines(self._folder, self._pass_over), 1):
            now = raw.at
            self._runs.log.now = lambda at=now: at  # type: ignore[misc]
            try:
                self._take(Line.decoded(raw.text))
            except Exception:  # noqa: BLE001 - a border: the others make sense
                self._pass_over()
                continue
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        self._end(now)

    def _pass_over(self) -> None:
        self._damaged += 1

    def _take(self, line: Line) -> None:
        if line.type in ROWS:
            row = self._names.in_row({"type": line.type, "ts": line.ts, **line.values})
            self._handle(line, Recorded([row]))
        elif line.type == DROPPED:
            if self._run is not None:
                self._runs.log.dropped[self._run.id] += sum(line.values["rows"].values())
                self._runs.records.lost(line.values["rows"].get("call", 0))
        else:
            message = line.message
            if isinstance(message, RedactionChosen):
                self._is_hiding = self._is_hiding and not message.off
            if isinstance(message, Hello):
                self._admit(message, line.ts)
            elif isinstance(message, Changed) and self._run is not None:
                self._run.results.change(message.nodeid, message.what)
            elif isinstance(message, AddLine | AddTrace | AddBreakpoint | AddException):
                self._add(message)
            else:
                self._handle(line, self._names.in_event(message))

    def _admit(self, hello: Hello, ts: float) -> None:
        if self._run is None:
            self._began = ts
            id = f"r{sum(1 for _ in self._runs) + 1}"
            self._names = _Names(hello.run_id, id)
            self._run = self._runs.open(Run(id, Order(pause_on="never")), self._folder)
        target = Target(replace(hello, run_id=self._run.id), lambda _command: None)
        target.attached_at = round(ts, 3)
        self._targets[hello.worker] = target
        self._runs.admit(target)

    def _add(self, command: AddLine | AddTrace | AddBreakpoint | AddException) -> None:
        """A breakpoint of this run, unless another process of it has told it."""
        if not _is_id(command.id):
            raise ValueError(f"no id of a breakpoint: {command.id[:80]!r}")
        if command.id in self._names.breakpoints:
            return
        desired = self._runs.desired
        id, known = command.id, desired.get(command.id)
        asked = command if isinstance(command, AddTrace) else replace(command, request=0)
        if known is not None and known.command(0) != asked:
            id = desired.free_id(command.id)
        self._names.breakpoints[command.id] = id
        if desired.get(id) is None:
            rootdir = self._targets[MAIN].hello.rootdir if MAIN in self._targets else ""
            desired.keep(from_command(replace(command, id=id), rootdir))

    def _handle(self, line: Line, event: Event) -> None:
        target = self._targets.get(line.worker)
        if target is None:
            return  # its greeting is missing
        match event:
            case NodeStarted():
                self._under_way[line.worker] = event.nodeid, line.ts
            case NodeFinished():
                self._under_way.pop(line.worker, None)
        self._runs.handle(target, event, line.ts)

    def _end(self, now: float) -> None:
        if self._run is None:
            return
        for target in self._targets.values():
            if target.worker in self._run.targets:
                target.lost()
                self._runs.lost(target)
        self._run.took(now - self._began)
        if not self._is_hiding:
            self._run.warnings.append(NOT_HIDING)
        if self._damaged:
            told = counted(self._damaged, "line")
            self._run.warnings.append(f"{told} of the record made no sense and were passed over")
        last = self._under_way.get(MAIN)
        self._runs.settle(self._run, None if last is None else Position("", *last))


@dataclass
class _Names:
    """Ids are given anew: runs are numbered as they are opened, breakpoints may have namesakes.

    Attributes:
        then: Id of the run in the record.
        now: Id of the run here.
        breakpoints: Id of each of its breakpoints → the id here.
    """

    then: str
    now: str
    breakpoints: dict[str, str] = field(default_factory=dict)

    def in_row(self, row: dict[str, Any]) -> dict[str, Any]:
        """A hit or a call."""
        for key in ("call_id", "parent_id"):
            if row.get(key) is not None:
                row[key] = self._of_run(row[key])
        if "breakpoint_id" in row:
            row["breakpoint_id"] = self._of_breakpoint(row["breakpoint_id"])
        return row

    def in_event(self, event: Any) -> Any:
        """An event of the wire."""
        changed: dict[str, Any] = {}
        for name in ("id", "pause_id"):
            if isinstance(value := getattr(event, name, None), str):
                rename = self._of_breakpoint if name == "id" else self._of_run
                changed[name] = rename(value)
        for name in ("passes", "facts"):
            if isinstance(value := getattr(event, name, None), dict):
                changed[name] = {self._of_breakpoint(id): each for id, each in value.items()}
        if isinstance(pause := getattr(event, "pause", None), dict):
            changed["pause"] = pause | dict(self._of_pause(pause))
        return replace(event, **changed) if changed else event

    def _of_pause(self, pause: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        yield "id", self._of_run(pause["id"])
        if pause.get("breakpoint_id") is not None:
            yield "breakpoint_id", self._of_breakpoint(pause["breakpoint_id"])

    def _of_run(self, id: str) -> str:
        prefix, dot, rest = id.partition(".")
        return f"{self.now}{dot}{rest}" if prefix == self.then else id

    def _of_breakpoint(self, id: str) -> str:
        return self.breakpoints.get(id, id)
