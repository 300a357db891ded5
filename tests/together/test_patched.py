"""Each public function of the modules that tests patch, patched while a test is watched.

The functions are found by their modules; what is left out stands here with its reason. What a run
without us counts, and how its tests end, is what watched runs must have.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.together.driver import DEADLINE_S, exception_of, only_stop
from tests.together.frontend import clean_environment
from tests.together.records import recorded
from tests.together.workbench import workbench

pytestmark = [pytest.mark.full, pytest.mark.long(25), pytest.mark.timeout(300)]

MODES = {
    "counts": "mock.Mock(side_effect=original)",
    "raises": "mock.Mock(side_effect=OSError)",
    "gives a mock": "mock.MagicMock()",
}


FUNCTIONS = """
    import importlib, pathlib
    from unittest import mock
    import pytest
    from conftest import KINDS

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
                if callable(value) and not name.startswith("_"):
                    if f"{{module}}.{{name}}" not in LEFT_OUT:
                        yield f"{{module}}.{{name}}"

    NAMES = list(functions())[::{step}]
    pathlib.Path("names").write_text(" ".join(NAMES))
    SEEN = open("seen", "w")

    def patch(name):
        # Gives what takes the patch away.
        module, _, function = name.rpartition(".")
        held = importlib.import_module(module).__dict__
        original = held[function]
        made = {made}

        def undo():
            held[function] = original
            print(name, made.call_count, (KINDS or [None])[-1], file=SEEN, flush=True)

        held[function] = made
        return undo

    @pytest.fixture
    def patched(name):
        pathlib.Path("current").write_text(name)
        undo = patch(name)
        yield
        undo()

"""

KINDS = """
    KINDS = []

    def pytest_runtest_makereport(item, call):
        if call.excinfo is not None:
            KINDS.append(call.excinfo._excinfo[0].__name__)
"""
"""Notes the types of failures: pytest's own `except BaseException` fails where that is patched."""

WATCHED = """
    MISSING = KeyError

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
        except MISSING:
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


class Outcome(NamedTuple):
    """How many calls the mock had, and the type of the failure."""

    calls: int
    kind: str


Seen = dict[str, Outcome]
Failures = tuple[Seen, set[str]]


def suite(root: Path, mode: str, tests: str, left_out: set[str], step: int = 1) -> Path:
    """The test file of a project, made there; of the functions it patches each `step`th one."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "pytest.ini").touch()
    (root / "left_out").write_text(" ".join(left_out), encoding="utf-8")
    (root / "conftest.py").write_text(textwrap.dedent(KINDS), encoding="utf-8")
    text = textwrap.dedent(FUNCTIONS).format(made=MODES[mode], step=step) + textwrap.dedent(tests)
    (root / "test_x.py").write_text(text, encoding="utf-8")
    return root


