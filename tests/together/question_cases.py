"""Live cases of questions: a test each, what is asked of it, and what the answer has to say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    """A small program, and a question about it.

    Attributes:
        name: Its file is `test_NAME.py`.
        source: Of the file.
        asked: The arguments of `test_trace`, or of `test_source` with `of_source`.
        has: What stands in the text, or in the message of the refusal.
        lacks: What stands neither in the text nor in the rest of the reply.
        test: Behind the file in the node id.
        outcome: Of the test.
        refused: The error code, if there is no answer.
        is_quick: Whether the fast tier has it.
        of_source: Whether `test_source` is asked.
        settles: Whether the same is answered each time.
        has_short: What stands even in an answer of 500 characters.
    """

    name: str
    source: str
    has: tuple[str, ...]
    asked: dict[str, Any] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    test: str = "test_it"
    outcome: str = "passed"
    refused: str = ""
    is_quick: bool = False
    of_source: bool = False
    settles: bool = True
    has_short: tuple[str, ...] = ()

    @property
    def tool(self) -> str:
        return "test_source" if self.of_source else "test_trace"

    @property
    def function(self) -> str | None:
        name: str | None = self.asked.get("function")
        return name

    @property
    def nodeid(self) -> str:
        return f"test_{self.name}.py::{self.test}" if self.test else f"test_{self.name}.py"


PROGRAMS: tuple[Case, ...] = (
    # --- kinds of functions ---------------------------------------------------------------------
    Case(
        "recursion",
        """
        def down(n):
            if n == 0:
                return 0
            return down(n - 1) + 1

        def test_it():
            assert down(30) == 31
        """,
        ("down(n=30) → 30", "levels alike", "down(n=0) → 0", "assert"),
        outcome="failed",
    ),
    Case(
        "chosen",
        """
        def down(n):
            if n == 0:
                return 0
            below = down(n - 1)
            return below + 1

        def test_it():
            down(30)
        """,
        ("down(n=25) → 25", "call 6 of 31", "below=24", "down(n=24) → 24", "→ false"),
        {"function": "down", "call": 6},
        is_quick=True,
    ),
    Case(
        "generator",
        """
        def feed(start):
            total = start
            try:
                while True:
                    got = yield total
                    total += got
            except KeyError as error:
                yield f"caught {error}"
            finally:
                done = True

        def test_it():
            it = feed(10)
            next(it)
            it.send(5)
            it.send(7)
            it.throw(KeyError("stop"))
            it.close()
        """,
        (
            "yields 10  → got=5",
            "total=15",
            "yields 22",
            " closed",
            "✗ KeyError: 'stop'",
            "caught, error=KeyError('stop')",
        ),
        {"function": "feed"},
    ),
    Case(
        "generator_tree",
        """
        def numbers(most):
            for n in range(most):
                yield n

        def never_ended():
            yield 1
            yield 2

        KEPT = []

        def test_it():
            assert sum(numbers(100)) == 4950
            it = never_ended()
            next(it)
            KEPT.append(it)
        """,
        ("numbers(most=100) yields 100 items: 0, 1, …", "never_ended() yields 1 item: 1"),
    ),
    Case(
        "coroutine",
        """
        import asyncio

        async def fetch(n):
            await asyncio.sleep(0)
            if n == 2:
                raise ValueError("no route")
            return n * 10

        async def gather():
            found = await asyncio.gather(*[fetch(n) for n in range(4)], return_exceptions=True)
            return found

        def test_it():
            assert asyncio.run(gather()) == []
        """,
        ("gather()", "fetch(n=0) waits → 0", "fetch(n=2) waits ✗ ValueError: no route"),
        outcome="failed",
    ),
    Case(
        "coroutine_lines",
        """
        import asyncio

        async def fetch(n):
            before = n
            await asyncio.sleep(0)
            after = before * 10
            return after

        async def both():
            return await asyncio.gather(fetch(1), fetch(2))

        def test_it():
            assert asyncio.run(both()) == [10, 20]
        """,
        ("fetch(n=2) waits → 20", "before=2", "waits", "after=20", "call 2 of 2"),
        {"function": "fetch", "when": "n == 2"},
    ),
    Case(
        "trio",
        """
        import trio

        async def child(name, box):
            await trio.sleep(0)
            box.append(name)

        async def main():
            box = []
            async with trio.open_nursery() as nursery:
                nursery.start_soon(child, "a", box)
                nursery.start_soon(child, "b", box)
            return sorted(box)

        def test_it():
            assert trio.run(main) == ["a", "b"]
        """,
        ("main() waits", "child(name='a'", "child(name='b'", "→ ['a', 'b']"),
        settles=False,
    ),
    Case(
        "trio_lines",
        """
        import trio

        async def work(n):
            total = 0
            for each in range(n):
                await trio.lowlevel.checkpoint()
                total += each
            return total

        def test_it():
            assert trio.run(work, 50) == 1225
        """,
        ("work(n=50) waits", "50 rounds", "round 1:", "round 50", "total=1225"),
        {"function": "work"},
    ),
    Case(
        "async_generator",
        """
        import asyncio

        async def ticks(most):
            for n in range(most):
                await asyncio.sleep(0)
                yield n * n

        async def collect():
            return [each async for each in ticks(3)]

        def test_it():
            assert asyncio.run(collect()) == [0, 1, 4]
        """,
        ("ticks(most=3) yields 3 items: 0, 1, 4", "collect()", "→ [0, 1, 4]"),
    ),
    Case(
        "closure",
        """
        def counter(step):
            total = 0
            def add(n):
                nonlocal total
                total += n * step
                return total
            return add

        def test_it():
            add = counter(3)
            add(1)
            assert add(2) == 9
        """,
        ("counter.add(n=2) → 9", "call 2 of 2", "total=9", "nonlocal total"),
        {"function": "counter.add", "call": 2},
    ),
    Case(
        "decorators",
        """
        import functools

        def logged(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                return function(*args, **kwargs)
            return wrapper

        class Doubled:
            def __init__(self, function):
                self.function = function
                functools.update_wrapper(self, function)
            def __call__(self, *args):
                return self.function(*args) * 2

        @logged
        def plain(n, *, sign=1):
            return n * sign

        @Doubled
        def twice(n):
            return n + 1

        @functools.lru_cache
        def cached(n):
            return n

        def test_it():
            assert plain(3, sign=-1) == -3
            assert twice(2) == 6
            assert cached(1) == cached(1)
        """,
        (
            "wrapper(args=(3,), kwargs={'sign': -1}) → -3",
            "plain(n=3, sign=-1) → -3",
            "Doubled.__call__(args=(2,)) → 6",
            "twice(n=2) → 3",
            "cached(n=1) → 1",
        ),
    ),
    Case(
        "decorated_lines",
        """
        import functools

        def logged(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                return function(*args, **kwargs)
            return wrapper

        @logged
        def plain(n):
            m = n + 1
            return m

        def test_it():
            assert plain(3) == 4
        """,
        ("plain(n=3) → 4", "m=4", "@logged"),
        {"function": "plain"},
    ),
    Case(
        "property",
        """
        class Box:
            def __init__(self):
                self._size = 1

            @property
            def size(self):
                return self._size

            @size.setter
            def size(self, value):
                if value < 0:
                    raise ValueError("negative")
                self._size = value

            @classmethod
            def make(cls, size):
                box = cls()
                box.size = size
                return box

            @staticmethod
            def zero():
                return 0

        def test_it():
            box = Box.make(4)
            box.size = Box.zero()
            assert box.size == 0
        """,
        ("Box.make(size=4) → ", "Box.size(value=4)", "Box.size() → 0", "Box.zero() → 0"),
    ),
    Case(
        "setter_lines",
        """
        class Box:
            def __init__(self):
                self._size = 1

            @property
            def size(self):
                return self._size

            @size.setter
            def size(self, value):
                self._size = value

        def test_it():
            box = Box()
            box.size = box.size + 6
        """,
        ("Box.size(self=", "value=7", "self._size=7"),
        {"function": "Box.size", "call": 2},
    ),
    # --- exceptions -----------------------------------------------------------------------------
    Case(
        "exceptions",
        """
        class Lost(Exception):
            pass

        def deep(n):
            raise Lost(f"no {n}")

        def middle(n):
            return deep(n)

        def outer(n):
            try:
                return middle(n)
            except Lost as error:
                return str(error)

        def test_it():
            assert outer(3) == "no 3"
            outer(4)
            middle(5)
        """,
        (
            "deep(n=3) ✗ test_exceptions.Lost: no 3",
            "outer(n=3) → 'no 3'",
            "middle(n=5) ✗ test_exceptions.Lost: no 5",
        ),
        outcome="failed",
    ),
    Case(
        "caught_lines",
        """
        def deep(n):
            raise LookupError(f"no {n}")

        def outer(n):
            found = None
            try:
                found = deep(n)
            except ValueError:
                found = "other"
            except LookupError as error:
                found = str(error)
            finally:
                done = True
            return found

        def test_it():
            assert outer(3) == "no 3"
        """,
        ("✗ LookupError: no 3", "no match", "caught", "found='no 3'", "done=True"),
        {"function": "outer"},
        lacks=("del error",),
    ),
    # --- loops and counts -----------------------------------------------------------------------
    Case(
        "loop",
        """
        def total(prices):
            found = 0
            for at, price in enumerate(prices):
                if price < 0:
                    found -= 1
                    continue
                found += price
            return found

        def test_it():
            prices = [1] * 10_000
            prices[7_654] = -5
            assert total(prices) == 9_998
        """,
        ("10,000 rounds", "round 7655", "price=-5", "→ true", "found=7653"),
        {"function": "total"},
    ),
    Case(
        "calls",
        """
        def parse(text):
            try:
                return int(text)
            except ValueError:
                return None

        def test_it():
            texts = ["1"] * 10_000
            texts[7_654] = "x"
            assert None not in [parse(text) for text in texts]
        """,
        ("×10,000", "#7655 parse(text='x') → None", "#10000 parse"),
        outcome="failed",
    ),
    Case(
        "many",
        """
        def leaf(n):
            return n % 7

        def branch(n):
            return leaf(n) + leaf(n + 1)

        def test_it():
            assert sum(branch(n) for n in range(40_000)) == 0
        """,
        ("100,000 calls", "branch(n=0)", "leaf(n="),
        outcome="failed",
    ),
    Case(
        "when",
        """
        def price(item, count=1):
            cost = len(item) * count
            return cost

        def test_it():
            for count in range(50):
                price("abc", count)
        """,
        ("price(item='abc', count=42) → 126", "call 43 of 50", "cost=126"),
        {"function": "price", "when": "count * 2 == 84"},
    ),
    Case(
        "when_never",
        """
        def price(count):
            return count

        def test_it():
            for count in range(50):
                price(count)
        """,
        ("none of 50 calls", "ZeroDivisionError"),
        {"function": "price", "when": "1 / (count - count) > 3"},
        refused="invalid_parameter",
    ),
    Case(
        "call_beyond",
        """
        def price(count):
            return count

        def test_it():
            price(1)
            price(2)
        """,
        ("price has 2 calls", "none with number 3"),
        {"function": "price", "call": 3},
        refused="invalid_parameter",
    ),
    Case(
        "deep_tree",
        "\n".join(
            [f"def f{n}(x):\n    return f{n + 1}(x + {n})\n" for n in range(30)]
            + ["def f30(x):\n    raise KeyError(x)\n", "def test_it():\n    f0(1)\n"]
        ),
        ("f0(x=1) ✗ KeyError: 436", "f29(x=407)", "f30(x=436) ✗ KeyError: 436"),
        has_short=("f0(x=1)", "f29(x=407)", "f30(x=436) ✗ KeyError: 436  test_deep_tree.py:91"),
        outcome="failed",
    ),
)
