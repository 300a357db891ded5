"""Opens recorded runs: `Runs` gets the events of their processes again, in their order.

So the tools that read give the same replies for a record as they gave live. Lives on the event
loop, which runs on between the lines; nothing is unpickled.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

from cideldill_mcp.breakpoints.kinds import from_command
from cideldill_mcp.processes.process import MAIN, Target
from cideldill_mcp.runs.registry import Runs
from cideldill_mcp.runs.run import Run, RunOrder
from pytest_cideldill.protocol import (
    AddBreakpoint,
    AddException,
    AddLine,
    AddTrace,
    Changed,
    Event,
    Hello,
    NodeFinished,
    NodeStarted,
    PhaseReported,
    Recorded,
    RedactionChosen,
)
from pytest_cideldill.protocol.current_test_file import FilePosition
from pytest_cideldill.protocol.reducer import FAILED
from pytest_cideldill.records.format import DROPPED, ROWS, Line
from pytest_cideldill.records.merge import Raw, raw_lines
from pytest_cideldill.records.reader import run_folders
from pytest_cideldill.reports.bounds import MOST, Bounds
from pytest_cideldill.reports.words import NOT_HIDING, counted, cut_short

_is_id = re.compile(r"(?:bp|tp|ex|fn)-[0-9]{1,9}").fullmatch

_AT_ONCE = 200
_AT_ONCE_BYTES = 256 * 1024
"""Lines that a thread reads before the event loop takes them in."""

_ROWS = 50
"""Hits and calls that are taken in together: to write each call by itself takes much longer."""

_MOST_TESTS = sum(MOST[each] for each in ("passed test", "other test", "failure")) + 10_000
"""Most tests that are held, and some that have begun."""

_SLICE_S = 0.004
"""How long lines are taken in before others have their turn; an answer takes several of them."""


async def open_records(runs: Runs, records: Sequence[Path]) -> None:
    """Fill `runs` with all runs of these records, by the time of their start."""
    runs.log.notifies = False
    folders = [folder for record in records for folder in run_folders(record)]
    for folder in sorted(folders, key=lambda each: each.name):
        try:
            await _Opening(runs, folder).read()
        except Exception as error:  # noqa: BLE001 - a border: the others are read
            sys.stderr.write(f"pytest-cideldill: {folder} can't be read to its end: {error!r}\n")
    runs.log.now, runs.log.notifies = time.time, True


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
        self._moment = 0.0  # of the line that is taken in
        self._extent = Bounds()
        self._gone: set[int] = set()  # of tests of which nothing is held
        self._rows: list[dict[str, Any]] = []
        self._rows_line: Line | None = None

    async def read(self) -> None:
        """All of it; lines that this version does not know are passed over."""
        since = monotonic()
        lines = raw_lines(self._folder, self._pass_over)
        while batch := await asyncio.to_thread(_decoded, lines):
            self._runs.log.now = lambda: self._moment
            for at, size, line in batch:
                self._moment = at
                self._take_in(line, size)
                if monotonic() - since > _SLICE_S:
                    await asyncio.sleep(0)
                    since = monotonic()
        self._take_rows()
        self._end()

    def _take_in(self, line: Line | None, size: int) -> None:
        """A border: what can't be taken in is passed over, the others make sense."""
        try:
            if line is None:
                raise ValueError("no line of events")
            if line.type in ROWS:
                self._take_row(line)
                return
            self._take_rows()
            self._take(line, size)
        except Exception:  # noqa: BLE001 - see there
            self._pass_over()

    def _take_row(self, line: Line) -> None:
        """Leave it to be taken in with others of its process."""
        row = self._names.in_row({"type": line.type, "ts": line.ts, **line.values})
        if self._rows_line is not None and self._rows_line.worker != line.worker:
            self._take_rows()
        self._rows_line = line
        self._rows.append(row)
        if len(self._rows) >= _ROWS:
            self._take_rows()

    def _take_rows(self) -> None:
        rows, line = self._rows, self._rows_line
        self._rows, self._rows_line = [], None
        if line is None:
            return
        try:
            self._handle(line, Recorded(rows))
        except Exception:  # noqa: BLE001 - a border: they were type-checked one by one
            self._damaged += len(rows)

    def _pass_over(self) -> None:
        self._damaged += 1

    def _take(self, line: Line, size: int) -> None:
        if line.type == DROPPED:
            if self._run is not None:
                self._runs.log.dropped[self._run.id] += sum(line.values["rows"].values())
                self._runs.records.lost(line.values["rows"].get("call", 0))
        elif self._is_held(line, size):
            message = self._shortened(line, size).message
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

    def _is_held(self, line: Line, size: int) -> bool:
        """Whether there is room for what is held until the server ends; else it is counted."""
        takes, values = self._extent.takes, line.values
        match line.type:
            case "warning" | "changed":
                return takes("note")
            case "add_line" | "add_trace" | "add_breakpoint" | "add_exception":
                return values["id"] in self._names.breakpoints or takes("tracepoint")
            case "test_started" if self._run is not None:
                if len(self._run.results.tests) >= _MOST_TESTS:  # very many that don't end
                    self._extent.left["other test"] += 1
                    return False
            case "stop":
                return size <= _AT_ONCE_BYTES and takes("stop")
            case "node_relayed":
                return hash((values["about"], values["nodeid"])) not in self._gone
            case "collection_failed":
                results = None if self._run is None else self._run.results
                if results is None or results.is_uncollected(values["nodeid"]):
                    return False
                if not takes("failure"):
                    results.tally_collection_failure(values["nodeid"])
                    return False
        return True

    def _shortened(self, line: Line, size: int) -> Line:
        """A line of a report, with all of it or what fits in one line."""
        if line.type not in ("test_phase", "collection_failed"):
            return line
        is_failure = line.values.get("category", "error") in FAILED
        held = self._extent.report(line.values, size, is_failure=is_failure)
        if held is line.values:
            return line
        return line._replace(values={"nodeid": line.values["nodeid"], **held})

    def _let_go(self, worker: str, nodeid: str) -> None:
        """Forget a test that has ended, if there is no room; one whose failure is held stays."""
        assert self._run is not None
        results = self._run.results
        test = results.tests.get(results.key(worker, nodeid))
        if test is None or (test.outcome in FAILED and test.report is not None):
            return
        if test.outcome in FAILED or not self._extent.takes(
            "passed test" if test.outcome == "passed" else "other test"
        ):
            results.let_go(worker, nodeid)
            self._gone.add(hash((worker, nodeid)))

    def _admit(self, hello: Hello, ts: float) -> None:
        if self._run is None:
            self._began = ts
            id = f"r{sum(1 for _ in self._runs) + 1}"
            self._names = _Names(hello.run_id, id)
            self._run = self._runs.open(Run(id, RunOrder(pause_on="never")), self._folder)
        target = Target(replace(hello, run_id=self._run.id), lambda _command: None)
        target.attached_at = round(ts, 3)
        self._targets[hello.worker] = target
        self._runs.admit(target)

    def _add(self, command: AddLine | AddTrace | AddBreakpoint | AddException) -> None:
        """A breakpoint of this run, unless another process of it has sent it."""
        if not _is_id(command.id):
            raise ValueError(f"no id of a breakpoint: {command.id[:80]!r}")
        if command.id in self._names.breakpoints:
            return
        desired = self._runs.desired
        id, breakpoint = command.id, desired.get(command.id)
        asked = command if isinstance(command, AddTrace) else replace(command, request=0)
        if breakpoint is not None and breakpoint.command(0) != asked:
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
            case PhaseReported() if event.category in FAILED and self._run is not None:
                if not self._extent.takes("failure"):
                    self._run.results.tally(line.worker, event)
                    return
        self._runs.handle(target, event, line.ts)
        if isinstance(event, NodeFinished) and not event.again:
            self._let_go(line.worker, event.nodeid)

    def _end(self) -> None:
        if self._run is None:
            return
        for target in self._targets.values():
            if target.worker in self._run.targets:
                target.lost()
                self._runs.lost(target)
        self._run.took(self._moment - self._began)
        if not self._is_hiding:
            self._run.warnings.append(NOT_HIDING)
        if self._extent.shortened:
            self._run.warnings.append(cut_short(self._extent.shortened))
        if self._extent.sentence:
            self._run.warnings.append(self._extent.sentence)
        if self._damaged:
            lines = counted(self._damaged, "line")
            self._run.warnings.append(f"{lines} of the record made no sense and were passed over")
        last = self._under_way.get(MAIN)
        self._runs.settle(self._run, None if last is None else FilePosition("", *last))


def _decoded(lines: Iterator[Raw]) -> list[tuple[float, int, Line | None]]:
    """The next lines with their time and size; None: it makes no sense. On a thread."""
    found: list[tuple[float, int, Line | None]] = []
    room = _AT_ONCE_BYTES
    for raw in lines:
        try:
            line = Line.decoded(raw.text)
        except ValueError:
            line = None
        found.append((raw.at, len(raw.text), line))
        room -= len(raw.text)
        if len(found) >= _AT_ONCE or room < 0:
            break
    return found


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
