"""Every call of a nasty project is recorded, beside coverage: nothing comes out differently."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.together.conftest import MakeProject
from tests.together.driver import connected, server
from tests.together.nasty import CONFTEST, MEASURING, NASTY, ROUGH, STARTUP, TESTS, measured

pytest.importorskip("coverage")


def plain(project: Path) -> dict[str, str]:
    """The outcome of each test in a run without us."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "--color=no"]
    done = subprocess.run(
        command,
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    found = re.findall(r"^test_(?:nasty|rough)\.py::(\S+) ([A-Z]+)", done.stdout, re.MULTILINE)
    return {name: {"XFAIL": "xfailed"}.get(outcome, outcome.lower()) for name, outcome in found}


@pytest.mark.full
@pytest.mark.sample("ctrace-True-conftest", "sysmon-*", "pytrace-*")
@pytest.mark.parametrize(
    ("core", "branch", "where"),
    [
        ("ctrace", True, "conftest"),
        ("ctrace", False, "startup"),
        (*(("sysmon", False) if sys.version_info >= (3, 12) else ("pytrace", True)), "session"),
    ],
)
def test_a_nasty_project_comes_out_the_same_when_all_of_it_is_recorded(
    make_project: MakeProject, core: str, branch: bool, where: str
) -> None:
    """Nothing is changed by recording, and coverage measures what it measures without us.

    It may start before us, as with `coverage run`, or after, as with pytest-cov.
    """
    project = make_project(
        sitecustomize=STARTUP,
        measuring=MEASURING.format(core=core, branch=branch, where=where),
        conftest=CONFTEST,
        nasty=NASTY,
        test_nasty=TESTS,
        test_rough=ROUGH,
    )
    expected = plain(project)
    seen = measured(project, branch=branch)
    assert set(seen) == {"nasty.py", "test_nasty.py"}
    assert {name for name, outcome in expected.items() if outcome != "passed"} == {
        "test_failing[0]", "test_error", "test_known"
    }  # fmt: skip
    environment = {"PYTHONPATH": str(project)}
    with connected(server(project, "--cideldill-record-calls=*", env=environment)) as agent:
        reply = agent.call("test_run", pause_on="never")
        tests = agent.call("test_results", limit=200, max_chars=200_000)["tests"]
        of_one = {"types": ["call"], "nodeid": "test_nasty.py::test_exceptions"}
        calls = agent.call("timeline_get", **of_one)["events"]
    assert reply["state"] == "finished"
    assert reply.get("warnings", []) == []
    assert {each["nodeid"].partition("::")[2]: each["outcome"] for each in tests} == expected
    assert measured(project, branch=branch) == seen
    assert {call["qualified_name"]: call["status"] for call in calls} == {
        "nasty.cleaning": "exception",
        "nasty.factorial": "exception",
        "nasty.chained": "exception",
        "test_nasty.test_exceptions": "success",
    }
