"""What a program holds of its locals stays as it is, whoever reads or writes them."""

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.evaluation.repl_eval import evaluate
from pytest_cideldill.frames.frames import short_locals
from pytest_cideldill.interpreter.frame_locals import read_locals, write_local
from pytest_cideldill.pauses.queries import names_in
from pytest_cideldill.project import Project
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.display import Lens

Look = Callable[[FrameType], object]


def evaluated(source: str) -> Look:
    """Evaluates in the frame."""
    return lambda frame: evaluate(source, frame, {}, guard=EvaluationGuard())


LOOKS: dict[str, Look] = {
    "reading": read_locals,
    "names": lambda frame: names_in(frame, "locals"),
    "names of enclosing functions": lambda frame: names_in(frame, "closure"),
    "values": lambda frame: short_locals(frame, Lens(Project("."), Redactor(environ={}))),
    "expression": evaluated("amount + free"),
    "view": evaluated("locals(), vars(), dir()"),
    "session": evaluated("new = amount"),
    "statement": evaluated("amount = 3"),
}


@pytest.mark.parametrize("look", LOOKS)
def test_what_a_function_holds_of_its_locals_stays_as_it_is(look: str) -> None:
    """With variables in cells, of itself and of functions around it; in a generator as well."""
    free = 1

    def function(amount: int, cell: int) -> Iterator[object]:
        def inner() -> tuple[object, ...]:
            return free, cell

        mine = locals()
        mine["amount"] = mine["cell"] = mine["more"] = 7
        before = dict(mine)
        LOOKS[look](sys._getframe())
        yield mine == before
        LOOKS[look](sys._getframe())
        yield mine == before
        yield inner() == (1, 2) and amount == (3 if look == "statement" else 5)
        yield sys.version_info >= (3, 13) or locals() is mine

    assert list(function(5, 2)) == [True] * 4


def test_what_is_read_is_what_the_frame_holds_now() -> None:
    """Deleted and unassigned names are not there, whatever was kept."""
    free = 1

    def function(amount: int, gone: int) -> dict[str, Any]:
        kept = locals()
        kept["gone"] = 7
        amount += free
        del gone
        if amount:
            return dict(read_locals(sys._getframe()))
        later: dict[str, Any] = {}
        return later | {"cell": lambda: later}

    found = function(4, 5)
    assert found.pop("kept")["gone"] == 7
    assert found == {"amount": 5, "free": 1}


def test_a_local_is_written_and_all_others_are_left() -> None:
    """Also one in a cell, and one of an enclosing function."""
    free = 1

    def function(amount: int, cell: int) -> tuple[object, ...]:
        def inner() -> tuple[object, ...]:
            return free, cell

        kept = locals()
        kept["amount"] = 7
        for name, value in (("cell", "c"), ("free", "f"), ("new", "n")):
            write_local(sys._getframe(), name, value)
        assert "new" not in kept or sys.version_info >= (3, 13)
        return inner(), amount, kept["amount"]

    assert function(1, 2)[:2] == (("f", "c"), 1)
    assert str(free) == "f"


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="there is no snapshot")
def test_what_a_generator_held_before_it_started_stays() -> None:
    def numbers(amount: int) -> Iterator[int]:
        yield amount

    made = numbers(5)
    frame = inspect.getattr_static(made, "gi_frame").__get__(made)
    held = frame.f_locals
    held["amount"] = 7
    assert read_locals(frame) == {"amount": 5}
    assert held == {"amount": 7}


class Counting(dict[str, Any]):
    """The namespace of a class that notes its changes."""

    def __setitem__(self, name: str, value: object) -> None:
        self.setdefault("changes", []).append(name)
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        self.setdefault("changes", []).append(f"del {name}")
        super().__delitem__(name)


class Meta(type):
    """Of classes whose namespace is one of ours."""

    @classmethod
    def __prepare__(cls, *_: object, **__: object) -> Counting:
        return Counting()


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="there it is left alone anyway")
def test_the_body_of_a_class_sees_no_change_of_its_namespace() -> None:
    class Made(metaclass=Meta):
        amount = 1
        kind = type(read_locals(sys._getframe()))

        def method(self) -> object:
            return __class__  # type: ignore[name-defined]

    assert [each for each in vars(Made)["changes"] if each.startswith("del")] == []
    assert vars(Made)["kind"] is Counting


def test_variables_of_comprehensions_in_a_class_are_found() -> None:
    class Made:
        amount = 1
        seen = str([read_locals(sys._getframe())["each"] for each in [5]])

    assert Made.seen == "[5]"


@pytest.mark.full
def test_values_are_let_go_when_the_function_lets_them_go() -> None:
    """Reading leaves nothing behind, and no reference is counted twice."""

    def function(value: object) -> int:
        frame = sys._getframe()
        before = sys.getrefcount(value)
        for _ in range(100):
            read_locals(frame)
            write_local(frame, "other", value)
        other = None
        assert other is None
        return sys.getrefcount(value) - before

    gc.collect()
    assert function(object()) == 0
