"""Tests that a plugin runs in forked children: not debugged, and told so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.together.conftest import MakeProject
from tests.together.records import recorded
from tests.together.workbench import Bench

FORKED = """
    import marshal, os, tempfile
    import pytest
    from _pytest.runner import runtestprotocol

    def pytest_addoption(parser):
        parser.addoption("--boxed", action="store_true")

    KEPT = ("nodeid", "location", "outcome", "when", "sections", "duration", "start", "stop")

    def plain(report):
        kept = {name: getattr(report, name) for name in KEPT}
        return kept | {"longrepr": report.longrepr and str(report.longrepr), "keywords": {}}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(item, nextitem):
        if not item.config.getoption("boxed"):
            return None
        place = {"nodeid": item.nodeid, "location": item.location}
        item.ihook.pytest_runtest_logstart(**place)
        with tempfile.TemporaryFile() as file:
            if not (pid := os.fork()):
                try:
                    reports = runtestprotocol(item, log=False, nextitem=nextitem)
                    file.write(marshal.dumps([plain(each) for each in reports]))
                    file.flush()
                    os._exit(0)
                finally:
                    os._exit(9)
            _, status = os.waitpid(pid, 0)
            file.seek(0)
            if status:
                reports = [pytest.TestReport(item.nodeid, item.location, {}, "failed",
                                             f"{item.nodeid}: CRASHED with signal {status}", "???")]
            else:
                reports = [pytest.TestReport(**each) for each in marshal.loads(file.read())]
        for each in reports:
            item.ihook.pytest_runtest_logreport(report=each)
        item.ihook.pytest_runtest_logfinish(**place)
        return True
"""
"""As pytest-forked."""

BOXED = """
    import os
    import pytest

    def total(price, rate):
        return price * rate

    @pytest.mark.filterwarnings("ignore")
    def test_wrong():
        kept = total(3, 1)
        assert kept == 4, {
            "kept": kept}

    def test_chained():
        try:
            {}["a"]
        except KeyError:
            raise ValueError("first\\n  second")

    def test_right():
        assert total(3, 2) == 6

    def test_crash():
        os.abort()
"""
WARNED = "tests ran in forked children, which are not debugged"


@pytest.mark.full
@pytest.mark.sample("with workers")
@pytest.mark.parametrize("way", ["alone", "with workers"])
def test_tests_in_forked_children_are_shown_as_not_debugged(bench: Bench, way: str) -> None:
    """One warning; nothing claims that what every test called was never called."""
    bench.write(conftest=FORKED, test_it=BOXED)
    known = bench.breakpoint("test_it.total")["id"]
    line = bench.agent.call("breakpoint_set", file="test_it.py", line=6)["id"]
    options = {"workers": 2} if way == "with workers" else {}
    reply = bench.run(["test_it.py"], args=["--boxed"], **options)
    assert reply["state"] == "finished"
    assert reply["outcomes"] == {"passed": 1, "failed": 3}
    assert [WARNED in each for each in reply["warnings"] if "order" not in each] == [True]
    reasons = {each["id"]: each["whyNotHit"] for each in reply["neverHit"]}
    why = f"other_worker ({WARNED}; the others: never_called)"
    assert reasons == {known: why, line: why}
    failures = {each["nodeid"].partition("test_")[2]: each for each in reply["failures"]}
    assert len(reply["failures"]) == 3
    wrong = failures["it.py::test_wrong"]
    message = wrong["exception"]["message"]
    assert message.startswith("AssertionError: {'kept': 3}\nassert 3 == 4")
    source = "assert kept == 4, {"
    assert wrong["location"] == {"file": "test_it.py", "line": 11, "source": source}
    chained = failures["it.py::test_chained"]["exception"]["message"]
    assert chained == "ValueError: first\n  second"
    assert "CRASHED" in failures["it.py::test_crash"]["exception"]["message"]
    state = bench.agent.call("debug_state")
    assert state["running"] == []
    assert bench.results()["test_crash"]["outcome"] == "failed"
    (stop,) = bench.run(["test_it.py::test_right"])["stops"]  # without it, as ever
    assert stop["breakpoint_id"] in (known, line)


@pytest.mark.full
@pytest.mark.sample("alone")
@pytest.mark.parametrize("workers", [[], ["-n2"]], ids=["alone", "with workers"])
def test_a_record_of_forked_tests_says_why_nothing_was_hit(
    make_project: MakeProject, workers: list[str]
) -> None:
    """A crash counts once, as pytest counts it."""
    project: Path = make_project(conftest=FORKED, test_it=BOXED)
    trace = "--cideldill-trace=test_it.py:6={price}"
    run = recorded(project, "--boxed", trace, *workers)
    assert "3 failed, 1 passed" in run.out
    assert "3 failures, 0 hits" in run.out
    line = [sys.executable, "-m", "pytest_cideldill", "show", str(run.record)]
    shown = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert f"warning {WARNED}" in shown
    assert "3 failed, 1 passed" in shown
    assert "AssertionError: {'kept': 3}" in shown
