"""What a record holds at a glance: `run.json` in each run's folder, `manifest.json` of all of them.

For people, other programs and the last line of a run; whoever opens a record reads the events.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, Final, Protocol

from pytest_cideldill.interpreter.untrusted_files import read_bounded, replacing
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.protocol import lost_reports
from pytest_cideldill.records.format import DROPPED, FORMAT, MANIFEST, RUN, Line
from pytest_cideldill.records.hit_blocks import HitBlock, Stretch
from pytest_cideldill.records.merge import Raw, without_hits

_SUMMARY: Final = "run.json"
FAILED: Final = ("failed", "error")
"""Categories that make a run fail."""

_MOST_CATEGORIES: Final = 1_000
_MOST_WORKERS: Final = 2_000
_MOST_LOST: Final = 1_000
"""Categories of reports, processes, and reports of a test that got lost."""

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


class Listener(Protocol):
    """Gets all lines of a run while it is summarized."""

    def take(self, line: Line, size: int) -> None:
        """One that is no row, and how many bytes it has."""

    def take_started(self, worker: str, nodeid: str, ts: float) -> None:
        """A test begins; of these and the next there may be very many."""

    def take_passed(self, worker: str, nodeid: str, ts: float, took_s: float, count: int) -> None:
        """A test ended, and so many of its reports just passed."""

    def take_call(self, text: bytes) -> None:
        """A recorded call."""

    def take_hits(self, block: HitBlock) -> None:
        """Hits, one or many lines of them."""

    def take_damaged(self) -> None:
        """A line that makes no sense."""


@dataclass(slots=True)
class Summary:
    """One run.

    Attributes:
        folder: Name of its folder.
        run_id: What its pauses and calls begin with.
        started_at: Epoch seconds.
        finished_at: The same; None: it was killed.
        exit_code: pytest's; None: it was killed.
        python: Version.
        pytest: Version.
        rootdir: Absolute path on the machine of the run.
        workers: The processes that told anything.
        outcomes: pytest's category → how many tests.
        events: Lines in all.
        hits: Messages of tracepoints.
        calls: Calls that were recorded.
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
        counts = (
            (self.failures, "failure"),
            (self.hits, "hit"),
            *(((self.calls, "call"),) if self.calls else ()),
        )
        shown = [f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts]
        shown = [_size(self.bytes), *shown, f"{self.dropped} dropped"]
        if self.cut_off:
            shown.append(f"the end of {', '.join(self.cut_off)} is missing")
        return ", ".join(shown)


def summarize(
    folder: Path,
    listener: Listener | None = None,
    stretches: Sequence[Stretch] = (),
) -> Summary:
    """What the files of a run say.

    Args:
        folder: Of the run.
        listener: Who wants to know more than that.
        stretches: Of its events, if this process has written them.

    Raises:
        OSError: They can't be read.
    """
    summary, outcomes = Summary(folder.name), _Outcomes()

    def take_hits(block: HitBlock) -> None:
        summary.hits += block.count
        summary.events += block.count
        if listener is not None:
            listener.take_hits(block)

    def pass_over() -> None:
        if listener is not None:
            listener.take_damaged()

    for raw in without_hits(folder, take_hits, stretches, pass_over):
        summary.events += 1
        if raw.type == b"call":
            summary.calls += 1
            if listener is not None:
                listener.take_call(raw.text)
            continue
        if raw.type in _QUICK and _is_taken_quickly(raw, outcomes, listener):
            continue
        try:
            line = Line.decoded(raw.text)
            _take(summary, outcomes, line)
        except ValueError:
            pass_over()
            continue
        if listener is not None:
            listener.take(line, len(raw.text))
    summary.outcomes = outcomes.all()
    summary.bytes = sum(each.stat().st_size for each in folder.iterdir() if each.is_file())
    return summary


def write_summaries(
    folder: Path,
    listener: Listener | None = None,
    stretches: Sequence[Stretch] = (),
) -> Summary:
    """Write that of a run, and the manifest of the record that it is in; arguments as there.

    Raises:
        OSError: A file can't be read or written.
    """
    summary = summarize(folder, listener, stretches)
    _write(folder / _SUMMARY, asdict(summary))
    write_manifest(folder.parent)
    return summary


