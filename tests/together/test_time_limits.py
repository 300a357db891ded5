"""Limits on the time of tests don't fire because of a pause, and still hold afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.together.driver import only_stop
from tests.together.workbench import Bench, workbench

pytestmark = [pytest.mark.full, pytest.mark.long(45)]


def go_on_later(bench: Bench, reply: dict[str, Any], seconds: float) -> tuple[dict[str, Any], int]:
    """Let time go by at each breakpoint; the first reply without one, and how many there were."""
    number = 0
    while reply["state"] == "paused" and (stop := only_stop(reply))["phase"] == "before":
        bench.eval(stop, f"__import__('time').sleep({seconds})")
        reply = bench.go_on(stop)
        number += 1
    return reply, number


LIMITED = """
    import pathlib, threading, time
    import pytest

    def wait(): pass

    @pytest.fixture
    def slow_fixture():
        wait()
        yield
        wait()

    def test_twice():
        wait()
        wait()

    def test_fixture(slow_fixture): pass

    @pytest.mark.timeout(1.0, func_only=True)
    def test_function_only(slow_fixture): wait()

    def test_other_thread():
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()

    def test_plain(): pass
"""


@pytest.mark.sample("thread")
@pytest.mark.parametrize("method", ["signal", "thread"])
def test_pytest_timeout_doesn_t_fire_because_of_a_pause(bench: Bench, method: str) -> None:
    """Each pause is longer than the limit: in tests, fixtures, a thread that is waited for."""
    bench.breakpoint("test_it.wait")
    reply = bench.test(LIMITED, args=["--timeout=1.0", f"--timeout-method={method}"])
    reply, number = go_on_later(bench, reply, 1.2)
    assert (number, reply["exit_code"], reply["outcomes"]) == (8, 0, {"passed": 5, "failed": 0})


HANGS = """
    import pathlib, time
    def wait(): pass

    def test_hangs():
        wait()
        began = time.monotonic()
        try:
            while time.monotonic() - began < 20:
                time.sleep(0.05)
                with open("lasted", "a") as file:  # whole lines, also when it is ended here
                    print(time.monotonic() - began, file=file)
        finally:
            pathlib.Path("finally").write_text("")
"""


@pytest.mark.parametrize("method", ["signal", "thread"])
def test_pytest_timeout_fires_after_a_pause_when_the_rest_of_its_time_is_over(
    bench: Bench, method: str
) -> None:
    """By its thread it ends the process: as in a plain run."""
    bench.breakpoint("test_it.wait")
    arguments = ["--timeout=1.0", f"--timeout-method={method}"]
    reply, number = go_on_later(bench, bench.test(HANGS, args=arguments, pause_on="never"), 1.5)
    lasted = float((bench.root / "lasted").read_text(encoding="utf-8").splitlines()[-1])
    assert number == 1
    assert 0.3 < lasted < 1.3
    if method == "signal":
        assert reply["outcomes"] == {"passed": 0, "failed": 1}
        assert "Timeout (>1.0s)" in bench.results()["test_hangs"]["exception"]["message"]
    else:
        assert (reply["state"], reply["exit_code"]) == ("crashed", 1)
        assert not (bench.root / "finally").exists()


def test_the_limit_of_the_session_leaves_pauses_out(bench: Bench) -> None:
    """`--session-timeout` is looked at after each test."""
    bench.breakpoint("test_it.wait")
    reply = bench.test(LIMITED, args=["--session-timeout=3"])
    reply, number = go_on_later(bench, reply, 1.0)
    assert (number, reply["outcomes"]) == (8, {"passed": 5, "failed": 0})
    slow = "import time\ndef test_a(): time.sleep(0.6)\ndef test_b(): pass\n"
    reply = bench.test(slow, args=["--session-timeout=0.5"])
    assert reply["outcomes"] == {"passed": 1, "failed": 0}


DUMPED = """
    import time
    def wait(): pass
    def test_waits(): wait()
    def test_hangs():
        wait()
        time.sleep(1.5)
"""


def test_faulthandler_dumps_stacks_of_what_hangs_and_not_of_what_is_paused(bench: Bench) -> None:
    """`faulthandler_timeout`; its stacks go to the process's own stderr."""
    bench.breakpoint("test_it.wait")
    place = bench.root / "stderr"
    bench.write(
        conftest=f"""
            import os
            os.dup2(os.open({str(place)!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        """
    )
    arguments = ["-o", "faulthandler_timeout=1.0", "-s"]
    reply = bench.test(DUMPED, args=arguments)
    for _ in range(2):
        stop = only_stop(reply)
        bench.eval(stop, "__import__('time').sleep(1.3)")
        assert place.read_text(encoding="utf-8").count("Timeout") == 0
        reply = bench.go_on(stop)
    assert reply["outcomes"] == {"passed": 2, "failed": 0}
    dumped = place.read_text(encoding="utf-8")
    assert dumped.count("Timeout") == 1
    assert "in test_hangs" in dumped


SLOW_CALLBACKS = """
    import asyncio, logging, threading, time

    def wait(): pass

    async def paused(): wait()

    async def paused_twice():
        wait()
        wait()

    async def slow(): time.sleep(0.4)

    async def paused_and_slow():
        wait()
        time.sleep(0.4)

    def told(caplog, *functions):
        caplog.clear()
        async def main():
            loop = asyncio.get_running_loop()
            loop.slow_callback_duration = 0.2
            for function in functions:
                await asyncio.create_task(function())
            return loop.slow_callback_duration
        assert asyncio.run(main(), debug=True) == 0.2
        return [r.getMessage() for r in caplog.records if "Executing" in r.getMessage()]

    def test_pauses(caplog): assert told(caplog, paused, paused_twice) == []

    def test_slow(caplog):
        (one,) = told(caplog, paused, slow, paused)
        assert "slow()" in one

    def test_both(caplog):
        (one,) = told(caplog, paused_and_slow, paused)
        assert "paused_and_slow()" in one

    def test_without_debug(caplog):
        async def main(): wait()
        asyncio.run(main())
        assert caplog.records == []
"""


def test_asyncio_doesn_t_call_a_paused_callback_slow(bench: Bench) -> None:
    """Debug mode logs callbacks that take long; those that do are still told."""
    bench.breakpoint("test_it.wait")
    reply, number = go_on_later(bench, bench.test(SLOW_CALLBACKS), 0.5)
    assert (number, reply["outcomes"]) == (8, {"passed": 4, "failed": 0})


def test_a_lease_that_ends_in_a_test_leaves_its_limits_as_they_were(tmp_path: Path) -> None:
    """As if nothing had paused it; the log says so."""
    with workbench(tmp_path / "project", "--cideldill-lease=1.2") as bench:
        bench.breakpoint("test_it.wait")
        bench.write(test_it=LIMITED)
        nodeids = ["test_it.py::test_twice", "test_it.py::test_other_thread"]
        reply = bench.run(nodeids, args=["--timeout=1.0", "--timeout-method=thread"])
        assert reply["state"] == "paused"
        assert bench.until("finished")["outcomes"] == {"passed": 2}
        events = bench.agent.call("timeline_get", types=["stop", "resumed"])["events"]
        assert [(event["type"], event.get("by")) for event in events] == [
            ("stop", None),
            ("resumed", "lease"),
        ] * 3
