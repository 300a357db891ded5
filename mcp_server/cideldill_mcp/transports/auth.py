"""The check of HTTP requests: first the host and the origin that they name, then the token.

`Door` is an ASGI application in front of the others. It reads only headers, on every path and
method, so that no body of an unknown client is read. Connections that have not passed it are
bounded, in number and in time. It knows nothing of the protocols behind it.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

ENTRY_S = 10.0
"""Seconds within which a connection must have shown the token."""

PATIENCE_S = 0.25
"""Seconds within which no connection gives way to another one."""

MAX_STRANGERS = 64
"""The most connections at once that have not shown the token yet."""

ADMIT = "cideldill.admit"
"""The key in the `state` of a request's scope: call it when the request has shown the token."""

_TOKEN_BYTES = 32

# Any port: a tunnel's differs from ours. A page whose own name resolves to this machine (DNS
# rebinding) still sends that name.
_HOST = re.compile(r"(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
_ORIGIN = re.compile(r"https?://" + _HOST.pattern, re.IGNORECASE)


def new_token() -> str:
    """A fresh token, as it is written in a header."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


class Strangers:
    """The connections that have not shown the token yet.

    When there are too many, the oldest one is closed, after `PATIENCE_S`: a client shows the token
    at once, so it gets in beside any number of strangers that only wait. Until then no others are
    accepted. Lives on the event loop.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._deadlines: dict[asyncio.Transport, asyncio.TimerHandle] = {}  # oldest first
        self._has_left = asyncio.Event()

    async def room(self) -> None:
        """Wait until one more is allowed."""
        loop = asyncio.get_running_loop()
        while len(self._deadlines) >= self._most:
            oldest, deadline = next(iter(self._deadlines.items()))
            left_s = deadline.when() - ENTRY_S + PATIENCE_S - loop.time()
            if left_s <= 0:
                self._end(oldest)
                return
            self._has_left.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_left.wait(), left_s)

    def add(self, connection: asyncio.Transport) -> None:
        """Add an accepted connection: it has `ENTRY_S` from now on."""
        loop = asyncio.get_running_loop()
        self._deadlines[connection] = loop.call_later(ENTRY_S, self._end, connection)

    def remove(self, connection: asyncio.Transport) -> None:
        """Remove a connection that has shown the token or has ended; later calls do nothing."""
        if (deadline := self._deadlines.pop(connection, None)) is not None:
            deadline.cancel()
            self._has_left.set()

    def _end(self, connection: asyncio.Transport) -> None:
        self.remove(connection)
        connection.abort()  # `close` would wait until everything is read


class Door:
    """The ASGI application that refuses requests without the token.

    Args:
        token: The token that a client must send.
        rooms: The applications by path.
    """

    def __init__(self, token: str, rooms: Mapping[str, ASGIApp]) -> None:
        self._token = token.encode("ascii")
        self._rooms = rooms

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        room: ASGIApp | None = self._refused(Headers(scope=scope))
        if room is None:
            scope["state"][ADMIT]()
            room = self._rooms.get(scope["path"])
        if room is None:
            paths = ", ".join(self._rooms)
            room = _answer(404, f"there is nothing at {scope['path']!r}; there is: {paths}")
        try:
            await room(scope, receive, send)
        except ClientDisconnect:
            return  # the client left while it was sending: there is no reply

    def _refused(self, headers: Headers) -> Response | None:
        if not all(_HOST.fullmatch(host) for host in headers.getlist("host") or [""]):
            return _answer(421, "the header Host must name this machine, as 127.0.0.1:PORT")
        if not all(_ORIGIN.fullmatch(origin) for origin in headers.getlist("origin")):
            return _answer(403, "pages of other origins may not come in")
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        token = shown.strip().encode("latin-1")
        if scheme.lower() != "bearer" or not hmac.compare_digest(token, self._token):
            return _answer(
                401,
                "the header `Authorization: Bearer TOKEN` is missing or wrong; the server "
                "printed the token on its stderr when it started",
                {"WWW-Authenticate": "Bearer"},
            )
        return None


def _answer(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error": message}, status, headers)
