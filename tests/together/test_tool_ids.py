"""A program that claims tool ids of `sys.monitoring` gets them, whoever of us has them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.driver import DEADLINE_S, only_stop
from tests.together.records import Recorded, command, recorded
from tests.together.workbench import Bench

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no tool ids")

TILL = """
    def total(prices):
        amount = 0
        for price in prices:
            amount += price
        return amount

    def caught(name):
        try:
            return {}[name]
        except KeyError:
            return None
"""

TOOL = """
    import sys

    BOUND = tuple(getattr(sys.monitoring, name) for name in ("use_tool_id", "free_tool_id"))

    class Tool:
        '''Counts the lines of a function with a tool id.'''

        def __init__(self, number, use=None):
            self.number, self.lines, self.starts = number, [], []
            monitoring, events = sys.monitoring, sys.monitoring.events
            (use or monitoring.use_tool_id)(number, "mine")
            assert monitoring.get_tool(number) == "mine"
            assert monitoring.get_events(number) == 0
            for event in (events.LINE, events.PY_START, events.RAISE, events.PY_RETURN):
                held = monitoring.register_callback(number, event, None)
                assert held is None or use, held
            monitoring.register_callback(number, events.LINE, lambda _, n: self.lines.append(n))
            start = lambda code, _: self.starts.append(code.co_name)
            monitoring.register_callback(number, events.PY_START, start)

        def count(self, function):
            events = sys.monitoring.events
            set_local, code = sys.monitoring.set_local_events, function.__code__
            before = sys.monitoring.get_local_events(self.number, code)
            set_local(self.number, code, events.LINE | events.PY_START)
            assert function([1, 2]) == 3
            assert (self.lines, self.starts) == ([3, 4, 5, 4, 5, 4, 6], ["total"])
            set_local(self.number, code, 0)
            assert function([1, 2]) == 3
            assert len(self.lines) == 7
            return before

        def end(self):
            for event in (sys.monitoring.events.LINE, sys.monitoring.events.PY_START):
                sys.monitoring.register_callback(self.number, event, None)
            sys.monitoring.free_tool_id(self.number)
            assert sys.monitoring.get_tool(self.number) is None
"""

CLAIMS = {
    "in a test": """
        @ANY
        def test_claim(number):
            tool = Tool(number)
            assert tool.count(till.total) == 0
            tool.end()
    """,
    "at import": """
        tool = Tool({tool})

        def test_claim():
            assert tool.count(till.total) == 0
            tool.end()
    """,
    "for good": """
        def test_claim():
            assert Tool({tool}).count(till.total) == 0
    """,
    "freed before": """
        @ANY
        def test_claim(number):
            sys.monitoring.free_tool_id(number)
            assert sys.monitoring.get_tool(number) is None
            tool = Tool(number)
            assert tool.count(till.total) == 0
            tool.end()
    """,
    "callbacks first": """
        @ANY
        def test_claim(number):
            seen, LINE = [], sys.monitoring.events.LINE
            sys.monitoring.register_callback(number, LINE, lambda _, line: seen.append(line))
            sys.monitoring.use_tool_id(number, "mine")
            sys.monitoring.set_local_events(number, till.total.__code__, LINE)
            assert till.total([1]) == 1
            assert seen == [3, 4, 5, 4, 6]
            sys.monitoring.set_local_events(number, till.total.__code__, 0)
            sys.monitoring.register_callback(number, LINE, None)
            sys.monitoring.free_tool_id(number)
    """,
    "twice": """
        @ANY
        def test_claim(number):
            Tool(number).end()
            tool = Tool(number)
            with pytest.raises(ValueError, match="is already in use"):
                sys.monitoring.use_tool_id(number, "again")
            assert tool.count(till.total) == 0
            tool.end()
    """,
    "behind our back": """
        from tool import BOUND

        def test_claim():
            use, free = BOUND
            free({tool})
            tool = Tool({tool}, use)

        def test_claim_later():
            assert sys.monitoring.get_tool({tool}) == "mine"
    """,
    "freed behind our back": """
        from tool import BOUND

        def test_claim():
            BOUND[1]({tool})
    """,
    "all of them": """
        def test_claim():
            tools = [Tool(number) for number in range(6)]
            assert [each.count(till.total) for each in tools] == [0] * 6
            for each in tools:
                each.end()
    """,
    "all of them for good": """
        def test_claim():
            tools = [Tool(number) for number in reversed(range(6))]
            assert [each.count(till.total) for each in tools] == [0] * 6
    """,
}
ALL = tuple(name for name in CLAIMS if name.startswith("all of them"))

AROUND = """
    import sys
    import pytest
    import till
    from tool import Tool

    ANY = pytest.mark.parametrize("number", range(6))

    def test_before():
        assert (till.total([1, 2]), till.caught("x")) == (3, None)
{claim}
    def test_after():
        assert (till.total([3]), till.caught("y")) == (3, None)
