"""`cideldill-mcp --open DIR`: a record answers what the run answered live."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cideldill_mcp.cli import main
from tests.together.opened import answers, opened
from tests.together.records import recorded
from tests.together.workbench import workbench

TILL = """
    class Till:
        def __init__(self, prices):
            self.prices = prices

        def total(self, rate=1):
            amount = 0
            for price in self.prices:
                amount += price
            return amount * rate

    def change(paid, due):
        if paid < due:
            raise ValueError(f"{due - paid} is missing")
        return paid - due
"""
TESTS = """
    import logging
    import pytest
    from till import Till, change

    @pytest.fixture
    def till():
        return Till([1, 2, 3])

    @pytest.mark.parametrize("rate", [1, 2, 3])
    def test_total(till, rate):
        logging.getLogger("till").warning("rate %s", rate)
        print("rate", rate)
        assert till.total(rate) == 6 * min(rate, 2)

    def test_change(till):
        with pytest.raises(ValueError):
            change(1, 2)
        change(paid=2, due=3)

    def test_skipped():
        pytest.skip("later")

    @pytest.mark.xfail
    def test_known():
        assert change(3, 1) == 1

    @pytest.fixture
    def broken():
        raise LookupError("no till")

    def test_setup(broken):
        pass
"""

TRACE = {"file": "till.py", "line": 9, "log_message": "price={price} amount={amount}"}


@pytest.mark.full
@pytest.mark.sample("2")
@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.full)])
def test_a_record_answers_what_the_run_answered(tmp_path: Path, workers: int) -> None:
    """Results, autopsies, calls, objects, hits and the timeline of each process."""
    root, record = tmp_path / "project", tmp_path / "rec"
    options = (f"--cideldill-record={record}", "--cideldill-record-calls=till.*")
    patient = ("-o", "cideldill_capture_ms=2000")
    with workbench(root, *options, *patient) as bench:
        bench.write(till=TILL, test_till=TESTS)
        bench.agent.call("tracepoint_set", **TRACE, condition="price > 1")
        bench.breakpoint("till.change", behavior="go")
        more = {"workers": workers} if workers else {}
        reply = bench.run(pause_on="never", **more)
        assert reply["outcomes"] == {
            "failed": 2, "passed": 2, "skipped": 1, "xfailed": 1, "error": 1
        }  # fmt: skip
        live = answers(bench.agent, "r1")
        source = bench.agent.source("till.py")
    with opened(root, record) as bench:
        again = answers(bench.agent, "r1")
        assert bench.agent.source("till.py") == source
    assert sorted(again) == sorted(live)
    for name, reported in live.items():
        assert again[name] == reported, name
    counted = Counter(call["method_name"] for call in live["calls"])
    assert counted == {"__init__": 4, "total": 3, "change": 3}
    assert any(name.startswith("timeline of ") for name in live)


@pytest.mark.full
def test_tools_that_need_a_live_test_say_so(tmp_path: Path) -> None:
    """`not_live`, with what to do; nothing is started."""
    (tmp_path / "test_it.py").write_text("def test_it(): assert 0\n")
    run = recorded(tmp_path)
    with opened(tmp_path, run.record) as bench:
        for tool, arguments in (
            ("test_run", {}),
            ("test_stop", {}),
            ("breakpoint_add", {"function_name": "test_it"}),
            ("breakpoint_set", {"file": "test_it.py", "line": 1}),
            ("tracepoint_set", {"file": "test_it.py", "line": 1}),
            ("breakpoint_repl_eval", {"pause_id": "r1.main.1", "expression": "1"}),
            ("variables_get", {"pause_id": "r1.main.1"}),
            ("stacktrace_get", {"pause_id": "r1.main.1"}),
            ("debug_continue", {}),
            ("debug_step", {"pause_id": "r1.main.1", "mode": "over"}),
        ):
            refused = bench.agent.refused(tool, **arguments)
            assert refused["error"] == "not_live", tool
            assert "pytest --cideldill-mcp" in refused["message"]
        state = bench.agent.call("debug_state")
        assert state["state"] == "finished"
        first, *_ = state["next"]
        assert first.startswith('exception_get_context {"nodeid": "test_it.py::test_it"}')
        assert not any(step.startswith("test_run") for step in state["next"])
        assert bench.agent.call("test_list")["tests"] == ["test_it.py::test_it"]
        assert "test_it.py::test_it" in bench.agent.prompt(
            "triage-failing-test", nodeid="test_it.py::test_it"
        )
        assert bench.agent.read("breakpoint://status")["state"] == "finished"
        assert bench.agent.read("debugger://session")["stale"] is True


@pytest.mark.full
def test_several_records_are_open_at_once(tmp_path: Path) -> None:
    """CI shards and reruns: each run by its own id, breakpoints of one place once."""
    (tmp_path / "test_it.py").write_text("def test_it():\n    x = 1\n    assert x\n")
    trace = "--cideldill-trace=test_it.py:3=x={x}"
    first = recorded(tmp_path, trace, record="one")
    recorded(tmp_path, "--cideldill-trace=test_it.py:2=other", record="two")
    moved = shutil.copytree(tmp_path / "one", tmp_path / "elsewhere")
    with opened(tmp_path, first.record, tmp_path / "two", moved) as bench:
        agent = bench.agent
        events = agent.call("timeline_get", types=["hit"])["events"]
        assert len({each["run_id"] for each in events}) == 3
        assert sorted(each["message"] for each in events) == ["other", "x=1", "x=1"]
        by_id = {each["id"]: each for each in agent.call("breakpoint_list")["breakpoints"]}
        lines = [by_id[each["breakpoint_id"]]["line"] for each in events]
        assert sorted(lines) == [2, 3, 3]
        assert len(by_id) == 2
        for run_id in {each["run_id"] for each in events}:
            (test,) = agent.call("test_results", run_id=run_id)["tests"]
            assert test["outcome"] == "passed"


@pytest.mark.full
def test_a_run_that_was_killed_opens_with_what_it_had_reported(tmp_path: Path) -> None:
    """Parts that nobody put together; a last line that was cut off."""
    (tmp_path / "test_it.py").write_text(
        "import os, signal, time\n\n"
        "def test_one(): pass\n\n"
        "def test_two():\n"
        "    time.sleep(0.3)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    run = recorded(tmp_path)
    (part,) = run.run.glob("*.part.jsonl")
    with part.open("ab") as file:
        file.write(b'{"n":9999,"ts":1.0,"ty')
    with opened(tmp_path, run.record) as bench:
        state = bench.agent.call("debug_state")
        assert (state["state"], state["outcomes"]) == ("crashed", {"passed": 1})
        tests = bench.results()
        assert tests["test_one"]["outcome"] == "passed"
        events = bench.agent.call("timeline_get")["events"]
        (end,) = (each["end"] for each in events if each["type"] == "run_finished")
        assert end["kind"] == "crashed"
        assert end["lastTest"] == "test_it.py::test_two"


NO_RECORDS: dict[str, dict[str, Any] | None] = {
    "holds no recorded run; pytest --cideldill-record=": {},
    "has format 99, and this pytest-cideldill reads up to 1: upgrade it": {"format": 99},
    "is no folder": None,
}
"""What is said of a manifest."""


@pytest.mark.full
def test_what_is_no_record_is_refused_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before any client waits for an answer; the last one is asked for in a shell too."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    record = tmp_path
    for number, (said, made) in enumerate(NO_RECORDS.items()):
        record = tmp_path / f"rec{number}"
        if made is not None:
            record.mkdir()
            (record / "manifest.json").write_text(json.dumps(made))
        if made:
            (record / "run-1").mkdir()
            (record / "run-1" / "events.jsonl").touch()
        with pytest.raises(SystemExit, match=r"^2$"):
            main(["--open", str(record)])
        printed = capsys.readouterr()
        assert (said in printed.err, printed.out) == (True, ""), printed
    done = subprocess.run(
        [sys.executable, "-m", "cideldill_mcp", "--open", str(record)],
        input="", capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert list(NO_RECORDS)[-1] in done.stderr
    assert done.stdout == ""


DEEP = """
class Node:
    def __init__(self, depth):
        self.depth = depth
        self.inner = Node(depth - 1) if depth else None

