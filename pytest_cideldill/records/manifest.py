"""Summaries of a record: `run.json` in each run's folder, `manifest.json` of all runs.

They are for people, other programs and the last line of a run; readers of a record read the events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, Final

from pytest_cideldill.interpreter.untrusted_files import read_bounded, replacing
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.protocol import PhaseReported, to_plain
from pytest_cideldill.protocol.checking import are_parts_right, misfit
from pytest_cideldill.protocol.reducer import FAILED, OutcomeReducer, TestRun
from pytest_cideldill.records.format import DROPPED, FORMAT, MANIFEST, RUN, Line
from pytest_cideldill.records.hit_blocks import HitBlock, Stretch
from pytest_cideldill.records.merge import Raw, without_hits

_SUMMARY: Final = "run.json"
_MOST_WORKERS: Final = 2_000
_MOST_LOST: Final = 1_000
_SIZE_OF_LOST: Final = 100
"""Processes; reports of a test that got lost, and what one of them counts for, in bytes."""

_TEXT: Final = rb'"([^"\\\x00-\x1f\x7f-\xff]*)"'
_ONE: Final = (
    rb'\{"n":\d{1,15},"ts":(\d{1,11}(?:\.\d{1,20})?),"type":"%b","worker":'
    + _TEXT
    + rb',"nodeid":'
    + _TEXT
)
_QUICK: Final = {
    b"test_started": re.compile(_ONE % b"test_started" + rb"\}\n").fullmatch,
    b"test_outcome": re.compile(
        _ONE % b"test_outcome"
        + rb',"duration_s":(\d{1,9}(?:\.\d{1,20})?(?:e-\d\d)?),"plain":\{"passed":(\d{1,3})\}'
        + rb',"again":false(?:,"apart":false)?\}\n'
    ).fullmatch,
}
"""What most lines are that are no rows, in the very words in which we write them."""

_UNITS: Final = ("bytes", "kB", "MB", "GB")


class Listener:
    """Gets all lines of a run while it is summarized; of tests what is new, once each.

    A report that xdist's controller relays comes as that of its worker, and what stands for
    reports that got lost comes as if they had arrived.
    """

    __slots__ = ()

    def take(self, line: Line) -> None:
        """A line that is no row and about no test."""

    def take_started(self, worker: str, nodeid: str, ts: float) -> None:
        """A test begins; of these and the ends there may be very many."""

    def take_relayed(self, worker: str, nodeid: str, ts: float) -> None:
        """xdist's controller relays a test that has not ended; its start may be known."""

    def take_report(self, worker: str, nodeid: str, report: dict[str, Any], size: int) -> None:
        """A report, as `protocol.PhaseReported` has it, and how many bytes it took."""

    def take_ended(
        self, test: TestRun, ts: float, took_s: float, plain: dict[str, int], *, again: bool
    ) -> None:
        """A test, or an attempt at it, ended; `plain` as `protocol.NodeFinished` has it."""

    def take_not_collected(self, worker: str, nodeid: str, longrepr: str, size: int) -> None:
        """A file could not be collected."""

    def take_call(self, text: bytes) -> None:
        """A recorded call."""

    def take_hits(self, block: HitBlock) -> None:
        """Hits, one or many lines of them."""

    def take_damaged(self) -> None:
        """A line that makes no sense."""


