"""Collections that take longer than a client waits."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.frontend import FrontEnd, front_end, wait_until

IMPATIENT = """
import sys
from cideldill_mcp.tools import tests
tests.LIST_S = 2.0
tests.FRESH_S = {fresh_s}
from cideldill_mcp.cli import main
sys.exit(main())
"""
UNENDED = ("starting", "collecting")
"""What a reply says of a collection that goes on; a busy machine starts its process late."""

WAITS = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n"


def whole_list(server: FrontEnd) -> dict[str, Any]:
    """The reply that has all tests; a busy machine takes longer than the client waits for one."""
    replies: list[dict[str, Any]] = []

    def is_whole() -> bool:
        replies.append(server.call("test_list"))
        return not {"state", "message"} & replies[-1].keys()

    wait_until(is_whole, "the collection has ended")
    return replies[-1]


@pytest.mark.full
@pytest.mark.sample("a test file")
@pytest.mark.parametrize("slow", ["a test file", "the conftest"])
def test_a_collection_goes_on_until_its_client_asks_again(
    make_project: MakeProject, slow: str
) -> None:
    """What there is so far is told before clients give up; then the list is whole."""
    quick = "def test_a(): pass\ndef test_b(): pass\n"
    name = "conftest" if slow == "the conftest" else "test_slow"
    project = make_project(test_quick=quick, **{name: WAITS + "def test_c(): pass\n"})
    command = [sys.executable, "-c", IMPATIENT.format(fresh_s=60), "--", "-p", "no:cacheprovider"]
    with front_end(project, command=command) as server:
        server.initialize()
        there = ["test_quick.py::test_a", "test_quick.py::test_b"]
        found = [] if slow == "the conftest" else there
        wait_until(lambda: server.call("test_list").get("tests") == found, "what there is so far")
        for _ in range(2):
            reply = server.call("test_list")
            assert reply["state"] == "collecting"
            assert reply["tests"] == found
            assert "goes on" in reply["message"]
            assert "call test_list again" in reply["message"]
            assert f"{len(reply['tests'])} tests found" in reply["message"]
        (project / "go").touch()
        assert whole_list(server)["tests"][:2] == there
        (project / "test_quick.py").write_text("def test_new(): pass\n", "utf-8")
        assert whole_list(server)["tests"][0] == "test_quick.py::test_new"
        (project / "go").unlink()
        assert server.call("test_list")["state"] in UNENDED
        assert server.leave() == 0


def has_collected(server: FrontEnd) -> bool:
    return bool(server.call("timeline_get", types=["run_finished"])["events"])


@pytest.mark.full
def test_a_collection_that_ended_long_ago_is_made_anew(make_project: MakeProject) -> None:
    """The files may have changed since."""
    project = make_project(test_it=WAITS + "def test_old(): pass\n")
    command = [sys.executable, "-c", IMPATIENT.format(fresh_s=0), "--", "-p", "no:cacheprovider"]
    with front_end(project, command=command) as server:
        server.initialize()
        assert server.call("test_list")["state"] in UNENDED
        (project / "go").touch()
        wait_until(lambda: has_collected(server), "the collection has ended")
        (project / "test_it.py").write_text("def test_new(): pass\n", "utf-8")
        assert whole_list(server)["tests"] == ["test_it.py::test_new"]
        assert server.leave() == 0
