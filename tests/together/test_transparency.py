"""A driven run is like a plain one: tests that look closely see nothing, tests that break things
don't break us.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from tests.together.driver import only_stop
from tests.together.workbench import Bench

CURIOUS = """
    import gc, json, os, signal, socket, subprocess, sys, threading, time, warnings
    import pytest

    def test_threads():
        assert threading.active_count() == 1
        assert threading.enumerate() == [threading.main_thread()]
        assert threading.current_thread() is threading.main_thread()

    def never_called(): pass  # what a breakpoint waits for is traced before 3.12

    def test_tracing():
        assert sys.gettrace() is None and sys.getprofile() is None
        assert threading.gettrace() is None
        if sys.version_info >= (3, 12):
            # The ids of pytest-timeout (0), coverage (1) and Hypothesis (3) are never taken.
            assert [sys.monitoring.get_tool(n) for n in (0, 1, 3)] == [None] * 3

    def test_environment():
        assert not [name for name in os.environ if "CIDELDILL" in name]
        child = [sys.executable, "-c", "import os; print(*os.environ)"]
        assert "CIDELDILL" not in subprocess.check_output(child, text=True)

    def test_modules():
        for name in ("mcp", "anyio", "pydantic", "dill", "asyncio", "cideldill_mcp"):
            assert name not in sys.modules, name

    def test_signals():
        for number in (signal.SIGURG, signal.SIGCONT, signal.SIGALRM, signal.SIGTERM):
            assert signal.getsignal(number) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()

    def test_stdin(): assert os.read(0, 1) == b""

    def test_warnings_are_errors():
        with pytest.raises(UserWarning):
            warnings.warn("x")

    def test_nothing_is_collected_as_garbage():
        gc.collect()
        assert gc.garbage == []

    def test_nested_run_does_not_connect(tmp_path):
        (tmp_path / "test_inner.py").write_text("def test_inner(): assert 0")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)],
            capture_output=True, text=True, timeout=30,
        )
        assert done.returncode == 1, done.stdout

    def test_nested_run_in_process(tmp_path):
        (tmp_path / "test_inner2.py").write_text("def test_inner(): assert 0")
        assert pytest.main(["-p", "no:cacheprovider", str(tmp_path)]) == 1
"""
"""What a driven run could give itself away by; each passes in a plain run."""

ROUGH = """
    import json, os, select, signal, socket, sys, threading, time, _thread
    import pytest

    def no(*args, **kwargs): raise AssertionError("patched")

    PATCHES = [
        (json, "dumps"), (json, "loads"), (time, "time"), (time, "monotonic"),
        (time, "sleep"), (threading, "Thread"), (threading, "Lock"), (threading, "enumerate"),
        (threading, "current_thread"), (socket, "socket"), (select, "select"), (os, "write"),
        (os, "getpid"), (os.path, "exists"), (os.path, "realpath"),
        (signal, "setitimer"), (_thread, "start_new_thread"), (_thread, "allocate_lock"),
        (_thread, "get_ident"),
    ]

    @pytest.fixture(params=PATCHES, ids=lambda pair: pair[1])
    def patched(request, monkeypatch):
        module, name = request.param
        with monkeypatch.context() as patch:
            patch.setattr(module, name, no)
            yield name

    def test_patched(patched): pass

    def wait(): return "waited"
    def test_patched_at_a_pause(monkeypatch):
        with monkeypatch.context() as patch:
            for module, name in PATCHES: patch.setattr(module, name, no)
            assert wait() == "waited"

    def test_patched_and_failing(patched): assert patched == "time"

    def test_forks():
        for _ in range(3):
            pid = os.fork()
            if not pid: os._exit(7)
            assert os.waitpid(pid, 0)[1] == 7 << 8

    def test_forked_child_may_end_in_order(capfd):
        import multiprocessing
        child = multiprocessing.get_context("fork").Process(target=int)
        child.start(); child.join()
        assert child.exitcode == 0

    def test_environment_is_cleared(monkeypatch):
        for name in list(os.environ): monkeypatch.delenv(name)

    def test_modules_are_purged(monkeypatch):
        for name in [name for name in sys.modules if "cideldill" in name]:
            monkeypatch.delitem(sys.modules, name)

    def test_folder_is_changed(tmp_path, monkeypatch): monkeypatch.chdir(tmp_path)

    def test_limits():
        sys.setrecursionlimit(sys.getrecursionlimit())
        sys.setswitchinterval(1e-5)
        sys.setswitchinterval(0.005)
"""


def plain(bench: Bench, *arguments: str) -> tuple[int, dict[str, str]]:
    """Exit code and outcome by test of a plain run."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "--color=no"]
    done = subprocess.run(
        [*command, *arguments], cwd=bench.root, capture_output=True, text=True, check=False
    )
    found = re.findall(r"^test_it\.py::(\S+) ([A-Z]+) ", done.stdout, re.MULTILINE)
    return done.returncode, {name: outcome.lower() for name, outcome in found}


