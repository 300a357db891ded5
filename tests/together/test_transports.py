"""One server, several ways in: stdio, Streamable HTTP of both eras, SSE; all see one state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from tests.together.driver import DEADLINE_S, Agent
from tests.together.frontend import FrontEnd, wait_until
from tests.together.hearing import LIST, hearing
from tests.together.test_notifications import PAUSED, RESUMED, Watching, pushed
from tests.together.web import Place, over_http, over_sse, stateless, tool_call, web_end

TESTS = """
def price(amount):
    return amount * 3

def other(amount):
    return amount

def test_price():
    assert price(2) == 6

def test_failing():
    assert price(1) == 4
"""

Ways = dict[str, Agent]


class Desk:
    """A front end that serves everything, and how to come in."""

    def __init__(self, end: FrontEnd, place: Place) -> None:
        self.end = end
        self.place = place


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    root = tmp_path_factory.mktemp("desk")
    (root / "pytest.ini").touch()
    (root / "test_it.py").write_text(TESTS, encoding="utf-8")
    with web_end(root, "--cideldill-mcp") as (end, place):
        end.initialize()
        yield Desk(end, place)


@pytest.fixture
def fresh(desk: Desk) -> Iterator[Desk]:
    """The desk, without breakpoints and runs afterwards."""
    yield desk
    if desk.end.call("debug_state")["state"] not in ("idle", "finished", "crashed"):
        desk.end.call("test_stop", mode="kill")
    for name in desk.end.call("breakpoint_list_breakpoints")["breakpoints"]:
        desk.end.call("breakpoint_remove", function_name=name)


@pytest.fixture(scope="module")
def ways(desk: Desk) -> Iterator[Ways]:
    """A client for each way in over HTTP."""
    with ExitStack() as stack:
        yield {
            "session": stack.enter_context(over_http(desk.place, "legacy")),
            "stateless": stack.enter_context(over_http(desk.place)),
            "sse": stack.enter_context(over_sse(desk.place)),
        }


def names(reply: dict[str, Any]) -> list[str]:
    found = reply["breakpoints"]
    assert isinstance(found, list)
    return found


def everyone_sees(desk: Desk, ways: Ways) -> list[str]:
    """The names of the breakpoints, which all clients must see alike."""
    clients: list[Any] = [desk.end, *ways.values()]
    (alike,) = {tuple(names(client.call("breakpoint_list_breakpoints"))) for client in clients}
    return list(alike)


@pytest.mark.full
def test_every_client_sees_what_any_other_one_changed(fresh: Desk, ways: Ways) -> None:
    """Over every pair of transports, both ways."""
    fresh.end.call("breakpoint_add", function_name="test_it.price")
    assert everyone_sees(fresh, ways) == ["test_it.price"]
    for agent in ways.values():
        agent.call("breakpoint_remove", function_name="test_it.price")
        assert everyone_sees(fresh, ways) == []
        agent.call("breakpoint_add", function_name="test_it.price", behavior="go")
        assert everyone_sees(fresh, ways) == ["test_it.price"]
    fresh.end.call("breakpoint_remove", function_name="test_it.price")
    assert everyone_sees(fresh, ways) == []


@pytest.mark.full
@pytest.mark.parametrize("way", ["session", "stateless", "sse"])
def test_every_way_in_offers_the_same(fresh: Desk, ways: Ways, way: str) -> None:
    """`server/discover` finds 2026-07-28."""
    client = ways[way].client
    expected = {"session": "2025-11-25", "stateless": "2026-07-28", "sse": "2025-11-25"}
    assert client.protocol_version == expected[way]
    assert client.instructions is not None
    assert client.instructions.startswith("Debugs pytest tests")
    listed = fresh.end.request("tools/list")["tools"]
    assert [tool.name for tool in ways[way].tools()] == [tool["name"] for tool in listed]
    assert ways[way].read("breakpoint://status")["state"] == "idle"
    assert "with the tools of this server" in ways[way].prompt("debug-session-start")
    refused = ways[way].refused("breakpoint_add", function_name=" ")
    assert refused["error"] == "missing_parameter"


@pytest.mark.full
def test_clients_that_add_and_remove_at_once_lose_nothing(fresh: Desk, ways: Ways) -> None:

    def change(number: int, agent: Agent) -> None:
        for round in range(4):
            name = f"shop.f{number}_{round}"
            agent.call("breakpoint_add", function_name=name)
            if round % 2:
                agent.call("breakpoint_remove", function_name=name)

    with ThreadPoolExecutor() as pool:
        changes = [pool.submit(change, n, agent) for n, agent in enumerate(ways.values())]
        for each in changes:
            each.result(DEADLINE_S)
    left = [f"shop.f{number}_{round}" for number in range(len(ways)) for round in (0, 2)]
    assert everyone_sees(fresh, ways) == left


@pytest.mark.full
def test_two_clients_of_one_kind_see_the_same_and_one_of_them_wins(fresh: Desk) -> None:
    """Resolution is atomic."""
    for comes_in in (over_sse, over_http):
        with comes_in(fresh.place) as one, comes_in(fresh.place) as two:
            (stop,) = one.call("test_run", nodeids=["test_it.py::test_failing"])["stops"]
            pause_id = stop["pause_id"]
            assert [p["id"] for p in two.call("breakpoint_list_paused")["paused"]] == [pause_id]
            calls = [
                each.start("breakpoint_continue", pause_id=stop["pause_id"]) for each in (one, two)
            ]
            errors = [each.exception(DEADLINE_S) for each in calls]
            assert sorted(error is None for error in errors) == [False, True]
            (lost,) = (error for error in errors if error is not None)
            assert lost.body["reason"] == "already_resumed"
            wait_until(lambda: one.call("debug_state")["state"] == "finished", "it is over")


@pytest.mark.full
def test_each_client_is_notified_of_a_stop_once(fresh: Desk, ways: Ways) -> None:
    """A client is a connection or a session; stateless ones share a cursor."""
    (stop,) = fresh.end.call("test_run", nodeids=["test_it.py::test_failing"])["stops"]
    for agent in ways.values():
        assert agent.call("debug_state")["pending"]["stops"] == 1
        assert agent.call("breakpoint_wait")["pause_id"] == stop["pause_id"]
        assert agent.call("breakpoint_wait")["reason"] == "paused"
        assert "pending" not in agent.call("debug_state")
    with over_http(fresh.place, "legacy") as session, over_http(fresh.place) as stateless:
        assert session.call("breakpoint_wait")["pause_id"] == stop["pause_id"]
        assert stateless.call("breakpoint_wait")["reason"] == "paused"
        reported = stateless.call("breakpoint_wait", after=0)
        assert reported["pause_id"] == stop["pause_id"]


@pytest.mark.full
def test_a_pause_is_pushed_to_every_connected_client(fresh: Desk) -> None:
    """Not to those of 2026-07-28."""
    watching = {way: Watching() for way in ("session", "stateless", "sse")}
    before = len(pushed(fresh.end.written))
    with (
        over_http(fresh.place, "legacy", extensions=[watching["session"]]),
        over_sse(fresh.place, extensions=[watching["sse"]]),
        over_http(fresh.place, "2026-07-28", extensions=[watching["stateless"]]) as agent,
    ):
        (stop,) = agent.call("test_run", nodeids=["test_it.py::test_failing"])["stops"]
        agent.call("breakpoint_continue", pause_id=stop["pause_id"], wait=True)
        for way in ("session", "sse"):
            reported = watching[way].reported
            wait_until(lambda reported=reported: len(reported) == 2, f"both are pushed: {way}")  # type: ignore[misc]
            assert [method for method, _ in reported] == [PAUSED, RESUMED]
            assert {params["pause_id"] for _, params in reported} == {stop["pause_id"]}
    assert watching["stateless"].reported == []

    def over_stdio() -> list[tuple[str, dict[str, Any]]]:
        fresh.end.call("debug_state")
        return pushed(fresh.end.written)[before:]

    wait_until(lambda: len(over_stdio()) >= 2, "both are pushed over stdio")
    assert over_stdio() == watching["sse"].reported == watching["session"].reported


@pytest.mark.full
@pytest.mark.sample("over_http-auto", "over_sse-legacy")
@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@pytest.mark.parametrize(
    ("connect", "mode"), [(over_http, "legacy"), (over_http, "auto"), (over_sse, "legacy")]
)
def test_a_subscriber_hears_what_any_client_changed(
    fresh: Desk, connect: Callable[..., Any], mode: str
) -> None:
    """The handshake's way, and `subscriptions/listen`."""
    uris = ("breakpoint://breakpoints", "debugger://session")
    with hearing(fresh.place, mode, *uris, connect=connect) as (_, ear):
        added = {"function_name": "test_it.price"}
        ear.by(lambda: fresh.end.call("breakpoint_add", **added), uris[0])
        ear.by(lambda: fresh.end.call("test_run"), uris[1], LIST)


