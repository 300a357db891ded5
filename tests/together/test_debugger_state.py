"""The resources of the debugger's state: one test for each scenario of their use.

Through the SDK's client on stdio, in both eras of the protocol, against real pytest children. US:
user story. Reads after the end of a run show its last state, as stale. The test of each scenario is
in `tests/debugger_state_cases.py`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.together.driver import Agent, only_stop, server
from tests.together.frontend import wait_until
from tests.together.hearing import ERAS, LIST, Ear, hearing
from tests.together.tracing import line_of

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

SESSION, BREAKPOINTS = "debugger://session", "debugger://breakpoints"
THREADS, STATUS = "debugger://threads", "breakpoint://status"
TEMPLATE = "debugger://source/{+file}"
URIS = (SESSION, BREAKPOINTS, THREADS)
ALWAYS = [
    STATUS,
    *(f"breakpoint://{name}" for name in ("breakpoints", "paused", "call-history", "functions")),
]

SOON_S = 1.0
"""019, SC-003."""

# A process of the run, not the server: imported before it connects.
EARLY = """
import os
import time

while "CIDELDILL_CHILD" in os.environ and not os.path.exists("begin"):
    time.sleep(0.01)
"""

STORY = """
import os
import threading
import time


def price(amount):
    price = 0  # price
    price += amount
    price += amount
    price += amount
    price += amount
    price -= amount
    return price


def spin():
    for count in range(10_000):
        if os.path.exists("enough"):
            break
        time.sleep(0.01)  # spins


def test_it():
    go = threading.Event()
    thread = threading.Thread(target=go.wait, name="waits")
    thread.start()
    total = price(2)
    spin()
    go.set()
    thread.join()
    assert total == 7  # fails