def without_us(root: Path) -> int:
    """Run it; the exit status."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cideldill", "-p", "no:cacheprovider"],
        cwd=root,
        env=clean_environment(),
        capture_output=True,
        timeout=DEADLINE_S * 4,
        check=False,
    ).returncode


def seen(root: Path) -> Seen:
    """What a run has seen, by the name of what was patched."""
    lines = (root / "seen").read_text(encoding="utf-8").splitlines()
    return {name: Outcome(int(count), kind) for name, count, kind in map(str.split, lines)}


def passing(root: Path, mode: str, step: int = 1) -> Seen:
    """What a run without us counts."""
    assert without_us(suite(root, mode, WATCHED, set(), step)) == 0
    return seen(root)


def failing(root: Path, mode: str, left_out: set[str]) -> tuple[Seen, set[str]]:
    """The same of tests that fail with the patch alive, and without which names they all do.

    Args:
        root: Of the project.
        mode: Of the patch.
        left_out: These are not tried.
    """
    tried: set[str] = set()
    fatal: set[str] = set()  # pytest itself ends with them, in the middle of the run
    while True:
        code = without_us(suite(root, mode, FAILING, left_out | fatal | tried))
        tried |= seen(root).keys()
        if code == 1 and tried >= set((root / "names").read_text("utf-8").split()):
            break
        fatal.add((root / "current").read_text("utf-8"))
        assert len(fatal) < 30
    assert without_us(suite(root, mode, FAILING, left_out | fatal)) == 1
    return seen(root), left_out | fatal


def differences(root: Path, expected: Seen) -> dict[str, tuple[Outcome, Outcome | None]]:
    found = seen(root)
    return {
        name: (each, found.get(name)) for name, each in expected.items() if found.get(name) != each
    }


def line_of(root: Path, mark: str) -> int:
    lines = (root / "test_x.py").read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if mark in line)


@pytest.mark.parametrize(
    ("mode", "step"),
    [("counts", 5), *(pytest.param(each, 1, marks=pytest.mark.soak) for each in MODES)],
)
def test_calls_lines_raises_and_evaluations_make_no_call_of_what_is_patched(
    tmp_path: Path, mode: str, step: int
) -> None:
    """At one of the three stops, under the patch, an expression is evaluated.

    The full tier tries every fifth function, the soak each.
    """
    expected = passing(tmp_path / "plain", mode, step)
    assert len(expected) > 650 / step
    with workbench(tmp_path / "served") as bench:
        root = suite(bench.root, mode, WATCHED, set(), step)
        bench.breakpoint("test_x.inner")
        line = line_of(root, "# watched")
        bench.agent.call("breakpoint_set", file="test_x.py", line=line)
        bench.agent.call("breakpoint_set_exception", exception_type="KeyError")
        reply, phases = bench.run(), Counter[str]()
        while reply["state"] == "paused":
            stop = only_stop(reply)
            phases[stop["phase"]] += 1
            if stop["phase"] == "line":
                assert bench.eval(stop, "1 + 1") == "2", stop
            reply = bench.go_on(stop)
        assert reply["outcomes"] == {"passed": len(expected), "failed": 0}
        assert phases == dict.fromkeys(("before", "line", "raise"), len(expected))
        assert differences(root, expected) == {}


@pytest.mark.sample("counts", "raises")
@pytest.mark.parametrize("mode", MODES)
def test_hits_and_recorded_calls_make_no_call_of_what_is_patched(tmp_path: Path, mode: str) -> None:
    expected = passing(tmp_path / "plain", mode)
    root = suite(tmp_path / "recorded", mode, WATCHED, set())
    watched = f"--cideldill-trace=test_x.py:{line_of(root, '# watched')}={{y}}"
    run = recorded(root, watched, "--cideldill-record-calls=test_x.busy")
    assert run.exit_code == 0
    assert f"{len(expected)} hits, {len(expected)} calls, 0 dropped" in run.out
    assert differences(root, expected) == {}


NOT_TRIED = {
    "builtins.enumerate": "pytest's writer of a failure calls it, which writes ours, too",
    "builtins.getattr": "its mock calls itself",
    "builtins.len": "its mock calls itself",
    "threading.excepthook": "a plain run does not come to its end",
}
"""What is not patched until the teardown of a failure, and why."""


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Failures]:
    """By mode what a run without us counts, and what is left out as pytest needs it meanwhile."""

    @functools.cache
    def of(mode: str) -> Failures:
        left_out = set(NOT_TRIED)
        if mode != "counts":
            counted, left_out = of("counts")
            left_out = left_out | {name for name, each in counted.items() if each.calls}
        # As deep as the folders of tests: what works with paths calls more in deeper ones.
        folder = tmp_path_factory.mktemp("failures") / "plain"
        expected, left_out = failing(folder, mode, left_out)
        assert mode == "counts" or not any(each.calls for each in expected.values())
        assert len(expected) > 550
        return expected, left_out

    return of


@pytest.mark.parametrize(
    ("mode", "pause_on"),
    [
        pytest.param("counts", "never", marks=pytest.mark.soak),
        pytest.param("counts", "failure", marks=pytest.mark.soak),
        pytest.param("raises", "failure", marks=pytest.mark.soak),
        pytest.param("gives a mock", "failure", marks=pytest.mark.soak),
    ],
)
def test_failures_whose_patch_is_alive_are_shown_as_without_us(
    tmp_path: Path, mode: str, pause_on: str, failures: Callable[[str], Failures]
) -> None:
    """Until teardown. What pytest itself calls meanwhile is only counted: it would fail."""
    expected, left_out = failures(mode)
    with workbench(tmp_path / "served") as bench:
        root = suite(bench.root, mode, FAILING, left_out)
        reply: dict[str, Any] = bench.run(pause_on=pause_on)
        stops = 0
        while reply["state"] == "paused":
            stop = only_stop(reply)
            stops += 1
            name = stop["nodeid"].partition("[")[2].removesuffix("]")
            assert (name, exception_of(stop)["type"]) == (name, expected[name].kind)
            assert bench.eval(stop, "1 + 1") == "2", stop
            reply = bench.go_on(stop)
        assert (reply["state"], reply["exit_code"]) == ("finished", 1)
        assert reply["outcomes"] == {"passed": 0, "failed": len(expected)}
        assert stops == (len(expected) if pause_on == "failure" else 0)
        assert differences(root, expected) == {}


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
def test_failures_whose_patch_is_alive_are_recorded_as_without_us(
    tmp_path: Path, mode: str, failures: Callable[[str], Failures]
) -> None:
    expected, left_out = failures(mode)
    root = suite(tmp_path / "recorded", mode, FAILING, left_out)
    run = recorded(root)
    assert run.exit_code == 1
    failed = [each for each in run.of("test_phase") if each["category"] == "failed"]
    assert len(failed) == len(expected)
    assert differences(root, expected) == {}
