"""The order of tests, their ids and pytest's options, where others choose otherwise."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.together.driver import only_stop
from tests.together.workbench import Bench, workbench

pytestmark = pytest.mark.long(45)

LETTERS = """
    import pytest
    @pytest.mark.parametrize("n", range(6), scope="module")
    def test_n(n): pass
    @pytest.mark.parametrize("m", range(2), scope="module")
    def test_m(m): pass
"""

SORTERS = {
    "a hook": "def pytest_collection_modifyitems(items): items.reverse()",
    "the last hook": """
        import pytest
        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(items): items.reverse()
    """,
    "the first hook": """
        import pytest
        @pytest.hookimpl(tryfirst=True)
        def pytest_collection_modifyitems(items): items.reverse()
    """,
    "a wrapper around all": """
        import pytest
        class Late:
            @pytest.hookimpl(tryfirst=True, wrapper=True)
            def pytest_collection_modifyitems(self, items):
                yield
                items.sort(key=lambda item: hash(item.nodeid))
        def pytest_collection(session):
            session.config.pluginmanager.register(Late())
    """,
    "an old wrapper": """
        import pytest
        @pytest.hookimpl(hookwrapper=True)
        def pytest_collection_modifyitems(items):
            yield
            items[:] = items[::-1]
    """,
    "a hook that adds": """
        def pytest_collection_modifyitems(items):
            items.insert(0, type(items[0]).from_parent(items[0].parent, name="test_more",
                                                       callobj=lambda: None))
    """,
}
"""Where plugins sort: pytest-randomly, pytest-random-order, pytest-order, pytest-reverse."""


def ran(bench: Bench) -> list[str]:
    """What is in the brackets of the tests that ran, in their order."""
    events = bench.events("test_started")
    return [event["nodeid"].partition("::test_")[2] for event in events]


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A front end whose pytest has its cache."""
    root = tmp_path_factory.mktemp("once") / "project"
    with workbench(root, "-p", "cacheprovider") as bench:
        yield bench


@pytest.mark.sample("a wrapper around all", "an old wrapper", "a hook that adds")
@pytest.mark.full
@pytest.mark.parametrize("sorter", SORTERS)
def test_the_order_that_was_asked_for_is_kept_behind_all_hooks_that_sort(
    bench: Bench, sorter: str
) -> None:
    """A failure that depends on what ran before comes again."""
    bench.write(conftest=SORTERS[sorter], test_it=LETTERS)
    asked = ["n[3]", "m[1]", "n[0]", "m[0]", "n[5]"]
    reply = bench.run([f"test_it.py::test_{each}" for each in asked])
    more = ["more"] if "adds" in sorter else []
    assert ran(bench) == asked + more
    assert "missing" not in reply


@pytest.mark.full
def test_what_failed_last_does_not_run_first_when_an_order_was_asked_for(once: Bench) -> None:
    """`addopts = --ff`, and `--nf`: the second run is as the first."""
    once.write(
        **{"pytest.ini": "[pytest]\naddopts = --ff --nf\n"},
        test_it="""
            seen = []
            def test_first(): seen.append(1)
            def test_second(): pass
            def test_third(): assert not seen
        """,
    )
    asked = ["first", "third"]
    for _ in range(2):
        reply = once.run([f"test_it.py::test_{each}" for each in asked], pause_on="never")
        assert ran(once) == asked
        assert reply["outcomes"] == {"passed": 1, "failed": 1}


@pytest.mark.full
def test_the_seed_of_a_plugin_that_shuffles_is_reported_and_an_order_that_xdist_breaks(
    bench: Bench,
) -> None:
    """As pytest-randomly has it."""
    bench.write(
        conftest="""
            def pytest_addoption(parser):
                parser.addoption("--randomly-seed", type=int, default=0)
            def pytest_configure(config):
                config.option.randomly_seed = config.option.randomly_seed or 77
        """,
        test_it=LETTERS,
    )
    seed = 'pytest-randomly has the seed 77: args ["--randomly-seed=77"] runs the same again'
    assert bench.run()["warnings"] == [seed]
    assert bench.run(args=["--randomly-seed=5"])["warnings"] == [seed.replace("77", "5")]
    asked = [f"test_it.py::test_n[{n}]" for n in (3, 1)]
    reported = bench.run(asked, workers=2)["warnings"]
    assert seed in reported
    assert [each for each in reported if "the order of nodeids" in each and "workers: 0" in each]
    assert len(bench.run(["test_it.py"], workers=2)["warnings"]) == 1


