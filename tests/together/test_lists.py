"""`test_list` and `test_results`: what there is, what came of it, and how much of it is told."""

from __future__ import annotations

import json

import pytest

from tests.together.workbench import Bench

MANY = """
    import pytest
    @pytest.mark.parametrize("n", range(250))
    def test_many(n): pass
    class TestThing:
        def test_x(self): pass
"""


@pytest.mark.full
def test_all_tests_are_listed_in_pages_that_join_without_gaps(bench: Bench) -> None:
    bench.write(test_it=MANY)
    everything = [f"test_it.py::test_many[{n}]" for n in range(250)]
    everything.append("test_it.py::TestThing::test_x")
    reply = bench.agent.call("test_list", limit=150)
    assert (reply["total_count"], reply["errors"]) == (251, [])
    listed = reply["tests"]
    while reply.get("truncated"):
        reply = bench.agent.call("test_list", limit=150, after=reply["next_after"])
        assert reply["total_count"] == 251
        listed += reply["tests"]
    assert listed == everything


@pytest.mark.full
@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("many", ["test_many[a]", "test_many[b]"]),
        ("TestThing", ["TestThing::test_x"]),
        ("*::test_x", ["TestThing::test_x"]),
        ("*test_?any*", ["test_many[a]", "test_many[b]"]),
        ("test_many[a]", ["test_many[a]"]),
        ("*many[[]b]", ["test_many[b]"]),
        ("*[ab]?", ["test_many[a]", "test_many[b]"]),
        ("nothing", []),
        ("*nothing*", []),
        ("MANY", []),
    ],
)
def test_a_pattern_is_a_glob_or_a_part_of_the_node_id(
    bench: Bench, pattern: str, names: list[str]
) -> None:
    """`pattern` everywhere: a glob if it has `*?[`, else a substring."""
    bench.write(test_it=MANY.replace("range(250)", "'ab'"))
    reply = bench.agent.call("test_list", pattern=pattern)
    assert reply["tests"] == [f"test_it.py::{name}" for name in names]
    assert reply["total_count"] == len(names)


@pytest.mark.full
def test_collection_errors_are_listed_beside_the_tests(bench: Bench) -> None:
    """`errors` (collection errors, bounded)."""
    bench.write(test_a="import nowhere_at_all\n", test_b="def test_b(): pass\n")
    reply = bench.agent.call("test_list")
    assert reply["tests"] == ["test_b.py::test_b"]
    (error,) = reply["errors"]
    assert error["nodeid"] == "test_a.py"
    assert "No module named 'nowhere_at_all'" in error["message"]


@pytest.mark.full
def test_tests_can_be_listed_while_one_is_paused(bench: Bench) -> None:
    """`test_list` works while a run is active; the run stays the newest."""
    stop = bench.stop_of("def test_bad(): assert 0")
    bench.write(test_new="def test_new(): pass\n")
    reply = bench.agent.call("test_list")
    assert reply["tests"] == ["test_it.py::test_bad", "test_new.py::test_new"]
    state = bench.agent.call("debug_state")
    assert (state["state"], state["paused"]) == ("paused", [stop["pause_id"]])
    assert bench.go_on(stop)["exit_code"] == 1


@pytest.mark.full
def test_a_cursor_that_is_not_in_the_list_is_refused(bench: Bench) -> None:
    """The message names the offending thing and the way out."""
    bench.write(test_it="def test_it(): pass\n")
    refused = bench.agent.refused("test_list", after="test_it.py::test_gone")
    assert (refused["error"], refused["parameter"]) == ("invalid_parameter", "after")
    assert "test_gone" in refused["message"]


@pytest.mark.full
def test_a_project_that_pytest_refuses_cannot_be_listed_and_the_reason_is_reported(
    bench: Bench,
) -> None:
    """The text is pytest's own."""
    bench.write(conftest="import nowhere_at_all\n", test_it="def test_it(): pass\n")
    refused = bench.agent.refused("test_list")
    assert "nowhere_at_all" in json.dumps(refused)
    assert refused["end"]["kind"] == "startup_error"


NOISY = """
    import logging, sys
    import pytest

    def test_good(): print("not kept")
    def test_bad():
        print("to stdout")
        print("to stderr", file=sys.stderr)
        logging.warning("to the log")
        assert {"a": 1} == {"a": 2}
    @pytest.mark.skip(reason="for a reason")
    def test_skipped(): pass
    @pytest.mark.xfail(reason="known")
    def test_known(): assert 0
    class TestThing:
        def test_bad(self): raise KeyError("k")
"""


