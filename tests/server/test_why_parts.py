"""The parts of `test_why` on recordings that are made up: none is there without evidence."""

from __future__ import annotations

from pathlib import Path

import pytest

from cideldill_mcp.questions.recordings.listing import SourceFiles
from cideldill_mcp.questions.recordings.ran import Remarks
from cideldill_mcp.questions.recordings.recorded import Code, Recorded, RecordedTest
from cideldill_mcp.questions.why.evidence import ON_THE_WAY, RARITY, Finding, culprits, of_tests
from cideldill_mcp.questions.why.failure_text import failure_lines
from cideldill_mcp.questions.why.order_part import brittle_part
from cideldill_mcp.questions.why.why_parts import (
    Part,
    edited_part,
    failure_part,
    only_here_part,
    path_part,
    swallowed_part,
)
from cideldill_mcp.questions.why.why_text import why_answer
from pytest_cideldill.calltraces.leaves import LeafReader
from pytest_cideldill.calltraces.value_texts import Values
from pytest_cideldill.config.limits import Limits
from pytest_cideldill.project import Project
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.display import Lens
from tests.each_case import for_each
from tests.server.recordings import NODEID, Rows

OTHER = "tests/test_shop.py::test_other"

WHOLE = Recorded(tests={NODEID: RecordedTest(NODEID)})

FAILED: dict[str, object] = {
    "type": "AssertionError",
    "message": "assert 3 == 4",
    "frames": [["tests/test_shop.py", 7, "test_total", True]],
    "locals": [],
    "op": "==",
    "left": "3",
    "right": "4",
    "leftExpression": "shop.total()",
    "rightExpression": None,
    "insides": {},
}


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    """A test that failed, and called nothing."""
    rows = Rows(str(tmp_path))
    rows.test()
    return rows


def failed(rows: Rows, **facts: object) -> None:
    rows.add("outcome", "call", "failed", "AssertionError: assert 3 == 4", "tests/test_shop.py", 7)
    rows.add("failed", "call", FAILED | facts)


def of(rows: Rows, folder: Path) -> tuple[Recorded, RecordedTest, SourceFiles]:
    recorded = rows.read(folder)
    return recorded, recorded.tests[NODEID], SourceFiles(recorded.rootdir)


def begun(rows: Rows) -> int:
    """The call of the test's function."""
    return rows.begin(rows.code("test_total", "tests.test_shop", file="tests/test_shop.py"))


def path_of(rows: Rows, folder: Path) -> Part:
    """The path of the test."""
    part = path_part(*of(rows, folder))
    assert part is not None
    return part


def test_a_test_that_called_nothing_has_its_failure_alone(rows: Rows, tmp_path: Path) -> None:
    failed(rows)
    recorded, test, files = of(rows, tmp_path)
    assert path_part(recorded, test, files) is None
    assert swallowed_part(test) is None
    assert only_here_part(test, [], files) is None
    assert edited_part(Remarks()) is None
    answer = why_answer(recorded, test, [failure_part(test, files)], files, 4_000)
    assert answer.fields == {"parts": ["failure"], "suspects": []}
    assert not answer.truncated
    assert answer.text.splitlines() == [
        f"{NODEID}  failed: AssertionError: assert 3 == 4  tests/test_shop.py:7",
        "  tests/test_shop.py:7 test_total",
        "  left: shop.total() = 3",
        "  right: 4",
    ]


def test_what_is_behind_an_exception_stands_with_it(rows: Rows, tmp_path: Path) -> None:
    behind = [
        ["cause", "KeyError", "'a'", ["shop/cart.py", 3, "Cart.price"]],
        ["context", "OSError", "", None],
        ["member", "ValueError", "7", ["shop/cart.py", 9, "total"]],
        ["member", "TypeError", "8", None],
    ]
    failed(rows, behind=behind)
    _, test, files = of(rows, tmp_path)
    assert failure_lines(test, files)[2:6] == [
        "  caused by KeyError: 'a'  shop/cart.py:3 Cart.price",
        "  while handling OSError",
        "  in the group: ValueError: 7  shop/cart.py:9 total",
        "  … 1 more exception behind it",
    ]


