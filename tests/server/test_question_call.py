"""The life of one call as text: branches, rounds, calls and values, in any size."""

from __future__ import annotations

import random
import time
from pathlib import Path
from textwrap import dedent

import pytest

from cideldill_mcp.questions.recordings.listing import SourceFiles
from cideldill_mcp.questions.texts.fitting import Answer
from cideldill_mcp.questions.trace.call import call_answer
from cideldill_mcp.replies.proposals import proposal
from tests.server.recordings import NODEID, Rows, recorded_run

TEST = """
def test_total():
    run()
"""


def answered(
    folder: Path, source: str, function: str = "run", *, count: int = 1, max_chars: int = 4_000
) -> Answer:
    """The life of a call when `test_total` runs."""
    text = dedent(source).lstrip()
    if "test_total" not in text:
        text += TEST
    recorded = recorded_run(folder, text, "test_total", focus=function, count=count)
    files = SourceFiles(recorded.rootdir)
    return call_answer(
        recorded, recorded.tests[NODEID], files, function=function, max_chars=max_chars
    )


def steps(answer: Answer) -> list[str]:
    """Its lines below the three of the head."""
    return answer.text.splitlines()[3:]


def test_where_each_line_ran_once_the_source_itself_is_the_trace(tmp_path: Path) -> None:
    source = """
    def pay(amount, rate=2):
        '''What is to be paid.'''
        if amount > 3:
            amount = amount * rate
        else:
            amount = 0
            rate = None
        # Rounded.
        total = add(
            amount,
            rate,
        )
        try:
            return {}[total]
        except ValueError:
            return 1
        except KeyError as error:
            pass
        return total

    def add(a, b):
        return a + b

    def test_total():
        pay(4)
        pay(1)
    """
    answer = answered(tmp_path, source, "pay")
    assert answer.text == (
        "pay(amount=4, rate=2) → 10\n"
        "shop.py:1–19  call 1 of 2, from test_total shop.py:25\n"
        "tests/test_shop.py::test_total  failed: TypeError: unsupported operand type(s) for +: "
        "'int' and 'NoneType'  tests/test_shop.py:1\n"
        "    1  def pay(amount, rate=2):\n"
        "    2      '''What is to be paid.'''\n"
        "    3      if amount > 3:  → true\n"
        "    4          amount = amount * rate  → amount=8\n"
        "    5      else:\n"
        "-   6          amount = 0\n"
        "-   7          rate = None\n"
        "    8      # Rounded.\n"
        "    9      total = add(\n"
        "   10          amount,\n"
        "   11          rate,\n"
        "   12      )  → total=10\n"
        "              add(a=8, b=2) → 10  shop.py:21\n"
        "   13      try:\n"
        "   14          return {}[total]  ✗ KeyError: 10\n"
        "   15      except ValueError:  → no match\n"
        "-  16          return 1\n"
        "   17      except KeyError as error:  → caught, error=KeyError(10)\n"
        "   18          pass\n"
        "   19      return total"
    )
    assert answer.fields == {
        "nodeid": NODEID,
        "outcome": "failed",
        "function": "shop.pay",
        "calls": 2,
        "call": 1,
        "source": {"file": "shop.py", "first": 1, "last": 19},
    }
    assert not answer.truncated
    assert answer.next[0].startswith(f'test_trace {{"nodeid": "{NODEID}", "function": "shop.add"}}')


def test_a_loop_on_one_line_has_no_rounds(tmp_path: Path) -> None:
    """With `sys.monitoring` it passes once, so nothing is said of how often it went round."""
    source = """
    def run():
        total = 0
        for n in range(3): total += n
        while total > 1: total -= 1
        for row in [[1, 2], [3]]:
            for n in row: total += n
        return total
    """
    answer = answered(tmp_path, source)
    text = "\n".join(steps(answer))
    assert "for row in [[1, 2], [3]]:  2 rounds, ends" in text
    assert text.count("round") == 3  # of the loop over rows: the number of them, and each
    assert "for n in range(3): total += n  → " in answer.text
    assert "while total > 1: total -= 1  → " in answer.text


