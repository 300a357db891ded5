"""The HTTP transports on one port of this machine: Streamable HTTP at /mcp, SSE at /mcp/sse.

Owns the socket, and the HTTP server's start and end. The library of the protocol handles the
messages; `Door` decides which requests it gets. Lives on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import cast

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from cideldill_mcp.clients.outbox import Send as Write
from cideldill_mcp.clients.sessions import Clients
from cideldill_mcp.processes.addresses import PATH, announce
from cideldill_mcp.transports.auth import ADMIT, MAX_STRANGERS, Door, Strangers, new_token

SSE_PATH = "/mcp/sse"
_POST_PATH = "/mcp/sse/messages"

MAX_BODY_BYTES = 4 * 1024 * 1024
"""Bytes; a longer body is refused with 413, and nothing of it is parsed."""

MAX_CONNECTIONS = 512
"""The most connections, and requests under way, at once; further requests get a 503."""

MAX_SESSIONS = 100
"""The most sessions of Streamable HTTP that are unused; of more the oldest ones end."""

ACCEPT_PAUSE_S = 1.0
"""The wait after a connection could not be accepted: descriptors may be free again then."""

GOODBYE_S = 0.5
"""How long the end of all connections may take."""


async def serve_http(
    listener: socket.socket, directory: Path, server_for: Callable[[str], tuple[Server, Clients]]
) -> None:
    """Serve until cancelled; then close all connections.

    Args:
        directory: The private directory for the file with the address and the token.
        server_for: Makes the server of a transport, by its name.
    """
    _be_quiet()
    token = new_token()
    streamable, clients = server_for("http")
    manager = StreamableHTTPSessionManager(
        streamable, session_idle_timeout=None, max_request_body_size=MAX_BODY_BYTES
    )
    sse = SseServerTransport(_POST_PATH, max_request_body_size=MAX_BODY_BYTES)
    rooms: dict[str, ASGIApp] = {
        PATH: _Streamable(manager, clients),
        SSE_PATH: _Sse(sse, server_for("sse")[0]),
        _POST_PATH: sse.handle_post_message,
    }
    async with manager.run():
        announce(listener, token, directory)
        await _serve(Door(token, rooms), listener)


def _be_quiet() -> None:
    """Silence the library's logs about clients: malformed messages, with tracebacks."""
    logging.getLogger("mcp").setLevel(logging.ERROR)
    for transport in ("sse", "streamable_http"):
        logging.getLogger(f"mcp.server.{transport}").setLevel(logging.CRITICAL)


