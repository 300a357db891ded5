"""Workers of xdist on other machines: other addresses, other folders, none of our files.

The rules are in `docs/remote.md`.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.together.driver import locals_of, only_stop
from tests.together.machines import HERE, gateways, ssh
from tests.together.transcript import blocks
from tests.together.workbench import Bench, workbench

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]

PROJECT = {
    "pytest.ini": "[pytest]\npythonpath = .\n",
    "shop.py": """\
        def total(n):
            twice = n * 2
            return twice
        """,
    "conftest.py": "import shop\nSEEN = shop.total(21)\n",
    "test_it.py": """\
        import pathlib
        import pytest
        import shop

        @pytest.mark.parametrize("n", range(4))
        def test_good(n): assert shop.total(n) == n * 2
        @pytest.mark.skip
        def test_skipped(): pass
        def test_bad():
            folder = pathlib.Path.cwd().name
            assert shop.total(5) == 11
        """,
}
TWICE = 2
"""The line of `shop.py`."""

BIND = f"--cideldill-bind={HERE}"


@pytest.fixture
def away(tmp_path: Path) -> Path:
    """The folder of the other machines, with the project in it."""
    folder = tmp_path / "away" / "checkout"
    folder.mkdir(parents=True)
    for name, text in PROJECT.items():
        (folder / name).write_text(textwrap.dedent(text), "utf-8")
    shutil.copytree(folder, tmp_path / "project")
    return folder


def seen_everywhere(bench: Bench, stop: dict[str, Any]) -> tuple[str, str]:
    """Worker and folder, as the stopped process has them."""
    return stop["pause_id"].split(".")[1], bench.eval(stop, "__import__('pathlib').Path.cwd().name")


def test_workers_of_other_machines_are_debugged_like_those_of_this_one(
    away: Path, tmp_path: Path
) -> None:
    """Breakpoints bind by paths from the rootdir, conftests included; results are told that way.

    A server of execnet is one process for worker after worker: the second run works as the first.
    """
    with (
        gateways(away, 2) as arguments,
        workbench(tmp_path / "project", BIND, *arguments) as bench,
    ):
        line = bench.agent.call("breakpoint_set", file="shop.py", line=TWICE, condition="n == 5")
        traced = bench.agent.call(
            "tracepoint_set", file="shop.py", line=TWICE + 1, log_message="{twice}"
        )
        bench.breakpoint("shop.total", condition="n == 3")
        for _ in range(2):
            reply = bench.run()
            assert "warnings" not in reply
            stops = {}
            while reply["state"] == "paused":
                (stop, *_) = bench.until_paused(1)
                stops[stop["phase"]] = stop
                worker, folder = seen_everywhere(bench, stop)
                assert (worker in ("gw0", "gw1"), folder) == (True, "'checkout'")
                reply = bench.go_on(stop)
            assert stops["before"]["call_data"]["qualified_name"] == "shop.total"
            assert stops["line"]["location"]["file"] == "shop.py"
            assert stops["line"]["breakpoint_id"] == line["id"]
            assert stops["post_mortem"]["location"]["file"] == "test_it.py"
            assert locals_of(stops["post_mortem"]) == {"folder": "'checkout'"}
            assert (reply["exit_code"], reply["outcomes"]) == (
                1,
                {"passed": 4, "failed": 1, "skipped": 1},
            )
        # In each run: both conftests, and the tests.
        assert bench.listed(traced["tracepoint"]["id"])["hit_count"] == 2 + 5
        hits = bench.agent.call("timeline_get", types=["hit"], run_id="r2")["events"]
        assert sorted(hit["message"] for hit in hits) == sorted(
            ["42", "42", "0", "2", "4", "6", "10"]
        )
        assert {hit["location"]["file"] for hit in hits} == {"shop.py"}
        for test in bench.results().values():
            assert test["worker"] in ("gw0", "gw1")


def test_what_needs_files_of_this_machine_is_done_without_or_reported(
    away: Path, tmp_path: Path
) -> None:
    """Objects stay where they are: they are found as long as a thread is paused there."""
    arguments, environment = ssh(away, tmp_path / "tools")
    with workbench(tmp_path / "project", BIND, *arguments, env=environment) as bench:
        stop = only_stop(bench.run(["test_it.py::test_bad"]))
        assert seen_everywhere(bench, stop) == ("gw0", "'checkout'")
        made = bench.agent.call(
            "breakpoint_repl_eval", pause_id=stop["pause_id"], expression="[{'a': 1}]"
        )["result_cid"]
        part = bench.agent.call("breakpoint_inspect_object", cid=made, path="[0]")
        assert (part["type"], part["repr"]) == ("dict", "{'a': 1}")
        refused = bench.agent.refused("breakpoint_inspect_object", cid="0" * 128)
        assert "other machines" in refused["message"]
        (running,) = bench.agent.call("debug_state")["running"]
        assert (running["nodeid"], running["worker"]) == ("test_it.py::test_bad", "gw0")
        assert 0 <= running["seconds"] < 60
        (thread,) = [each for each in bench.agent.call("threads_list")["threads"] if each["paused"]]
        assert thread["worker"] == "gw0"
        reply = bench.go_on(stop)
        assert (reply["exit_code"], reply["outcomes"]) == (1, {"passed": 0, "failed": 1})
        assert (
            bench.agent.refused("breakpoint_inspect_object", cid=made)["error"] == "cid_not_found"
        )


COMMANDS = [
    line.replace("\\\n", " ")
    for block in blocks((ROOT / "docs" / "remote.md").read_text("utf-8"), "sh")
    for line in re.split(r"\n(?=\S)", block)
    if line.startswith("pytest ")
]


@pytest.mark.parametrize("line", COMMANDS, ids=["ssh", "proxy", "tunnel"])
def test_the_commands_of_the_documentation_reach_workers_there(
    line: str, away: Path, tmp_path: Path
) -> None:
    """Only names of machines and files are others here."""
    for documented, here in (
        ("192.0.2.7", HERE),
        ("7007", "0"),
        ("/srv/venv/bin/python", sys.executable),
        ("/srv/checkout", str(away)),
    ):
        line = line.replace(documented, here)
    pytest_, mcp, *arguments = shlex.split(line)
    assert (pytest_, mcp) == ("pytest", "--cideldill-mcp")
    _, environment = ssh(away, tmp_path / "tools")
    with workbench(tmp_path / "project", *arguments, env=environment) as bench:
        reply = bench.run(["test_it.py::test_bad"])
        assert "warnings" not in reply
        assert seen_everywhere(bench, only_stop(reply))[1] == "'checkout'"


def test_without_the_option_they_run_undebugged_and_one_warning_says_how_to_change_that(
    away: Path, tmp_path: Path
) -> None:
    """Their outcomes are those that xdist tells, and the wanted tests are chosen there as well."""
    with gateways(away, 2) as arguments, workbench(tmp_path / "project", *arguments) as bench:
        id = bench.agent.call("breakpoint_set", file="shop.py", line=TWICE)["id"]
        reply = bench.run()
        assert (reply["state"], reply["exit_code"]) == ("finished", 1)
        assert reply["outcomes"] == {"passed": 4, "failed": 1, "skipped": 1}
        (warning,) = reply["warnings"]
        assert "gw0, gw1" in warning
        assert "--cideldill-bind" in warning
        assert reply["neverHit"] == [
            {"id": id, "whyNotHit": "other_worker (gw0, gw1 ran undebugged)"}
        ]
        (failure,) = reply["failures"]
        assert failure["nodeid"] == "test_it.py::test_bad"
        assert failure["exception"]["message"].startswith("assert 10 == 11")
        tests = bench.results()
        assert tests["test_skipped"]["outcome"] == "skipped"
        assert "shop.total(5) == 11" in tests["test_bad"]["longrepr"]
        events = bench.agent.call("timeline_get", types=["test_outcome"])["events"]
        assert {event["worker"] for event in events} <= {"gw0", "gw1"}
        assert len(events) == 6
        reply = bench.run(["test_it.py::test_good[1]", "test_it.py::test_nowhere"])
        assert (reply["outcomes"], reply["exit_code"]) == ({"passed": 1, "failed": 0}, 0)
        assert reply["missing"] == ["test_it.py::test_nowhere"]


CUT_OFF = f"""\
import sys
def look(event, arguments):
    if event == "socket.connect" and arguments[1][0] == "{HERE}":
        raise OSError("no route to host")
