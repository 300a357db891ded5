"""Tasks of asyncio, anyio and trio: who awaits whom, at a pause and while others wait.

A pause in a coroutine stops the thread of its loop (docs/concurrency.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.together.driver import only_stop
from tests.together.workbench import Bench, workbench

full = pytest.mark.full


def line_of(text: str, mark: str) -> int:
    """Where a line is that has this comment."""
    (number,) = (n for n, line in enumerate(text.splitlines(), 1) if line.endswith(f"# {mark}"))
    return number


def break_at(bench: Bench, text: str, mark: str = "HERE", **options: Any) -> dict[str, Any]:
    """Write `test_it.py` with a line breakpoint at the comment: the reply of `breakpoint_set`."""
    bench.write(test_it=text)
    line = line_of(text, mark)
    return bench.agent.call("breakpoint_set", file="test_it.py", line=line, **options)


def whole_stack(bench: Bench, stop: dict[str, Any]) -> dict[str, Any]:
    """The reply of `stacktrace_get` with all frames."""
    most = {"max_frames": 200, "max_chars": 100_000}
    return bench.agent.call("stacktrace_get", pause_id=stop["pause_id"], **most)


def stack_of(bench: Bench, stop: dict[str, Any]) -> list[tuple[str | None, str]]:
    """Task and function of each frame of the user's code, innermost first."""
    reported = whole_stack(bench, stop)
    assert [frame["index"] for frame in reported["frames"]] == list(range(reported["total_frames"]))
    return [
        (frame.get("task"), frame["function"])
        for frame in reported["frames"]
        if not frame["isExternal"]
    ]


def index_of(bench: Bench, stop: dict[str, Any], function: str) -> int:
    """The frame of a function."""
    reported = whole_stack(bench, stop)
    (index,) = (each["index"] for each in reported["frames"] if each["function"] == function)
    assert isinstance(index, int)
    return index


def tasks_of(bench: Bench) -> dict[str, dict[str, Any]]:
    """The tasks by name."""
    reported = bench.agent.call("threads_list", max_chars=100_000)
    return {task["name"]: task for task in reported["tasks"]}


CHAIN = """
    import asyncio

    async def leaf(event):
        value = 3  # HERE
        await event.wait()
        return value

    async def middle(event):
        own = "middle's"
        return await leaf(event)

    async def main():
        event = asyncio.Event()
        mine = "main's"
        task = asyncio.create_task(middle(event), name="sub")
        other = asyncio.create_task(event.wait(), name="other")
        asyncio.get_running_loop().call_later(0.01, event.set)
        assert await task == 3
        await other
        assert mine == "changed"

    def test_it():
        asyncio.run(main())
"""


@full
def test_the_stack_goes_on_in_the_task_that_awaits(bench: Bench) -> None:
    """Between the paused task and its loop: frames to look into and to change like all others."""
    break_at(bench, CHAIN)
    stop = only_stop(bench.run(["test_it.py"]))
    assert stop["thread"]["task"] == "sub"
    assert stack_of(bench, stop) == [
        ("sub", "leaf"),
        ("sub", "middle"),
        ("Task-1", "main"),
        (None, "test_it"),
    ]
    index = index_of(bench, stop, "main")
    reported = bench.agent.call(
        "variables_get", pause_id=stop["pause_id"], frame_index=index, names=["mine", "own"]
    )
    assert [(each["name"], each["value"]) for each in reported["variables"]] == [
        ("mine", '"main\'s"')
    ]
    assert reported["missing"] == ["own"]
    assert bench.eval(stop, "mine = 'changed'", frame_index=index) == ""
    assert bench.eval(stop, "(mine, event.is_set())", frame_index=index) == "('changed', False)"

    tasks = tasks_of(bench)
    assert {name: task["state"] for name, task in tasks.items()} == {
        "sub": "running",
        "Task-1": "waiting",
        "other": "scheduled",
    }
    chain = [f"test_it.py:{line_of(CHAIN, 'HERE') + 6} middle", "test_it.py:5 leaf"]
    assert tasks["sub"]["awaits"] == chain
    assert tasks["sub"]["location"]["function"] == "leaf"
    assert tasks["Task-1"]["awaits"] == ["test_it.py:19 main", "task sub", *chain]
    assert tasks["Task-1"]["location"]["function"] == "main"
    assert {task["thread_id"] for task in tasks.values()} == {stop["thread"]["id"]}
    assert bench.go_on(stop)["outcomes"] == {"passed": 1, "failed": 0}


