"""Stacks, variables, threads and tasks of running and paused tests; letting all go on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.together.driver import only_stop
from tests.together.workbench import Bench

CLOSURES = """
    import json

    LIMIT = 7

    class Cart:
        def __init__(self):
            self.items = [1, 2]

    def make(rate):
        def inner(cart, password="hunter2-zq81"):
            total = rate * len(cart.items)
            raise ValueError(total)
        return inner

    def test_it():
        cart = Cart()
        json.dumps(cart, default=make(3))
"""


@pytest.mark.full
def test_stack_and_variables_of_a_pause(bench: Bench) -> None:
    """Names first, then values; external frames are told apart."""
    agent = bench.agent
    stop = bench.stop_of(CLOSURES)
    stack = agent.call("stacktrace_get", pause_id=stop["pause_id"])
    top = stack["frames"][0]
    assert top["function"] == "make.<locals>.inner"
    assert top["location"] == {"file": "test_it.py", "line": 13}
    assert top["source"] == "raise ValueError(total)"
    (paused,) = agent.call("breakpoint_list_paused")["paused"]
    assert stack["thread_id"] == paused["thread"]["id"]
    assert stack["total_frames"] == len(stop["autopsy"]["frames"])
    external = [frame["isExternal"] for frame in stack["frames"]]
    assert external[0] is external[-1] is False
    assert any(external)
    assert agent.call("stacktrace_get", start_frame=1, max_frames=1)["frames"] == [
        stack["frames"][1]
    ]

    def look(**options: Any) -> dict[str, Any]:
        return agent.call("variables_get", pause_id=stop["pause_id"], **options)

    assert look()["names"] == [
        {"name": "cart", "type": "test_it.Cart"},
        {"name": "password", "type": "str"},
        {"name": "total", "type": "int"},
        {"name": "rate", "type": "int"},
    ]
    assert look(scope="closure") == {"names": [{"name": "rate", "type": "int"}]}
    reported = look(names=["cart", "password", "nothing"])
    assert reported["missing"] == ["nothing"]
    cart, password = reported["variables"]
    assert cart["value"] == "Cart(items=[1, 2])"
    assert cart["has_children"] is True
    deeper = agent.call("breakpoint_inspect_object", cid=cart["cid"], path=".items")
    assert deeper["repr"] == "[1, 2]"
    assert "redacted" in password["value"]
    limit = look(scope="globals", names=["LIMIT"])["variables"]
    assert [(each["name"], each["value"]) for each in limit] == [("LIMIT", "7")]
    refused = agent.refused("variables_get", pause_id=stop["pause_id"], frame_index=99)
    assert refused["error"] == "invalid_frame"


RUN_BY_PYTEST = """
    import json
    import pytest

    @pytest.fixture
    def number():
        return int("7")

    def read(text, number):
        try:
            return json.loads(text)
        except ValueError:
            return number

    def test_it(request):
        number = request.getfixturevalue("number")
        assert read("{", number) == 8
