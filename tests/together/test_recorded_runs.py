"""`--cideldill-record`: what a run without a client leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.together.frontend import FEW_GUESTS
from tests.together.opened import opened
from tests.together.records import Recorded, command, recorded
from tests.together.workbench import workbench

TILL = """
def total(prices):
    amount = 0
    for price in prices:
        amount += price
    return amount
"""

TEST = """
import pytest
from till import total

@pytest.mark.parametrize("count", [1, 2])
def test_total(count):
    assert total([2] * count) == 2 * count

def test_wrong():
    assert total([1, 2]) == 4

def test_later():
    pytest.skip("later")
"""

TRACE = "--cideldill-trace=till.py:5 if price > 1 => price={price} amount={amount}"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project with a test that fails."""
    for name, text in {"till.py": TILL, "test_till.py": TEST, "conftest.py": ""}.items():
        (tmp_path / name).write_text(textwrap.dedent(text))
    return tmp_path


def outcomes(run: Recorded) -> dict[str, int]:
    """As the manifest tells them."""
    (reported,) = json.loads((run.record / "manifest.json").read_text())["runs"]
    assert reported["folder"] == run.run.name
    counted: dict[str, int] = reported["outcomes"]
    return counted


@pytest.mark.full
@pytest.mark.parametrize(
    "workers",
    [pytest.param((), id="alone"), pytest.param(("-n2",), id="n2", marks=pytest.mark.full)],
)
def test_a_run_is_recorded_with_its_hits_calls_and_failures(
    shop: Path, workers: tuple[str, ...]
) -> None:
    """Without a client, in all processes; outcomes and exit code are pytest's own."""
    run = recorded(shop, TRACE, "--cideldill-record-calls=till.*", *workers)
    assert run.exit_code == 1
    assert "1 failed, 2 passed, 1 skipped" in run.out
    assert outcomes(run) == {"failed": 1, "passed": 2, "skipped": 1}
    assert sorted(each["message"] for each in run.of("hit")) == [
        "price=2 amount=0",
        "price=2 amount=0",
        "price=2 amount=1",
        "price=2 amount=2",
    ]
    assert {each["qualified_name"] for each in run.of("call")} == {"till.total"}
    assert len(run.of("call")) == 3
    (failed,) = (each for each in run.of("test_phase") if each["category"] == "failed")
    assert failed["autopsy"]["frames"][0]["location"]["line"] == 10
    assert sorted(each["nodeid"] for each in run.of("test_outcome")) == [
        "test_till.py::test_later",
        "test_till.py::test_total[1]",
        "test_till.py::test_total[2]",
        "test_till.py::test_wrong",
    ]
    last = run.out.splitlines()[-1]
    assert last.startswith(f"cideldill: recorded in {run.run}: ")
    assert last.endswith(" kB, 1 failure, 4 hits, 3 calls, 0 dropped")
    assert not [path for path in run.run.iterdir() if "part" in path.name]


@pytest.mark.full
@pytest.mark.parametrize(
    ("watched", "is_there"), [pytest.param((), False, marks=pytest.mark.full), ((TRACE,), True)]
)
def test_what_watches_is_imported_only_where_something_is_watched(
    shop: Path, watched: tuple[str, ...], is_there: bool
) -> None:
    """A run that is only recorded pays for nothing else."""
    conftest = """
    import pathlib, sys

    def pytest_sessionfinish():
        pathlib.Path("modules").write_text(" ".join(sys.modules))
    """
    (shop / "conftest.py").write_text(textwrap.dedent(conftest))
    assert recorded(shop, *watched).exit_code == 1
    modules = (shop / "modules").read_text().split()
    assert "pytest_cideldill.hooks.reports" in modules
    for name in (
        "manager",
        "probes.lines",
        "tracing.interface",
        "pauses.pauses",
        "objects.keeping",
    ):
        assert (f"pytest_cideldill.{name}" in modules) is is_there, name