@dataclass(slots=True)
class Summary:
    """The summary of one run.

    Attributes:
        folder: Name of its folder.
        run_id: What its pauses and calls begin with.
        started_at: Epoch seconds.
        finished_at: The same; None: it was killed.
        exit_code: pytest's; None: it was killed.
        python: Version.
        pytest: Version.
        rootdir: Absolute path on the machine of the run.
        workers: The processes that wrote anything.
        outcomes: pytest's category → how many tests.
        events: Lines in all.
        dropped: Hits and calls beyond a limit, and what the disk did not take.
        cut_off: The processes whose last word is missing: they were killed, or the disk was full.
        bytes: Of all files of the run.
    """

    folder: str
    run_id: str = ""
    started_at: float = 0.0
    finished_at: float | None = None
    exit_code: int | None = None
    python: str = ""
    pytest: str = ""
    rootdir: str = ""
    workers: list[str] = field(default_factory=list)
    outcomes: dict[str, int] = field(default_factory=dict)
    events: int = 0
    hits: int = 0
    calls: int = 0
    dropped: int = 0
    cut_off: list[str] = field(default_factory=list)
    bytes: int = 0

    @property
    def failures(self) -> int:
        """Tests that failed, in any phase."""
        return sum(self.outcomes.get(each, 0) for each in FAILED)

    @property
    def sentence(self) -> str:
        """For the last line of a run."""
        counts = [(self.failures, "failure"), (self.hits, "hit")]
        if self.calls:
            counts.append((self.calls, "call"))
        shown = [f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts]
        shown = [_size(self.bytes), *shown, f"{self.dropped} dropped"]
        if self.cut_off:
            shown.append(f"the end of {', '.join(self.cut_off)} is missing")
        return ", ".join(shown)


def summarize(
    folder: Path, listener: Listener | None = None, stretches: Sequence[Stretch] = ()
) -> Summary:
    """Read the files of a run and sum them up.

    Args:
        listener: Gets all lines, too.
        stretches: Of its events, if this process has written them.

    Raises:
        OSError: They can't be read.
    """
    listener = listener or Listener()
    summary, tests = Summary(folder.name), _Tests(listener)

    def take_hits(block: HitBlock) -> None:
        summary.hits += block.count
        summary.events += block.count
        listener.take_hits(block)

    for raw in without_hits(folder, take_hits, stretches, listener.take_damaged):
        summary.events += 1
        if raw.type == b"call":
            summary.calls += 1
            listener.take_call(raw.text)
            continue
        if raw.type in _QUICK and tests.take_quickly(raw):
            continue
        try:
            line = Line.decoded(raw.text)
            if tests.take(line, len(raw.text)):
                continue
            _take(summary, line)
        except ValueError:
            listener.take_damaged()
            continue
        listener.take(line)
    summary.outcomes = tests.outcomes()
    summary.bytes = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    return summary


def write_summaries(
    folder: Path, listener: Listener | None = None, stretches: Sequence[Stretch] = ()
) -> Summary:
    """Write the summary of a run, and the manifest of its record; arguments as for `summarize`.

    Raises:
        OSError: A file can't be read or written.
    """
    summary = summarize(folder, listener, stretches)
    _write(folder / _SUMMARY, asdict(summary))
    write_manifest(folder.parent)
    return summary


def write_manifest(record: Path) -> None:
    """Write the manifest of the runs that are over.

    It is written at the start of a run, too, so that the format is known if the run is killed.

    Raises:
        OSError: The file can't be written.
    """
    runs = []
    for path in sorted(record.glob(f"{RUN}*/{_SUMMARY}")):
        try:
            runs.append(json.loads(read_bounded(path)))
        except (OSError, ValueError, RecursionError):
            continue  # another run is about to write it, or it is none of ours
    _write(record / MANIFEST, {"format": FORMAT, "tool": "pytest-cideldill", "runs": runs})


