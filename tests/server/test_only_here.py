"""Which statements only a failing test ran, or only its passing neighbours: on real code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cideldill_mcp.questions.asking.neighbours import MOST_COMPARED, candidates
from cideldill_mcp.questions.recordings.ran import Remarks
from cideldill_mcp.questions.recordings.recorded import Phase
from cideldill_mcp.questions.why.only_here import only_here
from tests.server.ran_code import FILE, Runs


def compared(runs: Runs, here: object, there: Sequence[object]) -> Remarks:
    """What differs between a value and others."""
    others = [runs.test(each, f"test_shop.py::test_it[{at}]") for at, each in enumerate(there)]
    return only_here(runs.test(here), others, runs.files)


@dataclass(frozen=True)
class Case:
    """A source, the value of the failing test, those of its neighbours, and the answer."""

    name: str
    source: str
    here: object
    there: tuple[object, ...]
    lines: tuple[str, ...] = ()


CASES = (
    Case(
        "early_return",
        """
        def total(items):
            if not items:
                return 0
            whole = sum(items)
            return whole

        def main(items):
            return total(items)
        """,
        [],
        ([1], [2]),
        (
            "against 2 passing neighbours:",
            "only here: total shop.py:3  return 0  (behind: if not items:)",
        ),
    ),
    Case(
        "no_early_return",
        """
        def main(items):
            if not items:
                return 0
            whole = sum(items)
            return whole
        """,
        [1],
        ([],),
        (
            "against 1 passing neighbour:",
            "only here: main shop.py:4–5  whole = sum(items)",
            "not here: main shop.py:3  return 0  (behind: if not items:)",
        ),
    ),
    Case(
        "else_and_elif",
        """
        def main(n):
            if n > 2:
                n = 0
            elif n > 1:
                n = 1
                n += 1
            else:
                n = 2
            return n
        """,
        2,
        (1, 0),
        (
            "against 2 passing neighbours:",
            "only here: main shop.py:5–6  n = 1  (behind: elif n > 1:)",
        ),
    ),
    Case(
        "skipped_branch",
        """
        def main(n):
            for each in range(n):
                if each == 2:
                    n = 4
            if n < 3:
                n += 1
            return n
        """,
        3,
        (1, 2),
        (
            "against 2 passing neighbours:",
            "only here: main shop.py:4  n = 4  (behind: if each == 2:)",
            "not here: main shop.py:6  n += 1  (behind: if n < 3:)",
        ),
    ),
    Case(
        "some_neighbours_take_it",
        """
        def main(n):
            if n:
                n += 1
            return n
        """,
        0,
        (1, 0),
    ),
    Case(
        "handlers",
        """
        def main(text):
            try:
                n = int(text)
            except TypeError:
                n = 0
            except (ValueError, KeyError):
                n = 1
            else:
                n = 2
            finally:
                text = None
            return n
        """,
        "x",
        ("1",),
        (
            "against 1 passing neighbour:",
            "only here: main shop.py:7  n = 1  (behind: except (ValueError, KeyError):)",
        ),
    ),
    Case(
        "matched",
        """
        def main(it):
            match it:
                case [first, *_]:
                    it = first
                case int() as n if n:
                    it = n
                case _:
                    it = None
            return it
        """,
        5,
        ([1],),
        (
            "against 1 passing neighbour:",
            "only here: main shop.py:6  it = n  (behind: case int() as n if n:)",
        ),
    ),
    Case(
        "loop_that_ends_early",
        """
        def find(items):
            for item in items:
                if item:
                    break
            else:
                item = None
            items = list(items)
            return item

        def main(items):
            with open(__import__("os").devnull) as _:
                return find(items)
        """,
        [0],
        ([1],),
        (
            "against 1 passing neighbour:",
            "only here: find shop.py:6  item = None  (behind: else of for item in items:)",
            "not here: find shop.py:4  break  (behind: if item:)",
        ),
    ),
    Case(
        "what_is_in_a_statement_is_not_claimed",
        """
        def main(n):
            text = "a" if n else "b"
            more = (
                "a"
                if n
                else
                "b"
            )
            found = [
                each
                for each in range(n)
                if each
            ]
            if n: found = []
            if n or not n: return text and more or found
        """,
        0,
        (1, 2),
    ),
    Case(
        "whole_functions",
        """
        def discount(n):
            def rate(m):
                return m * 2
            return rate(n)

        def unused(n):
            return n

        class Cart:
            def total(self, n):
                if n > 5:
                    return discount(n)
                return n

        def main(n):
            return Cart().total(n)
        """,
        6,
        (1, 2, 3),
        (
            "against 3 passing neighbours:",
            "only here: Cart.total shop.py:12  return discount(n)  (behind: if n > 5:)",
            "only here: discount shop.py:1–4",
        ),
    ),
    Case(
        "raised",
        """
        def check(n):
            if n > 5:
                n += "x"
                n = 1
            if n < 3:
                n = 2
            n = 3
            return n

        def main(n):
            n = check(n)
            return n
        """,
        6,
        (1, 2),
        (
            "against 2 passing neighbours:",
            'only here: check shop.py:3  n += "x"  (behind: if n > 5:)',
        ),
    ),
    Case(
        "some_did_not_run_the_function",
        """
        def half(n):
            if n > 5:
                n = 5
            return n

        def main(n):
            return half(n) if n else None
        """,
        6,
        (1, 0, 0),
        (
            "against 3 passing neighbours:",
            "only here: half shop.py:3  n = 5  (behind: if n > 5:; 1 of them ran half)",
        ),
    ),
    Case("equal", "def main(n):\n    if n:\n        n = 0\n    return n\n", 1, (1, 2)),
    Case("no_neighbours", "def main(n):\n    return n\n", 1, ()),
    Case("no_passing", "def main(n):\n    return 1 / n\n", 1, (0,)),
)


def test_what_only_one_side_ran_is_shown_with_its_branch(tmp_path: Path) -> None:
    for case in CASES:
        found = compared(Runs(tmp_path, case.source), case.here, case.there)
        assert found.lines == list(case.lines), case
        assert bool(found.evidence) == bool(case.lines), case
        assert len(found.evidence) == max(0, len(case.lines) - 1), case
        for each in found.evidence:
            assert each.code.file == FILE, case
            assert each.code.first <= each.first <= each.last <= each.code.last, case


def test_lines_that_ran_behind_the_failure_do_not_count(tmp_path: Path) -> None:
    runs = Runs(tmp_path, "def close():\n    return 1\n\ndef main(n):\n    return n and close()\n")
    test, other = runs.test(0), runs.test(0, "test_shop.py::test_other")
    closed = runs.test(1).phases[1].ran
    test.phases[1].outcome = "failed"
    test.phases.append(Phase("teardown", outcome="passed", ran=closed))
    assert not only_here(test, [other], runs.files).lines
    test.phases[1].outcome, test.phases[2].outcome = "passed", "failed"
    assert only_here(test, [other], runs.files).lines[1:] == ["only here: close shop.py:1–2"]


def test_functions_of_tests_are_no_news_but_their_branches_are(tmp_path: Path) -> None:
    source = """
        def helper(n):
            return n

        def main(n):
            if n:
                return helper(n)
            return 0
    """
    runs = Runs(tmp_path, source)
    test, others = runs.test(1), [runs.test(0, "test_shop.py::test_it[0]")]
    assert len(only_here(test, others, runs.files).lines) == 3
    assert only_here(test, others, runs.files, [FILE]).lines == [
        "against 1 passing neighbour:",
        "only here: main shop.py:6  return helper(n)  (behind: if n:)",
    ]


def test_what_is_nearer_to_the_failure_comes_first_and_much_is_cut(tmp_path: Path) -> None:
    many = 12
    parts = [
        f"def f{at}(n):\n    if n:\n        n += 0\n    return g{at}(n) if n else 0\n"
        f"def g{at}(n):\n    return 1 / 0 if {at} == 7 else n\n"
        for at in range(many)
    ]
    calls = ", ".join(f"f{at}(n)" for at in range(many))
    runs = Runs(tmp_path, "\n".join(parts) + f"\ndef main(n):\n    return [{calls}]\n")
    found = compared(runs, 1, [0])
    assert found.lines[1].startswith("only here: f7 ")
    assert found.lines[7] == "… 2 more places inside of functions"
    assert found.lines[8].startswith("only here: g7 ")
    assert found.lines[12:] == ["… 4 more functions only here"]
    assert len(found.lines) == 13
    assert len(found.evidence) == 16


def test_at_most_thirty_neighbours_are_run_the_nearest_first() -> None:
    others = [f"test_shop.py::TestA::test_it[{n}]" for n in range(40)]
    others += [f"test_shop.py::TestA::test_{n}" for n in range(40)]
    nodeid = "test_shop.py::TestA::test_it[4]"
    failed = {others[7]}

    def before(each: str) -> str | None:
        return "failed" if each in failed else None

    chosen = candidates(nodeid, others, before, MOST_COMPARED)
    assert len(chosen) == len(set(chosen)) == MOST_COMPARED == 30
    assert all("::test_it[" in each for each in chosen)
    assert nodeid not in chosen
    assert others[7] not in chosen
    few = candidates(nodeid, others[36:44], before, MOST_COMPARED)
    assert few == [*sorted(few[:4]), *few[4:]]
    assert len(few) == 8
