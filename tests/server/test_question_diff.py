"""`test_diff` on recordings that are made up: alignment, noise, globs, and where lines part."""

from __future__ import annotations

from cideldill_mcp.questions.asking.neighbours import candidates, relation
from cideldill_mcp.questions.diff.alignment import aligned
from cideldill_mcp.questions.diff.diff_text import around
from cideldill_mcp.questions.diff.differences import Comparer, Difference, Noise, Side, globs
from cideldill_mcp.questions.diff.divergence import Walk, noise_between
from cideldill_mcp.questions.recordings.recorded import (
    Call,
    Code,
    Failed,
    Frame,
    Phase,
    Recorded,
    RecordedTest,
)

_CODES = {
    name: Code(at, "shop", name, "shop.py", at, at, "function") for at, name in enumerate("abc")
}


def call(name: str, arg: object = 0, *children: Call, result: str = "None") -> Call:
    code = _CODES.setdefault(name, Code(9, "shop", name, "test_it.py", 9, 9, "function"))
    made = Call(0, None, code, 1, 0, "", [["n", str(arg)]], "", list(children), result)
    for each in children:
        each.parent = made
    return made


def side(*roots: Call, nodeid: str = "test_it.py::test_one") -> Side:
    phase = Phase("call", list(roots), outcome="passed")
    return Side(Recorded(has_ended=True), RecordedTest(nodeid, [phase]))


def pairs(left: list[Call], right: list[Call]) -> list[str]:
    def shown(each: Call | None) -> str:
        return "-" if each is None else f"{each.code.name}{each.args[0][1]}"

    key = side().key
    return [f"{shown(a)}|{shown(b)}" for a, b in aligned(left, right, key, key)]


def test_calls_with_equal_arguments_are_put_together() -> None:
    left = [call("a", 1), call("a", 2), call("a", 3)]
    right = [call("a", 1), call("a", 3)]
    assert pairs(left, right) == ["a1|a1", "a2|-", "a3|a3"]
    assert pairs(right, left) == ["a1|a1", "-|a2", "a3|a3"]


def test_calls_of_one_function_are_put_together_where_arguments_differ() -> None:
    left = [call("a", 1), call("b", 1), call("c", 1)]
    right = [call("a", 5), call("c", 6)]
    assert pairs(left, right) == ["a1|a5", "b1|-", "c1|c6"]


def test_long_rows_of_calls_are_aligned_at_both_ends() -> None:
    left = [call("a", n) for n in range(3_000)]
    right = [call("a", n) for n in range(3_000) if n != 1_500]
    assert [each for each in pairs(left, right) if "-" in each] == ["a1500|-"]


def test_the_call_with_equal_arguments_is_the_divergence_and_not_those_around_it() -> None:
    left = side(call("a", 1, call("b", 1, call("c", 1, result="5")), result="7"))
    right = side(call("a", 1, call("b", 1, call("c", 1, result="6")), result="8"))
    found = Walk(Comparer(left, right, Noise()), is_same=True).run()
    (only,) = found.divergences
    assert only.left is not None
    assert (only.left.code.name, only.differences) == ("c", (Difference("return", "5", "6"),))


def test_calls_beyond_the_limit_of_one_side_are_compared_with_none() -> None:
    """Between them others are missing."""
    many = [call("a", n) for n in range(9)]
    few = [call("a", n) for n in (0, 1, 2, 8)]
    few[-1].is_beyond = True
    cut = side(call("test_one", 1, *few, result="1"))
    cut.recorded.reached.append(("calls", "after 4 calls …"))
    whole = side(call("test_one", 1, *many, result="1"))
    for left, right in ((cut, whole), (whole, cut)):
        found = Walk(Comparer(left, right, Noise()), is_same=True).run()
        assert (found.divergences, found.suspects) == ([], [])


def test_a_call_that_hands_on_other_arguments_is_no_suspect() -> None:
    left = side(call("test_one", 1, call("a", 1, result="1")))
    right = side(call("test_two", 2, call("a", 2, result="2")), nodeid="test_it.py::test_two")
    found = Walk(Comparer(left, right, Noise()), is_same=False).run()
    assert (found.divergences, found.suspects) == ([], [])
    assert found.entry is not None


