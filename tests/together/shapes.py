"""A package with functions of every kind, for the tests of function breakpoints."""

from __future__ import annotations

from tests.together.workbench import Bench

SHAPES = """
    class Refused(Exception):
        def __init__(self, reason): super().__init__(reason); self.reason = reason

    class Picky(Exception):
        def __init__(self, a, b): pass

    def area(width, height=2, *, scale=1):
        return width * height * scale

    def outer(n):
        def inner(m): return n + m
        return inner(1)

    def count(n):
        yield from range(n)

    async def later():
        return 1

    class Box:
        side = 3
        def volume(self, times=1): return self.side ** 3 * times
        @staticmethod
        def unit(n): return n
        @classmethod
        def of(cls, side): return (cls.__name__, side)
        @property
        def face(self): return self.side ** 2
"""


def write_shapes(bench: Bench) -> Bench:
    """Put the package `geo` into the project."""
    bench.write(**{"geo/__init__.py": "", "geo/shapes.py": SHAPES})
    return bench