def driven(bench: Bench, reply: dict[str, Any]) -> tuple[int, dict[str, str]]:
    tests = bench.results(limit=500, max_chars=200_000)
    return reply["exit_code"], {name: test["outcome"] for name, test in tests.items()}


GUESTS = ("anyio", "asyncio", "hypothesispytest", "rerunfailures")
"""Plugins that would import what is looked for, or start threads, in a plain run as well."""

STRICT = ("-W", "error", *(part for name in GUESTS for part in ("-p", f"no:{name}")))


@pytest.mark.full
def test_a_test_that_looks_for_us_finds_nothing(bench: Bench) -> None:
    """Breakpoints on functions nobody calls change nothing."""
    bench.write(test_it=CURIOUS)
    expected = plain(bench, *STRICT, "test_it.py")
    assert set(expected[1].values()) == {"passed"}
    bench.breakpoint("test_it.never_called")
    reply = bench.run(["test_it.py"], args=list(STRICT), pause_on="never")
    assert reply["failures"] == []
    assert driven(bench, reply) == expected
    assert "warnings" not in reply


@pytest.mark.full
def test_a_test_that_breaks_what_we_stand_on_ends_as_in_a_plain_run(bench: Bench) -> None:
    """Everything is bound at import; forks find no second thread."""
    bench.write(test_it=ROUGH)
    expected = plain(bench, *STRICT, "test_it.py")
    bench.breakpoint("test_it.wait")
    reply = bench.run(["test_it.py"], args=list(STRICT), pause_on="never")
    stop = only_stop(reply)
    assert stop["nodeid"] == "test_it.py::test_patched_at_a_pause"
    assert bench.eval(stop, "1 + 1") == "2"
    assert driven(bench, bench.go_on(stop)) == expected
    assert "warnings" not in bench.agent.call("debug_state")


@pytest.mark.full
def test_a_failing_test_that_broke_things_pauses_and_goes_on(bench: Bench) -> None:
    """Hooks never raise."""
    bench.write(test_it=ROUGH)
    reply = bench.run(["test_it.py::test_patched_and_failing"], args=list(STRICT))
    stops = 0
    while reply["state"] == "paused":
        stops += 1
        assert bench.eval(only_stop(reply), "1 + 1") == "2"
        reply = bench.go_on(only_stop(reply))
    assert (stops, reply["outcomes"]["failed"]) == (18, 18)


@pytest.mark.full
def test_a_lost_connection_does_not_change_the_outcome(bench: Bench) -> None:
    """The spine, part 4: a lost link never hurts the run."""
    bench.write(
        conftest="""
            import pathlib
            def pytest_sessionfinish(session, exitstatus):
                pathlib.Path("outcome").write_text(f"{int(exitstatus)} {session.testsfailed}")
        """,
        test_it="""
            import os
            def test_a(): pass
            def test_close(): os.closerange(3, 64)
            def test_b(): pass
            def test_bad(): assert 0
        """,
    )
    bench.breakpoint("test_it.test_b")
    reply = bench.run(["test_it.py"], args=["-s"], pause_on="never")
    while reply["state"] == "paused":  # it connects again
        reply = bench.go_on(only_stop(reply))
    assert (bench.root / "outcome").read_text(encoding="utf-8") == "1 1"
    state = bench.agent.call("debug_state")
    assert state["paused"] == []
    assert bench.run(["test_it.py::test_a"])["exit_code"] == 0


@pytest.mark.full
@pytest.mark.sample("fd", "sys")
@pytest.mark.parametrize("capture", ["fd", "sys", "tee-sys", "no"])
def test_captured_output_is_the_same_in_every_mode(bench: Bench, capture: str) -> None:
    """Reports identical in every capture mode; a pause reads none."""
    bench.breakpoint("test_it.wait")
    reply = bench.test(
        """
        import logging, os, subprocess, sys
        def wait(): pass
        def test_out(capfd):
            print("one"); os.write(1, b"two\\n")
            wait()
            subprocess.run(["echo", "three"])
            assert capfd.readouterr().out == "one\\ntwo\\nthree\\n"
        def test_sys(capsys, caplog):
            print("one", file=sys.stderr)
            logging.warning("logged")
            wait()
            with capsys.disabled(): wait()
            assert capsys.readouterr().err == "one\\n"
            assert caplog.messages == ["logged"]
        def test_bad():
            print("last", end=" ")
            wait()
            print("words")
            assert 0
        """,
        args=[f"--capture={capture}"],
    )
    for _ in range(4):
        stop = only_stop(reply)
        assert stop["phase"] == "before"
        assert bench.eval(stop, "print('of the debugger')") == "None"
        reply = bench.go_on(stop)
    stop = only_stop(reply)
    assert stop["autopsy"].get("stdout") == (None if capture == "no" else "last words\n")
    assert bench.eval(stop, "print('not captured by pytest')") == "None"
    reply = bench.go_on(stop)
    assert reply["outcomes"] == {"passed": 2, "failed": 1}
    assert bench.results()["test_bad"].get("stdout") == (
        None if capture == "no" else "last words\n"
    )
