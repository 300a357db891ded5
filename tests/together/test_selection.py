"""Which tests run: node ids of every kind, expressions, arguments, what failed last."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.together.driver import only_stop
from tests.together.workbench import Bench, workbench

ODD_IDS = """
    import pytest

    class TestOne:
        def test_a(self): pass
        class TestInner:
            def test_deep(self): pass

    class TestOneMore:
        def test_a(self): pass

    @pytest.mark.parametrize("p", range(9), ids=[
        "plain", "two words", "a[0]", "a::b", "☃", "x/y.py", "-k", "'q'", "end]",
    ])
    def test_p(p): pass

    def test_p_longer(): pass
"""


@pytest.fixture
def odd(bench: Bench) -> Bench:
    """A project with names that are easily taken for others."""
    passing = "def test_x(): pass\n"
    bench.write(
        test_it=ODD_IDS,
        **{"deep/test_x.py": passing, "deep/test_y.py": passing, "deeper/test_z.py": passing},
        **{"odd [1]/test_o.py": passing, "deep/test_[x].py": passing},
    )
    return bench


def ran(bench: Bench) -> list[str]:
    """The node ids of the newest run, in the order in which they ran."""
    tests = bench.agent.call("test_results", limit=200)["tests"]
    return [test["nodeid"] for test in tests]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (["test_it.py::TestOne::test_a"], ["test_it.py::TestOne::test_a"]),
        (
            ["test_it.py::TestOne"],
            ["test_it.py::TestOne::test_a", "test_it.py::TestOne::TestInner::test_deep"],
        ),
        (
            ["deep"],
            ["deep/test_[x].py::test_x", "deep/test_x.py::test_x", "deep/test_y.py::test_x"],
        ),
        (
            ["deep/"],
            ["deep/test_[x].py::test_x", "deep/test_x.py::test_x", "deep/test_y.py::test_x"],
        ),
        (["./deep/test_y.py"], ["deep/test_y.py::test_x"]),
        (
            ["deeper/test_z.py", "deep/test_y.py::test_x"],
            ["deeper/test_z.py::test_x", "deep/test_y.py::test_x"],
        ),
        (["odd [1]"], ["odd [1]/test_o.py::test_x"]),
        (["odd [1]/test_o.py::test_x"], ["odd [1]/test_o.py::test_x"]),
        (["deep/test_[x].py"], ["deep/test_[x].py::test_x"]),
        (
            [f"test_it.py::test_p[{id}]" for id in ("a[0]", "two words", "a::b", "end]")],
            [f"test_it.py::test_p[{id}]" for id in ("a[0]", "two words", "a::b", "end]")],
        ),
        (
            [f"test_it.py::test_p[{id}]" for id in ("x/y.py", "-k", "'q'", "\\u2603")],
            [f"test_it.py::test_p[{id}]" for id in ("x/y.py", "-k", "'q'", "\\u2603")],
        ),
        (["test_it.py::test_p_longer"], ["test_it.py::test_p_longer"]),
    ],
    ids=str,
)
@pytest.mark.full
def test_a_node_id_selects_exactly_what_it_names(
    odd: Bench, wanted: list[str], expected: list[str]
) -> None:
    """Every id is selectable; the order asked for is kept."""
    reply = odd.run(wanted)
    assert ran(odd) == expected
    assert "missing" not in reply
    assert reply["exit_code"] == 0


@pytest.mark.full
def test_a_function_selects_all_its_parameters(odd: Bench) -> None:
    assert odd.run(["test_it.py::test_p"])["outcomes"]["passed"] == 9


@pytest.mark.full
def test_absolute_paths_and_the_rootdir_itself_are_accepted(odd: Bench) -> None:
    """Input paths may be either."""
    odd.run([str(odd.root / "deep" / "test_x.py") + "::test_x"])
    assert ran(odd) == ["deep/test_x.py::test_x"]
    assert odd.run([str(odd.root)])["outcomes"]["passed"] == 18
    assert odd.run(["."])["outcomes"]["passed"] == 18


@pytest.mark.full
def test_unknown_node_ids_are_reported_while_the_others_run(odd: Bench) -> None:
    """`missing`; a plain pytest would end with exit code 4 at once."""
    unknown = [
        "test_it.py::test_nowhere",
        "nowhere/test_x.py",
        "test_it.py::TestOne::test_b",
        "test_it.py::test_p[no]",
        "test_it.p",
        "",
    ]
    reply = odd.run([*unknown, "deep/test_x.py::test_x", "test_it.py::TestOneMore"])
    assert reply["missing"] == unknown
    assert ran(odd) == ["deep/test_x.py::test_x", "test_it.py::TestOneMore::test_a"]
    assert reply["exit_code"] == 0


@pytest.mark.full
def test_a_run_of_nothing_but_unknown_node_ids_ran_no_tests(odd: Bench) -> None:
    """`end.kind` `no_tests`; 5 is pytest's code for that."""
    reply = odd.run(["nowhere.py", "test_it.py::test_nowhere"])
    assert reply["missing"] == ["nowhere.py", "test_it.py::test_nowhere"]
    assert (reply["end"]["kind"], reply["exit_code"]) == ("no_tests", 5)
    assert reply["state"] == "finished"


