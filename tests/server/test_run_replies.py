"""What several tools tell of a run: verdict, stops with one autopsy, what can be done next."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest

from cideldill_mcp.processes.process import Target
from cideldill_mcp.runs.registry import RunList
from cideldill_mcp.runs.run import Run
from cideldill_mcp.tools import profile, run_replies
from cideldill_mcp.tools.next_steps import next_steps
from pytest_cideldill.protocol import (
    Collected,
    CollectionFailed,
    Departed,
    Event,
    Finished,
    InternalErrorRaised,
    Interrupted,
    NodeFinished,
    NodeStarted,
    PhaseReported,
    Resumed,
    Stopped,
)
from tests.server.processes import autopsy_of, frame_of, hello_of, pause_of

TEST = "test_a.py::test_x"


class Reported:
    """A run, and the events that its main process sends."""

    def __init__(self, id: str = "r1") -> None:
        self.run = Run(id)
        self._target = Target(hello_of(id, "main"), lambda command: None)
        self._seq = 0
        self.run.connected(self._target)

    def __call__(self, *events: Event) -> Reported:
        for event in events:
            logged = self.run.apply(self._target, event)
            if logged is not None:
                self._seq += 1
                self.run.logged(*logged, self._seq)
        return self

    def stop(self, number: int, **changes: Any) -> Reported:
        return self(Stopped(pause_of("main", number, **changes)))

    def test(self, outcome: str = "passed", nodeid: str = TEST) -> Reported:
        self(NodeStarted(nodeid, 1.0))
        if outcome != "passed":
            self(PhaseReported(nodeid, "call", outcome, outcome, 0.1))
        return self(NodeFinished(nodeid, 0.1, {"passed": 1} if outcome == "passed" else {}))

    def over(self, exit_code: int = 0) -> Reported:
        self(Finished(exit_code))
        self.run.settle()
        return self


def runs_of(*reported: Reported) -> Any:
    """Stands for `Runs`, of which `next_steps` only asks for the runs."""
    runs = RunList()
    runs._runs = {each.run.id: each.run for each in reported}
    return runs


# --- the verdict --------------------------------------------------------------------------------


def test_the_state_is_one_of_four() -> None:
    """`running | paused | finished | crashed`, whatever happens inside."""
    reported = Reported()
    states = [run_replies.verdict(reported.run)["state"]]
    reported(Collected(1, []), NodeStarted(TEST, 1.0))
    states.append(run_replies.verdict(reported.run)["state"])
    reported.stop(1)
    states.append(run_replies.verdict(reported.run)["state"])
    reported(Resumed("r1.main.1", "continue", "client"))
    states.append(run_replies.verdict(reported.run)["state"])
    reported.over()
    states.append(run_replies.verdict(reported.run)["state"])
    assert states == ["running", "running", "paused", "running", "finished"]
    crashed = Reported()
    crashed.run.settle()
    assert run_replies.verdict(crashed.run)["state"] == "crashed"


def test_exit_code_and_end_are_there_once_it_is_over() -> None:
    """`exit_code`?, `end`?; `passed` and `failed` are always counted."""
    reported = Reported()
    assert not {"exit_code", "end"} & set(run_replies.verdict(reported.run))
    assert run_replies.verdict(reported.run)["outcomes"] == {"passed": 0, "failed": 0}
    verdict = run_replies.verdict(reported.test().test("skipped", "b").over(0).run)
    assert (verdict["exit_code"], verdict["end"]) == (0, {"kind": "finished"})
    assert verdict["outcomes"] == {"passed": 1, "failed": 0, "skipped": 1}
    assert verdict["duration_s"] >= 0


def test_pauses_end_with_the_run() -> None:
    """A process that is gone holds nothing."""
    reported = Reported().stop(1).over(1)
    assert reported.run.pauses == {}
    assert run_replies.pauses(reported.run, 8_000) == []


# --- failures -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exception", "longrepr", "reported"),
    [
        ({"type": "KeyError", "message": "'x'"}, "text", {"type": "KeyError", "message": "'x'"}),
        (None, "two\nlines\n", {"type": None, "message": "two\nlines"}),
        (None, "    x\n>   y\nE   z\nE    1", {"type": None, "message": "z\n 1"}),
        (None, None, None),
        ({"type": "E", "message": "m" * 9_999}, None, {"type": "E", "message": "m" * 500}),
    ],
)
def test_a_failure_says_what_was_raised(
    exception: dict[str, Any] | None, longrepr: str | None, reported: dict[str, Any] | None
) -> None:
    """An item of `failures`; without an exception what pytest's text says."""
    event = PhaseReported(TEST, "setup", "error", "failed", 0.1, exception, {"line": 3}, longrepr)
    assert run_replies.failure(event) == {
        "nodeid": TEST,
        "phase": "setup",
        "exception": reported,
        "location": {"line": 3},
        "group": None,
    }


