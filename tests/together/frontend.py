"""`pytest --cideldill-mcp` on raw pipes: every byte it writes, every process it starts.

For tests of what a client library hides: signals, end of file, malformed lines, what is left
behind. Processes are found by a mark in their environment, which everything that the front end
starts inherits; so this part needs Linux's `/proc`.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.reply_table import check_answer, check_notification

DEADLINE_S = 20.0
"""No wait of a test is longer."""

MARK = "CIDELDILL_TEST_MARK"
NOT_OURS = ("TMPDIR", "PYTEST_", "CIDELDILL_", "PYTHON", "COV_", "COVERAGE_")
"""Variables of the outer pytest run that the front end must not see."""

FEW_GUESTS = {
    "PYTEST_ADDOPTS": "-p no:anyio -p no:asyncio -p no:rerunfailures -p no:hypothesispytest"
    " -p no:pytest_cov",
}
"""Leaves out plugins of the extra `test` that take a second to import; a test that wants them has
`PYTEST_ADDOPTS` empty, or names the one that it wants behind `-p`."""

HELLO_VERSION = "2025-06-18"
HELLO: dict[str, Any] = {
    "protocolVersion": HELLO_VERSION,
    "capabilities": {},
    "clientInfo": {"name": "tests", "version": "0"},
}


def wait_until(holds: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> float:
    """Wait for something that only the outside can see; the seconds it took.

    Raises:
        AssertionError: `what` did not come true in time.
    """
    began = time.monotonic()
    never = threading.Event()
    while not holds():
        assert time.monotonic() - began < deadline_s, f"not within {deadline_s:.0f} s: {what}"
        never.wait(0.01)
    return time.monotonic() - began


def clean_environment(**further: str) -> dict[str, str]:
    """This environment without what the outer pytest run added, but for its temporary files."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(NOT_OURS) or name == "PYTEST_DEBUG_TEMPROOT"
    }
    return kept | FEW_GUESTS | {"XDG_STATE_HOME": states()} | further


