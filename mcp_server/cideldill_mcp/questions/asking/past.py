"""What a run knows of one test: its outcome and failure, recorded calls and hits, its environment.

Of a run of this server, or of a record on disk, which is read once, line by line, in a thread.
Whatever a record holds was written by somebody else: lines that make no sense are passed over.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cideldill_mcp.breakpoints.nearest import nearest
from cideldill_mcp.runs.results import Results, TestResult
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.protocol import (
    AddLine,
    Hello,
    MalformedMessage,
    NodeFinished,
    NodeRelayed,
    NodeStarted,
    PhaseReported,
)
from pytest_cideldill.records.format import Line
from pytest_cideldill.records.merge import Raw, raw_lines
from pytest_cideldill.records.reader import NoRecord, run_folders
from pytest_cideldill.redaction.hidden_nodeids import meant

Row = dict[str, Any]

MOST_ROWS: Final = 20_000
"""Calls of a test that are compared, and as many hits."""

_MOST_NEAR: Final = 3
_OF_A_TEST: Final = frozenset({b"test_started", b"test_phase", b"test_outcome", b"node_relayed"})
_SENSELESS: Final = (MalformedMessage, ValueError, TypeError, KeyError, AttributeError)


@dataclass(slots=True)
class Past:
    """A test in a run.

    Attributes:
        name: Of the run: `r3`, or the folder.
        result: What became of the test.
        calls: Recorded calls.
        hits: Messages of tracepoints.
        tracepoints: At lines, those of the whole run.
        environment: What it ran in: versions, worker, how many tests ran before in its process.
        is_cut: Whether there were more calls or hits.
    """

    name: str
    result: TestResult
    calls: list[Row] = field(default_factory=list)
    hits: list[Row] = field(default_factory=list)
    tracepoints: list[AddLine] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    is_cut: bool = False


def in_record(path: str, nodeid: str) -> Past:
    """A test in the newest run of a record that has it.

    Args:
        path: The folder of a record or of one run, or a file in it.

    Raises:
        Refusal: `file_not_found`: there is no record; `test_not_found`: there is no such test.
    """
    folder = Path(path)
    if folder.is_file():
        folder = folder.parent
    names: list[str] = []
    try:
        for run_folder in reversed(run_folders(folder)):
            read = _Reading(run_folder, _name(path, folder, run_folder))
            if (found := read.test(nodeid)) is not None:
                return found
            names += read.names
    except (NoRecord, OSError) as error:
        why = f"against: {error}"
        if os.path.isfile(path):
            why = f"{path} is no file of a record, and no node id of a test (FILE::TEST)"
        raise Refusal(ErrorCode.FILE_NOT_FOUND, why, file=path) from error
    raise not_there(path, nodeid, names)


def not_there(name: str, nodeid: str, names: Sequence[str]) -> Refusal:
    """The refusal of a test that a run does not have."""
    near = nearest([nodeid], names, None).get(nodeid, [])[:_MOST_NEAR]
    way_out = f"did you mean {' or '.join(near)}?" if near else "it has other tests"
    more = {"nearest": near} if near else {}
    message = f"{name} has no test {nodeid!r}; {way_out if names else 'no test ran in it'}"
    return Refusal(ErrorCode.TEST_NOT_FOUND, message, nodeid=nodeid, **more)


def environment_of(hello: Hello, worker: str | None, before: int) -> dict[str, str]:
    """What a test ran in."""
    return {
        "python": hello.python,
        "pytest": hello.pytest,
        "worker": worker or "main",
        "tests before it": str(before),
    }


def _name(given: str, record: Path, folder: Path) -> str:
    """How a run is called: as the record, and by its own folder where there are several."""
    given = given.rstrip(os.sep)
    if folder == record or len(run_folders(record)) == 1:
        return given
    return os.path.join(given, folder.name)


class _Reading:
    """Reads one run."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self.names: list[str] = []

    def test(self, nodeid: str) -> Past | None:
        """What it knows of a test; of one with secrets in its id, whose tags differ."""
        found = self._read(nodeid)
        if found is None and len(ids := meant(nodeid, self.names)) == 1:
            found = self._read(ids[0])
        return found

    def _read(self, nodeid: str) -> Past | None:
        results, past = Results(), Past(self._name, TestResult(nodeid, None))
        written = json.dumps(nodeid).encode("ascii")
        before: Counter[str] = Counter()
        hellos: dict[str, Hello] = {}
        tracepoints: dict[str, AddLine] = {}
        count_before: dict[str, int] = {}
        self.names = []
        for raw in raw_lines(self._folder):
            try:
                line = self._line(raw, written, past)
                if line is None:
                    continue
                message = line.message
                if isinstance(message, Hello):
                    hellos[line.worker] = message
                elif isinstance(message, AddLine):
                    tracepoints[message.id] = message
                elif line.values.get("nodeid") == nodeid:
                    count_before.setdefault(line.worker, before[line.worker])
                    if isinstance(message, NodeRelayed):
                        results.relayed(message)
                    elif isinstance(message, NodeStarted | PhaseReported | NodeFinished):
                        results.apply(line.worker, message)
            except _SENSELESS:
                continue
            if line.type == "test_started":
                before[line.worker] += 1
                self.names.append(str(line.values["nodeid"]))
        result = results.of(nodeid)
        if result is None:
            return None
        past.result, past.tracepoints = result, list(tracepoints.values())
        hello = hellos.get(result.worker or "main") or hellos.get("main")
        if hello is not None:
            count = count_before.get(result.worker or "main", 0)
            past.environment = environment_of(hello, result.worker, count)
        return past

    def _line(self, raw: Raw, written: bytes, past: Past) -> Line | None:
        """A line with a message that is needed; rows of the test are kept at once."""
        if raw.type in (b"call", b"hit"):
            if written in raw.text:
                line = Line.decoded(raw.text)
                keep(past, [{"type": line.type, "ts": line.ts, **line.values}])
            return None
        if raw.type in (b"worker_up", b"add_line", b"test_started"):
            return Line.decoded(raw.text)
        return Line.decoded(raw.text) if raw.type in _OF_A_TEST and written in raw.text else None


def keep(past: Past, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add rows of the test, as far as there is room."""
    for row in rows:
        if row.get("nodeid") != past.result.nodeid:
            continue
        kept = past.calls if row["type"] == "call" else past.hits
        if len(kept) < MOST_ROWS:
            kept.append(dict(row))
        else:
            past.is_cut = True