"""


@pytest.mark.full
def test_stacks_are_reported_without_what_runs_the_tests(bench: Bench) -> None:
    """Pytest and pluggy frames hidden, at every kind of stop."""
    bench.write(test_it=RUN_BY_PYTEST)
    bench.breakpoint("test_it.number")
    bench.agent.call("breakpoint_set", file="test_it.py", line=7)
    bench.agent.call("breakpoint_set_exception", exception_type="ValueError")
    reply, seen = bench.run(), []
    while reply["state"] == "paused":
        stop = only_stop(reply)
        stack = bench.agent.call("stacktrace_get", pause_id=stop["pause_id"])
        shown = [frame["function"] for frame in stack["frames"]]
        assert stack["total_frames"] == len(shown)
        if "autopsy" in stop:
            reported = bench.agent.call("exception_get_context", pause_id=stop["pause_id"])
            assert [frame["function"] for frame in reported["frames"]] == shown
            trace = reported["exception"]["stackTraceString"].splitlines()
            assert [line.rpartition(" ")[2] for line in reversed(trace)] == shown
        # The last one can be looked into, under the number that it has here.
        assert "request" in bench.eval(stop, "locals()", frame_index=len(shown) - 1)
        seen.append((stop["phase"], [name for name in shown if not name.startswith("JSON")]))
        reply = bench.go_on(stop)
    assert seen == [
        ("before", ["number", "test_it"]),
        ("line", ["number", "test_it"]),
        ("raise", ["loads", "read", "test_it"]),
        ("post_mortem", ["test_it"]),
    ]


THREADS = """
    import asyncio
    import threading

    def here():
        pass

    def work(go):
        go.wait()

    async def sleeper(event):
        await event.wait()

    async def both():
        event = asyncio.Event()
        task = asyncio.create_task(sleeper(event), name="sleepy")
        await asyncio.sleep(0)
        here()

    def test_it():
        go = threading.Event()
        thread = threading.Thread(target=work, args=(go,), name="worker-7")
        thread.start()
        try:
            asyncio.run(both())
        finally:
            go.set()
            thread.join()
"""


@pytest.mark.full
def test_threads_and_tasks_of_a_test(bench: Bench) -> None:
    """A thread that runs, one that is paused in a call, ours, and a task that waits."""
    agent = bench.agent
    bench.breakpoint("test_it.here")
    stop = bench.stop_of(THREADS)
    reported = agent.call("threads_list")
    assert reported["stale"] is False
    main = reported["threads"][0]
    assert (main["name"], main["state"]) == ("MainThread", "paused")
    assert main["paused"] == stop["pause_id"]
    assert main["is_current"] is True
    assert main["location"]["function"] == "here"
    (other,) = [each for each in reported["threads"] if each["name"] == "worker-7"]
    assert (other["state"], other["worker"]) == ("running", "main")
    assert other["location"]["function"] == "work"
    (ours,) = [each for each in reported["threads"] if each["is_ours"]]
    assert (ours["name"], ours["state"]) == ("pytest-cideldill", "running")
    assert (ours["paused"], ours["location"]) == (None, None)
    assert len(reported["threads"]) == 3
    tasks = {task["name"]: task for task in reported["tasks"]}
    sleepy = tasks["sleepy"]
    assert sleepy["state"] == "waiting"
    place, *further = sleepy["awaits"]
    assert place.startswith("test_it.py:")
    assert place.endswith(" sleeper")
    assert further == ["asyncio.locks.Event.wait", "_asyncio.Future"]
    assert sleepy["location"]["function"] == "sleeper"
    assert {task["state"] for task in tasks.values()} == {"waiting", "running"}

    stack = agent.call("stacktrace_get", thread_id=other["id"])
    assert "work" in [frame["function"] for frame in stack["frames"]]
    refused = agent.refused("stacktrace_get", thread_id=1)
    assert refused["error"] == "thread_not_found"
    refused = agent.refused("stacktrace_get", thread_id=1, worker="gw7")
    assert refused["error"] == "worker_not_found"
    assert agent.call("debug_continue")["resumed"] == [stop["pause_id"]]


@pytest.mark.full
def test_all_go_on_at_once_and_no_failure_pauses_any_more(bench: Bench) -> None:
    """`debug_continue` with `pause_on`: for the rest of the run."""
    stop = bench.stop_of(
        """
        import pytest

        @pytest.mark.parametrize("n", range(3))
        def test_it(n):
            assert n < 0
        """
    )
    went_on = bench.agent.call("debug_continue", pause_on="never")
    assert went_on["resumed"] == [stop["pause_id"]]
    assert bench.until("finished")["outcomes"]["failed"] == 3
    refused = bench.agent.refused("debug_continue", pause_id=stop["pause_id"])
    assert refused["error"] == "pause_not_found"
    assert bench.agent.call("debug_continue")["resumed"] == []
    refused = bench.agent.refused("stacktrace_get")
    assert refused["error"] == "missing_parameter"