def failing(*children: Call, raised_at: int, line: int) -> Side:
    """A test that made calls, and failed at a line when some of them had begun and ended."""
    test = call("test_one", 1, *children)
    test.result, test.error, test.ended_at = None, "AssertionError", raised_at + 9
    made = side(test)
    frame = Frame("test_it.py", line, "test_one", True)
    failed = Failed("call", "AssertionError", "", [frame], [], at=99, raised_at=raised_at)
    made.test.failed = failed
    return made


def at(line: int, begun_at: int, made: Call) -> Call:
    made.line, made.begun_at = line, begun_at
    return made


def test_what_follows_from_the_failure_is_no_difference() -> None:
    left = failing(
        at(3, 1, call("a", 1)),
        at(2, 5, call("b", "error", call("c", 1))),
        at(7, 8, call("c", 2)),
        raised_at=4,
        line=4,
    )
    right = side(
        call("test_one", 1, at(3, 1, call("a", 1)), at(2, 3, call("b")), at(5, 5, call("a", 2)))
    )
    for one, other in ((left, right), (right, left)):
        found = Walk(Comparer(one, other, Noise()), is_same=True).run()
        (only,) = found.divergences
        assert only.left is not None
        assert (only.left.code.name, only.how) == ("test_one", "outcome")
        assert not found.suspects


def test_a_call_that_only_one_side_makes_before_the_failure_is_the_difference() -> None:
    left = failing(at(3, 1, call("a", 1)), at(2, 5, call("b", "error")), raised_at=4, line=4)
    calls = (at(3, 1, call("a", 1)), at(3, 3, call("c", 2)), at(2, 5, call("b")))
    found = Walk(Comparer(left, side(call("test_one", 1, *calls)), Noise()), is_same=True).run()
    first = found.divergences[0]
    assert first.child is not None
    assert first.child[1] is calls[1]


def test_noise_is_what_differs_between_two_runs_of_one_side() -> None:
    first, second = side(call("a", 1, result="17")), side(call("a", 1, call("b"), result="18"))
    noise = noise_between(first, second)
    assert noise.count == 2
    other = side(call("a", 1, result="19"))
    assert Walk(Comparer(first, other, noise), is_same=True).run().is_equal


def test_noise_in_several_items_means_all_of_them() -> None:
    noise = Noise()
    noise.add("shop.a", [Difference("rows[1].id", "1", "2")])
    assert not noise.has("shop.a", "rows[2].id")
    noise.add("shop.a", [Difference("rows[3].id", "1", "2")])
    assert noise.has("shop.a", "rows[2].id")
    assert not noise.has("shop.a", "rows[2].price")
    assert not noise.has("shop.b", "rows[1].id")
    noise.add("shop.a", [Difference("return", "1", "2")])
    assert noise.has("shop.a", "return.id")


def test_only_stars_and_question_marks_are_special_in_globs() -> None:
    pattern = globs(["rows[*].id", "at?"])
    assert pattern is not None
    assert [bool(pattern.fullmatch(text)) for text in ("rows[12].id", "rows1.id", "ats", "at")] == [
        *(True, False, True, False)
    ]
    assert globs([]) is None


def test_long_values_are_shown_from_where_they_differ() -> None:
    left, right = around("x" * 300 + "A" + "y" * 300, "x" * 300 + "B" + "y" * 300, 60)
    assert (len(left), left[21], right[21]) == (60, "A", "B")
    assert around("1", "2", 60) == ("1", "2")


def test_the_nearest_tests_come_first() -> None:
    others = ["t.py::test_b", "t.py::test_a[1-x]", "t.py::TestC::test_d", "t.py::test_a[2-y]"]
    known = {"t.py::test_b": "failed"}
    assert candidates("t.py::test_a[3-y]", others, known.get) == [
        *("t.py::test_a[2-y]", "t.py::test_a[1-x]", "t.py::TestC::test_d", "t.py::test_b")
    ]
    assert relation("t.py::test_a[3]", "t.py::test_a[2]") == "the same test with other parameters"
    assert relation("t.py::test_a", "u.py::test_a") == "of another file"
