"""`breakpoint_wait` of a client on raw pipes: many at once, cancelled, with progress.

What needs no real run is in `tests/server/test_waiting.py`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.frontend import FrontEnd, front_end
from tests.together.tracing import line_of, tracepoint

pytestmark = pytest.mark.full

STEPS = """
import pathlib
import time


def wait_for(name):
    while not pathlib.Path(name).exists():
        time.sleep(0.005)


def test_steps():
    wait_for("go")
    told = 1  # told
    first = 1  # first
    second = 2  # second
"""


class Client:
    """Calls that are under way at once, and what came for each."""

    def __init__(self, end: FrontEnd, project: Path) -> None:
        self.end = end
        self.project = project
        self.progress: list[tuple[dict[str, Any], float]] = []
        self.answers: dict[int, dict[str, Any]] = {}

    def breakpoint(self, mark: str) -> str:
        """Set one; its id."""
        line = line_of(STEPS, mark)
        id = self.end.call("breakpoint_set", file="test_it.py", line=line)["id"]
        assert isinstance(id, str)
        return id

    def wait(self, token: str | None = None, **arguments: Any) -> int:
        """Begin a `breakpoint_wait`; the id of the request."""
        meta = {"_meta": {"progressToken": token}} if token else {}
        return self.end.ask(
            "tools/call", {"name": "breakpoint_wait", "arguments": arguments} | meta
        )

    def read(self) -> None:
        """Take one message."""
        message = self.end.receive()
        if message.get("method") == "notifications/progress":
            self.progress.append((message["params"], time.monotonic()))
        if "id" in message and "method" not in message:
            self.answers[message["id"]] = message

    def reply(self, asked: int) -> dict[str, Any]:
        """The body of an answer, once it is there."""
        while asked not in self.answers:
            self.read()
        body = json.loads(self.answers[asked]["result"]["content"][0]["text"])
        assert isinstance(body, dict)
        return body

    def go(self) -> None:
        """Let the test reach its lines."""
        (self.project / "go").touch()

    def go_on(self, stop: dict[str, Any]) -> None:
        """Let it go on from a stop."""
        self.reply(
            self.end.ask(
                "tools/call",
                {"name": "breakpoint_continue", "arguments": {"pause_id": stop["pause_id"]}},
            )
        )


@pytest.fixture
def client(make_project: MakeProject) -> Iterator[Client]:
    project = make_project(test_it=STEPS)
    with front_end(project, "-p", "no:cacheprovider") as end:
        end.initialize()
        yield Client(end, project)


def test_any_number_of_waits_with_filters_are_sent_what_they_ask_for(client: Client) -> None:
    """Each filter its own, with `after` all the same; who can't be told any more hears why."""
    traced = tracepoint(client.end, line_of(STEPS, "told"), "here")["id"]
    first, second = client.breakpoint("first"), client.breakpoint("second")
    client.end.call("test_run", nodeids=["test_it.py::test_steps"], wait=False)
    of_second = client.wait(breakpoint_id=second)
    of_hit = client.wait(breakpoint_id=traced)
    of_first = [client.wait(breakpoint_id=first, after=0) for _ in range(5)]
    client.go()
    hit = client.reply(of_hit)
    assert (hit["reason"], hit["breakpoint_id"]) == ("tracepoint", traced)
    stops = [client.reply(asked) for asked in of_first]
    assert {stop["breakpoint_id"] for stop in stops} == {first}
    assert len({(stop["pause_id"], stop["seq"]) for stop in stops}) == 1
    assert client.reply(of_second)["reason"] == "paused"
    client.go_on(stops[0])
    stop = client.reply(client.wait(breakpoint_id=second))
    assert stop["breakpoint_id"] == second
    assert stop["seq"] > stops[0]["seq"] > hit["seq"]


def test_a_cancelled_wait_ends_at_once_and_takes_no_stop_along(client: Client) -> None:
    """Its client is not answered (MCP: no response to what was cancelled); the next wait is."""
    first = client.breakpoint("first")
    client.end.call("test_run", nodeids=["test_it.py::test_steps"], wait=False)
    gone = client.wait(timeout_ms=300_000)
    client.end.send(
        {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": gone, "reason": "enough"},
        }
    )
    client.go()
    stop = client.reply(client.wait())
    assert (stop["hit"], stop["breakpoint_id"]) == (True, first)
    assert "error" in client.answers.get(gone, {"error": None})
    assert client.end.call("debug_state")["paused"] == [stop["pause_id"]]


def test_a_wait_reports_progress_every_five_seconds(client: Client) -> None:
    """To a client that gave a token, and to no other; a stop still ends it."""
    client.breakpoint("first")
    client.end.call("test_run", nodeids=["test_it.py::test_steps"], wait=False)
    began = time.monotonic()
    silent = client.wait(breakpoint_id="bp-1", timeout_ms=300_000)
    waiting = client.wait(token="t", after=0, timeout_ms=60_000)
    while not client.progress:
        client.read()
    ((reported, came),) = client.progress
    assert 4.5 < came - began < 15
    assert (reported["progressToken"], reported["total"]) == ("t", 60)
    assert reported["progress"] == pytest.approx(came - began, abs=2)
    client.go()
    assert client.reply(waiting)["hit"] is client.reply(silent)["hit"] is True