class _Tests:
    """Hands lines about tests to the reducer, and what is new in them to a listener."""

    def __init__(self, listener: Listener) -> None:
        self._reducer = OutcomeReducer()
        self._listener = listener
        self._counted = 0

    def take_quickly(self, raw: Raw) -> bool:
        """Take one of the two lines of a test that passes, which most lines are, if it is one.

        Returns:
            Whether it was, in the very words in which we write it.
        """
        found = _QUICK[raw.type](raw.text)
        if found is None:
            return False
        ts, worker, nodeid = float(found[1]), found[2].decode(), found[3].decode()
        test = worker, nodeid
        if raw.type == b"test_started":
            self._reducer.begin(test)
            self._listener.take_started(worker, nodeid, ts)
            return True
        plain = {"passed": int(found[5])}
        self._reducer.end(test, plain)
        self._listener.take_ended(test, ts, float(found[4]), plain, again=False)
        return True

    def take(self, line: Line, size: int) -> bool:
        """Take a line; False: it is about no test. Raises ValueError: it makes no sense."""
        values, worker = line.values, line.worker
        match line.type:
            case "test_started":
                self._reducer.begin((worker, values["nodeid"]))
                self._listener.take_started(worker, values["nodeid"], line.ts)
            case "test_phase":
                self._report((worker, values["nodeid"]), values, size)
            case "test_outcome":
                self._end((worker, values["nodeid"]), line.ts, values)
            case "node_relayed":
                self._relayed((values["about"], values["nodeid"]), line.ts, values, size)
            case "collection_failed":
                if self._reducer.collection_failed(nodeid := values["nodeid"]):
                    self._listener.take_not_collected(worker, nodeid, values["longrepr"], size)
            case "run_finished" if worker == "main":
                self._counted = values.get("failed") or 0
                return False
            case _:
                return False
        return True

    def outcomes(self) -> dict[str, int]:
        """The counts of all lines, and the failures that pytest counted without a report here."""
        self._reducer.complete(self._counted)
        return dict(sorted(self._reducer.outcomes.items()))

    def _report(self, test: TestRun, report: dict[str, Any], size: int) -> None:
        category, outcome = report["category"], report["outcome"]
        self._reducer.report(test, report["phase"], category, outcome, report.get("attempt"))
        self._listener.take_report(*test, report, size)

    def _end(self, test: TestRun, ts: float, values: dict[str, Any]) -> None:
        if failed := values.get("failed"):
            for lost in self._reducer.lost(test, failed[:_MOST_LOST]):
                self._report(test, to_plain(lost), _SIZE_OF_LOST)
        plain, again = values["plain"], bool(values.get("again"))
        self._reducer.end(test, plain, again=again)
        self._listener.take_ended(test, ts, float(values["duration_s"]), plain, again=again)

    def _relayed(self, test: TestRun, ts: float, values: dict[str, Any], size: int) -> None:
        reports = values["phases"]
        for report in reports:
            if misfit(PhaseReported, report) or not are_parts_right(report):
                raise ValueError(f"no report of a phase: {report!r:.80}")
        is_over, has = self._reducer.is_over(test), self._reducer.is_reported
        new = [each for each in reports if not has(test, each["phase"], each.get("attempt"))]
        if not is_over:
            self._listener.take_relayed(*test, ts)
        for each in new:
            self._report(test, each, size // len(reports))
        if values["has_ended"] and not is_over:
            self._end(test, ts + values["duration_s"], values)
        self._reducer.cut_off(test, values["plain"])


def _take(summary: Summary, line: Line) -> None:
    values = line.values
    match line.type:
        case "worker_up" if len(summary.workers) < _MOST_WORKERS:
            summary.workers.append(line.worker)
            summary.cut_off.append(line.worker)
            if line.worker == "main":
                summary.started_at = line.ts
                for name in ("run_id", "python", "pytest", "rootdir"):
                    setattr(summary, name, values[name])
        case "worker_down" if line.worker in summary.cut_off:
            summary.cut_off.remove(line.worker)
        case "run_finished" if line.worker == "main":
            summary.finished_at, summary.exit_code = line.ts, values["exit_code"]
        case _ if line.type == DROPPED:
            summary.dropped += sum(values["rows"].values())


def _write(path: Path, plain: Any) -> None:
    """Replace a file at once: it may be read meanwhile, and several runs write a manifest."""
    with replacing(path) as file:
        file.write(json.dumps(plain, indent=1).encode() + b"\n")


def _size(count: float) -> str:
    for unit in _UNITS:
        if count < 1000 or unit == _UNITS[-1]:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError(unit)
