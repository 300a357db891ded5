"""The parameter `tracepoints` of `test_run`: for that run and no other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.together.driver import DEADLINE_S, only_stop
from tests.together.workbench import Bench, workbench

TILL = """
    def total(prices, rate):
        amount = 0
        for price in prices:
            amount += price * rate
        return amount
"""

TEST = """
    from till import total

    def test_total():
        assert total([1, 2, 3], 2) == 13
"""


@pytest.fixture
def till(bench: Bench) -> Bench:
    """A module with a loop, and a test of it that fails."""
    bench.write(**{"till.py": TILL}, test_it=TEST)
    return bench


def traced(line: int = 5, **more: Any) -> dict[str, Any]:
    return {"file": "till.py", "line": line, **more}


def known(bench: Bench) -> list[str]:
    return [each["id"] for each in bench.agent.call("breakpoint_list")["breakpoints"]]


@pytest.mark.full
def test_tracepoints_of_a_run_are_reported_by_its_reply_and_gone_with_it(till: Bench) -> None:
    """Ids of the common counter, listed while the run lives, hits in its reply; not later."""
    kept = till.agent.call("tracepoint_set", file="till.py", line=6, log_message="end {amount}")
    first = int(kept["tracepoint"]["id"].removeprefix("tp-"))
    mine, other = f"tp-{first + 1}", f"tp-{first + 2}"
    reply = till.run(
        tracepoints=[
            traced(log_message="{price} {amount}", condition="price > 1"),
            traced(4, hit_count_multiple=2, max_notifications=1),
        ]
    )
    assert [(hit["breakpoint_id"], hit["message"]) for hit in reply["hits"]] == [
        (other, "total: for price in prices:"),
        (mine, "2 2"),
        (mine, "3 6"),
        (f"tp-{first}", "end 12"),
    ]
    assert known(till) == [f"tp-{first}", mine, other]
    listed = till.agent.call("breakpoint_list")["breakpoints"]
    assert [each["state"] for each in listed] == ["bound", "bound", "disabled"]
    assert [each["hit_count"] for each in listed] == [1, 3, 2]
    assert till.go_on(only_stop(reply))["exit_code"] == 1
    assert known(till) == [f"tp-{first}"]
    reply = till.run(pause_on="never")
    assert [hit["message"] for hit in reply["hits"]] == ["end 12"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("second", "error", "more"),
    [
        (traced(1, log_message="x"), "invalid_line", {"nearestValidLine": 2}),
        (traced(column=99), "invalid_column", {}),
        (traced(condition="1 +"), "invalid_condition", {}),
        (traced(log_message="ab {"), "invalid_template", {"position": 3}),
        (traced(hit_count_multiple=-1), "invalid_parameter", {"parameter": "hit_count_multiple"}),
        ({"file": "till.py", "line": "five"}, "invalid_parameter", {"parameter": "line"}),
        ({"file": "till.py"}, "missing_parameter", {"parameter": "line"}),
        ({"line": 5}, "missing_parameter", {"parameter": "file"}),
        ({"file": "no.py", "line": 5}, "file_not_found", {"file": "no.py"}),
    ],
)
def test_one_that_is_refused_refuses_the_run(
    till: Bench, second: dict[str, Any], error: str, more: dict[str, Any]
) -> None:
    """As `tracepoint_set` refuses it, and told which one; nothing was started or added."""
    before = till.agent.call("debug_state")
    refused = till.agent.refused("test_run", tracepoints=[traced(), second])
    assert (refused["error"], refused["index"]) == (error, 1)
    assert refused["message"].startswith("tracepoints[1]: ")
    assert more.items() <= refused.items()
    alone = till.agent.refused("tracepoint_set", **second)
    alone["message"] = f"tracepoints[1]: {alone['message']}"
    assert alone | {"index": 1} == refused
    after = till.agent.call("debug_state")
    assert (after.get("run_id"), after["state"]) == (before.get("run_id"), before["state"])
    assert known(till) == []


@pytest.mark.full
def test_what_is_refused_ends_no_run_that_it_would_have_replaced(till: Bench) -> None:
    """`replace` ends the active run only for one that starts."""
    stop = only_stop(till.run())
    refused = till.agent.refused("test_run", replace=True, tracepoints=[traced(1)])
    assert refused["error"] == "invalid_line"
    assert till.agent.refused("test_run", tracepoints="no")["parameter"] == "tracepoints"
    assert till.agent.refused("test_run", tracepoints=[1])["parameter"] == "tracepoints"
    assert till.agent.refused("test_run", tracepoints=[traced(1)])["error"] == "run_active"
    assert till.eval(stop, "1 + 1") == "2"
    reply = till.run(replace=True, tracepoints=[traced(6, log_message="{amount}")])
    assert [hit["message"] for hit in reply["hits"]] == ["12"]


@pytest.mark.full
def test_one_can_be_switched_waited_for_and_removed_while_the_run_lives(till: Bench) -> None:
    """It is a tracepoint as any other, until the run is over."""
    till.agent.call("breakpoint_set", file="till.py", line=4)
    stop = only_stop(till.run(tracepoints=[traced(log_message="{price}")]))
    (id,) = [each for each in known(till) if each.startswith("tp-")]
    stop = only_stop(till.go_on(stop))
    waited = till.agent.call("breakpoint_wait", breakpoint_id=id, after=0)
    assert (waited["hit"], waited["message"]) == (True, "1")
    off = till.agent.call("breakpoint_enable", id=id, enabled=False)["breakpoint"]
    assert (off["state"], off["enabled"]) == ("disabled", False)
    stop = only_stop(till.go_on(stop))
    till.agent.call("breakpoint_enable", id=id)
    stop = only_stop(till.go_on(stop))
    till.agent.call("breakpoint_remove", id=id)
    assert id not in known(till)
    till.agent.call("debug_continue")
    till.until("paused", "finished")
    assert [each["message"] for each in till.events("hit")] == ["1", "3"]


@pytest.mark.full
def test_workers_get_them_too(till: Bench) -> None:
    """With xdist, in every process that runs tests; a limit holds for the run."""
    till.write(
        test_it="""
            import pytest
            from till import total

            @pytest.mark.parametrize("n", range(6))
            def test_total(n):
                assert total([n], 1) == n
        """
    )
    reply = till.run(
        workers=2,
        tracepoints=[
            traced(log_message="{price}"),
            traced(6, log_message="{amount}", max_notifications=2),
        ],
    )
    assert reply["exit_code"] == 0
    hits = [(hit["message"], hit["worker"], hit["location"]["line"]) for hit in reply["hits"]]
    assert sorted(message for message, _, line in hits if line == 5) == list("012345")
    assert {worker for _, worker, _ in hits} == {"gw0", "gw1"}
    assert len([line for _, _, line in hits if line == 6]) == 2
    assert known(till) == []


@pytest.mark.full
def test_tracepoints_are_declared_on_the_command_line(tmp_path: Path) -> None:
    """`--cideldill-trace`; a mistake is told where clients show it."""
    traces = ("--cideldill-trace=test_it.py:3=x={x}", "--cideldill-trace=test_it.py:9=x")
    (tmp_path / "test_it.py").write_text("def test_it():\n    x = 1\n    assert x\n")
    with workbench(tmp_path, *traces) as bench:
        reply = bench.run()
        assert [hit["message"] for hit in reply["hits"]] == ["x=1"]
        (listed,) = bench.agent.call("breakpoint_list")["breakpoints"]
        assert (listed["logMessage"], listed["line"]) == ("x={x}", 3)
    for spec, said in (
        ("test_it.py:3", "position 12: expected = or => and the message"),
        ("test_it:test_it@call => x", "calls are traced without a client only"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "--cideldill-mcp", f"--cideldill-trace={spec}"],
            cwd=tmp_path, input="", capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 4
        assert said in done.stderr
