"""What a library calls to explain a failed assertion is no part of the test that failed.

Expectations: the functions that show a value, and those that compare its parts once more, are
among neither the functions that started, nor the lines that ran, nor the calls of a test; what the
test itself shows is. The calls that only explain are named, with their numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cideldill_mcp.questions.recordings.recorded import RecordedTest
from tests.together.question_rows import read_tests, record
from tests.together.workbench import Bench

MONEY = """
import unittest
from unittest import mock

import pytest


class Money:
    def __init__(self, cents):
        self.cents = cents

    def __repr__(self):
        return f"Money({units(self.cents)})"

    def text(self):
        return repr(self)

    def __eq__(self, other):
        return isinstance(other, Money) and self.cents == other.cents

    def __hash__(self):
        return 7

    def __bool__(self):
        return self.cents != 1


def units(cents):
    return cents / 100


class Bag(dict):
    def __getitem__(self, key):
        return looked_up(self, key)


def looked_up(bag, key):
    return dict.__getitem__(bag, key)


def checked(money):
    assert money.cents == 3, f"not {money} but {Bag(a=money)['a']}"


def test_passes():
    assert Money(2) == Money(2)
    assert Money(3)
"""

SHOWING = frozenset({"Money.__repr__", "units"})
ITEMS = frozenset({"Bag.__getitem__", "looked_up"})

EXPLAINED = {
    "equal": "assert Money(2) == Money(3)",
    "items": "assert [Money(2)] == [Money(3)]",
    "values": 'assert {"a": Money(2), "b": 1} == {"a": Money(3), "b": 1}',
    "sets": "assert {Money(2)} == {Money(3)}",
    "bags": "assert Bag(a=1) == {'a': 2}",
    "membership": "assert Money(2) in [Money(3)]",
    "truth": "assert not Money(2)",
    "both": "assert Money(2) and Money(1)",
    "attribute": "assert Money(2).cents == 3",
    "message": "assert Money(2) == Money(3), 'said ' 'so'",
    "message_of_the_user": "assert Money(2) == Money(3), f'{Money(2)}'",
    "message_of_a_method": "money = Money(2); assert money.cents == 3, money.text()",
    "message_in_parts": """
    money = Money(2)
    assert money.cents == 3, (
        'few' if money.cents == 2 and Bag(a=1)['a'] else
        ', '.join(sorted(f'{each}' for each in [money]))
    )
    """,
    "message_of_the_program": "checked(Money(2))",
    "approximate": "assert [1, Money(2)] == pytest.approx([1, Money(3)])",
    "unittest_equal": "unittest.TestCase().assertEqual(Money(2), Money(3))",
    "unittest_lists": "unittest.TestCase().assertEqual([Money(2)], [Money(3)])",
    "unittest_dicts": "unittest.TestCase().assertEqual({1: Money(2)}, {1: Money(3)})",
    "unittest_in": "unittest.TestCase().assertIn(Money(2), [Money(3)])",
    "unittest_true": "unittest.TestCase().assertFalse(Money(2))",
    "mocks": "told = mock.Mock(); told(Money(2)); told.assert_called_with(Money(3))",
}
"""Name of a test → its failing statement: nothing of its own shows or looks up anything."""

GENUINE = {
    "shown": ("assert repr(Money(2)) == ''", SHOWING),
    "formatted": ("assert f'{Money(2)}' == ''", SHOWING),
    "looked_up": ("assert Bag(a=1)['a'] == 2", ITEMS),
}
"""Those that do, and what runs for that."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of them in one file."""
    root = tmp_path_factory.mktemp("explained") / "project"
    root.mkdir()
    (root / "pytest.ini").touch()
    statements = EXPLAINED | {name: text for name, (text, _) in GENUINE.items()}
    tests = [f"\n\ndef test_{name}():\n    {text.strip()}\n" for name, text in statements.items()]
    (root / "test_money.py").write_text(MONEY + "".join(tests), encoding="utf-8")
    return root


def recorded_tests(project: Path, folder: Path, **wanted: Any) -> dict[str, RecordedTest]:
    tests = read_tests(record(project, **wanted), folder)
    return {nodeid.partition("::test_")[2]: test for nodeid, test in tests.items()}


def expected(name: str) -> frozenset[str]:
    return GENUINE[name][1] if name in GENUINE else frozenset()


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param({"ran": True}, id="lines", marks=pytest.mark.full),
        pytest.param({"ran": True, "tree": True}, id="lines_and_calls"),
        pytest.param({"starts": True}, id="starts", marks=pytest.mark.full),
    ],
)
def test_no_function_that_only_explains_is_recorded(
    project: Path, tmp_path: Path, wanted: dict[str, Any]
) -> None:
    tests = recorded_tests(project, tmp_path, **wanted)
    assert set(tests) == {"passes", *EXPLAINED, *GENUINE}
    for name, test in tests.items():
        assert test.outcome == ("passed" if name == "passes" else "failed")
        seen = {code.name for phase in test.phases for code in phase.starts}
        seen |= {code.name for code, _ in test.ran}
        seen |= {call.code.name for call in test.calls.values()}
        assert f"test_{name}" in seen
        assert seen & (SHOWING | ITEMS) == expected(name), name


def test_the_calls_that_only_explain_are_named(project: Path, tmp_path: Path) -> None:
    tests = recorded_tests(project, tmp_path, tree=True)
    needed = {"attribute": frozenset(), "bags": ITEMS, "message_in_parts": ITEMS}
    for name in EXPLAINED:
        call = tests[name].phases[1].roots[0]
        call = call.children[-1] if name == "message_of_the_program" else call
        assert needed.get(name, SHOWING) <= set(dict(call.explained or ())), name


@pytest.mark.full
def test_the_questions_are_about_the_test_alone(bench: Bench, project: Path) -> None:
    bench.write(**{"test_money.py": (project / "test_money.py").read_text(encoding="utf-8")})
    names = ("passes", "equal", "items", "unittest_lists")
    nodeids = [f"test_money.py::test_{name}" for name in names]
    suspects = bench.agent.call("test_suspects", nodeids=nodeids)
    assert "Money.__eq__" in suspects["text"]
    assert "__repr__" not in suspects["text"]
    reasons = bench.agent.call("test_why", nodeid="test_money.py::test_items")
    assert "__repr__" not in reasons["text"]
    trace = bench.agent.call("test_trace", nodeid="test_money.py::test_equal")["text"]
    assert "    for the message of the failure: Money.__repr__ ×4, units ×4\n" in trace
    assert "__repr__()" not in trace
    call = bench.agent.call(
        "test_trace", nodeid="test_money.py::test_equal", function="test_money.Money.__repr__"
    )
    assert "via the message of a failure" in call["text"]
