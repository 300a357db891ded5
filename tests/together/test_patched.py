"""Each public function of the modules that tests patch, patched while a test is watched.

The functions are found by their modules; what is left out stands here with its reason. What a run
without us counts, and how its tests end, is what watched runs must have.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.together.driver import DEADLINE_S
from tests.together.driver import only_stop
from tests.together.frontend import FEW_GUESTS
from tests.together.frontend import clean_environment
from tests.together.records import recorded
from tests.together.workbench import workbench

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]

MODES = {
    "counts": "mock.Mock(side_effect=original)",
    "raises": "mock.Mock(side_effect=OSError)",
    "gives a mock": "mock.MagicMock()",
}

FUNCTIONS = """
    import importlib, json, pathlib, types
    from unittest import mock
    import pytest

    MODULES = (
        "os os.path time io sqlite3 json ast linecache inspect socket threading _thread select "
        "signal random pickle copy importlib tempfile builtins"
    ).split()
    # Everything that runs needs these, the mock among it.
    LEFT_OUT = {{"builtins.isinstance", "builtins.type", "builtins.object"}}
    LEFT_OUT |= set(pathlib.Path("left_out").read_text().split())

    def functions():
        for module in MODULES:
            held = vars(importlib.import_module(module))
            for name, value in sorted(held.items()):
                is_function = isinstance(value, types.FunctionType | types.BuiltinFunctionType)
                if is_function and not name.startswith("_"):
                    if f"{{module}}.{{name}}" not in LEFT_OUT:
                        yield f"{{module}}.{{name}}"

    NAMES = list(functions())
    SEEN = []

    def patch(name):
        # Gives what takes the patch away.
        module, _, function = name.rpartition(".")
        held = importlib.import_module(module).__dict__
        original = held[function]
        made = {made}

        def undo():
            held[function] = original
            SEEN.append([name, made.call_count])

        held[function] = made
        return undo

    @pytest.fixture
    def patched(name):
        undo = patch(name)
        yield
        undo()

    @pytest.fixture(scope="session", autouse=True)
    def seen():
        yield
        pathlib.Path("seen").write_text(json.dumps(SEEN))
"""

WATCHED = """
    def busy(x):
        return inner(x)

    def inner(x):
        y = x + 1
        return y  # watched

    def table(held):
        return held["missing"]

    @pytest.mark.parametrize("name", NAMES)
    def test_it(name):
        undo = patch(name)
        value = busy(1)
        try:
            table({})
        except KeyError:
            value += 1
        undo()
        assert value == 3
"""

FAILING = """
    @pytest.mark.parametrize("name", NAMES)
    def test_it(name, patched):
        held = {}
        assert held["missing"]
"""


def suite(root: Path, mode: str, tests: str, left_out: set[str]) -> Path:
    """The test file of a project, made there."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "pytest.ini").touch()
    (root / "left_out").write_text(" ".join(left_out), encoding="utf-8")
    text = textwrap.dedent(FUNCTIONS).format(made=MODES[mode]) + textwrap.dedent(tests)
    (root / "test_x.py").write_text(text, encoding="utf-8")
    return root


def without_us(root: Path) -> dict[str, int]:
    """Name → how often it was called, where the run came to its end."""
    subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cideldill", "-p", "no:cacheprovider"],
        cwd=root,
        env=clean_environment(),
        capture_output=True,
        timeout=DEADLINE_S * 4,
        check=False,
    )
    return seen(root)


def seen(root: Path) -> dict[str, int]:
    return dict(json.loads((root / "seen").read_text(encoding="utf-8")))


def differences(root: Path, expected: dict[str, int]) -> dict[str, tuple[int, int | None]]:
    found = seen(root)
    return {
        name: (count, found.get(name))
        for name, count in expected.items()
        if found.get(name) != count
    }


def line_of(root: Path, mark: str) -> int:
    lines = (root / "test_x.py").read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if mark in line)