def test_the_item_at_which_a_generator_stopped_stands_behind_the_sides(
    rows: Rows, tmp_path: Path
) -> None:
    failed(rows, op="is true", right=None, stoppedAt={"price": "-1", "at": "1"})
    _, test, files = of(rows, tmp_path)
    assert failure_lines(test, files)[-1] == "  it stopped at price=-1, at=1"


def test_the_call_that_gave_a_side_is_the_first_suspect(rows: Rows, tmp_path: Path) -> None:
    root = begun(rows)
    rows.call("rate", root, result="3")
    outer = rows.begin("total", root)
    rows.call("price", outer, result="2")
    rows.add("return", outer, "3")
    failed(rows)
    recorded, test, files = of(rows, tmp_path)
    part = path_part(recorded, test, files)
    assert part is not None
    assert part.lines[0] == "path: 3 (left) was returned by total  shop/cart.py:1"
    answer = why_answer(recorded, test, [failure_part(test, files), part], files, 4_000)
    names = [each["function"] for each in answer.fields["suspects"]]
    assert names == ["shop.cart.total", "shop.cart.price"]


class Rates(list[int]):
    """May be equal to a list."""


ROWS = [{"id": number, "tags": ["new"]} for number in range(40)]
LINES = [f"line {number}" for number in range(50)]

APART: list[tuple[object, object, str | None]] = [
    (LINES[:17] + LINES[18:], LINES, "[17]: 'line 18' | 'line 17'"),
    ([1, 2], [1, 2, 3], "[2]: absent | 3"),
    ({"a": 1}, {"a": 1, "b": 2}, "['b']: absent | 2"),
    (([1, 2, 3], 3), ([1, 2], 2), "[0][2]: 3 | absent"),
    ({"rows": ROWS}, {"rows": ROWS[1:]}, "['rows'][0]['id']: 0 | 1"),
    ([*range(900)], [*range(700), *range(701, 900)], "[700]: 700 | 701"),
    ("\n".join(LINES), "\n".join(LINES[1:]), "[0:150]: 'line 0"),
    (bytes(300) + b"a", bytes(300) + b"bc", "[300:450]: b'a' | b'bc'"),
    ({1, 2}, {1, 2, 3}, "{3}: absent | in it"),
    ([], [1, 2], None),
    ((1, 2), [1, 3], None),
    (Rates([1, 2]), [1, 3], "[1]: 2 | 3"),
    (Rates([1, 2]), [1, 2, 3], None),
]
"""Both sides, and where they differ first; None: it is plain to see."""


@for_each(("left", "right", "first"), APART)
def test_it_is_named_where_sides_of_any_size_differ_first(
    tmp_path: Path, left: object, right: object, first: str | None
) -> None:
    reader = LeafReader(Values(Lens(Project("."), Redactor(environ={}), Limits())))
    insides = {"left": reader.leaves("", left), "right": reader.leaves("", right)}
    rows = Rows(str(tmp_path))
    rows.test()
    failed(rows, left=repr(left), right=repr(right), insides=insides)
    _, test, files = of(rows, tmp_path)
    found = [line for line in failure_part(test, files).lines if "differ" in line]
    if first is None:
        assert found == []
    else:
        (line,) = found
        assert line.startswith(f"  they differ first at {first}")


def test_a_function_that_calls_itself_has_each_reason_once(rows: Rows, tmp_path: Path) -> None:
    walk = rows.code("walk", kind="generator")
    outer = rows.begin(walk, rows.begin(rows.code("test_total", "tests.test_shop")))
    inner = rows.begin(walk, outer)
    rows.call(walk, inner)
    for call in (inner, outer):
        rows.add("yield", call, "3")
        rows.add("return", call, "None")
    insides = {"left": {"[1]": "3"}, "right": {"[1]": "4"}}
    failed(rows, left="[1, 3]", right="[1, 4]", leftExpression="list(tree)", insides=insides)
    recorded, test, files = of(rows, tmp_path)
    part = path_part(recorded, test, files)
    assert part is not None
    assert part.lines[0] == "path: 3 (left at [1]) was yielded by walk call 2  shop/cart.py:1"
    (suspect,) = why_answer(recorded, test, [part], files, 4_000).fields["suspects"]
    assert suspect["reason"] == "gave left at [1]: 3"


