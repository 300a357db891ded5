"""What a function breakpoint's stop offers, and what can be intercepted.

Expectations: contract, section 2 (the `before` phase, the REPL's frames, what can be intercepted).
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import pytest

from pytest_cideldill.wire import Stopped
from tests.process.debuggee import Debuggee
from tests.process.debuggee import debuggee
from tests.process.tills import COUNT_UP
from tests.process.tills import Till
from tests.process.tills import cached_price
from tests.process.tills import counter
from tests.process.tills import factorial
from tests.process.tills import price_later
from tests.process.tills import price_of
from tests.process.tills import price_twice
from tests.process.tills import prices_in_time
from tests.process.tills import prices_in_turn

TILLS = "tests.process.tills"


@pytest.fixture
def process() -> Iterator[Debuggee]:
    with debuggee() as made:
        yield made


# --- what a stop offers -------------------------------------------------------------------------


def test_a_call_pauses_before_it_begins(process: Debuggee) -> None:
    """The pause of the contract, section 2, with the call's data; then the call happens."""
    assert process.add(f"{TILLS}:price_of") == {
        "functions": [f"{TILLS}.price_of"],
        "verified": True,
        "message": None,
    }
    running = process.call(price_of, 2, discount=1)
    pause = process.stop()
    call = pause["call_data"]
    assert (pause["id"], pause["phase"], pause["pause_reason"]) == (
        "r1.main.1", "before", "breakpoint",
    )  # fmt: skip
    assert (pause["breakpoint_id"], pause["run_id"], pause["worker"]) == ("fn-1", "r1", "main")
    assert pause["thread"]["id"] == running.thread.ident
    assert pause["locals"] == {"amount": "2", "each": "3", "discount": "1"}
    assert pause["location"]["function"] == "price_of"
    assert pause["location"]["file"] == "tests/process/tills.py"
    assert call["qualified_name"] == f"{TILLS}.price_of"
    assert (call["pretty_args"], call["pretty_kwargs"]) == (["2", "3"], {"discount": "1"})
    assert call["call_site"]["file"] == "tests/process/debuggee.py"
    process.resume(pause["id"])
    assert running.result() == 5


def test_a_skipped_call_returns_what_the_client_says(process: Debuggee) -> None:
    """`fake_result`, null by default; the function does not run."""
    process.add(f"{TILLS}:Till.ring_up")
    till = Till(1)
    for fake, given in ((None, None), (9, 9), ([1], [1]), ({"$eval": "self.sum + amount"}, 6)):
        running = process.call(till.ring_up, 5)
        process.resume(process.stop()["id"], "skip", fake_result=fake)
        assert running.result() == given
    assert till.sum == 1


def test_a_raise_comes_out_of_the_call_at_the_caller(process: Debuggee) -> None:
    """The exception that the client names; our frames are hidden in its traceback."""
    process.add(f"{TILLS}:price_of")
    running = process.call(price_twice, 1)
    process.resume(
        process.stop()["id"], "raise", exception_type="KeyError", exception_message="price"
    )
    with pytest.raises(KeyError, match="price"):
        running.result()


def test_modified_arguments_are_what_the_function_gets(process: Debuggee) -> None:
    """See `test_actions` for every kind of parameter."""
    process.add(f"{TILLS}:price_of")
    running = process.call(price_of, 2)
    process.resume(process.stop()["id"], modified_args=[5], modified_kwargs={"discount": 1})
    assert running.result() == 14


def test_a_parameter_assigned_in_the_frame_reaches_the_call(process: Debuggee) -> None:
    """Frame 0 is the callee with its parameters bound; frame 1 is its caller."""
    process.add(f"{TILLS}:price_of")
    running = process.call(price_twice, 2)
    first = process.stop()["id"]
    assert process.evaluate(first, "amount, each")["output"] == "(2, 3)"
    assert process.evaluate(first, "each = 10")["is_error"] is False
    assert process.evaluate(first, "price_twice.__name__", frame_index=1)["output"] == (
        "'price_twice'"
    )
    process.resume(first)
    second = process.stop()["id"]
    process.resume(second)
    assert running.result() == 20 + 6


def test_an_assigned_parameter_and_modified_arguments_go_together(process: Debuggee) -> None:
    """What is omitted stays as the frame holds it."""
    process.add(f"{TILLS}:price_of")
    running = process.call(price_of, 2)
    id = process.stop()["id"]
    process.evaluate(id, "each = 10")
    process.resume(id, modified_kwargs={"discount": 5})
    assert running.result() == 15


