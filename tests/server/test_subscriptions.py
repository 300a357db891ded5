"""How clients hear of changed resources, in both eras of the protocol; without a transport.

The rules are those of the protocol. The times of pushes are in `test_updates.py`; clients
on stdio are in `tests/together/test_eras.py` and `test_debugger_state.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated

from cideldill_mcp.clients.outbox import LIST_CHANGED, UPDATED, Notifier
from cideldill_mcp.clients.sessions import Clients
from cideldill_mcp.resources.resource_changes import Updates
from cideldill_mcp.server import build_server
from pytest_cideldill.config.settings import Settings
from tests.server.processes import DEADLINE_S, Front, in_loop, serving
from tests.server.test_notify import said

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

ERAS = ("legacy", "2026-07-28")
SESSION, THREADS = "debugger://session", "debugger://threads"
LIST = None


@dataclass
class Served:
    """A server, and what tells its clients."""

    front: Front
    notifier: Notifier
    server: Server


@asynccontextmanager
async def served() -> AsyncIterator[Served]:
    async with serving() as front, anyio.create_task_group() as group:
        notifier = Notifier(front.log, lambda *_: None)
        clients = Clients("memory", notifier, group)
        yield Served(
            front, notifier, build_server(front.runs, front.questions, Settings(), clients)
        )
        group.cancel_scope.cancel()


@dataclass
class Ear:
    """What a client hears: a URI, or None for the list."""

    heard: list[str | None] = field(default_factory=list)

    async def handshake(self, message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self.heard.append(str(message.params.uri))
        elif isinstance(message, types.ResourceListChangedNotification):
            self.heard.append(LIST)

    async def until(self, *heard: str | None) -> None:
        """Wait until this was heard, and nothing else."""
        with anyio.fail_after(DEADLINE_S):
            while len(self.heard) < len(heard):
                await asyncio.sleep(0.001)
        assert self.heard == list(heard)


@asynccontextmanager
async def subscribed(it: Served, mode: str, *uris: str) -> AsyncIterator[tuple[Client, Ear]]:
    """A client that hears of resources, in the way of its era."""
    ear = Ear()
    handler = ear.handshake if mode == "legacy" else None
    known = len(it.notifier._mailboxes)
    async with Client(it.server, mode=mode, message_handler=handler) as client:
        if mode == "legacy":
            for uri in uris:
                await client.subscribe_resource(uri)
            with anyio.fail_after(DEADLINE_S):
                while len(it.notifier._mailboxes) == known:
                    await asyncio.sleep(0.001)
            yield client, ear
            return
        async with (
            client.listen(resources_list_changed=True, resource_subscriptions=uris) as changes,
            anyio.create_task_group() as group,
        ):

            async def listen() -> None:
                async for each in changes:
                    assert isinstance(each, ResourceUpdated | ResourcesListChanged)
                    ear.heard.append(each.uri if isinstance(each, ResourceUpdated) else LIST)

            group.start_soon(listen)
            yield client, ear
            group.cancel_scope.cancel()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_capabilities_are_what_the_server_does(mode: str) -> None:
    """In the answer to `initialize`, and in that to `server/discover`."""

    @in_loop
    async def run() -> None:
        async with served() as it, Client(it.server, mode=mode) as client:
            reported = client.server_capabilities
            assert reported.resources == types.ResourcesCapability(
                subscribe=True, list_changed=True
            )
            assert reported.tools == types.ToolsCapability(list_changed=False)
            assert reported.prompts == types.PromptsCapability(list_changed=False)

    run()


@pytest.mark.parametrize("mode", ERAS)
def test_subscribers_are_notified_and_all_clients_of_the_list(mode: str) -> None:
    """Once, by whatever other clients there are."""

    @in_loop
    async def run() -> None:
        async with (
            served() as it,
            subscribed(it, mode, SESSION, THREADS) as (_, ear),
            subscribed(it, mode, THREADS) as (_, other),
            subscribed(it, "legacy") as (_, silent),
        ):
            it.notifier.changed(SESSION)
            it.notifier.changed("breakpoint://status")
            it.notifier.changed(None)
            it.notifier.changed(THREADS)
            await ear.until(SESSION, LIST, THREADS)
            await other.until(LIST, THREADS)
            await silent.until(LIST)

    run()


@pytest.mark.parametrize("mode", ERAS)
def test_what_happens_reaches_the_client(mode: str) -> None:
    """From a run's start to the notification."""

    @in_loop
    async def run() -> None:
        async with served() as it, subscribed(it, mode, SESSION) as (client, ear):
            Updates(it.front.runs, it.notifier.changed)
            await it.front.start()
            await ear.until(LIST, SESSION)
            assert SESSION in [str(each.uri) for each in (await client.list_resources()).resources]

    run()