def test_an_assertion_of_the_program_speaks_for_its_function(rows: Rows, tmp_path: Path) -> None:
    text = "AssertionError: not enough"
    root = begun(rows)
    rows.call("made", root, result="100")
    outer = rows.begin("pay", root)
    rows.call("check", outer, error=text)
    rows.add("unwind", outer, text)
    rows.add("unwind", root, text)
    failed(rows, op="<=", left="120", right="100", leftExpression="n", rightExpression="made()")
    recorded, test, files = of(rows, tmp_path)
    part = path_part(recorded, test, files)
    assert part is not None
    suspects = why_answer(recorded, test, [part], files, 4_000).fields["suspects"]
    reasons = {each["function"]: each["reason"] for each in suspects}
    assert reasons == {
        "shop.cart.made": "gave right: 100",
        "shop.cart.check": "its assertion failed",
        "shop.cart.pay": "on the path to the assertion of check",
    }


@pytest.mark.parametrize("is_returned", [False, True], ids=["made", "returned_before"])
def test_what_a_constructor_is_given_was_made_by_the_function_that_calls_it(
    rows: Rows, tmp_path: Path, is_returned: bool
) -> None:
    root = begun(rows)
    if is_returned:
        rows.call("priced", root, result="77")
    outer = rows.begin("total", root)
    inner = rows.begin("Money.__init__", outer, args={"self": "Money()", "cents": "77"})
    rows.add("leaves", "d1", [["self.cents", "77"]])
    rows.add("state", inner, "end", [["self", "d1"]])
    rows.add("return", inner, "None")
    rows.add("return", outer, "Money(cents=77)")
    insides = {"left": [["", "Money"], [".cents", "77"]], "right": [["", "Money"], [".cents", "8"]]}
    failed(rows, left="Money(cents=77)", right="Money(cents=8)", insides=insides)
    part = path_of(rows, tmp_path)
    by = "returned by priced" if is_returned else "left by total"
    assert part.lines[0] == f"path: 77 (left at .cents) was {by}  shop/cart.py:1"
    assert part.evidence[0].reason == "gave left at .cents: 77"


def test_what_a_generator_yielded_is_said_where_it_was_changed_further(
    rows: Rows, tmp_path: Path
) -> None:
    root = begun(rows)
    prices = rows.begin(rows.code("prices", kind="generator"), root)
    for price in (10, 20, 30, 40, 50):
        rows.add("yield", prices, str(price))
    rows.add("return", prices, "None")
    failed(rows, left="150", right="4", leftExpression="sum(prices())")
    part = path_of(rows, tmp_path)
    assert part.lines[0] == "path: 10, 20, 30, 40, … (for left) came from prices  shop/cart.py:1"


def test_a_value_that_many_calls_give_says_nothing(rows: Rows, tmp_path: Path) -> None:
    root = begun(rows)
    outer = rows.begin("total", root)
    rows.call("price", outer, result="True")
    rows.add("return", outer, "None")
    failed(rows, op="is true", left="True", right=None, leftExpression="flag")
    part = path_of(rows, tmp_path)
    assert part.lines[0] == "path:"
    assert all("gave" not in each.reason for each in part.evidence)


def test_without_a_value_to_follow_only_one_call_is_the_last(rows: Rows, tmp_path: Path) -> None:
    root = begun(rows)
    rows.call("price", root, result="2")
    rows.call("rate", root, result="5")
    rows.call("rate", root, result="6")
    failed(rows)
    part = path_of(rows, tmp_path)
    assert [(each.code.name, each.reason) for each in part.evidence if each.kind == "path"] == [
        ("rate", "called last by the test"),
        ("price", "called by the test"),
    ]


