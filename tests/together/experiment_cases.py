"""Small programs with one bug each, its fix as a patch and as a replacement, and a wrong constant.

The first test of each fails by the bug; the others pass, before and after the fix.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A program.

    Attributes:
        name: Of its modules: `NAME.py` and `test_NAME.py`.
        source: Of the module.
        tests: Of the test file, without its import.
        patch: What is wrong in the module, and what is right.
        replace: The function with the bug, and one without it.
        constant: What the function is never to return for the failing test.
    """

    name: str
    source: str
    tests: str
    patch: tuple[str, str]
    replace: tuple[str, str]
    constant: object

    @property
    def failing(self) -> str:
        """The failing test."""
        return f"test_{self.name}.py::test_it"


CASES = (
    Case(
        "rounding",
        """
        def share(total, parts):
            return total // parts

        def shares(total, parts):
            each = share(total, parts)
            return [each] * parts
        """,
        """
        def test_it():
            assert rounding.shares(10, 4) == [2.5] * 4

        def test_even():
            assert rounding.shares(8, 2) == [4, 4]
        """,
        ("total // parts", "total / parts"),
        ("rounding.share", "lambda total, parts: total / parts"),
        7,
    ),
    Case(
        "offbyone",
        """
        def last(items, count):
            return items[-count + 1:]
        """,
        """
        def test_it():
            assert offbyone.last([1, 2, 3], 2) == [2, 3]

        def test_type():
            assert isinstance(offbyone.last([1], 1), list)
        """,
        ("-count + 1:", "-count:"),
        ("last", "def last(items, count):\n    return items[-count:]"),
        [3],
    ),
    Case(
        "default",
        """
        def add(item, bucket=[]):
            bucket.append(item)
            return bucket
        """,
        """
        def test_it():
            default.add(1)
            assert default.add(2) == [2]

        def test_given():
            assert default.add(1, [0]) == [0, 1]
        """,
        (
            "bucket=[]):\n",
            "bucket=None):\n    bucket = [] if bucket is None else bucket\n",
        ),
        (
            "default.add",
            "lambda item, bucket=(): [*(bucket if type(bucket) is list and "
            "bucket[:1] == [0] else ()), item]",
        ),
        [1, 2, 3],
    ),
    Case(
        "aliasing",
        """
        class Order:
            def __init__(self, lines):
                self.lines = lines

            def add(self, line):
                self.lines.append(line)
        """,
        """
        def test_it():
            lines = ["a"]
            order = aliasing.Order(lines)
            order.add("b")
            assert lines == ["a"]

        def test_add():
            order = aliasing.Order([])
            order.add("x")
            assert order.lines == ["x"]
        """,
        ("self.lines = lines", "self.lines = list(lines)"),
        (
            "aliasing.Order.__init__",
            "def __init__(self, lines):\n    self.lines = list(lines)",
        ),
        None,
    ),
    Case(
        "swallowed",
        """
        def parse(text):
            try:
                return int(text)
            except Exception:
                return 0

        def total(texts):
            return sum(map(parse, texts))
        """,
        """
        def test_it():
            assert swallowed.total(["1", "2,5"]) == 3.5

        def test_whole():
            assert swallowed.total(["1", "2"]) == 3
        """,
        ("return int(text)", 'return float(text.replace(",", "."))'),
        ("swallowed.parse", "lambda text: float(text.replace(',', '.'))"),
        9,
    ),
    Case(
        "cache",
        """
        _known = {}

        def price(name, table):
            if name not in _known:
                _known[name] = table[name]
            return _known[name]
        """,
        """
        def test_it():
            assert cache.price("a", {"a": 1}) == 1
            assert cache.price("a", {"a": 2}) == 2

        def test_one():
            assert cache.price("b", {"b": 3}) == 3
        """,
        ("if name not in _known:\n        _known", "if True:\n        _known"),
        ("cache.price", "lambda name, table: table[name]"),
        1,
    ),
    Case(
        "comparison",
        """
        def may_enter(age):
            return age > 18

        class Door:
            def __init__(self):
                self.inside = []

            def let_in(self, name, age):
                if may_enter(age):
                    self.inside.append(name)
        """,
        """
        def test_it():
            door = comparison.Door()
            door.let_in("a", 18)
            door.let_in("b", 17)
            assert door.inside == ["a"]

        def test_old():
            door = comparison.Door()
            door.let_in("c", 40)
            assert door.inside == ["c"]
        """,
        ("age > 18", "age >= 18"),
        ("comparison.may_enter", "lambda age: age >= 18"),
        True,
    ),
    Case(
        "generated",
        """
        def chunks(items, size):
            for start in range(0, len(items) - size + 1, size):
                yield items[start:start + size]
        """,
        """
        def test_it():
            assert list(generated.chunks("abcde", 2)) == ["ab", "cd", "e"]

        def test_even():
            assert list(generated.chunks("abcd", 2)) == ["ab", "cd"]
        """,
        ("len(items) - size + 1", "len(items)"),
        (
            "generated.chunks",
            "def chunks(items, size):\n"
            "    for start in range(0, len(items), size):\n"
            "        yield items[start:start + size]",
        ),
        ["ab"],
    ),
    Case(
        "waiting",
        """
        import asyncio

        async def fetch(name):
            await asyncio.sleep(0)
            return {"name": name, "size": len(name) + 1}

        async def sizes(names):
            found = await asyncio.gather(*map(fetch, names))
            return [each["size"] for each in found]
        """,
        """
        import asyncio

        def test_it():
            assert asyncio.run(waiting.sizes(["a", "bb"])) == [1, 2]

        def test_none():
            assert asyncio.run(waiting.sizes([])) == []
        """,
        ("len(name) + 1", "len(name)"),
        (
            "waiting.fetch",
            "async def fetch(name):\n"
            "    await asyncio.sleep(0)\n"
            "    return {'name': name, 'size': len(name)}",
        ),
        {"size": 5},
    ),
    Case(
        "inherited",
        """
        class Base:
            rate = 2

            def cost(self, hours):
                return hours * Base.rate

        class Special(Base):
            rate = 3
        """,
        """
        def test_it():
            assert inherited.Special().cost(2) == 6

        def test_base():
            assert inherited.Base().cost(2) == 4
        """,
        ("hours * Base.rate", "hours * self.rate"),
        ("inherited.Base.cost", "def cost(self, hours):\n    return hours * self.rate"),
        5,
    ),
    Case(
        "closures",
        """
        def makers(numbers):
            return [lambda: number for number in numbers]

        def values(numbers):
            return [make() for make in makers(numbers)]
        """,
        """
        def test_it():
            assert closures.values([1, 2, 3]) == [1, 2, 3]

        def test_one():
            assert closures.values([4]) == [4]
        """,
        ("lambda: number for", "lambda number=number: number for"),
        (
            "closures.makers",
            "lambda numbers: [(lambda number=number: number) for number in numbers]",
        ),
        [],
    ),
    Case(
        "wrapped",
        """
        import functools

        def doubled(function):
            @functools.wraps(function)
            def wrapper(*args):
                return function(*args) * 3
            return wrapper

        @doubled
        def size(text):
            return len(text)
        """,
        """
        def test_it():
            assert wrapped.size("ab") == 4

        def test_empty():
            assert wrapped.size("") == 0
        """,
        ("* 3", "* 2"),
        ("wrapped.doubled.<locals>.wrapper", "def wrapper(*args):\n    return len(args[0]) * 2"),
        5,
    ),
    Case(
        "static",
        """
        class Text:
            @staticmethod
            def clean(text):
                return text.strip().upper()

            @classmethod
            def joined(cls, parts):
                return "-".join(cls.clean(each) for each in parts)
        """,
        """
        def test_it():
            assert static.Text.joined([" a", "b "]) == "a-b"

        def test_none():
            assert static.Text.joined([]) == ""
        """,
        (".strip().upper()", ".strip()"),
        ("static.Text.clean", "lambda text: text.strip()"),
        "c",
    ),
    Case(
        "resource",
        """
        class Pool:
            def __init__(self):
                self.busy = False

            def use(self, work):
                self.busy = True
                result = work()
                self.busy = False
                return result
        """,
        """
        import pytest

        def test_it():
            pool = resource.Pool()
            with pytest.raises(ZeroDivisionError):
                pool.use(lambda: 1 / 0)
            assert not pool.busy

        def test_use():
            assert resource.Pool().use(lambda: 3) == 3
        """,
        (
            "result = work()\n        self.busy = False\n        return result",
            "try:\n            return work()\n        finally:\n            self.busy = False",
        ),
        (
            "resource.Pool.use",
            "def use(self, work):\n"
            "    self.busy = True\n"
            "    try:\n"
            "        return work()\n"
            "    finally:\n"
            "        self.busy = False",
        ),
        1,
    ),
    Case(
        "threads",
        """
        import threading

        def tally(words):
            counts = {}

            def count(part):
                for word in part:
                    counts[word] = 1

            workers = [threading.Thread(target=count, args=(words[at::2],)) for at in range(2)]
            for each in workers:
                each.start()
                each.join()
            return counts
        """,
        """
        def test_it():
            assert threads.tally(["a", "a", "b"]) == {"a": 2, "b": 1}

        def test_single():
            assert threads.tally(["c"]) == {"c": 1}
        """,
        ("counts[word] = 1", "counts[word] = counts.get(word, 0) + 1"),
        (
            "threads.tally",
            "def tally(words):\n    return {word: words.count(word) for word in words}",
        ),
        {"$literal": {"a": 1}},
    ),
    Case(
        "properties",
        """
        class Box:
            def __init__(self, width, height):
                self.width = width
                self.height = height

            @property
            def area(self):
                return self.width + self.height
        """,
        """
        def test_it():
            assert properties.Box(3, 4).area == 12

        def test_square():
            assert properties.Box(2, 2).area == 4
        """,
        ("self.width + self.height", "self.width * self.height"),
        ("properties.Box.area", "lambda self: self.width * self.height"),
        13,
    ),
)
