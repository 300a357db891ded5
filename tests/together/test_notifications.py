"""Notifications of real runs, as they come over the wire.

Tests without a run are in
`tests/server/test_notify.py`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client.extension import ClientExtension, NotificationBinding
from pydantic import BaseModel, ConfigDict

from tests.together.conftest import MakeProject
from tests.together.driver import DEADLINE_S, connected, server
from tests.together.frontend import FrontEnd, front_end, wait_until

PAUSED = "notifications/breakpoint/execution_paused"
RESUMED = "notifications/breakpoint/execution_resumed"
COMPLETED = "notifications/breakpoint/call_completed"

TESTS = """
    def rate(code):
        return 0.1

    def price(amount, each=3):
        if amount < 0:
            raise ValueError(amount)
        return amount * each

    def test_rate():
        assert rate("x") == 0.2

    def test_prices():
        assert price(2) == 6
        try:
            price(-1)
        except ValueError:
            pass

    def test_refused():
        assert price(-2) == 0

    def test_failing():
        assert price(1) == 4
"""

MANY = """
    import pathlib

    def price(amount):
        return amount

    def test_many():
        for amount in range({count}):
            price(amount)
        pathlib.Path("done").touch()
        assert 0
"""


def write(root: Path, text: str) -> None:
    (root / "test_it.py").write_text(text.replace("\n    ", "\n"), encoding="utf-8")


class Session:
    """A front end, and the notifications that came since the last look."""

    def __init__(self, end: FrontEnd) -> None:
        self.end = end
        self._seen = 0

    def run(self, test: str) -> dict[str, Any]:
        """The one stop of a test, run on its own."""
        reply = self.end.call("test_run", nodeids=[f"test_it.py::{test}"], replace=True)
        (stop,) = reply["stops"]
        assert isinstance(stop, dict)
        return stop

    def go_on(self, stop: dict[str, Any], **options: Any) -> dict[str, Any]:
        """The reply of `breakpoint_continue`, which waited."""
        return self.end.call("breakpoint_continue", pause_id=stop["pause_id"], wait=True, **options)

    def news(self, count: int = 0) -> list[tuple[str, dict[str, Any]]]:
        """What was pushed since the last look, at least `count`, in the order of the wire."""
        deadline = time.monotonic() + DEADLINE_S
        start = self._seen
        while len(reported := pushed(self.end.written)) - start < count:
            assert time.monotonic() < deadline, reported[start:]
            self.end.call("debug_state")  # a push may come a moment after the reply
        self._seen = len(reported)
        return reported[start:]

    def until(self, wanted: str) -> list[dict[str, Any]]:
        """The parameters of those with a method, as soon as there is one."""
        found: list[dict[str, Any]] = []
        while not found:
            found += [params for method, params in self.news(1) if method == wanted]
        return found


def pushed(written: bytes) -> list[tuple[str, dict[str, Any]]]:
    """The notifications of ours among all that a server wrote; they rise in `seq`."""
    messages = [json.loads(line) for line in written.split(b"\n")[:-1]]
    reported = [
        (each["method"], each["params"])
        for each in messages
        if each.get("method", "").startswith("notifications/breakpoint/")
    ]
    numbers = [params["seq"] for _, params in reported]
    assert numbers == sorted(set(numbers))
    return reported


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    root = tmp_path_factory.mktemp("pushed")
    (root / "pytest.ini").touch()
    write(root, TESTS)
    arguments = ("-p", "no:cacheprovider", "--cideldill-record-calls=test_it.price")
    with front_end(root, *arguments) as end:
        end.initialize()
        yield Session(end)


@pytest.fixture
def session(shared: Session) -> Iterator[Session]:
    yield shared
    if shared.end.call("debug_state")["state"] not in ("idle", "finished", "crashed"):
        shared.end.call("test_stop", mode="kill")
    shared.end.call("breakpoint_remove", function_name="test_it.rate")
    shared.news()


@pytest.mark.full
def test_a_pause_and_its_end_are_pushed_before_the_reply(session: Session) -> None:
    """Here the client chose an action."""
    session.end.call("breakpoint_add", function_name="test_it.rate")
    stop = session.run("test_rate")
    (paused,) = session.news(1)
    assert paused[0] == PAUSED
    assert isinstance(paused[1].pop("paused_at"), float)
    same = ("pause_id", "phase", "nodeid", "seq")
    known = {"method_name": "rate", "pause_reason": "breakpoint", "worker": "main"}
    assert paused[1] == known | {name: stop[name] for name in same}
    reply = session.go_on(stop, action="skip", fake_result=0.2)
    assert reply["outcomes"]["passed"] == 1
    reported = dict(session.news(2))
    assert reported.keys() == {RESUMED, COMPLETED}
    resumed = {"pause_id": stop["pause_id"], "action": "skip", "by": "client"}
    assert reported[RESUMED] == {**resumed, "method_name": "rate", "seq": reported[RESUMED]["seq"]}
    assert (reported[COMPLETED]["method_name"], reported[COMPLETED]["status"]) == (
        "rate",
        "success",
    )


@pytest.mark.full
def test_recorded_calls_are_pushed_when_they_ended(session: Session) -> None:
    """Those before a stop come before it."""
    reply = session.end.call("test_run", nodeids=["test_it.py::test_prices"])
    assert reply["outcomes"]["passed"] == 1
    reported = session.news(2)
    assert [method for method, _ in reported] == [COMPLETED, COMPLETED]
    assert [params["status"] for _, params in reported] == ["success", "exception"]
    assert {params["method_name"] for _, params in reported} == {"price"}
    stop = session.run("test_failing")
    (call, paused) = session.news(2)
    assert (call[0], paused[0]) == (COMPLETED, PAUSED)
    assert (paused[1]["method_name"], paused[1]["pause_reason"]) == ("test_failing", "test_failure")
    assert session.go_on(stop)["outcomes"]["failed"] == 1


@pytest.mark.full
def test_a_pause_after_a_raise_is_pushed_with_its_reason(session: Session) -> None:
    """The call ends twice: as it raised, and as the client changed it."""
    session.end.call("breakpoint_add", function_name="test_it.price", behavior="go")
    behavior = {"function_name": "test_it.price", "behavior": "exception"}
    session.end.call("breakpoint_set_after_behavior", **behavior)
    stop = session.run("test_refused")
    (paused,) = session.until(PAUSED)
    assert (paused["method_name"], paused["pause_reason"]) == ("price", "exception")
    assert session.go_on(stop, action="skip", fake_result=0)["outcomes"]["passed"] == 1
    session.end.call("breakpoint_remove", function_name="test_it.price")
    (reported,) = session.until(RESUMED)
    assert (reported["method_name"], reported["action"]) == ("price", "skip")


@pytest.mark.full
def test_a_run_that_is_stopped_resumes_its_pauses(session: Session) -> None:
    """`by: stop`."""
    stop = session.run("test_failing")
    session.end.call("test_stop")
    (reported,) = session.until(RESUMED)
    assert (reported["pause_id"], reported["by"]) == (stop["pause_id"], "stop")
    assert (reported["method_name"], reported["action"]) == ("test_failing", "continue")


@pytest.mark.full
def test_a_process_that_dies_takes_its_pause_along(session: Session) -> None:
    """`by: disconnect`; nobody took an action."""
    stop = session.run("test_failing")
    code = "import os; os._exit(3)"
    evaluation = {"pause_id": stop["pause_id"], "expression": code}
    asked = session.end.ask("tools/call", {"name": "breakpoint_repl_eval", "arguments": evaluation})
    while session.end.receive().get("id") != asked:
        pass
    while session.end.call("debug_state")["state"] != "crashed":
        pass
    (reported,) = session.until(RESUMED)
    assert (reported["pause_id"], reported["method_name"]) == (stop["pause_id"], "test_failing")
    assert (reported["action"], reported["by"]) == (None, "disconnect")


@pytest.mark.full
def test_a_pause_that_nobody_touches_is_reported_when_its_lease_ends(
    make_project: MakeProject,
) -> None:
    """`by: lease`."""
    project = make_project(test_it=TESTS)
    with front_end(project, "-p", "no:cacheprovider", "--cideldill-lease=0.2") as end:
        end.initialize()
        end.start("test_run", nodeids=["test_it.py::test_failing"])
        while (message := end.receive()).get("method") != RESUMED:
            pass
    reported = message["params"]
    assert (reported["method_name"], reported["action"], reported["by"]) == (
        "test_failing",
        "continue",
        "lease",
    )


@pytest.mark.full
def test_a_client_that_does_not_read_holds_up_nothing(make_project: MakeProject) -> None:
    """Notifications never block the test; what is too much is coalesced, stops are not.

    The client starts to read when the test has done its work.
    """
    count = 45_000
    project = make_project(test_it=MANY.format(count=count))
    arguments = ("-p", "no:cacheprovider", "--cideldill-record-calls=test_it.price")
    with front_end(project, *arguments) as end:
        end.initialize()
        asked = end.ask("tools/call", {"name": "test_run", "arguments": {}})
        wait_until((project / "done").exists, "the test has done its work")
        awaited = {asked, PAUSED}
        while awaited:
            message = end.receive()
            awaited -= {message.get("id"), message.get("method")}
        reported = pushed(end.written)
        dropped = end.call("timeline_get", limit=1)["dropped"]
    assert reported[-1][0] == PAUSED
    calls = [params for method, params in reported if method == COMPLETED]
    assert len(calls) == len(reported) - 1
    assert sum(1 + params.get("coalesced", 0) for params in calls) == count - dropped


class Params(BaseModel):
    model_config = ConfigDict(extra="allow")


class Watching(ClientExtension):
    """Collects what is pushed, by the last word of its method."""

    identifier = "org.example/watching"

    def __init__(self) -> None:
        self.reported: list[tuple[str, dict[str, Any]]] = []

    def notifications(self) -> list[NotificationBinding[Any]]:
        """All methods of ours."""
        return [self._binding(method) for method in (PAUSED, RESUMED, COMPLETED)]

    def _binding(self, method: str) -> NotificationBinding[Any]:
        async def handler(params: Params) -> None:
            self.reported.append((method, params.model_dump()))

        return NotificationBinding(method=method, params_type=Params, handler=handler)


@pytest.mark.full
def test_a_client_of_the_library_gets_them_too(make_project: MakeProject) -> None:
    project, watching = make_project(test_it=TESTS), Watching()
    with connected(server(project), "legacy", extensions=[watching]) as agent:
        (stop,) = agent.call("test_run", nodeids=["test_it.py::test_failing"])["stops"]
        agent.call("breakpoint_continue", pause_id=stop["pause_id"], wait=True)
    assert [method for method, _ in watching.reported] == [PAUSED, RESUMED]
    assert [params["pause_id"] for _, params in watching.reported] == [stop["pause_id"]] * 2


@pytest.mark.full
def test_a_client_of_the_newest_protocol_gets_none(make_project: MakeProject) -> None:
    """2026-07-28 forbids methods that it does not define; tools tell everything."""
    project, watching = make_project(test_it=TESTS), Watching()
    with connected(server(project), "2026-07-28", extensions=[watching]) as agent:
        (stop,) = agent.call("test_run", nodeids=["test_it.py::test_failing"])["stops"]
        agent.call("breakpoint_continue", pause_id=stop["pause_id"], wait=True)
    assert watching.reported == []
