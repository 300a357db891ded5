"""A small client of the Debug Adapter Protocol, for debugpy beside us and in comparison with us.

One socket, read on the thread that asks; every wait has a deadline.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

DEADLINE_S = 30.0
"""No wait takes longer."""


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class DapClient:
    """Attached to the program that listens at a port; it waits until `go`.

    Attributes:
        events: What came so far, in order.

    Raises:
        ConnectionRefusedError: Nobody listens there.
    """

    def __init__(self, port: int) -> None:
        self.events: list[dict[str, Any]] = []
        self._looked_at = 0
        self._responses: dict[int, dict[str, Any]] = {}
        self._requests = 0
        self._data = b""
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
        try:
            self.ask("initialize", adapterID="python", linesStartAt1=True, pathFormat="path")
            self._attach = self.request("attach", justMyCode=False, subProcess=False)
            self.until("initialized")
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def set_breakpoints(self, file: Path, *breakpoints: dict[str, Any]) -> list[dict[str, Any]]:
        """Those of one file: `line`, and `condition` or `logMessage`."""
        reply = self.ask("setBreakpoints", source={"path": str(file)}, breakpoints=breakpoints)
        verified: list[dict[str, Any]] = reply["body"]["breakpoints"]
        return verified

    def go(self) -> None:
        """The program may run."""
        self.ask("configurationDone")
        self._answer(self._attach)

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """The response of a request that must not fail."""
        return self._answer(self.request(command, **arguments))

    def request(self, command: str, **arguments: Any) -> int:
        """Send a request; the number of its response."""
        self._requests += 1
        message = {"seq": self._requests, "type": "request", "command": command}
        body = json.dumps(message | {"arguments": arguments}).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        return self._requests

    def until(self, event: str, /, **body: Any) -> dict[str, Any]:
        """The next event of this kind behind the one of the last call, with these values."""

        def is_there() -> bool:
            while self._looked_at < len(self.events):
                self._looked_at += 1
                if _fits(self.events[self._looked_at - 1], event, body):
                    return True
            return False

        self._read_until(is_there)
        return self.events[self._looked_at - 1]

    def _answer(self, request: int) -> dict[str, Any]:
        self._read_until(lambda: request in self._responses)
        response = self._responses.pop(request)
        if not response["success"]:
            raise RuntimeError(f"{response['command']}: {response.get('message')}")
        return response

    def _read_until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not done():
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {[each['event'] for each in self.events[-5:]]}")
            message = self._message()
            if message["type"] == "event":
                self.events.append(message)
            elif message["type"] == "response":
                self._responses[message["request_seq"]] = message

    def _message(self) -> dict[str, Any]:
        while b"\r\n\r\n" not in self._data:
            self._more()
        head, _, self._data = self._data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        while len(self._data) < length:
            self._more()
        body, self._data = self._data[:length], self._data[length:]
        message: dict[str, Any] = json.loads(body)
        return message

    def _more(self) -> None:
        data = self._socket.recv(65536)
        if not data:
            raise EOFError("the debug adapter hung up")
        self._data += data


def _fits(event: dict[str, Any], kind: str, body: dict[str, Any]) -> bool:
    values: dict[str, Any] = event.get("body", {})
    return event["event"] == kind and body.items() <= values.items()
