"""Other tools beside us in a run: coverage, pdb, debugpy (docs/neighbours.md)."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.dap import DapClient
from tests.together.driver import locals_of
from tests.together.records import recorded
from tests.together.workbench import OVER, Bench

pytestmark = pytest.mark.full

MONITORING = sys.version_info >= (3, 12)

TILL = """
    import threading

    def total(prices, rate):
        amount = 0
        for price in prices:
            if price > 100:
                amount -= 1
            amount += price * rate
        return amount

    def unused():
        return 1

    def on_thread(prices):
        found = []
        thread = threading.Thread(target=lambda: found.append(total(prices, 1)))
        thread.start()
        thread.join()
        return found[0]
"""

TEST = """
    from till import on_thread, total

    def test_total():
        assert total([1, 2, 3], 2) == 12

    def test_on_thread():
        assert on_thread([1, 2]) == 3
"""


def covered(bench: Bench) -> Any:
    """What coverage tells of `till.py`."""
    report = json.loads((bench.root / "coverage.json").read_text(encoding="utf-8"))
    found = report["files"]["till.py"]
    return found["executed_lines"], found["missing_lines"], found.get("missing_branches")


def messages(bench: Bench) -> list[str]:
    return [each["message"] for each in bench.events("hit")]


CORES = [("ctrace", False), ("ctrace", True), *([("sysmon", False)] if MONITORING else [])]


@pytest.mark.sample("ctrace-True", "sysmon-*", "pytrace-*")
@pytest.mark.parametrize(("core", "branches"), CORES)
def test_coverage_is_the_same_with_and_without_us(bench: Bench, core: str, branches: bool) -> None:
    """pytest-cov; a tracepoint in a loop, a stop on another thread, a step and a raise."""
    bench.write(**{"till.py": TILL, ".coveragerc": f"[run]\ncore = {core}\n"})
    args = ["-p", "pytest_cov", "--cov=till", "--cov-report=json"] + ["--cov-branch"] * branches
    expected = (
        [2, 4, 5, 6, 7, 9, 10, 12, 15, 16, 17, 18, 19, 20],
        [8, 13],
        [[7, 8]] if branches else None,
    )
    assert bench.test(TEST, args=args)["exit_code"] == 0
    assert covered(bench) == expected
    bench.agent.call("tracepoint_set", file="till.py", line=9, log_message="{price} {amount}")
    bench.agent.call("breakpoint_set", file="till.py", line=5, condition="rate == 1")
    bench.agent.call("breakpoint_set_exception", exception_type="OSError")
    stop = bench.stop_of(TEST, args=args)
    assert bench.agent.call("debug_step", pause_id=stop["pause_id"])["location"]["line"] == 6
    assert bench.go_on(stop)["exit_code"] == 0
    assert messages(bench) == ["1 0", "2 2", "3 6", "1 0", "2 1"]
    assert covered(bench) == expected


DEBUGGED = """
    import io
    import pdb
    import sys
    from till import total

    def test_under_pdb():
        told = io.StringIO()
        asked = io.StringIO("b till.py:9\\nc\\np price\\nc\\nc\\nc\\n")
        debugger = pdb.Pdb(stdin=asked, stdout=told)
        assert debugger.runcall(total, [1, 2, 3], 2) == 12
        assert told.getvalue().count("till.py(9)total()") == 3, told.getvalue()
        assert sys.gettrace() is None

    def test_later():
        assert total([4], 2) == 8
"""


def test_a_debugger_that_a_test_uses(bench: Bench) -> None:
    """Both stop at the line; the debugger's own view of the trace function is the usual one."""
    bench.write(**{"till.py": TILL})
    bench.agent.call("tracepoint_set", file="till.py", line=9, log_message="{price} {amount}")
    assert bench.test(DEBUGGED)["exit_code"] == 0
    if MONITORING:
        assert messages(bench) == ["1 0", "2 2", "3 6", "4 0"]
        assert "warnings" not in bench.agent.call("debug_state")
    else:
        assert messages(bench) == ["4 0"]
        (warning,) = bench.agent.call("debug_state")["warnings"]
        assert warning.startswith("the program used sys.settrace, which has room for one")


LISTENING = """
    import debugpy
    from pathlib import Path

    port = debugpy.listen(("127.0.0.1", 0))[1]
    Path("port").write_text(f"{port}\\n")
    debugpy.wait_for_client()
"""


def test_debugpy_in_the_same_process(bench: Bench) -> None:
    """Each stops at its own breakpoints; on 3.11 debugpy does, and a sentence says why we don't."""
    pytest.importorskip("debugpy", reason="debugpy is in the extra `bench`")
    bench.write(test_it=TEST, **{"till.py": TILL, "conftest.py": LISTENING})
    bench.agent.call("tracepoint_set", file="till.py", line=9, log_message="{price} {amount}")
    bench.agent.call("breakpoint_set", file="till.py", line=10, condition="rate == 1")
    run = bench.agent.start("test_run")
    with DapClient(port_of(bench)) as client:
        theirs = {"line": 9, "condition": "price == 2"}
        assert client.set_breakpoints(bench.root / "till.py", theirs)[0]["verified"]
        client.go()
        for _ in range(2):
            thread = client.until("stopped", reason="breakpoint")["body"]["threadId"]
            frame = client.ask("stackTrace", threadId=thread)["body"]["stackFrames"][0]
            assert (frame["name"], frame["line"]) == ("total", 9)
            client.ask("continue", threadId=thread)
        reply = run.result(30)
        if MONITORING:
            (stop,) = reply["stops"]
            assert (stop["location"]["line"], locals_of(stop)["amount"]) == (10, "3")
            reply = bench.go_on(stop)
    assert (reply["exit_code"], reply["outcomes"]["passed"]) == (0, 2)
    state = bench.agent.call("debug_state")
    if MONITORING:
        assert messages(bench) == ["1 0", "2 2", "3 6", "1 0", "2 1"]
        assert "warnings" not in state
    else:
        assert messages(bench) == []
        refused(state, "traces this program, and sys.settrace has room for one: run without it")


