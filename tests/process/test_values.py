"""Our dataclasses do as the original's do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from pytest_cideldill.interpreter import values

Decorator = Callable[..., Any]


def made(dataclass: Decorator) -> list[type[Any]]:
    """A frozen one, an empty one, one that can change, and one that is equal to itself only."""

    @dataclass(frozen=True, slots=True)
    class Point:
        """A place."""

        x: int
        tags: list[str] = dataclasses.field(default_factory=list, compare=False)
        secret: str = dataclasses.field(default="s3", repr=False)

    @dataclass(frozen=True, slots=True)
    class Empty:
        pass

    @dataclass(slots=True)
    class Changing:
        x: int
        y: int = 2

    @dataclass(frozen=True, slots=True, eq=False)
    class Itself:
        x: int

    return [Point, Empty, Changing, Itself]


@pytest.fixture(params=[values.dataclass, dataclasses.dataclass], ids=["ours", "original"])
def kinds(request: pytest.FixtureRequest) -> list[type[Any]]:
    """Of either."""
    return made(request.param)


def test_they_have_what_the_original_has(kinds: list[type[Any]]) -> None:
    """Slots, names of values, defaults of their own, arguments by place and by name."""
    point, empty, changing, _ = kinds
    assert not hasattr(point(1), "__dict__")
    assert [each.name for each in dataclasses.fields(point)] == ["x", "tags", "secret"]
    assert point.__match_args__ == ("x", "tags", "secret")
    assert point(1).tags is not point(2).tags
    assert dataclasses.asdict(point(1, secret="q")) == {"x": 1, "tags": [], "secret": "q"}
    assert dataclasses.replace(point(1), x=5).x == 5
    assert changing(1, y=3).y == 3
    given: list[tuple[type[Any], list[object], dict[str, object]]] = [
        (empty, [1], {}),
        (point, [], {}),
        (point, [1], {"x": 2}),
        (point, [1], {"other": 2}),
        (point, [1, [], "", 4], {}),
    ]
    for cls, values_, named in given:
        with pytest.raises(TypeError):
            cls(*values_, **named)


def test_they_are_shown_as_the_original_is(kinds: list[type[Any]]) -> None:
    """Without what is not to be shown, and without end in a circle."""
    point, empty, _, itself = kinds
    name = point.__qualname__
    assert repr(point(1, ["a"])) == f"{name}(x=1, tags=['a'])"
    assert repr(empty()) == f"{empty.__qualname__}()"
    circle = itself([])
    circle.x.append(circle)
    assert repr(circle) == f"{itself.__qualname__}(x=[...])"


def test_they_are_equal_as_the_original_is(kinds: list[type[Any]]) -> None:
    """By values that count, within one class; a hash have those that stay."""
    point, empty, changing, itself = kinds
    assert point(1, ["a"]) == point(1, ["b"])
    assert point(1) != point(2)
    assert point(1) != changing(1)
    assert empty() == empty()
    assert len({point(1), point(1, ["b"]), point(2), empty(), empty()}) == 3
    assert changing(1) == changing(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(changing(1))
    assert itself(1) != itself(1)
    assert len({itself(1), itself(1)}) == 2


def test_frozen_ones_stay_and_others_change(kinds: list[type[Any]]) -> None:
    """Neither changed nor deleted, nor given what they have no slot for."""
    point, _, changing, _ = kinds
    one = point(1)
    for name in ("x", "tags"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, name, 2)
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(one, name)
    with pytest.raises((AttributeError, TypeError)):
        one.other = 2
    other = changing(1)
    other.x = 2
    assert other.x == 2


def test_they_are_copied_and_pickled(kinds: list[type[Any]], monkeypatch: Any) -> None:
    """Also the frozen ones."""
    point, *_ = kinds
    monkeypatch.setitem(globals(), "Point", point)
    point.__qualname__ = "Point"
    one = point(1, ["a"], "b")
    for again in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert dataclasses.asdict(again) == dataclasses.asdict(one)
