"""Failures of tests that other plugins run: asyncio, anyio, Hypothesis, unittest, attempts."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.together.driver import only_stop
from tests.together.real_package import Record, differences, environment, plain_run, recording
from tests.together.records import recorded
from tests.together.workbench import Bench, workbench

pytestmark = pytest.mark.full

ALL_GUESTS = {"PYTEST_ADDOPTS": ""}

RUNNERS = """
    import asyncio, unittest
    import anyio, pytest, pytest_asyncio
    from hypothesis import given, settings, strategies as st

    here = []

    @pytest_asyncio.fixture
    async def resource():
        here.append("resource")
        yield "open"
        here.remove("resource")

    @pytest_asyncio.fixture
    async def broken():
        inner = "of a coroutine"
        assert inner == "", "in setup"
        yield

    @pytest_asyncio.fixture
    async def untidy():
        yield
        inner = "of a coroutine"
        assert inner == "", "in teardown"

    @pytest.mark.asyncio
    async def test_asyncio(resource):
        print("words of asyncio")
        await asyncio.sleep(0)
        assert resource == "closed"

    @pytest.mark.asyncio
    async def test_asyncio_in_a_task(resource):
        async def task(inner): assert inner == resource
        await asyncio.gather(task("open"), task("torn"))

    @pytest.mark.asyncio
    async def test_asyncio_setup(broken): pass

    @pytest.mark.asyncio
    async def test_asyncio_teardown(untidy): pass

    class TestIsolated(unittest.IsolatedAsyncioTestCase):
        async def asyncSetUp(self): here.append("isolated")
        async def asyncTearDown(self): here.remove("isolated")
        async def test_bad(self):
            await asyncio.sleep(0)
            self.assertEqual(here, ["other"])

    @pytest.fixture
    def anyio_backend(): return "asyncio"

    @pytest.mark.anyio
    async def test_anyio(anyio_backend):
        inner = 3
        await anyio.sleep(0)
        assert inner == 4

    @settings(derandomize=True, database=None)
    @given(number=st.integers(0, 1000))
    def test_hypothesis(number): assert number < 10

    class TestOld(unittest.TestCase):
        def test_parts(self):
            for n in range(3):
                with self.subTest(n=n): self.assertNotEqual(n, 1)

    @pytest.mark.asyncio
    @pytest.mark.parametrize("n", range(3), ids=["a b", "[::]", "\\u2603"])
    async def test_parameters(n): assert n != 1

    @pytest.mark.asyncio
    async def test_skip(): pytest.skip("later")

    @pytest.mark.asyncio
    @pytest.mark.xfail
    async def test_xfail(): assert 0

    tries = []

    @pytest.mark.flaky(reruns=2)
    def test_flaky():
        tries.append(1)
        assert len(tries) == 3, f"attempt {len(tries)}"

    @pytest.mark.flaky(reruns=1)
    def test_never():
        assert tries == [], "never"

    def test_all_are_torn_down(): assert here == []
"""

EXPECTED = [
    # Test, phase, attempt, an expression, its value.
    ("test_asyncio", "call", None, "resource", "'open'"),
    ("test_asyncio_in_a_task", "call", None, "inner", "'torn'"),
    ("test_asyncio_setup", "setup", None, "inner", "'of a coroutine'"),
    ("test_asyncio_teardown", "teardown", None, "inner", "'of a coroutine'"),
    ("TestIsolated::test_bad", "call", None, "here", "['isolated']"),
    ("test_anyio", "call", None, "inner", "3"),
    ("test_hypothesis", "call", None, "number", "10"),
    ("TestOld::test_parts", "call", None, "n", "1"),
    ("test_parameters[[::]]", "call", None, "n", "1"),
    ("test_flaky", "call", 1, "len(tries)", "1"),
    ("test_flaky", "call", 2, "len(tries)", "2"),
    ("test_never", "call", 1, "len(tries)", "3"),
    ("test_never", "call", 2, "len(tries)", "3"),
]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A bench whose tests have every plugin of the extra `test`."""
    root = tmp_path_factory.mktemp("crowd") / "project"
    env = environment() | ALL_GUESTS
    with workbench(root, "-p", "no:cacheprovider", env=env) as bench:
        bench.write(**{"pytest.ini": INI})
        yield bench


INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"


