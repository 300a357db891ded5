"""A run's bookkeeping: outcomes as pytest counts them, each test's verdict, what is running."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from cideldill_mcp.runs.results import Results
from pytest_cideldill.protocol import (
    Collected,
    CollectionFailed,
    NodeFinished,
    NodeRelayed,
    NodeStarted,
    PhaseReported,
)

TEST = "test_a.py::test_x"


def phase(phase: str, category: str, nodeid: str = TEST, **more: Any) -> PhaseReported:
    outcome = "passed" if category == "xpassed" else category
    return PhaseReported(nodeid, phase, category, outcome, 0.1, **more)


def results_of(*phases: PhaseReported, plain: dict[str, int] | None = None) -> Results:
    """One test that had these phases."""
    results = Results()
    results.started("main", NodeStarted(TEST, 5.0))
    for each in phases:
        results.reported("main", each)
    results.finished("main", NodeFinished(TEST, 1.5, plain or {}))
    return results


@pytest.mark.parametrize(
    ("phases", "plain", "outcome", "outcomes", "fails"),
    [
        ([], {"passed": 1}, "passed", {"passed": 1}, False),
        ([phase("call", "failed")], {}, "failed", {"failed": 1}, True),
        ([phase("setup", "error")], {}, "error", {"error": 1}, True),
        ([phase("setup", "skipped")], {}, "skipped", {"skipped": 1}, False),
        ([phase("call", "xfailed")], {}, "xfailed", {"xfailed": 1}, False),
        ([phase("call", "xpassed")], {}, "xpassed", {"xpassed": 1}, False),
        # pytest counts both; the test itself failed.
        ([phase("call", "failed"), phase("teardown", "error")], {}, "failed",
         {"failed": 1, "error": 1}, True),
        ([phase("teardown", "error")], {"passed": 1}, "error", {"passed": 1, "error": 1}, True),
        ([phase("setup", "skipped"), phase("teardown", "error")], {}, "error",
         {"skipped": 1, "error": 1}, True),
        # pytest-rerunfailures: the attempt that counts is the last one.
        ([phase("call", "rerun")], {"passed": 1}, "passed", {"rerun": 1, "passed": 1}, False),
        ([phase("call", "rerun"), phase("call", "failed")], {}, "failed",
         {"rerun": 1, "failed": 1}, True),
        # pytest 9's subtests.
        ([], {"subtests passed": 3, "passed": 1}, "passed", {"subtests passed": 3, "passed": 1},
         False),
    ],
)  # fmt: skip
def test_a_test_s_outcome_and_the_counts_are_pytest_s(
    phases: list[PhaseReported],
    plain: dict[str, int],
    outcome: str,
    outcomes: dict[str, int],
    fails: bool,
) -> None:
    """Exit codes and outcomes are pytest's own."""
    results = results_of(*phases, plain=plain)
    assert results.tests[TEST].outcome == outcome
    assert dict(results.outcomes) == outcomes
    assert results.failed_nodeids() == ([TEST] if fails else [])
    assert (results.done, results.running()) == (1, [])


def test_attempts_that_begin_one_by_one_are_one_test() -> None:
    """pytest-rerunfailures tells a start and an end of each; newer and older versions alike."""
    results = Results()
    for attempt in (1, 2):
        results.started("main", NodeStarted(TEST, float(attempt)))
        results.reported("main", phase("call", "rerun", attempt=attempt))
        results.finished("main", NodeFinished(TEST, 0.5, {}, again=True))
        assert (results.done, len(results.running())) == (0, 1)
    results.started("main", NodeStarted(TEST, 3.0))
    results.finished("main", NodeFinished(TEST, 0.5, {"passed": 1}))
    assert (results.done, results.running()) == (1, [])
    shown = results.tests[TEST].to_plain()
    assert (shown["outcome"], shown["attempt"]) == ("passed", 3)
    assert shown["reruns"] == [{"attempt": n, "phase": "call"} for n in (1, 2)]
    results.started("main", NodeStarted(TEST, 4.0))  # a plugin that runs tests several times
    assert "attempt" not in results.tests[TEST].to_plain()


