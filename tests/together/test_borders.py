"""Failures of our own end at a border: outcomes, exit status and output are those without us."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_cideldill.records.format import EVENTS
from tests.together.conftest import MakeProject
from tests.together.driver import DEADLINE_S
from tests.together.frontend import FEW_GUESTS
from tests.together.records import Recorded, command, recorded
from tests.together.workbench import workbench

pytestmark = pytest.mark.long(40)

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
        env={**os.environ, **FEW_GUESTS, **environment(root)},
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


@pytest.mark.full
@pytest.mark.parametrize("mode", MODES)
def test_every_hook_has_a_border(suite: Path, mode: str) -> None:
    recorded(suite, *PLUGINS, *MODES[mode], environment=environment(suite))
    processes = found(suite)
    assert sorted(processes) == (["gw0", "gw1", "main"] if mode == "workers" else ["main"])
    for hooks in processes.values():
        assert len(hooks) > 5
        assert [name for name, has_border in hooks.items() if not has_border] == []


@pytest.mark.full
@pytest.mark.sample("workers")
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


@pytest.mark.full
@pytest.mark.sample("workers", "a record with calls")
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
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.soak)])
def test_any_hook_may_fail_alone(suite: Path, step: int) -> None:
    """One warning, and the failures of the run are counted whichever hook it is.

    The full tier tries every third one, the soak each.
    """
    without = plain(suite)
    expected = outcomes(suite)
    names = hooks_of(suite)
    assert len(names) >= HOOKS
    for name in names[::step]:
        done = recorded(suite, *PLUGINS, record=name, environment=environment(suite, name))
        assert (name, done.exit_code, outcomes(suite)) == (name, without.returncode, expected)
        assert (name, shown(done.out), done.err) == (name, shown(without.stdout), without.stderr)
        assert (name, failures_in(done)) == (name, 3)
        hook = name.partition(".")[2]
        warned = [each["message"] for each in done.of("warning")]
        assert len(warned) <= 1
        assert all(each.startswith(f"pytest-cideldill: {hook} failed: Sab") for each in warned)


ENDINGS = (
    "_put_together of hooks.recording",
    "merge_run of hooks.recording",
    "merge_kept of hooks.recording",
    "write_summaries of hooks.recording",
    "_written_for_people of hooks.recording",
    "_part of hooks.recording",
    "Story of reports.digest",
    "write_report of reports.html",
    "runs_in of reports.digest",
    "append of reports.markdown",
    "without_hits of records.manifest",
    "write_manifest of records.manifest",
)


@pytest.mark.full
@pytest.mark.sample(
    "_put_together of*",
    "merge_kept of*",
    "write_summaries of*",
    "runs_in of*",
    "write_report of*",
    "write_manifest of*",
)
@pytest.mark.parametrize("what", ENDINGS)
def test_what_fails_at_the_end_of_a_record_is_one_line(
    make_project: MakeProject, what: str
) -> None:
    root = make_project(test_x="def test_passes(): pass")
    done = recorded(
        root,
        "-p",
        "injector",
        "--cideldill-summary=summary.md",
        environment={"PYTHONPATH": str(INSIDE), "INJECT": what},
    )
    assert done.exit_code == 0
    assert "Traceback" not in done.out + done.err
    name = what.partition(" ")[0]
    lines = (done.out + done.err).splitlines()
    (reported,) = [each for each in lines if each.startswith(("cideldill: ", "pytest-cideldill: "))]
    assert f"{name} is broken" in reported


@pytest.mark.full
def test_a_file_named_as_a_library_that_the_report_needs_changes_no_exit_status(
    make_project: MakeProject,
) -> None:
    root = make_project(test_x="def test_passes(): pass", html="answer = 42")
    done = recorded(root)
    assert (done.exit_code, done.err) == (0, "")
    assert "Traceback" not in done.out
    assert "cideldill: recorded in" in done.out


NOISY = """
    import pytest

    @pytest.hookimpl(trylast=True)
    def pytest_configure(config):
        host = config.pluginmanager.get_plugin("cideldill-exitstatus").host
        manager = getattr(host, "manager", None)
        def fail(*_, **__):
            raise RuntimeError("broken at the end")
        if manager is not None:
            manager._discovery.close = manager._probes.disarm = manager.lines.disarm = fail
            host.link._close_sockets = fail
        else:
            host.release = host.link.close = fail

        class Other:
            def pytest_unconfigure(self):
                print("another plugin has left")

        config.pluginmanager.register(Other())
        config.add_cleanup(lambda: print("another cleanup was done"))
    """


@pytest.mark.full
@pytest.mark.parametrize("arguments", [(), ("--cideldill-record-calls=test_x.*",)])
def test_cleanups_that_fail_leave_those_of_others_alone(
    make_project: MakeProject, arguments: tuple[str, ...]
) -> None:
    """Failures are in the record; what the link can't take any more is said on stderr."""
    root = make_project(test_x="def test_passes(): pass", conftest=NOISY)
    done = recorded(root, "-s", *arguments)
    assert done.exit_code == 0
    assert "Traceback" not in done.out + done.err
    assert "another plugin has left" in done.out
    assert "another cleanup was done" in done.out
    assert "cideldill: recorded in" in done.out
    warned = [each["message"] for each in done.of("warning")]
    assert any("broken at the end" in each for each in warned)


