"""Other tools beside us in a run: coverage, pdb, debugpy (docs/neighbours.md)."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.together.driver import only_stop
from tests.together.workbench import Bench

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
    run = bench.agent.call("debug_state")["run_id"]
    return [
        each["message"]
        for each in bench.agent.call("timeline_get", types=["hit"], run_id=run)["events"]
    ]


CORES = [("ctrace", False), ("ctrace", True), *([("sysmon", False)] if MONITORING else [])]


@pytest.mark.parametrize(("core", "branches"), CORES)
def test_coverage_is_the_same_with_and_without_us(bench: Bench, core: str, branches: bool) -> None:
    """pytest-cov; a tracepoint in a loop, a stop on another thread, a step and a raise."""
    bench.write(**{"till.py": TILL, ".coveragerc": f"[run]\ncore = {core}\n"})
    args = ["--cov=till", "--cov-report=json"] + ["--cov-branch"] * branches
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
    assert bench.agent.call("debug_step", pause_id=stop["id"])["location"]["line"] == 6
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
        debugger = pdb.Pdb(stdin=io.StringIO("b till.py:9\\nc\\np price\\nc\\nc\\nc\\n"), stdout=told)
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