@pytest.mark.parametrize(
    ("type", "message", "lack"),
    [
        ("Failed", "DID NOT RAISE ValueError", "raised nothing"),
        ("AssertionError", "ValueError not raised by sell", "raised nothing"),
        ("Failed", "DID NOT WARN. No warnings of type …", "gave no such warning"),
        ("Failed", "Regex pattern did not match any of the 1 warnings", "gave no such warning"),
        ("AssertionError", "UserWarning not triggered", "gave no such warning"),
    ],
)
def test_the_call_that_should_have_raised_or_warned_speaks_most(
    rows: Rows, tmp_path: Path, type: str, message: str, lack: str
) -> None:
    set_up = rows.begin(rows.code("TestIt.setUp", "tests.test_shop", file="tests/test_shop.py"))
    rows.call("made", set_up)
    rows.add("return", set_up, "None")
    root = begun(rows)
    rows.call("price", root, result="2")
    rows.call("sell", root)
    rows.add("unwind", root, f"{type}: {message}")
    failed(rows, type=type, message=message, op=None, left=None, right=None)
    part = path_of(rows, tmp_path)
    first, second = (each for each in part.evidence if each.kind == "path")
    assert (first.code.name, second.code.name) == ("sell", "price")
    assert first.reason == f"called last by the test, and {lack}"
    assert first.weight > 2 * second.weight


def test_what_gave_an_argument_of_a_call_on_the_path_is_a_suspect(
    rows: Rows, tmp_path: Path
) -> None:
    """Each call from the test to the origin may have got what was wrong already."""
    root = begun(rows)
    rows.call("parsed", root, result="Tree(3)")
    rows.call("unused", root, result="Tree(4)")
    outer = rows.begin("evaluated", root, args={"tree": "Tree(3)"})
    inner = rows.begin("added", outer, args={"left": "1", "right": "20"})
    rows.add("return", inner, "77")
    rows.add("return", outer, "77")
    failed(rows, left="77", right="4", leftExpression="calc()")
    recorded, test, files = of(rows, tmp_path)
    part = path_part(recorded, test, files)
    assert part is not None
    suspects = why_answer(recorded, test, [part], files, 4_000).fields["suspects"]
    assert [each["function"] for each in suspects] == [
        "shop.cart.added",
        "shop.cart.parsed",
        "shop.cart.evaluated",
    ]
    assert suspects[1]["reason"] == "gave an argument of evaluated"


def test_tasks_that_ran_while_a_call_waited_gave_what_went_into_it(
    rows: Rows, tmp_path: Path
) -> None:
    root = begun(rows)
    before = rows.begin("elsewhere")
    rows.add("return", before, "5")
    outer = rows.begin(rows.code("total", kind="coroutine"), root)
    task = rows.begin(rows.code("fetch", kind="coroutine"))
    sibling = rows.begin(rows.code("sent", kind="coroutine"), root)
    thread = rows.begin("worked", thread="Thread-1")
    rows.add("return", rows.begin("inside", thread), "5")
    rows.add("return", thread, "6")
    rows.add("unwind", sibling, "KeyError: 'a'")
    rows.add("return", task, "7")
    rows.add("return", outer, "77")
    failed(rows, left="77", right="4", leftExpression="total()")
    part = path_of(rows, tmp_path)
    reasons = {each.code.name: each.reason for each in part.evidence if "total" in each.reason}
    assert reasons == {
        "fetch": "its result went into total",
        "worked": "its result went into total",
        "sent": "raised KeyError while total ran",
    }


def test_the_argument_that_a_mock_was_not_to_get_is_followed(rows: Rows, tmp_path: Path) -> None:
    rows.call("fill", begun(rows), result="'kim'")
    message = "expected call not found.\nExpected: send('a', 'Kim')\n  Actual: send('a', 'kim')"
    failed(rows, op="", message=message, locals=[["mock", "<Mock>"]])
    recorded, test, files = of(rows, tmp_path)
    assert failure_lines(test, files)[-1] == "  argument 2 was 'kim', expected 'Kim'"
    part = path_part(recorded, test, files)
    assert part is not None
    assert part.lines[0] == "path: 'kim' (argument 2) was returned by fill  shop/cart.py:1"


