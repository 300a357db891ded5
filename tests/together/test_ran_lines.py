"""The lines that a test ran, as a question's process leaves them."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from cideldill_mcp.questions.asking.neighbours import MOST_COMPARED, candidates
from cideldill_mcp.questions.recordings.listing import SourceFiles
from cideldill_mcp.questions.recordings.recorded import RecordedTest
from cideldill_mcp.questions.why.edited import edits
from cideldill_mcp.questions.why.only_here import only_here
from pytest_cideldill.redaction.redactor import Redactor
from tests.server.repositories import Repository
from tests.together.conftest import MakeProject
from tests.together.question_rows import Recorded, read_tests, record
from tests.together.ran_cases import IMPORTED, KINDS, marked

WAYS: dict[str, dict[str, Any]] = {"alone": {}, "with_calls": {"tree": True}}
"""How lines are recorded: by themselves, and beside calls."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ran") / "project"
    root.mkdir()
    (root / "pytest.ini").touch()
    (root / "imported.py").write_text(IMPORTED, encoding="utf-8")
    for name, text in KINDS.items():
        (root / f"test_{name}.py").write_text(text, encoding="utf-8")
    return root


@pytest.fixture(
    scope="module", params=["alone", pytest.param("with_calls", marks=pytest.mark.full)]
)
def kinds(request: pytest.FixtureRequest, project: Path) -> Recorded:
    return record(project, ran=True, **WAYS[request.param])


def statements(files: SourceFiles, test: RecordedTest) -> dict[str, set[int]]:
    """The first lines of the statements that ran, by file."""
    found: dict[str, set[int]] = {}
    for code, lines in test.ran:
        listing = files.listing(code)
        found.setdefault(code.file, set()).update(map(listing.start, lines))
    return found


@pytest.mark.full
@pytest.mark.parametrize("name", KINDS)
def test_each_line_that_ran_is_there_and_no_other(
    kinds: Recorded, project: Path, tmp_path: Path, name: str
) -> None:
    test = read_tests(kinds, tmp_path)[f"test_{name}.py::test_it"]
    found = statements(SourceFiles(str(project)), test)
    expected = {f"test_{name}.py": marked(KINDS[name])}
    if name == "imports":
        expected["imported.py"] = marked(IMPORTED)
    assert found == expected


@pytest.mark.full
def test_outcomes_are_those_of_a_process_that_notes_nothing(kinds: Recorded, project: Path) -> None:
    plain = record(project)
    assert kinds.of("outcome", "test") == plain.of("outcome", "test")
    assert not kinds.of("reached", "warning")
    assert not plain.of("ran")
    assert {row[2] for row in plain.of("outcome")} == {"passed", "failed"}


SHARED = """
    import pytest

    def choose(n):
        if n:
            return "some"
        return "none"

    @pytest.fixture(scope="module")
    def earlier():
        choose(1)

    @pytest.fixture(scope="module")
    def door():
        yield choose(1)
        choose(0)

    def test_first(earlier, door): choose(1)
    def test_second(door): choose(0)
    def test_without(): pass
    def test_third(door): pass
"""


@pytest.mark.full
@pytest.mark.parametrize("way", WAYS)
def test_each_test_has_its_own_lines_and_those_of_shared_fixtures(
    make_project: MakeProject, tmp_path: Path, way: str
) -> None:
    rows = record(make_project(test_shared=SHARED), ran=True, **WAYS[way])
    tests = read_tests(rows, tmp_path)
    lines = {
        nodeid.partition("::")[2]: {code.name: ran for code, ran in test.ran}
        for nodeid, test in tests.items()
    }
    some, none = {5, 6}, {5, 7}
    assert lines == {
        "test_first": {"earlier": {11}, "door": {15}, "choose": some, "test_first": {18}},
        "test_second": {"door": {15}, "choose": some | none, "test_second": {19}},
        "test_without": {"test_without": {20}},
        "test_third": {"door": {15, 16}, "choose": some | none, "test_third": {21}},
    }
    teardown = tests["test_shared.py::test_third"].phases[-1]
    assert {code.name: ran for code, ran in teardown.ran} == {"door": {16}, "choose": {7}}


