"""The clients of one transport: their names, and the pushes to them.

A connection of a handshake-era protocol is a client, until it ends. Later protocols have only
requests, so all senders of requests over a transport count as one client; these protocols forbid
methods that they don't define, so nothing is pushed there. Such clients get the changes of
resources in the reply to a request that stays open, `subscriptions/listen`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import cast

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated, ServerEvent
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic_core import from_json

from cideldill_mcp.clients.outbox import Notifier, Send

_KEY = "cideldill"


class Client:
    """One client.

    Attributes:
        name: Unique for the server's life; a key of `Deliveries`.
        subscriptions: The URIs of resources whose changes are pushed to it.
    """

    def __init__(self, name: str, connection: Connection | None) -> None:
        self.name = name
        self.subscriptions: set[str] = set()
        self._connection = connection

    async def push(self, lines: bytes) -> None:
        """Send notifications outside of any request, through the library, one by one."""
        if self._connection is not None:
            for line in lines.splitlines():
                message = from_json(line)
                await self._connection.notify(message["method"], message["params"])


@dataclass(frozen=True, slots=True)
class _Stream:
    """An open stream for pushes to an HTTP session; pushes end with the scope."""

    write: Send
    scope: anyio.CancelScope


class Clients:
    """The clients of one transport.

    Args:
        transport: Begins the names, and is the name of the client without a connection.

    Attributes:
        bus: From it `subscriptions/listen` gets the changes of resources.
        write: Writes lines to the only connection of the transport, in order with its replies;
            None: the library sends pushes.
    """

    def __init__(self, transport: str, notifier: Notifier, group: TaskGroup) -> None:
        self._transport = transport
        self._notifier = notifier
        self._group = group
        self._numbers = count(1)
        self._stateless = Client(transport, None)
        self.bus = _Bus(notifier)
        self.write: Send | None = None
        # By the id of an HTTP session: clients that shook hands, and open streams for pushes.
        self._sessions: dict[str, Client] = {}
        self._streams: dict[str, _Stream] = {}

    def of(self, context: ServerRequestContext) -> Client:
        """The client that a request or notification comes from."""
        if context.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
            return self._stateless
        state = _connection(context).state
        if _KEY not in state:
            name = f"{self._transport}-{next(self._numbers)}"
            state[_KEY] = Client(name, _connection(context))
        return cast("Client", state[_KEY])

    async def welcome(
        self, context: ServerRequestContext, _params: types.NotificationParams
    ) -> None:
        """A client has shaken hands: it gets pushes from now on, until it goes."""
        if context.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
            return
        connection, client = _connection(context), self.of(context)
        if connection.session_id is None:
            scope = anyio.CancelScope()
            connection.exit_stack.callback(scope.cancel)
            send: Send = client.push if self.write is None else partial(_write, self.write)
            self._group.start_soon(self._serve, client.name, client, send, scope)
        elif connection.session_id not in self._sessions:  # a client may send this twice
            self._sessions[connection.session_id] = client
            connection.exit_stack.callback(self._sessions.pop, connection.session_id)
            self._push_to(connection.session_id)

    @contextmanager
    def stream_of(self, session_id: str) -> Iterator[Callable[[Send], None]]:
        """Allow pushes to an HTTP session in this context.

        Call the result when its stream is open, with a function that writes lines to it.

        Such a client may vanish without a message while its session stays: only an open stream
        shows that it reads. The stream may be open before the handshake is complete.
        """
        scope = anyio.CancelScope()

        def opened(write: Send) -> None:
            if earlier := self._streams.get(session_id):
                earlier.scope.cancel()
            self._streams[session_id] = _Stream(write, scope)
            self._push_to(session_id)

        try:
            yield opened
        finally:
            scope.cancel()
            stream = self._streams.get(session_id)
            if stream is not None and stream.scope is scope:
                del self._streams[session_id]

    def _push_to(self, session_id: str) -> None:
        client, stream = self._sessions.get(session_id), self._streams.get(session_id)
        if client is not None and stream is not None:
            # An earlier stream of this client may not have ended yet.
            mailbox = f"{client.name}/{id(stream.scope)}"
            self._group.start_soon(self._serve, mailbox, client, stream.write, stream.scope)

    async def _serve(
        self, mailbox: str, client: Client, send: Send, scope: anyio.CancelScope
    ) -> None:
        with scope:
            await self._notifier.serve(mailbox, send, client.subscriptions)


async def _write(write: Send, lines: bytes) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the client is gone
        await write(lines)


class _Bus:
    """A `SubscriptionBus` of the library; only the notifier publishes on it."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier

    async def publish(self, event: ServerEvent) -> None:
        """Refuse other publishers: their events would not reach clients of a handshake."""
        raise NotImplementedError("the notifier publishes changes, in each era")

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Call a listener for each later event; returns the undo."""
        return self._notifier.observe(
            lambda uri: listener(ResourcesListChanged() if uri is None else ResourceUpdated(uri))
        )


def _connection(context: ServerRequestContext) -> Connection:
    # The library has no public way from a request to the state of its connection.
    return context.session._connection
