"""The recursion limit while calls are intercepted, and afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from pytest_cideldill.patching.code_swap import TAKEN, Headroom


@pytest.fixture
def limit() -> Iterator[int]:
    limit = sys.getrecursionlimit()
    yield limit
    sys.setrecursionlimit(limit)


def test_the_limit_is_raised_while_it_is_wanted(limit: int) -> None:
    headroom = Headroom()
    headroom.set(wanted=False)
    assert sys.getrecursionlimit() == limit
    for _ in range(2):
        headroom.set(wanted=True)
        assert sys.getrecursionlimit() == limit * TAKEN
    for _ in range(2):
        headroom.set(wanted=False)
        assert sys.getrecursionlimit() == limit


def test_a_limit_that_the_program_set_meanwhile_stays(limit: int) -> None:
    headroom = Headroom()
    headroom.set(wanted=True)
    sys.setrecursionlimit(limit + 1)
    headroom.set(wanted=False)
    assert sys.getrecursionlimit() == limit + 1


def test_a_high_limit_is_not_lowered(limit: int) -> None:
    """On 3.11 it is not raised either: calls would overflow the C stack first."""
    sys.setrecursionlimit(50_000)
    headroom = Headroom()
    headroom.set(wanted=True)
    expected = 50_000 if sys.version_info < (3, 12) else 50_000 * TAKEN
    assert sys.getrecursionlimit() == expected
    headroom.set(wanted=False)
    assert sys.getrecursionlimit() == 50_000


def test_it_may_end_far_down_in_a_recursion(limit: int) -> None:
    headroom = Headroom()
    headroom.set(wanted=True)

    def dive(depth: int) -> None:
        if depth:
            dive(depth - 1)
        else:
            headroom.set(wanted=False)

    dive(limit)
    assert sys.getrecursionlimit() == limit * TAKEN
