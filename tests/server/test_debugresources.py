"""`debugger://…` over the protocol, with test processes that are played by hand.

Replies of real processes are in
`tests/together/test_debug_resources.py` and `test_debugger_state.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from dataclasses import replace
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from pytest_cideldill.protocol import Departed, FindCode, Finished, ReadThreads, Replied, Stopped
from tests.server.processes import NO_PID, Front, Process, hello_of, in_loop, pause_of
from tests.server.test_resources import URIS as ALWAYS
from tests.server.test_resources import call, connected, read

URIS = ["debugger://session", "debugger://breakpoints", "debugger://threads"]
TEMPLATE = "debugger://source/{+file}"

PLACE = {"file": "shop.py", "line": 3, "function": "total", "module": "shop"}
MAIN_THREAD = {
    "id": 7,
    "name": "MainThread",
    "state": "running",
    "is_current": True,
    "is_ours": False,
    "paused": None,
    "location": PLACE,
}
OTHER_THREAD = MAIN_THREAD | {"id": 8, "name": "other", "is_current": False}


async def listed(client: Client) -> list[str]:
    """The URIs of all resources and templates."""
    resources = (await client.list_resources()).resources
    templates = (await client.list_resource_templates()).resource_templates
    return [each.uri for each in resources] + [each.uri_template for each in templates]


async def refused(client: Client, uri: str) -> str:
    """The sentence with which a read is refused."""
    with pytest.raises(MCPError) as caught:
        await client.read_resource(uri)
    assert caught.value.error.code == -32602
    return caught.value.error.message


async def source(client: Client, file: str) -> types.TextResourceContents:
    """A source file."""
    (content,) = (await client.read_resource(f"debugger://source/{file}")).contents
    assert isinstance(content, types.TextResourceContents)
    assert content.mime_type == "text/plain"
    return content


async def answering(process: Process, *threads: dict[str, Any]) -> None:
    """Answer the next question about threads."""
    await process.answer(ReadThreads, threads=list(threads), tasks=[])


async def end_run(front: Front, process: Process) -> None:
    """Leave as pytest does; the run is over then."""
    await process.send(Finished(0), Departed())
    await process.close()
    await front.until(lambda: all(run.is_over for run in front.runs))


async def begin(front: Front, worker: str = "main", **reported: Any) -> Process:
    """A process that says this of itself."""
    process = await front.connect("r1", worker)
    await process.send(replace(hello_of("r1", worker), **reported))
    await process.until_begin()
    return process


@in_loop
async def test_they_are_listed_from_the_start_of_a_run_to_its_end() -> None:
    async with connected() as (front, client):
        assert await listed(client) == ALWAYS
        await front.start()
        assert await listed(client) == [*ALWAYS, *URIS, TEMPLATE]
        resources = (await client.list_resources()).resources
        assert {each.mime_type for each in resources} == {"application/json"}
        assert len({each.name for each in resources}) == len(resources)
        (template,) = (await client.list_resource_templates()).resource_templates
        assert template.mime_type == "text/plain"
        (process,) = await front.live("main")
        assert await listed(client) == [*ALWAYS, *URIS, TEMPLATE]
        await end_run(front, process)
        assert await listed(client) == ALWAYS


@in_loop
async def test_a_process_that_only_lists_tests_is_no_run() -> None:
    async with connected() as (front, client):
        await front.start(listing=True)
        assert await listed(client) == ALWAYS
        assert "no test run yet" in await refused(client, URIS[0])


@in_loop
async def test_before_a_run_reads_are_refused_with_a_sentence() -> None:
    async with connected() as (_, client):
        for uri in (*URIS, "debugger://source/shop.py"):
            assert "test_run starts one" in await refused(client, uri)


@pytest.mark.parametrize("uri", ["debugger://nothing", "debugger://source", "debugger://session/"])
def test_what_does_not_exist_is_refused_and_what_does_is_named(uri: str) -> None:
    @in_loop
    async def run() -> None:
        async with connected() as (front, client):
            await front.start()
            sentence = await refused(client, uri)
            assert repr(uri) in sentence
            assert all(each in sentence for each in (*ALWAYS, *URIS))

    run()


@in_loop
async def test_a_run_that_starts_says_so() -> None:
    """019, edge case: what is known is told, nobody waits for the rest."""
    async with connected() as (front, client):
        run = await front.start()
        assert run.child is not None
        body = await read(client, "debugger://session")
        assert (body["state"], body["processId"]) == ("starting", run.child.pid)
        assert (body["executablePath"], body["processes"]) == (None, [])
        assert body["rootdir"] == front.runs.recipe.rootdir
        assert "starting" in body["message"]
        body = await read(client, "debugger://threads")
        assert (body["threads"], body["capturedAt"], body["stale"]) == ([], None, True)
        assert "starting" in body["message"]
        assert (await read(client, "debugger://breakpoints"))["breakpoints"] == []
        assert (await source(client, "shop.py")).text == "def rate(code): pass\n"


@in_loop
async def test_the_session_is_that_of_the_main_process_and_shows_each() -> None:
    """Every key; of the pauses the newest counts."""
    async with connected() as (front, client):
        before = time.time()
        await front.start()
        argv = ["-m", "pytest", "--api-key", "a1b2c3d4", "--x=/api_key=a1b2c3d4", "-q"]
        reported: dict[str, Any] = {"executable": "/bin/python3.12", "cwd": "/tmp", "argv": argv}
        main = await begin(front, **reported, pid=NO_PID + 1)
        worker = await begin(front, "gw0", **reported, pid=NO_PID + 2)
        thread = {"id": 5, "name": "MainThread"}
        for process, number in ((main, 1), (worker, 2)):
            await process.send(Stopped(pause_of(process.worker, number, thread=thread)))
        await front.until(lambda: sum(len(run.pauses) for run in front.runs) == 2)
        body = await read(client, "debugger://session")
        processes = body.pop("processes")
        assert before - 0.001 <= body.pop("attachedAt") <= time.time()
        secret = body["commandLineArgs"][3]
        assert secret.startswith("<redacted:")
        argv[3:5] = [secret, f"--x=/api_key={secret}"]
        assert body == {
            "worker": "main",
            "processId": NO_PID + 1,
            "processName": "python3.12",
            "executablePath": "/bin/python3.12",
            "runtimeVersion": "3.12.1",
            "state": "paused",
            "launchMode": "launch",
            "currentLocation": {"file": "shop.py", "line": 3, "function": "total", "source": "x"},
            "pauseReason": "breakpoint",
            "activeThreadId": 5,
            "pauseId": "r1.gw0.2",
            "commandLineArgs": argv,
            "workingDirectory": "/tmp",
            "runId": "r1",
            "rootdir": "rootdir",
            "stale": False,
        }
        assert [each["worker"] for each in processes] == ["main", "gw0"]
        assert [each["processId"] for each in processes] == [NO_PID + 1, NO_PID + 2]
        assert [each["pauseId"] for each in processes] == ["r1.main.1", "r1.gw0.2"]
        assert all(each.keys() < body.keys() | {"attachedAt"} for each in processes)
        await worker.close()
        await front.until(lambda: all("gw0" not in run.targets for run in front.runs))
        body = await read(client, "debugger://session")
        assert body["pauseId"] == "r1.main.1"
        assert [each["state"] for each in body["processes"]] == ["paused", "ended"]


@in_loop
async def test_the_last_state_is_reported_when_the_run_is_over() -> None:
    """Stale, as all three say."""
    async with connected() as (front, client):
        await front.start()
        process = await begin(front, rootdir=front.runs.recipe.rootdir)
        front.desired.add_function("shop.rate", None, None)
        asked = asyncio.create_task(read(client, "debugger://threads"))
        await answering(process, MAIN_THREAD)
        seen = await asked
        assert seen["stale"] is False
        await end_run(front, process)
        session = await read(client, "debugger://session")
        assert (session["stale"], session["state"], session["processId"]) == (
            True,
            "finished",
            NO_PID,
        )
        assert [each["state"] for each in session["processes"]] == ["ended"]
        threads = await read(client, "debugger://threads")
        assert "finished" in threads.pop("message")
        assert threads == seen | {"stale": True}
        breakpoints = await read(client, "debugger://breakpoints")
        assert breakpoints["stale"] is True
        assert [each["functionName"] for each in breakpoints["breakpoints"]] == ["shop.rate"]
        assert (await source(client, "shop.py")).meta == {"stale": True}


@in_loop
async def test_threads_are_those_of_all_processes_and_one_is_the_current() -> None:
    """That of the newest pause; without one the main thread of pytest itself."""
    async with connected() as (front, client):
        await front.start()
        processes = await front.live("main", "gw0")

        async def ask(*threads: dict[str, Any]) -> dict[str, Any]:
            asked = asyncio.create_task(read(client, "debugger://threads"))
            for each in processes:
                await answering(each, *threads)
            return await asked

        body = await ask(MAIN_THREAD, OTHER_THREAD)
        current = {(each["worker"], each["id"]): each["isCurrent"] for each in body["threads"]}
        expected = {("main", 7): True, ("main", 8): False, ("gw0", 7): False, ("gw0", 8): False}
        assert current == expected
        assert body["stale"] is False
        assert body["threads"][0] == {
            "id": 7,
            "name": "MainThread",
            "state": "running",
            "isCurrent": True,
            "worker": "main",
            "location": PLACE,
        }
        await processes[1].stop()
        await front.until(lambda: any(run.pauses for run in front.runs))
        body = await ask(MAIN_THREAD | {"state": "paused", "paused": "r1.gw0.1"})
        assert [each["isCurrent"] for each in body["threads"]] == [False, True]


@pytest.mark.full
@in_loop
async def test_a_process_that_does_not_answer_delays_nobody() -> None:
    """019, SC-006: what it told before is told again, with the reason; others answer as ever."""
    async with connected() as (front, client):
        await front.start()
        main, worker = await front.live("main", "gw0")
        began = time.monotonic()
        body = await read(client, "debugger://threads")
        assert (body["threads"], body["stale"]) == ([], True)
        assert time.monotonic() - began < 0.5
        assert "main" in body["message"]
        for each in (main, worker):
            await each.next(ReadThreads)
        asked = asyncio.create_task(read(client, "debugger://threads"))
        for each in (main, worker):
            await answering(each, MAIN_THREAD)
        fresh = await asked
        assert len(fresh["threads"]) == 2
        asked = asyncio.create_task(read(client, "debugger://threads"))
        await answering(worker, OTHER_THREAD)
        body = await asked
        reported = [(each["worker"], each["id"]) for each in body["threads"]]
        assert reported == [("main", 7), ("gw0", 8)]
        assert (body["stale"], body["capturedAt"]) == (True, fresh["capturedAt"])
        assert "gw0" not in body["message"]


@in_loop
async def test_a_process_that_ends_while_it_is_asked_is_no_error() -> None:
    """019, edge case."""
    async with connected() as (front, client):
        await front.start()
        (process,) = await front.live("main")
        asked = asyncio.create_task(read(client, "debugger://threads"))
        await process.next(ReadThreads)
        await end_run(front, process)
        body = await asked
        assert (body["threads"], body["stale"]) == ([], True)
        assert "has ended" in body["message"]


@in_loop
async def test_breakpoints_are_those_of_the_tool() -> None:
    """Its keys, with the column; at most 200,000 characters."""
    async with connected() as (front, client):
        await front.start()
        await call(client, "breakpoint_add", function_name="rate")
        await call(client, "breakpoint_set", file="shop.py", line=1, column=5)
        await call(client, "breakpoint_set_exception", exception_type="KeyError")
        body = await read(client, "debugger://breakpoints")
        function, line, error = body["breakpoints"]
        assert function["functionName"] == "rate"
        assert line == {
            "id": "bp-2",
            "type": "blocking",
            "file": "shop.py",
            "line": 1,
            "column": 5,
            "enabled": True,
            "verified": False,
            "state": "pending",
            "hitCount": 0,
            "condition": None,
            "logMessage": None,
        }
        assert (error["type"], error["exceptionType"]) == ("exception", "KeyError")
        for number in range(500):
            front.desired.add_function(f"shop.{'x' * 500}{number}", None, None)
        body = await read(client, "debugger://breakpoints")
        assert (body["truncated"], body["total_count"]) == (True, 503)


@pytest.mark.full
@in_loop
async def test_a_file_of_other_loaded_code_is_reported_if_the_process_says_so() -> None:
    """And remembered when it is gone."""
    async with connected() as (front, client):
        await front.start()
        (process,) = await front.live("main")

        async def ask(file: str, loaded: bool) -> types.TextResourceContents:
            asked = asyncio.create_task(source(client, file))
            question = await process.next(FindCode)
            assert question.file == os.path.realpath(file)
            await process.send(Replied(question.request, {"loaded": loaded}))
            return await asked

        reported = await ask(json.__file__, loaded=True)
        assert "JSON" in reported.text
        for file in (os.__file__, "/etc/no-such-file"):
            with pytest.raises(MCPError, match="nor of code that the tests have loaded"):
                await ask(file, loaded=False)
        began = time.monotonic()
        assert "does not answer" in await refused(client, f"debugger://source/{os.__file__}")
        assert time.monotonic() - began < 0.5
        await process.next(FindCode)
        pause = pause_of("main", 1)
        pause["frames"] = [PLACE | {"file": os.__file__}]
        await process.send(Stopped(pause))
        await front.until(lambda: any(run.pauses for run in front.runs))
        assert (await source(client, os.__file__)).text
        await end_run(front, process)
        assert (await source(client, json.__file__)).text == reported.text
        assert "nor of code" in await refused(client, f"debugger://source/{os.__file__}")
