"""Failures that others raise or report for a test: plugins, conftests, runners, threads."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.together.driver import locals_of, only_stop
from tests.together.records import recorded
from tests.together.test_recorded_for_people import cideldill
from tests.together.workbench import Bench, workbench

pytestmark = pytest.mark.full

PLUGIN = '''
    """A plugin that is not the project's: callbacks that fail, soft checks, a way to fail."""
    import traceback
    import pytest

    failed, checks = [], []

    def callback(work):
        try:
            work()
        except Exception:
            failed.append(traceback.format_exc())

    def check(holds, text):
        holds or checks.append(text)

    def give_up(text):
        inner = "of the plugin"
        pytest.fail(text)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(item):
        yield
        if failed:
            text = "Errors of callbacks:\\n" + "\\n".join(failed)
            failed.clear()
            pytest.fail(text, pytrace=False)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_makereport(item, call):
        report = yield
        if checks:
            text = "\\n".join([*checks, f"{len(checks)} checks failed"])
            if report.longrepr:
                text += "\\n" + report.longreprtext
            checks.clear()
            report.outcome, report.longrepr = "failed", text
            try:
                raise AssertionError(text)
            except AssertionError:
                call.excinfo = pytest.ExceptionInfo.from_current()
        return report
'''

CONFTEST = """
    import pytest

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(item, call):
        outcome = yield
        report = outcome.get_result()
        if call.when == "call" and "soft" in item.name:
            report.outcome = "failed"
            report.longrepr = "check 1: no stock\\ncheck 2: no price"
"""

TESTS = """
    import plug, pytest, threading

    def fails(kind): raise kind("in a callback")

    @pytest.mark.parametrize("kind", [KeyError, TypeError, ValueError])
    def test_callback(kind): plug.callback(lambda: fails(kind))

    def test_callback_again(): plug.callback(lambda: fails(KeyError))

    def test_soft():
        assert True

    @pytest.mark.usefixtures()
    @pytest.mark.usefixtures()
    def test_checks():
        plug.check(False, "first check")
        plug.check(False, "second check")

    def test_checks_and_asserts():
        total = 3
        plug.check(False, "a check")
        assert total == 4

    def test_helper():
        orders = [1, 2]
        plug.give_up("no orders")

    @pytest.mark.filterwarnings("error")
    def test_thread():
        def work():
            inner = 5
            raise LookupError("in a thread")
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
"""

DOCTEST = '''
    """Prices.

    >>> 1 + 1
    2
    >>> 1 + 2
    4
    """
