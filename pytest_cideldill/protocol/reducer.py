"""Reduces the events of a run's tests to outcomes: each report counts once, the first failure wins.

The one place of these rules, for the results of a run that goes on, the summary of a record, and
its report for people. Pure bookkeeping; it holds no texts of reports. A process under test loads
it only when it has written a record.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from pytest_cideldill.protocol.events import PhaseReported

FAILED: Final = frozenset({"failed", "error"})
"""Categories that make a run fail."""

LOST: Final = "the report could not be made: it got lost on its way"

_MOST_CATEGORIES: Final = 1_000
"""Categories of their own; those of more are counted as the empty one."""

TestRun = tuple[str, str]
"""A process (`main`, `gw0`, …) and the node id of a test in it."""


def outcome_after(before: str | None, category: str, outcome: str) -> str:
    """The outcome of a test after one more report that is not of an attempt made again.

    Args:
        before: Its outcome until then; None: there was no such report.
        category: pytest's category of the report; empty: it has none.
        outcome: pytest's outcome of the report.
    """
    return before if before is not None and before in FAILED else category or outcome


class OutcomeReducer:
    """What is known of the tests of one run, and how its reports are counted.

    Tests are known by hashes: a record may have millions of them.

    Attributes:
        outcomes: pytest's categories with their counts, as its last line shows them.
        failures: Reports with pytest's outcome `failed`, and files that could not be collected.
    """

    __slots__ = ("_ended", "_failed", "_reported", "_runs", "_uncollected", "failures", "outcomes")

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.failures = 0
        self._reported: set[int] = set()
        self._ended: set[int] = set()
        # How often a test that had ended began again: its reports are new ones then.
        self._runs: dict[int, int] = {}
        # Phase and category of the reports that failed, of tests that have not ended.
        self._failed: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
        self._uncollected: set[int] = set()

    def begin(self, test: TestRun) -> None:
        """A test begins, for the first time or again."""
        key = hash(test)
        if self._failed:
            self._failed.pop(key, None)
        if key in self._ended:
            self._ended.discard(key)
            self._runs[key] = self._runs.get(key, 0) + 1

    def report(
        self, test: TestRun, phase: str, category: str, outcome: str, attempt: int | None
    ) -> None:
        """Count a report, whether its attempt is made again or not."""
        self._reported.add(self._key(test, phase, attempt))
        if category:
            self._count(category, 1)
        if outcome == "failed":
            self.failures += 1
            self._failed[hash(test)].append((phase, category))

    def lost(self, test: TestRun, failed: Iterable[Sequence[str]] | None) -> list[PhaseReported]:
        """What stands for reports of failures that did not arrive; they are not counted yet.

        Args:
            test: It ends now.
            failed: Phase and category of all its failures, as `NodeFinished` has them.
        """
        if not failed:
            return []
        missing = Counter((phase, category) for phase, category in failed)
        missing.subtract(self._failed.get(hash(test), ()))
        return [
            PhaseReported(test[1], phase, category, "failed", 0.0, incomplete=LOST)
            for (phase, category), count in missing.items()
            for _ in range(count)
        ]

    def end(self, test: TestRun, plain: dict[str, int], *, again: bool = False) -> None:
        """A test ended; reports of it that just passed are counted.

        Args:
            plain: Category → how many reports had nothing else to tell.
            again: It was an attempt, and another one follows.
        """
        key = hash(test)
        if self._failed:
            self._failed.pop(key, None)
        if not again:
            self._ended.add(key)
        self._count_all(plain)

    def cut_off(self, test: TestRun, plain: dict[str, int]) -> None:
        """No end of a test will come: count the reports of it that just passed, as `end` does."""
        key = self._key(test, "", None)
        if plain and not self.is_over(test) and key not in self._reported:
            self._reported.add(key)
            self._count_all(plain)

    def is_reported(self, test: TestRun, phase: str, attempt: int | None) -> bool:
        """Whether there was such a report since the test began; xdist relays it once more."""
        return self._key(test, phase, attempt) in self._reported

    def is_over(self, test: TestRun) -> bool:
        """Whether the test has ended for good."""
        return hash(test) in self._ended

    def collection_failed(self, nodeid: str) -> bool:
        """A file could not be collected; whether that is new, as xdist's workers all report it."""
        key = hash(nodeid)
        if key in self._uncollected:
            return False
        self._uncollected.add(key)
        self._count("error", 1)
        self.failures += 1
        return True

    def is_uncollected(self, nodeid: str) -> bool:
        """Whether there was such a failure."""
        return hash(nodeid) in self._uncollected

    def complete(self, failed: int) -> int:
        """Count the failures that pytest counted and of which there was no report.

        Args:
            failed: pytest's own count.

        Returns:
            How many they are.
        """
        missing = max(0, failed - self.failures)
        if missing:
            self.failures += missing
            self._count("failed", missing)
        return missing

    def _key(self, test: TestRun, phase: str, attempt: int | None) -> int:
        return hash((test, self._runs.get(hash(test), 0), phase, attempt))

    def _count_all(self, plain: dict[str, int]) -> None:
        for category, count in plain.items():
            self._count(category, count)

    def _count(self, category: str, count: int) -> None:
        counts = self.outcomes
        known = category in counts or len(counts) < _MOST_CATEGORIES
        counts[category if known else ""] += count
