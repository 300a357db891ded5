"""What a function breakpoint's stop offers, and what can be intercepted."""

from __future__ import annotations

import asyncio
import functools
import gc
import math
import sys
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from types import FunctionType
from typing import Any

import pytest

from pytest_cideldill.config.limits import DEFAULTS
from pytest_cideldill.probes import nesting
from pytest_cideldill.protocol import Recorded, SetDefaultBehavior, Stopped
from tests.process.debuggee import Debuggee, debuggee
from tests.process.tills import (
    COUNT_UP,
    Till,
    cached_price,
    counter,
    factorial,
    price_later,
    price_of,
    price_twice,
    prices_in_time,
    prices_in_turn,
)

full = pytest.mark.full

TILLS = "tests.process.tills"


@pytest.fixture
def process() -> Iterator[Debuggee]:
    with debuggee() as made:
        yield made


# --- what a stop offers -------------------------------------------------------------------------


def test_a_call_pauses_before_it_begins(process: Debuggee) -> None:
    """A pause before the call, with the call's data; then the call happens."""
    assert process.add(f"{TILLS}:price_of") == {
        "functions": [f"{TILLS}.price_of"],
        "verified": True,
        "message": None,
        "via": "code",
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


@pytest.mark.full
def test_a_raise_comes_out_of_the_call_at_the_caller(process: Debuggee) -> None:
    """The exception that the client names; our frames are hidden in its traceback."""
    process.add(f"{TILLS}:price_of")
    running = process.call(price_twice, 1)
    process.resume(
        process.stop()["id"], "raise", exception_type="KeyError", exception_message="price"
    )
    with pytest.raises(KeyError, match="price"):
        running.result()


@pytest.mark.full
def test_modified_arguments_are_what_the_function_gets(process: Debuggee) -> None:
    """See `test_actions` for every kind of parameter."""
    process.add(f"{TILLS}:price_of")
    running = process.call(price_of, 2)
    process.resume(process.stop()["id"], modified_args=[5], modified_kwargs={"discount": 1})
    assert running.result() == 14


@full
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


@pytest.mark.full
def test_an_assigned_parameter_and_modified_arguments_go_together(process: Debuggee) -> None:
    """What is omitted stays as the frame holds it."""
    process.add(f"{TILLS}:price_of")
    running = process.call(price_of, 2)
    id = process.stop()["id"]
    process.evaluate(id, "each = 10")
    process.resume(id, modified_kwargs={"discount": 5})
    assert running.result() == 15


@full
def test_a_frame_that_is_not_there_is_refused(process: Debuggee) -> None:
    """`invalid_frame`; the pause goes on."""
    process.add(f"{TILLS}:price_of")
    running = process.call(price_of, 2)
    id = process.stop()["id"]
    for index in (-1, 99):
        body = process.refused(process.evaluate, id, "1", frame_index=index)
        assert body["error"] == "invalid_frame"
    process.resume(id)
    running.result()


@full
def test_an_evaluation_hits_no_breakpoint(process: Debuggee) -> None:
    """Evaluation never triggers breakpoints, threads it starts included."""
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


@full
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


@pytest.mark.full
def test_recursion_stops_at_every_level(process: Debuggee) -> None:
    """Each call is a call; skipping the innermost one cuts it short."""
    process.add(f"{TILLS}:factorial")
    running = process.call(factorial, 3)
    for _ in range(2):
        process.resume(process.stop()["id"])
    process.resume(process.stop()["id"], "skip", fake_result=10)
    assert running.result() == 60


@pytest.mark.full
def test_the_frames_of_a_pause_are_bounded(process: Debuggee) -> None:
    """The ini option `max_frames`; what stands for intercepted calls is left out."""
    process.add(f"{TILLS}:factorial", "stop", "n == 0")
    running = process.call(factorial, 50)
    pause = process.stop()
    assert len(pause["frames"]) == DEFAULTS.max_frames
    assert {(each["function"], each["line"]) for each in pause["frames"][1:]} == {
        ("factorial", factorial.__code__.co_firstlineno + 1)
    }
    process.resume(pause["id"], "skip", fake_result=1)
    assert running.result() == math.factorial(50)


# --- what can be intercepted --------------------------------------------------------------------


OF_EVERY_MAKE: list[tuple[str, Callable[[], Any], Any]] = [
    ("Till.ring_up", lambda: Till(1).ring_up(2), 3),
    ("Till.rounded_price", lambda: Till.rounded_price(2.6), 3),
    ("Till.opened_with", lambda: Till.opened_with(4).sum, 4),
    ("Till.is_empty_till", lambda: Till(0).is_empty_till, True),
    ("Till.__init__", lambda: Till(5).sum, 5),
    ("counter.count_up", lambda: COUNT_UP(1) and "counted", "counted"),
    ("cached_price", lambda: cached_price.__wrapped__(1), 2),
]
"""Methods, static and class methods, properties, closures, decorated."""


def test_functions_of_every_make_are_intercepted_by_a_glob(process: Debuggee) -> None:
    process.add(f"{TILLS}.*")
    with_init = {
        "Till.ring_up": ["Till.__init__", "Till.ring_up"],
        "Till.opened_with": ["Till.opened_with", "Till.__init__"],
        "Till.is_empty_till": ["Till.__init__", "Till.is_empty_till"],
    }
    for name, call, result in OF_EVERY_MAKE:
        running = process.call(call)
        for expected in with_init.get(name, [name]):
            pause = process.stop()
            called = pause["call_data"]["qualified_name"]
            assert called.replace("<locals>.", "") == f"{TILLS}.{expected}"
            process.resume(pause["id"])
        assert running.result() == result, name
        assert not process.has(Stopped), name


@full
@pytest.mark.parametrize(
    ("name", "call", "result"), OF_EVERY_MAKE, ids=[name for name, *_ in OF_EVERY_MAKE]
)
def test_functions_of_every_make_are_intercepted(
    process: Debuggee, name: str, call: Callable[[], Any], result: Any
) -> None:
    assert process.add(f"{TILLS}:{name}")["verified"]
    process.stops(call)
    running = process.call(call)
    process.resume(process.stop()["id"])
    assert running.result() == result


@full
def test_a_closure_keeps_its_own_variables(process: Debuggee) -> None:
    """The original runs over the same cells; a second closure of the same code has others."""
    first, second = counter(1), counter(10)
    process.add(f"{TILLS}:counter.count_up")
    for each, results in ((first, (1, 2)), (second, (10, 20))):
        for result in results:
            running = process.call(each, 1)
            process.resume(process.stop()["id"])
            assert running.result() == result


async def items_of(made: AsyncIterator[int]) -> list[int]:
    return [item async for item in made]


USED_UP: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
    (price_later, asyncio.run),
    (prices_in_turn, list),
    (prices_in_time, lambda made: asyncio.run(items_of(made))),
]
"""Functions that make something that goes on later, and how it does."""


