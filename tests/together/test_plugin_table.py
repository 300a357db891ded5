"""With the plugins that are used most: categories, counts, places and messages are pytest's own.

Each runs one project three times: plain with a JUnit file, served, and recorded. Plugins that are
not installed are skipped; the extra `plugins` has them all.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pytest_cideldill.records.reader import run_folders
from pytest_cideldill.reports.digest import read
from tests.together.driver import DEADLINE_S
from tests.together.workbench import Bench, workbench

pytestmark = pytest.mark.full

TESTS = """
    import unittest
    import pytest

    @pytest.fixture
    def broken():
        raise OSError("of a fixture")

    @pytest.fixture
    def untidy():
        yield
        assert "cleaned" == "untidy"

    def fails(total): assert total == 4, "of a function"

    def test_setup(broken): pass
    def test_call(): fails(3)
    def test_teardown(untidy): pass
    def test_passed(): pass
    def test_skipped(): pytest.skip("why not")
    @pytest.mark.xfail(reason="known")
    def test_xfailed(): assert 0
    @pytest.mark.xfail(reason="was known")
    def test_xpassed(): pass
    @pytest.mark.xfail(strict=True, reason="was known")
    def test_strict(): pass

    class TestCase(unittest.TestCase):
        def test_method(self): self.assertEqual(1, 2)
"""

SUBTESTS = """
    def test_subtests(subtests):
        for number in range(3):
            with subtests.test(number=number):
                assert number != 1
"""

AGAIN = """
    import pytest
    tried = []

    @pytest.mark.flaky({0})
    def test_second_time():
        tried.append(1)
        assert len(tried) == 2

    @pytest.mark.flaky({0})
    def test_never():
        assert 1 == 2
"""

COROUTINE = """
    import asyncio, pytest

    @pytest.mark.{}
    async def test_coroutine():
        await asyncio.sleep(0)
        assert 1 == 2
"""

CHECKS = """
    from pytest_check import check

    def test_checks():
        check.equal(1, 2)
        check.equal(3, 4)
"""

# Plugin, by its entry point → arguments, further tests.
TABLE: dict[str, tuple[list[str], str]] = {
    "anyio": ([], COROUTINE.format("anyio")),
    "asyncio": ([], COROUTINE.format("asyncio")),
    "benchmark": ([], ""),
    "check": ([], CHECKS),
    "django": ([], ""),
    "env": ([], ""),
    "flaky": ([], AGAIN.format("max_runs=2")),
    "freezer": ([], "def test_frozen(freezer): assert type(freezer).__name__ == 1"),
    "html": (["--html=report.html"], ""),
    "metadata": (["--metadata", "a", "b"], ""),
    "pytest_order": ([], ""),
    "pytest-retry": ([], AGAIN.format("retries=1")),
    "pytest_cov": (["--cov=test_it", "--cov-report="], ""),
    "pytest_mock": ([], "def test_mock(mocker): mocker.Mock().assert_called()"),
    "randomly": ([], ""),
    "rerunfailures": ([], AGAIN.format("reruns=1")),
    "sugar": (["--force-sugar"], ""),
    "timeout": (["--timeout=60"], ""),
    "xdist": (["-n2"], ""),
}

NEEDS = {"html": {"metadata", "html_fixtures"}}

_COUNTED = "subtests passed|passed|failed|error|skipped|xfailed|xpassed|rerun|retried"

FAILED = {"failure": "failed", "error": "error"}


def installed() -> set[str]:
    """Entry points of the plugins here but ours, and one that pytest has by itself now."""
    return {each.name for each in entry_points(group="pytest11")} - {"cideldill", "subtests"}


def alone(plugin: str) -> list[str]:
    """The arguments that leave out all the others."""
    left_out = installed() - {plugin} - NEEDS.get(plugin, set())
    return [each for name in sorted(left_out) for each in ("-p", f"no:{name}")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One front end for all plugins."""
    root = tmp_path_factory.mktemp("table") / "project"
    with workbench(root, env={"PYTEST_ADDOPTS": ""}) as bench:
        yield bench


def plain(root: Path, *arguments: str) -> tuple[Counter[str], dict[str, tuple[str, str, str]]]:
    """What the terminal counts; test → category, message and text of its failure, as JUnit has."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--junitxml=junit.xml", *arguments],
        cwd=root,
        env=os.environ | {"PYTEST_ADDOPTS": "", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE_S * 4,
        check=False,
    )
    tests: dict[str, tuple[str, str, str]] = {}
    for case in ElementTree.parse(root / "junit.xml").iter("testcase"):
        for child in case:
            if child.tag in FAILED:
                reported = (FAILED[child.tag], child.get("message") or "", child.text or "")
                tests[str(case.get("name"))] = reported
    return counted(done.stdout), tests


def counted(out: str) -> Counter[str]:
    """From the last line of the terminal."""
    last = out.rstrip().rpartition("\n")[2]
    named = re.findall(rf"(\d+) ({_COUNTED})\b|(\d+) (error)s", last)
    return Counter({one[1] or one[3]: int(one[0] or one[2]) for one in named})


def short(nodeid: str) -> str:
    """As JUnit has it."""
    return nodeid.rpartition("::")[2]


def check_failure(reported: dict[str, Any], known: tuple[str, str, str], category: str) -> None:
    """Message and place of a failure are those that JUnit's text has."""
    _, message, text = known
    assert category == known[0]
    place = reported["location"]
    assert place["file"] in ("test_it.py", "test_more.py", "test_sub.py")
    if reported.get("subtest"):  # JUnit has the end of its test
        return
    exception = reported.get("exception")
    if exception is not None and exception["message"]:
        first = exception["message"].splitlines()[0]
        assert first in message or first in text
    is_test = "def test_" in place.get("source", "")
    assert is_test or f"{place['file']}:{place['line']}" in text


@pytest.mark.parametrize("plugin", sorted(TABLE))
def test_what_is_reported_is_what_pytest_says(plugin: str, served: Bench, tmp_path: Path) -> None:
    """Category, counts, place and message: of a run that is served, and of one that is recorded."""
    if plugin not in installed():
        pytest.skip(f"{plugin} is not installed: pip install -e '.[plugins]'")
    arguments, more = TABLE[plugin]
    arguments = [*alone(plugin), "-p", "no:cacheprovider", *arguments]
    # pytest-sugar keeps pytest from failing a test by its subtests.
    has_subtests = int(pytest.__version__.partition(".")[0]) >= 9 and plugin != "sugar"
    subtests = SUBTESTS if has_subtests else ""
    try:
        served.write(test_it=TESTS, test_more=more, test_sub=subtests)
        counts, tests = plain(served.root, *arguments)
        if plugin == "sugar":  # it has no last line that counts
            counts, _ = plain(served.root, *alone(""), "-p", "no:cacheprovider")
        reply = served.run(args=arguments, pause_on="never", max_chars=100_000)
        outcomes = {name: count for name, count in reply["outcomes"].items() if count}
        assert outcomes == counts
        assert {short(each["nodeid"]) for each in reply["failures"]} == set(tests)
        for each in reply["failures"]:
            category = "failed" if each["phase"] == "call" else "error"
            check_failure(each, tests[short(each["nodeid"])], category)
        record = f"--cideldill-record={tmp_path / 'rec'}"
        plain(served.root, *arguments, record)
        story = read(run_folders(tmp_path / "rec")[0])
        assert story.summary.outcomes == counts
        assert {short(each.nodeid) for each in story.failures} == set(tests)
        for failure in story.failures:
            check_failure(failure.report, tests[short(failure.nodeid)], failure.category)
    finally:
        served.clear()
