"""Kinds of code whose lines are noted: a line ends with `# +` if the statement there has to run.

A statement over several lines is marked at its first line, and so is the body of a class. What is
not marked must not be noted.
"""

from __future__ import annotations

from textwrap import dedent
from typing import Final

_SOURCES: Final[dict[str, str]] = {
    "branches": """
        def kind(n):
            if n < 0:  # +
                return "negative"
            elif n == 0:  # +
                return "zero"
            elif n == 1:  # +
                text = "one"  # +
            else:
                text = "many"
            return text  # +

        def test_it():
            assert kind(1) == "one"  # +
    """,
    "ternary": """
        def kind(n):
            one = "a" if n else "b"  # +
            more = (  # +
                "a"
                if n
                else "b"
            )
            return one and more or n  # +

        def test_it():
            assert kind(0) == "b"  # +
    """,
    "loops": """
        def first(items, wanted):
            for item in items:  # +
                if item == wanted:  # +
                    break  # +
                if item < 0:  # +
                    continue
            else:
                return None
            for _ in ():  # +
                item += 1
            else:
                item += 2  # +
            while item > 3:  # +
                item -= 1  # +
            while False:  # +
                pass
            return item  # +

        def test_it():
            assert first([1, 2, 3], 2) == 3  # +
    """,
    "errors": """
        def read(text):
            try:  # +
                value = int(text)  # +
            except TypeError:  # +
                value = 0
            except (  # +
                ValueError,  # no statement
                KeyError,
            ) as error:
                value = len(str(error)) and 1  # +
            else:
                value = 2
            finally:
                value += 1  # +
            return value  # +

        def passes():
            try:  # +
                value = 1  # +
            except ValueError:
                value = 2
            else:
                value += 1  # +
            return value  # +

        def fails():
            value = 1  # +
            raise ValueError(value)  # +
            value = 2

        def test_it():
            assert read("x") == 2  # +
            passes()  # +
            try:  # +
                fails()  # +
            except ValueError:  # +
                pass  # +
    """,
    "matches": """
        def kind(it):
            match it:  # +
                case 0:  # +
                    return "zero"
                case [first, *_]:  # +
                    text = f"from {first}"  # +
                case _:
                    text = "other"
            return text  # +

        def test_it():
            assert kind([1, 2]) == "from 1"  # +
    """,
    "contexts": """
        from contextlib import contextmanager, suppress

        @contextmanager
        def opened(name):
            try:  # +
                yield name  # +
            finally:
                name = None  # +

        def use():
            with opened("a") as a, opened(  # +
                "b"
            ) as b:
                done = a + b  # +
            with suppress(ValueError):  # +
                raise ValueError  # +
                done = ""
            return done  # +

        def test_it():
            assert use() == "ab"  # +
    """,
    "comprehensions": """
        def work(items):
            found = [  # +
                item
                for item in items
                if item > 1
            ]
            table = {  # +
                key: [each for each in found]
                for key in found
            }
            lazy = (  # +
                item
                for item in items
            )
            never = (item for item in items)  # +
            return sum(lazy) + len(table)  # +

        def test_it():
            assert work([1, 2]) == 4  # +
    """,
    "generators": """
        def numbers(most):
            got = yield 0  # +
            while True:  # +
                if got is None:  # +
                    got = 1  # +
                elif got > most:  # +
                    return "end"
                else:
                    got += 1  # +
                got = yield got  # +

        def both():
            yield from numbers(9)  # +
            yield "never"

        def test_it():
            source = both()  # +
            assert next(source) == 0  # +
            assert source.send(4) == 5  # +
            assert next(source) == 1  # +
    """,
    "coroutines": """
        import asyncio

        async def work(n):
            await asyncio.sleep(0)  # +
            if n > 1:  # +
                return n  # +
            return 0

        async def items():
            for n in range(3):  # +
                yield n  # +

        class Door:
            async def __aenter__(self):
                return self  # +

            async def __aexit__(self, *args):
                return None  # +

        async def main():
            async with Door():  # +
                total = await work(2)  # +
            async for item in items():  # +
                total += item  # +
            return total, [item async for item in items()]  # +

        def test_it():
            assert asyncio.run(main()) == (5, [0, 1, 2])  # +
    """,
    "functions": """
        import functools

        def marked(label):
            def wrap(function):
                @functools.wraps(function)
                def call(*args):
                    return function(*args)  # +
                def unused():
                    return label
                return call
            return wrap

        @marked("a")
        @marked(
            "b"
        )
        def double(n): return n * 2  # +

        def outer(n):
            '''A docstring

            of several lines.'''
            offset = 1  # +
            def inner(m):  # +
                return m + offset  # +
            def other(m):  # +
                return m - offset
            @functools.cache  # +
            def cached(m): return other(m) if m else m  # +
            class Local:  # +
                rate = 3
                @property
                def cost(self):
                    return self.rate  # +
                def unused(self):
                    return 0
            add = lambda m: m + 1  # +
            longer = lambda m: (  # +
                m + 2  # +
            )
            never = lambda m: (  # +
                m + 3
            )
            global COUNT
            COUNT = (  # +
                1
            )
            return (  # +
                inner(n)
                + add(n)
                + longer(n)
                + cached(0)
                + Local().cost
            )

        def test_it():
            assert outer(double(1)) == 3 + 3 + 4 + 3  # +
    """,
    "threads": """
        import threading

        def work(found):
            for n in range(3):  # +
                if n == 2:  # +
                    found.append(n)  # +
            if not found:  # +
                found.append(0)

        def test_it():
            found = []  # +
            thread = threading.Thread(target=work, args=(found,))  # +
            thread.start()  # +
            thread.join()  # +
            assert found == [2]  # +
    """,
    "fixtures": """
        import pytest

        @pytest.fixture
        def door():
            state = ["open"]  # +
            yield state  # +
            if state:  # +
                state.clear()  # +
            else:
                state.append("never")

        @pytest.fixture(scope="module")
        def shared():
            value = 1  # +
            yield value  # +
            value = 2  # +

        def test_it(door, shared):
            assert door == ["open"]  # +
            assert shared == 2, (  # +
                "it fails"
            )
            door = None
    """,
    "recursion": """
        def deep(n):
            if n == 0:  # +
                return 0  # +
            if n == 500:  # +
                n = 500
            return deep(n - 1) + 1  # +

        def test_it():
            assert deep(60) == 60  # +
    """,
    "imports": """
        def test_it():
            import imported  # +
            assert imported.used(2) == 3  # +
    """,
}

IMPORTED: Final = """
def table(n):
    return [n]

TABLE = table(1)

class Box:
    rate = len(TABLE)

def used(n):
    if n > 1:  # +
        n += 1  # +
    return n  # +
"""
"""A module that a test imports: what that executes is not the test's."""

KINDS: Final = {name: dedent(text).lstrip() for name, text in _SOURCES.items()}


def marked(text: str) -> set[int]:
    """The marked lines of a source."""
    return {at for at, line in enumerate(text.split("\n"), 1) if line.endswith("# +")}