def test_a_failing_teardown_does_not_hide_why_the_call_failed() -> None:
    """The report that is shown is the first failure; `failures` has both."""
    call, teardown = phase("call", "failed"), phase("teardown", "error")
    results = results_of(call, teardown)
    assert results.tests[TEST].report == call
    assert results.failures == [call, teardown]


def test_a_test_that_runs_is_shown_as_running() -> None:
    """From its start to its end; several at once under xdist."""
    results = Results()
    results.started("gw0", NodeStarted("a", 1.0))
    results.started("gw1", NodeStarted("b", 2.0))
    assert {(test.nodeid, test.worker) for test in results.running()} == {
        ("a", "gw0"),
        ("b", "gw1"),
    }
    results.finished("gw0", NodeFinished("a", 0.5, {"passed": 1}))
    assert [test.nodeid for test in results.running()] == ["b"]


def test_a_test_whose_worker_crashed_is_over() -> None:
    """xdist reports it with phase `???`; no end of it will come."""
    results = Results()
    results.started("gw0", NodeStarted(TEST, 1.0))
    results.relayed(relayed(phase("???", "failed", longrepr="worker died"), has_ended=False))
    assert (results.running(), results.done) == ([], 1)
    assert results.failed_nodeids() == [TEST]


def test_a_test_whose_own_child_crashed_is_counted_once() -> None:
    """pytest-forked has the same phase, and its worker goes on to the end of the test."""
    results = Results()
    results.started("gw0", NodeStarted(TEST, 1.0))
    results.reported("gw0", phase("???", "failed", longrepr="running the test CRASHED"))
    results.finished("gw0", NodeFinished(TEST, 0.1, {}))
    results.relayed(relayed(phase("???", "failed", longrepr="running the test CRASHED")))
    assert (results.running(), results.done) == ([], 1)
    assert results.outcomes == {"failed": 1}


def relayed(*phases: PhaseReported, has_ended: bool = True) -> NodeRelayed:
    passed = {} if phases else {"passed": 1}
    shown = [dataclasses.asdict(each) for each in phases]
    return NodeRelayed("gw0", TEST, 1.0, shown, passed, 0.5, has_ended)


@pytest.mark.parametrize("known", ["nothing", "start", "phase", "all"])
def test_a_test_that_is_reported_twice_counts_once(known: str) -> None:
    """A worker that died told some of it; xdist's controller has all that was reported."""
    results = Results()
    failed = phase("call", "failed")
    if known != "nothing":
        results.started("gw0", NodeStarted(TEST, 1.0))
    if known in ("phase", "all"):
        results.reported("gw0", failed)
    if known == "all":
        results.finished("gw0", NodeFinished(TEST, 0.5, {}))
    logged = results.relayed(relayed(failed, phase("teardown", "error")))
    assert (dict(results.outcomes), results.done) == ({"failed": 1, "error": 1}, 1)
    assert [event.phase for event in results.failures] == ["call", "teardown"]
    assert (results.running(), results.tests[TEST].outcome) == ([], "failed")
    assert "failure" in [type for type, _ in logged]
    assert results.relayed(relayed(failed)) == []


def test_a_test_in_which_the_worker_died_is_over_when_xdist_says_so() -> None:
    """Its crash is reported beside the phases that were."""
    results = Results()
    results.started("gw0", NodeStarted(TEST, 1.0))
    results.relayed(relayed(phase("call", "failed"), has_ended=False))
    assert results.done == 0
    crashed = phase("???", "failed", longrepr="worker 'gw0' crashed")
    results.relayed(relayed(crashed, has_ended=False))
    assert (results.done, dict(results.outcomes)) == (1, {"failed": 2})


