"""Clients of a front end over HTTP: the SDK's own, and requests made by hand."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from anyio.from_thread import start_blocking_portal
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from tests.together.driver import DEADLINE_S
from tests.together.driver import Agent
from tests.together.frontend import FrontEnd
from tests.together.frontend import front_end
from tests.together.frontend import wait_until

ACCEPT = "application/json, text/event-stream"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a front end serves HTTP, and what lets one in."""

    url: str
    token: str

    @property
    def port(self) -> int:
        """The port."""
        port = urlsplit(self.url).port
        assert port is not None
        return port

    @property
    def headers(self) -> dict[str, str]:
        """What every request of a client has."""
        return {"Authorization": f"Bearer {self.token}"}

    def request(
        self,
        method: str,
        path: str = "/mcp",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """One request by hand, with exactly these headers: the status and the body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        with contextlib.closing(connection):
            connection.request(method, path, body, self.headers if headers is None else headers)
            response = connection.getresponse()
            return response.status, response.read()

    def post(self, message: Any, **headers: str) -> tuple[int, bytes]:
        """A message to `/mcp`, as a client sends it but for these headers."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        usual = {"Accept": ACCEPT, "Content-Type": "application/json"}
        return self.request("POST", "/mcp", body, self.headers | usual | headers)


def place_of(end: FrontEnd) -> Place:
    """What the file in the private directory tells, as soon as it is there."""

    def told() -> list[Path]:
        # The newline comes last.
        return [path for path in end.directory.glob("*/http") if path.read_bytes()[-1:] == b"\n"]

    wait_until(lambda: bool(told()), "the address is told")
    (path,) = told()
    _, url, _, token = path.read_text(encoding="ascii").split()
    return Place(url, token)


@contextlib.contextmanager
def web_end(
    project: Path, *arguments: str, switch: str = "--cideldill-http"
) -> Iterator[tuple[FrontEnd, Place]]:
    """A front end that serves HTTP (only, but for what the arguments say), and where."""
    given = ("-p", "no:cacheprovider", *arguments)
    with front_end(project, *given, switch=switch) as end:
        yield end, place_of(end)


@contextlib.contextmanager
def over_http(place: Place, mode: str = "auto", **options: Any) -> Iterator[Agent]:
    """A client over Streamable HTTP."""
    with start_blocking_portal() as portal:
        web = httpx2.AsyncClient(headers=place.headers, timeout=DEADLINE_S)
        client = Client(streamable_http_client(place.url, http_client=web), mode=mode, **options)
        with portal.wrap_async_context_manager(client):
            yield Agent(client, portal)
        portal.call(web.aclose)


@contextlib.contextmanager
def over_sse(place: Place, **options: Any) -> Iterator[Agent]:
    """A client over SSE."""
    with start_blocking_portal() as portal:
        transport = sse_client(f"{place.url}/sse", headers=place.headers)
        client = Client(transport, mode="legacy", **options)
        with portal.wrap_async_context_manager(client):
            yield Agent(client, portal)