RENAMED = """
    def pytest_collection_modifyitems(items):
        for item in items:
            name = item.nodeid.encode().decode("unicode_escape")
            item._nodeid = name
            if hasattr(item, "_id"):  # from pytest 9.2 on
                item._id = type(item._id).parse(name)
"""
"""As many projects have it, whose ids are not of ASCII."""


@pytest.mark.full
def test_an_id_that_a_hook_has_made_chooses_its_test(bench: Bench) -> None:
    """Replies show it; the one that pytest made works as well, and what is unknown stays so."""
    bench.write(
        conftest=RENAMED,
        test_it="""
            import pytest
            @pytest.mark.parametrize("shade", ["☃", "b", "é"])
            def test_p(shade): assert shade == "b"
            def test_q(): pass
        """,
    )
    bench.run(pause_on="never")
    assert ran(bench) == ["p[☃]", "p[b]", "p[é]", "q"]
    asked = ["q", "p[é]", "p[\\u2603]"]
    reply = bench.run([f"test_it.py::test_{each}" for each in [*asked, "p[no]"]], pause_on="never")
    assert ran(bench) == ["q", "p[é]", "p[☃]"]
    assert reply["missing"] == ["test_it.py::test_p[no]"]
    assert reply["nearest"] == {"test_it.py::test_p[no]": ["test_it.py::test_p"]}
    bench.run(last_failed=True, pause_on="never")
    assert ran(bench) == ["p[é]", "p[☃]"]


MOVED = {
    "a prefix": '"[linux] " + item.nodeid',
    "a prefix of a file at the top": '"[linux] " + item.nodeid.replace("tests/", "")',
    "another folder": 'item.nodeid.replace("tests/", "unit/")',
    "no file": 'item.nodeid.partition("::")[2]',
    "a file of another name": 'item.nodeid.replace("test_it.py", "it.feature")',
}
WHEN = {
    "as they are found": "def pytest_itemcollected(item):",
    "behind all": """def pytest_collection_modifyitems(items):
        for item in items: rename(item)
    def rename(item):""",
}


@pytest.mark.full
@pytest.mark.parametrize(
    ("moved", "when"),
    [
        ("a prefix", "behind all"),
        *(
            pytest.param(each, "behind all", marks=pytest.mark.soak)
            for each in MOVED
            if each != "a prefix"
        ),
        pytest.param("a prefix", "as they are found", marks=pytest.mark.soak),
    ],
)
def test_an_id_whose_file_a_hook_has_changed_chooses_its_test(
    bench: Bench, moved: str, when: str
) -> None:
    """As a prefix for the platform, or the place of the tests in a larger checkout."""
    conftest = f"""
    {WHEN[when]}
        name = {MOVED[moved]}
        item._nodeid = name
        if hasattr(item, "_id"):  # from pytest 9.2 on
            item._id = type(item._id).parse(name)
    """
    bench.write(
        conftest=conftest,
        **{
            "tests/test_it.py": "def test_a(): pass\ndef test_b(): assert 0\n",
            "tests/test_other.py": "def test_c(): assert 0\n",
        },
    )
    bench.run(pause_on="never")
    shown = list(bench.agent.call("test_results")["tests"])
    (failed,) = [each["nodeid"] for each in shown if each["nodeid"].endswith("test_b")]
    (passed,) = [each["nodeid"] for each in shown if each["nodeid"].endswith("test_a")]
    for workers in (None, 2):
        options = {} if workers is None else {"workers": workers}
        reply = bench.run([failed, passed], pause_on="never", **options)
        assert reply.get("missing") is None
        assert reply["outcomes"] == {"passed": 1, "failed": 1}
    if moved != "no file" or when == "behind all":
        assert bench.run(["tests/test_it.py::test_a"])["outcomes"]["passed"] == 1
        assert bench.run(["tests/test_it.py"], pause_on="never")["outcomes"]["failed"] == 1
        assert bench.run(["tests/test_other.py"], pause_on="never")["outcomes"]["failed"] == 1
    reply = bench.run([f"{failed}_x", passed])
    assert reply["missing"] == [f"{failed}_x"]
    assert reply["outcomes"] == {"passed": 1, "failed": 0}
    assert bench.run(last_failed=True, pause_on="never")["outcomes"]["failed"] == 2


GROUPED: dict[str, Any] = {"workers": 2, "args": ["--dist=loadgroup"], "pause_on": "never"}


