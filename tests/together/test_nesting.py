"""Functions inside of functions in real runs: each call of them stops, the first one too.

Expectations: "Functions are matched when they exist and bound later when they appear (late import,
nested function)", and what can be intercepted.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.driver import connected, only_stop, run_of, server
from tests.together.nasty import CONFTEST, MEASURING, STARTUP, measured
from tests.together.workbench import Bench

full = pytest.mark.full

DECORATED = """
    import functools

    def deco(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args)
        return wrapper

    @deco
    def price(n): return n

    AT_IMPORT = price(1)

    def adder(n):
        def add(m, *, by=2):
            nonlocal n
            n += m * by
            return n
        return add

    class Shop:
        def open(self):
            class Till:
                def ring(self, n):
                    return [each for each in (lambda: [n, n + 1])()]
            return Till().ring(1)

    def items(n):
        def each():
            got = yield n
            return got
        return each()

    async def ask():
        async def answer(): return 42
        async def answers():
            yield await answer()
        return [each async for each in answers()]
"""

NESTED = """
    import asyncio
    from shop import Shop, adder, ask, items, price

    def test_wrapper():
        assert price(2) == 2

    def test_closure():
        add = adder(1)
        assert add(1) == 3
        assert adder(10)(1, by=1) == 11

    def test_method(): assert Shop().open() == [1, 2]
    def test_generator(): assert list(items(5)) == [5]
    def test_async(): assert asyncio.run(ask()) == [42]

    def test_in_a_test():
        def local(n):
            assert n == 1
            return n
        assert local(1) == 1
"""

NAMES = (
    "shop.deco.<locals>.wrapper",
    "shop.adder.add",
    "shop.Shop.open.Till.ring",
    "shop.items.<locals>.each",
    "answer",
    "shop.ask.<locals>.answers",
    "test_it.py::test_in_a_test.local",
)


def stops_of(bench: Bench, reply: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Function and positional arguments of every stop, to the end of the run."""
    seen = []
    while reply["state"] == "paused":
        stop = only_stop(reply)
        data = stop["call_data"]
        seen.append((data["qualified_name"], data.get("pretty_args", [])))
        reply = bench.go_on(stop)
    assert (reply["exit_code"], reply["outcomes"]["failed"]) == (0, 0)
    return seen


@pytest.mark.full
def test_the_first_call_of_a_function_inside_of_another_stops(bench: Bench) -> None:
    bench.write(shop=DECORATED, test_it=NESTED)
    bound = {name: bench.breakpoint(name)["functions"] for name in NAMES}
    assert [functions for functions in bound.values() if len(functions) != 1] == []
    assert stops_of(bench, bench.run(["test_it.py"])) == [
        ("shop.deco.<locals>.wrapper", ["1"]),  # while its module is imported
        ("shop.deco.<locals>.wrapper", ["2"]),
        ("shop.adder.<locals>.add", ["1"]),
        ("shop.adder.<locals>.add", ["1"]),
        ("shop.Shop.open.<locals>.Till.ring", ["Till()", "1"]),
        ("shop.items.<locals>.each", []),
        ("shop.ask.<locals>.answers", []),
        ("shop.ask.<locals>.answer", []),
        ("test_it.test_in_a_test.<locals>.local", ["1"]),
    ]


def functions_of(bench: Bench, name: str) -> list[str]:
    """What a name means now."""
    added = bench.breakpoint(name)
    bench.agent.call("breakpoint_remove", id=added["id"])
    assert added["verified"] is bool(added["functions"])
    functions: list[str] = added["functions"]
    return functions


@full
def test_names_mean_the_same_with_and_without_a_process(bench: Bench) -> None:
    """The sources answer as a process would, in which nothing is made yet."""
    bench.write(shop=DECORATED, test_it=NESTED + "\n    def test_now(): assert 0\n")
    names = [*NAMES, "shop.*.add", "wrapper", "shop.py::items.each"]
    without = {name: functions_of(bench, name) for name in names}
    assert [name for name in names if not without[name]] == []
    known = bench.agent.call("breakpoint_list_functions", pattern="shop.*")["functions"]
    stop = only_stop(bench.run(["test_it.py::test_now"]))
    assert {name: functions_of(bench, name) for name in names} == without
    assert bench.agent.call("breakpoint_list_functions", pattern="shop.*")["functions"] == known
    bench.go_on(stop)


