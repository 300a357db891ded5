"""The digest of a recorded run for people: tests, failures, tracepoints and calls, read once.

The report, `cideldill show` and the summary for CI pages all show it. Rows may be many: the
first and the last ones are kept, and only those are decoded; the others are counted. Whatever a
record holds was written by somebody else: lines that make no sense are passed over, and counted,
and what is held has bounds (`extent`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.protocol import CALLS_OF
from pytest_cideldill.protocol.reducer import FAILED, TestRun
from pytest_cideldill.records.answers import read_answers
from pytest_cideldill.records.format import Line
from pytest_cideldill.records.hit_blocks import HitBlock, ids_in
from pytest_cideldill.records.manifest import Listener, Summary, summarize
from pytest_cideldill.records.reader import run_folders
from pytest_cideldill.redaction.hidden_nodeids import meant
from pytest_cideldill.reports.bounds import ROW_BYTES, Bounds
from pytest_cideldill.reports.outcomes import Failure, Test

KEPT: Final = 10_000
"""Rows that are kept from either end: the first hits of each tracepoint, the last of all; calls."""

_MOST_OPEN: Final = 60_000
_MOST_PHASES: Final = 1_000
_MOST_CHARACTERS: Final = 20_000
"""Tests that are found when more lines are about them; reports of a test; characters of a note."""

_SENSELESS: Final = (ValueError, TypeError, KeyError, AttributeError)

_NOTES: Final = {
    "warning": "message",
    "log": "message",
    "changed": "what",
    "interrupted": "message",
    "internal_error_raised": "longrepr",
    "worker_lost": "error",
}
"""Types of lines that become notes → the key of their text."""


@dataclass(slots=True)
class KeptRows:
    """The first and the last rows of a series, as they were written.

    Attributes:
        count: How many there were.
        room: How many bytes more may be kept.
        first: Some of them.
        last: Those that were kept of the others.
    """

    count: int = 0
    room: int = ROW_BYTES
    first: list[bytes] = field(default_factory=list)
    last: deque[bytes] = field(default_factory=deque)

    def lines(self, most: int = 2 * KEPT) -> list[Line]:
        """The kept rows, in their order; at `most` so many, half of them from either end."""
        kept = [*self.first, *self.last]
        if len(kept) > most:
            kept = [*kept[: most // 2], *kept[len(kept) - (most - most // 2) :]]
        lines = []
        for text in kept:
            try:
                lines.append(Line.decoded(text))
            except ValueError:
                continue
        return lines


@dataclass(slots=True)
class Tracepoint:
    """A watched place, and its messages.

    Attributes:
        place: `file:line`, or a function.
        message: Its template; None: it has none, as it pauses.
        reasons: Why it was not hit, as its processes know; empty texts: it was.
    """

    id: str
    place: str
    message: str | None = None
    condition: str | None = None
    hits: KeptRows = field(default_factory=KeptRows)
    reasons: list[str] = field(default_factory=list)

    @property
    def why_not(self) -> str:
        """Why it was not hit; empty: it was, or that is not known."""
        return self.reasons[0] if self.reasons and all(self.reasons) and not self.hits.count else ""


@dataclass(frozen=True, slots=True)
class Note:
    """A line beside tests: warnings, words of `cideldill.log`, a lost worker."""

    ts: float
    worker: str
    type: str
    text: str
    nodeid: str | None = None


@dataclass(slots=True)
class Story(Listener):
    """The digest of one run; a `Listener` of its summary.

    Attributes:
        kept: How many rows are kept from either end.
        summary: Its summary, as in the manifest.
        damaged: Lines that make no sense.
        extent: What is held, and what is only counted.
        is_hiding: Whether secrets were replaced by tags.
        answers: Node id → why the test failed, where that was asked.
    """

    folder: Path
    kept: int = KEPT
    summary: Summary = field(default_factory=lambda: Summary(""))
    tests: list[Test] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    tracepoints: dict[str, Tracepoint] = field(default_factory=dict)
    calls: KeptRows = field(default_factory=KeptRows)
    notes: list[Note] = field(default_factory=list)
    damaged: int = 0
    extent: Bounds = field(default_factory=Bounds)
    is_hiding: bool = True
    answers: dict[str, str] = field(default_factory=dict)
    _of_globs: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    _open: dict[tuple[str, str], Test] = field(default_factory=dict)
    _unheld: set[int] = field(default_factory=set)
    _first_room: int = ROW_BYTES
    _root: str = ""
    _last: deque[tuple[int, Callable[[], bytes]]] = field(default_factory=deque)
    _in_last: int = 0

    @property
    def is_good(self) -> bool:
        """Whether nothing failed, and the run came to its end."""
        return not self.failures and self.summary.exit_code in (0, 5)  # 5: there were no tests

    @property
    def hottest(self) -> list[Tracepoint]:
        """The tracepoints that were hit, by how often."""
        hit = [tracepoint for tracepoint in self.tracepoints.values() if tracepoint.hits.count]
        return sorted(hit, key=lambda each: -each.hits.count)

    def why(self, failure: Failure) -> str:
        """Why a test failed; empty: that was not asked. Of its failures the first one has it."""
        # Asked by another process, whose tags for secrets are others.
        nodeid, answers = failure.nodeid, self.answers
        found = meant(nodeid, answers) or [answer for answer in answers if meant(answer, [nodeid])]
        if not found or failure is not next(f for f in self.failures if f.nodeid == nodeid):
            return ""
        return answers[found[0]]

    def has(self, nodeid: str) -> bool:
        """Whether a test ran, or a file was to be collected."""
        known = {test.nodeid for test in self.tests} | {failure.nodeid for failure in self.failures}
        return nodeid in known

    def take(self, line: Line) -> None:
        """Take a line about no test: a breakpoint, a note; one that makes no sense is counted."""
        try:
            self._take(line)
        except _SENSELESS:
            self.damaged += 1

    def take_started(self, worker: str, nodeid: str, ts: float) -> None:
        """Note that a test begins."""
        self._begun(worker, nodeid, ts)

    def take_relayed(self, worker: str, nodeid: str, ts: float) -> None:
        """Note that a test began about then, unless its start is known."""
        if (worker, nodeid) not in self._open:
            self._begun(worker, nodeid, ts)

    def take_report(self, worker: str, nodeid: str, report: dict[str, Any], size: int) -> None:
        """Hold a report of a test, whole or in one line, as far as there is room."""
        is_failure = report["category"] in FAILED
        report = self.extent.report(report, size, is_failure=is_failure)
        test = self._test(worker, nodeid)
        if len(test.phases) < _MOST_PHASES and self.extent.takes("report"):
            test.phases.append(report)
        if is_failure and self.extent.takes("failure"):
            self.failures.append(Failure(nodeid, worker, report))

    def take_ended(
        self, test: TestRun, ts: float, took_s: float, plain: dict[str, int], *, again: bool
    ) -> None:
        """Note the end of a test; one that is not held is only counted from now on."""
        ended = self._test(*test)
        if ended.is_over:
            return
        ended.ended = ts
        ended.duration_s += took_s
        ended.plain = plain if len(plain) < _MOST_PHASES else {}
        ended.is_tried_again = again
        if not again and not self._hold(ended):
            self._open.pop(test, None)

    def take_not_collected(self, worker: str, nodeid: str, longrepr: str, size: int) -> None:
        """Hold a file that could not be collected as a failure."""
        report = {"phase": "collect", "category": "error", "longrepr": longrepr}
        report = self.extent.report(report, size, is_failure=True)
        if self.extent.takes("failure"):
            self.failures.append(Failure(nodeid, worker, report))

    def take_damaged(self) -> None:
        """Count a line that makes no sense."""
        self.damaged += 1

    def take_call(self, text: bytes) -> None:
        """Keep a recorded call, if it is one of the first or the last."""
        calls = self.calls
        calls.count += 1
        if len(calls.first) < self.kept and calls.room > ROW_BYTES // 2:
            calls.first.append(text)
            calls.room -= len(text)
            return
        calls.last.append(text)
        calls.room -= len(text)
        while len(calls.last) > self.kept or (calls.room < 0 and len(calls.last) > 1):
            calls.room += len(calls.last.popleft())

    def take_hits(self, block: HitBlock) -> None:
        """Keep the first and the last hits; most of very many are only counted, by their blocks."""
        is_full = True
        for id, count in block.counts.items():
            rows = self._tracepoint(id).hits
            rows.count += count
            is_full = is_full and (len(rows.first) >= self.kept or self._first_room < 0)
        if is_full:
            self._add_last(block.count, block.text)
            return
        others: list[bytes] = []
        for id, line in _by_breakpoint(block.text()):
            first = self._tracepoint(id).hits.first
            if len(first) < self.kept and self._first_room >= 0:
                self._first_room -= len(line)
                first.append(line)
            else:
                others.append(line)
        text = b"".join(others)
        self._add_last(len(others), lambda: text)

    def end(self, summary: Summary) -> None:
        """All lines were taken, and this is what they are in short."""
        self.summary = summary
        for test in self._open.values():
            self._hold(test)
        self._open.clear()
        self.tests.sort(key=lambda each: each.began or 0.0)  # parts are read one after the other
        for globbed, reasons in self._of_globs.items():
            if all(reason for _, reason in reasons):  # of all workers
                ts, reason = reasons[-1]
                text = f"{globbed}: none were recorded: {reason}"
                self.notes.append(Note(ts, "main", "warning", text))
        room = ROW_BYTES
        while self._last and room > 0:  # the newest ones, if not all can be held
            for id, line in reversed(list(_by_breakpoint(self._last.pop()[1]()))):
                room -= len(line)
                if room > 0:
                    self._tracepoint(id).hits.last.appendleft(line)
        self._last.clear()

    def _add_last(self, count: int, text: Callable[[], bytes]) -> None:
        self._last.append((count, text))
        self._in_last += count
        while self._in_last - self._last[0][0] >= self.kept:
            self._in_last -= self._last.popleft()[0]

    def _take(self, line: Line) -> None:
        values = line.values
        match line.type:
            case "worker_up":
                self._root = str(values["rootdir"]).rstrip("/\\")
            case "add_line" | "add_trace" | "add_breakpoint":
                self._declared(values)
            case "redaction_chosen":
                self.is_hiding = self.is_hiding and not values.get("off")
            case "watched":
                for id, fact in values["facts"].items():
                    why, note = fact.get("why") or "", fact.get("note")
                    reason = f"{why} ({note})" if why and note else why
                    if id in self.tracepoints:
                        self.tracepoints[id].reasons.append(reason)
                    elif id.startswith(CALLS_OF):
                        self._of_globs.setdefault(id, []).append((line.ts, reason))
            case type if type in _NOTES:
                text = str(values[_NOTES[type]])
                named = [f"{key}={value}" for key, value in (values.get("values") or {}).items()]
                text = " ".join([text, *named])[:_MOST_CHARACTERS]
                if not self.extent.takes("note"):
                    return
                note = Note(line.ts, line.worker, type, text, values.get("nodeid"))
                self.notes.append(note)

    def _test(self, worker: str, nodeid: str) -> Test:
        return self._open.get((worker, nodeid)) or self._begun(worker, nodeid, None)

    def _begun(self, worker: str, nodeid: str, ts: float | None) -> Test:
        before = self._open.get((worker, nodeid))
        if before is not None and before.is_tried_again:
            return before
        if before is not None:
            self._hold(before)
        test = Test(str(nodeid), worker, ts)
        if len(self._open) < _MOST_OPEN:
            self._open[worker, nodeid] = test
        return test

    def _hold(self, test: Test) -> bool:
        """Hold it to be shown, if there is room; else it is counted."""
        if not test.is_held:
            is_plain = not test.phases and test.ended is not None
            test.is_held = self.extent.takes("passed test" if is_plain else "other test")
            if test.is_held:
                self.tests.append(test)
        return test.is_held

    def _tracepoint(self, id: str) -> Tracepoint:
        tracepoint = self.tracepoints.get(id)
        if tracepoint is None:
            if hash(id) in self._unheld or not self.extent.takes("tracepoint"):
                self._unheld.add(hash(id))
                return Tracepoint(id, id)  # nobody sees it
            tracepoint = self.tracepoints[id] = Tracepoint(id, id)
        return tracepoint

    def _declared(self, values: dict[str, Any]) -> None:
        tracepoint = self._tracepoint(values["id"])
        tracepoint.message, tracepoint.condition = values.get("message"), values.get("condition")
        file, root = values.get("file"), self._root
        if file is None:
            tracepoint.place = str(values["function_name"])
            return
        inside = file[len(root) + 1 :] if file.startswith(root) else file
        where = f" {values['qualname']}@{values['at']}" if "at" in values else ""
        tracepoint.place = f"{inside}:{values['line']}{where}"


def read(folder: Path) -> Story:
    """A run, whether it came to its end or not. Raises OSError, ValueError: it can't be read."""
    story = Story(folder)
    try:
        story.end(summarize(folder, story))
        story.answers = read_answers(folder)
    except (TypeError, KeyError) as error:
        raise ValueError(f"{folder} is no recorded run: {error!r}") from error
    if story.damaged and not story.summary.run_id:
        raise ValueError(f"{folder} is no recorded run: no process says in it that it began")
    return story


def runs_in(record: Path, wanted: str = "") -> list[Path]:
    """The folders of the runs in a record, oldest first; only those whose name ends as wanted.

    Raises:
        ValueError: There is none; the message says where and what there is.
    """
    paths = run_folders(record)
    chosen = [path for path in paths if path.name.endswith(wanted)]
    if not chosen:
        raise ValueError(f"no run {wanted!r}; there are {', '.join(path.name for path in paths)}")
    return chosen


def _by_breakpoint(text: bytes) -> Iterator[tuple[str, bytes]]:
    """Lines of hits; without those that name no breakpoint, as they are damaged."""
    ids, lines = ids_in(text), text.splitlines(keepends=True)
    if len(ids) == len(lines):
        yield from zip(ids, lines, strict=True)
        return
    for line in lines:
        for id in ids_in(line)[:1]:
            yield id, line