@pytest.mark.full
@pytest.mark.parametrize("options", [GROUPED, {"pause_on": "never"}], ids=["grouped", "alone"])
def test_an_id_with_the_group_that_xdist_appends_chooses_its_test(
    bench: Bench, options: dict[str, Any]
) -> None:
    """Under `--dist=loadgroup` and without; an `@` in parameters is none."""
    bench.write(
        test_it="""
            import pytest
            @pytest.mark.xdist_group("one")
            @pytest.mark.parametrize("to", ["me@example", "you@example"])
            def test_mail(to): assert to == "me@example"
            def test_other(): pass
        """
    )
    assert bench.run(["test_it.py::test_mail"], **options)["outcomes"]["passed"] == 1
    (failed,) = [each for each in ran(bench) if "you@" in each]
    assert failed in ("mail[you@example]@one", "mail[you@example]")  # pytest 9.2 shows no group
    for name in ("mail[you@example]@one", "mail[you@example]"):
        reply = bench.run([f"test_it.py::test_{name}"], **options)
        assert reply["outcomes"] == {"passed": 0, "failed": 1}
        assert "missing" not in reply
    reply = bench.run(["test_it.py::test_mail[no@example]"], **options)
    assert reply["missing"] == ["test_it.py::test_mail[no@example]"]


SETS = """
    import os, uuid, pytest
    class Shade:
        def __init__(self, name): self.name = name
        def __hash__(self): return hash(self.name)
        def __eq__(self, other): return self.name == other.name
    @pytest.mark.parametrize("shade", {Shade(f"color {n}") for n in range(30)})
    def test_shade(shade): assert shade.name != "color 7"
    @pytest.mark.parametrize("key", [uuid.uuid4()], ids=str)
    def test_key(key): assert "PYTHONHASHSEED" in os.environ
"""


@pytest.mark.full
def test_the_order_of_sets_is_the_same_in_all_runs_of_a_session(bench: Bench) -> None:
    """Ids that pytest counts through mean the same test again; those of `uuid4` can't."""
    bench.write(test_it=SETS)
    reply = bench.run(pause_on="never")
    shade, key = sorted((each["nodeid"] for each in reply["failures"]), reverse=True)
    for _ in range(2):
        again = bench.run([shade], pause_on="never")
        assert again["outcomes"] == {"passed": 0, "failed": 1}
    assert bench.run([shade], workers=2, pause_on="never")["outcomes"]["failed"] == 1
    again = bench.run([key])
    assert again["missing"] == [key]
    assert again["nearest"] == {key: ["test_it.py::test_key"]}
    assert again["end"]["kind"] == "no_tests"
    assert bench.agent.call("debug_state")["hash_seed"].isdecimal()


@pytest.mark.full
def test_a_hash_seed_of_the_user_stays(tmp_path: Path) -> None:
    """It may be part of what a test needs."""
    with workbench(tmp_path / "project", env={"PYTHONHASHSEED": "11"}) as bench:
        reply = bench.test("import os\ndef test_it(): assert os.environ['PYTHONHASHSEED'] == '11'")
        assert reply["exit_code"] == 0
        assert bench.agent.call("debug_state")["hash_seed"] == "11"


WAITING = {
    "addopts": ("addopts = --pdb --trace -f --pdbcls=pdb:Pdb", ""),
    "PYTEST_ADDOPTS": ("", "--pdb --trace -f --pdbcls pdb:Pdb"),
}


@pytest.mark.full
@pytest.mark.parametrize("place", WAITING)
def test_options_that_wait_for_a_terminal_are_left_out_where_projects_have_them(
    tmp_path: Path, place: str
) -> None:
    """The server starts, and each run says what it leaves out; so do those of workers."""
    ini, environment = WAITING[place]
    root = tmp_path / "project"
    root.mkdir()
    (root / "pytest.ini").write_text(f"[pytest]\n{ini}\n", "utf-8")
    addopts = " ".join([os.environ.get("PYTEST_ADDOPTS", ""), environment]).strip()
    with workbench(root, env={"PYTEST_ADDOPTS": addopts}) as bench:
        text = "def test_it(): breakpoint()\ndef test_more(): assert 0\n"
        reply = bench.test(text)
        left_out = [
            each.partition(" of addopts or PYTEST_ADDOPTS")[0] for each in reply["warnings"]
        ]
        assert left_out == ["--pdb", "--trace", "-f (--looponfail)"]
        stop = only_stop(reply)
        assert stop["location"]["function"] == "test_it"
        stop = only_stop(bench.go_on(stop))
        assert stop["reason"] == "test_failure"
        assert bench.go_on(stop)["outcomes"] == {"passed": 1, "failed": 1}
        assert bench.agent.call("test_list")["total_count"] == 2