@full
def test_generators_and_coroutines_stop_when_they_are_called(process: Debuggee) -> None:
    """An error instead comes when it starts, as one of theirs would."""
    priced = [price_of, price_twice, *(function for function, _ in USED_UP)]
    added = process.add(f"{TILLS}.price*")["functions"]
    assert sorted(added) == sorted(f"{TILLS}.{each.__name__}" for each in priced)
    for function, use in USED_UP:
        check_that_it_stops_when_it_is_called(process, function, use)


def check_that_it_stops_when_it_is_called(
    process: Debuggee, function: Callable[[], Any], use: Callable[[Any], Any]
) -> None:
    expected = 1 if function is price_later else [1]
    running = process.call(lambda: use(function()))
    process.resume(process.stop()["id"])
    assert running.result() == expected
    running = process.call(function)
    how = {"exception_type": "LookupError", "exception_message": "no price"}
    process.resume(process.stop()["id"], "raise", **how)
    made = running.result()
    assert made.__name__ == function.__name__
    with pytest.raises(LookupError, match="no price"):
        use(made)


@full
def test_a_skipped_generator_yields_the_items_of_a_list(process: Debuggee) -> None:
    process.add(f"{TILLS}.price*")
    cases: list[tuple[int, object, object]] = [
        (0, 7, 7),
        (0, None, None),
        (1, [7, 8], [7, 8]),
        (1, None, []),
        (1, {"$eval": "(n for n in (4, 5))"}, [4, 5]),
        (2, [7, 8], [7, 8]),
        (2, None, []),
    ]
    for index, fake, result in cases:
        function, use = USED_UP[index]
        running = process.call(lambda function=function, use=use: use(function()))
        process.resume(process.stop()["id"], "skip", fake_result=fake)
        assert running.result() == result, (index, fake)


@full
def test_an_alarm_at_a_generator_s_pause_comes_out_of_the_call(process: Debuggee) -> None:
    """A time limit of the test's is none of the client's exceptions, which come later."""
    process.add(f"{TILLS}:prices_in_turn")

    def ring(*_: object, **__: object) -> None:
        raise TimeoutError("too late")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process.pauses, "pause", ring)
        with pytest.raises(TimeoutError, match="too late"):
            prices_in_turn()