@pytest.mark.full
@pytest.mark.parametrize("watched", [(), (TRACE,)])
def test_pytest_does_not_rewrite_what_is_imported_of_ours_when_it_is_switched_on(
    shop: Path, watched: tuple[str, ...]
) -> None:
    """It would, as of every installed plugin, but in a checkout; and that takes longer than all."""
    installed = """
    import atexit, pathlib, sys, pytest
    from _pytest.assertion.rewrite import AssertionRewritingHook

    def tell():
        loaders = {name: module.__spec__.loader for name, module in sys.modules.items()
                   if name.startswith(("pytest_cideldill", "test_till"))}
        rewritten = [name for name, each in loaders.items()
                     if isinstance(each, AssertionRewritingHook)]
        pathlib.Path("rewritten").write_text(" ".join(rewritten))
        pathlib.Path("loaded").write_text(" ".join(loaders))

    pytest.register_assert_rewrite("pytest_cideldill")
    atexit.register(tell)
    """
    (shop / "installed.py").write_text(textwrap.dedent(installed))
    run = recorded(shop, "-p", "installed", *watched)
    assert run.exit_code == 1
    (failed,) = (each for each in run.of("test_phase") if each["category"] == "failed")
    assert "where 3 = total([1, 2])" in failed["longrepr"]
    rewritten = set((shop / "rewritten").read_text().split())
    chosen = (
        "config",
        *(f"config.{each}" for each in ["agents", "settings", "options", "parsers", "limits"]),
    )
    parts = ("plugin", "hookspecs", "fixtures", "interpreter", "interpreter.values", *chosen)
    off = {"pytest_cideldill", *(f"pytest_cideldill.{each}" for each in parts)}
    assert rewritten <= {"test_till", "pytest_cideldill.interpreter.sealed", *off}
    assert {"test_till", "pytest_cideldill.plugin"} <= rewritten
    loaded = set((shop / "loaded").read_text().split())
    assert {"pytest_cideldill.reports.html", "pytest_cideldill.hooks.start"} <= loaded


@pytest.mark.full
def test_a_recorded_run_prints_one_line_more_and_no_other(shop: Path) -> None:
    """Where it is and what it holds; all else is pytest's own."""
    run = recorded(shop)
    environment = {**os.environ, **FEW_GUESTS}
    plain = subprocess.run(
        command(), cwd=shop, env=environment, capture_output=True, text=True, check=False
    )
    *before, last = run.out.splitlines()
    assert last.startswith("cideldill: ")
    assert before[:-1] == plain.stdout.splitlines()[:-1]  # but for the time
    assert run.err == plain.stderr


@pytest.mark.full
@pytest.mark.sample("till.py:99*", "till.py:5 if*", "till:sum*")
@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("till.py:99=x", "line 99 of till.py has no code: use line 6"),
        ("tell.py:1=x", "there is no file tell.py in "),
        ("till.py:5", "position 9: expected = or => and the message"),
        ("till.py:5=a {b", "position 12: in the message, '{' is never closed"),
        ("till.py:5 if a b => c", "position 13: in the condition, condition 'a b': "),
        ("till:total@now => c", "position 11: expected one of: call, return, raise"),
        ("till:sum@call => c", "till.py has no function 'sum': it has total"),
    ],
)
def test_a_typo_is_refused_at_the_start_with_its_position(shop: Path, spec: str, said: str) -> None:
    """Exit code 4, and nothing is made."""
    run = recorded(shop, f"--cideldill-trace={spec}")
    assert run.exit_code == 4
    assert f"--cideldill-trace: {spec!r}: {said}" in run.err
    assert not run.record.exists()


@pytest.mark.full
def test_the_table_of_pyproject_declares_the_same(shop: Path) -> None:
    """`[tool.cideldill]`: keys without the prefix; what the command line says counts first."""
    (shop / "pyproject.toml").write_text(
        '[tool.cideldill]\nrecord = "other"\ntrace = ["till.py:5=at {price}"]\n'
        'record_calls = "till.*"\n'
    )
    run = recorded(shop)
    assert not (shop / "other").exists()
    assert len(run.of("hit")) == 5
    assert len(run.of("call")) == 3
    (shop / "pyproject.toml").write_text('[tool.cideldill]\ntraces = ["till.py:5=at {price}"]\n')
    refused = recorded(shop, record="third")
    assert (refused.exit_code, refused.record.exists()) == (4, False)
    assert "traces in [tool.cideldill] of pyproject.toml is no option" in refused.err


@pytest.mark.full
def test_runs_that_tests_start_are_not_recorded(shop: Path) -> None:
    """They inherit PYTEST_ADDOPTS, and are part of the test that starts them."""
    (shop / "test_till.py").write_text(
        "import subprocess, sys\n\n"
        "def test_nested():\n"
        "    subprocess.run([sys.executable, '-m', 'pytest', 'test_other.py'], check=True)\n"
    )
    (shop / "test_other.py").write_text("def test_other(): pass\n")
    options = {"PYTEST_ADDOPTS": "--cideldill-record=rec"}
    run = recorded(shop, "test_till.py", record="own", environment=options)
    assert len(run.runs) == 1
    assert not (shop / "rec").exists()


@pytest.mark.full
def test_a_second_run_adds_to_the_record(shop: Path) -> None:
    assert len(recorded(shop).runs) == 1
    run = recorded(shop)
    assert len(run.runs) == 2
    reported = json.loads((run.record / "manifest.json").read_text())
    assert [each["folder"] for each in reported["runs"]] == [each.name for each in run.runs]
    assert len({each["run_id"] for each in reported["runs"]}) == 2


