"""What became of tests in an experiment, against what becomes of them without it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from cideldill_mcp.questions.asking.asker import FAILING
from cideldill_mcp.questions.asking.registry import SideRun
from cideldill_mcp.questions.asking.unanswered import last_line
from cideldill_mcp.questions.experiment.experiment_specs import Experiment
from cideldill_mcp.questions.recordings.recorded import Recorded, RecordedTest, Value
from cideldill_mcp.questions.texts.fitting import counted
from pytest_cideldill.protocol.trace_rows import ForcedChange

NOT_RUN: Final = "not run"

_STRICT: Final = "[XPASS(strict)]"
"""How a failure begins that is none: the test passes, and is marked to fail."""

_WORDS: Final = {
    "never_called": "its function was never called",
    "line_not_reached": "the line was not reached",
    "never_imported": "its file was never imported",
    "no_code": "the line has no code",
}


@dataclass(slots=True, eq=False)
class Trial:
    """The processes of one experiment, or of the baseline.

    Attributes:
        experiment: What was changed.
        runs: Their ends.
        recorded: What they left.
        problem: Why there is nothing.
    """

    experiment: Experiment
    runs: list[SideRun] = field(default_factory=list)
    recorded: list[Recorded] = field(default_factory=list)
    problem: str = ""

    @property
    def name(self) -> str:
        """Of the experiment."""
        return self.experiment.name

    @property
    def nodeids(self) -> list[str]:
        """The tests, in the order of the first process that has each."""
        return list(dict.fromkeys(nodeid for each in self.recorded for nodeid in each.tests))

    def outcomes(self, nodeid: str) -> list[str]:
        """Of a test in each process: as `RecordedTest.outcome`, or `not run`."""
        return [
            NOT_RUN if (test := recording.tests.get(nodeid)) is None else _outcome(test)
            for recording in self.recorded
        ]

    def verdict(self, nodeid: str) -> str:
        """The outcome, or how many of the processes passed: `3/5`."""
        outcomes = self.outcomes(nodeid)
        if len(outcomes) == 1:
            return outcomes[0]
        return f"{sum(map(is_good, outcomes))}/{len(outcomes)}"

    def passes(self, nodeid: str) -> bool:
        """Whether it passed in all processes."""
        outcomes = self.outcomes(nodeid)
        return bool(outcomes) and all(map(is_good, outcomes))

    def failure(self, nodeid: str) -> str:
        """The first line of its first failure; empty: it has none."""
        for test in self._of(nodeid):
            if (phase := test.failure) is not None and _outcome(test) in FAILING:
                where = "" if phase.name == "call" else f"{phase.name}: "
                return f"{where}{phase.text}"
        if NOT_RUN in self.outcomes(nodeid):
            return self.problem or self._why_not_run()
        return "did not end" if "unfinished" in self.outcomes(nodeid) else ""

    def values(self, nodeid: str) -> dict[str, Value]:
        """What the expressions gave in a test, in the first process that has them."""
        return next((test.values for test in self._of(nodeid) if test.values), {})

    def hits(self) -> int:
        """How often forced changes were made."""
        return sum(
            count
            for recording in self.recorded
            for test in recording.tests.values()
            for number, (count, _) in test.applied.items()
            if self._is_forced(number)
        )

    def _is_forced(self, number: int) -> bool:
        changes = self.experiment.changes
        return number < len(changes) and changes[number].kind != "patch"

    def _of(self, nodeid: str) -> Iterator[RecordedTest]:
        for recording in self.recorded:
            if (test := recording.tests.get(nodeid)) is not None:
                yield test

    def _why_not_run(self) -> str:
        for run, recorded in zip(self.runs, self.recorded, strict=True):
            if recorded.uncollected:
                file, text = recorded.uncollected[0]
                return f"{file} can't be collected: {last_line(text)}"
            if run.cut is not None:
                return "the time was over" if run.cut == "timeout" else "stopped"
            if not recorded.has_ended:
                return f"the process ended early: {last_line(run.err.strip() or run.out.strip())}"
        return NOT_RUN

    # --- whether it was applied ------------------------------------------------------------------

    @property
    def is_applied(self) -> bool:
        """Whether anything of it was made; an order or a variable always is."""
        asked = self.experiment
        parts = [self._was_made(number) for number in range(len(asked.changes))]
        return any(parts) or not parts or bool(asked.env or asked.args or asked.order)

    def unapplied(self) -> list[str]:
        """Why parts of it had none, in words."""
        reasons = []
        for number, change in enumerate(self.experiment.changes):
            if not self._was_made(number):
                reasons.append(f"{_place(change)}: {self._why_not(number, change)}")
        return list(dict.fromkeys(reasons))

    def troubles(self) -> list[str]:
        """Changes that were made, but not everywhere."""
        found = []
        for recorded in self.recorded[:1]:
            for number, text in recorded.unapplied:
                if self._was_made(number) and self._is_forced(number):
                    found.append(f"{_place(self.experiment.changes[number])}: once not: {text}")
        return list(dict.fromkeys(found))

    def _was_made(self, number: int) -> bool:
        change = self.experiment.changes[number]
        for recording in self.recorded:
            if change.kind == "patch":
                fact = recording.unreached.get(number)
                is_loaded = recording.patched is None or change.file in recording.patched
                if is_loaded and (fact is None or fact.get("why") is None):
                    return True
            elif any(test.applied.get(number, (0, 0))[0] for test in recording.tests.values()):
                return True
        return False

    def _why_not(self, number: int, change: ForcedChange) -> str:
        for recording in self.recorded:
            for changed, text in recording.unapplied:
                if changed == number:
                    return text
            seen = sum(test.applied.get(number, (0, 0))[1] for test in recording.tests.values())
            if seen and change.when is not None:
                return f"when was true at none of {counted(seen, 'call')}"
            if seen and change.call:
                return f"there was no call {change.call}, only {seen}"
            if change.kind == "patch" and recording.patched is not None:
                if change.file not in recording.patched:
                    return "the file was never imported"
                return "the changed lines were not reached"
            if (fact := recording.unreached.get(number)) is not None and fact.get("why"):
                note = fact.get("note") or ""
                words = _WORDS.get(fact["why"], fact["why"].replace("_", " "))
                return f"{words} ({note})" if note else words
        return "not reached"


def _place(change: ForcedChange) -> str:
    if change.kind == "patch":
        return f"patch of {change.name}"
    if change.kind == "set_local":
        return f"set_local {change.name}"
    return f"{change.kind} {change.function}"


def _outcome(test: RecordedTest) -> str:
    failure = test.failure
    if failure is not None and failure.text.startswith(_STRICT):
        return "xpassed"
    return test.outcome


def is_good(outcome: str) -> bool:
    """Whether a test passes, also one that is marked to fail."""
    return outcome in ("passed", "xpassed")


def is_bad(outcomes: Iterable[str]) -> bool:
    """Whether a test failed in at least one process, or did not run there to its end."""
    return any(outcome in (*FAILING, NOT_RUN, "unfinished") for outcome in outcomes)


def flips(baseline: Trial, trial: Trial) -> list[str]:
    """The tests that fail without it and pass with it, in all processes."""
    return [each for each in baseline.nodeids if trial.passes(each) and fails(baseline, each)]


def breaks(baseline: Trial, trial: Trial) -> list[str]:
    """The tests that pass without it and don't with it, in at least one process."""
    found = []
    for nodeid in baseline.nodeids:
        outcomes = trial.outcomes(nodeid)
        asked = trial.experiment.order
        if not baseline.passes(nodeid) or (asked and NOT_RUN in outcomes and not trial.problem):
            continue
        if is_bad(outcomes):
            found.append(nodeid)
    return found


