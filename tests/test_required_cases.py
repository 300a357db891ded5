"""The tables of required cases are complete, and the live cases that they name exist."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests import debugger_state_cases
from tests.required_cases import NUMBERS, TABLE, WITHOUT, Row

TOGETHER = Path(__file__).parent / "together"
ROWS = (*TABLE, *debugger_state_cases.TABLE)


@cache
def functions_in(file: str) -> frozenset[str]:
    """The test functions at the top of a module, and `Class::method`."""
    found = set()
    for node in ast.parse((TOGETHER / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            inner = (each for each in node.body if isinstance(each, ast.FunctionDef))
            found |= {f"{node.name}::{each.name}" for each in inner}
    return frozenset(found)


def missing(row: Row) -> list[str]:
    """The named cases that don't exist."""
    named = (case.partition("::") for case in row.cases)
    return [
        f"{file}::{name}"
        for file, _, name in named
        if not (TOGETHER / file).is_file() or name not in functions_in(file)
    ]


def test_every_number_is_there_once_in_order() -> None:
    assert [row.number for row in TABLE] == sorted(NUMBERS)
    assert len(debugger_state_cases.PARTS) == 37
    assert [row.number for row in debugger_state_cases.TABLE] == list(debugger_state_cases.PARTS)


def test_every_case_that_is_named_exists() -> None:
    assert [case for row in ROWS for case in missing(row)] == []


def test_only_those_without_a_live_case_name_none_and_say_why() -> None:
    assert {row.number for row in TABLE if not row.cases} == WITHOUT == {50}
    without = {row.number for row in debugger_state_cases.TABLE if not row.cases}
    assert without == debugger_state_cases.WITHOUT == {"SC-004", "SC-005"}
    assert all(row.note.endswith(".") for row in ROWS if not row.cases)


def test_no_case_is_named_twice_in_a_row() -> None:
    assert [row for row in ROWS if max(Counter(row.cases).values(), default=1) > 1] == []


def test_each_test_of_the_state_is_a_required_case() -> None:
    """Every test there is the case of a scenario."""
    named = {case for row in debugger_state_cases.TABLE for case in row.cases}
    file = "test_debugger_state.py"
    tests = {each for each in functions_in(file) if each.startswith("test_")}
    assert {f"{file}::{each}" for each in tests} <= named


@pytest.mark.parametrize(
    "case", ["test_records.py::test_get_call_records", "test_nowhere.py::test_x", "test_records.py"]
)
def test_what_does_not_exist_is_noticed(case: str) -> None:
    assert missing(Row(1, (case,)))
