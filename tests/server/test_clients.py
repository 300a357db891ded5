"""Who is pushed to, and until when: connections, and sessions of Streamable HTTP.

Live cases are in `tests/together/test_transports.py` and `test_http_life.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from cideldill_mcp.clients.sessions import Clients
from tests.server.processes import in_loop


class Spy:
    """In the place of the notifier: who is served now."""

    def __init__(self) -> None:
        self.now: list[str] = []

    async def serve(self, client: str, _send: Any, _subscriptions: set[str]) -> None:
        if client in self.now:
            return
        self.now.append(client)
        try:
            await anyio.sleep_forever()
        finally:
            self.now.remove(client)

    async def count(self) -> int:
        """How many are served once everything that was started has begun or ended."""
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        return len(self.now)


def context_of(session_id: str | None, protocol: str = "2025-11-25") -> Any:
    """What handlers are given for a message of a connection."""
    connection = SimpleNamespace(session_id=session_id, state={}, exit_stack=AsyncExitStack())
    session = SimpleNamespace(_connection=connection)
    return SimpleNamespace(protocol_version=protocol, session=session)


async def write(_lines: bytes) -> None:
    """To a stream."""


@asynccontextmanager
async def spied() -> AsyncIterator[tuple[Clients, Spy]]:
    spy = Spy()
    async with anyio.create_task_group() as group:
        yield Clients("http", spy, group), spy  # type: ignore[arg-type]
        group.cancel_scope.cancel()


@in_loop
async def test_a_connection_is_served_once_until_it_ends() -> None:
    async with spied() as (clients, spy):
        context = context_of(None)
        await clients.welcome(context, None)  # type: ignore[arg-type]
        await clients.welcome(context, None)  # type: ignore[arg-type]
        assert await spy.count() == 1
        await context.session._connection.exit_stack.aclose()
        assert await spy.count() == 0


@pytest.mark.parametrize("stream_is_first", [True, False])
@in_loop
async def test_a_session_is_served_once_while_its_stream_is_open(stream_is_first: bool) -> None:
    """Hands may be shaken before or after; more than once, too."""
    async with spied() as (clients, spy):
        context = context_of("s-1")
        if not stream_is_first:
            await clients.welcome(context, None)  # type: ignore[arg-type]
            assert await spy.count() == 0
        with clients.stream_of("s-1") as opened:
            assert await spy.count() == 0
            opened(write)
            assert await spy.count() == int(not stream_is_first)
            await clients.welcome(context, None)  # type: ignore[arg-type]
            await clients.welcome(context, None)  # type: ignore[arg-type]
            assert await spy.count() == 1
        assert await spy.count() == 0
        with clients.stream_of("s-1") as opened:
            opened(write)
            assert await spy.count() == 1
            await context.session._connection.exit_stack.aclose()
        assert await spy.count() == 0
        with clients.stream_of("s-1") as opened:
            opened(write)
            assert await spy.count() == 0


@in_loop
async def test_the_newest_stream_of_a_session_is_the_one_that_is_served() -> None:
    """The old one may not be known to be gone yet; one that was refused changes nothing."""
    async with spied() as (clients, spy):
        await clients.welcome(context_of("s-1"), None)  # type: ignore[arg-type]
        with ExitStack() as newer:
            with clients.stream_of("s-1") as opened:
                opened(write)
                assert await spy.count() == 1
                (first,) = spy.now
                with clients.stream_of("s-1"):
                    assert await spy.count() == 1
                assert spy.now == [first]
                newer.enter_context(clients.stream_of("s-1"))(write)
                assert await spy.count() == 1
                assert spy.now != [first]
            assert await spy.count() == 1
        assert await spy.count() == 0


@in_loop
async def test_a_client_that_knows_requests_only_is_never_served() -> None:
    """2026-07-28 has no methods of ours."""
    async with spied() as (clients, spy):
        context = context_of(None, "2026-07-28")
        await clients.welcome(context, None)  # type: ignore[arg-type]
        assert await spy.count() == 0
        assert clients.of(context) is clients.of(context_of(None, "2026-07-28"))
