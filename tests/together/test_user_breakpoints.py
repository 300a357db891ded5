"""`breakpoint()` and `set_trace()` of the user pause for the client."""

from __future__ import annotations

import pytest

from tests.together.driver import only_stop
from tests.together.workbench import Bench

ASKING = """
    import pdb
    import pytest
    from pytest import set_trace

    def helper(number):
        breakpoint()
        return number

    def test_asks():
        x = helper(1)
        pytest.set_trace()
        x += 1
        pdb.set_trace(header="here")
        x += 1
        set_trace()
        assert x == 3
"""


@pytest.mark.full
def test_they_pause_at_the_line_that_asks(bench: Bench) -> None:
    """Phase `line`, reason `breakpoint`; all of them, and steps go on from there."""
    stop = bench.stop_of(ASKING)
    assert (stop["phase"], stop["reason"], stop.get("breakpoint_id")) == (
        "line",
        "breakpoint",
        None,
    )
    assert (stop["location"]["function"], stop["location"]["line"]) == ("helper", 7)
    step = bench.agent.call("debug_step", pause_id=stop["pause_id"])
    assert (step["reason"], step["location"]["line"], step.get("changed", {})) == ("step", 8, {})
    assert bench.eval(stop, "number") == "1"
    for line in (12, 14, 16):
        stop = only_stop(bench.go_on(stop))
        assert (stop["location"]["function"], stop["location"]["line"]) == ("test_asks", line)
    failed = only_stop(bench.go_on(stop, action="raise", exception_type="OSError"))
    assert failed["autopsy"]["exception"]["type"] == "OSError"
    assert bench.go_on(failed)["outcomes"] == {"passed": 0, "failed": 1}


@pytest.mark.full
def test_in_workers_in_conftests_and_while_only_collecting(bench: Bench) -> None:
    """Each process pauses by itself; one that lists tests passes."""
    bench.write(conftest="import pdb\npdb.set_trace()\nbreakpoint()\n", test_it=ASKING)
    assert bench.agent.call("test_list")["tests"] == ["test_it.py::test_asks"]
    bench.write(conftest="")
    bench.run(workers=1, wait=False)
    (stop,) = bench.until_paused(1)
    assert (stop["worker"], stop["location"]["line"]) == ("gw0", 7)
    bench.agent.call("test_stop")


@pytest.mark.full
def test_what_the_user_switched_off_stays_off(bench: Bench) -> None:
    """PYTHONBREAKPOINT, also a hook of the user's; a debugger for terminals is no choice here."""
    stop = bench.stop_of(
        """
        import sys

        def ask(monkeypatch, value):
            monkeypatch.setenv("PYTHONBREAKPOINT", value)
            breakpoint()

        def test_it(monkeypatch):
            ask(monkeypatch, "0")
            ask(monkeypatch, "sys.gettrace")
            with monkeypatch.context() as patched:
                patched.setattr(sys, "breakpointhook", list)
                breakpoint()
            ask(monkeypatch, "ipdb.set_trace")
            sys.stdout.write("after")
        """
    )
    assert stop["location"]["line"] == 6
    assert bench.eval(stop, "value") == "'ipdb.set_trace'"
    assert bench.go_on(stop)["outcomes"] == {"passed": 1, "failed": 0}


@pytest.mark.full
def test_without_a_client_they_are_logged_and_passed(bench: Bench) -> None:
    """Released by `test_stop`, the fixture's own teardown still runs."""
    stop = bench.stop_of(
        """
        import logging
        import pytest
        import signal

        @pytest.fixture
        def late():
            yield
            logging.getLogger("pytest_cideldill").addHandler(logging.FileHandler("logged"))
            breakpoint()

        def test_it(late):
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the release counts here
            breakpoint()
        """
    )
    bench.agent.call("test_stop")
    assert stop["location"]["line"] == 14
    assert "breakpoint() at test_it.py:10 was passed" in (bench.root / "logged").read_text()