@pytest.mark.parametrize("index", [-1, 99])
def test_a_frame_that_is_not_there_is_refused(process: Debuggee, index: int) -> None:
    """`invalid_frame`; the pause goes on."""
    process.add(f"{TILLS}:price_of")
    running = process.call(price_of, 2)
    id = process.stop()["id"]
    body = process.refused(process.evaluate, id, "1", frame_index=index)
    assert body["error"] == "invalid_frame"
    process.resume(id)
    running.result()


def test_an_evaluation_hits_no_breakpoint(process: Debuggee) -> None:
    """Contract, REPL: evaluation never triggers breakpoints, threads it starts included."""
    process.add(f"{TILLS}:price_of")
    running = process.call(price_of, 2)
    id = process.stop()["id"]
    source = """
import threading
found = []
thread = threading.Thread(target=lambda: found.append(price_of(4)))
thread.start()
thread.join(10)
found + [price_of(1)]
"""
    assert process.evaluate(id, source)["output"] == "[12, 3]"
    process.resume(id, "skip", fake_result={"$eval": "price_of(7)"})
    assert running.result() == 21
    assert not process.has(Stopped)


def test_other_threads_stop_while_one_is_paused(process: Debuggee) -> None:
    """Two simultaneous pauses, numbered; each is resumed by its own id."""
    process.add(f"{TILLS}:price_of")
    one, two = process.call(price_of, 1), process.call(price_of, 2)
    pauses = {pause["locals"]["amount"]: pause["id"] for pause in (process.stop(), process.stop())}
    assert sorted(pauses.values()) == ["r1.main.1", "r1.main.2"]
    assert process.pauses.are_waiting  # what brings the link back after a fork
    process.resume(pauses["2"], "skip", fake_result="two")
    assert two.result() == "two"
    process.resume(pauses["1"], "skip", fake_result="one")
    assert one.result() == "one"
    assert not process.pauses.are_waiting


def test_recursion_stops_at_every_level(process: Debuggee) -> None:
    """Each call is a call; skipping the innermost one cuts it short."""
    process.add(f"{TILLS}:factorial")
    running = process.call(factorial, 3)
    for _ in range(2):
        process.resume(process.stop()["id"])
    process.resume(process.stop()["id"], "skip", fake_result=10)
    assert running.result() == 60


# --- what can be intercepted --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "call", "result"),
    [
        ("Till.ring_up", lambda: Till(1).ring_up(2), 3),
        ("Till.rounded_price", lambda: Till.rounded_price(2.6), 3),
        ("Till.opened_with", lambda: Till.opened_with(4).sum, 4),
        ("Till.is_empty_till", lambda: Till(0).is_empty_till, True),
        ("Till.__init__", lambda: Till(5).sum, 5),
        ("counter.count_up", lambda: COUNT_UP(1) and "counted", "counted"),
        ("cached_price", lambda: cached_price.__wrapped__(1), 2),
    ],
)
def test_functions_of_every_make_are_intercepted(
    process: Debuggee, name: str, call: Callable[[], Any], result: Any
) -> None:
    """Contract, section 2: methods, static and class methods, properties, closures, decorated."""
    assert process.add(f"{TILLS}:{name}")["verified"]
    process.stops(call)
    running = process.call(call)
    process.resume(process.stop()["id"])
    assert running.result() == result


def test_a_closure_keeps_its_own_variables(process: Debuggee) -> None:
    """The original runs over the same cells; a second closure of the same code has others."""
    first, second = counter(1), counter(10)
    process.add(f"{TILLS}:counter.count_up")
    for each, results in ((first, (1, 2)), (second, (10, 20))):
        for result in results:
            running = process.call(each, 1)
            process.resume(process.stop()["id"])
            assert running.result() == result


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (price_later, "a coroutine function"),
        (prices_in_turn, "a generator function"),
        (prices_in_time, "an async generator function"),
    ],
)
def test_what_can_t_be_intercepted_yet_is_said(
    process: Debuggee, function: FunctionType, kind: str
) -> None:
    """Accepted, not verified, with the reason; the function is left alone."""
    code = function.__code__
    answer = process.add(f"{TILLS}:{function.__name__}")
    assert (answer["functions"], answer["verified"]) == ([], False)
    assert kind in answer["message"]
    assert function.__code__ is code
    assert asyncio.run(price_later()) == 1


def test_references_taken_before_are_intercepted_too(process: Debuggee) -> None:
    """Contract, section 2: `from shop.cart import total` happened long ago."""
    taken = price_of
    partial = functools.partial(price_of, 4)
    bound = Till(0).ring_up
    process.add(f"{TILLS}:price_of", id="fn-1")
    process.add(f"{TILLS}:Till.ring_up", id="fn-2")
    for call in (lambda: taken(1), partial, lambda: bound(1)):
        process.stops(call)