def write_manifest(record: Path) -> None:
    """Of the runs that are over; at the start of one, so that its format is told if it is killed.

    Raises:
        OSError: The file can't be written.
    """
    runs = []
    for each in sorted(record.glob(f"{RUN}*/{_SUMMARY}")):
        try:
            runs.append(json.loads(read_bounded(each)))
        except (OSError, ValueError, RecursionError):
            continue  # another run is about to write it, or it is none of ours
    _write(record / MANIFEST, {"format": FORMAT, "tool": "pytest-cideldill", "runs": runs})


class _Outcomes:
    """Reports by their category; what a worker told is not counted again when xdist tells it."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        # Hashes, for there may be very many: of what is counted; of process and test → phase and
        # category of what failed, until the test ends.
        self._told: set[int] = set()
        self._failed: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
        self.counted = 0
        self._failures = 0

    def phase(self, worker: str, nodeid: str, told: dict[str, Any]) -> None:
        self._told.add(hash((worker, nodeid, told["phase"], told.get("attempt"))))
        self._count(told["category"], 1)
        if told.get("outcome") == "failed":
            self._failures += 1
            self._failed[hash((worker, nodeid))].append((told["phase"], told["category"]))

    def end(self, worker: str, values: dict[str, Any]) -> None:
        nodeid = values["nodeid"]
        known = self._failed.pop(hash((worker, nodeid)), ())
        if failed := values.get("failed"):
            for lost in lost_reports(nodeid, failed[:_MOST_LOST], known):
                self._count(lost.category, 1)
                self._failures += 1
        self._told.add(hash((worker, nodeid)))
        for category, count in values["plain"].items():
            self._count(category, count)

    def passed(self, worker: str, nodeid: str, count: int) -> None:
        """A test ended of which nothing else is told than that so many reports passed."""
        if self._failed:
            self._failed.pop(hash((worker, nodeid)), None)
        self._told.add(hash((worker, nodeid)))
        self.counts["passed"] += count

    def _count(self, category: str, count: int) -> None:
        known = category in self.counts or len(self.counts) < _MOST_CATEGORIES
        self.counts[category if known else ""] += count

    def relayed(self, worker: str, values: dict[str, Any]) -> None:
        nodeid = values["nodeid"]
        for told in values["phases"]:
            if hash((worker, nodeid, told["phase"], told.get("attempt"))) not in self._told:
                self.phase(worker, nodeid, told)
        if hash((worker, nodeid)) not in self._told:
            self.end(worker, values)

    def not_collected(self, nodeid: str) -> None:
        """Workers all tell the same."""
        is_new = hash((nodeid,)) not in self._told
        self.counts["error"] += is_new
        self._failures += is_new
        self._told.add(hash((nodeid,)))

    def all(self) -> dict[str, int]:
        """Those that nobody told are among them: pytest has counted the failures, too."""
        if missing := max(0, self.counted - self._failures):
            self.counts["failed"] += missing
        return dict(sorted(self.counts.items()))


def _is_taken_quickly(raw: Raw, outcomes: _Outcomes, listener: Listener | None) -> bool:
    """Whether it is as we write the two lines of a test that passes: most of them are."""
    found = _QUICK[raw.type](raw.text)
    if found is None:
        return False
    ts, worker, nodeid = float(found[1]), found[2].decode(), found[3].decode()
    if raw.type == b"test_started":
        if listener is not None:
            listener.take_started(worker, nodeid, ts)
        return True
    count = int(found[5])
    outcomes.passed(worker, nodeid, count)
    if listener is not None:
        listener.take_passed(worker, nodeid, ts, float(found[4]), count)
    return True


def _take(summary: Summary, outcomes: _Outcomes, line: Line) -> None:
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
        case "test_phase":
            outcomes.phase(line.worker, values["nodeid"], values)
        case "test_outcome":
            outcomes.end(line.worker, values)
        case "node_relayed":
            outcomes.relayed(values["about"], values)
        case "collection_failed":
            outcomes.not_collected(values["nodeid"])
        case "run_finished" if line.worker == "main":
            summary.finished_at, summary.exit_code = line.ts, values["exit_code"]
            outcomes.counted = values.get("failed") or 0
        case _ if line.type == DROPPED:
            summary.dropped += sum(values["rows"].values())


def _write(path: Path, plain: Any) -> None:
    """At once, for whoever reads it meanwhile; several runs write a manifest."""
    with replacing(path) as file:
        file.write(json.dumps(plain, indent=1).encode() + b"\n")


def _size(count: float) -> str:
    for unit in _UNITS:
        if count < 1000 or unit == _UNITS[-1]:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError(unit)
