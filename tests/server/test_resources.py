"""Resources over the protocol, with test processes that are played by hand."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from cideldill_mcp.clients.outbox import Notifier
from cideldill_mcp.clients.sessions import Clients
from cideldill_mcp.processes.launch import Recipe
from cideldill_mcp.server import build_server
from pytest_cideldill.config.settings import Settings
from tests.reply_table import checked, checked_resource
from tests.server.processes import WAITING, Front, answered_here, in_loop, serving

ROOT = Path(__file__).resolve().parent.parent.parent

URIS = [
    "breakpoint://status",
    "breakpoint://breakpoints",
    "breakpoint://paused",
    "breakpoint://call-history",
    "breakpoint://functions",
]


@asynccontextmanager
async def connected(tools: str = "full") -> AsyncIterator[tuple[Front, Client]]:
    """A front end without a transport, and a client of it; the project has one function."""
    with TemporaryDirectory() as root, answered_here(*WAITING.interpreter):
        (Path(root) / "shop.py").write_text("def rate(code): pass\n", encoding="utf-8")
        async with serving() as front:
            front.runs.recipe = replace(WAITING, rootdir=root)
            notifier = Notifier(front.runs.log, lambda *_: None)
            async with anyio.create_task_group() as group:
                clients = Clients("memory", notifier, group)
                server = build_server(front.runs, front.questions, Settings(tools=tools), clients)
                async with Client(server) as client:
                    yield front, client
                group.cancel_scope.cancel()


async def read(client: Client, uri: str) -> dict[str, Any]:
    """The body of a resource."""
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, types.TextResourceContents)
    assert (content.uri, content.mime_type) == (uri, "application/json")
    assert len(content.text) <= 200_000
    return checked_resource(uri, content.text)


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The reply of a tool."""
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return checked(tool, arguments, content.text, is_error=bool(result.is_error))


@pytest.mark.parametrize("tools", ["full", "triage"])
def test_the_five_are_always_listed(tools: str) -> None:
    """Listed without a run, whatever tools are offered; they are JSON."""

    @in_loop
    async def run() -> None:
        async with connected(tools) as (_, client):
            listed = (await client.list_resources()).resources
            assert [each.uri for each in listed] == URIS
            assert all(each.mime_type == "application/json" for each in listed)
            assert all(each.name and each.title and each.description for each in listed)
            for uri in URIS:
                await read(client, uri)
            assert (await client.list_resource_templates()).resource_templates == []

    run()


def test_the_page_lists_them() -> None:
    """`docs/resources.md`; those of a run too."""
    page = (ROOT / "docs" / "resources.md").read_text(encoding="utf-8")
    reported = re.findall(r"^\| `((?:breakpoint|debugger)://\S+)` \|", page, re.MULTILINE)
    of_runs = ["session", "breakpoints", "threads", "source/{+file}"]
    assert reported == [*URIS, *(f"debugger://{each}" for each in of_runs)]


@in_loop
async def test_the_status_counts_and_names_the_run() -> None:
    """Every key is there, and follows the events."""
    async with connected() as (front, client):
        status = await read(client, "breakpoint://status")
        assert status == {
            "breakpoints": 0,
            "paused": 0,
            "calls_recorded": 0,
            "default_behavior": "stop",
            "state": "idle",
            "run_id": None,
        }
        await call(client, "breakpoint_add", function_name="shop.total")
        await call(client, "breakpoint_add", function_name="shop.rate")
        assert (await read(client, "breakpoint://status"))["breakpoints"] == 2
        await call(client, "breakpoint_remove", function_name="shop.rate")
        await front.start()
        processes = await front.live("main", "gw0")
        for each in processes:
            await each.stop()
        await front.until(lambda: sum(len(run.pauses) for run in front.runs) == 2)
        status = await read(client, "breakpoint://status")
        assert (status["breakpoints"], status["paused"]) == (1, 2)
        assert (status["state"], status["run_id"]) == ("paused", "r1")