@pytest.mark.full
def test_await_works_for_what_is_ready_and_says_why_not(bench: Bench) -> None:
    """In the REPL; a task that is made at the pause runs when the test goes on."""
    break_at(bench, CHAIN)
    stop = only_stop(bench.run(["test_it.py"]))
    assert bench.eval(stop, "async def ready(): return 5\nawait ready()") == "5"
    assert bench.eval(stop, "[await ready() for _ in range(2)]") == "[5, 5]"
    for source in ("await event.wait()", "import asyncio\nawait asyncio.sleep(0)"):
        said = bench.eval(stop, source)
        assert said.startswith("RuntimeError: await can't wait here: the event loop of this thread")
    assert bench.eval(stop, "async def change(): event.found = 8") == ""
    assert bench.eval(stop, "task = asyncio.create_task(change())") == ""
    index = index_of(bench, stop, "main")
    bench.eval(stop, "mine = 'changed'", frame_index=index)
    line = line_of(CHAIN, "HERE") + 2
    bench.agent.call("breakpoint_set", file="test_it.py", line=line)
    stop = only_stop(bench.go_on(stop))
    assert bench.eval(stop, "event.found") == "8"
    assert bench.go_on(stop)["outcomes"] == {"passed": 1, "failed": 0}


WAYS = """
    import asyncio

    async def leaf(event):
        await asyncio.sleep(0)
        here = 1  # HERE
        await event.wait()

    def start(event, name):
        return asyncio.create_task(leaf(event), name=name)

    async def plain(event): await start(event, "in plain")
    async def gather(event): await asyncio.gather(start(event, "in gather"), event.wait())
    async def shield(event): await asyncio.shield(start(event, "in shield"))
    async def wait(event): await asyncio.wait([start(event, "in wait")])
    async def wait_for(event): await asyncio.wait_for(start(event, "in wait_for"), 60)
    async def completed(event):
        for each in asyncio.as_completed([start(event, "in completed")]): await each
    async def group(event):
        async with asyncio.TaskGroup() as tasks: tasks.create_task(leaf(event), name="in group")
    async def body(event):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(leaf(event), name="in body")
            await event.wait()
    class Awaitable:
        def __init__(self, task): self.task = task
        def __await__(self): return self.task.__await__()
    async def awaitable(event): await Awaitable(start(event, "in awaitable"))
    async def generate(event):
        await start(event, "in generator")
        yield 1
    async def generator(event):
        async for _ in generate(event): pass
    async def own(event):  # what others do in callbacks says nothing
        other = asyncio.current_task()
        task = start(event, "in own")
        task.add_done_callback(lambda _: other)
        await event.wait()

    WAYS = [plain, gather, shield, wait, wait_for, completed, group, body, awaitable, generator]

    async def main():
        event = asyncio.Event()
        tasks = [asyncio.create_task(way(event), name=way.__name__) for way in [*WAYS, own]]
        while len(asyncio.all_tasks()) < 2 * len(tasks) + 1: await asyncio.sleep(0)
        for _ in range(20): await asyncio.sleep(0)
        event.set()
        await asyncio.gather(*tasks)

    def test_it():
        asyncio.run(main())
"""


@full
def test_every_way_to_await_a_task_is_found(bench: Bench) -> None:
    """Also where asyncio itself knows of a future only."""
    break_at(bench, WAYS)
    reply = bench.run(["test_it.py"])
    seen: dict[str, list[str | None]] = {}
    chains: dict[str, list[str]] = {}
    while reply["state"] == "paused":
        stop = only_stop(reply)
        name = stop["thread"]["task"]
        stack = stack_of(bench, stop)
        assert stack[0] == (name, "leaf")
        seen[name] = [task for task, _ in stack if task != name]
        chains |= {name: task["awaits"] for name, task in tasks_of(bench).items()}
        reply = bench.go_on(stop)
    assert reply["outcomes"] == {"passed": 1, "failed": 0}
    ways = ("plain", "gather", "shield", "wait", "wait_for", "completed", "group", "body")
    expected = {f"in {way}": [way, None] for way in (*ways, "awaitable")}
    expected["in generator"] = ["generator", "generator", None]  # its generator has a frame too
    expected["in own"] = [None]
    assert seen == expected
    for way in ("plain", "shield", "wait", "wait_for", "completed", "group", "awaitable"):
        assert f"task in {way}" in chains[way], chains[way]
    assert any(line.endswith(" generate") for line in chains["generator"])
    assert chains["own"][-2:] == ["asyncio.locks.Event.wait", "_asyncio.Future"]


