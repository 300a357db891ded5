"""Clients of a front end over HTTP: the SDK's own, and requests made by hand."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from anyio import BrokenResourceError
from anyio.from_thread import start_blocking_portal
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_MODERN_VERSION

from tests.reply_table import check_answer, check_notification
from tests.together.driver import DEADLINE_S, Agent
from tests.together.frontend import HELLO, FrontEnd, front_end, wait_until

ACCEPT = "application/json, text/event-stream"

SSE_PATH = "/mcp/sse"

INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def tool_call(tool: str, id: int = 1, /, **arguments: Any) -> dict[str, Any]:
    """The request that calls a tool."""
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def stateless(message: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """A request as 2026-07-28 wants it, and the headers that it needs."""
    meta = {
        PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION,
        CLIENT_CAPABILITIES_META_KEY: {},
        CLIENT_INFO_META_KEY: HELLO["clientInfo"],
    }
    params = {**message.get("params", {}), "_meta": meta}
    headers = {"Mcp-Protocol-Version": LATEST_MODERN_VERSION, "Mcp-Method": message["method"]}
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    return {**message, "params": params}, headers


def check_reply(request: dict[str, Any], reply: dict[str, Any]) -> None:
    """The answer to a request by hand is as `tests/reply_table.py` has it."""
    if "result" in reply:
        check_answer(request["method"], request.get("params"), reply["result"])


def next_event(events: http.client.HTTPResponse, methods: Sequence[str] = ()) -> dict[str, Any]:
    """The next message of a stream; the next one of these methods."""
    while True:
        line = events.readline()
        assert line, "the stream has ended"
        if not line.startswith(b"data: {"):
            continue
        message = json.loads(line.removeprefix(b"data: "))
        assert isinstance(message, dict)
        if "method" in message:
            check_notification(message["method"], message.get("params"))
        if not methods or message.get("method") in methods:
            return message


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for a request by hand."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        """The last message of the body, which is JSON or a stream of events; empty if none is."""
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            lines = [line for line in self.body.splitlines() if line.startswith(b"data: ")]
            last = lines[-1].removeprefix(b"data: ") if lines else b"{}"
            return json.loads(last)  # type: ignore[no-any-return]
        return json.loads(self.body)  # type: ignore[no-any-return]


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
        body: bytes | Iterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request by hand, with exactly these headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        with contextlib.closing(connection):
            connection.request(method, path, body, self.headers if headers is None else headers)
            response = connection.getresponse()
            reported = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, reported, response.read())

    def post(
        self, message: Any, path: str = "/mcp", headers: Mapping[str, str] | None = None
    ) -> Answer:
        """A message as a client sends it, but for these headers."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        answer = self.request("POST", path, body, self.usual(headers))
        if answer.status == 200 and isinstance(message, dict):
            check_reply(message, answer.message)
        return answer

    @contextlib.contextmanager
    def stream(
        self, path: str = "/mcp", headers: Mapping[str, str] | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """A GET whose answer does not end by itself; leaving hangs up."""
        with self._sent("GET", path, None, headers) as connection:
            response = connection.getresponse()
            assert response.status == 200, response.read()
            with response:
                yield response

    def can_listen(self, session: dict[str, str]) -> bool:
        """Whether nobody reads the stream of a session."""
        try:
            with self.stream(headers=session):
                return True
        except AssertionError:  # 409
            return False

    @contextlib.contextmanager
    def under_way(
        self, message: Any, path: str = "/mcp", headers: Mapping[str, str] | None = None
    ) -> Iterator[None]:
        """A message whose answer is not read; leaving hangs up."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        with self._sent("POST", path, body, headers):
            yield

    @contextlib.contextmanager
    def _sent(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None
    ) -> Iterator[http.client.HTTPConnection]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        with contextlib.closing(connection):
            connection.request(method, path, body, self.usual(headers))
            yield connection

    def usual(self, headers: Mapping[str, str] | None) -> dict[str, str]:
        """The headers of a client, but for these."""
        usual = {"Accept": ACCEPT, "Content-Type": "application/json"}
        return {**self.headers, **usual, **(headers or {})}

    @contextlib.contextmanager
    def sse(self) -> Iterator[tuple[http.client.HTTPResponse, str]]:
        """A connection over SSE by hand, hands shaken: its events, and where messages go."""
        with self.stream(SSE_PATH) as events:
            assert events.readline() == b"event: endpoint\r\n"
            path = events.readline().decode().removeprefix("data: ").strip()
            for message in (INITIALIZE, INITIALIZED):
                assert self.post(message, path).status == 202
            assert next_event(events)["id"] == INITIALIZE["id"]
            yield events, path

    def session(self) -> dict[str, str]:
        """Open a session over Streamable HTTP by hand: the header of its requests."""
        opened = self.post(INITIALIZE)
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        assert self.post(INITIALIZED, headers=session).status == 202
        return session


def place_of(end: FrontEnd) -> Place:
    """What the file in the private directory tells, as soon as it is there."""

    def reported() -> list[Path]:
        # The newline comes last.
        return [path for path in end.directory.glob("*/http") if path.read_bytes()[-1:] == b"\n"]

    wait_until(lambda: bool(reported()), "the address is told")
    (path,) = reported()
    _, url, _, token = path.read_text(encoding="ascii").split()
    return Place(url, token)


@contextlib.contextmanager
def web_end(
    project: Path,
    *arguments: str,
    command: list[str] | None = None,
    switch: str = "--cideldill-http",
) -> Iterator[tuple[FrontEnd, Place]]:
    """A front end that serves HTTP (only, but for what the arguments say), and where."""
    given = ("-p", "no:cacheprovider", *arguments)
    with front_end(project, *given, command=command, switch=switch) as end:
        yield end, place_of(end)


@contextlib.contextmanager
def over_http(place: Place, mode: str = "auto", **options: Any) -> Iterator[Agent]:
    """A client over Streamable HTTP."""
    with start_blocking_portal() as portal:
        web = httpx2.AsyncClient(headers=place.headers, timeout=DEADLINE_S)
        client = Client(streamable_http_client(place.url, http_client=web), mode=mode, **options)
        try:
            with portal.wrap_async_context_manager(client):
                yield Agent(client, portal)
        finally:
            portal.call(web.aclose)


@contextlib.contextmanager
def over_sse(place: Place, mode: str = "legacy", **options: Any) -> Iterator[Agent]:
    """A client over SSE."""
    with start_blocking_portal() as portal:
        transport = sse_client(f"{place.url}/sse", headers=place.headers)
        client = Client(transport, mode=mode, **options)
        try:
            with portal.wrap_async_context_manager(client):
                yield Agent(client, portal)
        except* BrokenResourceError:
            pass  # the SDK's client fails at its end when a notification arrives just then
