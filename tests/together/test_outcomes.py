"""What pytest says of a run and its tests, whatever plugins and conftests have changed there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.together.driver import only_stop
from tests.together.records import recorded
from tests.together.test_recorded_for_people import cideldill
from tests.together.workbench import Bench

pytestmark = pytest.mark.full

OUTCOMES = {
    "error": 1,
    "failed": 1,
    "passed": 2,
    "skipped": 1,
    "xfailed": 1,
    "xpassed": 1,
}

TESTS = """
    import pytest

    @pytest.fixture
    def broken(): raise OSError

    def test_error(broken): pass
    def test_failed(): assert 0
    def test_passed(): pass
    def test_passed_too(): pass
    def test_skipped(): pytest.skip("why")
    @pytest.mark.xfail
    def test_xfailed(): assert 0
    @pytest.mark.xfail
    def test_xpassed(): pass
"""

OTHER_TERMINAL = """
    def pytest_report_teststatus(report):
        return report.outcome, ".", report.outcome.upper()
"""
"""As pytest-sugar answers."""

STATUS = """
    from pathlib import Path
    import pytest

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(session):
        session.exitstatus = int(Path(__file__).with_name("status.txt").read_text())
        print("\\nno file of the coverage was found")
"""

MOVED = """
    import pytest, _pytest.timing

    @pytest.fixture
    def moved(monkeypatch):
        monkeypatch.setattr("_pytest.timing.time", lambda: 9e9)
        yield

    def work(): return 1

    def test_moved(moved):
        assert work() == 1
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_categories_are_those_of_the_reports(bench: Bench, workers: int) -> None:
    """A plugin that draws another terminal answers the outcome of each phase."""
    bench.write(conftest=OTHER_TERMINAL)
    reply = bench.test(TESTS, pause_on="never", workers=workers)
    assert reply["outcomes"] == OUTCOMES
    assert bench.results()["test_error"]["outcome"] == "error"


def test_a_record_has_the_same_categories(bench: Bench, tmp_path: Path) -> None:
    """For people as well."""
    bench.write(conftest=OTHER_TERMINAL, test_it=TESTS)
    recorded(bench.root, "test_it.py", record=str(tmp_path / "rec"))
    shown = cideldill(tmp_path, "show", "rec")
    assert "1 failed, 1 error, 2 passed, 1 skipped, 1 xfailed, 1 xpassed in" in shown


@pytest.mark.sample("17", "1")
@pytest.mark.parametrize("status", [1, 3, 4, 5, 17])
def test_a_status_that_something_else_set_is_reported(bench: Bench, status: int) -> None:
    """Also one that pytest has for something else; with the last lines, which say why."""
    bench.write(conftest=STATUS, **{"status.txt": str(status)})
    reply = bench.test("def test_it(): pass")
    assert (reply["exit_code"], reply["end"]["kind"]) == (status, "finished")
    message = reply["end"]["message"]
    reported = f"all tests passed; something else set the exit status to {status}"
    assert message.startswith(reported)
    assert "no file of the coverage was found" in message
    assert reply["next"] == ["look at end.message; edits take effect in the next test_run"]


def test_a_status_that_hides_a_failure_is_reported(bench: Bench) -> None:
    """pytest itself would have 1."""
    bench.write(conftest=STATUS, **{"status.txt": "0"})
    reply = bench.test("def test_it(): assert 0", pause_on="never")
    assert reply["end"]["message"].startswith("1 failed; something else set the exit status to 0")


def test_too_little_coverage_is_reported(bench: Bench) -> None:
    """pytest-cov fails the run, but no test."""
    text = "def unused():\n    return 1\n\ndef test_it(): pass\n"
    reply = bench.test(text, args=["-p", "pytest_cov", "--cov=test_it", "--cov-fail-under=99"])
    assert reply["outcomes"] == {"passed": 1, "failed": 0}
    assert "all tests passed" in reply["end"]["message"]
    assert "99" in reply["end"]["message"]


def test_what_ends_as_it_should_has_no_message(bench: Bench) -> None:
    """Nor is one proposed to look at."""
    reply = bench.test(TESTS, pause_on="never")
    assert reply["end"] == {"kind": "finished"}
    reply = bench.run(["test_it.py"], args=["-k", "nothing_of_it"], pause_on="never")
    assert reply["end"]["kind"] == "no_tests"
    assert "7 deselected by -k" in reply["end"]["message"]


def test_a_pause_counts_in_no_duration_when_the_clock_was_moved(bench: Bench) -> None:
    """Until the teardown of a fixture, as that of time-machine does."""
    bench.breakpoint("work")
    stop = only_stop(bench.test(MOVED))
    bench.eval(stop, "__import__('threading').Event().wait(1.5)")
    bench.go_on(stop)
    assert bench.results()["test_moved"]["duration_s"] < 1