@in_loop
async def test_breakpoints_and_pauses_are_those_of_the_tools() -> None:
    async with connected() as (front, client):
        await call(client, "breakpoint_add", function_name="shop.total", behavior="go")
        await call(client, "breakpoint_add", function_name="b.*")
        known = await read(client, "breakpoint://breakpoints")
        assert known == await call(client, "breakpoint_list_breakpoints")
        assert known["breakpoints"] == ["b.*", "shop.total"]
        await front.start()
        (process,) = await front.live("main")
        await process.stop()
        await front.until(lambda: any(run.pauses for run in front.runs))
        paused = await read(client, "breakpoint://paused")
        assert paused == await call(client, "breakpoint_list_paused")
        assert [pause["id"] for pause in paused["paused"]] == ["r1.main.1"]


@in_loop
async def test_functions_are_those_of_the_tool() -> None:
    """Also without a run."""
    async with connected() as (_, client):
        known = await read(client, "breakpoint://functions")
        assert known == await call(client, "breakpoint_list_functions")
        assert known["signatures"] == {"shop.rate": "(code)"}


@in_loop
async def test_a_stop_that_was_read_counts_as_given_to_nobody() -> None:
    """Only replies count as sent: a program may read resources that its model never sees."""
    async with connected() as (front, client):
        await front.start()
        (process,) = await front.live("main")
        await process.stop()
        await front.until(lambda: any(run.pauses for run in front.runs))
        paused = await read(client, "breakpoint://paused")
        assert paused.keys() == {"paused", "total_count"}
        waited = await call(client, "breakpoint_wait", timeout_ms=1)
        assert (waited["hit"], waited["pause_id"]) == (True, "r1.main.1")
        waited = await call(client, "breakpoint_wait", timeout_ms=1)
        assert (waited["hit"], waited["reason"]) == (False, "paused")


@in_loop
async def test_a_resource_ends_at_200_000_characters() -> None:
    """The resource says what it left out."""
    async with connected() as (front, client):
        for number in range(500):
            front.desired.add_function(f"shop.{'x' * 500}{number}", None, None)
        body = await read(client, "breakpoint://breakpoints")
        assert (body["truncated"], body["total_count"]) == (True, 500)
        assert len(json.dumps(body)) > 190_000
        assert body["next_after"] == body["breakpoints"][-1]
        assert body["behaviors"].keys() == set(body["breakpoints"])


@pytest.mark.parametrize("uri", ["breakpoint://nothing", "breakpoint://", "file:///etc/passwd"])
def test_an_unknown_resource_is_refused_with_a_sentence(uri: str) -> None:
    """-32602, naming what there is."""

    @in_loop
    async def run() -> None:
        async with connected() as (_, client):
            with pytest.raises(MCPError) as caught:
                await client.read_resource(uri)
            assert caught.value.error.code == -32602
            assert repr(uri) in caught.value.error.message
            assert all(known in caught.value.error.message for known in URIS)

    run()


@in_loop
async def test_what_the_tool_refuses_is_refused_here() -> None:
    """Nobody can be asked about the functions; that is no fault of the client."""
    async with connected() as (front, client):
        front.runs.recipe = Recipe(["no-such-python"], [])
        with pytest.raises(MCPError) as caught:
            await client.read_resource("breakpoint://functions")
    assert caught.value.error.code == -32603
    assert "no-such-python" in caught.value.error.message


@in_loop
async def test_a_bug_of_ours_is_an_error_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing escapes as `code: 0`."""
    async with connected() as (front, client):
        monkeypatch.setattr(type(front.runs), "__iter__", lambda _: 1 / 0)
        with pytest.raises(MCPError) as caught:
            await client.read_resource("breakpoint://paused")
        monkeypatch.undo()
    assert caught.value.error.code == -32603
    assert "ZeroDivisionError" in caught.value.error.message
    assert "Traceback" in capsys.readouterr().err