@lru_cache
def states() -> str:
    """A folder for what commands and servers keep of this user."""
    folder = tempfile.mkdtemp(prefix="cideldill-states-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def module_command(*flags: str) -> list[str]:
    """`python FLAGS -m pytest` with this interpreter."""
    return [sys.executable, *flags, "-m", "pytest"]


class FrontEnd:
    """A started front end and its client side.

    Attributes:
        written: Every byte that came out of its stdout.
        pushed: The parameters of each `debugger/breakpointHit` that was received, and the epoch
            seconds of its arrival.
        directory: Its `TMPDIR`: where its private directory lives.
    """

    def __init__(self, command: list[str], project: Path, environment: dict[str, str]) -> None:
        # Short, unless the test wants otherwise: a socket path has about 100 bytes.
        self.directory = Path(environment.get("TMPDIR") or tempfile.mkdtemp(prefix="cdt"))
        self.written = b""
        self.pushed: list[tuple[dict[str, Any], float]] = []
        self._mark = f"{MARK}={uuid.uuid4()}"
        self._requests = 0
        self._unread = b""
        # Requests that are not answered yet, by their id.
        self._asked: dict[Any, tuple[str, Any]] = {}
        marked = dict([self._mark.split("=")])
        self.process = subprocess.Popen(
            command,
            cwd=project,
            env=environment | marked | {"TMPDIR": str(self.directory)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    # --- talking ----------------------------------------------------------------------------

    def initialize(self, version: str = HELLO_VERSION) -> dict[str, Any]:
        """Shake hands as a client does."""
        reply = self.request("initialize", HELLO | {"protocolVersion": version})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return reply

    def send(self, message: dict[str, Any]) -> None:
        """Write one message."""
        if "id" in message:
            self._asked[message["id"]] = (message["method"], message.get("params"))
        self.send_line(json.dumps(message).encode())

    def send_line(self, line: bytes) -> None:
        """Write one line, whatever it is."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")

    def ask(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send a request without waiting; its id."""
        self._requests += 1
        request = {"jsonrpc": "2.0", "id": self._requests, "method": method}
        self.send(request | ({"params": params} if params is not None else {}))
        return self._requests

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request; the result of its answer."""
        asked = self.ask(method, params)
        while (message := self.receive()).get("id") != asked:
            assert "method" in message, message
        assert "result" in message, message
        result = message["result"]
        assert isinstance(result, dict)
        return result

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The reply of a tool."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        assert not result.get("isError"), result
        reply = json.loads(result["content"][0]["text"])
        assert isinstance(reply, dict)
        return reply

    def start(self, tool: str, /, **arguments: Any) -> None:
        """Call a tool and don't wait for its reply."""
        self.ask("tools/call", {"name": tool, "arguments": arguments})

    def receive(self) -> dict[str, Any]:
        """The next message."""
        while b"\n" not in self._unread:
            self._unread += self._read()
        line, _, self._unread = self._unread.partition(b"\n")
        message = json.loads(line)
        assert isinstance(message, dict), line
        self._check(message)
        if message.get("method") == "debugger/breakpointHit":
            self.pushed.append((message["params"], time.time()))
        return message

    def _check(self, message: dict[str, Any]) -> None:
        """Replies and notifications are as `tests/reply_table.py` has them."""
        if "method" in message:
            check_notification(message["method"], message.get("params"))
        elif (asked := self._asked.pop(message.get("id"), None)) and "result" in message:
            check_answer(*asked, message["result"])

    def read_to_the_end(self) -> list[bytes]:
        """Read until its stdout is closed; every line that it ever wrote."""
        while self._read(or_end=True):
            pass
        return self.written.split(b"\n")[:-1]

    def _read(self, *, or_end: bool = False) -> bytes:
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], DEADLINE_S)
        assert readable, f"nothing within {DEADLINE_S:.0f} s, last: {self.written[-500:]!r}"
        data = os.read(self.process.stdout.fileno(), 65536)
        assert data or or_end, f"the front end hung up, last: {self.written[-500:]!r}"
        self.written += data
        return data

    # --- ending -----------------------------------------------------------------------------

    def hang_up(self) -> None:
        """End of file on its stdin, as a client that leaves."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def signal(self, number: int) -> None:
        """Signal the front end alone."""
        self.process.send_signal(number)

    def leave(self) -> int:
        """Hang up and wait until nothing is left; the exit status."""
        self.hang_up()
        status = self.process.wait(DEADLINE_S)
        self.wait_until_nothing_is_left()
        return status

    def leave_by(self, number: int) -> int:
        """Signal it and wait until nothing is left; the exit status."""
        self.signal(number)
        status = self.process.wait(DEADLINE_S)
        self.wait_until_nothing_is_left()
        return status

    def wait_until_nothing_is_left(self) -> float:
        """Wait until its processes, sockets and private directory are gone; the seconds."""
        took = wait_until(lambda: not self.processes(), "its processes are gone")
        assert self.private() == []
        assert str(self.directory) not in Path("/proc/net/unix").read_text(encoding="utf-8")
        return took

    def close(self) -> None:
        """Kill what a failed test left."""
        while left := self.processes():
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    # --- looking from outside ---------------------------------------------------------------

    def private(self) -> list[Path]:
        """Private directories of front ends; one while it lives."""
        return list(self.directory.glob("cideldill-*"))

    def processes(self) -> list[int]:
        """Living processes that it, or something it started, has started; itself included."""
        return list(self._marked())

    def invitation(self) -> dict[str, Any]:
        """What the process of the active run was told at its start: the address, the token."""
        for pid in self.processes():
            for pair in _read_proc(pid, "environ").decode().split("\0"):
                name, _, value = pair.partition("=")
                if name == "CIDELDILL_CHILD":
                    invitation = json.loads(value)
                    assert isinstance(invitation, dict)
                    return invitation
        raise AssertionError("no process of a run lives")

    def open_files(self) -> list[str]:
        """What the front end's descriptors are open on, numbers left out."""
        folder = Path(f"/proc/{self.process.pid}/fd")
        found = []
        for fd in folder.iterdir():
            with suppress(FileNotFoundError):  # closed since
                found.append(os.readlink(fd).split("[")[0])
        return sorted(found)

    def _marked(self) -> Iterator[int]:
        mark = self._mark.encode()
        for name in os.listdir("/proc"):
            if name.isdigit() and mark in _read_proc(int(name), "environ").split(b"\0"):
                yield int(name)


def _read_proc(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""  # gone, or somebody else's


@contextmanager
def front_end(
    project: Path,
    *arguments: str,
    command: list[str] | None = None,
    switch: str = "--cideldill-mcp",
    **environment: str,
) -> Iterator[FrontEnd]:
    """`pytest --cideldill-mcp ARGUMENTS` in a project; afterwards it is gone, however it ended."""
    line = [*(command or module_command()), switch, *arguments]
    server = FrontEnd(line, project, clean_environment(**environment))
    try:
        yield server
    finally:
        server.close()
