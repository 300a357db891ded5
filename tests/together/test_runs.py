"""Runs: outcomes are pytest's own, edits take effect, waiting is bounded, one run at a time."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.together.driver import exception_of, only_stop
from tests.together.frontend import clean_environment
from tests.together.workbench import Bench

EVERY_OUTCOME = '''
    import unittest
    import pytest

    @pytest.fixture
    def broken():
        raise LookupError("in setup")

    @pytest.fixture
    def untidy():
        yield
        raise OSError("in teardown")

    def test_pass(): print("seen")
    def test_fail(): assert [1, 2] == [1, 3]
    def test_fail_by_word(): pytest.fail("said so")
    def test_fail_in_c(): int("x")
    def test_exit(): raise SystemExit(3)
    def test_group(): raise ExceptionGroup("two", [KeyError("a"), ValueError("b")])
    def test_deep(depth=0): test_deep(depth + 1)
    def test_skip(): pytest.skip("no way")
    def test_importorskip(): pytest.importorskip("nothing_like_this")
    @pytest.mark.skipif(True, reason="always")
    def test_skipif(): pass
    @pytest.mark.xfail
    def test_xfail(): assert 0
    @pytest.mark.xfail(raises=KeyError)
    def test_xfail_of_another_kind(): assert 0
    @pytest.mark.xfail
    def test_xpass(): pass
    @pytest.mark.xfail(strict=True)
    def test_xpass_strict(): pass
    @pytest.mark.xfail(run=False)
    def test_never_run(): 1 / 0
    def test_setup_error(broken): pass
    def test_teardown_error(untidy): pass
    def test_both(untidy): assert 0
    def test_unknown_fixture(nowhere): pass
    @pytest.mark.parametrize("n", [1, 2, 3], ids=["a[0]", "b c", "ü"])
    def test_numbers(n): assert n != 2

    @pytest.mark.skipif(pytest.version_tuple < (9,), reason="subtests come with pytest 9")
    def test_subtests(subtests):
        for n in range(3):
            with subtests.test(n=n):
                assert n != 1

    class TestOld(unittest.TestCase):
        def tearDown(self): self.gone = True
        def test_pass(self): self.assertEqual(1, 1)
        def test_fail(self): self.assertEqual(1, 2)
        def test_error(self): raise KeyError("u")
        def test_skip(self): self.skipTest("not today")
        @unittest.expectedFailure
        def test_expected(self): self.fail("as expected")
        @unittest.expectedFailure
        def test_unexpected(self): pass
        def test_parts(self):
            for n in range(3):
                with self.subTest(n=n):
                    self.assertNotEqual(n, 1)

    class TestXunit:
        def setup_method(self): self.number = 5
        def teardown_method(self): raise KeyError("in teardown_method")
        def test_fail(self): assert self.number == 6

    class TestOldSetup(unittest.TestCase):
        def setUp(self): raise KeyError("in setUp")
        def test_never_run(self): pass

    class TestOldTeardown(unittest.TestCase):
        def tearDown(self): raise KeyError("in tearDown")
        def test_pass(self): pass
        def test_fail(self): self.assertEqual(1, 2)

    class TestOldClass(unittest.TestCase):
        @classmethod
        def setUpClass(cls): raise KeyError("in setUpClass")
        def test_one(self): pass
        def test_two(self): pass

    class TestOldCleanup(unittest.TestCase):
        def test_fail(self):
            self.addCleanup(lambda: 1 / 0)
            self.addCleanup(lambda: {}["x"])
            self.fail("first")

    @pytest.fixture
    def two(untidy):
        yield
        raise KeyError("two")
    def test_two_teardowns(two): pass

    def documented():
        """
        >>> documented()
        2
        """
        return 1
'''

REPORTER = """
    import pytest

    def pytest_addoption(parser):
        parser.addoption("--report-to")

    @pytest.hookimpl(trylast=True)
    def pytest_configure(config):
        file = open(config.getoption("report_to"), "w", encoding="utf-8")
        config.pluginmanager.getplugin("terminalreporter")._tw._file = file
        config.add_cleanup(file.close)
"""
"""Sends the whole of pytest's terminal report to a file."""