class _Streamable:
    """The sessions of Streamable HTTP: pushes to them, and the end of unused ones.

    A session gets pushes while its client reads the stream for them. A client may vanish without a
    message, so of too many unused sessions the ones end that have been unused longest.
    """

    def __init__(self, manager: StreamableHTTPSessionManager, clients: Clients) -> None:
        self._manager = manager
        self._clients = clients
        # Session → its requests under way, an open stream counted as one; in order of last use.
        self._under_way: dict[str, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Events are not kept; the library would not reply to a request for them.
        kept = [pair for pair in scope["headers"] if pair[0] != b"last-event-id"]
        scope = {**scope, "headers": kept}
        session = Headers(scope=scope).get(MCP_SESSION_ID_HEADER)
        if session is None:
            await self._open(scope, receive, send)
        elif session in self._under_way:
            with self._using(session):
                await self._go_on(session, scope, receive, send)
        else:  # ended or unknown: the library refuses it
            await self._manager.handle_request(scope, receive, send)

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request without a session, which may open one."""
        with ExitStack() as until_answered:

            async def watched(message: Message) -> None:
                if message["type"] == "http.response.start" and message["status"] == 200:
                    opened = Headers(raw=message["headers"]).get(MCP_SESSION_ID_HEADER)
                    if opened is not None:
                        self._under_way[opened] = 0
                        until_answered.enter_context(self._using(opened))
                await send(message)

            await self._manager.handle_request(scope, receive, watched)
        while len(unused := self._unused()) > MAX_SESSIONS:
            await self._end(unused[0], scope)

    async def _go_on(self, session: str, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            await self._manager.handle_request(scope, receive, send)
            if scope["method"] == "DELETE":
                self._under_way.pop(session, None)
            return
        with self._clients.stream_of(session) as opened:
            stream = _PushStream(send, opened)
            await self._manager.handle_request(scope, receive, stream.send)

    async def _end(self, session: str, scope: Scope) -> None:
        """End a session with a request as its client would send it."""
        del self._under_way[session]
        header = (MCP_SESSION_ID_HEADER.encode("ascii"), session.encode("ascii"))
        scope = {**scope, "method": "DELETE", "headers": [header]}
        await self._manager.handle_request(scope, _nothing, _drop)

    @contextmanager
    def _using(self, session: str) -> Iterator[None]:
        self._under_way[session] = self._under_way.pop(session) + 1
        try:
            yield
        finally:
            if session in self._under_way:
                self._under_way[session] = self._under_way.pop(session) - 1

    def _unused(self) -> list[str]:
        return [session for session, number in self._under_way.items() if not number]


class _PushStream:
    """The response to a GET of a session: server-sent events, one for each push.

    Pushes are written beside the library, many at once; of its own it writes comments only, that
    keep the stream alive. The HTTP server takes each body as a whole.
    """

    def __init__(self, send: Send, opened: Callable[[Write], None]) -> None:
        self._send = send
        self._opened = opened
        self._is_open = False

    async def send(self, message: Message) -> None:
        """Send a part of the response as the library wants it."""
        is_start = message["type"] == "http.response.start"
        is_end = not is_start and not message.get("more_body", False)
        if is_end:  # a push behind it would be an error
            self._is_open = False
        await self._send(message)
        if is_start and message["status"] == 200:
            self._is_open = True
            self._opened(self._push)

    async def _push(self, lines: bytes) -> None:
        if self._is_open:
            body = b"".join(
                b"event: message\r\ndata: %b\r\n\r\n" % line for line in lines.splitlines()
            )
            await self._send({"type": "http.response.body", "body": body, "more_body": True})


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _drop(_message: Message) -> None:
    """Drop a reply that has no receiver."""


class _Sse:
    """The SSE transport: a connection for each GET; its messages come by POST on another path."""

    def __init__(self, transport: SseServerTransport, server: Server) -> None:
        self._transport = transport
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            await Response(status_code=405, headers={"Allow": "GET"})(scope, receive, send)
            return
        server = self._server
        async with self._transport.connect_sse(scope, receive, send) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())


class _HttpServer(uvicorn.Server):
    """A server without signal handlers: the front end has its own."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Connection(H11Protocol):
    """A connection, which counts as a stranger until one of its requests passes the door."""

    def __init__(self, strangers: Strangers, config: uvicorn.Config, state: ServerState) -> None:
        super().__init__(config, state, {ADMIT: self._admit})
        self._strangers = strangers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        self._strangers.add(self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._strangers.remove(self.transport)
        super().connection_lost(exc)

    def _admit(self) -> None:
        self._strangers.remove(self.transport)


def _bounds() -> tuple[int, int]:
    """The most connections, and the most without the token: runs need descriptors, too."""
    descriptors = os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else -1
    if descriptors < 0:  # no limit, or an unknown one
        return MAX_CONNECTIONS, MAX_STRANGERS
    return min(MAX_CONNECTIONS, descriptors // 2), min(MAX_STRANGERS, descriptors // 4)


async def _accept(
    listener: socket.socket, strangers: Strangers, protocol: Callable[[], asyncio.Protocol]
) -> None:
    """Accept connections until cancelled, one at a time, each with a protocol of its own.

    `asyncio.Server` would not do: when descriptors run out it tries again at once, hundreds of
    times, with a traceback for each.
    """
    loop = asyncio.get_running_loop()
    listener.setblocking(False)
    is_reported = False
    while True:
        await strangers.room()
        try:
            connection, _ = await loop.sock_accept(listener)
            await loop.connect_accepted_socket(protocol, connection)
        except ConnectionError:
            continue  # closed before it was accepted
        except OSError as error:
            if not is_reported:
                is_reported = True
                with suppress(OSError):
                    sys.stderr.write(
                        f"pytest-cideldill: a connection over HTTP can't be accepted: {error}; "
                        "it is tried again, and reported once\n"
                    )
            await asyncio.sleep(ACCEPT_PAUSE_S)


async def _serve(door: Door, listener: socket.socket) -> None:
    most, most_strangers = _bounds()
    config = uvicorn.Config(
        door,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=most,
    )
    server = _HttpServer(config)
    strangers = Strangers(most_strangers)
    # A task of its own: if it were cancelled with the others, its connections would stay open.
    serving = asyncio.create_task(server.serve([]))
    try:
        await _accept(
            listener, strangers, partial(_Connection, strangers, config, server.server_state)
        )
    finally:
        listener.close()
        with anyio.CancelScope(shield=True):
            serving.cancel()
            # An orderly close would wait for clients that don't read; the process is about to end.
            for connection in list(server.server_state.connections):
                connection.transport.abort()
            await asyncio.wait([serving, *server.server_state.tasks], timeout=GOODBYE_S)
