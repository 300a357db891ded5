"""The prompt `triage-failing-test`: how a test failed, what changed, what to call next.

What it says of real tests, and that its calls lead to the cause, is in
`tests/together/test_triage.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from cideldill_mcp.runs.run import Run
from cideldill_mcp.tools import profile
from pytest_cideldill.config.options import PROFILES
from pytest_cideldill.protocol import NodeFinished, NodeStarted, PhaseReported, Stopped
from tests.server.processes import Front, Process, autopsy_of, frame_of, in_loop, pause_of
from tests.server.test_prompts import text_of
from tests.server.test_resources import connected

TEST = "test_cart.py::test_total[bulk]"
NEVER = "it has not passed by itself since this server was started"
EXCEPTION = autopsy_of()["exception"]
ASSERTION = {
    "left": "95",
    "op": "==",
    "right": "90",
    "leftExpression": "len(cart.total())",
    "rightExpression": "expected",
}


def report_of(nodeid: str = TEST, **changes: Any) -> PhaseReported:
    reported = {"exception": EXCEPTION, "autopsy": autopsy_of(), "log": "one\ntwo"} | changes
    return PhaseReported(nodeid, "call", "failed", "failed", 0.1, **reported)


async def ran(
    front: Front, *reports: PhaseReported | str, over: bool = True, **order: Any
) -> Process:
    """A run with these tests: reports of failures, node ids of those that pass."""
    run = await front.start(**order)
    process = await front.greeted("main", run.id)
    await process.until_begin()
    for each in reports:
        nodeid = each if isinstance(each, str) else each.nodeid
        await process.send(NodeStarted(nodeid, 1.0))
        if isinstance(each, PhaseReported):
            await process.send(each)
        is_last = each is reports[-1]
        if over or not is_last:
            await process.send(NodeFinished(nodeid, 0.1, {}))
    last = reports[-1]
    nodeid = last if isinstance(last, str) else last.nodeid
    await front.until(lambda: has_come(run, nodeid, over=over))
    if over:
        await asyncio.gather(front.runs.ladder.stop(run, kill=True), process.close())
    return process


def has_come(run: Run, nodeid: str, *, over: bool) -> bool:
    test = run.results.tests.get(nodeid)
    return test is not None and (not over or test.has_ended)


def calls_of(text: str) -> list[tuple[str, dict[str, Any]]]:
    """The calls that a text names, their arguments parsed."""
    _, _, below = text.partition("What to call next:\n")
    found = [re.match(r"- (\w+) (\{.*\}): ", line) for line in below.splitlines()]
    assert found
    return [(each[1], json.loads(each[2])) for each in found if each is not None]


async def triage(client: Client, **arguments: str) -> str:
    return await text_of(client, "triage-failing-test", **arguments)


@in_loop
async def test_a_failure_is_reported_with_what_was_compared_and_given() -> None:
    """Outcome, autopsy, siblings, failures of the same cause."""
    other = report_of("test_cart.py::test_total[half]")
    async with connected() as (front, client):
        await ran(front, "test_cart.py::test_total[none]", other, report_of(
            autopsy=autopsy_of(assertion=ASSERTION), location={"file": "test_cart.py", "line": 29}
        ))  # fmt: skip
        text = await triage(client, nodeid=f" {TEST} ")
    lines = text.splitlines()
    assert f"- Test: {TEST}" in lines
    assert "- Outcome: failed in r1, which is finished" in lines
    assert "- Exception (call): AssertionError: assert 95 == 90" in lines
    assert "- Assertion: 95 == 90, of len(cart.total()) == expected" in lines
    assert "- Parameters: coupon='BULK10'" in lines
    assert "- Other parameters that passed: test_total[none]" in lines
    assert "- Other parameters that failed: test_total[half]" in lines
    for title, line in (
        ("Stack trace, innermost first", "test_cart.py:29 in test_total: line 29"),
        ("Locals", "coupon = 'BULK10'"),
        ("Fixtures", "cart (function) = Cart()"),
        ("Output, the last first", "log: two"),
        ("What changed since it passed", NEVER),
    ):
        assert lines[lines.index(f"{title}:") + 1] == f"- {line}"
    assert calls_of(text) == [
        ("test_why", {"nodeid": TEST}),
        ("test_trace", {"nodeid": TEST}),
        ("exception_get_context", {"nodeid": TEST}),
        ("breakpoint_add", {"function_name": "total"}),
        ("test_run", {"nodeids": [TEST], "replace": True}),
        (
            "breakpoint_continue",
            {"pause_id": "…", "action": "skip", "fake_result": "…", "wait": True},
        ),
        ("breakpoint_remove", {"function_name": "total"}),
        (
            "test_run",
            {
                "nodeids": [TEST],
                "replace": True,
                "tracepoints": [
                    {"file": "test_cart.py", "line": 29, "log_message": "coupon={coupon}"}
                ],
            },
        ),
        ("test_run", {"last_failed": True, "replace": True}),
    ]


@in_loop
async def test_failures_of_one_cause_are_named() -> None:
    place = {"file": "shop.py", "line": 3}
    async with connected() as (front, client):
        await ran(front, report_of(location=place), report_of("test_b.py::test_b", location=place))
        text = await triage(client, nodeid=TEST)
    assert "- 1 more with the same cause: test_b.py::test_b" in text.splitlines()


@in_loop
async def test_a_pause_is_reported_with_its_id_in_the_calls() -> None:
    """Its locals are those of now."""
    async with connected() as (front, client):
        process = await ran(front, report_of(autopsy=autopsy_of(assertion=ASSERTION)), over=False)
        pause = pause_of("main", 1, nodeid=TEST, phase="post_mortem", locals={"now": "1"})
        await process.send(Stopped(pause))
        await front.until(lambda: bool(front.runs.get("r1").pauses))
        text = await triage(client)
        lines = text.splitlines()
        assert "- Outcome: failed in r1, which is paused" in lines
        where = "shop.py:3 in total: x"
        assert f"- Paused now: r1.main.1 (breakpoint, post_mortem) at {where}" in lines
        assert lines[lines.index("Locals:") + 1] == "- now = 1"
        assert calls_of(text)[2] == (
            "breakpoint_repl_eval",
            {"pause_id": "r1.main.1", "expression": "len(cart.total())"},
        )
        assert "; ends r1" in text


@in_loop
async def test_a_pause_before_the_failure_can_be_let_go_on() -> None:
    async with connected() as (front, client):
        process = await ran(front, TEST, over=False)
        await process.send(Stopped(pause_of("main", 1, nodeid=TEST)))
        await front.until(lambda: bool(front.runs.get("r1").pauses))
        text = await triage(client)
    assert "- Outcome: running in r1, which is paused" in text.splitlines()
    at = {"pause_id": "r1.main.1"}
    assert calls_of(text)[2:4] == [
        ("breakpoint_repl_eval", at | {"expression": "locals()"}),
        ("breakpoint_continue", at | {"wait": True}),
    ]


@in_loop
async def test_without_a_name_the_test_is_meant_that_failed_last_or_is_paused() -> None:
    """Not a pause outside of tests, as in the fixture of a session."""
    async with connected() as (front, client):
        await ran(front, report_of("test_a.py::test_first"), report_of())
        process = await ran(front, "test_b.py::test_b", over=False)
        await process.send(Stopped(pause_of("main", 1, nodeid=None)))
        run = front.runs.get("r2")
        await front.until(lambda: bool(run.pauses))
        assert f"- Test: {TEST}" in (await triage(client)).splitlines()
        await process.send(Stopped(pause_of("main", 2, nodeid="test_b.py::test_b")))
        await front.until(lambda: len(run.pauses) == 2)
        assert "- Test: test_b.py::test_b" in (await triage(client)).splitlines()


@pytest.mark.parametrize(
    ("autopsy", "first"),
    [
        (
            autopsy_of(frame_of("shop/cart.py", 9, "Cart.total")),
            ("breakpoint_add", {"function_name": "shop/cart.py::Cart.total"}),
        ),
        (
            autopsy_of(frame_of("shop/cart.py", 9, "Cart.total.<locals>.<genexpr>")),
            ("breakpoint_set", {"file": "shop/cart.py", "line": 9}),
        ),
        (autopsy_of(), ("breakpoint_set", {"file": "test_cart.py", "line": 29})),
        (
            autopsy_of(assertion={"explanation": "not so"}),
            ("breakpoint_set", {"file": "test_cart.py", "line": 29}),
        ),
    ],
)
def test_the_next_run_is_to_stop_where_it_matters(
    autopsy: dict[str, Any], first: tuple[str, dict[str, Any]]
) -> None:
    """What raised, unless it is the test, or has no name: then the line."""

    @in_loop
    async def run() -> None:
        async with connected() as (front, client):
            await ran(front, report_of(autopsy=autopsy))
            calls = calls_of(await triage(client))
            assert calls[3] == first
            follows = "breakpoint_continue" if first[0] == "breakpoint_add" else "debug_step"
            assert calls[5][0] == follows

    run()


@in_loop
async def test_what_changed_since_it_passed_is_reported() -> None:
    """Edited files, arguments of the run, tests that ran before."""
    async with connected() as (front, client):
        root = Path(front.runs.recipe.rootdir or "")
        os.utime(root / "shop.py", (1.0, 1.0))
        await ran(front, TEST)
        (root / "new.py").write_text("", encoding="utf-8")
        os.utime(root / "new.py", (time.time() + 1.0,) * 2)  # files are stamped by a coarse clock
        await ran(front, "test_a.py::test_a", report_of(), arguments=["-x"])
        lines = (await triage(client)).splitlines()
        await ran(front, TEST)
        mended = (await triage(client, nodeid=TEST)).splitlines()
    start = lines.index("What changed since it passed:")
    assert lines[start + 1 : start + 5] == [
        "- edited since it passed in r1: new.py",
        "- arguments of the run: none in r1, -x in r2",
        "- tests before it in its process: 0 in r1, 1 in r2, the last new one is test_a.py::test_a",
        "",
    ]
    assert "- Outcome: passed in r3, which is finished" in mended
    assert "- Exception (call, in r2): AssertionError: assert 95 == 90" in mended
    assert "- it passed in r3, and has not failed since" in mended


@in_loop
async def test_a_pass_that_a_client_brought_about_is_shown_as_such() -> None:
    """It is a proof, and no pass."""
    async with connected() as (front, client):
        await ran(front, report_of())
        await ran(front, TEST)
        front.runs.get("r2").results.change(TEST, "the result of shop.rate('BULK10')")
        lines = (await triage(client)).splitlines()
    start = lines.index("What changed since it passed:")
    assert lines[start + 1 : start + 3] == [
        "- in r2 it passed when a client changed the result of shop.rate('BULK10')",
        f"- {NEVER}",
    ]


@in_loop
async def test_a_failure_is_reported_with_what_a_client_changed_before() -> None:
    """It is no evidence then."""
    async with connected() as (front, client):
        await ran(front, report_of())
        front.runs.get("r1").results.change(TEST, "the value of coupon (test_cart.py:28)")
        lines = (await triage(client)).splitlines()
    assert "- A client had changed: the value of coupon (test_cart.py:28)" in lines


@in_loop
async def test_a_test_in_which_its_process_crashed_is_reported() -> None:
    """There is no report."""
    async with connected() as (front, client):
        await ran(front, TEST, over=False)
        run = front.runs.get("r1")
        await front.runs.ladder.stop(run, kill=True)
        run.end = {"kind": "crashed", "message": "ended by SIGSEGV", "lastTest": TEST}
        text = await triage(client, nodeid=TEST)
    assert "- Outcome: crashed in r1: ended by SIGSEGV" in text.splitlines()
    assert calls_of(text)[:3] == [
        ("test_why", {"nodeid": TEST}),
        ("test_trace", {"nodeid": TEST}),
        ("test_run", {"nodeids": [TEST], "replace": True}),
    ]


@in_loop
async def test_a_failure_without_an_autopsy_is_reported_by_its_report() -> None:
    """As a strict xfail that passes."""
    bare = report_of(autopsy=None, exception=None, longrepr="\n[XPASS(strict)] why\n", log="")
    async with connected() as (front, client):
        await ran(front, bare)
        text = await triage(client)
    assert "- Exception (call): [XPASS(strict)] why" in text.splitlines()


@in_loop
async def test_a_part_of_a_node_id_means_the_only_test_that_has_it() -> None:
    """Or the only failed one."""
    async with connected() as (front, client):
        await ran(front, "test_a.py::test_one", "test_cart.py::test_total[none]", report_of())
        for part, meant in (("one]", None), ("_one", "test_a.py::test_one"), ("total", TEST)):
            if meant is not None:
                assert f"- Test: {meant}" in (await triage(client, nodeid=part)).splitlines()


@in_loop
async def test_a_test_that_failed_in_one_of_several_workers_has_failed() -> None:
    """`--dist=each`: its name is clear, and the failure is what is told."""
    async with connected() as (front, client):
        process = await ran(front, TEST, over=False)
        other = await front.greeted("gw1")
        await other.until_begin()
        await other.send(NodeStarted(TEST, 1.0))
        await other.send(report_of())
        await process.send(NodeFinished(TEST, 0.1, {}))
        await front.until(lambda: len(front.runs.get("r1").results.failed_nodeids()) == 1)
        lines = (await triage(client, nodeid="bulk")).splitlines()
        reported = await front.call("exception_get_context", nodeid=TEST)
    assert "- Outcome: failed in r1, which is collecting" in lines
    assert reported["exception"]["message"] == "assert 95 == 90"


def test_what_is_not_known_is_refused_with_what_is() -> None:
    """-32602; the nearest names, or what to call."""

    async def refused(client: Client, **arguments: str) -> str:
        with pytest.raises(MCPError) as caught:
            await triage(client, **arguments)
        assert caught.value.error.code == -32602
        return caught.value.error.message

    @in_loop
    async def run() -> None:
        async with connected() as (front, client):
            message = await refused(client, nodeid=TEST)
            assert f'no test has run yet; test_run {{"nodeids": ["{TEST}"]}} runs one' in message
            assert 'test_run {"nodeids": ["…"]}' in await refused(client)
            await ran(front, "test_a.py::test_one", "test_cart.py::test_total[none]")
            message = await refused(client)
            assert message == (
                "no test is paused, and none failed; give the nodeid of one; there is "
                "test_a.py::test_one, test_cart.py::test_total[none]"
            )
            message = await refused(client, nodeid="test_cart.py::test_totl[nnoe]")
            assert "; there is test_cart.py::test_total[none], " in message  # the nearest first
            assert "2 tests have 'test_' in their node id" in await refused(client, nodeid="test_")
            await ran(front, report_of(), *(f"test_many.py::test_{n}" for n in range(9)))
            message = await refused(client, nodeid="?")
            assert message == f"no run had a test '?'; there is {TEST}"
            assert "and 4 more" in await refused(client, nodeid="test_many")

    run()


def long_report(nodeid: str) -> PhaseReported:
    long = "x" * 3_000
    held = {f"name{number}": long for number in range(50)}
    frames = [frame_of(f"{long}.py", number, long, **held) for number in range(20)]
    autopsy = autopsy_of(
        *frames,
        assertion=ASSERTION | {"left": long, "right": long, "leftExpression": f"{long}()"},
        parameters=held,
        fixtures=[{"name": name, "scope": "function", "value": long} for name in held],
    )
    exception = {"type": long, "message": long}
    lines = f"{long}\n" * 50
    return report_of(
        nodeid, exception=exception, autopsy=autopsy, log=lines, stdout=lines, stderr=lines
    )


@pytest.mark.parametrize("name", ["test_x", f"test_x[{'y' * 3_000}]", "x" * 3_000])
def test_the_text_ends_at_4_000_characters(name: str) -> None:
    """What is least useful is cut first: the calls stay complete."""

    @in_loop
    async def run() -> None:
        async with connected() as (front, client):
            await ran(front, *(report_of(f"test_{n}.py::{'z' * 3_000}") for n in range(9)))
            await ran(front, long_report(f"test_cart.py::{name}"))
            text = await triage(client)
            assert len(text) <= 4_000
            assert ("test_run", {"last_failed": True, "replace": True}) in calls_of(text)

    run()


@pytest.mark.parametrize("tools", PROFILES)
def test_only_tools_that_are_offered_are_named(tools: str) -> None:
    """A client of the profile `triage` has no breakpoints."""
    known = {tool.name for tool in profile.ALL}

    @in_loop
    async def run() -> None:
        async with connected(tools) as (front, client):
            for autopsy in (autopsy_of(), autopsy_of(assertion=ASSERTION)):
                await ran(front, report_of(autopsy=autopsy))
                named = set(re.findall(r"\w+", await triage(client))) & known
                assert named <= {tool.name for tool in profile.tools(tools)}
                assert "test_run" in named

    run()


@in_loop
async def test_what_no_client_can_read_is_made_readable() -> None:
    async with connected() as (front, client):
        await ran(front, report_of(log="name\udce9"))
        front.runs.get("r1").results.tests[TEST].report = report_of(log="name\udce9")
        assert "- log: name\\udce9" in (await triage(client)).splitlines()


@in_loop
async def test_it_delivers_no_stop() -> None:
    async with connected() as (front, client):
        process = await ran(front, TEST, over=False)
        await process.stop()
        await front.until(lambda: bool(front.runs.get("r1").pauses))
        await triage(client, nodeid=TEST)
        reply = await front.call("breakpoint_wait", timeout_ms=1)
        assert (reply["hit"], reply["pause_id"]) == (True, "r1.main.1")
