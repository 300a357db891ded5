"""Which resources change when something happens, and when that is told.

How clients of each protocol hear of it is in `test_subscriptions.py`.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from cideldill_mcp.resources import resource_changes
from cideldill_mcp.resources.resource_changes import Throttle, Updates
from pytest_cideldill.protocol import (
    AddException,
    Bound,
    Collected,
    Departed,
    Finished,
    LinesPassed,
    NodeStarted,
    ReadThreads,
    Recorded,
    Replied,
    Resumed,
    SetDefaultBehavior,
    Stopped,
)
from tests.server.processes import DEADLINE_S, Front, Process, in_loop, pause_of, serving
from tests.server.test_records import row
from tests.server.test_resources import ROOT

# --- when ---------------------------------------------------------------------------------------


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Story:
    """A throttle, and what it told at which second of a story that begins at 0."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.throttle = Throttle(self.clock)
        self.reported: list[tuple[float, str]] = []

    def at(self, seconds: float, *names: str) -> None:
        """Let time pass, looking whenever it was said that something is due; then change these."""
        while (wait_s := self.throttle.wait_s()) is not None and self.clock.now + wait_s < seconds:
            self.clock.now += wait_s + 1e-9  # as late as a loop is
            self.look()
        self.clock.now = seconds
        for name in names:
            self.throttle.touch(name)
        if names:
            self.look()

    def look(self) -> None:
        self.reported += [(round(self.clock.now, 6), name) for name in self.throttle.due()]


def test_a_change_is_reported_at_once() -> None:
    story = Story()
    assert story.throttle.wait_s() is None
    assert story.throttle.due() == []
    story.at(0, "x")
    story.at(10, "x")
    story.at(20)
    assert story.reported == [(0, "x"), (10, "x")]


def test_changes_that_follow_are_reported_once_when_there_was_quiet() -> None:
    """Leading and trailing, 300 ms."""
    story = Story()
    for seconds in (0, 0.05, 0.1):
        story.at(seconds, "x")
    story.at(10)
    assert story.reported == [(0, "x"), (0.4, "x")]
    story.at(10, "x")
    assert story.reported[2:] == [(10, "x")]


def test_a_change_right_after_a_late_one_waits_too() -> None:
    """Any two that are told are 300 ms apart."""
    story = Story()
    for seconds in (0, 0.1, 0.41):
        story.at(seconds, "x")
    story.at(10)
    assert story.reported == [(0, "x"), (0.4, "x"), (0.71, "x")]


def test_constant_changes_are_reported_now_and_then() -> None:
    """At the latest 900 ms after the first that was not told."""
    story = Story()
    for step in range(50):
        story.at(step * 0.07, "x")
    story.at(10)
    assert [at for at, _ in story.reported] == [0, 0.97, 1.88, 2.79, 3.7]


def test_each_name_has_its_own_time() -> None:
    """What is due together is told in the order of the resource_changes."""
    story = Story()
    story.at(0, "x")
    story.at(0.1, "y", "x")
    story.at(0.2, "z", "y")
    story.at(10)
    assert story.reported == [(0, "x"), (0.1, "y"), (0.2, "z"), (0.4, "x"), (0.5, "y")]


@pytest.mark.full
def test_whatever_happens_each_change_is_reported_in_time_and_not_too_often() -> None:
    for seed in range(20):
        check_times(seed)


def check_times(seed: int) -> None:
    story, rng = Story(), random.Random(seed)
    changes: list[tuple[float, str]] = []
    now = 0.0
    for _ in range(300):
        now += rng.choice((0.01, 0.1, 0.29, 0.31, 0.9, 2.0)) * rng.random()
        changes.append((now, rng.choice("xy")))
        story.at(*changes[-1])
    story.at(now + 10)
    for name in "xy":
        reported = [at for at, each in story.reported if each == name]
        changed = [at for at, each in changes if each == name]
        assert all(any(-1e-5 <= at - when <= 0.9001 for at in reported) for when in changed), seed
        assert all(any(-1e-5 <= at - when <= 0.9001 for when in changed) for at in reported), seed
        assert all(later - at > 0.2999 for at, later in pairwise(reported)), seed
        assert reported[0] == pytest.approx(changed[0], abs=1e-5), seed


