"""The cases of `benchmarks.evidence` are sound: intact all passes, broken the right test fails."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.evidence_cases import MADE_UP, REAL
from benchmarks.evidence_cases.cases import Case
from benchmarks.evidence_truth import Truth
from tests.together.real_package import Record, plain_run

pytestmark = pytest.mark.long(20)

BESIDE = 3
"""Tests that pass beside the failing one, at least."""

ROOT = Path(__file__).resolve().parents[2]


def _param(case: Case, name: str) -> object:
    slow = pytest.mark.soak if case.is_real else pytest.mark.full
    return pytest.param(case, id=name, marks=slow)


def _name(case: Case) -> str:
    return case.name


EACH = pytest.mark.parametrize("case", [_param(case, case.name) for case in (*MADE_UP, *REAL)])
PROJECTS = {case.project.name: case for case in (*REAL, *MADE_UP)}


def outcomes(case: Case, root: Path, scratch: Path, *tests: str) -> Record:
    return plain_run(root, scratch / "record.json", *tests, paths=[root / case.source])


@pytest.mark.parametrize("case", [_param(case, name) for name, case in PROJECTS.items()])
def test_the_intact_project_passes(case: Case, tmp_path: Path) -> None:
    """All tests of a small program; of a release those of its cases."""
    cases = [each for each in (*MADE_UP, *REAL) if each.project == case.project]
    tests = dict.fromkeys(name for each in cases for name in each.selected)
    root = case.written(tmp_path, broken=False)
    found = outcomes(case, root, tmp_path, *(tests if case.is_real else ()))
    verdicts = found.verdicts()
    assert [verdicts[each.failing] for each in cases] == [("passed", "call")] * len(cases)
    assert found.failed() == []


@pytest.mark.sample(
    "ledger-alias",
    "ledger-swallowed",
    "depot-deep-loop",
    "depot-lost-update",
    "feeds-generator",
    "flows-leak-global",
    "sheets-stale",
)
@EACH
def test_the_edit_makes_the_test_fail(case: Case, tmp_path: Path) -> None:
    root = case.written(tmp_path)
    found = outcomes(case, root, tmp_path, *case.selected)
    verdicts = found.verdicts()
    assert verdicts[case.failing] == ("failed", "call")
    passed = Counter(outcome for outcome, _ in verdicts.values())["passed"]
    assert passed >= BESIDE
    (report,) = (each for each in found.reports[case.failing] if each.outcome == "failed")
    assert not Truth.of(case, root).is_in_traceback_of(report.text)


@pytest.mark.full
@pytest.mark.parametrize("case", [each for each in MADE_UP if each.needs_order], ids=_name)
def test_alone_the_test_passes(case: Case, tmp_path: Path) -> None:
    found = outcomes(case, case.written(tmp_path), tmp_path, case.failing)
    assert found.verdicts() == {case.failing: ("passed", "call")}


def test_the_cases_are_many_and_of_many_kinds() -> None:
    cases = [*MADE_UP, *REAL]
    assert len({case.name for case in cases}) == len(cases)
    assert len(REAL) >= 8
    assert len(MADE_UP) >= 14
    assert len({case.kind for case in MADE_UP}) >= 14


def test_the_product_does_not_know_the_cases() -> None:
    """What is held out measures nothing once a rule was made for it."""
    packages = (ROOT / "pytest_cideldill", ROOT / "mcp_server")
    texts = [path.read_text(encoding="utf-8") for each in packages for path in each.rglob("*.py")]
    names = {case.project.name for case in MADE_UP} | {"evidence_cases"}
    assert [name for name in names if any(name in text for text in texts)] == []


# --- what a text tells --------------------------------------------------------------------------


@pytest.fixture
def truth() -> Truth:
    return Truth(
        "Sheet._forget",
        "sheets/sheet.py",
        45,
        56,
        frozenset({"known = self._values.pop(each, None)"}),
        frozenset({"if each == name or known is None:"}),
    )


@pytest.mark.parametrize(
    "text",
    [
        "sheets.sheet.Sheet._forget  reached",
        "    Sheet._forget(name='A2') → None",
        "it was written at sheets/sheet.py:56",
    ],
)
def test_a_function_is_named(truth: Truth, text: str) -> None:
    assert truth.is_named_in(text)


@pytest.mark.parametrize(
    "text",
    [
        "Sheet._forgetful(1)",
        "MySheet._forget()",
        "_forget(name)",
        "sheets/sheet.py:57",
        "sheets/sheet.py",
    ],
)
def test_a_function_is_not_named(truth: Truth, text: str) -> None:
    assert not truth.is_named_in(text)


def test_a_plain_name_is_no_word_of_a_text() -> None:
    truth = Truth("shares", "ledger/money.py", 36, 43, frozenset(), frozenset())
    assert truth.is_named_in("shares(money=Money(1)) → []")
    assert truth.is_named_in("1. ledger.money.shares  …")
    assert not truth.is_named_in("he shares (some of) it: test_shares()")


def test_a_suspect_has_a_rank(truth: Truth) -> None:
    other = {"function": "sheets.sheet.Sheet.get", "file": "sheets/sheet.py"}
    it = {"function": "sheets.sheet.Sheet._forget", "file": "sheets/sheet.py"}
    assert truth.rank_among([other, it]) == 2
    assert truth.rank_among([other]) == 0