def test_an_exception_that_leaves_stands_at_its_line_and_at_the_top(tmp_path: Path) -> None:
    source = """
    def check(n):
        if n == 2:
            raise ValueError(n)

    def run():
        total = 0
        for n in range(9):
            total += n
            check(n)
        return total
    """
    answer = answered(tmp_path, source)
    assert answer.text.startswith("run() ✗ ValueError: 2\n")
    assert (
        steps(answer)[-10:]
        == [
            "6  total = 0  → total=0",
            "7  for n in range(9):  3 rounds",
            "  round 1: n=0",
            "    8  total += n",
            "    9  check(n)",
            "        check(n=0) → None  shop.py:1",
            "  round 2: n=1; 8 total=1; 9 check(n=1) → None",
            "  round 3: n=2",
            "    8  total += n  → total=3",
            "    9  check(n)  ✗ ValueError: 2",
        ]
        or steps(answer)[-1].strip() == "check(n=2) ✗ ValueError: 2"
    )
    assert '"call": 3}: the call that the exception left first' in answer.next[0]


@pytest.mark.full
def test_a_round_of_ten_thousand_that_differs_is_shown(tmp_path: Path) -> None:
    source = """
    def run():
        total = 0
        for n in range(10_000):
            if n == 4321:
                total -= 1
            total += 1
        return total
    """
    found = steps(answered(tmp_path, source))
    at = found.index("3  for n in range(10_000):  10,000 rounds, ends")
    assert found[at:] == [
        "3  for n in range(10_000):  10,000 rounds, ends",
        "  round 1: n=0",
        "    4  if n == 4321:  → false",
        "    6  total += 1  → total=1",
        "  round 2: n=1; 6 total=2",
        "  … rounds 3–4321: 4,319 like 1",
        "  round 4322: n=4321",
        "    4  if n == 4321:  → true",
        "    5  total -= 1  → total=4320",
        "    6  total += 1  → total=4321",
        "  … rounds 4323–9999: 5,677 like 1",
        "  round 10000: n=9999; 6 total=9999",
        "7  return total",
    ]


def test_an_inner_round_that_differs_is_shown_in_its_outer_round(tmp_path: Path) -> None:
    source = """
    def run():
        seen = []
        for row in range(50):
            for column in range(20):
                if row == 33 and column == 7:
                    seen.append(column)
                    continue
        return seen
    """
    answer = answered(tmp_path, source)
    found = [line.strip() for line in steps(answer)]
    at = found.index("round 34: row=33")
    assert "round 8: column=7" in found[at:]
    assert "6  seen.append(column)  → seen=[7]" in found[at:]
    assert "… rounds 35–49: 15 like 1" in found[at:]
    assert len(answer.text) < 1_600


def test_rounds_that_changed_other_names_or_raised_are_shown(tmp_path: Path) -> None:
    source = """
    def run():
        best = -1
        for n in [5, 1, 2, 1, 9, 1, 2, 1, 2]:
            best = max(best, n)
        while best:
            best -= 3
            try:
                {3: 0}[best]
            except KeyError:
                best -= 1
                if best < 0:
                    break
    """
    text = answered(tmp_path, source).text
    assert "round 5: n=9; 4 best=9" in text
    assert "… rounds 6–8: 3 like 2" in text
    assert "✗ KeyError: 6" in text
    assert "✗ KeyError: 2" in text
    assert "12  break" in text


def test_while_with_match_and_generators_say_which_way_they_went(tmp_path: Path) -> None:
    source = """
    from contextlib import suppress

    def run():
        for _ in numbers(3):
            pass

    def numbers(count):
        while count:
            match count:
                case 3:
                    got = yield "three"
                case 1 | 2:
                    with suppress(KeyError):
                        {}[1]
                    yield count
            count -= 1
        return "done"
    """
    answer = answered(tmp_path, source, "numbers")
    assert answer.text.startswith("numbers(count=3) yields 3 items: 'three', 2, 1 → 'done'\n")
    found = [line.strip() for line in steps(answer)]
    for line in (
        "8  while count:  3 rounds, ends",
        "10  case 3:  → matches",
        "11  got = yield \"three\"  yields 'three'  → got=None",
        "10  case 3:  → no match",
        "12  case 1 | 2:  → matches",
        "14  {}[1]  ✗ KeyError: 1",
        "13  with suppress(KeyError):  → leaves it",
        "15  yield count  yields 2",
        '17  return "done"',
    ):
        assert line in found, line


def test_many_calls_of_one_line_are_folded(tmp_path: Path) -> None:
    source = """
    def double(n):
        if n == 70:
            return "seventy"
        return n * 2

    def run():
        return list(map(double,
                        range(100)))
    """
    found = [line.strip() for line in steps(answered(tmp_path, source))]
    calls = found[found.index("#1 double(n=0) → 0  shop.py:1") :]
    assert calls[1:5] == [
        "#2 double(n=1) → 2",
        "… #3–#70: 68 like #1",
        "#71 double(n=70) → 'seventy'",
        "… #72–#99: 28 like #1",
    ]


