"""The pause of a failing test: when it happens, what is alive in it, how it goes on."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from tests.together.driver import ToolError, exception_of, only_stop
from tests.together.workbench import Bench, workbench

full = pytest.mark.full

THREE_PHASES = """
    import pytest

    log = []

    class Account:
        def __init__(self): self.balance = 10

    @pytest.fixture
    def account():
        log.append("up")
        yield Account()
        log.append("down")

    @pytest.fixture
    def broken(account):
        assert account.balance == 11, "in setup"

    @pytest.fixture
    def untidy(account):
        yield
        assert account.balance == 12, "in teardown"

    def test_setup(account, broken): pass
    def test_call(account): assert account.balance == 13, "in call"
    def test_teardown(account, untidy): pass
    def test_log(): assert log == ["up", "down"] * 3
"""


def test_a_failure_of_any_phase_pauses_with_the_fixtures_alive_and_is_torn_down_after(
    bench: Bench,
) -> None:
    """`pause_on: failure`: the pause comes before teardown."""
    seen = []
    reply = bench.test(THREE_PHASES)
    while reply["state"] == "paused":
        stop = only_stop(reply)
        assert (stop["phase"], stop["reason"]) == ("post_mortem", "test_failure")
        assert "thread" not in stop, "it is the main thread"
        seen.append((stop["nodeid"].partition("::")[2], stop["when"]))
        assert bench.eval(stop, "account.balance") == "10"
        alive = "0" if stop["when"] == "teardown" else "1"
        assert bench.eval(stop, "log.count('up') - log.count('down')") == alive
        assert f"in {stop['when']}" in stop["autopsy"]["exception"]["message"]
        reply = bench.go_on(stop)
    assert seen == [(f"test_{p}", p) for p in ("setup", "call", "teardown")]
    assert reply["outcomes"] == {"passed": 2, "failed": 1, "error": 2}
    assert reply["exit_code"] == 1


@pytest.mark.full
@pytest.mark.parametrize(
    ("pause_on", "phases"),
    [pytest.param("never", [], marks=full), ("error", ["setup", "teardown"])],
)
def test_which_failures_pause_can_be_chosen(bench: Bench, pause_on: str, phases: list[str]) -> None:
    """`pause_on`: `error` = setup and teardown errors only."""
    seen = []
    reply = bench.test(THREE_PHASES, pause_on=pause_on)
    while reply["state"] == "paused":
        seen.append(only_stop(reply)["when"])
        reply = bench.go_on(only_stop(reply))
    assert seen == phases
    assert reply["outcomes"] == {"passed": 2, "failed": 1, "error": 2}


@pytest.mark.full
def test_what_is_no_failure_does_not_pause(bench: Bench) -> None:
    """Skips, expected failures; an XPASS(strict) has no exception."""
    bench.write(test_broken="import nowhere_at_all\n")
    reply = bench.test(
        """
        import pytest, unittest
        def test_skip(): pytest.skip()
        @pytest.mark.xfail
        def test_xfail(): assert 0
        @pytest.mark.xfail(strict=True)
        def test_xpass(): pass
        class TestOld(unittest.TestCase):
            def test_skip(self): self.skipTest("")
            @unittest.expectedFailure
            def test_expected(self): self.fail()
        def test_last(): assert 0
        """
    )
    assert only_stop(reply)["nodeid"] == "test_it.py::test_last"
    assert reply["outcomes"] == {"passed": 0, "failed": 2, "skipped": 2, "xfailed": 2}
    stopped = bench.run(["test_broken.py", "test_it.py"], replace=True)
    assert (stopped["stops"], len(stopped["errors"])) == ([], 1)


@full
@pytest.mark.parametrize(
    ("body", "type_name"),
    [
        ("import pytest; pytest.fail('words')", "Failed"),
        ("raise SystemExit(3)", "SystemExit"),
        ("raise ExceptionGroup('two', [KeyError('a'), ValueError('b')])", "ExceptionGroup"),
        ("int('x')", "ValueError"),
        ("f = lambda: f(); f()", "RecursionError"),
        ("raise BaseException('bare')", "BaseException"),
    ],
)
def test_a_failure_of_every_kind_pauses(bench: Bench, body: str, type_name: str) -> None:
    """What `pytest_exception_interact` is called for."""
    stop = bench.stop_of(f"def test_bad():\n    here = 1\n    {body}\n")
    assert stop["autopsy"]["exception"]["type"].endswith(type_name)
    assert bench.eval(stop, "1 + 1") == "2"
    assert bench.go_on(stop)["exit_code"] == 1


@full
def test_unittest_and_subtests_pause_too(bench: Bench) -> None:
    reply = bench.test(
        """
        import unittest
        class TestOld(unittest.TestCase):
            def setUp(self): self.state = "set up"
            def tearDown(self): self.state = "torn down"
            def test_bad(self):
                print("last words")
                self.assertEqual(self.state, "other")
            def test_parts(self):
                for n in range(3):
                    with self.subTest(n=n): self.assertNotEqual(n, 1)
            def test_untidy(self):
                self.addCleanup(lambda: 1 / 0)
                self.fail("first")
        """
    )
    stop = only_stop(reply)
    assert bench.eval(stop, "self.state") == "'set up'"
    autopsy = stop["autopsy"]
    assert (autopsy["stdout"], autopsy["assertion"]["right"]) == ("last words\n", "'other'")
    reply = bench.go_on(stop)
    assert bench.eval(only_stop(reply), "n") == "1"
    assert only_stop(reply)["subtest"] == "(n=1)"
    seen = []
    while (reply := bench.go_on(only_stop(reply)))["state"] == "paused":
        seen.append(exception_of(only_stop(reply))["type"])
    # Each error once, though pytest hears of them when all is over.
    assert (seen, reply["exit_code"]) == (["AssertionError", "ZeroDivisionError"], 1)
    (result,) = bench.results(nodeid="test_it.py::TestOld::test_bad").values()
    assert result["stdout"] == "last words\n"


TOUCHES: list[tuple[str, dict[str, Any]]] = [
    ("breakpoint_repl_eval", {"expression": "1"}),
    ("stacktrace_get", {}),
    ("variables_get", {}),
    ("exception_get_context", {}),
    ("breakpoint_continue", {"action": "skip"}),
]
"""What renews the lease of a post-mortem pause; the last one is refused."""


def reported(bench: Bench, tool: str, **arguments: Any) -> dict[str, Any]:
    """The reply of a tool, or its refusal."""
    try:
        return bench.agent.call(tool, **arguments)
    except ToolError as error:
        return error.body


@full
def test_the_lease_lets_a_forgotten_pause_go_on(tmp_path: Path) -> None:
    """`lease_expires_at`, renewed by every call that touches the pause."""
    with workbench(tmp_path / "project", "--cideldill-lease=0.7") as bench:
        stop = bench.stop_of("def test_bad(): assert 0")
        (pause,) = bench.agent.call("breakpoint_list_paused")["paused"]
        assert 0 < pause["lease_expires_at"] - pause["paused_at"] <= 0.8
        expires = pause["lease_expires_at"]
        for tool, arguments in TOUCHES:
            assert reported(bench, tool, pause_id=stop["pause_id"], **arguments)
            (pause,) = bench.agent.call("breakpoint_list_paused")["paused"]
            assert pause["lease_expires_at"] > expires, tool
            expires = pause["lease_expires_at"]
        assert bench.until("finished")["outcomes"] == {"failed": 1}
        gone = bench.agent.refused("breakpoint_continue", pause_id=stop["pause_id"])
        assert (gone["error"], gone["reason"]) == ("pause_not_found", "already_resumed")


@full
def test_a_pause_goes_on_once_and_only_as_its_phase_allows(bench: Bench) -> None:
    """`breakpoint_continue`: a refused request leaves it paused."""
    stop = bench.stop_of("def test_bad(): assert 0\n")
    id = stop["pause_id"]
    for action in ("skip", "raise", "modify", "step", "nonsense"):
        refused = bench.agent.refused("breakpoint_continue", pause_id=id, action=action)
        assert (refused["error"], refused["allowed"]) == ("invalid_action", ["continue"])
    refused = bench.agent.refused("breakpoint_continue", pause_id=id, modified_args=[1])
    assert refused["error"] == "invalid_arguments"
    assert bench.agent.call("debug_state")["paused"] == [id]
    done = bench.agent.call("breakpoint_continue", pause_id=id)
    assert done == {"status": "ok", "pause_id": id, "action": "continue"}
    again = bench.agent.refused("breakpoint_continue", pause_id=id)
    assert (again["error"], again["reason"]) == ("pause_not_found", "already_resumed")
    unknown = bench.agent.refused("breakpoint_continue", pause_id="r99999.main.1")
    assert (unknown["error"], unknown["reason"]) == ("pause_not_found", "unknown")


@pytest.mark.full
def test_of_two_who_continue_a_pause_at_once_one_wins(bench: Bench) -> None:
    """Resolution is atomic."""
    stop = bench.stop_of("def test_bad(): assert 0\n")
    calls = [bench.agent.start("breakpoint_continue", pause_id=stop["pause_id"]) for _ in range(5)]
    failures = [error.body for call in calls if (error := call.exception(20)) is not None]
    assert len(failures) == 4
    assert {(f["error"], f["reason"]) for f in failures} == {("pause_not_found", "already_resumed")}


SLEEPY = """
    import signal, time
    import pytest

    def wait(): pass

    def test_alarm():
        rings = []
        signal.signal(signal.SIGALRM, lambda *_: rings.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        wait()
        assert rings == []
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 0.3
        signal.setitimer(signal.ITIMER_REAL, 0)

    @pytest.mark.timeout(0.6)
    def test_timeout(): wait()

    @pytest.mark.timeout(0.6)
    def test_hangs_after():
        wait()
        time.sleep(20)
"""


def pass_time(bench: Bench, stop: dict[str, object], seconds: float) -> None:
    """Let time go by in the paused process."""
    bench.eval(stop, f"__import__('time').sleep({seconds})")


@full
def test_time_stands_still_for_a_paused_test(bench: Bench) -> None:
    """Alarms are put off, durations exclude pauses."""
    bench.breakpoint("test_it.wait")
    reply = bench.test(SLEEPY, args=["--timeout-method=signal", "--junitxml=junit.xml"])
    while reply["state"] == "paused" and (stop := only_stop(reply))["phase"] == "before":
        pass_time(bench, stop, 0.8)
        reply = bench.go_on(stop)
    stop = only_stop(reply)
    assert stop["nodeid"] == "test_it.py::test_hangs_after"
    assert "Timeout" in stop["autopsy"]["exception"]["message"]
    reply = bench.go_on(stop)
    assert reply["outcomes"] == {"passed": 2, "failed": 1}
    tests = bench.results()
    assert tests["test_alarm"]["duration_s"] < 0.4
    assert tests["test_timeout"]["duration_s"] < 0.4
    assert 0.4 < tests["test_hangs_after"]["duration_s"] < 5
    cases = ElementTree.parse(bench.root / "junit.xml").iter("testcase")
    times = {case.get("name"): float(case.get("time") or 0) for case in cases}
    assert times["test_alarm"] < 0.4
    assert times["test_timeout"] < 0.4


@pytest.mark.full
def test_repl_sessions_end_with_their_pause(bench: Bench) -> None:
    """`session_not_found`, `session_closed`; `repl_sessions` of a pause."""
    stop = bench.stop_of("def test_a(): assert 0\ndef test_b(): assert 0\n")
    arguments = {"pause_id": stop["pause_id"], "expression": "1"}
    first = bench.agent.call("breakpoint_repl_eval", **arguments)["session_id"]
    (pause,) = bench.agent.call("breakpoint_list_paused")["paused"]
    assert pause["repl_sessions"] == [first]
    refused = bench.agent.refused("breakpoint_repl_eval", **arguments, session_id="none")
    assert (refused["error"], refused["session_id"]) == ("session_not_found", "none")
    arguments["pause_id"] = only_stop(bench.go_on(stop))["pause_id"]
    refused = bench.agent.refused("breakpoint_repl_eval", **arguments, session_id=first)
    assert (refused["error"], refused["session_id"]) == ("session_closed", first)
