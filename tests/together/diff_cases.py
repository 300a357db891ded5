"""Small programs in which a good and a bad run part, and what `test_diff` has to say of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class DiffCase:
    """A program, and the question.

    Attributes:
        name: Its file is `test_NAME.py`.
        source: Of the file; `test_bad` fails unless `nodeid` says otherwise.
        has: What stands in the text, or in the message of the refusal.
        divergence: Keys of the divergence.
        lacks: What stands neither in the text nor in the rest of the reply.
        asked: Further arguments.
        bad: The test that is asked about.
        good: `against`, if it is given.
        equal: Of the reply.
        noise: Whether there is any.
        refused: The error code, if there is no answer.
        is_quick: Whether the fast tier has it.
        is_long: Whether only the longest tier has it.
    """

    name: str
    source: str
    has: tuple[str, ...] = ()
    divergence: dict[str, Any] | None = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    asked: dict[str, Any] = field(default_factory=dict)
    bad: str = "test_bad"
    good: str | None = "test_good"
    equal: bool = False
    noise: bool = False
    refused: str = ""
    is_quick: bool = False
    is_long: bool = False

    @property
    def nodeid(self) -> str:
        return f"test_{self.name}.py::{self.bad}"

    @property
    def against(self) -> str | None:
        return None if self.good is None else f"test_{self.name}.py::{self.good}"


CASES: tuple[DiffCase, ...] = (
    DiffCase(
        "neighbour",
        """
        import pytest

        def fee(weight):
            if weight <= 2:
                return 4
            if weight < 10:
                return 9
            return 15

        def total(weight, count):
            return fee(weight) * count

        @pytest.mark.parametrize(("weight", "price"), [(1, 4), (3, 9), (10, 9)])
        def test_fee(weight, price):
            assert total(weight, 1) == price
        """,
        (
            "right: test_neighbour.py::test_fee[3-9]  passed  (the same test with other",
            "inputs differ: test_fee: weight: 10 | 3",
            "first difference: in fee, which got other arguments",
            "first differing branch, test_neighbour.py:7  if weight < 10:",
            "left → 9  return 15",
            "right → 8  return 9",
        ),
        {"function": "test_neighbour.fee", "line": 7, "path": "return", "left": "15", "right": "9"},
        bad="test_fee[10-9]",
        good=None,
    ),
    DiffCase(
        "deep",
        """
        class Item:
            def __init__(self, name, price):
                self.name, self.price = name, price

        class Order:
            def __init__(self):
                self.lines = {"a": [Item("lamp", 40), Item("desk", 9.5), Item("mug", 2)]}

        STATE = []

        def discounted(order):
            if STATE:
                order.lines["a"][1].price = 9.05
            return order

        def total(order):
            return sum(each.price for each in order.lines["a"])

        def check():
            order = Order()
            discounted(order)
            assert total(order) == 51.5

        def test_good():
            check()

        def test_bad():
            STATE.append(1)
            check()
        """,
        (
            "first difference: in discounted, which got the same arguments",
            "it does something else:\n  order.lines['a'][1].price: 9.05 | 9.5",
            "first differing branch, test_deep.py:13  if STATE:",
        ),
        {
            "function": "test_deep.discounted",
            "path": "order.lines['a'][1].price",
            "left": "9.05",
            "right": "9.5",
        },
    ),
    DiffCase(
        "mutation",
        """
        MODE = ["plain"]

        class Account:
            def __init__(self):
                self.balance, self.log = 0, []

            def put(self, amount):
                self.log.append(amount)
                self.balance += amount if MODE[0] == "plain" else -amount

        def run():
            account = Account()
            account.put(5)
            account.put(7)
            assert account.balance == 12

        def test_good():
            MODE[0] = "plain"
            run()

        def test_bad():
            MODE[0] = "odd"
            run()
        """,
        ("in Account.put, which got the same arguments", "self.balance: -5 | 5"),
        {"function": "test_mutation.Account.put", "path": "self.balance"},
        lacks=("branch",),
    ),
    DiffCase(
        "extra_call",
        """
        FLAGS = set()

        def tax(n):
            return n * 2

        def price(n):
            total = tax(n)
            if "twice" in FLAGS:
                total = tax(total)
            return total

        def test_good():
            assert price(1) == 2

        def test_bad():
            FLAGS.add("twice")
            assert price(1) == 2
        """,
        (
            "in price, which got the same arguments",
            "only left: tax(n=2) → 4",
            "test_extra_call.py:9  if 'twice' in FLAGS:".replace("'", '"'),
        ),
        {"function": "test_extra_call.price", "path": "calls", "right": "absent"},
    ),
    DiffCase(
        "missing_call",
        """
        import os

        def save(row):
            return len(row)

        def load(rows):
            done = 0
            for row in rows:
                if row == "b" and "SKIP" in os.environ:
                    continue
                done += save(row)
            return done

        def test_good():
            assert load(["a", "b", "c"]) == 3

        def test_bad(monkeypatch):
            monkeypatch.setenv("SKIP", "1")
            assert load(["a", "b", "c"]) == 3
        """,
        ("only right: save(row='b') → 1", "left → 11  continue", "right → 12  done += save(row)"),
        {"function": "test_missing_call.load", "left": "absent"},
    ),
    DiffCase(
        "exception",
        """
        CACHE = {"a": 1}

        def find(key):
            try:
                return CACHE[key]
            except KeyError:
                raise LookupError(f"no {key}")

        def ask(key):
            return find(key)

        def test_good():
            assert ask("a") == 1

        def test_bad():
            del CACHE["a"]
            assert ask("a") == 1
        """,
        ("in find, which got the same", "raises: LookupError: no a | returns 1"),
        {"function": "test_exception.find", "path": "raises", "line": 6},
    ),
    DiffCase(
        "branch_only",
        """
        import pytest

        def kind(n):
            found = []
            if n % 2:
                found.append("odd")
            else:
                found.append("even")
            return len(found)

        @pytest.mark.parametrize("n", [2, 3])
        def test_kind(n):
            assert kind(n) == 1
            assert n == 2
        """,
        (
            "in kind, which got other arguments",
            "it went another way, to the same outcome",
            "first differing branch, test_branch_only.py:6  if n % 2:",
        ),
        {"function": "test_branch_only.kind", "line": 6},
        bad="test_kind[3]",
        good=None,
    ),
    DiffCase(
        "generator",
        """
        SKIP = []

        def numbers(limit):
            for n in range(limit):
                if n not in SKIP:
                    yield n

        def test_good():
            assert sum(numbers(5)) == 10

        def test_bad():
            SKIP.append(3)
            assert sum(numbers(5)) == 10
        """,
        ("in numbers, which got the same arguments", "yields[3]: 4 | 3", ":6  if n not in SKIP:"),
        {"function": "test_generator.numbers", "path": "yields[3]"},
    ),
    DiffCase(
        "recursion",
        """
        LIMIT = [0]

        def down(n):
            if n <= LIMIT[0]:
                return n
            return down(n - 1) + 1

        def test_good():
            assert down(20) == 20

        def test_bad():
            LIMIT[0] = 3
            assert down(20) == 20
            assert down(1) == 2
        """,
        ("only right: down(n=2) → 2", "in down, which got the same", "… 12 calls"),
        {"function": "test_recursion.down"},
    ),
    DiffCase(
        "noise",
        """
        import random, tempfile, time, uuid

        STATE = {"rate": 2}

        class Node:
            def __init__(self, n):
                self.id, self.n, self.at = id(self), n, time.time()
                self.token = uuid.uuid4().hex
                self.folder = tempfile.mkdtemp()
                self.many = [random.random() for _ in range(5)]
                self.names = {f"x{k}" for k in range(20)}
                self.text = f"{object()}"

        def made(n):
            return Node(n)

        def shuffled(rows):
            return sorted(rows, key=lambda row: random.random())

        def rated(node):
            return node.n * STATE["rate"]

        def test_good(tmp_path):
            shuffled([1, 2, 3, 4, 5, 6, 7, 8])
            assert rated(made(3)) == 6

        def test_bad(tmp_path):
            STATE["rate"] = 3
            shuffled([1, 2, 3, 4, 5, 6, 7, 8])
            assert rated(made(3)) == 6
        """,
        ("in rated, which got the same arguments", "return: 9 | 6", "noise: "),
        {"function": "test_noise.rated", "path": "return"},
        noise=True,
    ),
    DiffCase(
        "equal",
        """
        def double(n):
            return n * 2

        def test_good():
            assert double(2) == 4

        def test_again():
            assert double(2) == 4
        """,
        ("equal: the same calls, arguments, results and changes",),
        None,
        bad="test_again",
        equal=True,
    ),
    DiffCase(
        "hostile",
        """
        class Hostile:
            def __init__(self, n): object.__setattr__(self, "n", n)
            def __repr__(self): raise SystemExit("repr")
            def __eq__(self, other): raise SystemExit("eq")
            def __hash__(self): raise SystemExit("hash")
            def __len__(self): raise SystemExit("len")
            def __iter__(self): raise SystemExit("iter")
            def __bool__(self): raise SystemExit("bool")
            def __getattr__(self, name): raise SystemExit(name)

        ODD = []

        def change(thing, many):
            object.__setattr__(thing, "n", 2 if ODD else 1)

        def run():
            thing = Hostile(0)
            change(thing, {"k": [thing, thing]})
            assert thing.n == 1

        def test_good(): run()

        def test_bad():
            ODD.append(1)
            run()
        """,
        ("in change, which got the same arguments", "thing.n: 2 | 1"),
        {"function": "test_hostile.change", "path": "thing.n"},
    ),
    DiffCase(
        "secrets",
        """
        STATE = []

        class Login:
            def __init__(self):
                self.user, self.password = "jo", "correct-h0rse-battery"

        def change(login):
            login.password = "late-r-secret-5512" if STATE else "zq81-attribute-7751"
            login.user = "al" if STATE else "jo"

        def run():
            login = Login()
            change(login)
            assert login.user == "jo"

        def test_good(): run()

        def test_bad():
            STATE.append(1)
            run()
        """,
        ("login.user: 'al' | 'jo'",),
        {"function": "test_secrets.change"},
        lacks=("h0rse", "zq81", "secret-5512"),
    ),
    DiffCase(
        "aftermath",
        """
        class Transaction:
            def __enter__(self):
                return self

            def __exit__(self, kind, error, traceback):
                return rolled_back() if kind is not None else committed()

        def rolled_back():
            pass

        def committed():
            pass

        def price(count):
            return count * 2

        def run(expected):
            with Transaction():
                assert price(3) == expected
            price(4)

        def test_good(): run(6)

        def test_bad(): run(7)
        """,
        ("inputs differ: run: expected: 7 | 6", "raises: AssertionError: assert 6 == 7 | returns"),
        {"function": "test_aftermath.run"},
        lacks=("rolled_back", "committed"),
    ),
    DiffCase(
        "cycles",
        """
        class Node:
            def __init__(self, name):
                self.name, self.next, self.owner = name, self, [self]

        ODD = []

        def link(node, other):
            node.next = other if not ODD else node
            other.next = node

        def run():
            one, two = Node("one"), Node("two")
            link(one, two)
            assert one.next is two

        def test_good(): run()

        def test_bad():
            ODD.append(1)
            run()
        """,
        ("in link, which got the same arguments", "node.next: same as node | Node"),
        {"function": "test_cycles.link", "path": "node.next"},
    ),
    DiffCase(
        "big",
        """
        ODD = []

        def fill(rows, names, text):
            rows.extend(range(3000))
            rows[1700] = -1 if ODD else 1700
            names.update((f"key{n}", n) for n in range(500))
            return text * 300 + ("!" if ODD else ".") + text * 20

        def run():
            assert fill([], {}, "abcdefgh")[2400] == "."

        def test_good(): run()

        def test_bad():
            ODD.append(1)
            run()
        """,
        ("in fill, which got the same arguments", "return[2400:2550]: '!", "rows[1700]: -1 | 1700"),
        {"function": "test_big.fill"},
    ),
    DiffCase(
        "later",
        """
        ODD = []

        def first(n): return n + len(ODD)
        def second(n): return n - len(ODD)
        def third(n): return n

        def run():
            first(1)
            third(1)
            second(1)
            assert not ODD

        def test_good(): run()

        def test_bad():
            ODD.append(1)
            run()
        """,
        (
            "in first, which got",
            "return: 2 | 1",
            "later, not because of it:",
            "second",
            "return: 0",
        ),
        {"function": "test_later.first"},
        lacks=("third",),
    ),
    DiffCase(
        "inside_a_function",
        """
        ODD = []

        def first(n): return n + len(ODD)
        def second(n): return n - len(ODD)

        def run():
            first(1)
            second(1)
            assert not ODD

        def test_good(): run()

        def test_bad():
            ODD.append(1)
            run()
        """,
        ("in second, which got", "return: 0 | 1"),
        {"function": "test_inside_a_function.second"},
        asked={"function": "second"},
        lacks=("in first",),
    ),
    DiffCase(
        "ignored",
        """
        ODD = []

        class Row:
            def __init__(self, n):
                self.n, self.stamp = n, 0

        def mark(rows):
            for row in rows:
                row.stamp = len(ODD)

        def price(n): return n * 2 + len(ODD)

        def run():
            mark([Row(1), Row(2)])
            assert price(1) == 2

        def test_good(): run()

        def test_bad():
            ODD.append(1)
            run()
        """,
        ("in price, which got", "return: 3 | 2"),
        {"function": "test_ignored.price"},
        asked={"ignore": ["rows[*].stamp"]},
        lacks=("stamp",),
    ),
    DiffCase(
        "flaky",
        """
        import pathlib

        def count():
            file = pathlib.Path(__file__).with_suffix(".txt")
            seen = len(file.read_text()) if file.exists() else 0
            file.write_text("x" * (seen + 1))
            return seen

        def test_bad():
            assert count() % 2 == 1
        """,
        ("flaky: ", "(its second run)", "in count, which got the same arguments"),
        {"function": "test_flaky.count"},
        good=None,
    ),
    DiffCase(
        "strict",
        """
        import pytest

        @pytest.mark.xfail(strict=True)
        def test_bad(): pass

        def test_good(): pass
        """,
        ("only the outcomes differ: the same calls",),
        None,
        is_quick=True,
    ),
    DiffCase(
        "clock",
        """
        import pathlib

        ODD = []

        def ticks():
            # A clock that stands still for two runs.
            file = pathlib.Path(__file__).with_suffix(".txt")
            seen = len(file.read_text()) if file.exists() else 0
            file.write_text("x" * (seen + 1))
            return seen // 2

        def stamped(n):
            return {"n": n, "at": ticks()}

        def rate(n): return n + len(ODD)

        def run():
            stamped(1)
            assert rate(1) == 1

        def test_good(): run()

        def test_bad():
            ODD.append(1)
            run()
        """,
        ("in rate, which got the same arguments", "return: 2 | 1"),
        {"function": "test_clock.rate"},
        noise=True,
    ),
    DiffCase(
        "many_objects",
        """
        ODD = []

        class Cart:
            def __init__(self):
                self.rows, self.total = [{"n": n, "price": n * 2.5} for n in range(60)], 0

            def add(self, n):
                self.total += n
                return n

            def close(self):
                self.rows[3]["price"] = 1 if ODD else 2

        def run():
            cart = Cart()
            for n in range(2500):
                cart.add(n)
            cart.close()
            assert cart.rows[3]["price"] == 2

        def test_good(): run()

        def test_bad():
            ODD.append(1)
            run()
        """,
        ("in Cart.close, which got the same arguments", "self.rows[3]['price']: 1 | 2"),
        {"function": "test_many_objects.Cart.close"},
        asked={"timeout_s": 600},
        is_long=True,
    ),
    DiffCase(
        "threads_and_tasks",
        """
        import asyncio, threading

        ODD = []

        class Box:
            def __init__(self): self.seen = []

        def work(box, n):
            box.seen.append(n + len(ODD))

        async def step(box, n):
            await asyncio.sleep(0)
            box.seen.append(-n)
            return n

        async def both(box):
            await asyncio.gather(step(box, 1), step(box, 2))

        def run():
            box = Box()
            asyncio.run(both(box))
            thread = threading.Thread(target=work, args=(box, 3), name="helper")
            thread.start()
            thread.join()
            assert box.seen == [-1, -2, 3]

        def test_good(): run()

        def test_bad():
            ODD.append(1)
            run()
        """,
        ("in work, which got the same arguments", "box.seen[2]: 4 | 3"),
        {"function": "test_threads_and_tasks.work"},
    ),
    DiffCase(
        "cases_of_unittest",
        """
        import unittest

        class Base(unittest.TestCase):
            def setUp(self):
                self.stock = {"a": 1}

            def take(self, name):
                self.stock[name] -= 1
                return self.stock

        class TestStock(Base):
            limit = 0

            def test_good(self):
                self.assertEqual(self.take("a"), {"a": 0})

            def test_bad(self):
                self.take("a")
                self.assertEqual(self.take("a"), {"a": 0})
        """,
        ("of the same class", "take"),
        None,
        bad="TestStock::test_bad",
        good=None,
    ),
    DiffCase(
        "dies",
        """
        import os

        LIMIT = [3]

        def check(n):
            if n > LIMIT[0]:
                os._exit(3)
            return n

        def run():
            for n in range(3):
                check(n)

        def test_good(): run()

        def test_bad():
            LIMIT[0] = 1
            run()
        """,
        (
            "test_dies.py::test_bad  unfinished",
            "right: test_dies.py::test_good  passed",
            "in check, which got the same arguments",
            "left → 8  os._exit(3)",
        ),
        {"function": "test_dies.check", "path": "end", "line": 7},
        good=None,
    ),
    DiffCase(
        "passes",
        "def test_bad(): pass",
        ("test_passes.py::test_bad does not fail: passed 2 times",),
        good=None,
        refused="not_reproduced",
    ),
    DiffCase(
        "alone",
        "def test_bad(): assert False",
        ("no test near test_alone.py::test_bad passes: give one",),
        good=None,
        refused="not_reproduced",
    ),
)
