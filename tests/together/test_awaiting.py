"""`await` at the pauses of tests whose runner holds an event loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.together.driver import only_stop
from tests.together.real_package import environment
from tests.together.workbench import Bench, workbench

pytestmark = pytest.mark.full

INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"

COMMON = """
    import asyncio, contextvars, unittest
    import pytest, pytest_asyncio

    who = contextvars.ContextVar("who", default="nobody")
    left = []

    class Things:
        def __init__(self):
            self.reader, self.queue = asyncio.StreamReader(), asyncio.Queue()
            self.done = asyncio.Event()
            self.filling = asyncio.create_task(self.fill())

        async def fill(self):
            for number in range(1000):
                await asyncio.sleep(0.02)
                self.reader.feed_data(b"line\\n")
                self.queue.put_nowait(number)

        async def close(self):
            asyncio.get_running_loop().call_later(0.01, self.done.set)
            await asyncio.wait_for(self.done.wait(), 5)
            self.filling.cancel()
            await asyncio.wait([self.filling])
            left.append(asyncio.all_tasks() - {asyncio.current_task()})

    def test_nothing_was_left():
        assert [len(each) for each in left] == [0] * len(left)
"""

RUNNERS = {
    "pytest-asyncio": """
    @pytest_asyncio.fixture
    async def things():
        things = Things()
        yield things
        await things.close()

    @pytest.mark.asyncio
    async def test_it(things):
        who.set("the test")
        assert 0
    """,
    "pytest-asyncio, a loop for the module": """
    @pytest_asyncio.fixture(loop_scope="module", scope="module")
    async def things():
        who.set("the test")
        things = Things()
        yield things
        await things.close()

    @pytest.mark.asyncio(loop_scope="module")
    async def test_it(things):
        assert 0
    """,
    "anyio": """
    @pytest.fixture
    def anyio_backend(): return "asyncio"

    @pytest.fixture
    async def things(anyio_backend):
        things = Things()
        yield things
        await things.close()
        assert len(left.pop()) == 1  # anyio's own

    @pytest.mark.anyio
    async def test_it(things):
        who.set("the test")
        assert 0
    """,
    "unittest": """
    class Test(unittest.IsolatedAsyncioTestCase):
        async def asyncSetUp(self):
            self.things = Things()

        async def asyncTearDown(self):
            await self.things.close()

        async def test_it(self):
            things = self.things
            who.set("the test")
            assert 0
    """,
    "unittest, a test that does not await": """
    class Test(unittest.IsolatedAsyncioTestCase):
        async def asyncSetUp(self):
            who.set("the test")
            self.things = Things()

        async def asyncTearDown(self):
            await self.things.close()

        def test_it(self):
            things = self.things
            assert 0
    """,
    "a runner of a fixture": """
    @pytest.fixture
    def runner():
        with asyncio.Runner() as runner:
            yield runner

    @pytest.fixture
    def things(runner):
        async def begin():
            who.set("the test")
            return Things()

        things = runner.run(begin())
        yield things
        runner.run(things.close())

    def test_it(things):
        assert 0
    """,
    "a loop of a fixture": """
    @pytest.fixture
    def loop():
        loop = asyncio.new_event_loop()
        yield loop
        loop.close()

    @pytest.fixture
    def things(loop):
        async def begin(): return Things()

        things = loop.run_until_complete(begin())
        yield things
        loop.run_until_complete(things.close())

    def test_it(things, loop):
        who.set("the test")
        assert 0
    """,
}

STUBBORN = """
async def stubborn():
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
await stubborn()
"""

ENDLESS = [
    "await things.done.wait()",
    "async def spin():\n    while True: pass\nawait spin()",
    "other = asyncio.create_task(asyncio.sleep(60)); await asyncio.gather(other)",
    STUBBORN,
]


@pytest.mark.sample("pytest-asyncio", "unittest")
@pytest.mark.parametrize("runner", RUNNERS)
def test_await_goes_on_in_the_loop_of_the_runner(tmp_path: Path, runner: str) -> None:
    """What fixtures opened can be waited for, in the context of the test; all ends as before."""
    env = environment() | {"PYTEST_ADDOPTS": ""}
    with workbench(tmp_path / "project", "-p", "no:cacheprovider", env=env) as bench:
        bench.write(**{"pytest.ini": INI})
        first, rest = COMMON.split("    def test_nothing")
        stop = bench.stop_of(f"{first}{RUNNERS[runner]}\n    def test_nothing{rest}")
        assert bench.eval(stop, "await things.reader.readline()") == "b'line\\n'"
        assert bench.eval(stop, "await things.queue.get()") == "0"
        assert bench.eval(stop, "await asyncio.sleep(0)\nwho.get()") == "'the test'"
        shown = bench.eval(stop, "await asyncio.wait_for(things.done.wait(), 0.05)")
        assert shown == "TimeoutError"
        for source in ENDLESS:
            refused = bench.agent.refused(
                "breakpoint_repl_eval",
                pause_id=stop["pause_id"],
                expression=source,
                timeout_s=0.3,
            )
            assert (refused["error"], refused["stopped"]) == ("eval_timeout", True)
        began = "other = asyncio.create_task(asyncio.sleep(60)); await asyncio.sleep(0)\nother"
        assert bench.eval(stop, began).startswith("<Task cancelled")
        assert bench.eval(stop, "who.set('the client'); await asyncio.sleep(0)") == "None"
        assert bench.eval(stop, "await asyncio.sleep(0)\nwho.get()") == "'the client'"
        reply = bench.go_on(stop)
        assert (reply["state"], reply["outcomes"]) == ("finished", {"passed": 1, "failed": 1})


def test_await_goes_on_in_the_trio_of_anyio_s_plugin(tmp_path: Path) -> None:
    """In the task that runs the test, whose scopes and variables count."""
    env = environment() | {"PYTEST_ADDOPTS": ""}
    with workbench(tmp_path / "project", "-p", "no:cacheprovider", env=env) as bench:
        stop = bench.stop_of(
            """
            import anyio, contextvars, pytest
            who = contextvars.ContextVar("who", default="nobody")

            @pytest.fixture
            def anyio_backend(): return "trio"

            @pytest.fixture
            async def things(anyio_backend):
                send, receive = anyio.create_memory_object_stream(10)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(fill, send)
                    yield receive
                    assert await receive.receive() == 1
                    tasks.cancel_scope.cancel()

            async def fill(send):
                for number in range(1000):
                    await anyio.sleep(0.02)
                    await send.send(number)

            @pytest.mark.anyio
            async def test_it(things):
                who.set("the test")
                assert 0
            """
        )
        assert bench.eval(stop, "await things.receive()") == "0"
        assert bench.eval(stop, "await anyio.sleep(0)\nwho.get()") == "'the test'"
        refused = bench.agent.refused(
            "breakpoint_repl_eval",
            pause_id=stop["pause_id"],
            expression="await anyio.sleep(60)",
            timeout_s=0.3,
        )
        assert (refused["error"], refused["stopped"]) == ("eval_timeout", True)
        reply = bench.go_on(stop)
        assert (reply["state"], reply["outcomes"]) == ("finished", {"passed": 0, "failed": 1})


def test_why_nothing_can_be_awaited_is_said(shared_bench: Bench) -> None:
    """The loop of `asyncio.run` is closed; what nobody waited for yet can be waited for later."""
    stop = shared_bench.stop_of(
        """
        import asyncio, contextvars
        who = contextvars.ContextVar("who", default="nobody")
        kept = {"event": asyncio.Event()}

        async def main():
            who.set("main")
            kept["bound"] = asyncio.Event()
            try: await asyncio.wait_for(kept["bound"].wait(), 0.01)
            except TimeoutError: pass
            assert 0

        def test_it():
            asyncio.run(main())

        async def later():
            asyncio.get_running_loop().call_later(0.01, kept["event"].set)
            await asyncio.wait_for(kept["event"].wait(), 5)

        def test_later():
            asyncio.run(later())
        """
    )
    assert shared_bench.eval(stop, "who.get()") == "'main'"
    assert shared_bench.eval(stop, "await asyncio.sleep(0.01, who.get())") == "'main'"
    said = shared_bench.eval(stop, "await kept['bound'].wait()")
    assert "bound to a different event loop: no event loop of the test is open on this" in said
    waits = "await asyncio.wait_for(kept['event'].wait(), 0.01)"
    assert shared_bench.eval(stop, waits) == "TimeoutError"
    reply = shared_bench.go_on(stop)
    assert reply["outcomes"] == {"passed": 1, "failed": 1}
    assert only_stop(shared_bench.run(["test_it.py::test_it"]))
    shared_bench.clear()