@for_each(
    ("message", "suspects"),
    [
        ("Regex pattern did not match.\n  Expected regex: 'b'", ["parsed", "load"]),
        ('"b" does not match "a"', ["parsed", "load"]),
        ("something else", ["later", "load"]),
    ],
)
def test_an_exception_with_another_text_is_followed_to_where_it_was_raised(
    message: str, suspects: list[str], tmp_path: Path
) -> None:
    rows = Rows(str(tmp_path))
    rows.test()
    root = begun(rows)
    load = rows.begin("load", root)
    rows.call("parsed", load, error="ValueError: a")
    rows.add("unwind", load, "ValueError: a")
    rows.call("later", root, result="'a'")
    shown = rows.begin("Own.__str__", root, via="_pytest._code")
    rows.add("return", shown, "'a'")
    failed(rows, op="", message=message, left="", right="")
    recorded, test, files = of(rows, tmp_path)
    part = path_part(recorded, test, files)
    assert part is not None
    ranked = culprits(part.evidence, of_tests(recorded))
    assert [each.code.name for each in ranked[:2]] == suspects


def test_of_nested_calls_the_outer_one_gave_what_was_changed_further(
    rows: Rows, tmp_path: Path
) -> None:
    root = begun(rows)
    rows.call("loaded", root, result="[3, 1]")
    rows.call("ordered", root, result="[1, 3]")
    expression = "[each + 1 for each in ordered(loaded())]"
    failed(rows, left="[2, 4]", right="[4, 2]", leftExpression=expression)
    part = path_of(rows, tmp_path)
    assert part.lines[0] == "path: [1, 3] (for left) was returned by ordered  shop/cart.py:1"


@for_each(
    ("statement", "origin"),
    [
        ("self.bus.emit(2)", "Board.score"),
        ("await self.bus.emit(2)", "Board.score"),
        ("n = self.bus.emit(2)", "Bus.emit"),
        ("n = self.bus.on(self.bus.emit(2))", "Bus.emit"),
        ("self.bus.on(self.bus.emit(2))", "Bus.emit"),
        ("[self.bus.emit(2)]", "Bus.emit"),
    ],
)
def test_a_result_that_the_caller_drops_gave_nothing(
    statement: str, origin: str, tmp_path: Path
) -> None:
    (tmp_path / "board.py").write_text(f"async def score(self):\n    {statement}\n", "utf-8")
    rows = Rows(str(tmp_path))
    rows.test()
    outer = rows.begin(rows.code("Board.score", file="board.py", last=2), begun(rows), 7)
    rows.call("Bus.emit", outer, 2, result="7")
    rows.add("return", outer, "7")
    failed(rows, left="7", right="8", leftExpression="board.score()")
    part = path_of(rows, tmp_path)
    assert part.lines[0].startswith(f"path: 7 (left) was returned by {origin}  ")


def test_the_side_that_names_a_function_of_the_program_is_followed_first(
    rows: Rows, tmp_path: Path
) -> None:
    """`settle()["total"] == D("100")`: a call that gave 100 has nothing to do with it."""
    root = begun(rows)
    rows.call("convert", root, result="Decimal('100')")
    settle = rows.begin("settle", root)
    rows.add("leaves", "d1", [["return", "dict of 1"], ["return['total']", "Decimal('99')"]])
    rows.add("state", settle, "end", [["return", "d1"]])
    rows.add("return", settle, "{'total': Decimal('99')}")
    failed(
        rows,
        left="Decimal('99')",
        right="Decimal('100')",
        leftExpression="settle()['total']",
        rightExpression="D('100')",
    )
    part = path_of(rows, tmp_path)
    assert part.lines[0] == (
        "path: Decimal('99') (left at ['total']) was left by settle  shop/cart.py:1"
    )


def test_what_made_a_value_is_looked_for_inside_of_the_call_that_left_it(
    rows: Rows, tmp_path: Path
) -> None:
    """`Settings(text)` left it in `.data`; `unescape`, called in it, had returned it first."""
    root = begun(rows)
    init = rows.begin("Settings.__init__", root)
    value = rows.begin("value", init)
    rows.call("unescape", value, result="'c:new'")
    rows.add("return", value, "'c:new'")
    rows.add("leaves", "d1", [["self", "Settings"], ["self.data['path']", "'c:new'"]])
    rows.add("state", init, "end", [["self", "d1"]])
    rows.add("return", init, "None")
    get = rows.begin("Settings.get", root, args={"name": "'path'"})
    rows.add("state", get, "begin", [["self", "d1"]])
    rows.add("return", get, "'c:new'")
    failed(rows, left="'c:new'", right="'c:\\\\new'", leftExpression="settings.get('path')")
    assert path_of(rows, tmp_path).lines[:2] == [
        "path: 'c:new' (left) was returned by Settings.get  shop/cart.py:1",
        "  before, it was returned by unescape  shop/cart.py:1",
    ]


