"""The results of a run's tests so far, by the events of its processes; pure bookkeeping."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from cideldill_mcp.runs.failure_groups import FailureGroups
from pytest_cideldill import protocol
from pytest_cideldill.protocol.reducer import FAILED, OutcomeReducer, outcome_after

Logged = tuple[str, dict[str, Any]]
"""What the event log gets: a type and values."""

_OF_REPORT = ("exception", "location", "longrepr", "stdout", "stderr", "log", "incomplete")


@dataclass(slots=True)
class TestResult:
    """One test: the verdict so far and, when it did not just pass, the report that says why."""

    __test__ = False

    nodeid: str
    worker: str | None  # None: it died in it, and another one will try again
    outcome: str | None = None
    group: str | None = None
    duration_s: float = 0.0
    report: protocol.PhaseReported | None = None
    started_at: float | None = None
    # Attempts that failed and were made again.
    reruns: list[protocol.PhaseReported] = field(default_factory=list)
    has_ended: bool = False

    def to_plain(self) -> dict[str, Any]:
        """An item of `test_results`."""
        plain: dict[str, Any] = {
            "nodeid": self.nodeid,
            "outcome": self.outcome,
            "duration_s": round(self.duration_s, 4),
            "phase": self.report.phase if self.report else "call",
            "worker": self.worker,
        }
        if self.report is not None:
            for name in _OF_REPORT:
                if value := getattr(self.report, name):
                    plain[name] = value
        if self.group is not None:
            plain["group"] = self.group
        if self.reruns:
            plain["attempt"] = len(self.reruns) + 1
            plain["reruns"] = [_rerun(report) for report in self.reruns]
        return plain


@dataclass(slots=True)
class Results:
    """The tests of one run.

    Attributes:
        total: How many tests were selected; None before collection ended.
        tests: By `key`.
        nodeids: Of a listing, what was found so far; once `total` is known, all.
        missing: Names that were asked for and that no test has.
        beside: Ids of test functions in the files of these.
        searched: What a collection without tests looked for.
        done: How many have ended.
        changes: Node id (None: outside of tests) → what a client changed there, in words.
        apart: How many tests ran in forked children.
    """

    tests: dict[str, TestResult] = field(default_factory=dict)
    failures: list[protocol.PhaseReported] = field(default_factory=list)
    collection_errors: list[protocol.CollectionFailed] = field(default_factory=list)
    nodeids: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    searched: str | None = None
    total: int | None = None
    done: int = 0
    changes: dict[str | None, list[str]] = field(default_factory=dict)
    workers: set[str] = field(default_factory=set)
    apart: int = 0
    _reducer: OutcomeReducer = field(default_factory=OutcomeReducer)
    _running: dict[str, TestResult] = field(default_factory=dict)
    _groups: FailureGroups = field(default_factory=FailureGroups)

    @property
    def outcomes(self) -> Counter[str]:
        """pytest's own categories with their counts, as its last line shows them."""
        return self._reducer.outcomes

    @property
    def failed(self) -> int:
        """How many failures pytest has counted as far as is known, those of collection included."""
        return self._reducer.failures

    def apply(self, worker: str, event: protocol.Event) -> Logged | None:
        """Take an event of a process about its tests; other events mean nothing here."""
        match event:
            case protocol.Collected():
                self.collected(event)
                return "collected", {"total": event.total}
            case protocol.ItemsFound():
                self.nodeids += event.nodeids
            case protocol.CollectionFailed():
                self.collection_failed(event)
                return "failure", {"nodeid": event.nodeid, "phase": "collect"}
            case protocol.NodeStarted():
                self.started(worker, event)
                return "test_started", {"nodeid": event.nodeid}
            case protocol.PhaseReported():
                self.reported(worker, event)
                values = {"nodeid": event.nodeid, "phase": event.phase, "outcome": event.category}
                attempt = {} if event.attempt is None else {"attempt": event.attempt}
                return ("test_phase", "failure")[event.category in FAILED], {**values, **attempt}
            case protocol.NodeFinished():
                self.finished(worker, event)
                return None if event.again else ("test_outcome", {"nodeid": event.nodeid})
        return None

    def relayed(self, event: protocol.NodeRelayed) -> list[Logged]:
        """Take a test that xdist's controller relayed, but for what its worker reported as well."""
        nodeid, worker = event.nodeid, event.worker
        test, has = (worker, nodeid), self._reducer.is_reported
        is_known = self.key(worker, nodeid) in self.tests
        phases = [protocol.PhaseReported(**phase) for phase in event.phases]
        events: list[protocol.Event] = [] if is_known else [protocol.NodeStarted(nodeid, event.ts)]
        events += [phase for phase in phases if not has(test, phase.phase, phase.attempt)]
        if event.has_ended and not self._reducer.is_over(test):
            events.append(protocol.NodeFinished(nodeid, event.duration_s, event.plain))
        logged = [self.apply(worker, each) for each in events]
        self._reducer.cut_off(test, event.plain)
        if not event.has_ended and any(_is_last(phase) for phase in phases):
            self._running.pop(self.key(worker, nodeid), None)  # no end of this test will come
            self.done += 1
        return [each for each in logged if each is not None]

    def of(self, nodeid: str) -> TestResult | None:
        """What became of a test; of several workers that ran it, in one in which it failed."""
        keys = (nodeid, *(f"{nodeid}@{worker}" for worker in sorted(self.workers)))
        results = [self.tests[key] for key in keys if key in self.tests]
        failed = (test for test in results if test.outcome in FAILED)
        return next(failed, results[0] if results else None)

    def key(self, worker: str | None, nodeid: str) -> str:
        """The key of a test in `tests`: its node id, or one with the worker if another one ran it.

        xdist can run a test in each worker, and a test in which a worker died once more.
        """
        result = self.tests.get(nodeid)
        is_mine = result is None or result.worker in (worker, None)
        return nodeid if is_mine else f"{nodeid}@{worker}"

    def collected(self, event: protocol.Collected) -> None:
        """Collection ended in one process; xdist workers all collect the same."""
        self.total = event.total
        self.missing = event.missing
        self.beside = event.beside
        self.searched = event.searched
        self.nodeids = event.nodeids or []

    def collection_failed(self, event: protocol.CollectionFailed) -> None:
        """A collection error; xdist workers all report the same ones."""
        if self._reducer.collection_failed(event.nodeid):
            self.collection_errors.append(event)

    def tally_collection_failure(self, nodeid: str) -> None:
        """Count a collection error as `collection_failed` does, and hold nothing of it."""
        self._reducer.collection_failed(nodeid)

    def is_uncollected(self, nodeid: str) -> bool:
        """Whether there was a collection error of this file."""
        return self._reducer.is_uncollected(nodeid)

    def tally(self, worker: str, event: protocol.PhaseReported) -> None:
        """Count a failure as `reported` does, and hold nothing of it."""
        test = self._counted(worker, event)
        test.outcome = outcome_after(test.outcome, event.category, event.outcome)

    def let_go(self, worker: str, nodeid: str) -> None:
        """Hold nothing of a test that has ended; it stays counted."""
        self.tests.pop(self.key(worker, nodeid), None)

    def started(self, worker: str, event: protocol.NodeStarted) -> None:
        """A test begins (or begins again)."""
        self.workers.add(worker)
        self._reducer.begin((worker, event.nodeid))
        test = TestResult(event.nodeid, worker, started_at=event.ts)
        key = self.key(worker, event.nodeid)
        before = self.tests.get(key)
        if before is not None and before.outcome is None:
            test.reruns = before.reruns
        self.tests[key] = self._running[key] = test

    def reported(self, worker: str, event: protocol.PhaseReported) -> None:
        """A phase that did not just pass. Of several failures the first one is the verdict."""
        test = self._counted(worker, event)
        if protocol.is_made_again(event.category, event.outcome, event.attempt):
            if event.attempt not in [report.attempt for report in test.reruns]:
                test.reruns.append(event)
            if event.phase == protocol.CRASHED:
                self._running.pop(self.key(worker, event.nodeid), None)
                test.worker = None
            return
        if event.category in FAILED:
            self.failures.append(event)
            self._groups.add(event)
        if test.outcome not in FAILED:
            test.outcome = outcome_after(test.outcome, event.category, event.outcome)
            test.report = event
            test.group = self.group_of(event)

    def _counted(self, worker: str, event: protocol.PhaseReported) -> TestResult:
        """The test of a report, which counts now."""
        test = worker, event.nodeid
        self._reducer.report(test, event.phase, event.category, event.outcome, event.attempt)
        return self.tests.setdefault(self.key(*test), TestResult(event.nodeid, worker))

    def group_of(self, event: protocol.PhaseReported) -> str | None:
        """`g1`, `g2` …: failures with one cause share it; None for what did not fail."""
        return self._groups.of(event) if event.category in FAILED else None

    def failures_by_cause(self) -> list[tuple[protocol.PhaseReported, int]]:
        """The first failure of each group with the size of that, then all the others with 0."""
        return self._groups.firsts_first(self.failures)

    def finished(self, worker: str, event: protocol.NodeFinished) -> None:
        """A test ended; a report of it that did not arrive is a failure without a reason."""
        for lost in self._reducer.lost((worker, event.nodeid), event.failed):
            self.reported(worker, lost)
        self._reducer.end((worker, event.nodeid), event.plain, again=event.again)
        if event.again:
            return
        self.apart += event.apart
        key = self.key(worker, event.nodeid)
        test = self.tests.get(key)
        self.done += test is None or not test.has_ended
        if self.total is not None:
            self.total = max(self.total, self.done)  # `--dist=each`
        self._running.pop(key, None)
        if test is not None:
            test.duration_s = event.duration_s
            test.has_ended = True
            test.outcome = test.outcome or "passed"

    def counted(self, failed: int) -> int:
        """pytest counted so many failures; how many of them had no report."""
        return self._reducer.complete(failed)

    def change(self, nodeid: str | None, what: str) -> None:
        """A client changed how a test goes on."""
        known = self.changes.setdefault(nodeid, [])
        if what not in known:
            known.append(what)

    def running(self) -> list[TestResult]:
        """Tests that have begun and not ended."""
        return list(self._running.values())

    def failures_of(self, nodeid: str) -> list[protocol.PhaseReported]:
        """All failures of a test: phases, subtests."""
        return [event for event in self.failures if event.nodeid == nodeid]

    def failed_nodeids(self) -> list[str]:
        """Tests whose verdict makes the run fail."""
        failed = (test.nodeid for test in self.tests.values() if test.outcome in FAILED)
        return list(dict.fromkeys(failed))


def _is_last(report: protocol.PhaseReported) -> bool:
    """Whether a worker died in the test, and no other one tries it again."""
    is_tried = protocol.is_made_again(report.category, report.outcome, report.attempt)
    return report.phase == protocol.CRASHED and not is_tried


def _rerun(report: protocol.PhaseReported) -> dict[str, Any]:
    """A failed attempt, in short."""
    short = {"attempt": report.attempt, "phase": report.phase}
    more = {"exception": report.exception, "location": report.location}
    return short | {name: value for name, value in more.items() if value is not None}
