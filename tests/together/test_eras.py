"""Both eras of the protocol as they are on the wire: versions, capabilities, subscriptions.

The rules are in `docs/resources.md` and in the protocol's own pages. Pushes to a client of the SDK
are in `test_debugger_state.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from tests.together.conftest import MakeProject
from tests.together.frontend import FrontEnd, front_end, wait_until

UPDATED = "notifications/resources/updated"
LIST_CHANGED = "notifications/resources/list_changed"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"

STATUS, NAMES = "breakpoint://status", "breakpoint://breakpoints"
SESSION = "debugger://session"

MODERN = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "0"},
}

CAPABILITIES = {
    "tools": {"listChanged": False},
    "prompts": {"listChanged": False},
    "resources": {"subscribe": True, "listChanged": True},
}


def notifications(end: FrontEnd) -> Iterator[dict[str, Any]]:
    """All that were received about resources."""
    for line in end.written.split(b"\n")[:-1]:
        message = json.loads(line)
        if message.get("method", "").startswith(("notifications/resources", ACKNOWLEDGED)):
            yield message


def changed(end: FrontEnd) -> list[str]:
    """The URIs of changed resources, or the method."""
    return [each["params"].get("uri", each["method"]) for each in notifications(end)]


def until_changed(end: FrontEnd, *wanted: str) -> None:
    """Read until all of these were told."""
    while not set(changed(end)) >= set(wanted):
        end.receive()


@pytest.mark.full
@pytest.mark.sample("2024-11-05", "2025-11-25")
@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
def test_each_version_with_a_handshake(version: str, make_project: MakeProject) -> None:
    """2024-11-05 to 2025-11-25: initialize, subscribe, a tool call, and who is told once."""
    with front_end(make_project(test_it="def test_it(): pass\n")) as end:
        hello = end.initialize(version)
        assert hello["protocolVersion"] == version
        assert {key: hello["capabilities"][key] for key in CAPABILITIES} == CAPABILITIES
        for uri in (NAMES, SESSION, STATUS):
            assert end.request("resources/subscribe", {"uri": uri}) == {}
        assert end.request("resources/unsubscribe", {"uri": STATUS}) == {}
        assert end.call("breakpoint_add", function_name="nothing.at_all")["status"] == "ok"
        until_changed(end, NAMES)
        assert end.call("breakpoint_set_default_behavior", behavior="go")["status"] == "ok"
        while changed(end).count(NAMES) < 2:
            end.receive()
        assert set(changed(end)) == {NAMES}
        assert end.call("test_run")["state"] == "finished"
        until_changed(end, SESSION, LIST_CHANGED)
        while changed(end).count(LIST_CHANGED) < 2:
            end.receive()
        assert set(changed(end)) == {NAMES, SESSION, LIST_CHANGED}
        assert end.leave() == 0
    plain = [each for each in notifications(end) if each["method"] == UPDATED]
    assert all(each["params"].keys() == {"uri"} for each in plain)


def test_the_versions_are_all_there_are() -> None:
    """The capabilities that the server declares."""
    assert HANDSHAKE_PROTOCOL_VERSIONS[0] == "2024-11-05"
    assert HANDSHAKE_PROTOCOL_VERSIONS[-1] == "2025-11-25"
    assert len(HANDSHAKE_PROTOCOL_VERSIONS) == 4
    assert list(MODERN_PROTOCOL_VERSIONS) == [MODERN]


class Modern:
    """A client of 2026-07-28 on raw pipes: each request says what it is."""

    def __init__(self, end: FrontEnd) -> None:
        self.end = end

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        return self.end.request(method, params | {"_meta": ENVELOPE})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = self.request("tools/call", name=tool, arguments=arguments)
        reply = json.loads(result["content"][0]["text"])
        assert isinstance(reply, dict)
        return reply

    def listen(self, *uris: str, lists: bool = False) -> int:
        """The id of a subscription that was acknowledged."""
        wanted: dict[str, Any] = {"resourceSubscriptions": list(uris)} if uris else {}
        if lists:
            wanted["resourcesListChanged"] = True
        params = {"notifications": wanted, "_meta": ENVELOPE}
        id = self.end.ask("subscriptions/listen", params)
        while not self.reported(id):
            self.end.receive()
        (acknowledged,) = self.reported(id)
        assert acknowledged["method"] == ACKNOWLEDGED
        assert acknowledged["params"]["notifications"] == wanted
        return id

    def reported(self, id: int) -> list[dict[str, Any]]:
        """What came for a subscription."""
        found = []
        for each in notifications(self.end):
            # None belongs to the connection: the protocol has no such notifications any more.
            if each["params"]["_meta"][SUBSCRIPTION] == id:
                found.append(each)
        return found

    def changed(self, id: int) -> list[str]:
        """As the function of that name, for one subscription."""
        return [each["params"].get("uri", each["method"]) for each in self.reported(id)[1:]]


@pytest.mark.full
def test_the_version_without_a_handshake(make_project: MakeProject) -> None:
    """2026-07-28: discover, listen, a tool call; each subscription is told what it asked for."""
    with front_end(make_project(test_it="def test_it(): pass\n")) as end:
        client = Modern(end)
        reported = client.request("server/discover")
        assert reported["supportedVersions"] == [MODERN]
        assert {key: reported["capabilities"][key] for key in CAPABILITIES} == CAPABILITIES
        names = client.listen(NAMES, STATUS)
        both = client.listen(NAMES, SESSION, lists=True)
        client.call("breakpoint_add", function_name="nothing.at_all")
        while not (client.changed(both) and len(client.changed(names)) > 1):
            end.receive()
        assert set(client.changed(names)) == {NAMES, STATUS}
        assert set(client.changed(both)) == {NAMES}
        end.send(
            {
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": names, "_meta": ENVELOPE},
            }
        )
        client.call("debug_state")
        before = len(client.changed(names))
        assert client.call("test_run")["state"] == "finished"
        while client.changed(both).count(LIST_CHANGED) < 2 or SESSION not in client.changed(both):
            end.receive()
        assert len(client.changed(names)) == before
        assert client.changed(both).count(LIST_CHANGED) == 2
        listed = client.request("resources/list")["resources"]
        assert NAMES in [each["uri"] for each in listed]
        assert end.leave() == 0


@pytest.mark.full
def test_nothing_of_it_holds_up_the_end(make_project: MakeProject) -> None:
    """A subscription, and a read of a process that does not answer, when the client hangs up."""
    stuck = """
    import ctypes, os
    def test_it():
        os.mkfifo("gate")
        open("stuck", "w").close()
        ctypes.PyDLL(None).read(os.open("gate", os.O_RDWR), ctypes.create_string_buffer(1), 1)
    """
    project = make_project(test_it=stuck)
    with front_end(project) as end:
        client = Modern(end)
        client.listen(SESSION, lists=True)
        client.call("test_run", wait=False)
        wait_until((project / "stuck").exists, "it is stuck")
        end.ask("resources/read", {"uri": "debugger://threads", "_meta": ENVELOPE})
        assert end.leave() == 0
