"""`debug_pause` in real runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.together.driver import only_stop
from tests.together.workbench import Bench


def running(bench: Bench, text: str, **options: Any) -> None:
    """Start `test_it.py` and wait until its test runs."""
    bench.test(text, wait=False, **options)
    while not bench.agent.call("debug_state")["running"]:
        pass


BUSY = """
    import time

    go = False

    def test_busy():
        while not go: pass
        time.sleep(0)
"""


@pytest.mark.full
def test_an_endless_loop_is_stopped_where_it_is(bench: Bench) -> None:
    """Phase `line`, reason `interrupt`; it can be stepped and goes on to its true outcome."""
    agent = bench.agent
    running(bench, BUSY)
    reply = agent.call("debug_pause")
    assert reply["status"] == "paused"
    assert "pending" not in reply
    stop = only_stop(reply)
    assert (stop["phase"], stop["reason"], stop["pause_id"]) == (
        "line",
        "interrupt",
        reply["pause_id"],
    )
    assert (stop["location"]["file"], stop["location"]["line"]) == ("test_it.py", 7)
    (test,) = reply["running"]
    assert (test["nodeid"], test["phase"]) == ("test_it.py::test_busy", "call")
    assert test["location"]["line"] == 7
    again = agent.call("debug_pause")
    assert (again["status"], again["pause_id"]) == ("already_paused", reply["pause_id"])
    bench.eval(stop, "globals()['go'] = True")
    stepped = agent.call("debug_step", pause_id=stop["pause_id"])
    assert (stepped["reason"], stepped["location"]["line"]) == ("step", 8)
    assert bench.go_on(stop)["outcomes"] == {"passed": 1, "failed": 0}


@pytest.mark.full
def test_a_blocking_call_is_stopped_and_goes_on(bench: Bench) -> None:
    """Inside a library: the place is that of the user's code; the wait is not cut short."""
    running(
        bench,
        """
        import signal
        import threading

        arrived = threading.Event()

        def test_waits():
            assert arrived.wait(20)
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        """,
    )
    stop = only_stop(bench.agent.call("debug_pause"))
    assert (stop["location"]["function"], stop["location"]["line"]) == ("test_waits", 8)
    stack = bench.agent.call("stacktrace_get", pause_id=stop["pause_id"])["frames"]
    assert stack[0]["isExternal"]
    bench.eval(stop, "import test_it; test_it.arrived.set()")
    assert bench.go_on(stop)["exit_code"] == 0


@pytest.mark.full
def test_what_is_stuck_in_c_is_reported_with_its_stacks(bench: Bench) -> None:
    """Nothing stops later unasked."""
    running(
        bench,
        """
        import hashlib

        def test_long():
            hashlib.pbkdf2_hmac("sha256", b"", b"", 12_000_000)
            assert True
        """,
    )
    reply = bench.agent.call("debug_pause")
    assert (reply["status"], reply["pause_id"], reply["stops"]) == ("not_stopped", None, [])
    assert reply["message"].startswith("main is not paused: it came to no line of yours within 2 s")
    main = next(each for each in reply["threads"] if each["name"] == "MainThread")
    assert main["stack"][0] == "test_it.py:5 test_long"
    assert reply["running"][0]["location"]["line"] == 5
    assert bench.until("finished", "paused")["state"] == "finished"


@pytest.mark.full
def test_other_threads_and_signals_that_others_handle(bench: Bench) -> None:
    """By events at their next line; a handler of the user's stays, which is told."""
    agent = bench.agent
    running(
        bench,
        """
        import signal
        import threading

        go = False
        heard = []

        def work():
            while not go: pass

        def test_it():
            before = signal.signal(signal.SIGURG, lambda *_: heard.append(1))
            thread = threading.Thread(target=work, name="busy")
            thread.start()
            while not go: pass
            thread.join()
            signal.signal(signal.SIGURG, before)
            assert not heard
        """,
    )
    while not (busy := [t for t in agent.call("threads_list")["threads"] if t["name"] == "busy"]):
        pass
    stop = only_stop(agent.call("debug_pause", thread_id=busy[0]["id"]))
    assert (stop["thread"]["name"], stop["location"]["line"]) == ("busy", 9)
    reply = agent.call("debug_pause")
    assert reply["status"] == "paused"
    assert "has set SIGURG itself" in reply["message"]
    main = reply["stops"][0]
    assert ("thread" in main, main["location"]["line"]) == (False, 15)  # the main one
    refused = agent.refused("debug_pause", thread_id=1)
    assert refused["error"] == "thread_not_found"
    bench.eval(main, "globals()['go'] = True")
    agent.call("debug_continue")
    assert bench.until("finished")["outcomes"] == {"passed": 1}


@pytest.mark.full
def test_workers(bench: Bench) -> None:
    """One worker by its name, or all of them."""
    bench.write(test_it=BUSY)
    bench.write(test_other=BUSY)
    agent = bench.agent
    bench.run(wait=False, args=["-n2", "--dist=loadfile"])
    while len(agent.call("debug_state")["running"]) < 2:
        pass
    one = agent.call("debug_pause", worker="gw1")
    assert (one["status"], only_stop(one)["worker"]) == ("paused", "gw1")
    every = agent.call("debug_pause")
    assert every["status"] == "paused"
    assert {each["worker"] for each in every["stops"]} == {"gw0", "gw1"}
    assert agent.refused("debug_pause", worker="gw7")["error"] == "worker_not_found"
    for stop in every["stops"]:
        bench.eval(stop, "globals()['go'] = True")
    agent.call("debug_continue")
    assert bench.until("finished")["outcomes"] == {"passed": 2}


@pytest.mark.full
def test_a_step_can_be_stopped_on_its_way(bench: Bench) -> None:
    """A step over a loop that does not end: the same pause again."""
    bench.write(test_it=BUSY)
    added = bench.agent.call("breakpoint_set", file="test_it.py", line=7)
    stop = bench.stop_of(BUSY)
    bench.agent.call("breakpoint_remove", id=added["id"])  # on 3.11 each round would pass it
    reply = bench.agent.call("debug_step", pause_id=stop["pause_id"], timeout_s=0.2)
    assert reply["reason"] == "running"
    reply = bench.agent.call("debug_pause")
    assert (reply["status"], reply["pause_id"]) == ("paused", stop["pause_id"])
    bench.eval(stop, "globals()['go'] = True")
    assert bench.go_on(stop)["exit_code"] == 0


@pytest.mark.full
def test_nothing_to_pause(bench: Bench) -> None:
    """After a run."""
    bench.test("def test_it(): pass")
    assert bench.agent.refused("debug_pause")["error"] == "not_live"
