"""Deadlines on a machine that is busy: seconds in which the thread did not run don't count."""

from __future__ import annotations

import pytest

from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.clock import Deadline
from pytest_cideldill.objects.pickles import fast
from pytest_cideldill.rendering.one_line import Detail, render
from tests.process.machine import Machine


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    faked = Machine()
    monkeypatch.setattr(clock, "time", faked)
    return faked


def test_a_deadline_is_over_when_the_thread_has_worked_so_long(machine: Machine) -> None:
    deadline = Deadline(0.05)
    assert not deadline.is_over()
    machine.own_s = 0.01
    answers = [deadline.is_over() for _ in range(20)]
    assert answers == [False] * answers.index(True) + [True] * answers.count(True)
    assert 0.04 < answers.index(True) * machine.own_s <= 0.11


def test_seconds_that_others_had_are_given_back(machine: Machine) -> None:
    deadline = Deadline(0.05)
    machine.now += 0.3
    assert not deadline.is_over()
    assert not deadline.is_over()


@pytest.mark.parametrize("seconds", [0.005, 0.05, 1.0])
def test_it_is_over_at_last_however_little_the_thread_ran(machine: Machine, seconds: float) -> None:
    deadline = Deadline(seconds)
    machine.busy_s = 0.1
    began = machine.now
    while not deadline.is_over():
        assert machine.now < began + 2 * seconds + 0.8
    assert machine.now >= began + seconds + 0.5


def test_a_value_is_shown_whole_and_pickled_though_others_have_the_processor(
    machine: Machine,
) -> None:
    value = {"items": list(range(5)), "name": "n", "more": {"a": (1, 2)}}
    detail = Detail(depth=3, items=10, attributes=10, string=200, text=300, milliseconds=5)
    machine.busy_s = 0.01
    assert render(value, detail, None) == repr(value)
    assert fast(value, 10_000, Deadline(0.005))[1]


def test_a_value_that_takes_long_by_itself_is_cut(machine: Machine) -> None:
    machine.own_s = 0.004
    detail = Detail(depth=3, items=100, attributes=10, string=200, text=900, milliseconds=5)
    assert "items" in render(list(range(50)), detail, None)
