"""Programs with a seeded bug, of many kinds, and which function has it."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Seeded:
    """A small program of which some tests fail.

    Attributes:
        name: Of its package; its tests are in `NAME/test_NAME.py`.
        source: Of `NAME/code.py`, which the tests have as `code`.
        tests: Of the test file.
        faulty: Qualified name of the function with the bug, `file::name` if it is not in `source`.
        failed: How many tests fail.
        passed: How many pass.
        has: What stands in the text.
        lacks: Functions that are not ranked at all.
        only: Whether the faulty function is the first one.
    """

    name: str
    source: str
    tests: str
    faulty: str
    failed: int = 1
    passed: int = 1
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    is_first: bool = True
    more: dict[str, str] = field(default_factory=dict)

    def files(self) -> dict[str, str]:
        """Path from the rootdir → text."""
        head = f"import pytest\nfrom {self.name} import code\n"
        files = {
            f"{self.name}/__init__.py": "",
            f"{self.name}/code.py": textwrap.dedent(self.source),
            f"{self.name}/test_{self.name}.py": head + textwrap.dedent(self.tests),
        }
        return files | {
            f"{self.name}/{path}": textwrap.dedent(text) for path, text in self.more.items()
        }


BUGS: tuple[Seeded, ...] = (
    Seeded(
        "branch",
        """
        def total(prices, coupon=None):
            return sum(map(price, prices)) - (discount(prices, coupon) if coupon else 0)

        def price(each):
            return each * 2

        def discount(prices, coupon):
            return rate(coupon) + 1

        def rate(coupon):
            return len(coupon)
        """,
        """
        def test_plain(): assert code.total([1, 2]) == 6
        def test_none(): assert code.total([]) == 0
        def test_coupon(): assert code.total([1, 2], "ab") == 4
        """,
        "discount",
        passed=2,
        has=("1.00  discount  branch/code.py:8  1 of 1 failing, 0 of 2 passing",),
        is_first=False,
    ),
    Seeded(
        "helper",
        """
        def parse(text):
            return [field(each) for each in text.split(",")]

        def field(text):
            return number(text) if text.strip().isdigit() else text

        def number(text):
            return int(text) + 1

        def joined(fields):
            return ",".join(fields)
        """,
        """
        def test_words(): assert code.parse("a,b") == ["a", "b"]
        def test_empty(): assert code.parse("") == [""]
        def test_joined(): assert code.joined(code.parse("a,b")) == "a,b"
        def test_number(): assert code.parse("1") == [1]
        def test_mixed(): assert code.parse("a,2") == ["a", 2]
        """,
        "number",
        failed=2,
        passed=3,
        lacks=("joined",),
    ),
    Seeded(
        "shared_fixture",
        """
        def connect():
            return dict(opened())

        def opened():
            return {"users": []}

        def close(connection):
            return finish(connection)

        def finish(connection):
            connection.clear()

        def plain(): return 1
        """,
        """
        @pytest.fixture(scope="module")
        def connection():
            made = code.connect()
            yield made
            code.close(made)

        def test_a_passes_without(): assert code.plain() == 1
        def test_b_also_passes(): assert code.plain()
        def test_c_first_user(connection): assert connection["admins"] == []
        def test_d_second_user(connection): assert connection["users"] == ["root"]
        """,
        "opened",
        failed=2,
        passed=2,
        has=("opened  shared_fixture/code.py:5  2 of 2 failing, 0 of 2 passing",),
        lacks=("close", "finish"),  # run behind the failures
        is_first=False,
    ),
    Seeded(
        "masked_fixture",
        """
        def load():
            return {"size": 2}

        def size_of(table):
            return table["size"] + 1

        def name_of(table):
            return "table"
        """,
        """
        @pytest.fixture(scope="session")
        def table():
            return code.load()

        def test_name(table): assert code.name_of(table) == "table"
        def test_size(table): assert code.size_of(table) == 2
        def test_no_table(): assert True
        """,
        "size_of",
        passed=2,
        has=("load  masked_fixture/code.py:2  1 of 1 failing, 1 of 2 passing",),
    ),
    Seeded(
        "classes",
        """
        class Account:
            def __init__(self): self.money = 0
            def put(self, money): self.money += money
            def take(self, money): self.money -= fee(money)
            def close(self): self.money = 0

        def fee(money):
            return money + 1
        """,
        """
        import unittest

        class TestAccount:
            def setup_method(self): self.account = code.Account()
            def test_put(self):
                self.account.put(2)
                assert self.account.money == 2
            def test_close(self):
                self.account.close()
                assert not self.account.money

        class TestOther:
            class TestTaking:
                def test_take(self):
                    account = code.Account()
                    account.put(2)
                    account.take(1)
                    assert account.money == 1

        class Case(unittest.TestCase):
            @classmethod
            def setUpClass(cls): cls.account = code.Account()
            def test_one(self): self.assertEqual(self.account.money, 0)
            def test_two(self): self.account.take(0); self.assertEqual(self.account.money, 0)
        """,
        "fee",
        failed=2,
        passed=3,
        has=(
            "classes/test_classes.py::TestOther::TestTaking::test_take  assert 0 == 1",
            "Account.take",
        ),
        is_first=False,
    ),
    Seeded(
        "parametrized",
        """
        def days(month):
            return 28 if month == 2 else short() if month in (4, 6, 9, 11) else long()

        def short(): return 31
        def long(): return 31
        """,
        """
        @pytest.mark.parametrize("month, count", [(1, 31), (2, 28), (3, 31), (4, 30), (6, 30)])
        def test_days(month, count): assert code.days(month) == count
        """,
        "short",
        failed=2,
        passed=3,
        has=("1.00  short  parametrized/code.py:5  2 of 2 failing, 0 of 3 passing",),
    ),
    Seeded(
        "setup_error",
        """
        def server(port):
            return bind(port)

        def bind(port):
            if port < 1024:
                raise PermissionError(port)
            return port

        def client(): return 1
        """,
        """
        @pytest.fixture
        def low(): return code.server(80)

        @pytest.fixture
        def high(): return code.server(8080)

        def test_low(low): assert low
        def test_low_again(low, high): assert low
        def test_high(high): assert high
        def test_client(): assert code.client()
        """,
        "bind",
        failed=2,
        passed=2,
        has=("setup: PermissionError: 80", "in test files:", "1.00  low  setup_error/test_"),
    ),
    Seeded(
        "failing_shared_fixture",
        """
        def connect(): return resolve("db")
        def resolve(name): raise LookupError(name)
        def local(): return 1
        """,
        """
        @pytest.fixture(scope="session")
        def connection(): return code.connect()

        def test_one(connection): pass
        def test_two(connection): pass
        def test_local(): assert code.local()
        """,
        "resolve",
        failed=2,
        has=("1.00  resolve  failing_shared_fixture/code.py:3  2 of 2 failing, 0 of 1 passing",),
    ),
    Seeded(
        "teardown_error",
        """
        def opened(): return []
        def closed(file): flush(file)
        def flush(file): return file[0]
        """,
        """
        @pytest.fixture
        def file():
            made = code.opened()
            yield made
            code.closed(made)

        def test_writes(file): file.append(1)
        def test_reads(file): assert not file
        def test_opens(): assert code.opened() == []
        """,
        "flush",
        passed=2,
        has=("teardown: IndexError",),
    ),
    Seeded(
        "at_import",
        """
        def table(size):
            return [row(n) for n in range(size)]

        def row(n):
            return n * n + (n > 2)

        SMALL = table(3)

        def square(n): return SMALL[n] if n < 3 else row(n)
        """,
        """
        def test_zero(): assert code.square(0) == 0
        def test_two(): assert code.square(2) == 4
        def test_late():
            from at_import import late
            assert late.ONE == 1
        def test_nine(): assert code.square(3) == 9
        """,
        "row",
        passed=3,
        has=("1.00  row  at_import/code.py:5  1 of 1 failing, 0 of 3 passing",),
        lacks=("table",),
        more={"late.py": "from at_import.code import row\nONE = row(1)\n"},
    ),
    Seeded(
        "generators",
        """
        def pages(items, size):
            for at in range(0, len(items), size):
                yield cut(items, at, size)

        def cut(items, at, size):
            return items[at : at + size - (at > 0)]

        def merged(items):
            yield from items
        """,
        """
        def test_merged(): assert list(code.merged([1])) == [1]
        def test_none(): assert list(code.pages([], 2)) == []
        def test_pages(): assert list(code.pages([1, 2, 3, 4], 2)) == [[1, 2], [3, 4]]
        """,
        "cut",
        passed=2,
    ),
    Seeded(
        "coroutines",
        """
        import asyncio

        async def fetch(url):
            await asyncio.sleep(0)
            return await decode(url) if url.startswith("gzip:") else url

        async def decode(text):
            await asyncio.sleep(0)
            return text.removeprefix("gzip")
        """,
        """
        import asyncio

        def test_plain(): assert asyncio.run(code.fetch("a")) == "a"
        def test_other(): assert asyncio.run(code.fetch("b")) == "b"
        def test_gzip(): assert asyncio.run(code.fetch("gzip:a")) == "a"
        """,
        "decode",
        passed=2,
    ),
    Seeded(
        "threads",
        """
        import threading

        RESULTS = []

        def work(n):
            RESULTS.append(doubled(n) if n else 0)

        def doubled(n): return n * 3

        def start(n):
            RESULTS.clear()
            thread = threading.Thread(target=work, args=(n,))
            thread.start()
            thread.join()
            return RESULTS
        """,
        """
        def test_zero(): assert code.start(0) == [0]
        def test_again(): assert code.start(0) == [0]
        def test_one(): assert code.start(1) == [2]
        """,
        "doubled",
        passed=2,
    ),
    Seeded(
        "in_traceback",
        """
        def alpha(): return 1
        def beta(): return 1
        def gamma(): return 1
        def omega(n): return delta(n)
        def delta(n): return 1 // n
        def zeta(): return 1
        """,
        """
        def test_all():
            code.alpha(), code.beta(), code.gamma()
            try:
                code.omega(0)
            except ZeroDivisionError as error:
                raise RuntimeError("wrapped") from error
        def test_zeta(): assert code.zeta()
        """,
        "delta",
        has=("1.00  delta", "1.00  omega"),
    ),
    Seeded(
        "faulty_fixture",
        """
        def length(text): return len(text)
        """,
        """
        @pytest.fixture
        def text(): return "ab" + filling()

        def filling(): return "c"

        def test_two(text): assert code.length(text) == 2
        def test_length(): assert code.length("") == 0
        """,
        "faulty_fixture/test_faulty_fixture.py::filling",
        has=("in test files:",),
        is_first=False,
    ),
    Seeded(
        "in_conftest",
        """
        def length(text): return len(text)
        """,
        """
        def test_two(text): assert code.length(text) == 2
        def test_length(): assert code.length("") == 0
        """,
        "in_conftest/conftest.py::text",
        has=("in test files:", "1.00  text  in_conftest/conftest.py:3"),
        is_first=False,
        more={"conftest.py": "import pytest\n\n@pytest.fixture\ndef text(): return 'abc'\n"},
    ),
    Seeded(
        "values",
        """
        def price(kilos): return scaled(kilos) * 2
        def scaled(kilos): return min(kilos, 10)
        """,
        """
        def test_light(): assert code.price(1) == 2
        def test_heavy(): assert code.price(20) == 40
        """,
        "scaled",
        has=("failing tests ran no function more than passing tests did",),
        is_first=False,
    ),
    Seeded(
        "nothing_of_ours",
        "def unused(): pass\n",
        """
        def made(): return 3

        def test_good(): assert True
        def test_bad(): assert made() == 2
        """,
        "nothing_of_ours/test_nothing_of_ours.py::made",
        has=("failing tests ran no function of your code outside of test files",),
    ),
    Seeded(
        "outcomes",
        """
        def good(): return 1
        def bad(): return 2
        def rare(): return 3
        """,
        """
        def test_good(): assert code.good()
        def test_bad(): assert code.bad() == 1
        @pytest.mark.skip(reason="not today")
        def test_skipped(): code.rare()
        @pytest.mark.xfail(reason="known")
        def test_expected(): assert code.bad() == 1
        @pytest.mark.xfail(reason="known")
        def test_unexpected(): assert code.good()
        """,
        "bad",
        passed=2,
        has=("5 tests: 1 failed, 2 passed, 2 neither", "1.00  bad"),
        lacks=("good", "rare"),
    ),
)