OPTIONS = ["-rA", "--color=no", "--no-header", "--doctest-modules", "-p", "no:randomly"]


def terminal_report(path: Path) -> str:
    """What pytest printed, without times, addresses and the padding of its last line."""
    text = re.sub(r"0x[0-9a-f]{6,}", "0x…", path.read_text(encoding="utf-8"))
    return re.sub(r" in \d+\.\d+s", "", text).strip("=\n")


def counts(report: str) -> dict[str, int]:
    """pytest's last line as numbers."""
    last = report.splitlines()[-1]
    found = re.findall(r"(\d+) ((?:subtests )?[a-z]+)", last)
    return {name.removesuffix("s") if name == "errors" else name: int(n) for n, name in found}


@pytest.mark.full
def test_outcomes_exit_code_and_terminal_report_are_those_of_a_plain_run(bench: Bench) -> None:
    """Outcomes and exit codes are pytest's own."""
    bench.write(conftest=REPORTER, test_it=EVERY_OUTCOME)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *OPTIONS]
    command.append("--report-to=plain.txt")
    plain = subprocess.run(command, cwd=bench.root, env=clean_environment(), check=False)
    if sys.version_info >= (3, 12):
        # Before, what is not bound yet has every call traced: a recursion ends in our function.
        bench.breakpoint("never_called_by_anybody")
    reply = bench.run(
        args=[*OPTIONS, "--report-to=driven.txt"], pause_on="never", max_chars=100_000
    )
    expected = terminal_report(bench.root / "plain.txt")
    assert terminal_report(bench.root / "driven.txt") == expected
    assert reply["exit_code"] == plain.returncode == 1
    assert reply["outcomes"] == counts(expected)
    assert reply["end"] == {"kind": "finished"}
    failed = {(each["nodeid"].partition("::")[2], each["phase"]) for each in reply["failures"]}
    assert {
        ("test_fail", "call"),
        ("test_setup_error", "setup"),
        ("test_teardown_error", "teardown"),
        ("test_both", "call"),
        ("test_both", "teardown"),
        ("test_numbers[b c]", "call"),
    } <= failed


@pytest.mark.full
def test_pauses_at_all_failures_change_no_word_of_the_report(bench: Bench) -> None:
    """While paused the client looks around."""
    bench.write(conftest=REPORTER, test_it=EVERY_OUTCOME)
    bench.run(args=[*OPTIONS, "--report-to=plain.txt"], pause_on="never")
    reply, paused = bench.run(args=[*OPTIONS, "--report-to=driven.txt"]), []
    while reply["state"] == "paused":
        stop = only_stop(reply)
        paused.append((stop["nodeid"].partition("::")[2], stop["when"], exception_of(stop)["type"]))
        bench.agent.call("exception_get_context", pause_id=stop["pause_id"])
        assert bench.eval(stop, "print('aside') or 1") == "1"
        reply = bench.go_on(stop)
    expected = terminal_report(bench.root / "plain.txt")
    assert terminal_report(bench.root / "driven.txt") == expected
    assert (reply["exit_code"], reply["outcomes"]) == (1, counts(expected))
    assert len(paused) == len(set(paused))
    assert {
        ("test_exit", "call", "SystemExit"),
        ("test_both", "call", "AssertionError"),
        ("test_both", "teardown", "OSError"),
        ("test_subtests", "call", "AssertionError"),
        ("TestXunit::test_fail", "call", "AssertionError"),
        ("TestXunit::test_fail", "teardown", "KeyError"),
        ("TestOldTeardown::test_fail", "call", "AssertionError"),
        ("TestOldTeardown::test_fail", "call", "KeyError"),
        ("TestOldClass::test_two", "setup", "KeyError"),
        ("test_two_teardowns", "teardown", "ExceptionGroup"),
        ("test_it.documented", "call", "doctest.DocTestFailure"),
    } <= set(paused)
    quiet = {"skip", "importorskip", "xfail", "xpass", "xpass_strict", "never_run", "pass"}
    names = {name for name, _, _ in paused}
    assert not names & {f"test_{each}" for each in quiet}
    assert not names & {"TestOld::test_skip", "TestOld::test_expected"}


