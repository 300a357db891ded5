"""`test_why` of programs with a seeded bug, asked through a client and through the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.driver import DEADLINE_S
from tests.together.frontend import clean_environment
from tests.together.suspect_cases import BUGS, Seeded
from tests.together.workbench import Bench

COMMAND = "import sys; from cideldill_mcp.commands.main import main; sys.exit(main())"

MOST = 4_000
"""Characters of an answer, by default."""

LIKELIEST = 3

FAILING = {
    "branch": "test_coupon",
    "classes": "TestOther::TestTaking::test_take",
    "generators": "test_pages",
    "setup_error": "test_low",
    "shared_fixture": "test_c_first_user",
    "threads": "test_one",
}
"""A test that fails of each program."""


def command(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", COMMAND, "why", *words],
        cwd=root,
        env=clean_environment(PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE_S,
        check=False,
    )


def why(bench: Bench, nodeid: str, **more: Any) -> dict[str, Any]:
    reply = bench.agent.call("test_why", nodeid=nodeid, **more)
    assert len(reply["text"]) <= more.get("max_chars", MOST)
    return reply


def parts_of(reply: dict[str, Any]) -> set[str]:
    return set(reply["parts"])


# --- seeded bugs --------------------------------------------------------------------------------


@pytest.fixture
def seeded(bench: Bench) -> Bench:
    """The shared bench with all programs."""
    for case in BUGS:
        bench.write(**case.files())
    return bench


@pytest.mark.full
@pytest.mark.sample("branch", "setup_error")
@pytest.mark.parametrize("name", FAILING)
def test_the_faulty_function_is_among_the_suspects_with_its_source(
    seeded: Bench, name: str
) -> None:
    case: Seeded = next(each for each in BUGS if each.name == name)
    reply = why(seeded, f"{name}/test_{name}.py::{FAILING[name]}")
    assert parts_of(reply) >= {"failure", "path", "suspects"}
    assert len(reply["suspects"]) <= LIKELIEST
    assert "truncated" not in reply
    functions = [each["function"] for each in reply["suspects"]]
    assert f"{name}.code.{case.faulty}" in functions, reply["text"]
    assert f"def {case.faulty}(" in reply["text"].partition("\nsuspects:")[2]
    assert all(each["reason"] in reply["text"] for each in reply["suspects"][:1])


# --- the parts ----------------------------------------------------------------------------------

BIG = """
    def table(wrong):
        return [{"number": n, "tags": [n] * 3} for n in range(30 - wrong)] + [
            {"number": 29 - n, "tags": [f"tag {n}"]} for n in range(wrong)
        ]

    def test_big():
        assert table(2) == table(0)

    def test_small():
        assert table(0) == table(0)
    """

RAISES = """
    class Cart:
        def __init__(self): self.prices = {"tea": 3}
        def price(self, name): return self.prices[name]
        def total(self, *names): return sum(self.price(each) for each in names)

    def test_raises():
        assert Cart().total("tea", "mug") == 10
    """


@pytest.mark.full
def test_the_first_difference_of_large_values_is_named(bench: Bench) -> None:
    bench.write(test_big=BIG)
    reply = why(bench, "test_big.py::test_big")
    assert "they differ first at [28]" in reply["text"]
    assert "list of 30" in reply["text"]


@pytest.mark.full
def test_an_exception_is_followed_to_where_it_was_raised(bench: Bench) -> None:
    bench.write(test_raises=RAISES)
    reply = why(bench, "test_raises.py::test_raises")
    lines = reply["text"].splitlines()
    assert lines[0] == "test_raises.py::test_raises  failed: KeyError: 'mug'  test_raises.py:4"
    assert "  test_raises.py:4 Cart.price  " in reply["text"]
    assert "name='mug'" in reply["text"]
    assert parts_of(reply) == {"failure", "path", "suspects"}, "no other test passes"


MOCK = """
    from unittest.mock import Mock

    def greeting(name): return f"Hello {name.strip().lower()}"
    def send(transport, name): transport.deliver(name, greeting(name))

    def test_mock():
        transport = Mock()
        send(transport, "Kim")
        transport.deliver.assert_called_once_with("Kim", "Hello Kim")
    """


@pytest.mark.full
def test_the_argument_that_a_mock_was_not_to_get_is_followed_to_its_origin(bench: Bench) -> None:
    bench.write(test_mock=MOCK)
    reply = why(bench, "test_mock.py::test_mock")
    assert "  argument 2 was 'Hello kim', expected 'Hello Kim'\n" in reply["text"]
    assert "path: 'Hello kim' (argument 2) was returned by greeting  " in reply["text"]


GOES_ON = """
    import unittest

    class Cart:
        def __init__(self): self.prices = {"tea": 3, "mug": 0}
        def price(self, name): return self.prices[name] + 4
        def total(self, *names): return sum(self.price(each) for each in names)

    def again(): return 7

    class TestParts(unittest.TestCase):
        def tearDown(self):
            again()

        def test_value(self):
            with self.subTest("tea"):
                self.assertEqual(Cart().total("tea"), 3)
            with self.subTest("behind"):
                self.assertEqual(again(), 7)

        def test_raised(self):
            with self.subTest("hat"):
                Cart().total("hat")
            with self.subTest("behind"):
                self.assertRaises(KeyError, Cart().price, "cap")
                self.assertEqual(again(), 7)
    """


@pytest.mark.full
@pytest.mark.parametrize(
    ("test", "first", "origin"),
    [
        ("value", "AssertionError: 7 != 3", "7 (left) was returned by Cart.price  "),
        ("raised", "KeyError: 'hat'", "name='hat'"),
    ],
)
def test_what_a_test_does_behind_its_failure_is_no_reason_of_it(
    bench: Bench, test: str, first: str, origin: str
) -> None:
    """A test goes on behind a failing subtest, and is torn down behind any failure."""
    bench.write(test_goes_on=GOES_ON)
    reply = why(bench, f"test_goes_on.py::TestParts::test_{test}")
    assert first in reply["text"].splitlines()[0]
    assert origin in reply["text"]
    assert "again" not in reply["text"].partition("suspects")[2].partition("Cart.price")[0]


ALSO_FAIL = """
    import unittest

    class TestParts(unittest.TestCase):
        def tearDown(self):
            raise OSError("no lock")

        def test_numbers(self):
            for number in range(6):
                with self.subTest(number):
                    self.assertEqual(number % 2, 0)
                    self.assertLess(number, 4)
    """


@pytest.mark.full
def test_what_fails_behind_the_first_failure_is_named(bench: Bench) -> None:
    bench.write(test_also=ALSO_FAIL)
    lines = why(bench, "test_also.py::TestParts::test_numbers")["text"].splitlines()
    assert lines[0].endswith("failed: [1] AssertionError: 1 != 0")
    also = [each.strip() for each in lines if "as well" in each or "behind it" in each]
    assert also == [
        "another part of the test failed as well: AssertionError: 1 != 0",
        "another part of the test failed as well: AssertionError: 4 not less than 4",
        "another part of the test failed as well: AssertionError: 1 != 0",
        "… 1 more failure behind it",
    ]


CUT = """
    def used(number):
        return number

    def down(number):
        try:
            return down(number + 1)
        except RecursionError:
            return number

    def test_a():
        down(0)
        assert used(1) == 1

    def test_worse():
        assert used(1) == 3

    def test_bad():
        down(0)
        assert used(1) == 2
    """


@pytest.mark.full
def test_what_tracing_missed_is_compared_with_nothing(bench: Bench) -> None:
    """On 3.11 the recursion limit ends tracing in a test."""
    bench.write(test_cut=CUT)
    ends = sys.version_info < (3, 12)
    reply = why(bench, "test_cut.py::test_worse")
    assert "only here: used" not in reply["text"]
    reply = why(bench, "test_cut.py::test_bad")
    assert ("ends tracing on 3.11" in reply["text"]) == ends
    assert not (ends and "called last by the test" in reply["text"])


MUCH = """
    def step(number):
        return number + 1

    def count(limit):
        number = 0
        while number < limit:
            number = step(number)
        return number

    def label(number):
        return f"<{number}>"

    def test_label():
        assert label(count(110_000)) == "<110001>"
    """


@pytest.mark.full
def test_the_end_of_a_test_that_calls_much_is_known(bench: Bench) -> None:
    bench.write(test_much=MUCH)
    text = why(bench, "test_much.py::test_label")["text"]
    assert "path: '<110000>' (left) was returned by label  " in text
    assert "after 100,000 calls only some of those near the test were recorded" in text


LITERAL = """
    class Counter:
        def __init__(self):
            self.count = 0
        def add(self, number):
            self.count += number

    def seven():
        return 7

    def test_number():
        counter = Counter()
        counter.add(2)
        counter.add(3)
        seven()
        assert counter.count == 7

    def test_none():
        counter = Counter()
        counter.add(2)
        assert counter.count is None
    """


@pytest.mark.full
@pytest.mark.parametrize(
    ("test", "origin"),
    [
        ("number", "5 (left at .count) was left by Counter.add call 2  "),
        ("none", "2 (left at .count) was left by Counter.add  "),
    ],
)
def test_no_call_is_said_to_have_given_a_literal(bench: Bench, test: str, origin: str) -> None:
    bench.write(test_literal=LITERAL)
    text = why(bench, f"test_literal.py::test_{test}")["text"]
    assert f"path: {origin}" in text
    assert "seven" not in text.partition("suspects:")[2].partition("\n2. ")[0]


GUARDED = """
    def guard(amount, depth=2):
        if depth:
            return guard(amount, depth - 1)
        assert amount <= 100, "too much"

    def pay(amount):
        guard(amount + 20)
    """

PAYING = """
    from till import pay

    def test_pay():
        pay(100)
    """


@pytest.mark.full
def test_the_function_whose_assertion_failed_is_suspected_first(bench: Bench) -> None:
    bench.write(till=GUARDED, test_it=PAYING)
    suspects = why(bench, "test_it.py::test_pay")["suspects"]
    assert [each["function"] for each in suspects] == ["till.guard", "till.pay"]
    assert suspects[0]["reason"] == "its assertion failed"


COUNTED = """
    import pytest

    with open("starts.txt", "a") as file:
        file.write("x")

    def price(number):
        return number

    @pytest.mark.parametrize("number", range(4))
    def test_price(number):
        assert price(number) == -1
    """


@pytest.mark.full
def test_tests_that_failed_beside_it_do_not_run_once_more(bench: Bench) -> None:
    bench.write(test_it=COUNTED)
    parts = parts_of(why(bench, "test_it.py::test_price[2]"))
    assert parts == {"failure", "path", "suspects"}
    assert (bench.root / "starts.txt").read_text() == "xx"  # the test, and all of them


SPOKEN = """
    from unittest import mock

    def test_called():
        send = mock.Mock()
        send("tea", price=3)
        send.assert_called_once_with("tea", price=4)

    def test_begins_with_an_empty_line():
        raise AssertionError("\\nNot equal\\n\\nMismatched elements: 1 / 3")

    def test_reason():
        assert 1 == 2, "the sum\\nof all"

    def test_long():
        raise ValueError("\\n".join(map(str, range(30))))
    """


@pytest.mark.full
@pytest.mark.parametrize(
    ("test", "first", "behind"),
    [
        (
            "called",
            "AssertionError: expected call not found.",
            ["Expected: mock('tea', price=4)", "Actual: mock('tea', price=3)", "raised in "],
        ),
        (
            "begins_with_an_empty_line",
            "AssertionError: Not equal",
            ["Mismatched elements: 1 / 3", "test_spoken.py:10 "],
        ),
        ("reason", "AssertionError: the sum", ["of all", "test_spoken.py:13 "]),
        ("long", "ValueError: 0", [*"12345678", "… 21 more lines of the message"]),
    ],
)
def test_the_lines_of_a_message_are_shown(
    bench: Bench, test: str, first: str, behind: list[str]
) -> None:
    bench.write(test_spoken=SPOKEN)
    lines = why(bench, f"test_spoken.py::test_{test}")["text"].splitlines()
    assert first in lines[0]
    shown = zip(lines[1 : 1 + len(behind)], behind, strict=True)
    assert [line for line, text in shown if not line.strip().startswith(text)] == []


BEHIND = """
    import json

    def parsed(text):
        try:
            return json.loads(text)
        except ValueError as error:
            raise RuntimeError("bad configuration") from error

    def tried(text):
        try:
            return {}[text]
        except KeyError:
            return int(text)

    def together():
        raise ExceptionGroup("all", [OSError(text) for text in ("a", "b")])

    def hidden(text):
        try:
            try:
                return int(text)
            except ValueError:
                return {}[text]
        except KeyError:
            raise RuntimeError("unknown") from None

    def test_cause(): parsed("{")
    def test_context(): tried("x")
    def test_group(): together()
    def test_none(): hidden("x")
    """


@pytest.mark.full
@pytest.mark.parametrize(
    ("test", "expected"),
    [
        (
            "cause",
            ["caused by json.decoder.JSONDecodeError: Expecting property name", "line 1 column 2"],
        ),
        ("context", ["while handling KeyError: 'x'  test_behind.py:12 tried"]),
        ("group", ["in the group: OSError: a\n  in the group: OSError: b\n"]),
        ("none", []),
    ],
)
def test_what_python_prints_with_an_exception_is_shown(
    bench: Bench, test: str, expected: list[str]
) -> None:
    bench.write(test_behind=BEHIND)
    text = why(bench, f"test_behind.py::test_{test}")["text"]
    assert [each for each in expected if each not in text] == []
    found = [each for each in ("caused by", "while handling", "in the group") if each in text]
    assert len(found) == bool(expected)


ORDER = {
    "rates": """
        RATES = {"a": 1, "b": 2}
        def rate(name): return RATES.get(name, 0)
        def set_rate(name, value): RATES[name] = value
        def total(names): return sum(map(rate, names))
        """,
    "test_rates": """
        import rates
        def test_one(): assert rates.rate("a") == 1
        def test_set():
            rates.set_rate("b", 7)
            assert rates.rate("b") == 7
        def test_two(): assert rates.total(["a"]) == 1
        def test_all(): assert rates.total(["a", "b"]) == 3
        """,
    "test_other": """
        import rates
        def test_elsewhere(): assert rates.total(["a", "b"]) == 3
        """,
}


@pytest.mark.full
def test_a_test_that_fails_behind_another_one_names_it_and_what_it_left(bench: Bench) -> None:
    bench.write(**ORDER)
    reply = why(bench, "test_rates.py::test_all", timeout_s=120)
    assert parts_of(reply) == {"failure", "path", "differs", "order", "suspects"}
    assert "order: passes alone, fails after test_rates.py::test_set\n" in reply["text"]
    functions = {each["function"] for each in reply["suspects"]}
    assert functions == {"rates.rate", "rates.set_rate", "rates.total"}


@pytest.mark.soak
def test_it_is_looked_for_in_other_files(bench: Bench) -> None:
    files = dict(ORDER)
    files["test_zz_other"] = files.pop("test_other")
    bench.write(**files)
    reply = why(bench, "test_zz_other.py::test_elsewhere", timeout_s=120)
    assert "fails after test_rates.py::test_set\n" in reply["text"]


BRITTLE = """
    READY = []
    def prepared(): READY.append(1)
    def value(): return len(READY)
    def test_a():
        prepared()
        assert value()
    def test_b(): assert value() == 1
    """


@pytest.mark.full
def test_a_test_that_passes_only_behind_others_says_so(bench: Bench) -> None:
    bench.write(test_brittle=BRITTLE)
    reply = why(bench, "test_brittle.py::test_b")
    assert "order: fails alone, passes after test_brittle.py::test_a" in reply["text"]
    assert "order" in reply["parts"]


@pytest.mark.full
def test_an_edit_that_the_test_ran_is_shown(make_project: MakeProject) -> None:
    """Of a repository; without one the part is absent, as in all other tests here."""
    shop = "def total(a, b):\n    return a + b\n\n\ndef other():\n    return 1\n"
    test = "import shop\ndef test_total(): assert shop.total(1, 2) == 3\n"
    project = make_project(shop=shop, test_shop=test)
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "First"]):
        subprocess.run(["git", *words], cwd=project, check=True, timeout=DEADLINE_S)
    (project / "shop.py").write_text(shop.replace("a + b", "a - b"), encoding="utf-8")
    reply = json.loads(command(project, "--json", "test_shop.py::test_total").stdout)
    assert "edited" in reply["parts"]
    assert "edited: shop.py:2 total" in reply["text"]
    assert reply["suspects"][0]["function"] == "shop.total"
    assert "working tree" in reply["suspects"][0]["reason"]


@pytest.mark.full
def test_a_test_that_does_not_end_is_shown_where_it_was(bench: Bench) -> None:
    """With what ran in the time; also of a file, of which it is the first that fails."""
    bench.write(
        test_hangs="""
        import time
        def wait(seconds):
            while True: time.sleep(seconds)
        def work(): wait(0.01)
        def test_hangs(): work()
        """
    )
    reply = why(bench, "test_hangs.py", timeout_s=8)
    assert reply["outcome"] in ("unfinished", "failed")
    assert reply["text"].startswith("partial: ")
    assert reply["suspects"][0]["function"] == "test_hangs.wait"


# --- refusals, sizes, the command ---------------------------------------------------------------


@pytest.mark.full
def test_a_test_that_passes_has_no_why(bench: Bench) -> None:
    bench.write(test_it="def test_fine(): pass")
    error = bench.agent.refused("test_why", nodeid="test_it.py::test_fine")
    assert error["error"] == "not_reproduced"
    assert "in 2 runs with other tests" in error["message"]


@pytest.mark.soak
def test_a_small_answer_keeps_the_failure_and_a_function(seeded: Bench) -> None:
    for most in (500, 800, 1_200):
        reply = why(seeded, "branch/test_branch.py::test_coupon", max_chars=most)
        assert reply["text"].startswith("branch/test_branch.py::test_coupon  failed")
        assert reply["truncated"]
        assert reply["suspects"][0]["function"] in reply["text"]


@pytest.mark.full
def test_the_command_says_the_same(make_project: MakeProject) -> None:
    project = make_project(test_raises=RAISES)
    done = command(project, "test_raises.py::test_raises")
    assert (done.returncode, done.stderr) == (0, "")
    assert "suspects:\n1. test_raises.Cart.price  test_raises.py:4–4" in done.stdout
    reply = json.loads(command(project, "--json", "test_raises.py::test_raises").stdout)
    assert reply["text"] == done.stdout.rstrip("\n")