def grow(depth):
    return Node(depth)

print("imported")
"""


@pytest.mark.full
@pytest.mark.parametrize("allowed", [False, True])
def test_objects_of_a_record_are_unpickled_only_where_that_is_allowed(
    tmp_path: Path, *, allowed: bool
) -> None:
    """Deeper than the snapshot: in a process of its own, or with a sentence that names the way."""
    (tmp_path / "deep.py").write_text(DEEP)
    (tmp_path / "test_it.py").write_text(
        "from deep import grow\n\ndef test_it():\n    assert grow(8).depth == 8\n"
    )
    run = recorded(tmp_path, "--cideldill-record-calls=deep.grow")
    options = ("--cideldill-allow-unpickle",) if allowed else ()
    # What other code prints on stdout is no answer of the process that makes it anew.
    (tmp_path / "start").mkdir()
    (tmp_path / "start" / "sitecustomize.py").write_text("print('hello', flush=True)\n")
    env = {"PYTHONPATH": str(tmp_path / "start")}
    with opened(tmp_path, run.record, options=options, env=env) as bench:
        (call,) = bench.agent.call("breakpoint_get_call_records")["calls"]
        cid, path = call["cids"]["result"], ".inner.inner.inner.inner.inner.depth"
        near = bench.agent.call("breakpoint_inspect_object", cid=cid, path=".inner.depth")
        assert near["repr"] == "7"
        if allowed:
            reported = bench.agent.call("breakpoint_inspect_object", cid=cid, path=path)
            assert (reported["type"], reported["repr"]) == ("int", "3")
            missing = bench.agent.refused(
                "breakpoint_inspect_object", cid=cid, path=".inner.inner.inner.inner.outer"
            )
            assert missing["error"] == "invalid_path"
        else:
            refused = bench.agent.refused("breakpoint_inspect_object", cid=cid, path=path)
            assert refused["error"] == "invalid_path"
            assert "--cideldill-allow-unpickle" in refused["message"]