@pytest.mark.full
def test_results_report_the_report_and_the_captured_output_of_what_did_not_pass(
    bench: Bench,
) -> None:
    """`test_results`; failures come first."""
    bench.test(NOISY, pause_on="never")
    tests = bench.results()
    assert list(tests)[:2] == ["test_bad", "TestThing::test_bad"]
    bad = tests["test_bad"]
    assert (bad["outcome"], bad["phase"], bad["worker"]) == ("failed", "call", "main")
    assert bad["exception"]["type"] == "AssertionError"
    assert bad["location"] == {"file": "test_it.py", "line": 10}
    assert "'a': 1" in bad["longrepr"]
    assert (bad["stdout"], bad["stderr"]) == ("to stdout\n", "to stderr\n")
    assert "to the log" in bad["log"]
    assert tests["test_good"]["outcome"] == "passed"
    assert not {"longrepr", "stdout"} & set(tests["test_good"])
    assert (tests["test_skipped"]["outcome"], tests["test_known"]["outcome"]) == (
        "skipped",
        "xfailed",
    )
    assert "for a reason" in tests["test_skipped"]["longrepr"]
    assert all(test["duration_s"] >= 0 for test in tests.values())


@pytest.mark.full
def test_results_can_be_asked_for_by_outcome_test_and_run(bench: Bench) -> None:
    """Filters of `test_results`; unknown ids."""
    first = bench.test(NOISY, pause_on="never")["run_id"]
    bench.test("def test_other(): pass\n")
    assert list(bench.results()) == ["test_other"]
    assert list(bench.results(run_id=first, outcome="failed")) == [
        "test_bad",
        "TestThing::test_bad",
    ]
    assert list(bench.results(run_id=first, outcome="error")) == []
    assert list(bench.results(run_id=first, nodeid="test_it.py::TestThing")) == [
        "TestThing::test_bad"
    ]
    absolute = f"{bench.root / 'test_it.py'}::test_bad"
    assert list(bench.results(run_id=first, nodeid=absolute)) == ["test_bad"]
    assert len(bench.results(run_id=first, nodeid="test_it.py")) == 5
    unknown = bench.agent.refused("test_results", nodeid="test_it.py::test_bad")
    assert (unknown["error"], unknown["nodeid"]) == ("test_not_found", "test_it.py::test_bad")
    no_run = bench.agent.refused("test_results", run_id="r99999")
    assert (no_run["error"], no_run["run_id"]) == ("run_not_found", "r99999")


@pytest.mark.full
def test_long_results_are_cut_to_the_size_that_was_asked_for(bench: Bench) -> None:
    """8,000 characters, up to `max_chars`; a `limit` never lifts the cap."""
    bench.test(
        """
        import pytest
        @pytest.mark.parametrize("n", range(60))
        def test_long(n):
            print("x" * 4000)
            assert "y" * 500 == "z" * 500
        """,
        pause_on="never",
    )
    for options, most in (({}, 8_000), ({"max_chars": 20_000, "limit": 60}, 20_000)):
        reply = bench.agent.call("test_results", **options)
        assert len(json.dumps(reply, ensure_ascii=False, separators=(",", ":"))) <= most
        assert (reply["truncated"], reply["total_count"]) == (True, 60)
        assert 1 <= len(reply["tests"]) < 60
    reply = bench.agent.call("test_results", limit=2, max_chars=200_000)
    assert ([len(reply["tests"]), reply["truncated"]]) == [2, True]
    assert "x" * 4000 in reply["tests"][0]["stdout"]


@pytest.mark.full
def test_results_after_a_cut_go_on_where_the_reply_before_ended(bench: Bench) -> None:
    """Every list reply accepts `after`."""
    bench.test(MANY)
    first = bench.agent.call("test_results", limit=20)
    second = bench.agent.call("test_results", limit=20, after=first["next_after"])
    names = [test["nodeid"] for test in [*first["tests"], *second["tests"]]]
    assert names == [f"test_it.py::test_many[{n}]" for n in range(40)]


@pytest.mark.full
def test_a_reply_to_a_run_with_many_long_failures_keeps_its_size(bench: Bench) -> None:
    """At most 8,000 characters; what was cut says so."""
    reply = bench.test(
        """
        import pytest
        @pytest.mark.parametrize("n", range(80))
        def test_long(n): raise ValueError("v" * 3000)
        """,
        pause_on="never",
    )
    assert len(json.dumps(reply, ensure_ascii=False, separators=(",", ":"))) <= 8_000
    assert (reply["truncated"], reply["failures_total"]) == (True, 80)
    assert reply["outcomes"]["failed"] == 80
