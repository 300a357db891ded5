"""Failures of our own end at a border: outcomes, exit status and output are those without us."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pytest_cideldill.record.format import EVENTS
from tests.together.conftest import MakeProject
from tests.together.driver import DEADLINE_S
from tests.together.records import Recorded
from tests.together.records import command
from tests.together.records import recorded
from tests.together.workbench import workbench

INSIDE = Path(__file__).parent / "inside"
PLUGINS = ("-p", "saboteur", "-p", "outcome_recorder", "--record-outcomes=outcomes.json")

SUITE = """
    import unittest
    import pytest

    @pytest.fixture
    def broken():
        yield 1
        assert 0, "in teardown"

    def test_passes(): pass
    def test_fails(): assert [1] == [2]
    def test_errs(broken): pass
    @pytest.mark.skip(reason="not now")
    def test_skipped(): pass
    @pytest.mark.xfail
    def test_xfails(): assert 0

    class TestCase(unittest.TestCase):
        def test_one(self): self.assertEqual(1, 2)
    """

HOOKS = 15
"""So many there are at least in a run with all plugins."""


def environment(root: Path, sabotage: str = "") -> dict[str, str]:
    return {"PYTHONPATH": str(INSIDE), "SABOTAGE": sabotage, "SABOTAGE_FILES": str(root)}


def plain(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*PLUGINS, *arguments),
        cwd=root,
        env={**os.environ, **environment(root)},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE_S * 2,
        check=False,
    )


def outcomes(root: Path) -> Any:
    return json.loads((root / "outcomes.json").read_text("utf-8"))


def found(root: Path) -> dict[str, dict[str, bool]]:
    """Process → its hooks, and whether each has a border."""
    files = [each for each in root.glob("*.json") if re.fullmatch(r"main|gw\d", each.stem)]
    return {each.stem: json.loads(each.read_text("utf-8")) for each in files}


def shown(text: str) -> str:
    """What pytest printed, without what differs from run to run and without our own last line."""
    lines = [each for each in text.splitlines() if not each.startswith("cideldill: ")]
    return re.sub(r"in \d+\.\d+s|0x[0-9a-f]+", "…", "\n".join(lines))


@pytest.fixture
def suite(make_project: MakeProject) -> Path:
    return make_project(test_x=SUITE)


MODES = {
    "a bare record": (),
    "a record with calls": ("--cideldill-record-calls=test_x.*",),
    "workers": ("-n2", "--cideldill-record-calls=test_x.*"),
}


@pytest.mark.parametrize("mode", MODES)
def test_every_hook_has_a_border(suite: Path, mode: str) -> None:
    recorded(suite, *PLUGINS, *MODES[mode], environment=environment(suite))
    processes = found(suite)
    assert sorted(processes) == (["gw0", "gw1", "main"] if mode == "workers" else ["main"])
    for hooks in processes.values():
        assert len(hooks) > 5
        assert [name for name, has_border in hooks.items() if not has_border] == []


@pytest.mark.parametrize("arguments", [(), ("-n2",)], ids=["one process", "workers"])
def test_every_hook_of_a_served_run_has_a_border(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    root = tmp_path / "project"
    with workbench(root, *PLUGINS[:2], *arguments, env=environment(root)) as bench:
        bench.write(test_x=SUITE)
        assert bench.run(pause_on="never")["state"] == "finished"
        hooks = found(root)["main" if not arguments else "gw0"]
    assert len(hooks) >= HOOKS
    assert [name for name, has_border in hooks.items() if not has_border] == []


@pytest.mark.parametrize("mode", MODES)
def test_hooks_that_all_fail_change_nothing_but_warnings(suite: Path, mode: str) -> None:
    workers = [each for each in MODES[mode] if each == "-n2"]
    without = plain(suite, *workers)
    expected = outcomes(suite)
    done = recorded(suite, *PLUGINS, *MODES[mode], environment=environment(suite, "all"))
    assert (done.exit_code, outcomes(suite)) == (without.returncode, expected)
    if not workers:  # two processes end in any order
        assert shown(done.out) == shown(without.stdout)
    assert done.err == without.stderr
    for run in done.runs:  # workers that were told nothing of a run record one of their own
        lines = (run / EVENTS).read_text("utf-8").splitlines()
        warned = [line["message"] for line in map(json.loads, lines) if line["type"] == "warning"]
        assert len(warned) == len(set(warned))
        assert any(
            "_logreport failed: Sabotage: pytest_runtest_logreport" in each for each in warned
        )


def failures_in(done: Recorded) -> int:
    outcomes = json.loads((done.run / "run.json").read_text("utf-8"))["outcomes"]
    return int(outcomes.get("failed", 0) + outcomes.get("error", 0))


def hooks_of(suite: Path) -> list[str]:
    recorded(suite, *PLUGINS, record="first", environment=environment(suite))
    return list(found(suite)["main"])


@pytest.mark.full
@pytest.mark.timeout(300)
def test_any_hook_may_fail_alone(suite: Path) -> None:
    """One warning, and the failures of the run are counted whichever hook it is."""
    without = plain(suite)
    expected = outcomes(suite)
    names = hooks_of(suite)
    assert len(names) >= HOOKS
    for name in names:
        done = recorded(suite, *PLUGINS, record=name, environment=environment(suite, name))
        assert (name, done.exit_code, outcomes(suite)) == (name, without.returncode, expected)
        assert (name, shown(done.out), done.err) == (name, shown(without.stdout), without.stderr)
        assert (name, failures_in(done)) == (name, 3)
        hook = name.partition(".")[2]
        warned = [each["message"] for each in done.of("warning")]
        assert len(warned) <= 1
        assert all(each.startswith(f"pytest-cideldill: {hook} failed: Sab") for each in warned)
