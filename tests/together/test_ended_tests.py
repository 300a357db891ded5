"""Events of tests leave late and together; nobody who looks, waits or comes after a crash notices.

What a process did not send before it died lies in its file: outcomes are those of a plain run.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.together.workbench import Bench

full = pytest.mark.full

DEADLINE_S = 20.0

DEATHS = {
    "exit": "os._exit(3)",
    "kill": "os.kill(os.getpid(), signal.SIGKILL)",
    "abort": "resource.setrlimit(resource.RLIMIT_CORE, (0, 0)) or os.abort()",
}

ALL_KINDS = """
    import os, resource, signal
    import pytest

    @pytest.mark.parametrize("n", range(60))
    def test_passes(n): pass

    @pytest.mark.parametrize("n", range(5))
    def test_is_skipped(n): pytest.skip("not here")

    @pytest.mark.xfail
    @pytest.mark.parametrize("n", range(4))
    def test_fails_as_expected(n): assert n < 0

    @pytest.mark.xfail
    @pytest.mark.parametrize("n", range(3))
    def test_passes_unexpectedly(n): pass

    @pytest.mark.parametrize("n", range(2))
    def test_fails(n): assert n < 0

    @pytest.fixture
    def broken(): yield; raise LookupError("torn")

    def test_errs(broken): pass
    def test_last(): pass
    def test_dies(): {death}
"""

BEFORE = {"passed": 62, "skipped": 5, "xfailed": 4, "xpassed": 3, "failed": 2, "error": 1}


def ended_in(events: list[dict[str, Any]]) -> list[str]:
    """The tests whose start and end stand in the timeline, in order, each right after its start."""
    ids: list[str] = []
    running = None
    for event in events:
        if event["type"] == "test_started":
            assert running is None, event
            running = event["nodeid"]
        elif event["type"] == "test_outcome":
            assert event["nodeid"] == running
            ids.append(event["nodeid"])
            running = None
    return ids


@pytest.mark.full
@pytest.mark.parametrize(
    "death", ["exit", pytest.param("kill", marks=full), pytest.param("abort", marks=full)]
)
def test_all_outcomes_before_a_crash_are_those_of_the_tests(bench: Bench, death: str) -> None:
    """The last of them ended microseconds before."""
    reply = bench.test(ALL_KINDS.format(death=DEATHS[death]), pause_on="never")
    assert reply["end"]["kind"] == "crashed"
    assert reply["end"]["lastTest"] == "test_it.py::test_dies"
    assert reply["outcomes"] == BEFORE
    events = bench.events("test_started", "test_outcome", limit=500)
    assert len(ended_in(events)) == 76
    assert events[-1] | {"nodeid": "test_it.py::test_dies", "type": "test_started"} == events[-1]
    numbers = [each["seq"] for each in bench.events(limit=500)]
    assert numbers == sorted(set(numbers))
    (error,) = bench.agent.call("test_results", outcome="error")["tests"]
    assert error["nodeid"] == "test_it.py::test_errs"


@full
@pytest.mark.parametrize(
    ("tests", "characters"),
    [
        pytest.param(1_500, 500, id="more tests than it holds, faster than they leave"),
        pytest.param(3, 100_000, id="a name that is larger"),
    ],
)
def test_what_the_file_has_no_room_for_is_not_lost(
    bench: Bench, tests: int, characters: int
) -> None:
    """It leaves before the next test begins."""
    reply = bench.test(
        f"""
        import os, pytest
        @pytest.mark.parametrize("n", range({tests}), ids=lambda n: "x" * {characters} + str(n))
        def test_it(n): pass
        def test_dies(): os._exit(3)
        """,
        pause_on="never",
    )
    assert (reply["end"]["kind"], reply["outcomes"]["passed"]) == ("crashed", tests)


@full
def test_a_failure_before_a_crash_keeps_its_report(bench: Bench) -> None:
    """It has left before the next test begins."""
    reply = bench.test(
        """
        import os
        def test_fails(): assert [1] == [2]
        def test_dies(): os._exit(3)
        """,
        pause_on="never",
    )
    (failure,) = reply["failures"]
    assert failure["exception"]["type"] == "AssertionError"
    assert reply["end"]["lastTest"] == "test_it.py::test_dies"


@full
def test_a_child_that_outlives_a_crash_holds_nothing_back(bench: Bench) -> None:
    """It has the connection as well, which does not end with the process."""
    reply = bench.test(
        """
        import os, time
        def test_forks():
            if not os.fork():
                time.sleep(3)
                os._exit(0)
        def test_passes(): pass
        def test_dies(): os._exit(3)
        """,
        pause_on="never",
    )
    assert reply["end"]["kind"] == "crashed"
    assert reply["outcomes"]["passed"] == 2


@full
def test_tests_of_a_forked_child_are_not_those_of_its_parent(bench: Bench) -> None:
    """The file is the parent's alone."""
    reply = bench.test(
        """
        import os
        def test_a(): pass
        def test_forks():
            if not os.fork():
                import pytest
                pytest.main(["--version"])
                os._exit(0)
            os.wait()
        def test_dies(): os._exit(3)
        """,
        pause_on="never",
    )
    assert reply["outcomes"]["passed"] == 2


