"""One reducer of the events of tests: a run that goes on and its record have the same outcomes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cideldill_mcp.runs.results import Results
from pytest_cideldill.protocol import (
    CollectionFailed,
    Event,
    NodeFinished,
    NodeRelayed,
    NodeStarted,
    PhaseReported,
)
from pytest_cideldill.protocol.reducer import OutcomeReducer, outcome_after
from pytest_cideldill.records.format import EVENTS, line_of
from pytest_cideldill.records.manifest import summarize
from pytest_cideldill.reports.digest import Story

TEST = "test_a.py::test_x"
START, FAILURE = NodeStarted(TEST, 1.0), PhaseReported(TEST, "call", "failed", "failed", 0.1)
XFAILED = PhaseReported(TEST, "call", "xfailed", "skipped", 0.1)
SKIPPED_PART = PhaseReported(TEST, "call", "subtests skipped", "skipped", 0.1)
CRASH = PhaseReported(TEST, "???", "failed", "failed", 0.0)
RERUN = PhaseReported(TEST, "call", "rerun", "rerun", 0.1, attempt=1)
AGAIN = NodeFinished(TEST, 0.1, {}, again=True)


def end(*failed: list[str], **plain: int) -> NodeFinished:
    return NodeFinished(TEST, 0.1, plain, failed=list(failed) or None)


def relayed(*reports: PhaseReported, has_ended: bool = True, **plain: int) -> NodeRelayed:
    phases = [dataclasses.asdict(each) for each in reports]
    return NodeRelayed("gw0", TEST, 1.0, phases, plain, 0.1, has_ended)


@pytest.mark.parametrize(
    ("events", "outcomes", "outcome"),
    [
        ([START, end(passed=1)], {"passed": 1}, "passed"),
        ([START, FAILURE, end(["call", "failed"])], {"failed": 1}, "failed"),
        # The report got lost.
        ([START, end(["call", "failed"])], {"failed": 1}, "failed"),
        # The report of the test itself comes after those of its parts.
        ([START, SKIPPED_PART, XFAILED, end()], {"subtests skipped": 1, "xfailed": 1}, "xfailed"),
        ([START, RERUN, AGAIN, START, end(passed=1)], {"rerun": 1, "passed": 1}, "passed"),
        # The worker had reported some of it, or all, or nothing.
        ([START, FAILURE, relayed(FAILURE)], {"failed": 1}, "failed"),
        ([START, FAILURE, end(["call", "failed"]), relayed(FAILURE)], {"failed": 1}, "failed"),
        ([relayed(FAILURE, FAILURE)], {"failed": 2}, "failed"),
        ([START, RERUN, AGAIN, relayed(RERUN, passed=1)], {"rerun": 1, "passed": 1}, "passed"),
        # It passed, and its worker died in the teardown: pytest's last line has both.
        ([START, relayed(has_ended=False, passed=1), relayed(CRASH, has_ended=False)],
         {"failed": 1, "passed": 1}, "failed"),
        ([CollectionFailed("test_b.py", "E"), CollectionFailed("test_b.py", "E")],
         {"error": 1}, None),
    ],
)  # fmt: skip
def test_a_run_and_its_record_have_the_same_outcomes(
    tmp_path: Path, events: list[Event], outcomes: dict[str, int], outcome: str | None
) -> None:
    results, lines = Results(), []
    for number, event in enumerate(events, 1):
        if isinstance(event, NodeRelayed):
            results.relayed(event)
        else:
            results.apply("gw0", event)
        lines.append(line_of(number, 1.0 + number, "gw0", event).text)
    (tmp_path / EVENTS).write_text("".join(lines), encoding="ascii")
    story = Story(tmp_path)
    story.end(summarize(tmp_path, story))
    assert dict(results.outcomes) == story.summary.outcomes == outcomes
    wanted = [] if outcome is None else [outcome]
    assert [each.outcome for each in results.tests.values()] == wanted
    assert [each.outcome for each in story.tests] == wanted


def test_the_first_failure_of_a_test_is_its_outcome() -> None:
    """Else it is the last report, as that of the test follows those of its parts."""
    assert outcome_after(None, "failed", "failed") == "failed"
    assert outcome_after("failed", "error", "failed") == "failed"
    assert outcome_after("skipped", "error", "failed") == "error"
    assert outcome_after("skipped", "", "passed") == "passed"


def test_failures_that_only_pytest_counted_are_counted_once() -> None:
    reducer = OutcomeReducer()
    reducer.report(("main", TEST), "call", "failed", "failed", None)
    reducer.collection_failed("test_b.py")
    assert [reducer.complete(failed) for failed in (2, 5, 5)] == [0, 3, 0]
    assert reducer.outcomes == {"failed": 4, "error": 1}


def test_a_test_that_runs_a_second_time_is_reported_anew() -> None:
    reducer, test = OutcomeReducer(), ("gw0", TEST)
    reducer.begin(test)
    reducer.report(test, "call", "failed", "failed", None)
    assert reducer.is_reported(test, "call", None)
    reducer.end(test, {})
    assert reducer.is_over(test)
    reducer.begin(test)
    assert not reducer.is_over(test)
    assert not reducer.is_reported(test, "call", None)