def port_of(bench: Bench) -> int:
    """Where debugpy listens, as soon as it does."""
    path = bench.root / "port"
    while not (path.exists() and (text := path.read_text(encoding="utf-8")).endswith("\n")):
        assert bench.agent.call("debug_state")["state"] not in OVER
    return int(text)


def refused(state: dict[str, Any], why: str) -> None:
    """There are no events: one sentence in `engine`, and as a warning."""
    assert state["engine"]["name"] == "none"
    assert why in state["engine"]["why"]
    (warning,) = state["warnings"]
    assert warning.startswith("what is imported late is bound at the next test or phase only")
    assert " and lines are not watched: " in warning
    assert warning.endswith(state["engine"]["why"])


# --- which engine, and why


HOLDER = """
    import os
    import sys

    def tracer(frame, event, arg):
        return None

    if os.environ.get("PYTEST_XDIST_WORKER", "gw1") == "gw1":
        if sys.version_info >= (3, 12):
            for tool in (4, 5, 2):
                sys.monitoring.use_tool_id(tool, f"holder of {tool}")
        else:
            sys.settrace(tracer)
"""

HELD = (
    "No tool id of sys.monitoring is free: 4 (holder of 4), 5 (holder of 5), 2 (holder of 2)."
    if MONITORING
    else "holder.tracer traces this program, and sys.settrace has room for one: "
    "run without it, or with Python 3.12 or later."
)


def test_the_state_says_which_engine_and_why(bench: Bench) -> None:
    """Before anything is watched, and then with its tool ids."""
    bench.write(**{"till.py": TILL})
    assert bench.test(TEST)["exit_code"] == 0
    before = bench.agent.call("debug_state")["engine"]
    bench.agent.call("tracepoint_set", file="till.py", line=9, log_message="{price}")
    assert bench.test(TEST)["exit_code"] == 0
    engine = bench.agent.call("debug_state")["engine"]
    version = ".".join(map(str, sys.version_info[:3]))
    if MONITORING:
        assert before["why"].startswith(f"Python {version} has it")
        assert engine["why"] == f"tool ids 4 and 5; {before['why']}"
    else:
        assert engine["why"].startswith(f"Python {version} has no sys.monitoring; every call costs")
        assert engine == before
    assert engine["name"] == before["name"] == ("sys.monitoring" if MONITORING else "sys.settrace")


def test_where_all_events_are_taken_the_run_goes_on_without_lines(bench: Bench) -> None:
    """One sentence says who has them; what needs no events still works."""
    bench.write(**{"till.py": TILL, "holder.py": HOLDER})
    bench.agent.call("tracepoint_set", file="till.py", line=9, log_message="{price} {amount}")
    bench.breakpoint("till.on_thread")
    stop = bench.stop_of(TEST, args=["-p", "holder"])
    assert stop["call_data"]["method_name"] == "on_thread"
    refused(bench.agent.call("debug_state"), HELD)
    assert bench.agent.refused("debug_step", pause_id=stop["pause_id"])["message"].endswith(
        "see debug_state"
    )
    reply = bench.go_on(stop)
    assert (reply["exit_code"], reply["outcomes"]["passed"], messages(bench)) == (0, 2, [])


def test_workers_report_their_own(bench: Bench) -> None:
    """Only what differs is told by worker; the other one's lines are watched."""
    bench.write(**{"till.py": TILL, "holder.py": HOLDER, "test_other.py": TEST})
    bench.agent.call("tracepoint_set", file="till.py", line=9, log_message="{price} {amount}")
    reply = bench.test(TEST, args=["-p", "holder", "--dist=each", "--tx=2*popen"])
    assert reply["exit_code"] == 0
    engine = bench.agent.call("debug_state")["engine"]
    holder = {"name": "none", "why": HELD}
    names = {engine["name"], *(each["name"] for each in engine["workers"].values())}
    assert names == {"none", "sys.monitoring" if MONITORING else "sys.settrace"}
    assert holder in (engine["workers"].get("gw1"), {key: engine[key] for key in holder})
    assert messages(bench) == ["1 0", "2 2", "3 6", "1 0", "2 1"]


HANGS = """
    import threading

    def step(): return 1

    def test_it():
        step()
        threading.Event().wait()
"""


def test_the_stacks_that_pytest_timeout_dumps_name_our_thread_by_its_frames(
    make_project: MakeProject,
) -> None:
    """As docs/neighbours.md says: `threading` does not know it."""
    project = make_project(test_it=HANGS)
    trace = "--cideldill-trace=test_it.py:4 => stepped"
    run = recorded(project, "--timeout=1", "--timeout-method=thread", trace)
    stacks = re.split(r"^~+ Stack of (.*?) \(\d+\) ~+$", run.out + run.err, flags=re.M)[1:]
    pairs = zip(stacks[::2], stacks[1::2], strict=True)
    ours = [name for name, text in pairs if "pytest_cideldill" in text]
    assert ours == ["<unknown>"]
