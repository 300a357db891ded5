"""The library's own server, for the HTTP transports."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server

from cideldill_mcp.transports.stdio_server import Identity, capabilities


class HttpServer(Server[Any]):
    """A server without handlers."""

    def __init__(self, identity: Identity) -> None:
        super().__init__(
            identity.name,
            version=identity.version,
            title=identity.title,
            instructions=identity.instructions,
        )
        self.middleware.clear()  # OpenTelemetry, whose spans no user asked for

    def get_capabilities(self, *_args: Any, **_kwargs: Any) -> types.ServerCapabilities:
        """Those of every server of ours."""
        return capabilities()
