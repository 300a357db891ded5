"""Connections without the token: they are few, end soon, and take nothing from other clients.

The server has a small limit of descriptors, so that a few hundred connections would use them up.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from tests.together.conftest import MakeProject
from tests.together.frontend import DEADLINE_S, FrontEnd, module_command, wait_until
from tests.together.web import Place, tool_call, web_end

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks into /proc")

FAILING = "def test_it():\n    assert 0\n"

DESCRIPTORS = 256
"""Limit of the server; it needs some 30 itself."""

LIMITED = ["sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$0" "$@" 2> stderr', *module_command()]

STRANGERS = 64
"""Connections without the token that may be open at once."""

ENTRY_S = 10.0
"""Within this time a connection must show the token."""

HALF_A_HEADER = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Le"

PROMPT_S = 0.25
"""The aim for the 95th percentile of a tool's reply is 0.05 s; this is for a machine under load."""

IDLE_SHARE = 0.5
"""Less of a core than this means that nothing spins."""


def connect(place: Place, sent: bytes = b"") -> socket.socket:
    """A connection over which these bytes were sent."""
    connection = socket.create_connection(("127.0.0.1", place.port), DEADLINE_S)
    if sent:
        connection.sendall(sent)
    return connection


@contextmanager
def crowd(place: Place, number: int) -> Iterator[list[socket.socket]]:
    """So many connections, each with half a header."""
    with ExitStack() as stack:
        yield [stack.enter_context(closing(connect(place, HALF_A_HEADER))) for _ in range(number)]


def still_open(connections: list[socket.socket]) -> int:
    """How many of these connections the server has not closed."""
    poll = select.poll()
    for each in connections:
        poll.register(each, select.POLLIN)
    return len(connections) - len(poll.poll(0))


def wait_for_the_end(connection: socket.socket) -> float:
    """Read until the server has closed a connection; the seconds that it took."""
    began = time.monotonic()
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return time.monotonic() - began


def cpu_s(end: FrontEnd) -> float:
    """Seconds of a core that the server has used."""
    fields = Path(f"/proc/{end.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2]
    return sum(map(int, fields.split()[11:13])) / os.sysconf("SC_CLK_TCK")


def slow_reply_s(end: FrontEnd, calls: int = 100) -> float:
    """The 95th percentile of how long a tool takes over stdio."""
    took = []
    for _ in range(calls):
        began = time.monotonic()
        end.call("debug_state")
        took.append(time.monotonic() - began)
    return sorted(took)[calls * 95 // 100]


@contextmanager
def limited_end(project: Path) -> Iterator[tuple[FrontEnd, Place]]:
    """A server over stdio and HTTP with few descriptors; its stderr is a file of the project."""
    with web_end(project, "--cideldill-mcp", command=LIMITED) as (end, place):
        end.initialize()
        yield end, place


def complaints(project: Path) -> list[str]:
    """What the server wrote to stderr after its address."""
    return (project / "stderr").read_text(encoding="utf-8").splitlines()[1:]


@pytest.mark.full
def test_a_crowd_without_the_token_takes_nothing_from_the_others(make_project: MakeProject) -> None:
    """More connections than the server has descriptors: tools, runs and clients go on."""
    project = make_project(test_it=FAILING)
    with limited_end(project) as (end, place), crowd(place, 2 * DESCRIPTORS) as strangers:
        wait_until(lambda: still_open(strangers) <= STRANGERS, "the crowd is sent away")
        assert slow_reply_s(end) < PROMPT_S
        assert end.call("test_run")["state"] == "paused"
        session = place.session()
        assert place.post(tool_call("debug_state"), headers=session).status == 200
        assert complaints(project) == []


@pytest.mark.full
def test_a_connection_must_show_the_token_within_ten_seconds(make_project: MakeProject) -> None:
    """Whatever else it sends meanwhile; one that has shown it stays."""
    refused = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    unread = refused * 1000 + HALF_A_HEADER
    body = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{"
    with web_end(make_project(test_it=FAILING)) as (_, place), place.sse() as (events, path):
        with ExitStack() as stack:
            began = time.monotonic()
            for sent in (b"", HALF_A_HEADER, body, unread):
                stranger = stack.enter_context(closing(connect(place, sent)))
                stack.callback(wait_for_the_end, stranger)
        assert time.monotonic() - began < ENTRY_S + 5
        wait_until(lambda: time.monotonic() - began > ENTRY_S + 1, "everybody's time is over")
        assert place.post(tool_call("debug_state"), path).status == 202
        assert b"data" in b"".join(events.readline() for _ in range(3))


@pytest.mark.full
def test_clients_with_the_token_leave_descriptors_for_the_runs(make_project: MakeProject) -> None:
    """Streams beyond half of the descriptors are refused, and what a run needs is there."""
    project = make_project(test_it=FAILING)
    with limited_end(project) as (end, place), ExitStack() as stack:
        head = f"GET /mcp/sse HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {place.token}"
        answers = []
        for _ in range(DESCRIPTORS):
            client = stack.enter_context(closing(connect(place, head.encode() + b"\r\n\r\n")))
            answers.append(client.recv(12))
        assert set(answers) == {b"HTTP/1.1 200", b"HTTP/1.1 503"}
        assert answers.count(b"HTTP/1.1 200") >= DESCRIPTORS // 2 - STRANGERS
        assert end.call("test_run")["state"] == "paused"
        assert complaints(project) == []


@pytest.mark.full
def test_what_fails_for_want_of_descriptors_is_reported_once_and_goes_on_later(
    make_project: MakeProject,
) -> None:
    """Nothing spins meanwhile, and no message names an option that nobody gave."""
    prlimit = pytest.importorskip("resource").prlimit
    project = make_project(test_it=FAILING)
    with limited_end(project) as (end, place):
        limit = 7  # RLIMIT_NOFILE of Linux
        usual = prlimit(end.process.pid, limit)
        used = len(os.listdir(f"/proc/{end.process.pid}/fd"))
        prlimit(end.process.pid, limit, (used, usual[1]))
        with crowd(place, 20):
            wait_until(lambda: bool(complaints(project)), "the failure is told")
            began, used_s = time.monotonic(), cpu_s(end)
            wait_until(lambda: time.monotonic() - began > 2, "two seconds are over")
            assert cpu_s(end) - used_s < IDLE_SHARE * 2
            assert slow_reply_s(end) < PROMPT_S
            refused = end.request("tools/call", {"name": "test_run", "arguments": {}})
            assert refused["isError"]
            assert "Too many open files" in str(refused)
            assert "--cideldill-bind" not in str(refused)
            assert len(complaints(project)) == 1
        prlimit(end.process.pid, limit, usual)
        assert place.session()
        assert end.call("test_run")["state"] == "paused"
        assert len(complaints(project)) == 1
