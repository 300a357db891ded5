"""What a run's tests did so far, from the events of its processes; pure bookkeeping."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from dataclasses import field
from typing import Any

from pytest_cideldill.wire import Collected
from pytest_cideldill.wire import CollectionFailed
from pytest_cideldill.wire import NodeFinished
from pytest_cideldill.wire import NodeStarted
from pytest_cideldill.wire import PhaseReported

FAILED = frozenset({"failed", "error"})
"""Categories that make a run fail."""


@dataclass(slots=True)
class TestResult:
    """One test: the verdict so far and, when it did not just pass, the report that says why."""

    __test__ = False

    nodeid: str
    worker: str
    outcome: str | None = None
    duration_s: float = 0.0
    report: PhaseReported | None = None
    started_at: float | None = None

    def to_plain(self) -> dict[str, Any]:
        """An item of `test_results` (contract, section 5)."""
        plain: dict[str, Any] = {
            "nodeid": self.nodeid,
            "outcome": self.outcome,
            "duration_s": round(self.duration_s, 4),
            "phase": self.report.phase if self.report else "call",
            "worker": self.worker,
        }
        if self.report is not None:
            for name in ("exception", "location", "longrepr", "stdout", "stderr", "log"):
                if value := getattr(self.report, name):
                    plain[name] = value
        return plain


@dataclass(slots=True)
class Results:
    """The tests of one run.

    Attributes:
        outcomes: pytest's own categories with their counts, as its last line shows them.
        total: How many tests were selected; None before collection ended.
        done: How many have ended.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    tests: dict[str, TestResult] = field(default_factory=dict)
    failures: list[PhaseReported] = field(default_factory=list)
    collection_errors: list[CollectionFailed] = field(default_factory=list)
    nodeids: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    total: int | None = None
    done: int = 0

    def collected(self, event: Collected) -> None:
        """Collection ended in one process; xdist workers all collect the same."""
        self.total = event.total
        self.missing = event.missing
        self.nodeids = event.nodeids or []

    def collection_failed(self, event: CollectionFailed) -> None:
        """A collection error; xdist workers all tell the same ones."""
        if all(known.nodeid != event.nodeid for known in self.collection_errors):
            self.collection_errors.append(event)
            self.outcomes["error"] += 1

    def started(self, worker: str, event: NodeStarted) -> None:
        """A test begins (or begins again)."""
        self.tests[event.nodeid] = TestResult(event.nodeid, worker, started_at=event.ts)

    def reported(self, worker: str, event: PhaseReported) -> None:
        """A phase that did not just pass. A failing teardown does not hide a failing call."""
        if event.category:
            self.outcomes[event.category] += 1
        if event.category == "rerun":  # pytest-rerunfailures: the attempt that counts follows
            return
        if event.category in FAILED:
            self.failures.append(event)
        test = self.tests.setdefault(event.nodeid, TestResult(event.nodeid, worker))
        if test.outcome in FAILED and event.category not in FAILED:
            return
        if test.outcome != "failed":
            test.outcome = event.category or event.outcome
            test.report = event
        if event.phase == "???":  # xdist: the worker crashed, no end of this test will come
            test.started_at = None
            self.done += 1

    def finished(self, event: NodeFinished) -> None:
        """A test ended."""
        self.outcomes.update(event.plain)
        self.done += 1
        test = self.tests.get(event.nodeid)
        if test is not None:
            test.duration_s = event.duration_s
            test.started_at = None
            test.outcome = test.outcome or "passed"

    def running(self) -> list[TestResult]:
        """Tests that have begun and not ended."""
        return [test for test in self.tests.values() if test.started_at is not None]

    def failed_nodeids(self) -> list[str]:
        """Tests whose verdict makes the run fail."""
        return [test.nodeid for test in self.tests.values() if test.outcome in FAILED]