'''


def line_of(text: str, part: str) -> int:
    """Of the first line that has it."""
    lines = textwrap.dedent(text).splitlines()
    return next(number for number, line in enumerate(lines, 1) if part in line)


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A project whose tests use a plugin of somebody else."""
    folder = tmp_path_factory.mktemp("others")
    write_plugin(folder)
    env = {"PYTHONPATH": str(folder / "outside")}
    with workbench(folder / "project", "-p", "plug", "--doctest-modules", env=env) as bench:
        bench.write(test_it=TESTS, conftest=CONFTEST, prices=DOCTEST)
        yield bench


def write_plugin(folder: Path) -> None:
    (folder / "outside").mkdir()
    (folder / "outside" / "plug.py").write_text(textwrap.dedent(PLUGIN), encoding="utf-8")


@pytest.fixture(scope="module")
def failures(others: Bench) -> dict[str, dict[str, Any]]:
    """Test → its failure, of a run of all of them."""
    reply = others.run(["test_it.py", "prices.py"], pause_on="never", max_chars=50_000)
    return {each["nodeid"].rpartition("::")[2]: each for each in reply["failures"]}


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("test_callback[KeyError]", "def test_callback(kind)"),
        ("test_soft", "def test_soft"),
        ("test_checks", "def test_checks()"),
        ("test_checks_and_asserts", "assert total == 4"),
        ("test_helper", "plug.give_up"),
        ("test_thread", "raise LookupError"),
    ],
)
def test_the_place_of_a_failure_is_the_users(
    failures: dict[str, dict[str, Any]], name: str, part: str
) -> None:
    """Never the line of the plugin that raised it: the test, if it passed no other code."""
    location = failures[name]["location"]
    assert (location["file"], location["line"]) == ("test_it.py", line_of(TESTS, part))


def test_a_doctest_failed_at_its_example(failures: dict[str, dict[str, Any]]) -> None:
    """Not where the text begins."""
    location = failures["prices"]["location"]
    assert (location["file"], location["line"]) == ("prices.py", line_of(DOCTEST, "1 + 2"))


def test_a_failure_without_exception_says_so_and_all_of_its_text(
    others: Bench, failures: dict[str, dict[str, Any]]
) -> None:
    """A conftest sets the outcome and a text; a plugin puts its own exception there."""
    soft, checks = failures["test_soft"], failures["test_checks"]
    said = "check 1: no stock\ncheck 2: no price"
    assert soft["exception"] == {"type": None, "message": said}
    assert "without an exception" in soft["incomplete"]
    assert "without an exception" in checks["incomplete"]
    assert checks["exception"]["message"].startswith("first check\nsecond check")
    refused = others.agent.refused("exception_get_context", nodeid="test_it.py::test_soft")
    assert "without an exception" in refused["message"]


def test_what_a_test_raised_is_kept_beside_what_a_plugin_says(
    others: Bench, failures: dict[str, dict[str, Any]]
) -> None:
    """Its assertion with operands, and the text that pytest shows."""
    failure = failures["test_checks_and_asserts"]
    assert (failure["assertion"]["left"], failure["assertion"]["right"]) == ("3", "4")
    assert failure["reported"].startswith("a check\n1 checks failed")
    assert "incomplete" not in failure
    nodeid = "test_it.py::test_checks_and_asserts"
    reported = others.agent.call("exception_get_context", nodeid=nodeid)
    assert reported["exception"]["message"].startswith("assert 3 == 4")
    assert reported["frames"][reported["userFrameIndex"]]["function"] == "test_checks_and_asserts"


def test_failures_without_a_place_are_grouped_by_what_they_say(
    failures: dict[str, dict[str, Any]],
) -> None:
    """The first lines of their texts are the same."""
    groups = {
        name: each["group"] for name, each in failures.items() if name.startswith("test_callback")
    }
    assert len(groups) == 4
    assert (
        len({groups[f"test_callback[{kind}]"] for kind in ("KeyError", "TypeError", "ValueError")})
        == 3
    )


def test_a_stop_at_a_plugins_failure_is_in_the_test(others: Bench) -> None:
    """Its locals are not told; the exception that it collected can be caught where it is raised."""
    stop = only_stop(reply := others.run(["test_it.py::test_callback[KeyError]"]))
    location = stop["location"]
    place = (location["file"], location["line"])
    assert place == ("test_it.py", line_of(TESTS, "def test_callback(kind)"))
    assert "locals" not in stop
    assert any(
        each.startswith('breakpoint_set_exception {"exception_type": "KeyError"}')
        for each in reply["next"]
    )
    others.go_on(stop)


def test_an_expression_sees_the_frame_that_the_stop_shows(others: Bench) -> None:
    """A failure inside of a library: its first frame of the user's is the default."""
    stop = only_stop(others.run(["test_it.py::test_helper"]))
    assert locals_of(stop) == {"orders": "[1, 2]"}
    index = stop["autopsy"]["userFrameIndex"]
    assert index > 0
    assert others.eval(stop, "orders") == "[1, 2]"
    pause_id = stop["pause_id"]
    held = others.agent.call("variables_get", pause_id=pause_id, names=["orders"])
    assert held["variables"][0]["value"] == "[1, 2]"
    assert others.eval(stop, "inner", frame_index=0) == "'of the plugin'"
    missing = others.eval(stop, "inner")
    assert missing.startswith("NameError: name 'inner' is not defined (frame 0 has it: ")
    assert missing.endswith('give_up; give "frame_index": 0)')
    there = others.eval(stop, "orders", frame_index=0)
    place = f"test_it.py:{line_of(TESTS, 'plug.give_up')} test_helper"
    assert f'frame {index} has it: {place}; give "frame_index": {index}' in there
    assert others.eval(stop, "nowhere") == "NameError: name 'nowhere' is not defined"
    others.go_on(stop)


def test_a_record_has_the_same_places(tmp_path: Path) -> None:
    """With the source that stands there; the first line with text is the cause."""
    write_plugin(tmp_path)
    root = tmp_path / "project"
    root.mkdir()
    (root / "pytest.ini").touch()
    (root / "test_it.py").write_text(textwrap.dedent(TESTS), encoding="utf-8")
    (root / "conftest.py").write_text(textwrap.dedent(CONFTEST), encoding="utf-8")
    env = {"PYTHONPATH": str(tmp_path / "outside")}
    recorded(root, "-p", "plug", "test_it.py", environment=env)
    shown = cideldill(root, "show", "rec")
    line = line_of(TESTS, "def test_callback(kind)")
    assert f"test_it.py:{line}: def test_callback(kind): plug.callback" in shown
    assert "test_soft - check 1: no stock" in shown
