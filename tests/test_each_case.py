"""`for_each`: every case is gone through, and one that fails is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.each_case import for_each


def test_every_case_is_gone_through() -> None:
    seen = []

    @for_each(("one", "two"), [(1, 2), (3, 4)])
    @for_each("more", ["a", "b"])
    def see(one: int, two: int, more: str) -> None:
        seen.append((one, two, more))

    see()
    assert seen == [(1, 2, "a"), (1, 2, "b"), (3, 4, "a"), (3, 4, "b")]


@for_each("name", ["a", "b"])
def test_fixtures_are_given_beside_the_cases(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch(exist_ok=False)


def test_a_failing_case_is_named_and_there_must_be_one() -> None:
    @for_each("number", [1, 0])
    def divide(number: int) -> None:
        assert 1 // number

    with pytest.raises(ZeroDivisionError) as raised:
        divide()
    assert raised.value.__notes__ == ["the case: {'number': 0}"]
    with pytest.raises(AssertionError, match="no case"):
        for_each("number", [])