def stops_of(bench: Bench, reply: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each stop, until the run is over."""
    while reply["state"] == "paused":
        yield (stop := only_stop(reply))
        reply = bench.go_on(stop)
    assert reply["state"] == "finished", reply


def test_failures_of_every_runner_pause_and_end_as_without_the_debugger(
    crowd: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is alive at each; outcomes, phases and texts are the same."""
    monkeypatch.setattr("tests.together.real_package.FEW_GUESTS", ALL_GUESTS)
    crowd.write(test_it=RUNNERS)
    plain = plain_run(crowd.root, tmp_path / "plain.json")
    assert (plain.exit_code, plain.counts) == (
        1,
        {"failed": 8, "error": 2, "skipped": 1, "xfailed": 1, "passed": 6},
    )
    seen: list[tuple[Any, ...]] = []
    reply = crowd.run(args=recording(tmp_path / "driven.json"))
    for stop in stops_of(crowd, reply):
        name = stop["nodeid"].partition("::")[2]
        expression = EXPECTED[len(seen)][3]
        value = crowd.eval(stop, expression)
        seen.append((name, stop["when"], stop.get("attempt"), expression, value))
    assert seen == EXPECTED
    driven = Record.read(tmp_path / "driven.json")
    assert differences(plain.reports, driven.reports) == {}
    assert driven == plain


@pytest.mark.parametrize(
    ("worker", "args"),
    [
        pytest.param("main", [], id="main"),
        pytest.param("gw", ["-n2", "--dist=loadfile"], id="xdist", marks=pytest.mark.soak),
    ],
)
def test_each_attempt_is_reported_and_the_last_one_counts(
    crowd: Bench, worker: str, args: list[str]
) -> None:
    """pytest-rerunfailures: `attempt` at the pause, in failures, results and the timeline."""
    crowd.write(test_it=RUNNERS)
    nodeids = [f"test_it.py::test_{name}" for name in ("flaky", "never", "skip")]
    paused = list(stops_of(crowd, crowd.run(nodeids, args=args)))
    assert [(stop["nodeid"], stop["attempt"]) for stop in paused] == [
        (nodeids[0], 1),
        (nodeids[0], 2),
        (nodeids[1], 1),
        (nodeids[1], 2),
    ]
    assert all(stop["pause_id"].split(".")[1].startswith(worker) for stop in paused)

    reply = crowd.run(nodeids, args=args, pause_on="never")
    assert reply["outcomes"] == {"passed": 1, "failed": 1, "rerun": 3, "skipped": 1}
    (failure,) = reply["failures"]
    assert (failure["nodeid"], failure["attempt"]) == (nodeids[1], 2)
    results = crowd.results()
    flaky, never = results["test_flaky"], results["test_never"]
    assert (flaky["outcome"], flaky["attempt"]) == ("passed", 3)
    assert [(each["attempt"], each["phase"]) for each in flaky["reruns"]] == [
        (1, "call"),
        (2, "call"),
    ]
    assert flaky["reruns"][1]["exception"]["message"].startswith("attempt 2")
    assert (never["outcome"], never["attempt"], len(never["reruns"])) == ("failed", 2, 1)
    assert "attempt" not in results["test_skip"]
    assert len(results) == 3
    reported = crowd.agent.call("exception_get_context", nodeid=nodeids[0])
    assert reported["exception"]["message"].startswith("attempt 2")
    types = ["test_phase", "failure", "test_outcome"]
    wanted = {"types": types, "nodeid": nodeids[1], "run_id": reply["run_id"]}
    events = crowd.agent.call("timeline_get", **wanted)["events"]
    assert [(event["type"], event.get("attempt")) for event in events] == [
        ("test_phase", 1),
        ("failure", 2),
        ("test_outcome", None),
    ]


def test_a_pause_in_an_example_meets_no_deadline_of_hypothesis(crowd: Bench) -> None:
    """Its deadlines and health checks leave a pause out, and still work."""
    crowd.write(
        test_it="""
        import time
        from datetime import timedelta
        from hypothesis import given, settings, strategies as st

        def helper(): pass

        @st.composite
        def slow(draw):
            helper()
            return draw(st.integers())

        @settings(database=None, max_examples=3, deadline=timedelta(milliseconds=300))
        @given(number=slow())
        def test_quick(number): helper()

        @settings(database=None, max_examples=3, deadline=timedelta(milliseconds=300))
        @given(number=st.just(1))
        def test_late(number):
            helper()
            time.sleep(0.6)
        """
    )
    crowd.breakpoint("test_it.helper")
    reply = crowd.run(["test_it.py"])
    pauses = 0
    while reply["state"] == "paused" and (stop := only_stop(reply))["phase"] == "before":
        pauses += 1
        crowd.eval(stop, "__import__('time').sleep(0.5)")
        reply = crowd.go_on(stop)
    assert pauses >= 6
    stop = only_stop(reply)
    assert stop["nodeid"] == "test_it.py::test_late"
    assert "DeadlineExceeded" in str(stop["autopsy"]["exception"]) + str(
        stop["autopsy"].get("innerExceptions")
    )
    assert crowd.go_on(stop)["outcomes"] == {"passed": 1, "failed": 1}


def test_an_explanation_of_hypothesis_names_no_line_of_ours(tmp_path: Path) -> None:
    """What records a call of a failing example runs for those alone, as other lines do."""
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent(
            """
            from hypothesis import given, settings, strategies as st

            class Thing: x = 1

            def helper(thing): return thing

            @settings(database=None)
            @given(st.integers())
            def test_it(n):
                assert helper(Thing() if n > 100 else None) is None

            @settings(database=None)
            @given(st.integers())
            def test_explained(n):
                if n > 100:
                    helper(Thing())
                    assert False

            def test_files():
                import sys
                from hypothesis.internal.escalation import is_hypothesis_file
                from hypothesis.internal.scrutineer import should_trace_file

                file = sys.modules["pytest_cideldill.rendering.display"].__file__
                assert not should_trace_file(file)
                assert not is_hypothesis_file(file)
                assert should_trace_file(__file__)
            """
        ),
        encoding="utf-8",
    )
    done = recorded(
        tmp_path, "--cideldill-record-calls=test_it.helper", environment=environment() | ALL_GUESTS
    )
    assert "2 failed, 1 passed" in done.out
    assert "always and only run by failing" in done.out
    assert "test_it.py:17\n" in done.out
    assert "pytest_cideldill" not in done.out