LOOPS = """
    import asyncio, threading, time

    counts = {"same": 0, "other": 0}

    async def count(name):
        while True:
            counts[name] += 1
            await asyncio.sleep(0.001)

    async def other(over):
        asyncio.create_task(count("other"), name="other counter")
        await asyncio.get_running_loop().run_in_executor(None, over.wait)

    async def meet(n):
        await asyncio.sleep(0)
        return n

    async def items():
        for n in range(2):
            yield n
            await asyncio.sleep(0)

    async def main():
        task = asyncio.create_task(count("same"), name="same counter")
        while not all(counts.values()): await asyncio.sleep(0.001)
        before = 1  # HERE
        assert await meet(3) == 4
        try:
            raise LookupError("here")
        except LookupError:
            pass
        assert [n async for n in items()] == [0, 1]
        task.cancel()

    def test_it():
        over = threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(other(over)), name="other loop")
        thread.start()
        try:
            asyncio.run(main())
        finally:
            over.set()
            thread.join()
"""


@full
def test_a_pause_in_a_coroutine_stops_its_loop_and_no_other(bench: Bench) -> None:
    """Breakpoints of every kind stop there; tasks of both loops are told, with their threads."""
    break_at(bench, LOOPS)
    bench.breakpoint("test_it.meet")
    bench.breakpoint("test_it.items")
    bench.agent.call("breakpoint_set_exception", exception_type="LookupError")
    line = line_of(LOOPS, "HERE") + 1
    bench.agent.call("tracepoint_set", file="test_it.py", line=line, log_message="{counts['same']}")
    stop = only_stop(bench.run(["test_it.py"]))
    seen = [stop["phase"]]
    same = bench.eval(stop, "counts['same']")
    first = int(bench.eval(stop, "counts['other']"))
    while int(bench.eval(stop, "counts['other']")) < first + 3:
        assert bench.eval(stop, "counts['same']") == same
    tasks = tasks_of(bench)
    threads = bench.agent.call("threads_list")["threads"]
    idents = {thread["name"]: thread["id"] for thread in threads}
    assert tasks["same counter"]["thread_id"] == idents["MainThread"]
    assert tasks["other counter"]["thread_id"] == idents["other loop"]
    reply = bench.go_on(stop)
    actions: dict[str, dict[str, Any]] = {"before": {"modified_args": [4]}}
    while reply["state"] == "paused":
        stop = only_stop(reply)
        seen.append(stop["phase"])
        how = actions if stop.get("call_data", {}).get("pretty_args") else {}
        reply = bench.go_on(stop, **how.get(stop["phase"], {}))
    assert seen == ["line", "before", "raise", "before"]
    assert reply["outcomes"] == {"passed": 1, "failed": 0}
    assert [hit["message"] for hit in bench.events("hit")] == [same]


BACKENDS = """
    import anyio, pytest

    async def leaf(event):
        value = 3  # HERE
        await event.wait()

    async def nested(event):
        own = "nested's"
        async with anyio.create_task_group() as group:
            group.start_soon(leaf, event, name="in a group")

    @pytest.fixture
    def anyio_backend(): return "BACKEND"

    @pytest.mark.anyio
    async def test_it():
        event = anyio.Event()
        mine = "test's"
        async with anyio.create_task_group() as group:
            group.start_soon(nested, event, name="nested")
            await anyio.sleep(0.01)
            event.set()
        assert mine == "changed"
"""

TRIO = """
    import trio

    async def leaf(event):
        value = 3  # HERE
        await event.wait()

    async def nested(event):
        own = "nested's"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leaf, event, name="in a group")

    def test_it():
        async def test_it():
            event = trio.Event()
            mine = "test's"
            async with trio.open_nursery() as nursery:
                nursery.start_soon(nested, event, name="nested")
                await trio.sleep(0.01)
                event.set()
            assert mine == "changed"
        trio.run(test_it)
"""


@pytest.fixture
def guests(tmp_path: Path) -> Iterator[Bench]:
    """A bench whose processes have anyio's plugin."""
    with workbench(tmp_path / "project", env={"PYTEST_ADDOPTS": ""}) as bench:
        yield bench


