"""Who is connected over one transport: a name for each client, and what is pushed to it.

A connection of a handshake-era protocol is a client, until it ends. Later protocols know requests
only, so whoever sends some over a transport is one client; they forbid methods that they don't
define, so nothing is pushed there. What resources changed they hear as the answer to a request that
stays open, `subscriptions/listen`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any
from typing import cast

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.server import ServerRequestContext
from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from mcp.server.subscriptions import ResourcesListChanged
from mcp.server.subscriptions import ResourceUpdated
from mcp.server.subscriptions import ServerEvent
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from cideldill_mcp.notify import Notifier

_KEY = "cideldill"


class _Push(types.Notification[dict[str, Any], str]):
    """A notification that the protocol does not define."""


class Client:
    """One of them.

    Attributes:
        name: Unique for the server's life; a key of `Deliveries`.
        subscriptions: The URIs of resources of whose changes it wants to hear.
    """

    def __init__(self, name: str, session: ServerSession | None) -> None:
        self.name = name
        self.subscriptions: set[str] = set()
        self._session = session

    async def push(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification outside of any request; nothing where there is no connection."""
        if self._session is not None:
            push = cast("types.ServerNotification", _Push(method=method, params=params))
            await self._session.send_notification(push)


class Clients:
    """See the module.

    Args:
        transport: Begins the names, and is the name of those without a connection.
        notifier: Tells what happens.
        group: Where pushes run.

    Attributes:
        bus: Where `subscriptions/listen` hears of resources.
    """

    def __init__(self, transport: str, notifier: Notifier, group: TaskGroup) -> None:
        self._transport = transport
        self._notifier = notifier
        self._group = group
        self._numbers = count(1)
        self._stateless = Client(transport, None)
        self.bus = _Bus(notifier)

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
        """A client has shaken hands: from now on it is told what happens, until it goes."""
        if context.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            scope = anyio.CancelScope()
            _connection(context).exit_stack.callback(scope.cancel)
            self._group.start_soon(self._serve, self.of(context), scope)

    async def _serve(self, client: Client, scope: anyio.CancelScope) -> None:
        with scope:
            await self._notifier.serve(client.name, client.push, client.subscriptions)


class _Bus:
    """A `SubscriptionBus` of the library, on which only the notifier publishes."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier

    async def publish(self, event: ServerEvent) -> None:
        """Not for others: they would not reach clients of a handshake."""
        raise NotImplementedError

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Tell a listener from now on; returns the undo."""
        return self._notifier.observe(
            lambda uri: listener(ResourcesListChanged() if uri is None else ResourceUpdated(uri))
        )


def _connection(context: ServerRequestContext) -> Connection:
    # The library has no public way from a request to the state of its connection.
    return context.session._connection