def test_a_test_that_is_tried_again_after_its_worker_died_has_one_result() -> None:
    """pytest-rerunfailures makes a rerun of the crash; another worker tries again."""
    results = Results()
    results.started("gw0", NodeStarted(TEST, 1.0))
    results.relayed(relayed(phase("???", "rerun", attempt=1), has_ended=False))
    assert results.running() == []
    results.started("gw2", NodeStarted(TEST, 2.0))
    results.finished("gw2", NodeFinished(TEST, 0.1, {"passed": 1}))
    (test,) = results.tests.values()
    assert (test.worker, test.outcome) == ("gw2", "passed")
    assert test.to_plain()["reruns"] == [{"attempt": 1, "phase": "???"}]
    assert dict(results.outcomes) == {"rerun": 1, "passed": 1}


def test_a_test_that_runs_in_each_worker_has_a_result_of_each() -> None:
    """`--dist=each`: it may fail in one and pass in the other."""
    results = Results()
    for worker in ("gw0", "gw1"):
        results.started(worker, NodeStarted(TEST, 1.0))
    assert [test.worker for test in results.running()] == ["gw0", "gw1"]
    results.reported("gw1", phase("call", "failed"))
    results.finished("gw1", NodeFinished(TEST, 0.1, {}))
    results.finished("gw0", NodeFinished(TEST, 0.1, {"passed": 1}))
    shown = [(test.worker, test.outcome) for test in results.tests.values()]
    assert shown == [("gw0", "passed"), ("gw1", "failed")]
    assert (results.failed_nodeids(), results.done) == ([TEST], 2)


def test_of_a_worker_that_reports_nothing_passed_tests_are_known() -> None:
    """It never connected."""
    results = Results()
    assert [type for type, _ in results.relayed(relayed())] == ["test_started", "test_outcome"]
    assert (results.tests[TEST].outcome, results.tests[TEST].worker) == ("passed", "gw0")
    assert (dict(results.outcomes), results.done) == ({"passed": 1}, 1)


def test_collection_errors_are_counted_once_however_many_workers_report_them() -> None:
    """Every xdist worker collects everything."""
    results = Results()
    for _ in range(3):
        results.collection_failed(CollectionFailed("test_bad.py", "SyntaxError"))
    results.collection_failed(CollectionFailed("test_worse.py", "ImportError"))
    assert [each.nodeid for each in results.collection_errors] == ["test_bad.py", "test_worse.py"]
    assert dict(results.outcomes) == {"error": 2}


def test_what_was_collected_is_known() -> None:
    """`nodeids` only when the run was asked to list them."""
    results = Results()
    assert results.total is None
    for event in (Collected(3, ["gone"]), Collected(2, [], ["a", "b"])):
        results.collected(event)
        assert results.total == event.total
        assert results.missing == event.missing
        assert results.nodeids == (event.nodeids or [])


def test_an_end_without_a_start_does_no_harm() -> None:
    """A connection may begin in the middle."""
    results = Results()
    results.finished("main", NodeFinished("a", 0.1, {"passed": 1}))
    results.reported("main", phase("call", "failed", "b"))
    assert (results.done, dict(results.outcomes)) == (1, {"passed": 1, "failed": 1})


def test_a_passed_test_is_reported_in_few_words() -> None:
    """An item of `test_results`; empty keys are left out."""
    assert results_of(plain={"passed": 1}).tests[TEST].to_plain() == {
        "nodeid": TEST,
        "outcome": "passed",
        "duration_s": 1.5,
        "phase": "call",
        "worker": "main",
    }


def test_a_failed_test_reports_why() -> None:
    """Exception, place, report text and output; only what there is."""
    shown: dict[str, Any] = {"exception": {"type": "KeyError"}, "longrepr": "E  KeyError"}
    failed = phase("setup", "error", **shown, stdout="printed")
    plain = results_of(failed).tests[TEST].to_plain()
    assert plain["phase"] == "setup"
    assert {key: plain[key] for key in (*shown, "stdout")} == shown | {"stdout": "printed"}
    assert not {"stderr", "log", "location"} & set(plain)