@pytest.mark.parametrize("mode", MODES)
def test_calls_lines_raises_and_evaluations_make_no_call_of_what_is_patched(
    tmp_path: Path, mode: str
) -> None:
    """At each of the three stops, under the patch, an expression is evaluated."""
    expected = without_us(suite(tmp_path / "plain", mode, WATCHED, set()))
    assert len(expected) > 450
    with workbench(tmp_path / "served") as bench:
        root = suite(bench.root, mode, WATCHED, set())
        bench.breakpoint("test_x.inner")
        line = line_of(root, "# watched")
        bench.agent.call("breakpoint_set", file="test_x.py", line=line)
        bench.agent.call("breakpoint_set_exception", exception_type="KeyError")
        reply, phases = bench.run(), Counter[str]()
        while reply["state"] == "paused":
            stop = only_stop(reply)
            phases[stop["phase"]] += 1
            assert bench.eval(stop, "1 + 1") == "2", stop
            reply = bench.go_on(stop)
        assert reply["outcomes"] == {"passed": len(expected), "failed": 0}
        assert phases == dict.fromkeys(("before", "line", "raise"), len(expected))
        assert differences(root, expected) == {}


@pytest.mark.parametrize("mode", MODES)
def test_hits_and_recorded_calls_make_no_call_of_what_is_patched(tmp_path: Path, mode: str) -> None:
    expected = without_us(suite(tmp_path / "plain", mode, WATCHED, set()))
    root = suite(tmp_path / "recorded", mode, WATCHED, set())
    watched = f"--cideldill-trace=test_x.py:{line_of(root, '# watched')}={{y}}"
    run = recorded(root, watched, "--cideldill-record-calls=test_x.busy", environment=FEW_GUESTS)
    assert run.exit_code == 0
    assert f"{len(expected)} hits, {len(expected)} calls, 0 dropped" in run.out
    assert differences(root, expected) == {}


FATAL = {"builtins.getattr", "builtins.len", "threading.excepthook"}
"""Without them a plain run does not come to its end, or its mock calls itself."""


@pytest.mark.parametrize("pause_on", ["never", "failure"])
@pytest.mark.parametrize("mode", MODES)
def test_failures_whose_patch_is_alive_are_told_as_without_us(
    tmp_path: Path, mode: str, pause_on: str
) -> None:
    """Until teardown. What pytest itself calls meanwhile is only counted: it would fail."""
    expected = without_us(suite(tmp_path / "counted", "counts", FAILING, FATAL))
    left_out = set(FATAL)
    if mode != "counts":
        left_out |= {name for name, count in expected.items() if count}
        expected = without_us(suite(tmp_path / "plain", mode, FAILING, left_out))
        assert not any(expected.values())
    assert len(expected) > 350
    with workbench(tmp_path / "served") as bench:
        root = suite(bench.root, mode, FAILING, left_out)
        reply: dict[str, Any] = bench.run(pause_on=pause_on)
        stops = 0
        while reply["state"] == "paused":
            stop = only_stop(reply)
            stops += 1
            assert stop["exception"]["type"] == "KeyError"
            assert bench.eval(stop, "1 + 1") == "2", stop
            reply = bench.go_on(stop)
        assert (reply["state"], reply["exit_code"]) == ("finished", 1)
        assert reply["outcomes"] == {"passed": 0, "failed": len(expected)}
        assert stops == (len(expected) if pause_on == "failure" else 0)
        assert differences(root, expected) == {}


@pytest.mark.parametrize("mode", MODES)
def test_failures_whose_patch_is_alive_are_recorded_as_without_us(
    tmp_path: Path, mode: str
) -> None:
    expected = without_us(suite(tmp_path / "counted", "counts", FAILING, FATAL))
    left_out = FATAL | {name for name, count in expected.items() if count}
    expected = without_us(suite(tmp_path / "plain", mode, FAILING, left_out))
    root = suite(tmp_path / "recorded", mode, FAILING, left_out)
    run = recorded(root, environment=FEW_GUESTS)
    assert run.exit_code == 1
    failed = [each for each in run.of("test_phase") if each["category"] == "failed"]
    assert len(failed) == len(expected) > 350
    assert differences(root, expected) == {}