# --- stops --------------------------------------------------------------------------------------


def autopsy(size: int = 20) -> dict[str, Any]:
    return autopsy_of(*(frame_of("test_it.py", line, "x" * 90) for line in range(size)))


def test_only_the_newest_stop_carries_its_autopsy() -> None:
    """Oldest first, each with `seq` and `reason`."""
    reported = (
        Reported().stop(1, autopsy=autopsy()).stop(2, autopsy=autopsy()).stop(3, autopsy=autopsy())
    )
    stops = run_replies.pauses(reported.run, 8_000)
    assert [each["pause_id"] for each in stops] == ["r1.main.1", "r1.main.2", "r1.main.3"]
    assert [each["seq"] for each in stops] == [1, 2, 3]
    assert [each["reason"] for each in stops] == ["breakpoint"] * 3
    assert ["autopsy" in each for each in stops] == [False, False, True]


def test_stops_that_are_known_are_left_out() -> None:
    """`breakpoint_continue` with `wait` tells what came after it."""
    reported = Reported().stop(1).stop(2)
    (stop,) = run_replies.pauses(reported.run, 8_000, after=1)
    assert stop["pause_id"] == "r1.main.2"
    assert run_replies.pauses(reported.run, 8_000, after=2) == []


@pytest.mark.parametrize(
    ("max_chars", "most"), [(200_000, 6_000), (8_000, 6_000), (5_000, 3_000), (500, 500)]
)
def test_an_autopsy_keeps_to_its_budget(max_chars: int, most: int) -> None:
    """At most min(6,000, max_chars − 2,000) characters."""
    reported = Reported().stop(1, autopsy=autopsy(1_000))
    (stop,) = run_replies.pauses(reported.run, max_chars)
    assert len(json.dumps(stop["autopsy"], ensure_ascii=False, separators=(",", ":"))) <= most
    assert stop["autopsy"]["exception"]["type"] == "AssertionError"
    assert len(reported.run.pauses["r1.main.1"]["autopsy"]["frames"]) == 1_000  # kept whole


# --- next ---------------------------------------------------------------------------------------


@pytest.fixture
def failed_before() -> Reported:
    return Reported("r1").test("failed").over(1)


def test_at_a_pause_the_steps_are_those_of_its_phase() -> None:
    """With the id filled in, ready to be sent."""
    at_call = next_steps(Reported().stop(1).run, runs_of())
    assert all("r1.main.1" in step for step in at_call)
    assert any("fake_result" in step for step in at_call)
    after = next_steps(Reported().stop(1, phase="post_mortem").run, runs_of())
    assert any("fixtures are alive" in step for step in after)
    assert not any("fake_result" in step for step in after)


def test_the_newest_pause_is_the_one_to_go_on_with() -> None:
    """Its autopsy is the one that the reply carries."""
    steps = next_steps(Reported().stop(1).stop(2).run, runs_of())
    assert "r1.main.2" in steps[0]


def test_a_run_that_goes_on_can_be_watched_or_ended() -> None:
    """`test_run` returned because its time was up."""
    steps = next_steps(Reported().run, runs_of())
    assert any("debug_state" in step for step in steps)
    assert any('test_stop {"run_id": "r1"}' in step for step in steps)


def test_after_failures_the_reports_and_a_rerun_come_next(failed_before: Reported) -> None:
    """And after nothing but passes there is nothing to do."""
    steps = next_steps(failed_before.run, runs_of(failed_before))
    assert [step.partition(" ")[0] for step in steps] == ["test_results", "test_run"]
    assert next_steps(Reported().test().over().run, runs_of()) == []