@full
def test_outcomes_of_a_worker_that_crashes_are_those_of_its_tests(bench: Bench) -> None:
    """Once, whether it or xdist's controller reported them."""
    reply = bench.test(
        """
        import os, pytest
        @pytest.mark.parametrize("n", range(40))
        def test_it(n):
            if n == 7: pytest.skip("no")
        @pytest.mark.xdist_group("last")
        def test_dies(): os._exit(3)
        """,
        workers=2,
        pause_on="never",
    )
    assert reply["outcomes"] == {"passed": 39, "skipped": 1, "failed": 1}


QUICK_THEN = """
    import pathlib, time
    import pytest

    @pytest.mark.parametrize("n", range(20))
    def test_quick(n): pass

    def test_then(): {then}
    def test_waits():
        deadline = time.monotonic() + 30
        while not pathlib.Path("go").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
"""


@full
def test_a_pause_shows_what_was_before_it(bench: Bench) -> None:
    """Whoever gets the stop finds the tests before it ended, in order."""
    stop = bench.stop_of(QUICK_THEN.format(then="assert 0"))
    types = [each["type"] for each in bench.events(limit=500)]
    assert types.index("stop") > max(n for n, each in enumerate(types) if each == "test_outcome")
    assert types.count("test_outcome") == 20
    assert types.count("test_started") == 21
    (bench.root / "go").touch()
    bench.go_on(stop)


@full
def test_hits_stand_between_the_events_of_their_tests(bench: Bench) -> None:
    """Rows and events of tests leave by different ways."""
    bench.write(test_it="".join(f"def test_{name}():\n    x = 1\n" for name in "abc"))
    for line in (2, 6):
        bench.agent.call("tracepoint_set", file="test_it.py", line=line, log_message="hit")
    bench.run(["test_it.py"])
    types = [each["type"] for each in bench.events("test_started", "hit", "test_outcome")]
    with_hit = ["test_started", "hit", "test_outcome"]
    assert types == [*with_hit, "test_started", "test_outcome", *with_hit]


@full
def test_a_test_that_takes_long_is_known_to_run(bench: Bench) -> None:
    """And those before it to have ended, while nothing more is sent."""
    bench.test(QUICK_THEN.format(then="pass"), wait=False)
    bench.until("running")
    deadline = time.monotonic() + DEADLINE_S
    while (events := bench.events("test_started", limit=500))[-1:] == [] or not events[-1][
        "nodeid"
    ].endswith("test_waits"):
        assert time.monotonic() < deadline
    assert len(bench.events("test_outcome", limit=500)) == 21
    (bench.root / "go").touch()
    bench.until("finished")


@full
def test_a_failure_is_there_before_the_next_test_ends(bench: Bench) -> None:
    """Clients wait for it; it waits for nobody."""
    bench.test(QUICK_THEN.format(then="assert 0"), wait=False, pause_on="never")
    bench.until("running")
    deadline = time.monotonic() + DEADLINE_S
    while not bench.events("failure", limit=500):
        assert time.monotonic() < deadline
    (bench.root / "go").touch()
    assert bench.until("finished")["outcomes"]["failed"] == 1