@full
def test_lines_inside_and_outside_are_watched_meanwhile(bench: Bench) -> None:
    """The code around is the same as before, and so is what runs inside."""
    bench.write(shop=DECORATED, test_it=NESTED)
    bench.breakpoint("shop.adder.add")
    for line in (19, 20):
        bench.agent.call("breakpoint_set", file="shop.py", line=line)
    for line, message in ((16, "made of {n}"), (18, "added {m * by}")):
        bench.agent.call("tracepoint_set", file="shop.py", line=line, log_message=message)
    reply = bench.run(["test_it.py::test_closure"])
    seen = []
    while reply["state"] == "paused":
        stop = only_stop(reply)
        seen.append((stop["phase"], stop["location"]["line"], stop["location"]["function"]))
        reply = bench.go_on(stop)
    assert reply["exit_code"] == 0
    inner = "adder.<locals>.add"
    once = [("line", 20, "adder"), ("before", 16, inner), ("line", 19, inner)]
    assert seen == once * 2
    messages = [each["message"] for each in bench.events("hit") if "message" in each]
    assert messages == ["made of 1", "added 2", "made of 10", "added 1"]


@pytest.mark.full
def test_calls_are_recorded_from_the_first_one(bench: Bench) -> None:
    """A breakpoint that goes on records; and what it raises is seen at the `exception` phase."""
    bench.write(shop=DECORATED)
    bench.breakpoint("shop.adder.add", behavior="go")
    id = bench.breakpoint("shop.deco.wrapper", behavior="go")["id"]
    bench.agent.call(
        "breakpoint_set_after_behavior", function_name="shop.deco.wrapper", behavior="exception"
    )
    text = """
    from shop import adder, deco

    def test_first():
        assert adder(1)(2) == 5
        assert deco(int)("x") == 7
    """
    stop = bench.stop_of(text)
    assert (stop["phase"], stop["breakpoint_id"]) == ("exception", id)
    assert stop["call_data"]["exception"]["type"] == "ValueError"
    assert bench.go_on(stop, action="skip", fake_result=7)["exit_code"] == 0
    calls = [
        each
        for each in bench.agent.call("breakpoint_get_call_records")["calls"]
        if each["run_id"] == run_of(stop)
    ]
    # `wrapper` was called when its module was imported, too.
    assert [(call["method_name"], call["pretty_args"]) for call in calls] == [
        ("wrapper", ["1"]), ("add", ["2"]), ("wrapper", ["'x'"]),
    ]  # fmt: skip
    assert calls[1]["pretty_result"] == "5"


SYSMON = ("sysmon", False) if sys.version_info >= (3, 12) else ("pytrace", True)


@full
@pytest.mark.sample(
    "ctrace-True-{'condition': 'False'}",
    "sysmon-*-{'behavior': 'go'}",
    "pytrace-*-{'behavior': 'go'}",
)
@pytest.mark.parametrize("options", [{"behavior": "go"}, {"condition": "False"}], ids=str)
@pytest.mark.parametrize(
    ("core", "branch"),
    [("ctrace", True), pytest.param("ctrace", False, marks=pytest.mark.soak), SYSMON],
)
def test_coverage_measures_what_it_measures_without_us(
    make_project: MakeProject, core: str, branch: bool, options: dict[str, str]
) -> None:
    """All functions are recorded or intercepted, and each line counts where it runs.

    A trampoline adds ways into its line and out of it, which coverage expects nowhere and ignores.
    """
    pytest.importorskip("coverage")
    project = make_project(
        sitecustomize=STARTUP,
        measuring=MEASURING.format(core=core, branch=branch, where="startup"),
        conftest=CONFTEST,
        nasty=DECORATED,
        test_nasty=NESTED.replace("from shop", "from nasty"),
    )
    environment = {"PYTHONPATH": str(project)}
    subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
        cwd=project,
        env=os.environ | environment,
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=60,
    )
    expected = measured(project, branch=branch)
    assert set(expected) == {"nasty.py", "test_nasty.py"}
    with connected(server(project, env=environment)) as agent:
        agent.call("breakpoint_add", function_name="*", **options)
        assert agent.call("test_run", pause_on="never")["exit_code"] == 0
        assert agent.call("debug_state").get("warnings") is None
    seen = measured(project, branch=branch)
    if branch:
        own = {
            file: {arc for arc in arcs if arc[0] == -arc[1]}.difference(expected[file])
            for file, arcs in seen.items()
        }
        seen = {file: sorted(set(arcs) - own[file]) for file, arcs in seen.items()}
    assert seen == expected