@in_loop
async def test_a_handshake_client_subscribes_and_unsubscribes() -> None:
    """Twice is once; what was never subscribed to may be unsubscribed from."""
    async with served() as it, subscribed(it, "legacy", SESSION, SESSION) as (client, ear):
        it.notifier.changed(SESSION)
        await client.unsubscribe_resource(SESSION)
        await client.unsubscribe_resource("debugger://nothing")
        it.notifier.changed(SESSION)
        await client.subscribe_resource(THREADS)
        it.notifier.changed(THREADS)
        await ear.until(SESSION, THREADS)


@in_loop
async def test_what_is_not_there_yet_may_be_subscribed_to_but_nothing_unknown() -> None:
    """-32602 with a sentence."""
    async with served() as it, subscribed(it, "legacy") as (client, _):
        for uri in (SESSION, "debugger://source/shop.py", "breakpoint://status"):
            await client.subscribe_resource(uri)
        for uri in ("debugger://nothing", "file:///etc/passwd", ""):
            with pytest.raises(MCPError) as caught:
                await client.subscribe_resource(uri)
            assert caught.value.error.code == -32602
            assert f"no resource {uri!r}" in caught.value.error.message


@pytest.mark.parametrize("mode", ERAS)
def test_a_subscription_ends_with_its_connection(mode: str) -> None:
    """Whoever connects next has none."""

    @in_loop
    async def run() -> None:
        async with served() as it:
            async with subscribed(it, mode, SESSION) as (_, ear):
                it.notifier.changed(SESSION)
                await ear.until(SESSION)
            with anyio.fail_after(DEADLINE_S):
                while it.notifier._mailboxes or it.notifier._observers:
                    await asyncio.sleep(0.001)
            async with subscribed(it, "legacy") as (_, next_one):
                it.notifier.changed(SESSION)
                it.notifier.changed(None)
                await next_one.until(LIST)
            await ear.until(SESSION)

    run()


@in_loop
async def test_each_era_has_its_own_way_only() -> None:
    """The other one's method does not exist."""
    async with served() as it:
        params = types.SubscribeRequestParams(uri=SESSION)
        async with Client(it.server, mode="2026-07-28") as client:
            request = types.SubscribeRequest(params=params)
            with pytest.raises(MCPError) as caught:
                await client.session.send_request(request, types.EmptyResult)
            assert caught.value.error.code == -32601
        async with Client(it.server, mode="legacy") as client:
            listen = types.SubscriptionsListenRequest(
                params=types.SubscriptionsListenRequestParams(
                    notifications=types.SubscriptionFilter(resources_list_changed=True)
                )
            )
            with pytest.raises(MCPError) as caught:
                await client.session.send_request(listen, types.SubscriptionsListenResult)
            assert caught.value.error.code == -32601


@in_loop
async def test_a_client_that_does_not_read_delays_nobody_and_is_notified_once() -> None:
    """However often something changes meanwhile; and anew when it reads again."""
    async with served() as it:
        reads = asyncio.Event()
        slow: list[tuple[str, dict[str, Any]]] = []
        fast: list[tuple[str, dict[str, Any]]] = []

        async def send_slowly(lines: bytes) -> None:
            await reads.wait()
            slow.extend(said(lines))

        async def send(lines: bytes) -> None:
            fast.extend(said(lines))

        uris = {SESSION, THREADS}
        tasks = [
            asyncio.create_task(it.notifier.serve(name, how, uris))
            for name, how in (("slow", send_slowly), ("fast", send))
        ]
        await asyncio.sleep(0)
        for number in range(100):
            for uri in (SESSION, THREADS, None):
                it.notifier.changed(uri)
            while len(fast) < 3 * number + 3:
                await asyncio.sleep(0)
        assert slow == []
        reads.set()
        while len(slow) < 4:
            await asyncio.sleep(0)
        # The first one was on its way.
        updates = [(UPDATED, {"uri": SESSION}), (UPDATED, {"uri": THREADS}), (LIST_CHANGED, {})]
        assert slow == [*updates, (UPDATED, {"uri": SESSION})]
        it.notifier.changed(THREADS)
        while len(slow) < 5:
            await asyncio.sleep(0)
        assert slow[4:] == [(UPDATED, {"uri": THREADS})]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
