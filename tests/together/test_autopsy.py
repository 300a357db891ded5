"""What a failed test is explained by: `exception_get_context`, paused and afterwards."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.together.driver import ToolError, only_stop
from tests.together.opened import opened
from tests.together.workbench import Bench, workbench

SHOP = """
    class Cart:
        def __init__(self, *prices):
            self.prices = list(prices)

        def total(self, rate=1):
            return sum(self.prices) * rate

    class Book:
        def __init__(self, title):
            self.title, self.tags = title, ["new", "used"]

    class Owner:
        def __init__(self):
            self.name, self.password = "Ann", "hunter2-hunter2"

    class Shelf:
        def __init__(self, count):
            self.books = [Book(f"book {n}") for n in range(count)]
            self.owner, self.full = Owner(), False

    def shelf(count): return Shelf(count)

    def check(left, right):
        bound = 3
        assert left == right, "not the same"

    def load(name):
        try:
            return {}[name]
        except KeyError as error:
            failed = ValueError(f"no price of {name}")
            failed.add_note("prices are loaded at night")
            raise failed from error
"""

PLAIN = """
    class Account:
        limit = 100

        def __init__(self):
            self.owners, self.balances = ["Ann"], {"EUR": 30}

        @property
        def balance(self): raise RuntimeError("code of the program")

        def check_balance(self): assert self.balances["EUR"] >= self.limit
        def check_owners(self): assert len(self.owners) == 2
        def check_kind(self): assert self.owners[0] in ("Bob", "Cid")
        def check_code(self, amount): assert amount.real is self.balance_of(3)
        def balance_of(self, n): return n
"""
"""A module of which pytest doesn't rewrite assertions (it would that of a name that we ship)."""

TESTS = '''
    import unittest
    import pytest
    from accounts_of_somebody import Account
    from shop import Cart, check, load, shelf

    @pytest.fixture(scope="module")
    def rate(): return 2

    @pytest.fixture
    def cart(rate): return Cart(3, 4)

    @pytest.fixture
    def broken(cart): raise LookupError("no stock")

    @pytest.fixture
    def leaving():
        yield 1
        assert [1] == [2]

    @pytest.mark.parametrize("want", [7, 8, 9])
    def test_compared(cart, want):
        unused = 1
        print("counting")
        assert cart.total() == want

    def test_chain(): assert 1 < 5 < 4
    def test_member(): assert "x" in ["a", "b"]
    def test_near(): assert 1.5 == pytest.approx(2.5)
    def test_truth(cart): assert not cart.total(2)
    def test_inside(cart): assert cart and cart.total() == 0
    def test_lines(cart):
        assert cart.total(
            2
        ) == 5
    def test_call(cart): assert isinstance(cart, int)
    def test_helper(): check([1], [2])
    def test_plain_items(): Account().check_balance()
    def test_plain_length(): Account().check_owners()
    def test_plain_literal(): Account().check_kind()
    def test_plain_code(): Account().check_code(3.5)
    def test_said(): assert 1 == 2, "said"
    def test_secret():
        password = "hunter2-hunter2"
        assert password == "other"
    def test_cause(): load("desk")
    def test_group():
        raise ExceptionGroup("both", [KeyError("a"), OSError("b")])
    def test_opened(cart):
        other, few = shelf(3), shelf(2)
        by_title = {each.title: each for each in shelf(20).books}
        assert len(few.books) == len(by_title)
    def test_opened_operands(): assert shelf(1).books == [shelf(2).books]
    def test_setup(broken): pass
    def test_teardown(leaving): pass
    def test_twice(leaving): assert [leaving, 2] == 3
    def test_before(leaving, broken): pass
    def test_fine(): pass
    def test_subtests(subtests):
        with subtests.test("the first", token="hunter2-hunter2"): assert 0

    @pytest.fixture
    def two(cart):
        yield
        raise KeyError("two")
    @pytest.fixture
    def three(two):
        yield
        raise KeyError("three")
    def test_two_teardowns(three): pass
    def test_unknown_fixture(nowhere): pass
    def test_other_unknown_fixture(nowhere_either): pass
    def test_same_unknown_fixture(nowhere): pass
    def test_suppressed():
        try: load("chair")
        except ValueError: raise LookupError("chair") from None

    def documented(n):
        """
        >>> documented(1)
        2
        >>> documented(0)
        """
        return 1 // n

    def documented_too():
        """
        >>> documented(0)
        """

    class TestOld(unittest.TestCase):
        def test_equal(self): self.assertEqual([1], [2])
        def test_in(self): self.assertIn(3, [1, 2])
        def test_true(self): self.assertTrue([])
        def test_kind(self): self.assertIsInstance(3, str)
        def test_parts(self):
            for n in range(7):
                with self.subTest(n=n): self.assertEqual(n, 6)
        def test_opened(self): self.assertEqual(shelf(1).books, [])
'''