@pytest.mark.full
def test_tests_log_to_the_timeline_by_a_fixture(shop: Path) -> None:
    """`cideldill.log`: values without secrets, live and recorded; in other runs it does nothing."""
    (shop / "test_till.py").write_text(
        "class Total:\n"
        "    def __repr__(self): raise RuntimeError('not asked')\n\n"
        "def test_log(cideldill):\n"
        "    cideldill.log('after checkout', total=3, password='hunter2', of=Total())\n"
    )
    run = recorded(shop)
    assert run.exit_code == 0
    (reported,) = run.of("log")
    assert (reported["message"], reported["nodeid"]) == ("after checkout", "test_till.py::test_log")
    assert reported["values"]["total"] == "3"
    assert reported["values"]["password"].startswith("<redacted:password#")
    assert reported["values"]["of"] == "Total()"
    plain = subprocess.run(command(), cwd=shop, capture_output=True, text=True, check=False)
    assert plain.returncode == 0
    with workbench(shop) as bench:
        assert bench.run()["exit_code"] == 0
        (event,) = bench.agent.call("timeline_get", types=["log"])["events"]
    kept = ("message", "nodeid", "values", "worker", "thread")
    assert {key: event[key] for key in kept[:2]} == {key: reported[key] for key in kept[:2]}
    assert event["values"].keys() == reported["values"].keys()
    with opened(shop, run.record) as bench:
        (event,) = bench.agent.call("timeline_get", types=["log"])["events"]
    assert {key: event[key] for key in kept} == {key: reported[key] for key in kept}


CALLS = """
import asyncio

def fact(n):
    return 1 if n < 2 else n * fact(n - 1)

class Box:
    size = 3
    def grow(self, by):
        if by < 0:
            raise ValueError(f"{by} is too little")
        return self.size + by

def numbers(last):
    for number in range(last):
        yield number
    return "done"

async def later(value):
    await asyncio.sleep(0)
    return value + 1
"""

TEST_CALLS = """
import asyncio, pytest
from calls import Box, fact, later, numbers

def test_calls():
    assert fact(3) == 6
    assert Box().grow(1) == 4
    with pytest.raises(ValueError):
        Box().grow(-1)
    assert list(numbers(2)) == [0, 1]
    assert asyncio.run(later(1)) == 2
"""


@pytest.mark.full
@pytest.mark.parametrize("calls", [(), ("--cideldill-record-calls=calls.*",)])
def test_calls_of_functions_are_traced(tmp_path: Path, calls: tuple[str, ...]) -> None:
    """`pkg.mod:func@call|return|raise`: at its start, with what it returns, with what it raises."""
    (tmp_path / "calls.py").write_text(CALLS)
    (tmp_path / "test_calls.py").write_text(TEST_CALLS)
    specs = {
        "calls:fact@call => fact({n})": ["fact(3)", "fact(2)", "fact(1)"],
        "calls:fact@return if result > 1 => {n}! = {result}": ["2! = 2", "3! = 6"],
        "calls:Box.grow@return => {self.size} + {by} = {result}": ["3 + 1 = 4"],
        "calls:Box.grow@raise if by < 0 => {exception!r} for {by}": [
            "ValueError('-1 is too little') for -1"
        ],
        "calls:numbers@return => {last}: {result}, {number}": ["2: done, 1"],
        "calls:later@return => {value} to {result}": ["1 to 2"],
        "calls:later@return => {nobody}": ["<error: NameError>"],
        "calls:later@call if nobody => never": [
            "<condition error: NameError: name 'nobody' is not defined>"
        ],
    }
    run = recorded(tmp_path, *(f"--cideldill-trace={spec}" for spec in specs), *calls)
    assert run.exit_code == 0
    reported: dict[str, list[str]] = {f"tp-{number}": [] for number in range(1, len(specs) + 1)}
    for hit in run.of("hit"):
        reported[hit["breakpoint_id"]].append(hit["message"])
        assert hit["nodeid"] == "test_calls.py::test_calls"
    assert dict(zip(specs, reported.values(), strict=True)) == specs
    assert bool(run.of("call")) == bool(calls)
    with opened(tmp_path, run.record) as bench:
        listed = bench.agent.call("breakpoint_list", max_chars=100_000)["breakpoints"]
    *counts, _ = [len(each) for each in reported.values()]
    assert [each["hit_count"] for each in listed] == [*counts, 0]  # an error is no hit
    assert {each["type"] for each in listed} == {"tracepoint"}
    assert [each["state"] for each in listed] == ["bound"] * len(counts) + ["pending"]