def test_a_chosen_call_of_a_recursion_shows_the_inner_ones_as_calls(tmp_path: Path) -> None:
    source = """
    def fact(n):
        if n < 2:
            return 1
        return n * fact(n - 1)

    def run():
        fact(5)
    """
    answer = answered(tmp_path, source, "fact", count=2)
    assert answer.text.startswith("fact(n=4) → 24\nshop.py:1–4  call 2 of 5, from fact shop.py:4")
    assert [line.strip() for line in answer.text.splitlines()[-1:]] == ["fact(n=3) → 6  shop.py:1"]


def test_where_source_and_trace_have_no_room_the_lines_that_ran_carry_the_source(
    tmp_path: Path,
) -> None:
    body = "\n".join(f"    if n == {n}:\n        n += {n}" for n in range(60))
    source = (
        f"def run():\n    n = 0\n    for _ in range(2):\n        n += 1\n{body}\n    return n\n"
    )
    answer = answered(tmp_path, source, max_chars=2_500)
    assert "not run: 59 lines: 6, 10, " in answer.text or "not run: 5" in answer.text
    assert answer.text.count("if n == 30:") == 1 or answer.truncated
    assert answer.text.count("    n = 0") <= 1
    assert len(answer.text) <= 2_500


def test_lines_that_are_missing_are_named_and_rounds_after_them_counted_from_the_end(
    tmp_path: Path,
) -> None:
    (tmp_path / "shop.py").write_text(
        "def run():\n    for n in range(9):\n        n += 1\n    return n\n", encoding="utf-8"
    )
    rows = Rows(str(tmp_path))
    rows.test()
    call = rows.begin(rows.code("run", "shop", 1, 4, file="shop.py"))
    rows.add("focus", call, 1)
    for line in (2, 3, 2, 3):
        rows.add("line", line)
    rows.add("reached", "lines", "300,000 lines were reached: 12 are missing here")
    for line in (3, 2, 3, 2, 3, 2, 4):
        rows.add("line", line)
    rows.add("return", call, "9")
    rows.end()
    recorded = rows.read(tmp_path)
    answer = call_answer(
        recorded, recorded.tests[NODEID], SourceFiles(recorded.rootdir), function="run"
    )
    found = [line.strip() for line in answer.text.splitlines()]
    assert "… 300,000 lines were reached: 12 are missing here" in found
    assert "2  for n in range(9):  last 3 rounds, ends" in found
    assert "round last−2:" in found
    assert any(line.startswith("round last:") for line in found)


def test_where_lines_are_missing_no_line_is_marked_as_one_that_did_not_run(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "def run():\n    for n in range(9):\n        if n == 5:\n            n = 0\n    return n\n",
        encoding="utf-8",
    )
    rows = Rows(str(tmp_path))
    rows.test()
    call = rows.begin(rows.code("run", "shop", 1, 5, file="shop.py"))
    rows.add("focus", call, 1)
    for line in (2, 3, 2, 3):
        rows.add("line", line)
    rows.add("reached", "lines", "12 are missing here")
    for line in (2, 5):
        rows.add("line", line)
    rows.add("return", call, "8")
    rows.end()
    recorded = rows.read(tmp_path)
    files = SourceFiles(recorded.rootdir)
    for max_chars in (400, 4_000):
        text = call_answer(
            recorded, recorded.tests[NODEID], files, function="run", max_chars=max_chars
        ).text
        assert not [line for line in text.splitlines() if line.startswith("-")]
        assert "not run" not in text


def test_without_the_source_the_numbers_of_lines_are_shown(tmp_path: Path) -> None:
    rows = Rows(str(tmp_path))
    rows.test()
    call = rows.begin("gone", args={"self": "<Cart>", "n": "1"})
    rows.add("focus", call, 1)
    rows.add("line", 3)
    rows.add("change", "total", "7")
    rows.add("return", call, "7")
    rows.end()
    recorded = rows.read(tmp_path)
    text = call_answer(
        recorded, recorded.tests[NODEID], SourceFiles(recorded.rootdir), function="gone"
    ).text
    assert text.startswith("gone(self=<Cart>, n=1) → 7\nshop/cart.py:1–9  call 1\n")
    assert text.splitlines()[-1] == "3    → total=7"


