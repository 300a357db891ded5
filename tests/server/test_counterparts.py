"""The lines of two texts side by side, whatever a patch adds, removes, changes or indents."""

from __future__ import annotations

import random

from cideldill_mcp.questions.diff.counterparts import Counterparts
from cideldill_mcp.questions.recordings.recorded import Code


def edited(lines: list[str], chosen: random.Random) -> tuple[list[str], dict[int, int]]:
    """A text with some edits, and which of its lines each untouched one has become."""
    made: list[str] = []
    kept: dict[int, int] = {}
    for number, line in enumerate(lines, 1):
        edit = chosen.choices(("keep", "indent", "insert", "delete", "change"), (12, 2, 1, 1, 1))[0]
        if edit == "insert":
            made += [f"new {chosen.random()}" for _ in range(chosen.randint(1, 3))]
        if edit == "change":
            made.append(f"{chosen.random()} instead")
        elif edit != "delete":
            made.append(f"    {line}" if edit == "indent" else line)
            kept[number] = len(made)
    return made, kept


def test_lines_that_only_moved_are_found() -> None:
    for seed in range(30):
        chosen = random.Random(seed)
        left = [f"line {number} = {chosen.random()}" for number in range(1, chosen.randint(2, 80))]
        right, kept = edited(left, chosen)
        lines = Counterparts(left, right)
        assert {number: lines.right(number) for number in kept} == kept, seed
        both = [(each, lines.right(each)) for each in range(1, len(left) + 1) if lines.right(each)]
        assert all(lines.left(other) == each for each, other in both), seed
        assert [other for _, other in both] == sorted(other for _, other in both), seed
        assert all(lines.left_near(each) <= len(left) for each in range(1, len(right) + 1)), seed


def function(name: str, first: int, last: int) -> Code:
    return Code(1, "shop", name, "shop.py", first, last, "function")


def test_functions_of_one_name_are_distinguished_by_their_place() -> None:
    left = [
        "class A:",
        "@property",
        "def n(self):",
        "return 1",
        "@n.setter",
        "def n(self, n):",
        "x",
    ]
    right = ["import os", *left[:3], "y = 1", *left[3:]]
    lines = Counterparts(left, right)
    getter, setter = function("A.n", 2, 4), function("A.n", 5, 7)
    moved, later = function("A.n", 3, 6), function("A.n", 7, 9)
    assert lines.are_one(getter, moved)
    assert lines.are_one(setter, later)
    assert not lines.are_one(getter, later)
    assert not lines.are_one(setter, moved)
    assert not lines.are_one(getter, function("A.m", 3, 6))


def test_a_function_whose_every_line_is_another_one_stays_it() -> None:
    lines = Counterparts(["def f(n): return n"], ["", "def f(n, m): return n + m"])
    assert lines.are_one(function("f", 1, 1), function("f", 2, 2))


def test_equal_texts_have_equal_lines() -> None:
    lines = Counterparts(["a", "a"], ["a", "a"])
    assert (lines.right(2), lines.left(1), lines.left_near(7)) == (2, 1, 7)
    assert not lines.are_one(function("f", 1, 1), function("f", 2, 2))
