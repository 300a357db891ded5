"""The server of the connection on stdio, as the message loop of the library asks for it.

The library's own `Server` does the same, and imports the HTTP transports, their framework and OAuth
for it: a sixth of the time until `initialize` is answered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.server.context import ServerRequestContext
from mcp.server.models import InitializationOptions
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from cideldill_mcp.transports.stdio import StdioWriteStream

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

Handle = Callable[[ServerRequestContext, Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Identity:
    """How a server introduces itself to clients."""

    name: str
    version: str
    title: str
    instructions: str


def capabilities() -> types.ServerCapabilities:
    """The same in every era: only resources have a list that changes, and subscriptions."""
    return types.ServerCapabilities(
        prompts=types.PromptsCapability(list_changed=False),
        resources=types.ResourcesCapability(subscribe=True, list_changed=True),
        tools=types.ToolsCapability(list_changed=False),
    )


class _Entry(NamedTuple):
    """A handler, and the model of the parameters that it takes."""

    params_type: type[BaseModel]
    handler: Handle


class StdioServer:
    """What `mcp.server.runner` asks of a server; the rest is answered by the library's own.

    Attributes:
        middleware: Empty: the library's one makes spans for OpenTelemetry.
        cache_hints: Empty.
        get_tool_input_schema: Only HTTP asks for it.
    """

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._requests: dict[str, _Entry] = {}
        self._notifications: dict[str, _Entry] = {}
        self.middleware: list[Any] = []
        self.cache_hints: dict[str, Any] = {}
        self.get_tool_input_schema: Callable[[str], Mapping[str, Any] | None] | None = None
        self.add_request_handler("ping", types.RequestParams, _pong)
        self.add_request_handler("server/discover", types.RequestParams, self._discover)

    async def run(
        self,
        incoming: MemoryObjectReceiveStream[SessionMessage | Exception],
        outgoing: StdioWriteStream,
    ) -> None:
        """Serve until the client has gone."""
        server = cast("Server[None]", self)
        await serve_dual_era_loop(server, incoming, outgoing, lifespan_state=None)

    def add_request_handler(
        self, method: str, params_type: type[BaseModel], handler: Handle
    ) -> None:
        """Have requests of a method answered by this handler."""
        self._requests[method] = _Entry(params_type, handler)

    def add_notification_handler(
        self, method: str, params_type: type[BaseModel], handler: Handle
    ) -> None:
        """Have notifications of a method go to this handler."""
        self._notifications[method] = _Entry(params_type, handler)

    def get_request_handler(self, method: str) -> _Entry | None:
        """The handler of a method, if there is one."""
        return self._requests.get(method)

    def get_notification_handler(self, method: str) -> _Entry | None:
        """The handler of a method, if there is one."""
        return self._notifications.get(method)

    def create_initialization_options(self) -> InitializationOptions:
        """What `initialize` is answered with."""
        identity = self._identity
        return InitializationOptions(
            server_name=identity.name,
            server_version=identity.version,
            title=identity.title,
            instructions=identity.instructions,
            capabilities=capabilities(),
        )

    @property
    def server_info_stamp(self) -> dict[str, Any]:
        """What replies of later protocols say of the server."""
        identity = self._identity
        return {"name": identity.name, "title": identity.title, "version": identity.version}

    async def _discover(
        self, _context: ServerRequestContext, _params: types.RequestParams
    ) -> types.DiscoverResult:
        return types.DiscoverResult(
            supported_versions=list(MODERN_PROTOCOL_VERSIONS),
            capabilities=capabilities(),
            instructions=self._identity.instructions,
        )

    def __getattr__(self, name: str) -> Any:
        """Ask the library's server, for versions of its message loop that need more."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._whole, name)

    @cached_property
    def _whole(self) -> Server:
        from cideldill_mcp.transports.http_server import HttpServer

        whole = HttpServer(self._identity)
        for method, entry in self._requests.items():
            whole.add_request_handler(method, *entry)
        for method, entry in self._notifications.items():
            whole.add_notification_handler(method, *entry)
        return whole


async def _pong(_context: ServerRequestContext, _params: types.RequestParams) -> types.EmptyResult:
    return types.EmptyResult()