sys.addaudithook(look)
"""


def test_a_worker_that_can_not_reach_the_server_is_named_and_its_tests_are_reported(
    away: Path, tmp_path: Path
) -> None:
    """A worker that never connects. It chooses the same tests as the others."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "sitecustomize.py").write_text(CUT_OFF, "utf-8")
    with (
        gateways(away, 1) as near,
        gateways(away, 1, PYTHONPATH=str(tools)) as far,
        workbench(tmp_path / "project", BIND, *near, *far) as bench,
    ):
        wanted = ["test_it.py::test_good", "test_it.py::test_skipped"]
        reply = bench.run(wanted)
        assert (reply["state"], reply["exit_code"]) == ("finished", 0)
        assert reply["outcomes"] == {"passed": 4, "failed": 0, "skipped": 1}
        order, warning = reply["warnings"]
        assert warning.startswith("xdist worker gw1: not connected")
        assert order.startswith("with several workers the order of nodeids is not kept")
        assert {test["worker"] for test in bench.results().values()} == {"gw0", "gw1"}


def test_an_address_that_this_machine_does_not_have_is_refused_by_name(tmp_path: Path) -> None:
    """A sentence that names the option, and no run; the server lives on."""
    with workbench(tmp_path / "project", "--cideldill-bind=203.0.113.7") as bench:
        bench.write(test_it="def test_it(): pass\n")
        refused = bench.agent.refused("test_run")
        assert "--cideldill-bind=203.0.113.7" in refused["message"]
        assert bench.agent.call("debug_state")["state"] == "idle"