@for_each(
    ("args", "maker"),
    [({"name": "'rect'"}, "Rect.scaled"), ({"name": "'other'"}, "Rect.__init__")],
)
def test_what_a_value_was_before_it_got_into_a_result_was_made_by_whom_it_came_from(
    args: dict[str, str], maker: str, tmp_path: Path
) -> None:
    """A constructor that was given it has only stored it."""
    rows = Rows(str(tmp_path))
    rows.test()
    root = begun(rows)
    scaled = rows.begin("Rect.scaled", root)
    init = rows.begin("Rect.__init__", scaled, args=args)
    rows.add("leaves", "d1", [["self", "Rect"], ["self.name", "'rect'"]])
    rows.add("state", init, "end", [["self", "d1"]])
    rows.add("return", init, "None")
    rows.add("return", scaled, "Rect()")
    shown = rows.begin("Rect.to_dict", root)
    rows.add("leaves", "d2", [["return", "dict of 1"], ["return['name']", "'rect'"]])
    rows.add("state", shown, "begin", [["self", "d1"]])
    rows.add("state", shown, "end", [["return", "d2"]])
    rows.add("return", shown, "{1 item}")
    insides = {"left": {"['name']": "'rect'"}, "right": {"['name']": "'square'"}}
    expressions = {"leftExpression": "shape.to_dict()", "rightExpression": None}
    failed(rows, left="{1 item}", right="{1 item}", insides=insides, **expressions)
    assert path_of(rows, tmp_path).lines[:2] == [
        "path: 'rect' (left at ['name']) was left by Rect.to_dict  shop/cart.py:1",
        f"  before, it was left at .name by {maker}  shop/cart.py:1",
    ]


def test_a_fixture_that_goes_on_in_the_teardown_is_shown_whole(rows: Rows, tmp_path: Path) -> None:
    fixture = rows.begin(rows.code("db", "tests.test_shop", kind="generator"))
    rows.call("connect", fixture)
    rows.add("yield", fixture, "DB()")
    rows.add("phase", "teardown")
    rows.add("resume", fixture, "")
    rows.call("price", fixture, result="3")
    rows.add("unwind", fixture, "AssertionError: assert 3 == 4")
    rows.add("outcome", "teardown", "failed", "AssertionError: assert 3 == 4", "a.py", 7)
    rows.add("failed", "teardown", FAILED)
    part = path_of(rows, tmp_path)
    assert part.lines[0] == "path: 3 (left) was returned by price  shop/cart.py:1"
    assert [line.split("(")[0].strip() for line in part.lines[1:]] == ["db", "connect", "price"]


def test_the_order_matters_only_where_the_test_passes_behind_others(tmp_path: Path) -> None:
    alone = RecordedTest(NODEID)
    for outcome, is_there in (("passed", True), ("failed", False)):
        behind = Rows()
        behind.test(OTHER)
        behind.add("outcome", "call", "passed", None, None, None)
        behind.test()
        behind.add("outcome", "call", outcome, "no", None, None)
        tests = list(behind.read(tmp_path).tests.values())
        part = brittle_part(alone, tests)
        assert (part is not None) == is_there
        assert brittle_part(alone, tests[1:]) is None, "nothing ran before it"
        assert brittle_part(alone, tests[:1]) is None, "it did not run"


def code(name: str, file: str = "shop/cart.py") -> Code:
    return Code(1, "shop.cart", name, file, 1, 9, "function")


def test_more_evidence_of_one_kind_counts_less_than_evidence_of_another() -> None:
    total, rate, helper = code("total"), code("rate"), code("helper", "tests/test_shop.py")
    found = [Finding(total, "path", 1.0, f"reason {n}") for n in range(4)]
    found += [Finding(rate, "path", 1.0, "a"), Finding(rate, "edited", 0.9, "b", 4)]
    found += [Finding(helper, "path", 9.0, "of a test")]
    ranked = culprits(found, of_tests(WHOLE))
    assert [each.code.name for each in ranked] == ["rate", "total"]
    assert (ranked[0].reason, ranked[0].lines()) == ("a; b", [4])


