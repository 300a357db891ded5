"""Processes of questions: beside runs, several at once, and gone at the end, however that came.

What runs in place of their pytest is `tests/together/asked.py`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio import CancelScope
from mcp import StdioServerParameters

from tests.together.asked import fake_python, files_of_questions, living
from tests.together.driver import DEADLINE_S, Agent, connected
from tests.together.frontend import FEW_GUESTS, FrontEnd, clean_environment, wait_until


class Bench:
    """A server whose questions are answered by scripts, and its `TMPDIR`."""

    def __init__(self, agent: Agent, folder: Path) -> None:
        self.agent = agent
        self.folder = folder

    def trace(self, name: str, **more: Any) -> dict[str, Any]:
        return self.agent.call("test_trace", nodeid=f"test_it.py::{name}", **more)

    def refused(self, name: str, **more: Any) -> dict[str, Any]:
        return self.agent.refused("test_trace", nodeid=f"test_it.py::{name}", **more)

    def start(self, name: str, **more: Any) -> Any:
        return self.agent.start("test_trace", nodeid=f"test_it.py::{name}", **more)

    def questions(self) -> list[dict[str, Any]]:
        return self.agent.call("debug_state").get("questions", [])  # type: ignore[no-any-return]

    def until_doing(self, word: str, count: int = 1) -> list[dict[str, Any]]:
        def holds() -> bool:
            return sum(word in each["doing"] for each in self.questions()) == count

        wait_until(holds, f"{count} questions: {word}")
        return self.questions()

    def is_clean(self) -> bool:
        return not (living(self.folder) or files_of_questions(self.folder) or self.questions())

    def check_clean(self) -> None:
        assert living(self.folder) == []
        assert files_of_questions(self.folder) == []
        assert self.questions() == []


def parameters(folder: Path, **env: str) -> StdioServerParameters:
    project = folder / "project"
    project.mkdir(exist_ok=True)
    (project / "pytest.ini").touch()
    python = fake_python(folder)
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "cideldill_mcp", "--python", str(python), "--", "-p", "no:cacheprovider"],
        cwd=project,
        env={**FEW_GUESTS, "TMPDIR": str(folder), **env},
    )


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("asked")
    with connected(parameters(folder)) as agent:
        yield Bench(agent, folder)


@pytest.fixture
def bench(shared: Bench) -> Iterator[Bench]:
    yield shared
    for each in shared.questions():
        shared.agent.call("test_stop", run_id=each["id"], mode="kill")
    wait_until(shared.is_clean, "questions are over")


def test_a_question_replies_with_its_text_and_leaves_nothing(bench: Bench) -> None:
    reply = bench.trace("good")
    assert reply["nodeid"] == "test_it.py::good"
    assert (reply["outcome"], reply["calls"]) == ("passed", 2)
    assert reply["text"].startswith("test_it.py::good  passed\n")
    assert "total" in reply["text"]
    assert "truncated" not in reply
    bench.check_clean()


def test_the_process_gets_what_processes_of_runs_get(bench: Bench) -> None:
    """One PYTHONHASHSEED, so that node ids made of sets mean the same; a private, empty file."""
    asked = json.loads(bench.trace("request")["text"].partition("  ")[0])
    assert asked["tree"] is True
    assert asked["hash_seed"] == bench.agent.call("debug_state")["hash_seed"]
    assert asked["seen_seed"] == asked["hash_seed"]
    assert asked["mode"] == 0o600
    assert len(asked["key"]) == 64
    assert asked["no_redact"] is False


def test_questions_are_no_runs(bench: Bench) -> None:
    bench.trace("good")
    state = bench.agent.call("debug_state")
    assert "run_id" not in state
    assert state["state"] == "idle"
    assert bench.agent.refused("test_results")["error"] == "no_run"


@pytest.mark.full
def test_a_question_has_its_time_and_replies_what_there_is(bench: Bench) -> None:
    began = time.monotonic()
    reply = bench.trace("hangs", timeout_s=1)
    assert time.monotonic() - began < 5
    assert reply["text"].startswith(
        "partial: the test was ended by Ctrl-C after 1 s (timeout_s is 1)\n"
    )
    assert (reply["outcome"], reply["calls"]) == ("unfinished", 3)
    bench.check_clean()


@pytest.mark.full
@pytest.mark.parametrize(("name", "most"), [("deaf", 6), ("stubborn", 8)])
def test_what_ignores_signals_is_killed(bench: Bench, name: str, most: float) -> None:
    began = time.monotonic()
    assert bench.trace(name, timeout_s=1)["outcome"] == "unfinished"
    assert time.monotonic() - began < most
    bench.check_clean()


def test_a_killed_process_leaves_what_it_had_seen(bench: Bench) -> None:
    reply = bench.trace("killed")
    assert (reply["outcome"], reply["calls"]) == ("unfinished", 2)
    bench.check_clean()


def test_garbage_in_the_file_is_skipped(bench: Bench) -> None:
    reply = bench.trace("garbage")
    assert (reply["outcome"], reply["calls"]) == ("passed", 2)
    bench.check_clean()


def test_processes_that_a_test_leaves_are_killed(bench: Bench) -> None:
    assert bench.trace("leaves")["outcome"] == "passed"
    wait_until(bench.is_clean, "what was killed is gone")


@pytest.mark.full
def test_a_process_that_does_not_end_after_its_tests_is_ended(bench: Bench) -> None:
    began = time.monotonic()
    reply = bench.trace("lingers")
    assert 2 < time.monotonic() - began < 10
    assert "partial" not in reply["text"]
    bench.check_clean()


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("missing", "test_not_found", "did you mean test_it.py::test_missing?"),
        ("uncollected", "not_live", "test_it.py can't be collected: NameError: shop"),
        ("refuses", "invalid_parameter", "len is made in C"),
        ("breaks", "not_live", "(exit status 4) before test_it.py::breaks began: ImportError"),
        ("silent", "not_live", "is pytest-cideldill installed for it?"),
    ],
)
def test_what_can_not_be_answered_is_refused(
    bench: Bench, name: str, error: str, words: str
) -> None:
    refused = bench.refused(name)
    assert refused["error"] == error
    assert words in refused["message"]
    bench.check_clean()


@pytest.mark.parametrize(
    ("name", "asked", "error", "words"),
    [
        ("uncalled", {"function": "total"}, "function_not_found", "it calls shop.sum"),
        ("twice", {"function": "total", "call": 3}, "invalid_parameter", "has 2 calls"),
        ("twice", {"function": "total", "when": "x > 1"}, "invalid_parameter", "none of 2 calls"),
        ("good", {"function": "a b"}, "invalid_parameter", "is no function name"),
        ("good", {"function": "total", "when": "x >"}, "invalid_parameter", "expression"),
        ("good", {"function": "t", "when": "x", "call": 2}, "invalid_parameter", "beside call"),
        ("good", {"call": 2}, "invalid_parameter", "no function is given"),
        ("good", {"timeout_s": 4000}, "invalid_parameter", "at most 3600"),
    ],
)
def test_calls_that_are_not_there_are_refused(
    bench: Bench, name: str, asked: dict[str, Any], error: str, words: str
) -> None:
    refused = bench.refused(name, **asked)
    assert refused["error"] == error
    assert words in refused["message"]


@pytest.mark.full
def test_a_stopped_question_replies_what_it_has(bench: Bench) -> None:
    asked = bench.start("hangs")
    (working,) = bench.until_doing("tests run")
    assert working["question"] == "test_trace"
    assert working["nodeid"] == "test_it.py::hangs"
    stopped = bench.agent.call("test_stop", run_id=working["id"])
    assert stopped["status"] == "stopping"
    reply = asked.result(DEADLINE_S)
    assert reply["id"] == working["id"]
    assert reply["text"].startswith(f"partial: {working['id']} was stopped after ")
    assert reply["calls"] == 3
    bench.check_clean()
    again = bench.agent.call("test_stop", run_id=working["id"])
    assert again["status"] == "already_ended"
    assert bench.agent.refused("test_stop", run_id="q999")["error"] == "run_not_found"


@pytest.mark.full
def test_a_stopped_question_can_be_killed(bench: Bench) -> None:
    asked = bench.start("stubborn")
    (working,) = bench.until_doing("tests run")
    began = time.monotonic()
    bench.agent.call("test_stop", run_id=working["id"], mode="kill")
    assert asked.result(DEADLINE_S)["outcome"] == "unfinished"
    assert time.monotonic() - began < 1.5


@pytest.mark.full
def test_a_cancelled_request_ends_its_processes(bench: Bench) -> None:
    async def cancelled() -> None:
        with CancelScope() as scope:
            arguments = {"nodeid": "test_it.py::hangs"}

            async def cancel(progress: float, total: float | None, message: str | None) -> None:
                scope.cancel()

            await bench.agent.client.call_tool(
                "test_trace", arguments, progress_callback=cancel, read_timeout_seconds=DEADLINE_S
            )

    bench.agent.portal.call(cancelled)
    wait_until(bench.is_clean, "nothing is left of a cancelled question")
    assert bench.trace("good")["outcome"] == "passed"


@pytest.mark.full
def test_several_work_at_once_and_the_others_wait(bench: Bench) -> None:
    """As many processes as cores."""
    cores = len(os.sched_getaffinity(0))
    asked = [bench.start("hangs") for _ in range(cores + 1)]
    bench.until_doing("tests run", cores)
    (waiting,) = [each for each in bench.questions() if "waits" in each["doing"]]
    assert len(living(bench.folder)) == cores
    first = next(each for each in bench.questions() if each is not waiting)
    bench.agent.call("test_stop", run_id=first["id"])

    def runs() -> bool:
        return any(
            each["id"] == waiting["id"] and "tests run" in each["doing"]
            for each in bench.questions()
        )

    wait_until(runs, "the next one runs")
    for each in bench.questions():
        bench.agent.call("test_stop", run_id=each["id"])
    assert {each.result(DEADLINE_S)["calls"] for each in asked} == {3}


@pytest.mark.full
def test_a_question_that_waits_can_be_stopped(bench: Bench) -> None:
    cores = len(os.sched_getaffinity(0))
    for _ in range(cores):
        bench.start("hangs")
    bench.until_doing("tests run", cores)
    asked = bench.start("good")
    (waiting,) = [each for each in bench.until_doing("waits") if "waits" in each["doing"]]
    bench.agent.call("test_stop", run_id=waiting["id"])
    with pytest.raises(Exception, match="other questions had all processes"):
        asked.result(DEADLINE_S)


@pytest.mark.full
def test_progress_names_the_test_and_the_seconds(bench: Bench) -> None:
    before = len(bench.agent.progress)
    bench.trace("hangs", timeout_s=2)
    progress = bench.agent.progress[before:]
    assert progress
    assert [seconds for seconds, _, _ in progress] == sorted(seconds for seconds, _, _ in progress)
    assert {total for _, total, _ in progress} == {2}
    assert any(text == "tests run 1 s: test_it.py::hangs" for _, _, text in progress)


@pytest.mark.full
def test_a_paused_run_is_left_alone(bench: Bench) -> None:
    """Its pause stays, it stays the newest run, and the same test runs beside it."""
    test = bench.folder / "project" / "test_it.py"
    test.write_text("def test_flaky():\n    total = 1\n    assert total == 2\n")
    stop = bench.agent.call("test_run", nodeids=["test_it.py"])["stops"][0]
    try:
        assert bench.trace("failing")["outcome"] == "failed"
        state = bench.agent.call("debug_state")
        assert (state["state"], state["paused"]) == ("paused", [stop["pause_id"]])
        value = bench.agent.call(
            "breakpoint_repl_eval", pause_id=stop["pause_id"], expression="total"
        )
        assert value["output"].strip() == "1"
    finally:
        bench.agent.call("test_stop")
        test.unlink()


@pytest.mark.full
def test_an_outcome_that_differs_from_the_newest_run_is_said(bench: Bench) -> None:
    test = bench.folder / "project" / "test_it.py"
    test.write_text("def test_flaky():\n    assert False\n")
    try:
        run = bench.agent.call("test_run", pause_on="never")
        assert run["outcomes"]["failed"] == 1
        text = bench.trace("test_flaky")["text"]
        assert text.splitlines()[0] == f"flaky? passed here, failed in {run['run_id']}"
        assert "flaky?" not in bench.trace("good")["text"]
    finally:
        test.unlink()


def test_sources_need_no_process(bench: Bench) -> None:
    (bench.folder / "project" / "shop.py").write_text("def total():\n    return 1\n")
    reply = bench.agent.call("test_source", function="shop.total")
    assert (reply["file"], reply["first"], reply["last"]) == ("shop.py", 1, 2)
    assert "return 1" in reply["text"]
    again = bench.agent.call("test_source", file="shop.py", line=2)
    assert again["text"] == reply["text"]
    for asked in ({}, {"file": "shop.py"}, {"line": 2}):
        assert bench.agent.refused("test_source", **asked)["error"] == "missing_parameter"
    assert bench.agent.refused("test_source", function="gone")["error"] == "function_not_found"


@pytest.mark.full
@pytest.mark.sample("9")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_server_ends_questions(tmp_path: Path, number: int) -> None:
    """After SIGKILL the reaper does."""
    started = parameters(tmp_path)
    command = [started.command, *started.args]
    server = FrontEnd(command, tmp_path / "project", clean_environment(**(started.env or {})))
    try:
        server.initialize()
        server.start("test_trace", nodeid="test_it.py::hangs")
        wait_until(lambda: bool(living(tmp_path)), "the question's process runs")
        server.leave_by(number)
    finally:
        server.close()
    assert living(tmp_path) == []
    assert files_of_questions(tmp_path) == []
