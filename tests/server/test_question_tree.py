"""The tree of a test's calls as text: what is folded, what is kept, what is left out."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from cideldill_mcp.questions.texts.fitting import Answer
from cideldill_mcp.questions.trace.call_tree import tree_answer
from tests.server.recordings import NODEID, Rows, recorded_run


def answered(rows: Rows, folder: Path, max_chars: int = 4_000, depth: int | None = None) -> Answer:
    recorded = rows.read(folder)
    return tree_answer(recorded, recorded.tests[NODEID], max_chars=max_chars, depth=depth)


def lines(answer: Answer) -> list[str]:
    return [line.strip() for line in answer.text.splitlines()]


def test_each_call_is_a_line_with_its_result_and_the_place_of_its_definition(
    tmp_path: Path,
) -> None:
    source = """
class Cart:
    def __init__(self):
        self.items = []
    def add(self, name, price=3):
        self.items.append((name, price))
        return self.total()
    def total(self):
        return sum(price for _, price in self.items)

def rate(code):
    try:
        return look_up(code)
    except KeyError:
        return 0

def look_up(code):
    return {}[code]

def test_total():
    cart = Cart()
    cart.add("milk")
    cart.add("tea", price=5)
    assert cart.total() * rate("HALF") == 4
"""
    recorded = recorded_run(tmp_path, source, "test_total")
    answer = tree_answer(recorded, recorded.tests[NODEID])
    assert answer.text == (
        "tests/test_shop.py::test_total  failed: AssertionError:   tests/test_shop.py:1\n"
        "call ✗\n"
        "  test_total() ✗ AssertionError:   shop.py:20\n"
        "    Cart.__init__() → None  shop.py:3\n"
        "    Cart.add(name='milk', price=3) → 3  shop.py:5\n"
        "      Cart.total() → 3  shop.py:8\n"
        "        Cart.total.<genexpr>() yields 1 item: 3  shop.py:9\n"
        "    Cart.add(name='tea', price=5) → 8\n"
        "      Cart.total() → 8\n"
        "        Cart.total.<genexpr>() yields 2 items: 3, 5\n"
        "    Cart.total() → 8\n"
        "      Cart.total.<genexpr>() yields 2 items: 3, 5\n"
        "    rate(code='HALF') → 0  shop.py:11\n"
        "      look_up(code='HALF') ✗ KeyError: 'HALF'  shop.py:17"
    )
    assert answer.fields == {"nodeid": NODEID, "outcome": "failed", "calls": 12}
    assert not answer.truncated
    assert answer.next[0] == (
        f'test_trace {{"nodeid": "{NODEID}", "function": "shop.rate"}}: '
        "each line of the call that returned before it"
    )


def test_rounds_alike_are_folded_and_the_one_that_differs_is_shown(tmp_path: Path) -> None:
    rows = Rows()
    rows.test()
    with_loop = rows.begin("test_total")
    for number in range(1, 38):
        error = "TypeError: no price" if number == 36 else ""
        rows.call("Cart.add", with_loop, 7, args={"price": str(number)}, error=error)
    rows.add("return", with_loop, "None")
    rows.end()
    found = lines(answered(rows, tmp_path))
    assert found[3:] == [
        "#1 Cart.add(price=1) → None  ×37",
        "#2 Cart.add(price=2) → None",
        "… #3–#35: 33 like #1",
        "#36 Cart.add(price=36) ✗ TypeError: no price",
        "#37 Cart.add(price=37) → None",
    ]


@pytest.mark.full
@pytest.mark.quick("*-500")
@pytest.mark.parametrize(
    ("odd", "rounds"), [("a result of another kind", 5_000), ("another shape inside", 500)]
)
def test_a_round_differs_by_its_result_or_by_what_it_calls(
    tmp_path: Path, odd: str, rounds: int
) -> None:
    rows = Rows()
    rows.test()
    test = rows.begin("test_total")
    for number in range(1, rounds + 1):
        is_odd = number == rounds - 100
        load = rows.begin("load", test, 5, {"n": str(number)})
        rows.call("parse", load, 12)
        if is_odd and "shape" in odd:
            rows.call("repair", load, 13)
        rows.add("return", load, "None" if is_odd and "result" in odd else "{'a': 1}")
        rows.call("store", test, 6)
    rows.add("return", test, "None")
    rows.end()
    text = answered(rows, tmp_path, 1_500).text
    assert f"#3–#{rounds - 101}: {rounds - 103:,} rounds like #1" in text
    assert f"#{rounds - 100} load(n={rounds - 100})" in text
    assert f"#{rounds - 99}–#{rounds - 1}: 99 rounds like #1" in text
    assert f"#{rounds} load(n={rounds})" in text
    assert ("repair()" in text) == ("shape" in odd)


def test_a_recursion_is_folded_in_the_middle(tmp_path: Path) -> None:
    source = """
def fact(n):
    check(n)
    return 1 if n == 0 else n * fact(n - 1)

def check(n):
    return True

def is_even(n):
    return True if n == 0 else is_odd(n - 1)

def is_odd(n):
    return False if n == 0 else is_even(n - 1)

def test_total():
    fact(25)
    is_even(40)
