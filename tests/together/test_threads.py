"""Threads of tests: stopped wherever they came from, several at once, and told apart.

More tests of threads: `test_concurrency.py` (many requests at once), `test_stepping.py`,
`test_interrupting.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.together.driver import only_stop
from tests.together.workbench import Bench

full = pytest.mark.full

EARLY = """
    import _thread, os, threading, time
    from concurrent.futures import ThreadPoolExecutor

    go, over = threading.Event(), threading.Event()

    def call(name, n):
        return n + 1

    def work(name):
        n = 0
        while not over.is_set():
            n = call(name, n)
            n += 0  # LOOP
            try:
                raise KeyError(name)
            except KeyError:
                time.sleep(0.001)

    class Own(threading.Thread):
        def run(self): work("own")

    # All of them are inside of their loop when the test begins.
    threading.Thread(target=work, args=("plain",), name="plain", daemon=True).start()
    Own(name="own", daemon=True).start()
    _thread.start_new_thread(work, ("raw",))
    pool = ThreadPoolExecutor(1, "pool")
    pool.submit(work, "pool")
    threading.Timer(0.01, work, ("timer",)).start()

    def test_it():
        while not os.path.exists("enough"): time.sleep(0.01)
        over.set()
        pool.shutdown()
"""

NAMES = {"plain", "own", "raw", "pool", "timer"}


def pauses_of(bench: Bench, breakpoint: str) -> dict[str, dict[str, Any]]:
    """The pauses of all threads at a breakpoint, by what its local `name` is."""
    found = {}
    for pause in bench.until_paused(len(NAMES)):
        assert pause["breakpoint_id"] == breakpoint
        found[pause["locals"]["name"].strip("'")] = pause
    return found


def drop(bench: Bench, breakpoint: str) -> None:
    """Remove a breakpoint and let all threads go on."""
    bench.agent.call("breakpoint_remove", id=breakpoint)
    assert len(bench.agent.call("debug_continue")["resumed"]) == len(NAMES)


@full
def test_threads_that_ran_before_anything_was_armed_stop(bench: Bench) -> None:
    """At lines of frames that run already, in functions, at raises; messages come from each."""
    bench.test(EARLY, wait=False)
    bench.until("running")
    lines = EARLY.splitlines()
    line = next(n for n, text in enumerate(lines, 1) if text.endswith("# LOOP"))

    id = bench.agent.call("breakpoint_set", file="test_it.py", line=line)["id"]
    pauses = pauses_of(bench, id)
    assert pauses.keys() == NAMES
    assert len({pause["thread"]["id"] for pause in pauses.values()}) == len(NAMES)
    reported = bench.agent.call("threads_list", max_chars=100_000)["threads"]
    by_pause = {thread["paused"]: thread for thread in reported if thread["paused"]}
    assert by_pause.keys() == {pause["id"] for pause in pauses.values()}
    assert {thread["state"] for thread in by_pause.values()} == {"paused"}
    assert sum(thread["is_current"] for thread in reported) == 1
    assert by_pause[pauses["plain"]["id"]]["name"] == "plain"
    (main,) = (thread for thread in reported if thread["name"] == "MainThread")
    assert (main["state"], main["location"]["function"]) == ("running", "test_it")
    drop(bench, id)

    id = bench.breakpoint("test_it.call")["id"]
    assert pauses_of(bench, id).keys() == NAMES
    drop(bench, id)

    made = bench.agent.call("breakpoint_set_exception", exception_type="KeyError")
    id = made["breakpoint"]["id"]
    assert pauses_of(bench, id).keys() == NAMES
    drop(bench, id)

    made = bench.agent.call("tracepoint_set", file="test_it.py", line=line, log_message="{name}")
    id, after = made["tracepoint"]["id"], 0
    seen: set[str] = set()
    while seen != NAMES:
        hits = bench.events("hit", after=after, limit=1_000)
        seen |= {hit["message"] for hit in hits if hit["breakpoint_id"] == id}
        after = hits[-1]["seq"] if hits else after
    (bench.root / "enough").touch()
    assert bench.until("finished")["outcomes"] == {"passed": 1}


SIDE_BY_SIDE = """
    import threading

    counts = {"one": 0, "two": 0, "free": 0}
    over = threading.Event()

    def begin(name):
        return name

    def work(name):
        begin(name)
        first = name
        second = first * 2
        third = second * 2
        counts[name] += len(third)
        over.wait()

    def test_it():
        def free():
            while not over.wait(0.001): counts["free"] += 1

        threads = [threading.Thread(target=work, args=(n,), name=n) for n in ("one", "two")]
        threads.append(threading.Thread(target=free, name="free"))
        for thread in threads: thread.start()
        while not (counts["one"] and counts["two"]): over.wait(0.001)
        over.set()
        for thread in threads: thread.join()
        assert (counts["one"], counts["two"]) == (12, 20)