@pytest.mark.full
def test_failures_name_the_exception_and_where_it_was_raised(bench: Bench) -> None:
    """`failures` items."""
    reply = bench.test(
        """
        import json

        def test_mine(): raise LookupError("of mine")
        def test_theirs(): json.loads("{")
        """,
        pause_on="never",
    )
    first, second = reply["failures"]
    assert first["exception"] == {"type": "LookupError", "message": "of mine"}
    assert first["location"] == {"file": "test_it.py", "line": 4}
    assert second["exception"]["type"] == "json.decoder.JSONDecodeError"
    assert second["location"] == {"file": "test_it.py", "line": 5}


@pytest.mark.full
def test_each_run_sees_the_edits_made_before_it(bench: Bench) -> None:
    """Each run is a fresh test process."""
    bench.write(helper="answer = 1")
    text = "from helper import answer\ndef test_it(): assert answer == 2\n"
    failed = bench.test(text, pause_on="never")
    bench.write(helper="answer = 2")
    fixed = bench.run(["test_it.py"])
    assert (failed["exit_code"], fixed["exit_code"]) == (1, 0)
    assert fixed["run_id"] != failed["run_id"]
    assert fixed["outcomes"] == {"passed": 1, "failed": 0}
    # What failed then is still explained, and not as if it were so now.
    reported = bench.agent.call("exception_get_context", nodeid="test_it.py::test_it")
    assert (reported["run_id"], reported["assertion"]["left"]) == (failed["run_id"], "1")
    assert reported["since"] == {"run_id": fixed["run_id"], "outcome": "passed"}


WAITS_FOR_GO = """
    import pathlib

    def test_waits():
        while not pathlib.Path("go").exists():
            pass
"""
"""Ends when a file appears: a test that runs for as long as its observer likes."""


@pytest.mark.full
def test_a_second_run_is_refused_until_the_first_is_replaced(bench: Bench) -> None:
    """`run_active` unless `replace: true`."""
    first = bench.test("def test_bad(): assert 0")
    assert first["state"] == "paused"
    refused = bench.agent.refused("test_run")
    assert (refused["error"], refused["run_id"]) == ("run_active", first["run_id"])
    assert refused["state"] == "paused"
    second = bench.run(replace=True, pause_on="never")
    assert (second["state"], second["exit_code"]) == ("finished", 1)
    gone = bench.agent.refused("breakpoint_continue", pause_id=first["stops"][0]["pause_id"])
    assert (gone["error"], gone["reason"]) == ("pause_not_found", "already_resumed")


@pytest.mark.full
def test_the_time_bounds_the_wait_and_not_the_run(bench: Bench) -> None:
    """`timeout_s` … the reply then says `running`."""
    reply = bench.test(WAITS_FOR_GO, timeout_s=0)
    assert (reply["state"], reply["stops"]) == ("running", [])
    assert "exit_code" not in reply
    assert bench.agent.call("debug_state")["run_id"] == reply["run_id"]
    refused = bench.agent.refused("test_run")
    assert refused["error"] == "run_active"
    (bench.root / "go").touch()
    assert bench.until("finished")["outcomes"] == {"passed": 1}


def test_a_run_stopped_before_it_began_to_test_was_interrupted(bench: Bench) -> None:
    """`end.kind`; a client's stop is neither a crash nor a bad start."""
    bench.test(WAITS_FOR_GO, wait=False)
    ended = bench.agent.call("test_stop")
    assert (ended["status"], ended["end"]["kind"]) == ("stopped", "interrupted")
    assert bench.agent.call("debug_state")["state"] == "finished"


@pytest.mark.full
def test_a_run_that_is_not_waited_for_can_be_watched_and_ends_by_itself(bench: Bench) -> None:
    """`wait`; `debug_state` while it runs."""
    started = bench.test(WAITS_FOR_GO, wait=False)
    assert started["state"] == "running"
    while not (state := bench.until("collecting", "running", "starting"))["running"]:
        pass
    assert state["state"] == "running"
    assert state["running"][0]["nodeid"] == "test_it.py::test_waits"
    (bench.root / "go").touch()
    state = bench.until("finished")
    assert state["outcomes"] == {"passed": 1}
    assert (state["running"], state["paused"]) == ([], [])
