"""Exceptions that tests swallow: real pytest processes that record them, and what is said then."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from cideldill_mcp.questions.recordings.recorded import Recorded as Read
from cideldill_mcp.questions.why.swallowed import swallowed
from tests.server.recordings import Rows
from tests.together.question_rows import Recorded, record
from tests.together.raising_programs import program
from tests.together.swallowed_cases import CASES, GUEST, HOST, Swallowed

_RUNS = "def test_it():\n    run()\n"
_IS_OLDER = sys.version_info < (3, 12)


def _made(root: Path, *cases: Swallowed) -> Path:
    project = root / "project"
    project.mkdir()
    (project / "pytest.ini").touch()
    for case in cases:
        for name, text in case.files().items():
            (project / name).write_text(text, encoding="utf-8")
    return project


def read(recorded: Recorded, folder: Path) -> Read:
    """What the front end reads of rows."""
    rows = Rows()
    rows.rows = recorded.rows
    return rows.read(folder)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Read:
    """All cases, in one process."""
    root = tmp_path_factory.mktemp("swallowed")
    project = _made(root, *CASES)
    (project / "m.py").write_text(HOST, encoding="utf-8")
    (project / "test_m.py").write_text(GUEST, encoding="utf-8")
    nodeids = [*(case.nodeid for case in CASES), "test_m.py::test_it"]
    recorded = record(project, *nodeids, tree=True, caught=True)
    assert not recorded.of("warning", "reached"), recorded.of("warning", "reached")
    return read(recorded, root)


@pytest.mark.full
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_a_test_swallows_is_reported_and_nothing_else(case: Swallowed, seen: Read) -> None:
    test = seen.tests[case.nodeid]
    assert test.outcome == "failed"
    lines = swallowed(test, case.most)
    if case.lines[:1] and case.lines[0].startswith("*"):
        text = "\n".join(lines)
        assert case.lines[0][1:] in text
        assert case.lines[1][1:] not in text
        return
    expected = case.older if case.older and _IS_OLDER else case.lines
    assert lines == [line.replace("M:", f"m_{case.name}.py:") for line in expected]


def _by_functions(recorded: Recorded) -> dict[str, Counter[tuple[str, str, str]]]:
    """How often each test caught a class of exceptions of one function in another."""
    names = {row[1]: row[3] for row in recorded.of("code")}
    found: dict[str, Counter[tuple[str, str, str]]] = {}
    counts: Counter[tuple[str, str, str]] = Counter()
    for row in recorded.of("test", "caught"):
        if row[0] == "test":
            found[row[1]] = counts = Counter()
            continue
        kind = row[1].partition(":")[0].rpartition(".")[2]
        counts[kind, names[row[3][0]], names[row[4][0]]] += row[5]
    return found


def _assert_is_what_programs_note(root: Path, seeds: range) -> None:
    cases = [Swallowed(f"p{seed}", program(seed), test=_RUNS) for seed in seeds]
    project = _made(root, *cases)
    nodeids = [case.nodeid for case in cases]
    recorded = record(project, *nodeids, tree=True, caught=True, calls=1_000_000)
    assert recorded.status == 0, recorded.output
    found = _by_functions(recorded)
    for case in cases:
        noted = json.loads((project / f"m_{case.name}.json").read_text(encoding="utf-8"))
        assert found[case.nodeid] == Counter(map(tuple, noted)), case.name


@pytest.mark.full
def test_what_random_programs_swallow_is_what_they_note(tmp_path: Path) -> None:
    _assert_is_what_programs_note(tmp_path, range(20))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(20, 300, 40))
def test_what_many_random_programs_swallow_is_what_they_note(tmp_path: Path, first: int) -> None:
    _assert_is_what_programs_note(tmp_path, range(first, first + 40))


@pytest.mark.full
def test_no_code_of_the_program_runs_and_nothing_is_kept_alive(seen: Read) -> None:
    test = seen.tests["test_m.py::test_it"]
    assert test.failure is not None
    assert test.failure.text == "AssertionError: in the end"
    text = "\n".join(swallowed(test, 9))
    assert text.startswith("Odd: ")
    assert "cart.count=3" in text


@pytest.mark.full
def test_outcomes_are_those_of_a_run_without_it(tmp_path: Path) -> None:
    project = _made(tmp_path, *CASES)
    nodeids = [case.nodeid for case in CASES]
    outcomes = [
        record(project, *nodeids, tree=True, caught=caught).of("outcome", "test", "phase")
        for caught in (False, True)
    ]
    assert outcomes[0] == outcomes[1]


HOT = """
KEPT = []