def test_a_run_that_did_not_finish_points_at_its_end() -> None:
    """A crash or a startup error: `end` says what is known."""
    reported = Reported()
    reported.run.settle()
    (step,) = next_steps(reported.run, runs_of(reported))
    assert "end.message" in step


KINDS = ("finished", "interrupted", "startup_error", "no_tests", "internal_error", "crashed")
REPORTED_BEFORE = {
    "nothing": (),
    "a start": (NodeStarted(TEST, 1.0),),
    "a pass": (Collected(1, []), NodeStarted(TEST, 1.0), NodeFinished(TEST, 0.1, {"passed": 1})),
    "a failure": (
        Collected(1, []),
        NodeStarted(TEST, 1.0),
        PhaseReported(TEST, "call", "failed", "failed", 0.1),
        NodeFinished(TEST, 0.1, {}),
    ),
    "a collection error": (CollectionFailed("test_a.py", "E   boom"), Collected(0, [])),
    "a reason": (Interrupted("Exit: enough"),),
    "no reason": (Interrupted(""),),
    "an internal error": (InternalErrorRaised("boom"),),
}
LAST = {
    "silence": (),
    "a farewell": (Departed(),),
    **{f"code {code}": (Finished(code, 0), Departed()) for code in range(8)},
    "code 1, lost reports": (Finished(1, 3), Departed()),
}


def next_names(steps: list[str]) -> tuple[list[tuple[str, dict[str, Any]]], list[str]]:
    """The calls that steps name, with their arguments, and the fields of the reply."""
    calls = [re.match(r"(\w+) (\{.*?\})?", step) for step in steps]
    asked = [(call[1], json.loads(call[2] or "{}")) for call in calls if call and "_" in call[1]]
    words = {word for step in steps for word in re.findall(r"\b[a-z]+_[a-z_]+\b", step)}
    asked += [(word, {}) for word in words if word.partition("_")[0] in ("test", "debug")]
    return asked, [field for step in steps for field in re.findall(r"look at ([\w.]+\w)", step)]


@pytest.mark.parametrize("stopped", [False, True], ids=["by itself", "ended by a client"])
def test_every_name_in_next_exists_however_a_run_ended(stopped: bool) -> None:
    """All kinds of `end`: the tools and their parameters, the fields of the reply."""
    tools = {tool.name: {each.name for each in tool.params} for tool in profile.ALL}
    seen = set()
    for before, last in itertools.product(REPORTED_BEFORE.values(), LAST.values()):
        reported = Reported()
        reported.run.is_stopping = stopped
        reported(*before, *last)
        reported.run.settle()
        body = run_replies.verdict(reported.run)
        seen.add(body["end"]["kind"])
        calls, fields = next_names(next_steps(reported.run, runs_of(reported)))
        assert all(arguments.keys() <= tools[name] for name, arguments in calls), calls
        for field in fields:
            value: Any = body
            for name in field.split("."):
                value = value[name]
            assert value, (body, field)
    assert stopped or seen == set(KINDS)


def test_a_change_that_turned_a_failure_into_a_pass_is_named_as_the_cause(
    failed_before: Reported,
) -> None:
    """What triage aims at: the evidence names the function."""
    now = Reported("r2").test()
    now.run.results.change(TEST, "the result of shop.total(1) (shop.py:3)")
    now.over()
    first, *_ = next_steps(now.run, runs_of(failed_before, now))
    assert TEST in first
    assert "the result of shop.total(1) (shop.py:3)" in first
    assert "cause" in first


@pytest.mark.parametrize("case", ["no change", "passed before", "still fails"])
def test_without_a_flip_no_cause_is_named(failed_before: Reported, case: str) -> None:
    """A guess would be worse than silence."""
    before = Reported("r1").test().over() if case == "passed before" else failed_before
    now = Reported("r2").test("failed" if case == "still fails" else "passed")
    if case != "no change":
        now.run.results.change(TEST, "the result of shop.total(1)")
    steps = next_steps(now.over().run, runs_of(before, now))
    assert not any("cause" in step for step in steps)
