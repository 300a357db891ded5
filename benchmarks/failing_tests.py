"""A project of failing tests of many kinds: `benchmarks.replies` measures the replies to them."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Final

FILES: Final = {
    "pytest.ini": """\
        [pytest]
        """,
    "store/__init__.py": "",
    "store/orders.py": '''\
        """Orders of a store."""

        from __future__ import annotations

        import json
        from dataclasses import dataclass, field


        class PriceError(Exception):
            """A price can't be used."""


        @dataclass
        class Item:
            name: str
            price: float
            tags: list[str] = field(default_factory=list)


        @dataclass
        class Order:
            number: int
            customer: str
            items: list[Item]
            express: bool = False

            def total(self) -> float:
                return sum(priced(item) for item in self.items)


        def priced(item: Item) -> float:
            return checked(item, item.price)


        def checked(item: Item, price: float) -> float:
            limit = 1_000
            if price < 0:
                raise PriceError(f"{item.name} costs {price}, which is below 0 (limit {limit})")
            return price


        def report(orders: list[Order]) -> dict[str, object]:
            lines = {}
            for order in orders:
                lines[f"order {order.number}"] = {
                    "customer": order.customer,
                    "count": len(order.items),
                    "express": order.express,
                }
            return {"lines": lines, "total": len(orders), "currency": "EUR"}


        def shipping(weight: int) -> int:
            if weight > 20:
                return 9
            return 4 + weight // 10


        def parsed(text: str) -> Order:
            data = json.loads(text)
            items = [Item(**item) for item in data["items"]]
            return Order(data["number"], data["customer"], items)


        def loaded(path: str, texts: dict[str, str]) -> Order:
            try:
                return parsed(texts[path])
            except KeyError as error:
                failed = PriceError(f"order {path} is incomplete")
                failed.add_note("orders are exported at night")
                raise failed from error


        def letter(order: Order) -> str:
            rows = [f"{item.name:.<40}{item.price:8.2f}" for item in order.items]
            return "\\n".join([f"Dear {order.customer},", "", *rows, "", "Yours, the store"])
        ''',
    "store/jobs.py": '''\
        """What runs at night."""

        from __future__ import annotations

        import asyncio
        import logging
        import subprocess
        import sys

        log = logging.getLogger("store")


        async def fetched(name: str, delay: float) -> int:
            await asyncio.sleep(delay)
            if name == "rates":
                raise ConnectionError(f"{name} did not answer within {delay} s")
            return len(name)


        async def all_fetched(names: list[str]) -> dict[str, int]:
            results = {}
            for name in names:
                results[name] = await fetched(name, 0.01)
            return results


        def exported(count: int) -> int:
            code = f"import sys; print('exporting {count} orders'); sys.exit({count} > 2)"
            done = subprocess.run([sys.executable, "-c", code], check=False)
            log.warning("export of %d orders ended with %d", count, done.returncode)
            return done.returncode


        def cleaned(names: list[str]) -> None:
            errors: list[Exception] = []
            for name in names:
                try:
                    int(name)
                except ValueError as error:
                    errors.append(error)
            if errors:
                raise ExceptionGroup("not cleaned", errors)
        ''',
    "tests/conftest.py": """\
        import pytest

        from store.orders import Item, Order


        @pytest.fixture(scope="session")
        def currency():
            return "EUR"


        @pytest.fixture
        def order(currency):
            lamp, desk = Item("lamp", 19.5, ["new"]), Item("desk", 120.0, ["used", "heavy"])
            return Order(7, "Ann", [lamp, desk])


        @pytest.fixture
        def warehouse(order):
            raise LookupError(f"no warehouse has order {order.number}")


        @pytest.fixture
        def ledger(order, tmp_path):
            path = tmp_path / "ledger.txt"
            path.write_text(str(order.number))
            yield path
            assert path.read_text() == "7\\n", "the ledger must end with a newline"
        """,
    "tests/test_store.py": """\
        import asyncio
        import json
        import unittest

        import pytest

        from store import jobs, orders


        def test_big_dicts(order):
            many = [orders.Order(n, f"customer {n}", order.items, n == 5) for n in range(12)]
            expected = {
                "lines": {
                    f"order {n}": {"customer": f"customer {n}", "count": 2, "express": False}
                    for n in range(12)
                },
                "total": 12,
                "currency": "EUR",
            }
            assert orders.report(many) == expected


        def test_deep(order):
            order.items.append(orders.Item("refund", -5.0))
            assert order.total() == 134.5


        def test_fixture_error(warehouse):
            assert warehouse.stock == 3


        @pytest.mark.parametrize(("weight", "price"), [(1, 4), (10, 5), (20, 6), (21, 7)])
        def test_parametrized(weight, price, currency):
            assert orders.shipping(weight) == price, f"in {currency}"


        def test_async():
            names = ["prices", "stock", "rates"]
            found = asyncio.run(jobs.all_fetched(names))
            assert found["stock"] == 5


        def test_subprocess(capfd, monkeypatch):
            monkeypatch.setenv("STORE_EXPORT", "1")
            print("before the export")
            assert jobs.exported(3) == 0


        def test_printed_and_logged(order):
            for item in order.items:
                print("checking", item.name)
            jobs.log.error("no stock for order %d", order.number)
            assert order.express


        def test_long_strings(order):
            want = orders.letter(order).replace("19.50", "19.05")
            assert orders.letter(order) == want


        def test_dataclasses(order):
            again = orders.parsed(
                '{"number": 7, "customer": "Ann", "items": '
                '[{"name": "lamp", "price": 19.5, "tags": ["new"]},'
                ' {"name": "desk", "price": 102.0, "tags": ["used", "heavy"]}]}'
            )
            assert again == order


        def test_chained():
            texts = {"a": '{"number": 1, "items": []}'}
            order = orders.loaded("a", texts)
            assert order.number == 1


        def test_library():
            text = '{"number": 1, "customer": Ann}'
            order = orders.parsed(text)
            assert order.customer == "Ann"


        def test_group():
            jobs.cleaned(["1", "two", "3", "four"])


        def test_close(order):
            share = order.total() / 3
            assert share == pytest.approx(46.4)


        def test_not_raised(order):
            with pytest.raises(orders.PriceError):
                order.total()


        def test_said():
            known = sorted(json.loads("[3, 1, 2]"))
            if known != [1, 2, 4]:
                pytest.fail(f"unexpected numbers: {known}")


        def test_teardown(ledger):
            assert ledger.exists()


        def test_error_of_a_name(order, tmp_path):
            copy = {"order": order, "folder": tmp_path.name}
            assert copy["orders"].number == 7


        class TestStore(unittest.TestCase):
            def setUp(self):
                self.items = [orders.Item("lamp", 19.5), orders.Item("desk", 120.0)]

            def test_unittest(self):
                names = [item.name for item in self.items]
                self.assertEqual(names, ["lamp", "chair"])
        """,
}
"""Path → text of the project."""

NODEIDS: Final = (
    "tests/test_store.py::test_big_dicts",
    "tests/test_store.py::test_deep",
    "tests/test_store.py::test_fixture_error",
    "tests/test_store.py::test_parametrized",
    "tests/test_store.py::test_async",
    "tests/test_store.py::test_subprocess",
    "tests/test_store.py::test_printed_and_logged",
    "tests/test_store.py::test_long_strings",
    "tests/test_store.py::test_dataclasses",
    "tests/test_store.py::test_chained",
    "tests/test_store.py::test_library",
    "tests/test_store.py::test_group",
    "tests/test_store.py::test_close",
    "tests/test_store.py::test_not_raised",
    "tests/test_store.py::test_said",
    "tests/test_store.py::test_teardown",
    "tests/test_store.py::test_error_of_a_name",
    "tests/test_store.py::TestStore::test_unittest",
)
"""Each fails; a run of one of them is paused at its first failure."""


def write_project(folder: Path) -> None:
    """Write the files into a folder."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
