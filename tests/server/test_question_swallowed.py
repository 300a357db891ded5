"""The part *swallowed* of `test_why` on recordings that are made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cideldill_mcp.questions.recordings.recorded import RecordedTest
from cideldill_mcp.questions.why.swallowed import ranked, swallowed, swallowers
from tests.server.recordings import NODEID, Rows


def caught(rows: Rows, text: str, last: int, **more: Any) -> None:
    """A row: raised in `price`, caught in `Cart.total`."""
    price, total = rows.code("price"), rows.code("Cart.total")
    how = ["except", more.get("silent", True)]
    rows.add(
        *("caught", text, more.get("origin", ""), [price, 4, more.get("raiser", "")]),
        more.get("place", [total, 7, "", *how]),
        *(more.get("count", 1), last, [0, 0]),
        [[price, 4]] * more.get("unwound", 1),
        more.get("more", 0),
        [["self.n", "3", price, lines] for lines in more.get("left", [])],
    )


def lines_of(rows: Rows, folder: Path, most: int = 9) -> list[str]:
    return swallowed(_test(rows, folder), most)


def _test(rows: Rows, folder: Path) -> RecordedTest:
    return rows.read(folder).tests[NODEID]


def test_silent_ones_that_left_functions_are_first_and_the_last_of_them(tmp_path: Path) -> None:
    rows = Rows()
    rows.test()
    caught(rows, "KeyError: 'early'", 1)
    caught(rows, "a.b.Own: late", 2)
    caught(rows, "OSError: logged", 3, silent=False)
    caught(rows, "ValueError: here", 4, unwound=0)
    caught(rows, "TypeError: half", 5, silent=False, left=[[3]])
    rows.end("failed", "AssertionError", 9)
    kinds = [line.partition(":")[0] for line in lines_of(rows, tmp_path) if line[0] != " "]
    assert kinds == ["TypeError", "Own", "KeyError", "OSError", "ValueError"]
    assert lines_of(rows, tmp_path, 2)[-1] == (
        "… caught at 3 more places: KeyError, OSError, ValueError"
    )
    assert lines_of(rows, tmp_path, 4)[-1] == "… caught at 1 more place: ValueError"


def test_what_is_caught_after_the_failure_is_no_reason_for_it(tmp_path: Path) -> None:
    rows = Rows()
    rows.test()
    rows.add("outcome", "call", "failed", "AssertionError", "tests/test_shop.py", 9)
    rows.add("phase", "teardown")
    caught(rows, "KeyError: 'x'", 1)
    rows.add("outcome", "teardown", "passed", None, None, None)
    assert lines_of(rows, tmp_path) == []
    assert not swallowers(_test(rows, tmp_path), 3)


def test_nothing_is_said_where_nothing_was_caught(tmp_path: Path) -> None:
    rows = Rows()
    rows.test()
    rows.end("failed", "AssertionError", 9)
    assert lines_of(rows, tmp_path) == []


def test_a_line_says_where_it_was_raised_and_caught_and_how_often(tmp_path: Path) -> None:
    rows = Rows()
    rows.test()
    total = rows.code("Cart.total")
    caught(rows, "shop.Own: x", 9, count=1_234, origin="KeyError: 'mug'", raiser="json.loads")
    caught(rows, "A", 8, place=[total, 7, "", "with", True], left=[[3, 5], [6]], unwound=12, more=4)
    caught(rows, "B: y", 7, place=[total, 7, "flask.run", "except", True])
    caught(rows, "C: y", 6, place=[total, 7, "flask.run", "", False], silent=False)
    caught(rows, "D: y", 5, place=[total, 7, "", "", False])
    caught(rows, "E: y", 4, place=[0, 0, "threading.run", "except", False])
    caught(rows, "F: y", 3, place=[0, 0, "threading.run", "", False])
    rows.end("failed", "AssertionError", 9)
    at = "raised shop/cart.py:4 price, caught"
    assert lines_of(rows, tmp_path) == [
        "Own: x, from KeyError: 'mug'  raised shop/cart.py:4 price in json.loads, caught"
        " shop/cart.py:7 Cart.total  ×1,234",
        "  unwound: price",
        f"A  {at} shop/cart.py:7 Cart.total (with)",
        "  unwound: price ×12 ← … 4 more",
        "  left behind: self.n=3 (shop/cart.py:3/5), self.n=3 (shop/cart.py:6)",
        f"B: y  {at} in flask.run, called at shop/cart.py:7 Cart.total",
        "  unwound: price",
        f"C: y  {at} inside flask.run, called at shop/cart.py:7 Cart.total",
        f"D: y  {at} in C code, called at shop/cart.py:7 Cart.total",
        f"E: y  {at} in threading.run",
        "  unwound: price",
        f"F: y  {at} by what runs threading.run",
    ]


def test_functions_that_have_to_do_with_it_are_data(tmp_path: Path) -> None:
    rows = Rows()
    rows.test()
    caught(rows, "shop.Own: x", 1, left=[[3]])
    rows.end("failed", "AssertionError", 9)
    test = _test(rows, tmp_path)
    assert [(each.code.name, each.reason) for each in swallowers(test, 3)] == [
        ("Cart.total", "swallows Own"),
        ("price", "Own leaves self.n half done"),
        ("price", "raises Own, which is swallowed"),
    ]
    assert ranked(test)[0].left[0].lines == (3,)


def test_rows_with_unknown_codes_are_skipped(tmp_path: Path) -> None:
    rows = Rows()
    rows.test()
    rows.add("caught", "A", "", [77, 1, ""], [78, 1, "", "", False], 1, 1, [0, 0], [], 0, [])
    rows.add("caught", "A")
    rows.end()
    assert lines_of(rows, tmp_path) == []


def test_a_mistake_that_left_its_function_tells_of_that_function(tmp_path: Path) -> None:
    rows = Rows()
    rows.test()
    caught(rows, "AttributeError: no 'tracking'", 1)
    caught(rows, "KeyError: 'a'", 2)
    caught(rows, "NameError: here", 3, unwound=0)
    rows.end("failed", "AssertionError", 9)
    strong = [each for each in swallowers(_test(rows, tmp_path), 3) if each.is_strong]
    assert [(each.code.name, each.reason) for each in strong] == [
        ("price", "raises AttributeError, which is swallowed")
    ]


def test_what_was_left_half_done_tells_of_all_who_had_to_do_with_it(tmp_path: Path) -> None:
    rows = Rows()
    rows.test()
    caught(rows, "KeyError: 'a'", 1, left=[[3]])
    rows.end("failed", "AssertionError", 9)
    found = swallowers(_test(rows, tmp_path), 3)
    assert len(found) == 3
    assert all(each.is_strong for each in found)