def test_a_function_that_was_not_called_is_said_to_be_so(tmp_path: Path) -> None:
    nodeid = f'{NODEID}["a"]'
    rows = Rows()
    rows.test(nodeid)
    rows.add("matches", 3)
    rows.end()
    recorded = rows.read(tmp_path)
    answer = call_answer(
        recorded, recorded.tests[nodeid], SourceFiles(recorded.rootdir), function="total"
    )
    assert answer.next == [proposal("test_trace", "all calls of user code", nodeid=nodeid)]
    assert "total was called 3×, and none of these is the call asked for" in answer.text
    assert answer.fields["calls"] == 3


class _Program:
    """A random function with loops, branches and exceptions."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._names = 0

    def text(self) -> str:
        body = "\n".join(self._block(1, 3))
        return f"def run():\n    a = b = 0\n{body}\n    return a\n\ndef call(n):\n    return n\n"

    def _block(self, depth: int, most: int) -> list[str]:
        return [line for _ in range(self._dice.randint(1, most)) for line in self._one(depth)]

    def _one(self, depth: int) -> list[str]:
        indent = "    " * depth
        kind = self._dice.choice(["for", "while", "if", "try", "call", "set"])
        if kind in ("set", "call") or depth > 3:
            value = f"call({self._dice.choice('ab')})" if kind == "call" else "a + 1"
            return [f"{indent}{self._dice.choice('ab')} = {value}"]
        self._names += 1
        name = f"n{self._names}"
        inner = self._block(depth + 1, 3)
        more = "    " * (depth + 1)
        if kind == "for":
            return [f"{indent}for {name} in range({self._dice.randint(0, 12)}):", *inner]
        if kind == "while":
            rounds = self._dice.randint(1, 6)
            head = [f"{indent}{name} = {rounds}", f"{indent}while {name}:", f"{more}{name} -= 1"]
            return [*head, *inner]
        if kind == "if":
            other = [f"{indent}else:", *self._block(depth + 1, 2)]
            return [f"{indent}if a % {self._dice.randint(2, 5)} == 1:", *inner, *other]
        return [
            f"{indent}try:",
            *inner,
            f'{more}raise ValueError("{name}")',
            f"{indent}except ValueError as error:",
            f"{more}b = 0",
        ]


@pytest.mark.full
@pytest.mark.quick("0-8")
@pytest.mark.parametrize(("first", "end"), [(0, 8), (8, 25)])
def test_any_call_fits_and_says_what_is_left_out(tmp_path: Path, first: int, end: int) -> None:
    for seed in range(first, end):
        check_any_call(tmp_path, seed)


def check_any_call(tmp_path: Path, seed: int) -> None:
    source = _Program(seed).text() + TEST
    recorded = recorded_run(tmp_path, source, "test_total", focus="run")
    test = recorded.tests[NODEID]
    assert test.focus is not None
    raised = {
        event[1] for line in test.focus.lines for event in line.events or () if event[0] == "raise"
    }
    ran = {line.number for line in test.focus.lines}
    files = SourceFiles(recorded.rootdir)
    for max_chars in (300, 800, 4_000, 200_000):
        answer = call_answer(recorded, test, files, function="run", max_chars=max_chars)
        assert len(answer.text) <= max_chars, seed
        last = answer.text.splitlines()[-1]
        assert answer.truncated == last.startswith("left out: "), seed
        if not answer.truncated:
            assert all(text in answer.text for text in raised), seed
            listed = {int(word) for word in answer.text.replace(";", " ").split() if word.isdigit()}
            missing = ran - listed - {3}
            tries = {n for n, line in enumerate(source.splitlines(), 1) if line.strip() == "try:"}
            assert missing <= tries, seed


@pytest.mark.full
def test_very_many_lines_are_answered_in_a_moment(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "def run(n):\n    while n:\n        n -= 1\n    return n\n", encoding="utf-8"
    )
    rows = Rows(str(tmp_path))
    rows.test()
    call = rows.begin(rows.code("run", "shop", 1, 4, file="shop.py"))
    rows.add("focus", call, 1)
    for number in range(30_000):
        rows.add("line", 2)
        rows.add("line", 3)
        rows.add("change", "n" if number != 21_000 else "odd", str(number))
    rows.add("line", 2)
    rows.add("line", 4)
    rows.add("return", call, "0")
    rows.end()
    recorded = rows.read(tmp_path)
    start = time.process_time()
    answer = call_answer(
        recorded, recorded.tests[NODEID], SourceFiles(recorded.rootdir), function="run"
    )
    assert time.process_time() - start < 1.5
    assert "round 21001: 3 odd=21000" in answer.text