@pytest.mark.full
@pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no tool ids")
@pytest.mark.parametrize("way", WAYS)
def test_lines_are_noted_with_any_tool_ids_that_the_program_leaves(
    make_project: MakeProject, way: str
) -> None:
    root = make_project(
        test_tools="""
            import pytest, sys

            def work(n):
                if n:
                    n += 1
                return n

            @pytest.mark.parametrize("ids", [(), (4,), (5,), (4, 5), (4, 5, 2), (), range(6), ()])
            def test_it(ids):
                monitoring, seen = sys.monitoring, []
                line = monitoring.events.LINE
                for tool in ids:
                    monitoring.use_tool_id(tool, "mine")
                    monitoring.register_callback(tool, line, lambda code, line: seen.append(line))
                    monitoring.set_local_events(tool, work.__code__, line)
                work(0)
                for tool in ids:
                    monitoring.set_local_events(tool, work.__code__, 0)
                    monitoring.register_callback(tool, line, None)
                    monitoring.free_tool_id(tool)
                assert seen == [each for each in (5, 7) for _ in ids]
        """,
    )
    rows = record(root, ran=True, **WAYS[way])
    assert [row[2] for row in rows.of("outcome")] == ["passed"] * 24, rows.output
    (work,) = (row[1] for row in rows.of("code") if row[3] == "work")
    found = [row[2] for row in rows.of("ran") if row[1] == work]
    assert len(found) >= 6
    assert all(lines == [5, 7] for lines in found)


@pytest.mark.full
@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="there are no forks")
@pytest.mark.parametrize("way", WAYS)
def test_a_child_process_by_fork_notes_nothing(make_project: MakeProject, way: str) -> None:
    root = make_project(
        test_forks="""
            import os

            def work(n):
                if n > 1:
                    return 2
                return n

            def test_it():
                pid = os.fork()
                if not pid:
                    work(2)
                    os._exit(0)
                assert os.waitpid(pid, 0)[1] == 0
                work(1)
        """
    )
    rows = record(root, ran=True, **WAYS[way])
    assert [row[2] for row in rows.of("outcome")] == ["passed"] * 3, rows.output
    names = {row[1]: row[3] for row in rows.of("code")}
    assert [row[2] for row in rows.of("ran") if names[row[1]] == "work"] == [[5, 7]]


HOSTILE = """
    import pytest, sys

    class Meta(type):
        def __eq__(cls, other): raise SystemExit("eq")
        def __hash__(cls): raise SystemExit("hash")

    class Hostile(metaclass=Meta):
        def __getattribute__(self, name): raise SystemExit(name)
        def __repr__(self): raise SystemExit("repr")

    def take(it):
        if it is None:
            return 1
        kept = it
        return 2

    def endless(n):
        return endless(n + 1)

    def test_hostile():
        assert take(Hostile()) == 2

    def test_recursion():
        with pytest.raises(RecursionError):
            endless(0)
        assert take(1) == 2

    def test_exits():
        with pytest.raises(SystemExit):
            sys.exit(3)

    def test_alive():
        import gc, weakref
        class Thing: pass
        thing = Thing()
        gone = weakref.ref(thing)
        take(thing)
        del thing
        assert gone() is None
        source = (each for each in [Thing()])
        next(source)
        gone = weakref.ref(source)
        del source
        assert gone() is None
"""


@pytest.mark.full
@pytest.mark.parametrize("way", WAYS)
def test_hostile_objects_recursion_and_exits_change_no_outcome(
    make_project: MakeProject, way: str
) -> None:
    rows = record(make_project(test_hostile=HOSTILE), ran=True, **WAYS[way])
    assert [row[2] for row in rows.of("outcome")] == ["passed"] * 12, rows.output
    assert not [row for row in rows.of("reached") if row[1] == "failure"]