def fails(trial: Trial, nodeid: str) -> bool:
    """Whether a test does not pass in at least one process: it fails, or is expected to."""
    outcomes = trial.outcomes(nodeid)
    return any(outcome in FAILING or outcome in ("xfailed", "unfinished") for outcome in outcomes)


def first_failing(baseline: Trial) -> str | None:
    """The test that the question is about."""
    return next((nodeid for nodeid in baseline.nodeids if fails(baseline, nodeid)), None)


def summary(baseline: Trial, trial: Trial, cause: str | None) -> str:
    """What became of an experiment, in a few words."""
    if trial.problem:
        return f"not run ({trial.problem})"
    if not trial.is_applied:
        return "not applied"
    failing, broken = first_failing(baseline), breaks(baseline, trial)
    words = "✗→✓" if failing in flips(baseline, trial) else "✗"
    if failing is None:
        words = "✓"
    if trial.name == cause:
        words += " cause"
    return f"{words}, breaks {counted(len(broken), 'test')}" if broken else words


def cause_of(baseline: Trial, trials: Iterable[Trial]) -> str | None:
    """The experiment that flips the failing test and breaks none.

    Of several one of the client's own, and that which flips most.
    """
    failing = first_failing(baseline)
    found: Sequence[Trial] = [
        each
        for each in trials
        if failing is not None and failing in flips(baseline, each) and not breaks(baseline, each)
    ]

    def rank(trial: Trial) -> tuple[bool, int]:
        return trial.experiment.is_suggested, -len(flips(baseline, trial))

    return min(found, key=rank).name if found else None
