"""Which tests run: the tiers of the conftest at the root, and the shares of the full one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.together.frontend import FEW_GUESTS

pytestmark = pytest.mark.full

Chosen = Callable[..., set[str]]

TESTS = """
    import pytest

    def test_fast(): pass

    @pytest.mark.full
    @pytest.mark.quick("0")
    @pytest.mark.sample("0", "1", "2", "3", "4", "5", "6", "7")
    @pytest.mark.parametrize("n", range(9))
    def test_kind(n): pass

    @pytest.mark.soak
    def test_long(): pass
"""

FAST = {"test_fast", "test_kind[0]"}
FULL = FAST | {f"test_kind[{n}]" for n in range(8)}


@pytest.fixture
def chosen(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Chosen:
    """The names of the tests that run with some options."""
    monkeypatch.setenv("PYTEST_ADDOPTS", f"{FEW_GUESTS['PYTEST_ADDOPTS']} -p no:cideldill")
    conftest = Path(__file__).parent.parent / "conftest.py"
    pytester.makeconftest(conftest.read_text(encoding="utf-8"))
    pytester.makepyfile(test_it=TESTS)
    marks = "".join(f"\n  {each}: of the tests" for each in ("full", "quick", "sample", "soak"))
    pytester.makeini(f"[pytest]\nmarkers ={marks}\n")

    def chosen(*options: str) -> set[str]:
        found = pytester.runpytest_inprocess("--collect-only", "-q", *options)
        return {each.partition("::")[2] for each in found.outlines if "::" in each}

    return chosen


def test_each_tier_has_its_tests(chosen: Chosen) -> None:
    assert chosen() == FAST
    assert chosen("--full") == FULL
    assert chosen("--soak") == {"test_long", "test_kind[8]"}


def test_shares_have_each_slow_test_once_and_all_fast_ones(chosen: Chosen) -> None:
    shares = [chosen("--full", "--share", f"{number}/3") for number in (1, 2, 3)]
    assert set.union(*shares) == FULL
    assert sum(map(len, shares)) == len(FULL) + 2 * len(FAST)
    assert chosen("--share", "1/3") == FAST


def test_failed_tests_of_a_share_run_again(pytester: pytest.Pytester, chosen: Chosen) -> None:
    """Which share a test is in does not depend on the others that are collected."""
    (pytester.path / "test_it.py").write_text(
        (pytester.path / "test_it.py").read_text().replace("(n): pass", "(n): assert n % 3")
    )
    share = chosen("--full", "--share=1/2")
    pytester.runpytest_inprocess("--full", "--share=1/2")
    failed = {f"test_kind[{n}]" for n in (0, 3, 6)} & share
    assert chosen("--full", "--share=1/2", "--last-failed") == failed


@pytest.mark.parametrize("share", ["3/2", "0/2", "1", "a/b", "-1/2"])
def test_a_share_that_is_none_is_refused(
    pytester: pytest.Pytester, chosen: Chosen, share: str
) -> None:
    chosen()
    refused = pytester.runpytest_inprocess("--full", f"--share={share}")
    refused.stderr.fnmatch_lines([f"*--share: '{share}' is not K/N with 1 <= K <= N"])