# --- which --------------------------------------------------------------------------------------

SESSION, THREADS = "debugger://session", "debugger://threads"
PAUSED, STATUS = "breakpoint://paused", "breakpoint://status"
NAMES, BREAKPOINTS = "breakpoint://breakpoints", "debugger://breakpoints"
CALLS, FUNCTIONS = "breakpoint://call-history", "breakpoint://functions"

RUN = {SESSION, THREADS, PAUSED, STATUS}
OF_BREAKPOINTS = {NAMES, BREAKPOINTS, STATUS}
LIST = None


def test_the_page_reports_what_changes() -> None:
    """`docs/resources.md`: the sets that the tests below expect."""
    page = (ROOT / "docs" / "resources.md").read_text(encoding="utf-8")
    table = page.partition("| resources that change |")[2].partition("\n\n")[0]
    reported = [set(re.findall(r"`([a-z]+://[a-z-]+)`", line)) for line in table.split("\n")[2:]]
    assert reported == [RUN, RUN, OF_BREAKPOINTS, {BREAKPOINTS}, {CALLS, STATUS}, {FUNCTIONS}]


class Watched:
    """A front end and what its updates tell."""

    def __init__(self, front: Front) -> None:
        self.front = front
        self.reported: list[str | None] = []
        self._updates = Updates(front.runs, self.reported.append)

    async def by(self, action: Awaitable[Any]) -> set[str | None]:
        """What an action changes; `reported` has the same in order, and how often."""
        await asyncio.wait_for(self._until_quiet(), DEADLINE_S)
        self.reported.clear()
        await action
        await asyncio.wait_for(self._until_quiet(), DEADLINE_S)
        return set(self.reported)

    async def event(self, process: Process, *events: Any) -> None:
        """Events of a process, until they were taken in: an answer that follows them was."""
        await process.send(*events)
        (target,) = (
            run.targets[process.worker] for run in self.front.runs if process.worker in run.targets
        )
        asked = asyncio.create_task(target.look(DEADLINE_S))
        await process.answer(ReadThreads, threads=[], tasks=[])
        await asked

    async def _until_quiet(self) -> None:
        while self._updates._next is not None:
            await asyncio.sleep(0.001)


@asynccontextmanager
async def watched(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watched]:
    """Quiet comes soon."""
    monkeypatch.setattr(resource_changes, "QUIET_S", 0.02)
    async with serving() as front:
        yield Watched(front)


@in_loop
async def test_the_state_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run state, pause, resume; the list when it begins and when it ends."""
    async with watched(monkeypatch) as see:
        assert await see.by(see.front.start()) == {LIST, *RUN}
        assert see.reported[0] is LIST
        assert await see.by(see.front.live("main")) == RUN
        (process,) = see.front._processes
        assert await see.by(see.event(process, Collected(1, []))) == {*RUN, FUNCTIONS}
        assert await see.by(see.event(process, NodeStarted("test_it.py::test_x", 1.0))) == set()
        assert await see.by(see.event(process, Stopped(pause_of("main", 1)))) == RUN
        assert await see.by(see.event(process, Resumed("r1.main.1", "continue", "client"))) == RUN
        assert await see.by(end(see.front, process)) == {LIST, *RUN}
        assert see.reported.count(LIST) == 1


async def end(front: Front, process: Process) -> None:
    """Leave as pytest does; the run is over then."""
    await process.send(Finished(0), Departed())
    await process.close()
    await front.until(lambda: all(run.is_over for run in front.runs))


@in_loop
async def test_a_run_that_takes_the_place_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list changes twice; and not by a process that only lists tests."""
    async with watched(monkeypatch) as see:
        run = await see.front.start()
        assert run.child is not None
        await see.by(see.front.runs.ladder.stop(run, kill=True))
        await see.by(see.front.start())
        assert see.reported.count(LIST) == 1
        assert await see.by(list_tests(see.front)) == set()


