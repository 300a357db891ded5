"""What can't be told whole is told in part: no failure reads as passed, no thread stays parked."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.inside.injector import COMBINATIONS, VALUES
from tests.together.records import recorded
from tests.together.workbench import Bench, workbench

INSIDE = Path(__file__).parent / "inside"
INJECTOR = ("-p", "injector")

FAILING = """
    import pytest

    def test_passes(): pass
    def test_fails(): assert [1] == [2]

    @pytest.fixture
    def untidy():
        yield
        raise KeyError("in teardown")

    def test_errs(untidy): pass
    """

MAKERS = (
    "phase_reported", "category_of", "visible_places", "place_in_code", "place_in_report",
    "place_of_test", "subtest_of", "_text_of", "_attempt_of", "add_to", "event_of_phase",
    "PhaseReported", "partial",
)  # fmt: skip
"""What the reporting of a phase uses."""

UNREADABLE = ("a mock", "bytes", "an object without a text")
CERTAIN = (
    "id", "nodeid", "paused_at", "pause_reason", "phase", "repl_sessions", "run_id", "thread.id",
    "when", "worker",
)  # fmt: skip
"""What a stop tells however it was spoiled."""

UNSEEN = ("category_of", "place_in_report", "place_of_test")
"""Those that are not needed for these failures."""


def environment(what: str) -> dict[str, str]:
    return {"PYTHONPATH": str(INSIDE), "INJECT": what}


def calls(bench: Bench, count: int) -> None:
    bench.write(
        shop="def price(number): return number",
        test_x=f"""
            import shop
            def test_one():
                assert [shop.price(each) for each in range({count})] == list(range({count}))
            """,
    )


@pytest.mark.full
@pytest.mark.timeout(300)
def test_a_stop_arrives_whatever_its_report_holds(tmp_path: Path) -> None:
    """It is known, can be looked into, and goes on; all that lists it agrees."""
    with workbench(tmp_path / "project", *INJECTOR, env=environment("stops")) as bench:
        calls(bench, len(COMBINATIONS))
        bench.breakpoint("shop.price")
        (stop,) = bench.run(pause_on="never")["stops"]
        for number, (place, name) in enumerate(COMBINATIONS):
            where = f"{'.'.join(place)} is {name}"
            (paused,) = bench.agent.call("breakpoint_list_paused")["paused"]
            assert (where, paused["id"]) == (where, stop["pause_id"])
            assert (where, stop["nodeid"]) == (where, "test_x.py::test_one")
            assert (where, stop["phase"]) == (where, "before")
            assert (where, bench.eval(stop, "number")) == (where, str(number))
            state = bench.agent.call("debug_state")
            assert (where, state["state"], state["paused"]) == (where, "paused", [paused["id"]])
            threads = bench.agent.call("threads_list")["threads"]
            assert (where, paused["thread"]["id"]) in [(where, each["id"]) for each in threads]
            if name in UNREADABLE and ".".join(place) not in CERTAIN:
                assert (where, "incomplete" in stop) == (where, True)
            reply = bench.go_on(stop)
            if number + 1 < len(COMBINATIONS):
                (stop,) = reply["stops"]
            else:
                assert reply["outcomes"] == {"passed": 1, "failed": 0}


@pytest.mark.full
def test_a_stop_that_can_t_be_sent_in_any_form_lets_the_thread_go_on(tmp_path: Path) -> None:
    with workbench(tmp_path / "project", *INJECTOR, env=environment("unsendable")) as bench:
        calls(bench, 3)
        bench.breakpoint("shop.price")
        done = bench.run()
        assert (done["state"], done["outcomes"]) == ("finished", {"passed": 1, "failed": 0})
        assert bench.agent.call("breakpoint_list_paused")["paused"] == []
        warnings = [each["message"] for each in bench.events("warning")]
    assert any("the test went on" in each for each in warnings)


@pytest.mark.full
def test_a_reply_that_can_t_be_encoded_is_an_error_at_once(tmp_path: Path) -> None:
    with workbench(tmp_path / "project", *INJECTOR, env=environment("replies")) as bench:
        bench.breakpoint("shop.price")
        calls(bench, 1)
        (stop,) = bench.run()["stops"]
        asked = {"pause_id": stop["pause_id"], "expression": "number"}
        for name in VALUES:
            if name in ("nan", "a lone surrogate"):  # we can read these
                bench.agent.call("breakpoint_repl_eval", **asked)
                continue
            error = bench.agent.refused("breakpoint_repl_eval", **asked)["error"]
            assert (name, error) == (name, "internal_error")
        assert bench.go_on(stop)["outcomes"]["passed"] == 1


@pytest.mark.full
@pytest.mark.sample(
    *("event_of_phase", "NodeFinished", "_text_of", "add_to", "category_of", "place_in_code"),
    *("place_in_report", "place_of_test", "subtest_of", "visible_places"),
)
@pytest.mark.parametrize("name", [*MAKERS, "NodeFinished"])
def test_a_failure_whose_report_can_t_be_made_has_failed(
    make_project: MakeProject, name: str
) -> None:
    root = make_project(test_x=FAILING)
    done = recorded(root, *INJECTOR, environment=environment(f"{name} of hooks.reports"))
    assert done.exit_code == 1
    assert "2 passed" in done.out
    assert "Traceback" not in done.err
    summary = json.loads((done.run / "run.json").read_text("utf-8"))
    assert summary["exit_code"] == 1
    failed = summary["outcomes"].get("failed", 0) + summary["outcomes"].get("error", 0)
    assert failed == 2
    assert "2 failures" in done.out


@pytest.mark.full
@pytest.mark.sample("PhaseReported", "_attempt_of", "partial", "phase_reported")
@pytest.mark.parametrize("name", MAKERS)
def test_a_failure_whose_report_can_t_be_made_is_reported_to_clients(
    tmp_path: Path, name: str
) -> None:
    with workbench(
        tmp_path / "project", *INJECTOR, env=environment(f"{name} of hooks.reports")
    ) as bench:
        bench.write(test_x=FAILING)
        done = bench.run(pause_on="never")
        assert done["exit_code"] == 1
        assert done["outcomes"]["failed"] + done["outcomes"].get("error", 0) == 2
        results = bench.results()
        assert results["test_passes"]["outcome"] == "passed"
        for test in ("test_fails", "test_errs"):
            assert results[test]["outcome"] in ("failed", "error")
        assert done["next"]
        found: list[Any] = [*done["failures"], *results.values()]
    reported = [each["incomplete"] for each in found if "incomplete" in each]
    assert all("could not be made" in each for each in reported)
    assert reported or name in UNSEEN


@pytest.mark.full
def test_failures_with_values_that_can_t_be_encoded_are_reported(tmp_path: Path) -> None:
    """In the run of a client and in a record."""
    suite = f"""
        import pytest
        @pytest.mark.parametrize("number", range({len(VALUES)}))
        def test_fails(number): assert number == -1
        """
    with workbench(tmp_path / "project", *INJECTOR, env=environment("values")) as bench:
        bench.write(test_x=suite)
        done = bench.run(pause_on="never")
        assert (done["exit_code"], done["outcomes"]["failed"]) == (1, len(VALUES))
        tests = bench.results(limit=100).values()
        incomplete = [each for each in tests if "incomplete" in each]
        assert len(incomplete) >= len(VALUES) - 2
        assert all("parameters.spoiled" in each["incomplete"] for each in incomplete)
        assert all("assert" in each["longrepr"] for each in tests)
        done_too = recorded(bench.root, *INJECTOR, environment=environment("values"))
    assert done_too.exit_code == 1
    phases = done_too.of("test_phase")
    assert len(phases) == len(VALUES)
    assert len([each for each in phases if "incomplete" in each]) >= len(VALUES) - 1


PATCHED = ("builtins.repr", "os.path.abspath", "os.lstat", "linecache.getline")
FATAL = ("linecache.getline",) if sys.version_info >= (3, 13) else ()
"""Without these pytest itself ends with an internal error when a test fails."""


@pytest.mark.full
@pytest.mark.parametrize("what", PATCHED)
def test_a_stop_while_a_test_patches_what_shows_values_goes_on(bench: Bench, what: str) -> None:
    """It is a stop that can be continued, or none: nothing is parked that nobody knows of."""
    bench.breakpoint("shop.price")
    bench.write(
        shop="def price(number): return number",
        test_x=f"""
            from unittest import mock
            import shop
            def test_one():
                with mock.patch({what!r}):
                    got = shop.price(1)
                assert got == 1
            """,
    )
    done = bench.run()
    for stop in done["stops"]:
        assert [each["id"] for each in bench.until_paused(1)] == [stop["pause_id"]]
        done = bench.go_on(stop)
    assert (done["state"], done["outcomes"]) == ("finished", {"passed": 1, "failed": 0})


@pytest.mark.full
@pytest.mark.sample(
    "recorded-builtins.repr",
    "served-linecache.getline",
    "recorded-os.lstat",
    "served-os.path.abspath",
)
@pytest.mark.parametrize("what", [each for each in PATCHED if each not in FATAL])
@pytest.mark.parametrize("is_recorded", [False, True], ids=["served", "recorded"])
def test_a_test_that_fails_while_it_patches_has_failed(
    bench: Bench, what: str, is_recorded: bool
) -> None:
    bench.write(
        test_x=f"""
            from unittest import mock
            import pytest
            @pytest.fixture
            def patched():
                with mock.patch({what!r}):
                    yield
            def test_one(patched):
                table = {{}}
                table["none"]
            """
    )
    if is_recorded:
        done = recorded(bench.root)
        summary = json.loads((done.run / "run.json").read_text("utf-8"))
        assert (done.exit_code, summary["outcomes"]) == (1, {"failed": 1})
        for each in sorted(done.record.rglob("*"), reverse=True):
            each.rmdir() if each.is_dir() else each.unlink()
        return
    reply = bench.run(pause_on="never")
    assert (reply["exit_code"], reply["outcomes"]) == (1, {"passed": 0, "failed": 1})
    assert bench.results()["test_one"]["outcome"] == "failed"
    assert reply["next"]