@full
@pytest.mark.sample("anyio on asyncio", "trio")
@pytest.mark.parametrize("how", ["anyio on asyncio", "anyio on trio", "trio"])
def test_tasks_of_anyio_and_trio(guests: Bench, how: str) -> None:
    """Their groups and nurseries are awaited; `await` says the same as on asyncio."""
    bench, text = guests, TRIO
    if how.endswith("trio"):
        pytest.importorskip("trio")
    if how.startswith("anyio"):
        backend = how.split()[-1]
        fixture = (
            f"@pytest.fixture\n    def anyio_backend(): return {backend!r}\n\n    @pytest.mark"
        )
        text = BACKENDS.replace("@pytest.mark", fixture)
    break_at(bench, text)
    stop = only_stop(bench.run(["test_it.py"], args=["-p", "no:asyncio"]))
    assert stop["thread"]["task"] == "in a group"
    stack = stack_of(bench, stop)
    assert stack[:2] == [("in a group", "leaf"), ("nested", "nested")]
    test, function = stack[2]
    assert function.endswith("test_it")
    index = index_of(bench, stop, function)
    assert bench.eval(stop, "mine = 'changed'", frame_index=index) == ""
    tasks = tasks_of(bench)
    assert tasks["in a group"]["state"] == "running"
    assert tasks["nested"]["state"] == tasks[str(test)]["state"] == "waiting"
    assert "task in a group" in tasks["nested"]["awaits"]
    assert {"task nested", "task in a group"} <= set(tasks[str(test)]["awaits"])
    assert {task["thread_id"] for task in tasks.values()} == {stop["thread"]["id"]}
    assert bench.eval(stop, "async def ready(): return 5\nawait ready()") == "5"
    assert "await can't wait here" in bench.eval(stop, "await event.wait()")
    assert bench.go_on(stop)["outcomes"] == {"passed": 1, "failed": 0}


TOGETHER = """
    import asyncio, pathlib
    import pytest

    WORKERS = {workers}

    async def leaf(n):
        await asyncio.sleep(0)
        return n  # HERE

    async def main(n):
        pathlib.Path(f"here-{{n}}").touch()
        while len(list(pathlib.Path().glob("here-*"))) < WORKERS: await asyncio.sleep(0.01)
        assert await asyncio.create_task(leaf(n), name=f"task of {{n}}") == n

    @pytest.mark.parametrize("n", range(WORKERS))
    def test_it(n): asyncio.run(main(n))
"""


@full
@pytest.mark.sample("2")
@pytest.mark.parametrize("workers", [2, 4])
def test_tasks_of_several_workers(bench: Bench, workers: int) -> None:
    """Each task tells its worker; each stack is its own."""
    text = TOGETHER.format(workers=workers)
    break_at(bench, text)
    bench.run(["test_it.py"], workers=workers, wait=False)
    paused = bench.until_paused(workers)
    tasks = bench.agent.call("threads_list", max_chars=100_000)["tasks"]
    running = {task["worker"]: task["name"] for task in tasks if task["state"] == "running"}
    assert running == {pause["worker"]: pause["thread"]["task"] for pause in paused}
    assert len(running) == workers
    for pause in paused:
        n = pause["locals"]["n"]
        stack = stack_of(bench, {"pause_id": pause["id"]})
        assert stack[:2] == [(f"task of {n}", "leaf"), ("Task-1", "main")]
        bench.agent.call("breakpoint_continue", pause_id=pause["id"])
    assert bench.until("finished")["outcomes"] == {"passed": workers}


@pytest.mark.full
@pytest.mark.parametrize("library", ["gevent", "eventlet"])
def test_greenlets_that_wait_are_shown_like_tasks(bench: Bench, library: str) -> None:
    """At a pause, by the line of the user's code that each is in."""
    pytest.importorskip(library)
    stop = bench.stop_of(
        f"""
        import {library} as library

        def inner():
            library.sleep(60)

        def work():
            inner()

        def test_it():
            other = library.spawn(work)
            library.sleep(0)
            assert other is None
        """
    )
    (reported,) = bench.agent.call("threads_list")["tasks"]
    assert (reported["name"], reported["state"], reported["thread_id"]) == (
        "greenlet work",
        "waiting",
        None,
    )
    assert (reported["location"]["file"], reported["location"]["line"]) == ("test_it.py", 5)
    mine = [each for each in reported["awaits"] if each.startswith("test_it")]
    assert mine == ["test_it.py:8 work", "test_it.py:5 inner"]
    bench.go_on(stop)
