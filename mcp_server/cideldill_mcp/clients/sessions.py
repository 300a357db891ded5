"""The clients of one transport: their names, and the pushes to them.

A connection of a handshake-era protocol is a client, until it ends. Later protocols have only
requests, so all senders of requests over a transport count as one client; these protocols forbid
methods that they don't define, so nothing is pushed there. Such clients get the changes of
resources in the reply to a request that stays open, `subscriptions/listen`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, cast

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated, ServerEvent
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from cideldill_mcp.clients.outbox import Notifier

_KEY = "cideldill"


class _Push(types.Notification[dict[str, Any], str]):
    """A notification that the protocol does not define."""


class Client:
    """One client.

    Attributes:
        name: Unique for the server's life; a key of `Deliveries`.
        subscriptions: The URIs of resources whose changes are pushed to it.
    """

    def __init__(self, name: str, session: ServerSession | None) -> None:
        self.name = name
        self.subscriptions: set[str] = set()
        self._session = session

    async def push(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification outside of any request; without a connection none is sent."""
        if self._session is not None:
            push = cast("types.ServerNotification", _Push(method=method, params=params))
            await self._session.send_notification(push)


class Clients:
    """The clients of one transport.

    Args:
        transport: Begins the names, and is the name of the client without a connection.

    Attributes:
        bus: From it `subscriptions/listen` gets the changes of resources.
    """

    def __init__(self, transport: str, notifier: Notifier, group: TaskGroup) -> None:
        self._transport = transport
        self._notifier = notifier
        self._group = group
        self._numbers = count(1)
        self._stateless = Client(transport, None)
        self.bus = _Bus(notifier)
        # By the id of an HTTP session: clients that shook hands, and open streams for pushes.
        self._sessions: dict[str, Client] = {}
        self._streams: dict[str, anyio.CancelScope] = {}

    def of(self, context: ServerRequestContext) -> Client:
        """The client that a request or notification comes from."""
        if context.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
            return self._stateless
        state = _connection(context).state
        if _KEY not in state:
            name = f"{self._transport}-{next(self._numbers)}"
            state[_KEY] = Client(name, context.session)
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
            self._group.start_soon(self._serve, client.name, client, scope)
        elif (
            connection.session_id not in self._sessions
        ):  # a client may send the notification twice
            self._sessions[connection.session_id] = client
            connection.exit_stack.callback(self._sessions.pop, connection.session_id)
            self._push_to(connection.session_id)

    @contextmanager
    def stream_of(self, session_id: str) -> Iterator[Callable[[], None]]:
        """Allow pushes to an HTTP session in this context; call the result when its stream is open.

        Such a client may vanish without a message while its session stays: only an open stream
        shows that it reads. The stream may be open before the handshake is complete.
        """
        scope = anyio.CancelScope()

        def opened() -> None:
            if earlier := self._streams.get(session_id):
                earlier.cancel()
            self._streams[session_id] = scope
            self._push_to(session_id)

        try:
            yield opened
        finally:
            scope.cancel()
            if self._streams.get(session_id) is scope:
                del self._streams[session_id]

    def _push_to(self, session_id: str) -> None:
        client, scope = self._sessions.get(session_id), self._streams.get(session_id)
        if client is not None and scope is not None:
            # An earlier stream of this client may not have ended yet.
            self._group.start_soon(self._serve, f"{client.name}/{id(scope)}", client, scope)

    async def _serve(self, mailbox: str, client: Client, scope: anyio.CancelScope) -> None:
        with scope:
            await self._notifier.serve(mailbox, client.push, client.subscriptions)


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