@pytest.mark.full
def test_a_chosen_call_has_all_its_lines_beside_those_that_ran(project: Path) -> None:
    asked: dict[str, Any] = {"function": "kind", "call": 1, "counts": True}
    nodeid = "test_branches.py::test_it"
    rows, plain = record(project, nodeid, ran=True, **asked), record(project, nodeid, **asked)
    kinds = ("line", "lines", "change", "return", "call")
    assert rows.of("line")
    assert rows.of("lines")
    assert [row[2:] for row in rows.of("lines")] == [row[2:] for row in plain.of("lines")]
    assert [row[0] for row in rows.of(*kinds)] == [row[0] for row in plain.of(*kinds)]
    assert rows.of("line") == plain.of("line")
    assert rows.of("ran")


CART = """
    RATES = {"de": 19, "at": 20}

    class Cart:
        def __init__(self, country):
            self.country = country
            self.items = []

        def add(self, price):
            if price is None:
                price = 0
            self.items.append(price)

        def total(self):
            if not self.items:
                return 0
            whole = sum(self.items)
            if whole > 100:
                whole = self.discount(whole)
            return whole + whole * self.rate() // 100

        def discount(self, whole):
            return whole - 10

        def rate(self):
            return RATES[self.country]
"""

TESTS = """
    import pytest
    from cart import Cart

    @pytest.fixture(scope="module")
    def country():
        return "de"

    @pytest.mark.parametrize("prices, total", [
        ([10], 11), ([100], 119), ([50, 60], 130), ([], 0), ([20, None], 23),
    ])
    def test_total(prices, total, country):
        cart = Cart(country)
        for price in prices:
            cart.add(price)
        assert cart.total() == total

    def test_empty():
        assert Cart("at").items == []
"""


@pytest.mark.full
@pytest.mark.parametrize("way", WAYS)
def test_a_failing_test_is_compared_with_its_neighbours(
    make_project: MakeProject, tmp_path: Path, way: str
) -> None:
    root = make_project(cart=CART, test_cart=TESTS)
    failing = "test_cart.py::test_total[prices2-130]"
    here = record(root, failing, ran=True, neighbours=True, **WAYS[way])
    (others,) = (row[1] for row in here.of("neighbours"))
    chosen = candidates(failing, others, lambda _: None, MOST_COMPARED)
    assert len(chosen) == 5
    there = record(root, *chosen, ran=True)
    test = read_tests(here, tmp_path)[failing]
    neighbours = list(read_tests(there, tmp_path).values())
    assert [each.outcome for each in neighbours].count("passed") == 5
    found = only_here(test, neighbours, SourceFiles(str(root)))
    assert found.lines == [
        "against 5 passing neighbours:",
        "only here: Cart.total cart.py:19  whole = self.discount(whole)  "
        "(behind: if whole > 100:; 4 of them ran total)",
        "only here: Cart.discount cart.py:22–23",
    ]
    assert [each.code.name for each in found.evidence] == ["Cart.total", "Cart.discount"]
    assert not only_here(test, neighbours[:0], SourceFiles(str(root))).lines


@pytest.mark.full
@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_edits_are_found_among_the_lines_of_a_process(
    make_project: MakeProject, tmp_path: Path
) -> None:
    root = make_project(cart=CART, test_cart=TESTS)
    repository = Repository(root)
    repository.commit()
    edited = CART.replace("whole - 10", "whole - 11").replace("price = 0", "price = 1")
    repository.write(edited.lstrip("\n"), "cart.py")
    failing = "test_cart.py::test_total[prices2-130]"
    rows = record(root, failing, ran=True, tree=True)
    test = read_tests(rows, tmp_path)[failing]
    found = asyncio.run(edits(str(root), test, SourceFiles(str(root)), Redactor(environ={})))
    (place,) = found.evidence
    assert place.code.dotted == "cart.Cart.discount"
    assert [line.partition("  ")[2] for line in found.lines] == [
        "(working tree)  - return whole - 10 | + return whole - 11"
    ]
