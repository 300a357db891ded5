"""Two released packages with every function recorded, and with every function swapped.

Expectations: the outcome, the phase and the error of each test are those of a run without the
debugger, but for the differences that are named here, each with its reason. The calls of swapped
functions are recorded as well, and a recorded call costs up to a millisecond; so tests with many
calls of the same functions are left to the soak tier.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from tests.together import driver
from tests.together.driver import Agent, connected, server
from tests.together.real_package import (
    CLICK,
    MORE_ITERTOOLS,
    Difference,
    Record,
    Release,
    all_results,
    differences,
    environment,
    plain_run,
    recording,
    unpacked,
)

pytestmark = [pytest.mark.full, pytest.mark.long(35), pytest.mark.timeout(600)]

BEFORE_3_12 = sys.version_info < (3, 12)

EVERYTHING = "*"
"""Of user code: of the package and of its tests."""

BEHIND = "recorded calls were dropped: too many at once"
"""A warning of busy machines, on which the front end can't read all of them in time."""

WAIT_S = 280
"""Of one call; there may be several."""


@dataclass(frozen=True, slots=True)
class Package:
    """A release, and what is known of its suite.

    Attributes:
        paths: What is imported from, relative to its folder.
        left_out: Beginnings of node ids of tests that are not run, for their sheer number of calls.
        tests: How many there are left at least.
        calls: How many calls are recorded at least.
        absent: Globs over the functions in its sources that other systems or versions have.
        swapped: What is different when every function is swapped.
        recorded: What is different when every function is recorded.
    """

    release: Release
    paths: tuple[str, ...]
    left_out: tuple[str, ...]
    tests: int
    calls: int
    absent: tuple[str, ...]
    swapped: tuple[Difference, ...] = ()
    recorded: tuple[Difference, ...] = ()


RACE = Difference(
    "tests/test_more.py::CallbackIterTests::test_exception",
    "asks for the result of a thread that may not be done yet; it wins that race as long as calls "
    "take no time",
    is_sure=False,
)

SUMPRODS = (
    "tests/test_more.py::DiscreteFourierTransformTests",
    "tests/test_recipes.py::PolynomialFromRootsTests::test_large",
)
"""Before 3.12 there is no math.sumprod; that of more-itertools calls millions of functions."""

PACKAGES = (
    Package(
        MORE_ITERTOOLS,
        paths=(),
        # A dozen tests that try all that there is: 560 of 590 thousand calls.
        left_out=(
            *SUMPRODS,
            "tests/test_more.py::ExtractTests::test_all_orderings",
            "tests/test_more.py::GroupByTransformTests::test_no_valuefunc",
            "tests/test_more.py::IsliceExtendedTests::test_all",
            "tests/test_more.py::PeekableTests::test_prepend_many",
            "tests/test_more.py::PeekableTests::test_slicing_reset",
            "tests/test_more.py::SetPartitionsTests::test_found_all",
            "tests/test_recipes.py::FactorTests::test_cross_check",
            "tests/test_recipes.py::PrimeFunctionTests::test_primes",
        ),
        tests=680,
        calls=20_000,
        absent=("more_itertools.recipes.batched",),
        swapped=(RACE,),
        recorded=(RACE,),
    ),
    Package(
        CLICK,
        paths=("src",),
        # Most of them have long tables of parameters: 290 of 310 thousand calls.
        left_out=(
            "tests/test_arguments.py",
            "tests/test_basic.py",
            "tests/test_commands.py",
            "tests/test_context.py",
            "tests/test_defaults.py",
            "tests/test_formatting.py",
            "tests/test_normalization.py",
            "tests/test_options.py",
            "tests/test_shell_completion.py",
            "tests/test_termui.py",
            "tests/test_testing.py",
            "tests/test_utils/",
        ),
        tests=350,
        calls=12_000,
        absent=("click._winconsole.*", "click.types.ParamType.__class_getitem__"),
        swapped=(
            Difference(
                "tests/test_chain.py::test_args_and_chain",
                "its function prints sys._getframe(1).f_code.co_name: next to the frame of a "
                "swapped function is ours, and only then its caller's",
                versions=((3, 11), (3, 12)),  # from then on what is only recorded is not swapped
            ),
        ),
    ),
)

WHOLE = (
    replace(PACKAGES[0], left_out=SUMPRODS if BEFORE_3_12 else (), calls=400_000),
    replace(PACKAGES[1], left_out=(), tests=2_400, calls=300_000),
)