RUDE = """
    import sys
    def test_rude():
        for tool in (4, 5):
            sys.monitoring.free_tool_id(tool)
            sys.monitoring.use_tool_id(tool, "mine")
        sys.monitoring.set_events(4, sys.monitoring.events.PY_START)
    def test_mine():
        assert [sys.monitoring.get_tool(tool) for tool in (4, 5)] == ["mine"] * 2
        assert sys.monitoring.get_events(4) == sys.monitoring.events.PY_START
    """


@pytest.mark.full
@pytest.mark.skipif(sys.version_info < (3, 12), reason="there is no sys.monitoring")
@pytest.mark.parametrize("frees_only", [False, True])
def test_a_program_may_take_the_tool_ids_of_the_debugger(
    make_project: MakeProject, frees_only: bool
) -> None:
    """They are the program's from then on, also at the end; nothing fails."""
    suite = RUDE
    if frees_only:
        suite = "import sys\ndef test_rude(): sys.monitoring.free_tool_id(4)\n"
    root = make_project(
        test_x=suite,
        conftest="""
            import sys
            def pytest_unconfigure(config):
                config.add_cleanup(lambda: None)
                print([sys.monitoring.get_tool(tool) for tool in (4, 5)])
            """,
    )
    done = recorded(root, "-s", "--cideldill-record-calls=test_x.*")
    assert (done.exit_code, done.err) == (0, "")
    assert "Traceback" not in done.out
    assert "cideldill: recorded in" in done.out


LEAVING = """
    import signal, pytest

    class Late(Exception): pass

    def pytest_configure(config):
        from pytest_cideldill.hooks import reports
        kept, done = reports.category_of, []
        def ring(signum, frame):
            {raises}
        def category(report, config):
            if report.when == "call" and not done:
                done.append(report)
                signal.signal(signal.SIGALRM, ring)
                signal.raise_signal(signal.SIGALRM)
            return kept(report, config)
        reports.category_of = category
    """

WAYS_OUT = {
    "an alarm": ("raise Late('an alarm rang')", 3, "an alarm rang"),
    "pytest.exit": ("pytest.exit('enough', 7)", 7, "enough"),
    "Ctrl-C": ("raise KeyboardInterrupt", 2, "KeyboardInterrupt"),
}


@pytest.mark.full
@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="there are no alarms")
@pytest.mark.parametrize("way", WAYS_OUT)
def test_what_a_signal_raises_while_a_hook_of_ours_runs_belongs_to_pytest(
    make_project: MakeProject, way: str
) -> None:
    raises, code, said = WAYS_OUT[way]
    root = make_project(
        test_x="def test_one(): pass\ndef test_two(): pass",
        conftest=LEAVING.format(raises=raises),
    )
    done = recorded(root)
    assert done.exit_code == code
    assert said in done.out + done.err
    assert done.of("warning") == []


@pytest.mark.full
@pytest.mark.parametrize("name", ["Reporting", "_enter", "Lens", "engine"])
def test_a_start_that_fails_leaves_the_tests_as_without_us(
    make_project: MakeProject, name: str
) -> None:
    root = make_project(
        test_x="def test_one(): pass\ndef test_two(): assert 0",
        early=f"""\
            from pytest_cideldill.interpreter.sealed import load
            child = load("pytest_cideldill.hooks.start")
            def fail(*_, **__): raise RuntimeError("no")
            child.{name} = fail
            """,
    )
    done = recorded(root, "-p", "early")
    assert done.exit_code == 1
    assert "1 failed, 1 passed" in done.out
    reported = "pytest-cideldill: the run is not recorded: RuntimeError: no at early.py:3"
    assert done.err.splitlines()[0] == reported
    assert "Traceback" not in done.out + done.err
