"""What runs while the exception that fails a test is on its way is no evidence about the failure.

Expectations: `finally`, `__exit__`, and handlers that raise it again run in failing tests only, and
behind the failure: they are among neither the functions that started nor the lines that ran.
Handlers of other exceptions are, also if the exception that fails the test arises in one of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cideldill_mcp.questions.recordings.recorded import RecordedTest
from tests.together.question_rows import read_tests, record
from tests.together.workbench import Bench

PROGRAM = """
import asyncio
import contextlib
import threading
import unittest

import pytest


class Transaction:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if kind is not None:
            rolled_back()


def rolled_back():
    cleaned()


def cleaned():
    try:
        int("no number")
    except ValueError:
        noted()


def noted():
    pass


@contextlib.contextmanager
def transaction():
    try:
        yield
    except BaseException:
        rolled_back()
        raise


def sold(count):
    if count > 2:
        raise ValueError(count)
    return count


def sold_and_logged(count):
    try:
        return sold(count)
    except ValueError:
        rolled_back()
        raise


def sold_otherwise(count):
    try:
        return sold(count)
    except ValueError as error:
        rolled_back()
        raise KeyError(count) from error


def tried(count):
    try:
        sold(count)
    except ValueError:
        rolled_back()


def tried_often(count):
    for attempt in range(3):
        try:
            return sold(count)
        except ValueError as error:
            last = error
            again(attempt)
    raise last


def again(attempt):
    rolled_back()


def test_passes():
    with Transaction():
        assert sold(1) == 1
    with transaction():
        assert sold_and_logged(1) == sold_otherwise(1) == 1


@pytest.fixture
def cleaning():
    yield
    rolled_back()
"""

BEHIND = {
    "with": "with Transaction(): assert sold(1) == 2",
    "with_of_a_generator": "with transaction(): assert sold(1) == 2",
    "with_in_with": "with Transaction(), transaction(): assert sold(1) == 2",
    "finally": """
    try:
        assert sold(1) == 2
    finally:
        rolled_back()
    """,
    "raised_again": "sold_and_logged(3)",
    "of_unittest": "with Transaction(): unittest.TestCase().assertEqual(sold(1), 2)",
    "not_raised": "with Transaction(), pytest.raises(ValueError): sold(1)",
    "exit_stack": """
    with contextlib.ExitStack() as stack:
        stack.callback(rolled_back)
        stack.enter_context(transaction())
        assert sold(1) == 2
    """,
    "in_a_task": """
    async def work():
        with Transaction():
            assert sold(1) == 2
    asyncio.run(work())
    """,
}
"""Name of a test → its statements; `rolled_back` runs behind the failure alone."""

BEFORE = {
    "arises_in_a_handler": "sold_otherwise(3)",
    "handled_before": "tried(3); assert sold(1) == 2",
    "same_kind_handled_before": "tried(3); tried(3); sold(3)",
    "raised_at_the_end": "tried_often(3)",
    "handled_in_a_thread": """
    thread = threading.Thread(target=tried, args=(3,))
    thread.start()
    thread.join()
    assert sold(1) == 2
    """,
}
"""Those in which it is a part of what the test does."""

CLEANUP = {"rolled_back", "cleaned", "noted"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of them in one file."""
    root = tmp_path_factory.mktemp("aftermath") / "project"
    root.mkdir()
    (root / "pytest.ini").touch()
    statements = BEHIND | BEFORE
    tests = [
        f"\n\ndef test_{name}({'cleaning' if name == 'torn_down' else ''}):\n    {text.strip()}\n"
        for name, text in (statements | {"torn_down": "assert sold(1) == 2"}).items()
    ]
    (root / "test_shop.py").write_text(PROGRAM + "".join(tests), encoding="utf-8")
    return root


def recorded_tests(project: Path, folder: Path, **wanted: Any) -> dict[str, RecordedTest]:
    tests = read_tests(record(project, **wanted), folder)
    return {nodeid.partition("::test_")[2]: test for nodeid, test in tests.items()}


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param({"ran": True}, id="lines", marks=pytest.mark.full),
        pytest.param({"ran": True, "tree": True, "caught": True}, id="lines_and_calls"),
        pytest.param({"starts": True}, id="starts"),
    ],
)
def test_what_runs_behind_the_failure_is_not_recorded(
    project: Path, tmp_path: Path, wanted: dict[str, Any]
) -> None:
    tests = recorded_tests(project, tmp_path, **wanted)
    assert set(tests) == {"passes", *BEHIND, *BEFORE, "torn_down"}
    for name, test in tests.items():
        assert test.outcome == ("passed" if name == "passes" else "failed")
        seen = {code.name for phase in test.phases for code in phase.starts}
        seen |= {code.name for code, _ in test.ran}
        assert {f"test_{name}", "sold"} <= seen
        assert (seen & CLEANUP == CLEANUP) == (name in BEFORE or name == "torn_down"), name
        assert name in BEFORE or name == "torn_down" or not seen & CLEANUP, name


def test_it_is_known_when_the_exception_was_raised(project: Path, tmp_path: Path) -> None:
    """Calls that ended before it, and no other, may have given a wrong value."""
    tests = recorded_tests(project, tmp_path, tree=True, failure=True)
    for name in (*BEHIND, *BEFORE):
        failed, calls = tests[name].failed, tests[name].calls.values()
        assert failed is not None
        before = {call.code.name for call in calls if call.begun_at <= failed.raised_at}
        assert "sold" in before
        assert (before & CLEANUP == CLEANUP) == (name in BEFORE), name


@pytest.mark.full
def test_the_questions_are_about_what_ran_before(bench: Bench, project: Path) -> None:
    bench.write(**{"test_shop.py": (project / "test_shop.py").read_text(encoding="utf-8")})
    nodeids = [f"test_shop.py::test_{name}" for name in ("passes", "with", "raised_again")]
    suspects = bench.agent.call("test_suspects", nodeids=nodeids)
    assert "rolled_back" not in suspects["text"]
    reasons = bench.agent.call("test_why", nodeid="test_shop.py::test_with")
    assert all("rolled_back" not in each["function"] for each in reasons["suspects"])
    trace = bench.agent.call("test_trace", nodeid="test_shop.py::test_with")["text"]
    assert "rolled_back() → None" in trace