@pytest.mark.full
def test_a_class_that_is_being_made_is_left_alone(process: Debuggee) -> None:
    """A glob means its methods; its body is a function as well, until it has run."""

    class Meta(type):
        @classmethod
        def __prepare__(cls, name: str, bases: Any, /, **_: Any) -> dict[str, object]:
            process.manager.bind()
            return {}

    bound = process.add(f"{__name__}.*", "go")["functions"]
    assert f"{__name__}.items_of" in bound

    class Made(metaclass=Meta):
        answer = 42

    assert Made.answer == 42


@pytest.mark.full
def test_a_glob_keeps_no_function_alive(process: Debuggee) -> None:
    """What a closure holds is the program's, and tests look whether it dies."""
    held = Till(1)

    def closure() -> Till:
        return held

    assert f"{__name__}." + closure.__qualname__ in process.add(f"{__name__}.*", "go")["functions"]
    assert closure() is held
    alive = weakref.ref(closure)
    del closure
    assert alive() is None


@full
def test_a_program_recurses_as_deep_as_without_us(process: Debuggee) -> None:
    """Calls take more frames; the limit is raised meanwhile."""
    limit = sys.getrecursionlimit()
    deep = limit * 9 // 10
    process.add(f"{TILLS}:factorial", "go")
    assert process.passes(factorial, deep) == math.factorial(deep)
    process.remove()
    assert sys.getrecursionlimit() == limit


@pytest.mark.full
@pytest.mark.parametrize("age", [lambda: None, gc.collect], ids=["young", "old"])
def test_where_nothing_can_be_planted_a_nested_function_is_bound_when_it_starts(
    process: Debuggee, age: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first call is missed. The garbage collector's young objects are looked through first."""
    monkeypatch.setattr(nesting, "CAN_PLANT", False)
    gc.collect()  # another test's function of this name would be bound, and on 3.11 that is enough
    source = "def outer():\n    def inner(): return 1\n    return inner\n"
    names: dict[str, Any] = {"__name__": "late"}
    exec(compile(source, f"{__file__}.late", "exec"), names)
    process.add("late.outer.inner")
    inner = names["outer"]()
    age()
    assert process.passes(inner) == 1
    assert process.stops(inner)["call_data"]["method_name"] == "inner"


@full
def test_references_taken_before_are_intercepted_too(process: Debuggee) -> None:
    """`from shop.cart import total` happened long ago."""
    taken = price_of
    partial = functools.partial(price_of, 4)
    bound = Till(0).ring_up
    process.add(f"{TILLS}:price_of", id="fn-1")
    process.add(f"{TILLS}:Till.ring_up", id="fn-2")
    for call in (lambda: taken(1), partial, lambda: bound(1)):
        process.stops(call)


@pytest.mark.full
def test_what_raised_is_reported_with_the_arguments_that_it_began_with(process: Debuggee) -> None:
    """The arguments of a call are those that it was made with, whatever it does to them."""

    def spoil(items: list[int], *, limit: int) -> int:
        items.clear()
        raise ValueError(limit)

    process.manager.apply(SetDefaultBehavior("exception"))
    process.add("spoil", "go")
    running = process.call(lambda: spoil([1, 2], limit=7))
    pause = process.stop()
    assert (pause["phase"], pause["call_data"]["pretty_args"]) == ("exception", ["[1, 2]"])
    assert pause["call_data"]["pretty_kwargs"] == {"limit": "7"}
    assert pause["call_data"]["call_id"]
    process.resume(pause["id"], "skip", fake_result=3)
    assert running.result() == 3
    reported = [
        row
        for event in process.rows.take(process)
        if isinstance(event, Recorded)
        for row in event.in_order()
    ]
    mine = [row for row in reported if row["call_id"] == pause["call_data"]["call_id"]]
    assert [row["status"] for row in mine] == ["exception", "success"]
    assert mine[-1]["altered"] == "result"


@pytest.mark.full
def test_a_function_that_has_the_id_of_one_that_is_gone_is_recorded(process: Debuggee) -> None:
    names: dict[str, Any] = {"__name__": __name__}
    codes = []
    for number in range(2):
        exec(compile(f"def passing(): return {number}", __file__, "exec"), names)
        codes.append(names.pop("passing").__code__)
    names["passing"] = FunctionType(codes[0], names)
    gone = id(names["passing"])
    process.add(f"{__name__}.passing", "go")
    del names["passing"]
    others = []
    while id(made := FunctionType(codes[1], names)) != gone:
        others.append(made)
        assert len(others) < 100_000, "the interpreter does not give that memory again"
    names["passing"] = made
    process.add(f"{__name__}.passing", "go")
    list(process.rows.take(process))
    assert process.passes(names["passing"]) == 1
    events = [event for event in process.rows.take(process) if isinstance(event, Recorded)]
    assert [row["pretty_result"] for event in events for row in event.in_order()] == ["1"]