@pytest.mark.full
def test_no_node_ids_at_all_means_no_tests_and_not_all_of_them(odd: Bench) -> None:
    """An empty list that selected everything would surprise whoever filtered one."""
    reply = odd.run([])
    assert reply["end"]["kind"] == "no_tests"


@pytest.mark.full
def test_keyword_markers_and_maxfail_are_those_of_pytest(bench: Bench) -> None:
    """Parameters of `test_run`."""
    bench.write(
        **{"pytest.ini": "[pytest]\nmarkers = slow\n"},
        test_it="""
            import pytest
            def test_red(): assert 0
            def test_blue(): assert 0
            @pytest.mark.slow
            def test_slow(): assert 0
        """,
    )
    bench.run(keyword="red or slow", pause_on="never")
    assert ran(bench) == ["test_it.py::test_red", "test_it.py::test_slow"]
    bench.run(["test_it.py"], markers="not slow", maxfail=1, pause_on="never")
    assert ran(bench) == ["test_it.py::test_red"]
    bench.write(**{"pytest.ini": ""})


@pytest.mark.full
def test_further_arguments_reach_pytest(bench: Bench) -> None:
    bench.write(
        conftest="def pytest_addoption(parser): parser.addoption('--color-of')\n",
        test_it="def test_it(pytestconfig): assert pytestconfig.getoption('color_of') == 'a b'\n",
    )
    assert bench.run(args=["--color-of=a b"])["exit_code"] == 0


@pytest.mark.parametrize("argument", ["--pdb", "--trace", "-f", "--looponfail", "--co"])
def test_arguments_that_would_wait_for_a_terminal_or_run_nothing_are_refused(
    bench: Bench, argument: str
) -> None:
    """`--trace` without a terminal lets every test pass."""
    refused = bench.agent.refused("test_run", args=["-q", argument])
    assert (refused["error"], refused["parameter"]) == ("invalid_parameter", "args")
    assert argument in refused["message"]


@pytest.mark.full
def test_what_failed_last_runs_again_until_it_passes(tmp_path: Path) -> None:
    """`last_failed`, over all runs; with nothing to repeat, as `--lf`, all."""
    with workbench(tmp_path / "project") as bench:
        bench.write(
            test_a="def test_good(): pass\ndef test_bad(): assert 0\n",
            test_b="""
                import pytest
                @pytest.mark.parametrize("n", [1, 2])
                def test_n(n): assert n < 2
            """,
        )
        bench.run(pause_on="never")
        bench.run(last_failed=True, pause_on="never")
        assert ran(bench) == ["test_a.py::test_bad", "test_b.py::test_n[2]"]
        bench.run(["test_b.py"], last_failed=True, pause_on="never")
        assert ran(bench) == ["test_b.py::test_n[2]"]
        bench.write(test_a="def test_bad(): pass\n", test_b="def test_n(): pass\n")
        reply = bench.run(last_failed=True)
        assert ran(bench) == ["test_a.py::test_bad"]
        assert "test_b.py::test_n[2]" in reply["missing"]
        assert "missing" not in (reply := bench.run(last_failed=True))
        assert "no failed test is known" in reply["message"]
        assert reply["outcomes"] == {"passed": 2, "failed": 0}


@pytest.mark.full
def test_every_way_of_pytest_to_choose_tests_works_through_its_arguments(tmp_path: Path) -> None:
    """`-x`, `--lf`, `--sw`, `-k`, `-m`, `--deselect`, while failures pause."""
    cache = ["-p", "cacheprovider", "-p", "stepwise"]
    with workbench(tmp_path / "project", *cache) as bench:
        bench.write(
            **{"pytest.ini": "[pytest]\nmarkers = slow\n"},
            test_it="""
                import pytest
                def test_a(): pass
                @pytest.mark.parametrize("odd", ["a b", "[::]", "-x", "{}'\\"", "\\u2603", "/"])
                def test_odd(odd): assert odd != "[::]"
                @pytest.mark.slow
                def test_slow(): assert 0
                def test_z(): pass
            """,
        )

        def names(*arguments: str) -> set[str]:
            """What ran, each failure being paused at and let go."""
            reply = bench.run(["test_it.py"], args=list(arguments))
            while reply["state"] == "paused":
                reply = bench.go_on(only_stop(reply))
            assert reply["state"] == "finished"
            return {nodeid.removeprefix("test_it.py::test_") for nodeid in ran(bench)}

        odd = [f"odd[{each}]" for each in ("a b", "[::]", "-x", "{}'\"", "\\u2603", "/")]
        assert names("-x") == {"a", *odd[:2]}
        assert names("--maxfail=2") == {"a", *odd, "slow"}
        assert names("--lf") == {odd[1], "slow"}
        assert names("--ff", "-x") == {odd[1]}
        assert names("--sw") == {"a", *odd[:2]}
        assert names("--sw", "--sw-skip") == {*odd[1:], "slow"}
        assert names("-k", "odd and not x") == {each for each in odd if "x" not in each}
        assert names("-m", "slow") == {"slow"}
        left_out = [f"--deselect=test_it.py::test_{name}" for name in (odd[1], "slow")]
        assert names(*left_out) == {"a", odd[0], *odd[2:], "z"}