"""

WATCHED = {
    "nothing": (),
    "hits": ("--cideldill-trace=till.py:5=price {price}",),
    "calls": ("--cideldill-record-calls=till.total",),
    "both": ("--cideldill-trace=till.py:5=price {price}", "--cideldill-record-calls=till.*"),
}

IN_FULL = (0, 1, 4)
"""The id of debuggers, that of coverage, and one without a name; the others are for the soak."""

OF_ANY = tuple(name for name, text in CLAIMS.items() if "@ANY" in text)
"""These go through all ids in one run."""


def cases(kinds: Iterable[str], strongest: str, fast: tuple[str, ...]) -> list[Any]:
    """Claims with the kinds of what is watched that are worth a run, and with ids that differ."""
    each = [(claim, 4, kind) for claim in (*OF_ANY, *ALL) for kind in kinds]
    others = [claim for claim in CLAIMS if claim not in (*OF_ANY, *ALL)]
    each += [(claim, tool, strongest) for claim in others for tool in range(6)]
    return [
        pytest.param(
            *case,
            id="-".join(map(str, case)),
            marks=_tier_of(case, [(claim, 4, strongest) for claim in fast]),
        )
        for case in each
    ]


def _tier_of(case: tuple[str, int, str], fast: list[tuple[str, int, str]]) -> Any:
    if case in fast:
        return ()
    return pytest.mark.full if case[1] in IN_FULL else pytest.mark.soak


def files(claim: str, tool: int) -> dict[str, str]:
    text = CLAIMS[claim].replace("{tool}", str(tool))
    return {
        "till.py": TILL,
        "tool.py": TOOL,
        "test_it.py": AROUND.replace("{claim}", re.sub(r"(?m)^    ", "", text)),
        "conftest.py": "    import tool\n",
    }


def plain(project: Path) -> tuple[int, str]:
    """Exit code and last line of a run without us."""
    done = subprocess.run(
        command("-p", "no:asyncio"),
        cwd=project,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE_S,
        check=False,
    )
    return done.returncode, outcomes(done.stdout)


def outcomes(out: str) -> str:
    found = re.findall(r"^(\d+ (?:passed|failed).*) in [\d.]+s", out, re.M)
    assert found, out
    return str(found[-1])


def warnings(run: Recorded) -> list[str]:
    return [each["message"] for each in run.of("warning") if "tool id" in each["message"]]


def expected_prices(claim: str) -> list[str]:
    """What a tracepoint tells of the tests behind the first one."""
    if claim in ALL:
        return [] if claim == "all of them for good" else ["price 3"]
    times = len(range(6)) if claim in OF_ANY else 1
    in_claim = ["price 1", "price 2"] * 2 if "count(" in CLAIMS[claim] else []
    if claim == "callbacks first":
        in_claim = ["price 1"]
    return in_claim * times + ["price 3"]


@pytest.mark.sample(
    "in a test-4-both",
    "freed before-4-hits",
    "callbacks first-4-calls",
    "twice-4-both",
    "all of them-4-hits",
    "all of them for good-4-both",
    "at import-0-both",
    "for good-1-both",
    "behind our back-4-both",
    "freed behind our back-0-both",
    "freed before-4-nothing",
)
@pytest.mark.parametrize(("claim", "tool", "watched"), cases(WATCHED, "both", ()))
def test_a_recorded_run_leaves_the_ids_that_a_program_claims(
    make_project: MakeProject, claim: str, tool: int, watched: str
) -> None:
    """The outcomes are those of a plain run, and what is watched goes on."""
    project = make_project(**files(claim, tool))
    expected = plain(project)
    assert expected[0] == 0, expected
    run = recorded(project, "-p", "no:asyncio", *WATCHED[watched])
    assert (run.exit_code, outcomes(run.out), run.err) == (*expected, ""), run.out
    prices = [each["message"] for each in run.of("hit")]
    is_lost = claim == "all of them for good" and watched != "nothing"
    if watched in ("hits", "both"):
        assert prices[:2] == ["price 1", "price 2"]
        assert prices[2:] == expected_prices(claim)
    if watched in ("calls", "both"):
        calls = [each for each in run.of("call") if each["qualified_name"] == "till.total"]
        assert calls[0]["pretty_args"] == ["[1, 2]"]
        assert (calls[-1]["pretty_args"] == ["[3]"]) is not is_lost, calls
        if watched == "both":
            assert sum("1" in each["pretty_args"][0] for each in calls) == prices.count("price 1")
    assert len(warnings(run)) == (claim in ALL and watched != "nothing")


# --- with a client ------------------------------------------------------------------------------


BREAKPOINTS: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "function": (("breakpoint_add", {"function_name": "till.caught"}),),
    "line": (("breakpoint_set", {"file": "till.py", "line": 6}),),
    "exception": (("breakpoint_set_exception", {"exception_type": "KeyError"}),),
}
BREAKPOINTS["all"] = tuple(each[0] for each in BREAKPOINTS.values())


@pytest.mark.full
@pytest.mark.sample(
    "in a test-4-all",
    "freed before-4-function",
    "callbacks first-4-line",
    "twice-4-exception",
    "all of them-4-function",
    "all of them for good-4-all",
    "at import-0-all",
    "for good-1-all",
    "behind our back-4-all",
    "freed behind our back-0-all",
)
@pytest.mark.parametrize(("claim", "tool", "kind"), cases(BREAKPOINTS, "all", ("in a test",)))
def test_breakpoints_stop_after_a_program_claimed_an_id(
    bench: Bench, claim: str, tool: int, kind: str
) -> None:
    """As before; a program that has all ids is told, and what needs no events still stops."""
    bench.write(**files(claim, tool))
    for name, options in BREAKPOINTS[kind]:
        bench.agent.call(name, **options)
    reply = bench.run(["test_it.py"])
    stops: list[tuple[str, str]] = []
    while reply.get("stops"):
        stop = only_stop(reply)
        test = stop["nodeid"].rpartition("::")[2]
        stops.append((test, stop["phase"]))
        reply = bench.go_on(stop)
    assert (reply["exit_code"], reply["outcomes"].get("failed", 0)) == (0, 0), reply
    phases = {"function": ["before"], "line": ["line"], "exception": ["raise"]}
    expected = phases.get(kind, ["line", "before", "raise"])
    assert [phase for test, phase in stops if test == "test_before"] == expected
    is_lost = claim == "all of them for good"
    after = [phase for test, phase in stops if test == "test_after"]
    assert after == [each for each in expected if each == "before" or not is_lost]
    reported = [each["message"] for each in bench.events("warning") if "tool id" in each["message"]]
    if claim in ALL:
        assert len(reported) == 1
        assert "5 (" in reported[0] or "tool id 5" in reported[0]
        assert "fewer tools" in reported[0]
    else:
        assert reported == []