async def list_tests(front: Front) -> None:
    """By a process that ends at once: `sleep` knows no `--collect-only`."""
    run = await front.start(listing=True)
    await front.until(lambda: run.is_over)


@in_loop
async def test_breakpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add, change, remove, enable, bind."""
    async with watched(monkeypatch) as see:
        call = see.front.call
        await see.front.start()
        (process,) = await see.front.live("main")

        async def tool(tool: str, *, binds: bool = True, **arguments: Any) -> None:
            asked = call(tool, **arguments)
            if binds:
                command = await process.receive()
                reported = {"functions": ["shop.total"], "verified": True}
                await process.send(Replied(command.request, reported))  # type: ignore[union-attr]
            assert "error" not in await asked

        name: dict[str, Any] = {"function_name": "shop.total"}
        assert await see.by(tool("breakpoint_add", **name)) == OF_BREAKPOINTS
        for each in ("behavior", "after_behavior"):
            change = tool(f"breakpoint_set_{each}", **name, behavior="go")
            assert await see.by(change) == OF_BREAKPOINTS
        change = tool("breakpoint_set_replacement", **name, replacement_function="shop.other")
        assert await see.by(change) == OF_BREAKPOINTS
        default = "breakpoint_set_default_behavior"
        assert await see.by(tool(default, binds=False, behavior="go")) == OF_BREAKPOINTS
        await process.next(SetDefaultBehavior)
        added = tool("breakpoint_set_exception", exception_type="KeyError")
        assert await see.by(added) == OF_BREAKPOINTS
        switched = tool("breakpoint_enable", id="ex-2", enabled=False)
        assert await see.by(switched) == OF_BREAKPOINTS
        bound = Bound("fn-1", ["shop.total", "shop.till.total"], verified=True)
        assert await see.by(see.event(process, bound)) == OF_BREAKPOINTS
        assert await see.by(see.event(process, bound)) == set()
        removed = tool("breakpoint_remove", binds=False, **name)
        assert await see.by(removed) == OF_BREAKPOINTS
        for reads in ("breakpoint_list", "breakpoint_list_breakpoints", "debug_state"):
            assert await see.by(tool(reads, binds=False)) == set()


@in_loop
async def test_hits_and_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts of lines that were passed too, though no hit is told of them."""
    async with watched(monkeypatch) as see:
        await see.front.start()
        (process,) = await see.front.live("main")
        place = {"file": "shop.py", "line": 1, "function": "total"}
        hit = {"type": "hit", "ts": 1.0, "breakpoint_id": "tp-1", "location": place}
        assert await see.by(see.event(process, Recorded([hit] * 3))) == {BREAKPOINTS}
        assert await see.by(see.event(process, Recorded([row(1)]))) == {CALLS, STATUS}
        other = {"type": "raise", "ts": 1.0}
        assert await see.by(see.event(process, Recorded([other], lost=2))) == {CALLS, STATUS}
        see.front.desired.add_exception(AddException(0, "", "KeyError"))
        counted = LinesPassed({"ex-1": {"passes": 3}})
        assert await see.by(see.event(process, counted)) == {BREAKPOINTS}


@pytest.mark.full
@in_loop
async def test_many_changes_at_once_are_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and in the order in which the first ones came."""
    async with watched(monkeypatch) as see:
        # A busy machine needs 20 ms for a thousand.
        monkeypatch.setattr(resource_changes, "QUIET_S", 0.1)
        await see.front.start()
        (process,) = await see.front.live("main")
        calls = Recorded([row(number) for number in range(100)])
        await see.by(see.event(process, *[calls] * 10))
        assert see.reported[:2] == [CALLS, STATUS]
        assert max(Counter(see.reported).values()) <= 2
