"""Which call is chosen, and its number, when calls begin on several threads."""

from __future__ import annotations

import sys
import threading

from pytest_cideldill.calltraces.choice import CallChoice
from pytest_cideldill.project import Project
from pytest_cideldill.protocol.trace_rows import TraceRequest
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.display import Lens

DEADLINE_S = 20.0


def choice(call: int = 0, when: str | None = None) -> CallChoice:
    request = TraceRequest("", ["test_it"], function="f", call=call, when=when)
    return CallChoice(request, Lens(Project("."), Redactor(environ={})))


def test_the_chosen_call_keeps_its_number_while_others_begin() -> None:
    calls = choice(call=2)
    frame = sys._getframe()
    assert [calls.is_chosen(frame) for _ in range(4)] == [False, True, False, False]
    assert calls.chosen == 2
    assert calls.end_test() == [["matches", 4]]
    assert calls.was_called
    assert [calls.is_chosen(frame) for _ in range(2)] == [False, True]


def test_of_calls_whose_conditions_hold_at_once_one_is_chosen() -> None:
    calls = choice(when="meet()")
    both = threading.Barrier(2)
    chosen: list[bool] = []

    def begin(meet: object) -> None:
        chosen.append(calls.is_chosen(sys._getframe()))

    def meet() -> bool:
        both.wait(DEADLINE_S)
        return True

    threads = [threading.Thread(target=begin, args=(meet,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(chosen) == [False, True]
    assert calls.chosen in (1, 2)
    assert calls.failed_conditions == {}