"""


@dataclass(slots=True)
class Story:
    """What a client saw and heard of one run.

    Attributes:
        agent: The client, when all is over.
        pid: Of the process of the tests, as it says itself.
        root: The project.
        listed: URIs and templates, by what was going on.
        bodies: URI → body, by what was going on.
        refused: URI → sentence, before the run.
        heard: What was heard, by what was done; until what was expected was there.
        paused_at: When the first pause began, and when it was heard of; epoch seconds.
        source: The test's file as a resource.
        steps: How many changes of the session and its threads quick steps made, how many were heard
            of, and how long that took.
        hits: When it was heard of hits, epoch seconds, while there were a hundred in a second.
    """

    agent: Agent
    pid: int
    root: Path
    listed: dict[str, list[str]] = field(default_factory=dict)
    bodies: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    heard: dict[str, list[str | None]] = field(default_factory=dict)
    paused_at: tuple[float, float] = (0.0, 0.0)
    source: str = ""
    steps: tuple[int, int, float] = (0, 0, 0.0)
    hits: list[float] = field(default_factory=list)

    def look(self, when: str) -> None:
        """List and read all."""
        self.listed[when] = self.agent.resources()
        self.bodies[when] = {uri: self.agent.read(uri) for uri in URIS}


class Reporter:
    """Does things one after the other, and notes what was heard of each."""

    def __init__(self, story: Story, ear: Ear) -> None:
        self.story, self.ear, self.agent = story, ear, story.agent

    def call(self, what: str, tool: str, *uris: str | None, **arguments: Any) -> dict[str, Any]:
        """Call a tool and wait until it was heard of these."""
        start = len(self.ear.heard)
        reply = self.ear.by(lambda: self.agent.call(tool, **arguments), *uris)
        self.story.heard[what] = [uri for uri, _ in self.ear.heard[start:]]
        return reply

    def begin(self) -> dict[str, Any]:
        """Before a run, at its start, and its first stop."""
        story, agent = self.story, self.agent
        story.listed["before"] = agent.resources()
        for uri in (*URIS, "debugger://source/test_it.py"):
            with pytest.raises(MCPError) as caught:
                agent.source("test_it.py") if "source" in uri else agent.read(uri)
            assert caught.value.error.code == -32602
            story.refused[uri] = caught.value.error.message
        line = line_of(STORY, "price")
        agent.call("breakpoint_set", file="test_it.py", line=line, condition="amount == 2")
        agent.call("breakpoint_set_exception", exception_type="KeyError")
        line = line_of(STORY, "spins")
        agent.call("tracepoint_set", file="test_it.py", line=line, log_message="n={count}")
        self.call("start", "test_run", LIST, *URIS, STATUS, wait=False)
        story.look("starting")
        start = len(self.ear.heard)
        (story.root / "begin").touch()
        stop = agent.call("breakpoint_wait")
        pause = agent.read("breakpoint://paused")["paused"][0]

        def heard() -> list[float]:
            return [at for uri, at in self.ear.heard[start:] if uri == SESSION]

        self.ear.until(lambda: any(at >= pause["paused_at"] for at in heard()), "the pause")
        story.paused_at = pause["paused_at"], min(at for at in heard() if at >= pause["paused_at"])
        asked = {"pause_id": stop["pause_id"], "expression": "os.getpid()"}
        story.pid = int(agent.call("breakpoint_repl_eval", **asked)["output"])
        return stop

    def report(self) -> None:
        """The whole story."""
        story, agent = self.story, self.agent
        stop = self.begin()
        story.look("paused")
        story.source = agent.source("test_it.py")
        line = line_of(STORY, "fails")
        added = self.call("add", "breakpoint_set", BREAKPOINTS, file="test_it.py", line=line)
        self.call("remove", "breakpoint_remove", BREAKPOINTS, id=added["id"])
        self.step(stop)
        start = len(self.ear.heard)
        self.call("resume", "debug_continue", SESSION, THREADS)
        wait_until(lambda: agent.read(BREAKPOINTS)["breakpoints"][2]["hitCount"] > 3, "it spins")
        story.look("running")
        self.ear.until(lambda: self.ear.count(BREAKPOINTS, start) >= 4, "constant hits")
        story.hits = [at for uri, at in self.ear.heard[start:] if uri == BREAKPOINTS]
        (story.root / "enough").touch()
        failed = agent.call("breakpoint_wait")
        self.call("end", "breakpoint_continue", LIST, *URIS[::2], pause_id=failed["pause_id"])
        story.look("over")

    def step(self, stop: dict[str, Any]) -> None:
        """Through `price`, quickly from line to line."""
        start, began, steps = len(self.ear.heard), time.monotonic(), 0
        for _ in range(6):
            self.agent.call("debug_step", pause_id=stop["pause_id"], mode="over")
            steps += 2  # it goes on, and stops
        took = time.monotonic() - began
        heard = sum(uri in (SESSION, THREADS) for uri, _ in self.ear.heard[start:])
        self.story.steps = 2 * steps, heard, took


@pytest.fixture(scope="module", params=ERAS)
def story(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    """One run, from before it to behind it."""
    root = tmp_path_factory.mktemp("spec").resolve()
    (root / "pytest.ini").write_text("[pytest]\naddopts = -p early\n", encoding="utf-8")
    (root / "early.py").write_text(EARLY, encoding="utf-8")
    (root / "test_it.py").write_text(STORY, encoding="utf-8")
    with hearing(server(root), request.param, *URIS, STATUS) as (agent, ear):
        story = Story(agent, 0, root)
        Reporter(story, ear).report()
        yield story


# --- user story 1: the session ------------------------------------------------------------------


@pytest.mark.sample("auto")
def test_the_session_shows_process_state_and_place(story: Story) -> None:
    """US1, scenario 1."""
    body = story.bodies["paused"][SESSION]
    assert body["processId"] == story.pid
    assert body["processName"] == os.path.basename(sys.executable)
    assert body["executablePath"] == sys.executable
    assert body["runtimeVersion"] == ".".join(map(str, sys.version_info[:3]))
    assert (body["state"], body["launchMode"]) == ("paused", "launch")
    assert time.time() - 60 < body["attachedAt"] < story.paused_at[0]
    place = {"file": "test_it.py", "line": line_of(STORY, "price"), "function": "price"}
    assert place.items() <= body["currentLocation"].items()
    assert body["pauseReason"] == "breakpoint"
    assert body["workingDirectory"] == body["rootdir"] == str(story.root)
    assert "pytest" in body["commandLineArgs"]
    running = story.bodies["running"][SESSION]
    assert (running["state"], running["currentLocation"], running["pauseReason"]) == (
        "running",
        None,
        None,
    )
    assert running["processId"] == story.pid


def test_without_a_run_the_session_is_not_listed(story: Story) -> None:
    """US1, scenario 2."""
    assert SESSION not in story.listed["before"]
    assert SESSION not in story.listed["over"]
    assert SESSION in story.listed["paused"]


def test_a_pause_is_heard_of_the_session(story: Story) -> None:
    """US1, scenario 3."""
    began, heard = story.paused_at
    assert 0 <= heard - began < SOON_S


def test_the_end_takes_them_off_the_list_and_is_heard(story: Story) -> None:
    """US1, scenario 4."""
    assert story.heard["end"].count(LIST) == 1
    assert story.listed["over"] == story.listed["before"] == ALWAYS


# --- user story 2: breakpoints ------------------------------------------------------------------


def test_breakpoints_of_all_kinds_are_reported(story: Story) -> None:
    """US2, scenario 1."""
    line, error, trace = story.bodies["paused"][BREAKPOINTS]["breakpoints"]
    assert line == {
        "id": "bp-1",
        "type": "blocking",
        "file": "test_it.py",
        "line": line_of(STORY, "price"),
        "column": None,
        "enabled": True,
        "verified": True,
        "state": "bound",
        "hitCount": 1,
        "condition": "amount == 2",
        "logMessage": None,
    }
    assert (error["type"], error["exceptionType"]) == ("exception", "KeyError")
    assert (trace["type"], trace["logMessage"]) == ("tracepoint", "n={count}")
    assert trace["line"] == line_of(STORY, "spins")


def test_a_breakpoint_that_is_added_or_removed_is_heard_of(story: Story) -> None:
    """US2, scenario 2; the list of resources is the same."""
    for what in ("add", "remove"):
        assert BREAKPOINTS in story.heard[what]
        assert LIST not in story.heard[what]


def test_without_a_run_the_breakpoints_are_not_listed(story: Story) -> None:
    """US2, scenario 3."""
    assert BREAKPOINTS not in story.listed["before"]
    assert BREAKPOINTS not in story.listed["over"]
    assert BREAKPOINTS in story.listed["running"]


# --- user story 3: threads ----------------------------------------------------------------------


def test_threads_are_reported_with_their_states_and_places(story: Story) -> None:
    """US3, scenario 1."""
    body = story.bodies["paused"][THREADS]
    assert body["stale"] is False
    main, other = body["threads"]
    assert (main["name"], main["state"], main["isCurrent"]) == ("MainThread", "paused", True)
    assert main["id"] == story.bodies["paused"][SESSION]["activeThreadId"]
    assert main["location"]["line"] == line_of(STORY, "price")
    assert (other["name"], other["state"], other["isCurrent"]) == ("waits", "running", False)
    assert other["location"]["function"] == "Condition.wait"


def test_a_resume_is_heard_of_the_threads(story: Story) -> None:
    """US3, scenario 2; as the pause is, with the session."""
    assert {SESSION, THREADS} <= set(story.heard["resume"])


def test_threads_are_reported_while_the_tests_run(story: Story) -> None:
    """US3, scenario 3: even live."""
    body = story.bodies["running"][THREADS]
    assert body["stale"] is False
    assert [each["state"] for each in body["threads"]] == ["running", "running"]
    assert body["threads"][0]["location"]["function"] == "spin"


# --- user story 4: sources ----------------------------------------------------------------------


def test_a_source_file_is_read_as_text(story: Story) -> None:
    """US4, scenario 1."""
    assert story.source == STORY


def test_a_source_file_that_is_not_there_is_refused(story: Story) -> None:
    """US4, scenario 2."""
    with pytest.raises(MCPError, match=r"'none\.py' is not found") as caught:
        story.agent.source("none.py")
    assert caught.value.error.code == -32602


def test_without_a_run_no_source_is_reported(story: Story) -> None:
    """US4, scenario 3."""
    assert "no test run yet" in story.refused["debugger://source/test_it.py"]


def test_sources_are_listed_as_a_template(story: Story) -> None:
    """US4, scenario 4."""
    for when in ("starting", "paused", "running"):
        assert story.listed[when] == [*ALWAYS, *URIS, TEMPLATE]


# --- edge cases, and what is left of the requirements -------------------------------------------


def test_a_run_that_starts_is_shown_as_such(story: Story) -> None:
    """Edge case 1."""
    bodies = story.bodies["starting"]
    assert (bodies[SESSION]["state"], bodies[SESSION]["stale"]) == ("starting", False)
    assert bodies[SESSION]["processId"] == story.pid
    assert (bodies[THREADS]["threads"], bodies[THREADS]["stale"]) == ([], True)
    assert len(bodies[BREAKPOINTS]["breakpoints"]) == 3


def test_quick_changes_are_heard_of_together(story: Story) -> None:
    """Edge case 2: any two notifications of one resource are 300 ms apart."""
    changes, heard, took = story.steps
    assert heard <= 2 * (1 + took / 0.3)
    assert heard < changes


def test_constant_changes_are_heard_of_now_and_then(story: Story) -> None:
    """Edge case 2: at the latest after 900 ms."""
    gaps = [later - at for at, later in pairwise(story.hits)]
    assert max(gaps) < 0.9 + SOON_S
    assert sum(gaps) > 0.3 * len(gaps)


def test_hit_counts_are_reported_while_the_tests_run(story: Story) -> None:
    """Edge case 5."""
    counts = {
        when: body[BREAKPOINTS]["breakpoints"][2]["hitCount"] for when, body in story.bodies.items()
    }
    assert counts["starting"] == counts["paused"] == 0
    assert 3 < counts["running"] <= counts["over"]


def test_a_run_that_ends_while_it_is_read_is_no_error(story: Story) -> None:
    """Edge case 6."""
    agent = story.agent
    (story.root / "enough").unlink(missing_ok=True)
    only_stop(agent.call("test_run"))
    agent.call("debug_continue")
    reads = [agent.start_read(uri) for uri in URIS for _ in "123"]
    stopped = agent.start("test_stop", mode="kill")
    for each in reads:
        assert each.result(10)
    assert stopped.result(10)["end"]["kind"] in ("interrupted", "crashed")


def test_the_start_is_heard(story: Story) -> None:
    """FR-006: the list at the start of a run; at its end: US1, scenario 4."""
    assert story.heard["start"].count(LIST) == 1


def test_the_capabilities_say_so(story: Story) -> None:
    """FR-008."""
    reported = story.agent.client.server_capabilities.resources
    assert reported is not None
    assert (reported.subscribe, reported.list_changed) == (True, True)


def test_before_a_run_and_after_it_reads_are_answered(story: Story) -> None:
    """FR-011: a clear error, or the last known state."""
    assert all("test_run starts one" in sentence for sentence in story.refused.values())
    over = story.bodies["over"]
    assert all(body["stale"] for body in over.values())
    assert (over[SESSION]["state"], over[SESSION]["processId"]) == ("finished", story.pid)
    assert over[THREADS]["threads"]
    assert len(over[BREAKPOINTS]["breakpoints"]) == 3