"""


@pytest.mark.full
def test_two_paused_threads_are_stepped_and_changed_each_by_its_own(bench: Bench) -> None:
    """Both steps are under way at the same time; a third thread runs all the while."""
    bench.breakpoint("test_it.begin")
    bench.test(SIDE_BY_SIDE)
    one, two = sorted(bench.until_paused(2), key=lambda pause: str(pause["thread"]["name"]))
    assert (one["thread"]["name"], two["thread"]["name"]) == ("one", "two")
    before = int(bench.eval({"pause_id": one["id"]}, "counts['free']"))
    for expected in ("first = name", "second = first * 2"):
        steps = [
            bench.agent.start("debug_step", pause_id=pause["id"], mode="over")
            for pause in (one, two)
        ]
        done = [step.result(20) for step in steps]
        assert [each["pause_id"] for each in done] == [one["id"], two["id"]]
        assert [each["location"]["source"] for each in done] == [expected] * 2
    assert bench.eval({"pause_id": two["id"]}, "first = 'three'") == ""
    assert bench.eval({"pause_id": one["id"]}, "first") == "'one'"
    while int(bench.eval({"pause_id": one["id"]}, "counts['free']")) < before + 3:
        pass
    reported = bench.agent.call("threads_list")["threads"]
    states = {each["name"]: (each["state"], each["paused"], each["is_ours"]) for each in reported}
    assert states == {
        "MainThread": ("running", None, False),
        "one": ("paused", one["id"], False),
        "two": ("paused", two["id"], False),
        "free": ("running", None, False),
        "pytest-cideldill": ("running", None, True),
    }
    paused = bench.agent.call("debug_state")["paused"]  # in the order in which they came to stop
    assert sorted(paused) == sorted([one["id"], two["id"]])
    assert bench.agent.call("debug_continue")["resumed"] == paused
    assert bench.until("finished")["outcomes"] == {"passed": 1}


OUTLIVES = """
    import os, threading

    begun = []

    def meet(n): return n

    def run(action):
        begun.append(action)
        action(1)

    def test_first():
        for action in (str, meet):  # the first one has all code of threads looked at
            threading.Thread(target=run, args=(action,), daemon=True).start()
            while action not in begun: pass
        while not os.path.exists("go"): pass  # a pause belongs to the test that runs when it begins

    def test_second():
        while not len(threading.enumerate()) == 2: pass

    def test_bad(): assert 0
"""


@full
def test_a_paused_thread_outlives_its_test_and_ends_with_the_run(bench: Bench) -> None:
    """It keeps its test and holds up none; the verdict is the true one."""
    bench.breakpoint("test_it.meet")
    reply = bench.test(OUTLIVES)
    first = only_stop(reply)
    (bench.root / "go").touch()
    while bench.agent.call("debug_state")["paused"] == [first["pause_id"]]:
        pass
    paused = bench.agent.call("breakpoint_list_paused")["paused"]
    assert [pause["nodeid"].partition("::")[2] for pause in paused] == ["test_first", "test_bad"]
    assert bench.eval(first, "n") == "1"
    bench.agent.call("breakpoint_continue", pause_id=paused[1]["id"])
    assert bench.until("finished")["outcomes"] == {"passed": 2, "failed": 1}
    resumed = bench.events("resumed")
    assert [event["by"] for event in resumed if event["pause_id"] == first["pause_id"]] == ["stop"]


LOOP_ELSEWHERE = """
    import asyncio, threading

    def meet(loop):
        return loop

    async def answer():
        await asyncio.sleep(0)
        return threading.current_thread().name

    def test_it():
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="loop")
        thread.start()
        try:
            asyncio.run_coroutine_threadsafe(asyncio.to_thread(meet, loop), loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
"""


@full
def test_a_paused_thread_of_a_pool_can_use_the_loop_of_another(bench: Bench) -> None:
    """No loop runs on it: `await` has one of its own, and the other one goes on."""
    bench.breakpoint("test_it.meet")
    stop = bench.stop_of(LOOP_ELSEWHERE)
    assert "task" not in stop["thread"]
    assert bench.eval(stop, "await answer()") == repr(stop["thread"]["name"])
    source = "import asyncio\nasyncio.run_coroutine_threadsafe(answer(), loop).result(5)"
    assert bench.eval(stop, source) == "'loop'"
    assert bench.go_on(stop)["outcomes"] == {"passed": 1, "failed": 0}


MANY = """
    import pathlib, threading
    import pytest

    WORKERS = {workers}

    def meet(n): return n

    @pytest.mark.parametrize("n", range(WORKERS))
    def test_it(n):
        pathlib.Path(f"here-{{n}}").touch()
        while len(list(pathlib.Path().glob("here-*"))) < WORKERS: pass
        thread = threading.Thread(target=meet, args=(n,), name=f"thread of {{n}}")
        thread.start()
        thread.join()
"""


@full
@pytest.mark.sample("2")
@pytest.mark.parametrize("workers", [2, 4])
def test_threads_of_several_workers(bench: Bench, workers: int) -> None:
    """Ids may be the same in all of them: the worker tells them apart."""
    bench.breakpoint("test_it.meet")
    bench.test(MANY.format(workers=workers), workers=workers, wait=False)
    paused = bench.until_paused(workers)
    reported = bench.agent.call("threads_list", max_chars=100_000)["threads"]
    stopped = {each["worker"]: each["paused"] for each in reported if each["state"] == "paused"}
    assert stopped == {pause["worker"]: pause["id"] for pause in paused}
    assert len(stopped) == workers
    ours = [each["worker"] for each in reported if each["is_ours"]]
    assert sorted(ours) == sorted([*stopped, "main"])
    for pause in paused:
        where = {"thread_id": pause["thread"]["id"], "worker": pause["worker"]}
        frames = bench.agent.call("stacktrace_get", **where)["frames"]
        assert frames[0]["function"] == "meet"
        assert pause["thread"]["name"] == f"thread of {pause['locals']['n']}"
        bench.agent.call("breakpoint_continue", pause_id=pause["id"])
    assert bench.until("finished")["outcomes"] == {"passed": workers}
