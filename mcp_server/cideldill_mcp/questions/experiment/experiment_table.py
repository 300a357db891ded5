"""The answer of `test_experiment`: a line for each experiment, against the baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cideldill_mcp.questions.experiment.trials import (
    NOT_RUN,
    Trial,
    breaks,
    cause_of,
    fails,
    first_failing,
    flips,
    is_bad,
    is_good,
)
from cideldill_mcp.questions.texts.fitting import Answer, Item, clipped, counted, fit, short
from cideldill_mcp.replies.proposals import proposal

_MARKS = {"passed": "✓", "xpassed": "✓", "failed": "✗", "error": "✗", "skipped": "s"}
_MARKS |= {"xfailed": "x", "unfinished": "…", NOT_RUN: "–"}

_FAILURE = 160
"""Characters of a failure."""

_VALUE = 200
"""Characters of a value."""

_NAMED = 3
"""Tests of one kind that are named in a line."""

_MOST_OUTCOMES = 100
"""Outcomes that are in the reply whole. Of more, flips and breaks are cut to as many in all, and
`outcomes` has only what else differs from the baseline."""


def table(baseline: Trial, trials: Sequence[Trial], notes: Sequence[str], max_chars: int) -> Answer:
    """The text and the keys beside it.

    Args:
        baseline: Without changes.
        trials: In the order that was given, suggestions behind them.
        notes: What has to be known first.
        max_chars: Most characters of the text.
    """
    cause = cause_of(baseline, trials)
    table_of = _Table(baseline, trials, cause)
    items = [Item(note, 0.0) for note in notes] + list(table_of.items())
    text, left_out = fit(items, max_chars, _closing)
    fields: dict[str, Any] = {
        "baseline": {nodeid: baseline.verdict(nodeid) for nodeid in baseline.nodeids},
        "experiments": [
            _plain(baseline, trial, 1 if trial.name == cause else len(trials)) for trial in trials
        ],
    }
    if cause is not None:
        fields["cause"] = cause
    return Answer(text, fields, bool(left_out), _next(baseline, trials, cause))


def _next(baseline: Trial, trials: Sequence[Trial], cause: str | None) -> list[str]:
    """Calls that may come next."""
    failing = first_failing(baseline)
    if failing is None:
        return []
    if cause is None:
        return [proposal("test_trace", "where the failing test goes", nodeid=failing)]
    (experiment,) = [trial.experiment for trial in trials if trial.name == cause]
    if experiment.patches or experiment.diff:
        confirmed = proposal("test_run", "the fix is confirmed", nodeids=[failing])
        return [f"edit the file, then {confirmed}"]
    named = [change.function for change in experiment.changes if change.function]
    return [proposal("test_source", "what is to be fixed", function=name) for name in named]


def _closing(left_out: Sequence[Item]) -> str:
    return f"… {counted(len(left_out), 'line')} left out: give more room (max_chars)"


class _Table:
    """Makes the lines."""

    def __init__(self, baseline: Trial, trials: Sequence[Trial], cause: str | None) -> None:
        self._baseline = baseline
        self._trials = trials
        self._cause = cause
        self._failing = first_failing(baseline)
        names = [baseline.name, *(trial.name for trial in trials)]
        self._width = max(map(len, names))
        self._short = _short_names(baseline.nodeids)

    def items(self) -> Iterator[Item]:
        yield from self._of_baseline()
        for trial in self._trials:
            is_cause = trial.name == self._cause
            yield Item(self._line(trial, is_cause=is_cause), 0.1 if is_cause else 1.0)
            for note in self._notes(trial):
                yield Item(f"{' ' * self._width}  {note}", 2.0, depth=1)
            yield from self._values(trial, 1.5 if is_cause else 3.0)

    def _of_baseline(self) -> Iterator[Item]:
        baseline = self._baseline
        failing = [each for each in baseline.nodeids if fails(baseline, each)]
        fine = [each for each in baseline.nodeids if each not in failing]
        head = f"{baseline.name:{self._width}}  "
        for number, nodeid in enumerate(failing):
            mark, failure = _mark(baseline, nodeid), short(baseline.failure(nodeid), _FAILURE)
            yield Item(f"{head}{mark} {nodeid}  {failure}".rstrip(), 0.0 if number == 0 else 1.2)
            head = " " * len(head)
        if fine:
            marks = [_mark(baseline, each) for each in fine]
            counts = {mark: marks.count(mark) for mark in dict.fromkeys(marks)}
            named = fine[0] if len(fine) == 1 else ""
            shown = " · ".join(
                f"{mark} {named or counted(count, 'other' if failing else 'test')}"
                for mark, count in counts.items()
            )
            yield Item(f"{head}{shown}", 0.1)
        yield from self._values(baseline, 1.5)

    def _line(self, trial: Trial, *, is_cause: bool) -> str:
        head = f"{trial.name:{self._width}}  "
        if trial.problem:
            return f"{head}not run: {trial.problem}"
        parts = [] if trial.is_applied else [f"not applied: {'; '.join(trial.unapplied())}"]
        parts += list(self._changes(trial))
        if trial.is_applied and (hits := trial.hits()):
            parts.append(counted(hits, "hit"))
        end = "  ← cause" if is_cause else ""
        if trial.experiment.is_suggested:
            end += "  (suggested)"
        return f"{head}{' · '.join(parts)}{end}"

    def _changes(self, trial: Trial) -> Iterator[str]:
        """The failing test first, then what flips, breaks or differs, and how many do not."""
        baseline, failing = self._baseline, self._failing
        flipped, broken = flips(baseline, trial), breaks(baseline, trial)
        same = []
        if failing is not None and flipped[:1] != [failing]:
            if failing in flipped:
                flipped.remove(failing)
                flipped.insert(0, failing)
            else:
                yield self._still_failing(trial, failing)
        if flipped:
            yield f"{self._pair(trial, flipped)} {self._named(flipped)}"
        if broken:
            failure = short(trial.failure(broken[0]), _FAILURE // len(broken[:_NAMED]))
            yield f"{self._pair(trial, broken)} {self._named(broken)}: {failure}".rstrip(": ")
        for nodeid in baseline.nodeids:
            if nodeid in (failing, *flipped, *broken):
                continue
            if _mark(trial, nodeid) == _mark(baseline, nodeid):
                same.append(nodeid)
            else:
                yield f"{_mark(baseline, nodeid)}→{_mark(trial, nodeid)} {self._short[nodeid]}"
        if left := [each for each in same if fails(trial, each)]:
            yield f"still ✗ {self._named(left)}"
        if fine := [each for each in same if each not in left]:
            yield "others as before" if len(fine) > 1 else f"{self._short[fine[0]]} as before"

    def _still_failing(self, trial: Trial, nodeid: str) -> str:
        mark, before = _mark(trial, nodeid), _mark(self._baseline, nodeid)
        shown = mark if mark == before else f"{before}→{mark}"
        failure = trial.failure(nodeid)
        if failure == self._baseline.failure(nodeid) and mark == before:
            return f"{shown} {self._short[nodeid]} as before"
        return f"{shown} {self._short[nodeid]}: {short(failure, _FAILURE)}".rstrip(": ")

    def _pair(self, trial: Trial, nodeids: Sequence[str]) -> str:
        return f"{_mark(self._baseline, nodeids[0])}→{_mark(trial, nodeids[0])}"

    def _named(self, nodeids: Sequence[str]) -> str:
        shown = ", ".join(self._short[nodeid] for nodeid in nodeids[:_NAMED])
        more = len(nodeids) - _NAMED
        return f"{shown} and {more} more" if more > 0 else shown

    def _notes(self, trial: Trial) -> list[str]:
        unapplied = trial.unapplied() if trial.is_applied else []
        return [clipped(f"not applied: {each}", _FAILURE) for each in unapplied] + [
            clipped(trouble, _FAILURE) for trouble in trial.troubles()
        ]

    def _values(self, trial: Trial, rank: float) -> Iterator[Item]:
        nodeid = self._failing or next(iter(self._baseline.nodeids), "")
        before = self._baseline.values(nodeid)
        for expression, value in trial.values(nodeid).items():
            known = before.get(expression)
            if trial is not self._baseline and known is not None and known.text == value.text:
                continue
            error = "✗ " if value.is_error else ""
            text = f"{short(expression, 60)} = {error}{short(value.text, _VALUE)}"
            yield Item(f"{' ' * self._width}  {text}  at {value.place}", rank, depth=1)


def _mark(trial: Trial, nodeid: str) -> str:
    outcomes = trial.outcomes(nodeid)
    if len(set(map(is_good, outcomes))) > 1:
        return f"{trial.verdict(nodeid)} ✓"
    return _MARKS.get(outcomes[0], "?") if outcomes else "–"


def _short_names(nodeids: Sequence[str]) -> dict[str, str]:
    """The ids without their files, where that is clear."""
    names = [each.rpartition("::")[2] for each in nodeids]
    return {
        nodeid: name if names.count(name) == 1 else nodeid
        for nodeid, name in zip(nodeids, names, strict=True)
    }


def _plain(baseline: Trial, trial: Trial, count: int) -> dict[str, Any]:
    """An experiment in the reply.

    Args:
        count: How many of them share the room; the cause has its own.
    """
    nodeids = baseline.nodeids
    is_whole = len(nodeids) * count <= _MOST_OUTCOMES
    flipped, broken = flips(baseline, trial), breaks(baseline, trial)
    known = () if is_whole else (*flipped, *broken)
    most = len(nodeids) if is_whole or count == 1 else max(_MOST_OUTCOMES // count, 1)
    failing = first_failing(baseline)
    named = (each for each in (failing, *broken) if each and is_bad(trial.outcomes(each)))
    first = next(named, None)
    plain: dict[str, Any] = {
        "name": trial.name,
        "applied": trial.is_applied,
        "flips": flipped[:most],
        "breaks": broken[:most],
        "outcomes": {
            each: trial.verdict(each)
            for each in nodeids
            if is_whole or (each not in known and trial.verdict(each) != baseline.verdict(each))
        },
    }
    for name, found in (("flips", flipped), ("breaks", broken)):
        if len(found) > most:
            plain[f"{name}_count"] = len(found)
    if trial.experiment.is_suggested:
        plain["suggested"] = True
    if first is not None:
        plain["failure"] = clipped(trial.failure(first), _FAILURE)
    values = trial.values(failing or next(iter(nodeids), ""))
    if values:
        plain["values"] = {each: clipped(value.text, _VALUE) for each, value in values.items()}
    return plain