# --- clients that go ----------------------------------------------------------------------------


def paused_id(agent: Agent) -> str:
    """The id of the one pause, as soon as there is one."""

    def found() -> list[dict[str, Any]]:
        paused = agent.call("breakpoint_list_paused")["paused"]
        assert isinstance(paused, list)
        return paused

    wait_until(lambda: bool(found()), "the test is paused")
    (pause,) = found()
    return str(pause["id"])


@pytest.mark.full
@pytest.mark.sample("session", "sse")
@pytest.mark.parametrize("way", ["session", "stateless", "sse"])
def test_a_client_that_vanishes_in_the_middle_disturbs_nobody(
    fresh: Desk, ways: Ways, way: str
) -> None:
    """Neither those who are connected nor the run that it asked for."""
    place, other = fresh.place, ways["session"]
    asked = tool_call("test_run", nodeids=["test_it.py::test_failing"], timeout_s=60)
    waits = tool_call("breakpoint_wait", 2, timeout_s=60)
    if way == "sse":
        with place.sse() as (_, path):
            assert place.post(asked, path).status == 202
            id = paused_id(other)
            assert place.post(waits, path).status == 202
        wait_until(lambda: place.post(waits, path).status == 404, "it is forgotten")
    elif way == "session":
        session = place.session()
        with place.stream(headers=session), place.under_way(asked, headers=session):
            id = paused_id(other)
            with place.under_way(waits, headers=session):
                assert place.request("GET", headers=place.usual(session)).status == 409
        # The session stays; its stream can be opened again when the old one is known to be gone.
        wait_until(lambda: place.can_listen(session), "its stream is gone")
        assert place.post(tool_call("debug_state"), headers=session).status == 200
    else:
        message, headers = stateless(asked)
        with place.under_way(message, headers=headers):
            id = paused_id(other)
    over = other.call("breakpoint_continue", pause_id=id, wait=True)
    assert over["outcomes"]["failed"] == 1