"""
    recorded = recorded_run(tmp_path, source, "test_total")
    answer = tree_answer(recorded, recorded.tests[NODEID])
    text = answer.text
    assert "… 22 levels alike: fact(n=23)" in text
    assert "fact(n=24)" in text
    assert "fact(n=0)" in text
    assert "fact(n=12)" not in text
    assert re.search(r"… \d+ levels alike: is_odd\(n=37\)", text)
    assert "is_even(n=0)" in text
    assert len(text) < 1_500


def test_what_raised_is_kept_when_there_is_little_room(tmp_path: Path) -> None:
    rows = Rows()
    rows.test()
    test = rows.begin("test_total")
    for number in range(60):
        rows.call(f"noise{number}", test, number)
    way = [test]
    for number in range(30):
        way.append(rows.begin(f"step{number}", way[-1], 3))
        rows.call(f"helper{number}", way[-1], 4)
    for call in reversed(way):
        rows.add("unwind", call, "KeyError: 'price'")
    rows.end("failed", "KeyError: 'price'", 9)
    answer = answered(rows, tmp_path, 2_400)
    assert answer.truncated
    assert all(f"step{number}()" in answer.text for number in range(30))
    assert "left out: " in answer.text.splitlines()[-1]
    assert '"function": "shop.cart.step29"' in answer.next[0]


def test_phases_threads_bodies_and_libraries_are_short(tmp_path: Path) -> None:
    rows = Rows()
    rows.add("test", NODEID)
    rows.add("phase", "setup")
    rows.call("cart")
    rows.add("outcome", "setup", "passed", None, None, None)
    rows.add("phase", "call")
    test = rows.begin("test_total")
    module = rows.begin(rows.code("<module>", "shop.extra", kind="module"), test, 3)
    for number in range(9):
        rows.call(f"define{number}", module, number)
    rows.add("return", module, "None")
    thread = rows.begin("work", 0, 0, {}, "worker-1")
    rows.call("inner", thread)
    rows.add("yield", thread, "1")
    rows.add("wait", thread)
    rows.add("resume", thread, "CancelledError: ")
    rows.add("unwind", thread, "CancelledError: ")
    rows.call("key", test, 8, args={"n": "1"})
    rows.add("library", test, "json.loads", 3)
    rows.add("library", test, "re.match", 1)
    rows.add("return", test, "None")
    rows.end()
    text = answered(rows, tmp_path).text
    assert "setup\n  cart() → None" in text
    assert "    import shop.extra (9 calls inside)" in text
    assert "define1" not in text
    assert "lib: json.loads ×3, re.match" in text
    assert "[worker-1] work() yields 1 item: 1 waits ← throw CancelledError:  ✗ Canc" in text
    assert text.count("worker-1") == 2 - ("[main thread] inner" in text)


def test_calls_deeper_than_asked_are_counted(tmp_path: Path) -> None:
    rows = Rows()
    rows.test()
    rows.call(
        "test_total",
        inside=lambda test: rows.call("a", test, inside=lambda a: rows.call("b", a)),
    )
    rows.end()
    answer = answered(rows, tmp_path, depth=2)
    assert "b()" not in answer.text
    assert answer.text.splitlines()[-1].startswith("left out: 1 call deeper than 2")
    assert answer.truncated


def test_a_recording_that_broke_off_says_so(tmp_path: Path) -> None:
    rows = Rows()
    rows.test()
    rows.begin("test_total")
    rows.add("reached", "calls", "after 100,000 calls no more were recorded")
    text = answered(rows, tmp_path).text
    assert "test_total() … not ended" in text
    assert "after 100,000 calls no more were recorded" in text
    assert "the process ended before pytest did" in text


def random_rows(seed: int) -> tuple[Rows, set[str]]:
    """A test with any calls, and the texts of the exceptions in it."""
    dice = random.Random(seed)
    rows = Rows()
    rows.test()
    stack = [rows.begin("test_total")]
    errors: set[str] = set()
    for number in range(dice.randrange(1, 400)):
        while len(stack) > 1 and dice.random() < 0.55:
            call = stack.pop()
            if dice.random() < 0.01 and len(errors) < 4:
                errors.add(f"Error{number}: {number}")
                rows.add("unwind", call, f"Error{number}: {number}")
            else:
                rows.add("return", call, dice.choice(["None", "1", "'a'", "<X>", "[]"]))
        args = {"n": "x" * dice.randrange(30)} if dice.random() < 0.5 else {}
        name = f"f{dice.randrange(6)}"
        stack.append(rows.begin(name, stack[-1], dice.randrange(4), args))
    for call in reversed(stack):
        rows.add("return", call, "None")
    rows.end()
    return rows, errors


@pytest.mark.full
@pytest.mark.quick("0-8")
@pytest.mark.parametrize(("first", "end"), [(0, 8), (8, 25)])
def test_any_tree_fits_shows_what_was_raised_and_says_what_it_leaves_out(
    tmp_path: Path, first: int, end: int
) -> None:
    for seed in range(first, end):
        rows, errors = random_rows(seed)
        recorded = rows.read(tmp_path)
        for max_chars in (300, 1_000, 4_000, 200_000):
            answer = tree_answer(recorded, recorded.tests[NODEID], max_chars=max_chars)
            assert len(answer.text) <= max_chars, seed
            assert answer.truncated == answer.text.splitlines()[-1].startswith("left out: "), seed
            assert answer.truncated == bool(answer.text.count("left out: ")), seed
            if max_chars >= 4_000:
                assert all(error in answer.text for error in errors), seed
            shown = sum("f" in line and "(" in line for line in answer.text.splitlines())
            assert shown > 0, seed


@pytest.mark.full
def test_a_hundred_thousand_calls_are_answered_in_a_moment(tmp_path: Path) -> None:
    rows = Rows()
    rows.test()
    test = rows.begin("test_total")
    for number in range(15_000):
        rows.call("add", test, 3, inside=lambda call: rows.call("check", call, 4))
        if number == 777:
            rows.call("check", test, 4, error="ValueError: 777")
    rows.add("return", test, "None")
    rows.end()
    recorded = rows.read(tmp_path)
    start = time.process_time()
    answer = tree_answer(recorded, recorded.tests[NODEID])
    assert time.process_time() - start < 1.5
    assert "ValueError: 777" in answer.text
    assert len(answer.text) < 1_000
