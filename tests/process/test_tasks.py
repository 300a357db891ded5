"""Tasks to plain values: whatever task class a program has, without running its code."""

from __future__ import annotations

import asyncio
import asyncio.tasks
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_cideldill.frames.tasks import (
    MAX_CHAIN,
    MAX_TASKS,
    describe_tasks,
    logical_stack,
    names_of_tasks,
)
from pytest_cideldill.project import Project
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.display import Lens

LENS = Lens(Project(str(Path(__file__).parent)), Redactor(environ={}))

asked: list[str] = []
"""What the capture asked a task of the program's own class."""

is_looking = False


class Own(asyncio.Task[Any]):
    """Notes who asks; each answer would be user code that runs."""

    def __getattribute__(self, name: str) -> Any:
        if is_looking:
            asked.append(name)
        return super().__getattribute__(name)


MAKERS: dict[str, Callable[..., asyncio.Task[Any]]] = {
    "asyncio's": asyncio.Task,
    "asyncio's in Python": asyncio.tasks._PyTask,  # type: ignore[attr-defined]
    "the program's": Own,
}


def look() -> tuple[list[tuple[str, str]], dict[str, dict[str, Any]]]:
    """The frames of tasks in the caller's stack, ours left out, and all tasks by name."""
    global is_looking
    is_looking = True
    try:
        stack = logical_stack(sys._getframe(1), LENS.project)
        names = names_of_tasks(stack)
        frames = [
            (names[id(each)], each.f_code.co_name)
            for each in stack
            if id(each) in names and LENS.project.is_user(each.f_code.co_filename)
        ]
        return frames, {task["name"]: task for task in describe_tasks(LENS)}
    finally:
        is_looking = False


def name_main() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.set_name("main")


async def wait_for(other: Awaitable[Any]) -> Any:
    return await other


async def turns(number: int = 3) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_who_awaits_whom(make: Callable[..., asyncio.Task[Any]]) -> None:
    """The task that runs, those that wait for it through others, and one that waits for nobody."""

    async def look_when(gate: asyncio.Future[None]) -> Any:
        await gate
        return look()

    async def main() -> Any:
        name_main()
        gate, never = (asyncio.get_running_loop().create_future() for _ in range(2))
        inner = make(look_when(gate), name="inner")
        middle = make(wait_for(asyncio.shield(inner)), name="middle")
        outer = make(wait_for(middle), name="outer")
        alone = make(wait_for(never), name="alone")
        await turns()
        gate.set_result(None)
        seen = await outer
        never.set_result(None)
        await alone
        return seen

    asked.clear()
    frames, tasks = asyncio.run(main())
    assert frames[0] == ("inner", "look_when")
    ours = [each for each in frames if each[0] != "inner"]
    assert ours == [("middle", "wait_for"), ("outer", "wait_for"), ("main", "main")]
    states = {name: task["state"] for name, task in tasks.items()}
    assert states.pop("inner") == "running"
    assert set(states.values()) == {"waiting"}
    ends = [line.rpartition(".")[2].split()[-1] for line in tasks["outer"]["awaits"]]
    ends = [each for each in ends if each != "__await__"]  # of asyncio's in Python
    assert ends == ["wait_for", "middle", "wait_for", "inner", "look_when", "look"]
    place, future = tasks["alone"]["awaits"]
    assert place.endswith(" wait_for")
    assert future.endswith("Future")
    assert asked == []


def test_chains_and_lists_are_bounded() -> None:
    """Deep ones lose their middle, long ones their end, and circles end where they began."""

    async def deep(left: int, future: asyncio.Future[None]) -> None:
        await (deep(left - 1, future) if left else future)

    async def circle(others: list[asyncio.Task[None]]) -> None:
        await asyncio.shield(others[0])  # else asyncio itself would go round for ever at the end

    async def main() -> dict[str, dict[str, Any]]:
        loop = asyncio.get_running_loop()
        never = loop.create_future()
        others: list[asyncio.Task[None]] = []
        tasks = [
            loop.create_task(deep(50, never), name="deep"),
            loop.create_task(circle(others), name="one"),
        ]
        others.append(loop.create_task(wait_for(tasks[1]), name="two"))
        await turns()
        _, seen = look()
        tasks += [loop.create_task(wait_for(never)) for _ in range(MAX_TASKS)]
        await turns()
        _, all_of_them = look()
        assert len(all_of_them) == MAX_TASKS
        for each in [*tasks, *others]:
            each.cancel()
        await asyncio.gather(*tasks, *others, return_exceptions=True)
        return seen

    seen = asyncio.run(main())
    chain = seen["deep"]["awaits"]
    assert len(chain) == MAX_CHAIN + 1
    assert chain[MAX_CHAIN // 2] == "… 32 more"
    ends = [line.rpartition(".")[2].split()[-1] for line in seen["one"]["awaits"]]
    assert ends == ["circle", "two", "wait_for", "one"]


def test_a_stack_outside_of_tasks_is_as_it_is() -> None:
    """Also one that a loop called, but no task."""
    assert look()[0] == []

    async def main() -> Any:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        seen = loop.create_future()
        loop.call_soon(lambda: seen.set_result(look()))
        return task.get_name(), await seen

    name, (frames, tasks) = asyncio.run(main())
    assert frames == []
    assert tasks[name]["state"] == "waiting"  # other threads may have loops too