@pytest.fixture(scope="module", params=["live", pytest.param("record", marks=pytest.mark.full)])
def over(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """A bench whose run of all these tests is over, nothing paused; or its record, opened."""
    root, record = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("record")
    patient = ("-o", "cideldill_capture_ms=2000")  # values are told in full on a busy machine too
    with workbench(root, *patient, f"--cideldill-record={record}") as bench:
        bench.write(shop=SHOP, accounts_of_somebody=PLAIN, test_shop=TESTS)
        reply = bench.run(pause_on="never", args=["--doctest-modules"])
        assert (reply["state"], reply["outcomes"]["passed"]) == ("finished", 5)
        if request.param == "live":
            yield bench
            return
    with opened(root, record) as bench:
        yield bench


def explained(bench: Bench, test: str, **options: Any) -> dict[str, Any]:
    return bench.agent.call("exception_get_context", nodeid=f"test_shop.py::{test}", **options)


def line_of(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


def children(entry: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in entry.get("children", ())}


def operands(reported: dict[str, Any]) -> tuple[Any, ...]:
    assertion = reported["assertion"]
    return tuple(assertion[name] for name in ("left", "op", "right"))


@pytest.mark.full
@pytest.mark.parametrize(
    ("test", "compared", "expressions"),
    [
        ("test_compared[8]", ("7", "==", "8"), ("cart.total()", "want")),
        ("test_chain", ("5", "<", "4"), (None, None)),
        ("test_member", ("'x'", "in", "['a', 'b']"), ("'x'", "['a', 'b']")),
        ("test_truth", ("False", "is true", None), ("not cart.total(2)", None)),
        ("test_inside", ("7", "==", "0"), (None, None)),
        ("test_lines", ("14", "==", "5"), ("cart.total(2)", "5")),
        ("test_call", ("False", "is true", None), ("isinstance(cart, int)", None)),
        ("test_helper", ("[1]", "==", "[2]"), ("left", "right")),
        # Not rewritten by pytest: what data alone tells.
        ("test_plain_items", ("30", ">=", "100"), ("self.balances['EUR']", "self.limit")),
        ("test_plain_length", ("1", "==", "2"), ("len(self.owners)", "2")),
        (
            "test_plain_literal",
            ("'Ann'", "in", "('Bob', 'Cid')"),
            ("self.owners[0]", "('Bob', 'Cid')"),
        ),
        ("test_plain_code", (None, "is", None), ("amount.real", "self.balance_of(3)")),
        ("test_said", ("1", "==", "2"), ("1", "2")),
        ("test_teardown", ("[1]", "==", "[2]"), ("[1]", "[2]")),
        ("TestOld::test_equal", ("[1]", "==", "[2]"), (None, None)),
        ("TestOld::test_in", ("3", "in", "[1, 2]"), (None, None)),
        ("TestOld::test_true", ("[]", "is true", None), (None, None)),
        ("TestOld::test_kind", ("3", "assertIsInstance", "<class 'str'>"), (None, None)),
    ],
)
def test_the_operands_of_an_assertion_are_data(
    over: Bench, test: str, compared: tuple[Any, ...], expressions: tuple[Any, Any]
) -> None:
    """`assertion`: left, op, right, and how pytest explains it."""
    reported = explained(over, test)
    assert operands(reported) == compared
    sides = (
        reported["assertion"].get("leftExpression"),
        reported["assertion"].get("rightExpression"),
    )
    assert sides == expressions
    assert reported["assertion"]["explanation"]
    assert "\n" not in reported["exception"]["message"]


@pytest.mark.full
def test_parts_of_an_assertion_have_values(over: Bench) -> None:
    """Beyond the operands; what is called is not one."""
    assert explained(over, "test_truth")["assertion"]["values"] == {"cart.total(2)": "14"}
    near = operands(explained(over, "test_near"))
    assert near[:2] == ("1.5", "==")
    assert "2.5" in near[2]


@pytest.mark.full
def test_what_matters_most_is_opened_by_one_level(over: Bench) -> None:
    """What the failing line uses, and arguments; where the value did not tell it."""
    reported = explained(over, "test_opened")
    (frame,) = reported["frames"]
    held = {each["name"]: each for each in frame["arguments"] + frame["variables"]["locals"]}
    assert list(held) == ["cart", "few", "by_title", "other"]
    (secret,) = re.findall("<redacted:password#.*?>", children(held["few"])[".owner"])
    assert children(held["few"]) == {
        ".books": "[Book(title='book 0', tags=[2 items]), Book(title='book 1', tags=[2 items])]",
        ".owner": f"Owner(name='Ann', password={secret})",
        ".full": "False",
    }
    assert [each["type"] for each in held["few"]["children"]] == ["list", "shop.Owner", "bool"]
    assert "hunter2" not in str(reported)
    first = dict([next(iter(children(held["by_title"]).items()))])
    assert first == {"['book 0']": "Book(title='book 0', tags=['new', 'used'])"}
    assert (held["by_title"]["length"], held["by_title"]["truncated"]) == (20, True)
    assert held["other"]["value"] != held["cart"]["value"] == "Cart(prices=[3, 4])"
    assert not children(held["other"])
    assert not children(held["cart"])

    book = {"[0]": "Book(title='book 0', tags=['new', 'used'])"}
    for test in ("test_opened_operands", "TestOld::test_opened"):
        assertion = explained(over, test)["assertion"]
        assert children({"children": assertion["leftChildren"]}) == book
        assert "rightChildren" not in assertion


@pytest.mark.full
def test_a_secret_that_was_compared_is_hidden(over: Bench) -> None:
    """Everything that leaves the process is redacted."""
    assert "hunter2" not in str(explained(over, "test_secret"))


@pytest.mark.full
def test_a_failure_is_explained_when_the_run_is_over(over: Bench) -> None:
    """With all that a pause would have told."""
    reported = explained(over, "test_compared[8]")
    assert (reported["run_id"], reported["phase"], reported["pause_id"]) == ("r1", "call", None)
    assert reported["parameters"] == {"want": "8"}
    assert {each["name"]: each["scope"] for each in reported["fixtures"]} == {
        "rate": "module",
        "cart": "function",
    }
    assert reported["siblings"] == {
        "passed": ["test_compared[7]"],
        "failed": ["test_compared[8]", "test_compared[9]"],
    }
    assert reported["stdout"] == "counting\n"
    (frame,) = reported["frames"]
    assert frame["source"] == "assert cart.total() == want"
    assert [each["name"] for each in frame["arguments"]] == ["cart", "want"]
    assert frame["variables"]["locals"][0]["name"] == "unused"
    assert reported["userFrameIndex"] == 0

    reported = explained(over, "test_cause")
    (cause,) = reported["innerExceptions"]
    place = cause.pop("location")
    assert (place["file"], place["function"], place["source"]) == (
        "shop.py",
        "load",
        "return {}[name]",
    )
    assert cause == {"type": "KeyError", "message": "'desk'", "depth": 1, "relation": "cause"}
    assert reported["exception"]["message"] == "no price of desk"
    assert reported["notes"] == ["prices are loaded at night"]
    assert [frame["function"] for frame in reported["frames"]] == ["load", "test_cause"]
    # What the failing line uses comes first.
    assert [each["name"] for each in reported["frames"][0]["variables"]["locals"]] == ["failed"]
    trace = reported["exception"]["stackTraceString"].splitlines()
    assert [each.partition(":")[::2] for each in trace] == [
        ("test_shop.py", f"{line_of(TESTS, 'def test_cause')} in test_cause"),
        ("shop.py", f"{line_of(SHOP, 'raise failed')} in load"),
    ]

    reported = explained(over, "test_group")
    assert {each["relation"] for each in reported["innerExceptions"]} == {"member"}
    reported = explained(over, "test_setup")
    assert (reported["phase"], reported["exception"]["type"]) == ("setup", "LookupError")
    assert [each["name"] for each in reported["fixtures"]] == ["rate", "cart"]


@pytest.mark.full
def test_what_is_behind_an_exception_is_reported_with_its_place(over: Bench) -> None:
    """Relation of chained and grouped exceptions; where each was raised."""
    reported = explained(over, "test_suppressed")["innerExceptions"]
    shown = [(each["relation"], each["location"]["source"]) for each in reported]
    assert shown == [("suppressed", "raise failed from error"), ("cause", "return {}[name]")]

    reported = explained(over, "test_two_teardowns")
    assert (reported["phase"], reported["exception"]["type"]) == ("teardown", "ExceptionGroup")
    members = [
        (each["message"], each["location"]["function"]) for each in reported["innerExceptions"]
    ]
    assert members == [("'two'", "two"), ("'three'", "three")]
    # The group itself came through pytest alone: the frames are those of its first member.
    assert [frame["function"] for frame in reported["frames"]] == ["two"]


@pytest.mark.full
def test_the_first_failure_of_a_test_is_explained_and_names_the_others(over: Bench) -> None:
    """Phases, and subtests."""
    reported = explained(over, "test_twice")
    assert (reported["phase"], operands(reported)) == ("call", ("[1, 2]", "==", "3"))
    (other,) = reported["also_failed"]
    assert (other["phase"], other["exception"]["type"]) == ("teardown", "AssertionError")
    assert other["assertion"]["left"] == "[1]"
    reported = explained(over, "test_before")
    assert (reported["phase"], reported["also_failed"][0]["phase"]) == ("setup", "teardown")
    reported = explained(over, "TestOld::test_parts")
    both = [(each["subtest"], operands(each)[0]) for each in (reported, *reported["also_failed"])]
    assert both == [(f"(n={n})", str(n)) for n in range(6)], "each has its own"
    reported = explained(over, "test_subtests")
    (secret,) = re.findall("<redacted:token#.*?>", reported["subtest"])
    assert reported["subtest"] == f"[the first] (token={secret})"
    assert reported["also_failed"][0]["exception"]["message"] == "contains 1 failed subtest"
    assert "also_failed" not in explained(over, "test_chain")


@pytest.mark.full
@pytest.mark.parametrize(
    ("test", "place", "message"),
    [
        ("test_unknown_fixture", "test_unknown_fixture(nowhere)", "fixture 'nowhere' not found"),
        ("test_shop.documented", ">>> documented(1)", "Expected:"),
        ("test_shop.documented_too", "return 1 // n", "ZeroDivisionError"),
    ],
)
def test_what_no_code_of_yours_raised_has_the_place_of_its_test(
    over: Bench, test: str, place: str, message: str
) -> None:
    """Not that of pytest's own code, nor its frames. What is called by a doctest raised it."""
    reported = explained(over, test)
    assert (reported["frames"][0]["isExternal"], len(reported["frames"])) == (
        place != "return 1 // n",
        1,
    )
    assert message in reported["exception"]["message"]
    assert not re.search(r"test_shop.py:\d+(: \w+)?$", reported["exception"]["message"])
    (result,) = over.results(nodeid=f"test_shop.py::{test}").values()
    reported = result["location"]
    assert (reported["file"], reported["line"]) == ("test_shop.py", line_of(TESTS, place))


@pytest.mark.full
def test_failures_that_no_code_raised_are_grouped_by_what_they_say(over: Bench) -> None:
    names = ("test_unknown_fixture", "test_same_unknown_fixture", "test_other_unknown_fixture")
    results = over.results(outcome="error", max_chars=200_000)
    one, same, other = (results[name]["group"] for name in names)
    assert one == same != other


@pytest.mark.full
def test_as_much_is_shown_as_is_asked_for(over: Bench) -> None:
    """`max_frames`, `include_variables_for_frames`, `max_inner_exceptions`."""
    reported = explained(over, "test_cause", include_variables_for_frames=2)
    assert None not in [frame["variables"] for frame in reported["frames"]]
    reported = explained(
        over, "test_group", max_frames=1, include_variables_for_frames=0, max_inner_exceptions=1
    )
    assert len(reported["frames"]) == 1
    assert (reported["frames"][0]["arguments"], reported["frames"][0]["variables"]) == (None, None)
    assert len(reported["innerExceptions"]) == 1
    assert reported["innerExceptionsTruncated"] is True


@pytest.mark.full
@pytest.mark.parametrize(
    ("test", "error"),
    [("test_fine", "no_exception"), ("test_unknown", "test_not_found")],
)
def test_what_has_no_exception_is_refused(over: Bench, test: str, error: str) -> None:
    with pytest.raises(ToolError) as refused:
        explained(over, test)
    assert refused.value.body["error"] == error


@pytest.mark.full
def test_without_a_pause_a_failed_test_is_named(over: Bench) -> None:
    with pytest.raises(ToolError) as refused:
        over.agent.call("exception_get_context")
    assert refused.value.body["error"] == "no_exception"
    assert "test_shop.py::test_chain" in str(refused.value)


@pytest.mark.full
def test_at_a_pause_it_is_shown_as_it_is_now(bench: Bench) -> None:
    """Also what was assigned meanwhile; the newest exception by default."""
    bench.write(shop=SHOP)
    bench.agent.call("breakpoint_set_exception", exception_type="KeyError")
    bench.agent.call("breakpoint_set", file="shop.py", line=7)
    text = "import shop\ndef test_it():\n    n = 1\n    shop.Cart(1).total()\n    shop.load('x')\n"
    stop = only_stop(bench.test(text))
    with pytest.raises(ToolError) as refused:
        bench.agent.call("exception_get_context", pause_id=stop["pause_id"])
    assert refused.value.body["error"] == "no_exception"

    stop = only_stop(bench.go_on(stop))
    reported = bench.agent.call("exception_get_context", include_variables_for_frames=2)
    assert (reported["pause_id"], reported["exception"]["isFirstChance"]) == (
        stop["pause_id"],
        True,
    )
    (paused,) = bench.agent.call("breakpoint_list_paused")["paused"]
    assert reported["threadId"] == paused["thread"]["id"]

    stop = only_stop(bench.go_on(stop))
    assert stop["reason"] == "test_failure"
    bench.eval(stop, "name = 'changed'")
    reported = bench.agent.call("exception_get_context", pause_id=stop["pause_id"])
    assert reported["exception"]["type"] == "ValueError"
    assert reported["frames"][0]["arguments"] == [
        {"name": "name", "type": "str", "value": "'changed'"}
    ]
    assert stop["autopsy"]["frames"][0]["arguments"][0]["value"] == "'x'"


@pytest.mark.full
def test_an_exception_in_the_middle_of_a_test_is_reported_with_what_is_around_it(
    bench: Bench,
) -> None:
    """The same keys as of a failure; what was printed and logged so far is not taken away."""
    bench.write(
        test_it="""
        import logging, sys
        import pytest

        @pytest.fixture
        def cart(): return [1, 2]

        def find(name):
            print("looking for", name)
            print("not well", file=sys.stderr)
            logging.getLogger("shop").warning("slow")
            return {}[name]

        @pytest.mark.parametrize("name", ["desk", "lamp"])
        def test_found(cart, name):
            print("first words")
            try: find(name)
            except KeyError: pass
            assert not name
        """
    )
    bench.agent.call("breakpoint_set_exception", exception_type="KeyError")
    bench.breakpoint("test_it.find", behavior="go")
    bench.agent.call(
        "breakpoint_set_after_behavior", function_name="test_it.find", behavior="exception"
    )
    nodeid = "test_it.py::test_found[lamp]"
    reply, seen = bench.run([nodeid]), []
    while reply["state"] == "paused":
        stop = only_stop(reply)
        asked = bench.agent.call("exception_get_context", pause_id=stop["pause_id"])
        assert asked["fixtures"] == [{"name": "cart", "scope": "function", "value": "[1, 2]"}]
        assert set(asked["siblings"]) == {"passed", "failed"}
        for reported in (asked, stop["autopsy"]) if "autopsy" in stop else (asked,):
            assert reported["parameters"] == {"name": "'lamp'"}
            assert reported["stdout"] == "first words\nlooking for lamp\n"
            assert reported["stderr"] == "not well\n"
            assert "slow" in reported["log"]
        seen.append(stop["phase"])
        reply = bench.go_on(stop)
    assert seen == ["raise", "exception", "post_mortem"]
    (result,) = bench.results().values()
    assert result["stdout"] == "first words\nlooking for lamp\n"

    bench.run([nodeid], args=["-s"], pause_on="never")
    reported = bench.agent.call("exception_get_context", nodeid=nodeid)
    assert (reported["stdout"], reported["stderr"]) == (None, None), "nobody kept it"
    assert "slow" in reported["log"]


@pytest.mark.full
@pytest.mark.parametrize("verbosity", [[], ["-vv"]], ids=["short", "as in CI"])
def test_an_autopsy_keeps_to_its_size_and_says_what_it_left_out(
    bench: Bench, verbosity: list[str]
) -> None:
    """6,000 characters by default, the most useful first; more when asked for."""
    bench.write(
        test_it="""
        class Node:
            def __init__(self, depth):
                self.name = "a node of a large tree"
                self.parts = [Node(depth - 1) for _ in range(4)] if depth else []
                self.table = {f"key number {n}": n for n in range(30)}

        def inner(tree, other):
            near, far, seen, text = Node(1), Node(2), list(range(500)), "words " * 200
            print("line\\n" * 400)
            assert tree.parts == far.parts

        def test_it():
            a, b, c, d, e, f, g, h = (Node(2) for _ in range(8))
            inner(a, b)
        """
    )
    patient = ["-o", "cideldill_capture_ms=20000"]  # the size limits it, not a busy machine
    stop = only_stop(bench.run(args=[*patient, *verbosity]))
    asked = {"pause_id": stop["pause_id"]}
    for size in (None, 3_000, 1_000, 20_000):
        more = {} if size is None else {"max_chars": size}
        result = bench.agent.raw("exception_get_context", asked | more)
        text = result.content[0].text
        reported = json.loads(text)
        assert len(text) <= (size or 6_000 + 300)
        assert reported.get("truncated", False) == (size != 20_000)
        assert reported["exception"]["type"] == "AssertionError"
        if size is None:
            assert len(text) > 4_500, "room is used"
            parts = [each["name"] for each in reported["assertion"]["leftChildren"]]
            assert parts == ["[0]", "[1]", "[2]", "[3]"]
    reported = stop["autopsy"]
    assert reported["truncated"] is True
    assert len(json.dumps(reported, ensure_ascii=False, separators=(",", ":"))) <= 6_000
    assert (reported["assertion"]["op"], reported["frames"][0]["function"]) == ("==", "inner")


STOPPED = {
    "all(price > 0 for price in [3, -1, 4])": {"price": "-1"},
    "not any(at and price > 3 for at, price in enumerate([4, 5, 6]))": {"at": "1", "price": "5"},
    "all(all(price > 0 for price in row) for row in ([1], [2, 0], [3]))": {"row": "[2, 0]"},
    "all(price > limit for price in [3, 1])": {"price": "1"},
    "next(price for price in [0, 4])": {"price": "0"},
    "all((lambda: price > 0)() for price in [3, -1])": {"price": "-1"},
    "all(token == 'x' for token in ['hunter2-hunter2'])": {"token": "<redacted:token"},
    "any(price > 9 for price in [3, 4])": None,
    "all([price > 0 for price in [3, -1]])": None,
    "3 in (price for price in [1, 2])": None,
    "not (price for price in [1, 2])": {},
}
"""An assertion → the variables of its generator, where it was not read to its end."""


@pytest.mark.full
def test_the_item_at_which_a_generator_stopped_is_part_of_its_assertion(bench: Bench) -> None:
    """It is read from the frame of the generator: nothing runs once more."""
    tests = "\n".join(f"def test_{at}(limit=2): assert {each}" for at, each in enumerate(STOPPED))
    bench.test(tests, pause_on="never")
    for at, item in enumerate(STOPPED.values()):
        reply = bench.agent.call("exception_get_context", nodeid=f"test_it.py::test_{at}")
        stopped = reply["assertion"].get("stoppedAt")
        if stopped is not None:
            stopped = {name: text.partition("#")[0] for name, text in stopped.items()}
        assert stopped == (item or None), tests.splitlines()[at]
        assert "genexpr" not in str(reply["assertion"].get("values"))


@pytest.mark.full
def test_failures_with_one_cause_are_one_group(bench: Bench) -> None:
    """38 failures of one broken fixture read as one."""
    bench.write(
        test_it="""
        import pytest

        @pytest.fixture
        def stock(request): raise OSError(f"no stock for {request.node.name}")

        @pytest.mark.parametrize("n", range(38))
        def test_stock(stock, n): pass

        def test_other(): assert 0

        def test_last(): raise OSError("no stock for anyone")
        """
    )
    reply = bench.run(pause_on="never", max_chars=3_000)
    first, other, last = reply["failures"][:3]
    assert (first["nodeid"], first["alike"]) == ("test_it.py::test_stock[0]", 38)
    assert (other["nodeid"], last["nodeid"]) == ("test_it.py::test_other", "test_it.py::test_last")
    assert len({each["group"] for each in (first, other, last)}) == 3
    assert "alike" not in other
    groups = [each["group"] for each in bench.results(outcome="error", max_chars=200_000).values()]
    assert groups == [first["group"]] * 38


@pytest.mark.full
def test_a_verdict_that_a_client_had_a_hand_in_says_so(bench: Bench) -> None:
    """Reports are pytest's own; what was changed at pauses goes with them, and names a cause."""
    bench.write(
        test_it="""
        class Cart: rate = 1
        cart, seen = Cart(), {}

        def rate(): return 2

        def test_flips():
            wanted = 3
            assert wanted == 5

        def test_breaks():
            assert seen.get("n", 1) * cart.rate * rate() == 2

        def test_raises():
            mark = 0
            assert mark == 1

        def test_looked_at():
            mark = 0
            assert mark == 0
        """
    )
    bench.run(pause_on="never")
    bench.breakpoint("test_it.rate")
    for line in (9, 12, 16, 20):
        bench.agent.call("breakpoint_set", file="test_it.py", line=line)

    flips = only_stop(bench.run())
    assert flips["nodeid"] == "test_it.py::test_flips"
    bench.eval(flips, "wanted = 5")
    breaks = only_stop(bench.go_on(flips))
    bench.eval(breaks, "global cart; cart = Cart(); cart.rate = 9; seen['n'] = 2; copy = 3")
    call = only_stop(bench.go_on(breaks))
    failed = only_stop(bench.go_on(call, action="skip", fake_result=7))
    bench.eval(failed, "seen['n'] = 1")
    reported = [
        "the value of cart (test_it.py:12)",
        "the value of cart.rate (test_it.py:12)",
        "the value of seen['n'] (test_it.py:12)",
        "the result of test_it.rate() (test_it.py:5)",
    ]
    assert failed["changed_by_client"] == reported
    assert failed["nodeid"] == "test_it.py::test_breaks"
    raises = only_stop(bench.go_on(failed))
    thrown = only_stop(bench.go_on(raises, action="raise", exception_type="OSError"))
    looked_at = only_stop(bench.go_on(thrown))
    bench.eval(looked_at, "copy = [mark]; copy[0] = 2; [mark for mark in (1, 2)]")
    over = bench.go_on(looked_at)
    assert over["outcomes"] == {"passed": 2, "failed": 2}
    flipped = "the value of wanted (test_it.py:9) is the cause"
    assert over["next"][0] == f"the verdict of {flips['nodeid']} flipped: {flipped}"

    results = bench.results()
    changed = {name: test.get("changed_by_client") for name, test in results.items()}
    assert changed == {
        "test_flips": ["the value of wanted (test_it.py:9)"],
        "test_breaks": reported,
        "test_raises": ["the exception (test_it.py:16)"],
        "test_looked_at": None,
    }
    asked = {"nodeid": "test_it.py::test_breaks"}
    assert bench.agent.call("exception_get_context", **asked)["changed_by_client"] == reported
    # A pass that was brought about is none: it is run again, and fails.
    reply = bench.run(last_failed=True, replace=True)
    assert reply["stops"][0]["nodeid"] == "test_it.py::test_flips"