@dataclass(frozen=True, slots=True)
class Suite:
    """An unpacked package, how its suite is run, and what that does without the debugger."""

    package: Package
    root: Path
    environment: dict[str, str]
    arguments: list[str]
    plain: Record


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole suite may take longer than a call of another test."""
    monkeypatch.setattr(driver, "DEADLINE_S", WAIT_S + driver.DEADLINE_S)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(PACKAGES[0], id=PACKAGES[0].release.name),
        pytest.param(PACKAGES[1], id=PACKAGES[1].release.name, marks=pytest.mark.soak),
        *(
            pytest.param(
                each,
                id=f"{each.release.name}-whole",
                marks=[pytest.mark.soak, pytest.mark.timeout(1_800)],
            )
            for each in WHOLE
        ),
    ],
)
def suite(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """A package, unpacked, and its plain run."""
    package: Package = request.param
    folder = tmp_path_factory.mktemp("package")
    root = unpacked(package.release, folder)
    paths = [root / path for path in package.paths]
    arguments = [f"--deselect={each}" for each in package.left_out]
    plain = plain_run(root, folder / "plain.json", *arguments, paths=paths)
    assert (plain.exit_code, plain.failed()) == (0, [])
    assert len(plain.reports) >= package.tests
    return Suite(package, root, environment(*paths), arguments, plain)


def test_a_suite_runs_as_without_us_with_every_function_swapped(
    suite: Suite, tmp_path: Path
) -> None:
    breakpoint = {"function_name": EVERYTHING, "behavior": "go"}
    with connected(server(suite.root, env=suite.environment)) as agent:
        agent.call("breakpoint_add", **breakpoint)
        run = driven(agent, suite, tmp_path / "driven.json")
        swapped = agent.call("breakpoint_add", **breakpoint, max_chars=200_000)["functions"]
    assert_same(suite.plain, run, suite.package.swapped)
    missing = {
        function
        for function in functions_of(suite).difference(swapped)
        if not any(fnmatchcase(function, each) for each in suite.package.absent)
    }
    assert missing == set()


@pytest.mark.soak
def test_a_suite_runs_as_without_us_with_every_function_recorded(
    suite: Suite, tmp_path: Path
) -> None:
    record = f"--cideldill-record-calls={EVERYTHING}"
    with connected(server(suite.root, record, env=suite.environment)) as agent:
        run = driven(agent, suite, tmp_path / "driven.json")
        called = functions_called(agent)
    assert_same(suite.plain, run, suite.package.recorded)
    # Beyond the share of a run, calls are counted and not logged.
    counts = run.state["counts"]
    assert counts["events"] + counts["dropped"] > suite.package.calls
    assert len(called & functions_of(suite)) > 60
    assert any(".test_" in function for function in called)


def functions_called(agent: Agent) -> set[str]:
    """Dotted paths of the functions that have records of calls."""
    found: set[str] = set()
    page: dict[str, Any] = {"next_after": None}
    while "next_after" in page:
        after = {} if page["next_after"] is None else {"after": page["next_after"]}
        page = agent.call("breakpoint_list_functions", max_chars=200_000, limit=1_000, **after)
        found.update(name for name, each in page["metadata"].items() if each["calls"])
    return found


@dataclass(frozen=True, slots=True)
class Driven:
    """A run with the debugger: what the recorder saw, and what the server told."""

    record: Record
    state: dict[str, Any]
    verdicts: dict[str, tuple[str, str]]


def driven(agent: Agent, suite: Suite, record: Path) -> Driven:
    """Run the suite."""
    arguments = [*recording(record), *suite.arguments]
    reply = agent.call("test_run", args=arguments, timeout_s=WAIT_S, pause_on="never")
    while reply["state"] == "running":
        reply = agent.call("breakpoint_wait", timeout_ms=WAIT_S * 1_000)
    reported = {test["nodeid"]: (test["outcome"], test["phase"]) for test in all_results(agent)}
    return Driven(Record.read(record), agent.call("debug_state"), reported)


def assert_same(plain: Record, run: Driven, named: Sequence[Difference]) -> None:
    """The tests that differ are those that are named, neither more nor less."""
    seen = run.record
    warnings = [each for each in run.state.get("warnings", ()) if not each.startswith(BEHIND)]
    assert (run.state["state"], warnings) == ("finished", [])
    assert run.state["outcomes"] == seen.counts
    assert differences(seen.verdicts(), run.verdicts) == {}
    different = dict.fromkeys(
        [*differences(plain.reports, seen.reports), *differences(plain.passed, seen.passed)]
    )
    due = [each for each in named if each.is_due]
    unnamed = {
        nodeid: (plain.reports.get(nodeid), seen.reports.get(nodeid))
        for nodeid in different
        if not any(fnmatchcase(nodeid, each.nodeid) for each in due)
    }
    assert unnamed == {}
    idle = [
        each
        for each in due
        if each.is_sure and not any(fnmatchcase(one, each.nodeid) for one in different)
    ]
    assert idle == [], "these differ no more: take them out of the list"
    assert list(plain.reports) == list(seen.reports)
    assert seen.exit_code == (1 if seen.failed() else plain.exit_code)


def functions_of(suite: Suite) -> set[str]:
    """Dotted paths of the functions and methods of a package, by its sources.

    Without those inside of other functions, which are swapped too: CPython leaves some of them out.
    """
    package = suite.root / suite.package.release.package
    found: set[str] = set()
    for path in package.rglob("*.py"):
        module = ".".join(path.relative_to(package.parent).with_suffix("").parts)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found.update(_functions_in(tree, module.removesuffix(".__init__")))
    return found


def _functions_in(node: ast.AST, path: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield f"{path}.{child.name}"
            case ast.ClassDef():
                yield from _functions_in(child, f"{path}.{child.name}")
            case ast.If() | ast.Try() | ast.With():
                yield from _functions_in(child, path)