def fail(n):
    raise ValueError(n)

def run():
    for n in range(N):
        try:
            fail(n)
        except ValueError as error:
            pass
    for n in range(N):
        try:
            fail(n)
        except ValueError as error:
            KEPT.append(error)
"""


def _assert_is_bounded(root: Path, count: int) -> None:
    case = Swallowed("hot", HOT.replace("N)", f"{count})"))
    recorded = record(_made(root, case), case.nodeid, tree=True, caught=True, calls=100)
    assert [row[5] for row in recorded.of("caught")] == [count, count]
    assert sum(len(json.dumps(row)) for row in recorded.of("caught")) < 1_000


@pytest.mark.full
def test_exceptions_in_a_loop_are_counted(tmp_path: Path) -> None:
    _assert_is_bounded(tmp_path, 5_000)


@pytest.mark.soak
def test_a_hundred_thousand_exceptions_are_counted(tmp_path: Path) -> None:
    _assert_is_bounded(tmp_path, 100_000)


@pytest.mark.full
def test_further_places_are_counted_where_there_are_very_many(tmp_path: Path) -> None:
    one = "def f{0}():\n  try:\n    raise ValueError({0})\n  except ValueError:\n    pass\n"
    functions = "".join(one.format(n) for n in range(250))
    calls = "".join(f"    f{n}()\n" for n in range(250))
    case = Swallowed("many", f"{functions}def run():\n{calls}")
    recorded = record(_made(tmp_path, case), case.nodeid, tree=True, caught=True)
    assert len(recorded.of("caught")) == 200
    assert recorded.of("reached") == [
        ["reached", "caught", "50 caught exceptions of further places are not shown"]
    ]
    (test,) = read(recorded, tmp_path).tests.values()
    assert swallowed(test, 2)[-1] == "… caught at 198 more places: ValueError"


@pytest.mark.full
@pytest.mark.skipif(_IS_OLDER, reason="the recursion limit ends tracing there")
def test_the_end_of_the_stack_is_no_swallowed_exception_of_its_own(tmp_path: Path) -> None:
    source = """
def deep():
    return deep() + 1

def fail():
    raise ValueError("x")

def run():
    try:
        deep()
    except RecursionError:
        pass
    try:
        fail()
    except ValueError:
        pass
"""
    case = Swallowed("deep", source)
    recorded = record(_made(tmp_path, case), case.nodeid, tree=True, caught=True)
    places = {(row[1].partition(":")[0], row[4][1]) for row in recorded.of("caught")}
    assert places == {("RecursionError", 11), ("ValueError", 15)}


BREAKS = """
from pytest_cideldill.calltraces.caught import CaughtRecorder

def broken(*_):
    raise KeyError("broken")

CaughtRecorder._begin = broken
"""


@pytest.mark.full
def test_a_failure_of_ours_ends_this_part_alone(tmp_path: Path) -> None:
    (case,) = (case for case in CASES if case.name == "function")
    project = _made(tmp_path, case)
    (project / "conftest.py").write_text(BREAKS, encoding="utf-8")
    recorded = record(project, case.nodeid, tree=True, caught=True)
    assert not recorded.of("caught")
    ((_, limit, text),) = recorded.of("reached")
    assert (limit, text.partition(" at ")[0]) == (
        "caught",
        "caught exceptions were not recorded: KeyError: broken",
    )
    assert set(recorded.names.values()) == {"test_it", "run", "outer", "inner"}
    assert [row[2] for row in recorded.of("outcome")] == ["passed", "failed", "passed"]
