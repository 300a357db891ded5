"""What tracepoints tell, as it reaches a client: pushed, in replies, waited for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.together.conftest import MakeProject
from tests.together.frontend import FrontEnd, front_end, wait_until
from tests.together.tracing import tracepoint, until_pushed

LOOP = """
def test_it():
    total = 0
    for number in range(10):
        total += number
    assert total == 45
"""

WAITING = """
import pathlib, time

def test_it():
    number = 0
    while not pathlib.Path("go").exists():
        time.sleep(0.01)
    for number in (7, 8):
        number += 1
    while not pathlib.Path("end").exists():
        time.sleep(0.01)
"""


@pytest.fixture
def server(make_project: MakeProject) -> Iterator[FrontEnd]:
    project = make_project(test_it=LOOP, test_waiting=WAITING)
    with front_end(project, "-p", "no:cacheprovider") as end:
        end.initialize()
        yield end


@pytest.mark.full
def test_hits_are_pushed_and_reported_by_the_reply_and_stops_are_pushed_too(
    server: FrontEnd,
) -> None:
    """016: ten passes of a loop, ten notifications; only what was hit is told."""
    id = tracepoint(server, 5, "{number}: {total + number}")["id"]
    other = tracepoint(server, 9, "never", file="test_waiting.py")["id"]
    stop = server.call("breakpoint_set", file="test_it.py", line=6)
    reply = server.call("test_run", nodeids=["test_it.py"])
    assert [hit["message"] for hit in reply["hits"]] == [
        f"{n}: {sum(range(n + 1))}" for n in range(10)
    ]
    assert {hit["breakpoint_id"] for hit in reply["hits"]} == {id}
    assert "pending" not in reply
    reported = until_pushed(server, 11)
    assert [each["logMessage"] for each in reported[:-1]] == [
        hit["message"] for hit in reply["hits"]
    ]
    assert [each["seq"] for each in reported[:-1]] == [hit["seq"] for hit in reply["hits"]]
    assert [each["hitCount"] for each in reported[:-1]] == list(range(1, 11))
    assert {each["type"] for each in reported[:-1]} == {"tracepoint"}
    assert other not in {each["breakpointId"] for each in reported}
    last = reported[-1]
    assert (last["type"], last["breakpointId"], last["hitCount"]) == ("blocking", stop["id"], 1)
    assert last["pauseId"] == reply["stops"][0]["pause_id"]
    assert last["location"]["file"] == "test_it.py"
    assert (last["location"]["line"], last["location"]["functionName"]) == (6, "test_it")
    assert last["exceptionInfo"] is None
    (paused,) = server.call("breakpoint_list_paused")["paused"]
    assert last["threadId"] == paused["thread"]["id"]


@pytest.mark.full
def test_a_tracepoint_can_be_waited_for_and_what_was_not_reported_is_pending(
    server: FrontEnd,
) -> None:
    """A hit ends a wait only if its id is asked for; `pending`."""
    id = tracepoint(server, 9, "n={number}", file="test_waiting.py")["id"]
    run = server.call("test_run", nodeids=["test_waiting.py"], wait=False)
    project = server.call("debug_state")["rootdir"]
    waiting = server.call("breakpoint_wait", breakpoint_id=id, timeout_ms=200)
    assert (waiting["hit"], waiting["reason"], waiting["hits"]) == (False, "timeout", [])
    (Path(project) / "go").touch()
    hit = server.call("breakpoint_wait", breakpoint_id=id)
    assert (hit["hit"], hit["reason"], hit["breakpoint_id"]) == (True, "tracepoint", id)
    assert (hit["message"], hit["hit_count"]) == ("n=7", 1)
    assert hit["location"]["line"] == 9
    until_pushed(server, 2)
    again = server.call("breakpoint_wait", timeout_ms=100, after=0)
    assert again["hit"] is False
    assert [each["message"] for each in again["hits"]] == ["n=7", "n=8"]
    state = server.call("debug_state")
    assert "pending" not in state
    (Path(project) / "end").touch()
    wait_until(lambda: server.call("debug_state")["state"] == "finished", "the end")
    assert server.call("test_run", nodeids=["test_it.py"], replace=True)["run_id"] != run["run_id"]


@pytest.mark.full
def test_hits_that_no_reply_reported_are_pending(server: FrontEnd) -> None:
    """Any reply says that there is news; where from to read it."""
    tracepoint(server, 5, "{number}")
    server.call("test_run", nodeids=["test_it.py"], wait=False)
    wait_until(lambda: server.call("debug_state")["state"] == "finished", "the end")
    pending = server.call("debug_state")["pending"]
    assert (pending["stops"], pending["hits"]) == (0, 10)
    events = server.call("timeline_get", after=pending["after"], types=["hit"])["events"]
    assert [each["message"] for each in events] == [str(number) for number in range(10)]
    reported = server.call("breakpoint_wait", timeout_ms=1)
    assert len(reported["hits"]) == 10
    assert "pending" not in server.call("debug_state")