def test_what_passing_tests_ran_as_well_is_suspected_less() -> None:
    origin, inner, other = code("total"), code("rate"), code("other")
    found = [Finding(origin, "path", 1.8, "gave left"), Finding(inner, "path", 0.9, "went in")]
    assert [each.code.name for each in culprits(found, of_tests(WHOLE))] == ["total", "rate"]
    found += [Finding(origin, RARITY, 0.0, ""), Finding(inner, RARITY, 1.0, "ran only here")]
    found += [Finding(other, RARITY, 0.5, "ran in 1 of 2 passing neighbours")]
    ranked = culprits(found, of_tests(WHOLE))
    assert [(each.code.name, each.reason) for each in ranked] == [
        ("rate", "ran only here; went in"),
        ("other", "ran in 1 of 2 passing neighbours"),
        ("total", "gave left"),
    ]
    assert culprits([Finding(other, RARITY, 0.2, "")], of_tests(WHOLE))[0].reason == ON_THE_WAY


@for_each(
    ("lines", "weight", "reason"),
    [
        ([[1, 2, 3]], 1.0, "line 4 ran only here"),
        ([[1, 2, 3, 4]], 0.0, ""),
        ([], None, ""),
        ([[]], 1.0, "ran only here"),
        ([[1, 2, 3, 4], [], []], 0.44, "ran in 1 of 3 passing neighbours"),
        ([[1, 2, 3, 4], [1, 3, 4], [1, 3]], 0.44, "line 2 ran in 1 of 3 passing neighbours"),
        ([[1, 2, 3, 4]] * 2 + [[1, 2, 3]], 0.11, ""),
    ],
)
def test_a_function_is_as_rare_as_the_line_that_fewest_ran(
    lines: list[list[int]], weight: float | None, reason: str, tmp_path: Path
) -> None:
    """`lines`: those that each passing neighbour ran of it."""
    rows = Rows(str(tmp_path))
    rows.test()
    total = rows.code("total")
    rows.add("ran", total, [1, 2, 3, 4])
    rows.end("failed", "AssertionError", 7)
    for at, there in enumerate(lines):
        rows.test(f"{OTHER}_{at}")
        if there:
            rows.add("ran", total, there)
        rows.end()
    recorded, test, files = of(rows, tmp_path)
    part = only_here_part(test, list(recorded.tests.values()), files)
    evidence = [] if part is None else part.evidence
    rarity = [(round(each.weight, 2), each.reason) for each in evidence if each.kind == RARITY]
    assert rarity == ([] if weight is None else [(weight, reason)])


def test_lines_are_proposed_only_of_functions_that_the_test_ran(rows: Rows, tmp_path: Path) -> None:
    """What a test before it ran may be the fault, but has no call in it."""
    rows.call("total", begun(rows), result="3")
    failed(rows)
    recorded, test, files = of(rows, tmp_path)
    evidence = [Finding(code("leak"), "order", 3.0, "a"), Finding(code("total"), "path", 1.0, "b")]
    answer = why_answer(recorded, test, [Part("order", ["order"], evidence)], files, 4_000)
    assert [each["function"] for each in answer.fields["suspects"]] == [
        "shop.cart.leak",
        "shop.cart.total",
    ]
    traced = [each for each in answer.next if "each line" in each]
    assert ["leak" in each for each in traced] == [False]


def test_functions_of_test_files_are_named_if_there_are_no_others() -> None:
    helper = code("helper", "tests/test_shop.py")
    found = [Finding(helper, "path", 1.0, "of a test")]
    assert [each.code for each in culprits(found, of_tests(WHOLE))] == [helper]
    assert culprits([], of_tests(WHOLE)) == []


def test_a_part_that_has_no_room_says_how_much_is_missing() -> None:
    part = Part("path", [f"line {n}" for n in range(100)])
    text = part.text(200)
    assert len(text) <= 200
    assert text.endswith("more")
    assert part.text(10_000).count("\n") == 99
