"""Function breakpoints on functions that other functions make.

Expectations: nested functions and closures are intercepted, those that exist and those that come;
what a stop offers is the same as for any other function.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import os
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from types import CodeType
from typing import Any

import dill
import pytest

from pytest_cideldill.patching.code_swap import TAKEN, is_trampoline, original_code
from pytest_cideldill.patching.function_code import code_of
from pytest_cideldill.protocol import AddBreakpoint, Stopped
from pytest_cideldill.sourcecode.codes import walk
from tests.process.debuggee import Debuggee, debuggee

pytestmark = [pytest.mark.full, pytest.mark.long(50)]  # many scans of all that a process holds


@pytest.fixture
def process() -> Iterator[Debuggee]:
    with debuggee() as made:
        yield made


# --- functions that make functions; nobody has called them --------------------------------------


def adder(n: int) -> Callable[..., int]:
    def add(m: int, *, by: int = 2) -> int:
        """Adds."""
        nonlocal n
        n += m * by
        return n

    return add


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def steps(count: int) -> list[Callable[..., tuple[int, int]]]:
    return [(lambda x, step=step: (x, step)) for step in range(count)]


def turns(function: Callable[..., Any]) -> Callable[..., Iterator[int]]:
    @functools.wraps(function)
    def turn(n: int) -> Iterator[int]:
        yield from range(n)

    return turn


def later(n: int) -> Any:
    async def wait() -> int:
        return n

    return wait


def in_time(n: int) -> Any:
    async def tick() -> AsyncIterator[int]:
        yield n

    return tick


def deep() -> Callable[[], Callable[[], int]]:
    def middle() -> Callable[[], int]:
        class Shelf:
            def on_the_lowest_shelf(self) -> int:
                return 4

        return Shelf().on_the_lowest_shelf

    return middle


def countdown(n: int) -> list[int]:
    def down(m: int) -> list[int]:
        return [m, *down(m - 1)] if m else []

    return down(n)


def named_price(n: int) -> int:
    """A price."""
    return n


async def items_of(made: AsyncIterator[int]) -> list[int]:
    return [item async for item in made]


HERE = __name__

MADE: list[tuple[str, Callable[[], Any], Any]] = [
    ("adder.add", lambda: adder(1)(2), 5),
    (f"{HERE}.logged.<locals>.wrapper", lambda: logged(named_price)(3), 3),
    (f"{HERE}:turns.turn", lambda: list(turns(named_price)(2)), [0, 1]),
    ("tests/process/test_nesting.py::later.wait", lambda: asyncio.run(later(3)()), 3),
    (f"{HERE}.in_time.*", lambda: asyncio.run(items_of(in_time(7)())), [7]),
    ("on_the_lowest_shelf", lambda: deep()()(), 4),
]


@pytest.mark.parametrize(("name", "call", "result"), MADE)
def test_a_function_stops_at_its_first_call(
    process: Debuggee, name: str, call: Callable[[], Any], result: Any
) -> None:
    if name.startswith("adder"):
        name = f"{HERE}.{name}"
    added = process.add(name)
    # Other modules may have functions of the same bare name.
    mine = [each for each in added["functions"] if each.startswith(HERE)]
    assert (len(mine), added["verified"]) == (1, True)
    for _ in range(2):
        running = process.call(call)
        pause = process.stop()
        assert pause["call_data"]["qualified_name"] == mine[0]
        process.resume(pause["id"])
        assert running.result() == result


def test_the_code_around_may_be_running_already(process: Debuggee) -> None:
    """What it makes next is intercepted; what it has made is too."""
    made = []

    def outer() -> Iterator[int]:
        while True:
            made.append(lambda x: x + 1)
            yield len(made)

    going = outer()
    next(going)
    before = made[0]
    name = f"{HERE}.test_the_code_around_may_be_running_already.outer.<lambda>"
    assert process.add(name)["functions"]
    next(going)
    for each in (before, made[1]):
        running = process.call(each, 1)
        process.resume(process.stop()["id"], modified_args=[5])
        assert running.result() == 6


# --- what a stop offers -------------------------------------------------------------------------


@pytest.mark.quick
def test_every_action_is_possible_at_a_first_call(process: Debuggee) -> None:
    """`breakpoint_continue`, at the `before` phase."""
    process.add(f"{HERE}.adder.add")
    actions: list[tuple[dict[str, Any], int]] = [
        ({}, 12),
        ({"action": "skip", "fake_result": 9}, 9),
        ({"modified_args": [5]}, 20),
        ({"modified_kwargs": {"by": 5}}, 15),
        ({"replacement_function": f"{HERE}:stand_in"}, -1),
    ]
    for how, result in actions:
        running = process.call(lambda: adder(10)(1))
        pause = process.stop()
        assert pause["locals"]["m"] == "1"
        assert pause["call_data"]["signature"] == "(m, *, by=2)"
        process.resume(pause["id"], **how)
        assert running.result() == result
    running = process.call(lambda: adder(10)(1))
    process.resume(process.stop()["id"], "raise", exception_type="LookupError")
    with pytest.raises(LookupError):
        running.result()


def test_a_replacement_must_fit_the_functions_that_were_made(process: Debuggee) -> None:
    """`breakpoint_set_replacement`: `signature_mismatch`."""
    process.add(f"{HERE}.adder.add", condition="False")
    made = adder(1)
    assert made(1) == 3  # what runs the original has no defaults, and is none of them
    ask = process.start(
        lambda n: AddBreakpoint(n, "fn-1", f"{HERE}.adder.add", "go", replacement=f"{HERE}:no")
    )
    assert process.refused(ask)["error"] == "signature_mismatch"
    process.start(
        lambda n: AddBreakpoint(
            n, "fn-1", f"{HERE}.adder.add", "go", replacement=f"{HERE}:stand_in"
        )
    )()
    assert made(1) == -1


def no(m: int) -> int:
    return m


def stand_in(m: int, *, by: int = 0) -> int:
    return -m


def test_each_of_many_functions_has_its_own_defaults(process: Debuggee) -> None:
    """They share their code; which of them is called is known all the same."""
    process.add(f"{HERE}.steps.*")
    for step, each in enumerate(steps(3)):
        running = process.call(each, 1)
        pause = process.stop()
        assert pause["call_data"]["signature"] == f"(x, step={step})"
        process.resume(pause["id"], modified_args=[7])
        assert running.result() == (7, step)


def test_a_condition_sees_what_the_function_sees(process: Debuggee) -> None:
    process.add(f"{HERE}.countdown.down", condition="m == 1")
    running = process.call(countdown, 3)
    pause = process.stop()
    assert pause["locals"]["m"] == "1"
    process.resume(pause["id"], "skip", fake_result=["end"])
    assert running.result() == [3, 2, "end"]


def test_a_closure_writes_to_its_own_variables(process: Debuggee) -> None:
    process.add(f"{HERE}.adder.add")
    one, other = adder(1), adder(10)
    for each, result in ((one, 3), (other, 12), (one, 5)):
        running = process.call(each, 1)
        process.resume(process.stop()["id"])
        assert running.result() == result
    assert one.__closure__
    assert one.__closure__[0].cell_contents == 5


def test_a_generator_has_the_name_of_its_function(process: Debuggee) -> None:
    """`wraps` renames the function after it was made."""
    process.add(f"{HERE}.turns.turn", condition="False")
    made: Any = turns(named_price)(1)
    assert (made.__name__, made.__qualname__) == ("named_price", "named_price")
    assert list(made) == [0]


# --- what others see ----------------------------------------------------------------------------


def test_a_function_looks_as_it_would_without_us(process: Debuggee) -> None:
    looks: list[Callable[[Any], Any]] = [
        inspect.signature,
        inspect.getsource,
        inspect.iscoroutinefunction,
        inspect.isgeneratorfunction,
        inspect.getdoc,
        lambda each: (each.__name__, each.__qualname__, each.__defaults__, each.__kwdefaults__),
        lambda each: each.__code__.co_freevars,
        lambda each: (each.__code__.co_flags, each.__code__.co_firstlineno),
    ]

    def seen() -> list[Any]:
        made = [adder(1), logged(named_price), steps(1)[0], turns(named_price), later(1)]
        return [look(each) for look in looks for each in made]

    before = seen()
    process.add(f"{HERE}.*", condition="False")
    assert is_trampoline(code_of(adder(1)))
    assert seen() == before


def test_the_code_around_stays_the_same_object(process: Debuggee) -> None:
    """Whatever watches it by its identity still does: lines, recordings, coverage."""
    code, consts = code_of(adder), code_of(adder).co_consts
    process.add(f"{HERE}.adder.add", condition="False")
    assert code_of(adder) is code
    assert code_of(adder).co_consts is consts


def test_who_looks_through_the_code_around_finds_the_originals(process: Debuggee) -> None:
    """A trampoline has the name and the line of its original: lines would be watched twice."""
    before = [code for code, _parent, _depth in walk(code_of(deep))]
    process.add(f"{HERE}.deep.*", condition="False")
    after = [code for code, _parent, _depth in walk(code_of(deep), original=original_code)]
    assert is_trampoline(code_of(deep()))
    assert list(map(id, after)) == list(map(id, before))


def failing() -> Callable[[], None]:
    def fails() -> None:
        raise LookupError

    return fails


def test_a_traceback_is_that_of_any_intercepted_function(process: Debuggee) -> None:
    """No more frames, and the user's are what pytest shows."""
    existing = failing()
    process.add(f"{HERE}.failing.fails", condition="False")
    for function in (existing, failing()):
        with pytest.raises(LookupError) as caught:
            function()
        shown = [entry.name for entry in caught.traceback.filter(caught)]
        assert (len(shown), shown[-1]) == (2, "fails")
        assert len(caught.traceback) <= 1 + TAKEN


def test_a_function_can_be_pickled_by_value(process: Debuggee) -> None:
    """As task queues do it; it calls the original where it is unpickled."""
    process.add(f"{HERE}.adder.add", condition="False")
    dumped = dill.dumps(adder(1), byref=False, recurse=True)
    program = "import pickle, sys, dill; print(pickle.loads(bytes.fromhex(sys.argv[1]))(2))"
    command = [sys.executable, "-c", program, dumped.hex()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "5\n"
    assert pickle.loads(dumped)(2) == 5


def test_code_that_runs_in_two_namespaces_keeps_them_apart(process: Debuggee) -> None:
    source = "def outer():\n    def inner(): return (name, __name__)\n    return inner\n"
    code = compile(source, f"{__file__}.twice", "exec")
    spaces: list[dict[str, Any]] = [{"__name__": "one", "name": 1}, {"__name__": "two", "name": 2}]
    exec(code, spaces[0])
    process.add("inner")
    exec(code, spaces[1])
    for each in (*spaces, *spaces):
        running = process.call(each["outer"]())
        process.resume(process.stop()["id"])
        assert running.result() == (each["name"], each["__name__"])


# --- many of them, and their end ----------------------------------------------------------------


def test_functions_made_by_the_thousand_leave_nothing_behind(process: Debuggee) -> None:
    process.add(f"{HERE}.steps.*")
    process.add(f"{HERE}.*", condition="False", id="fn-2")
    alive = [weakref.ref(each) for each in steps(2_000)]
    assert [each for each in alive if each() is not None] == []
    gc.collect()
    before = len(gc.get_objects())
    for each in steps(2_000):
        assert is_trampoline(code_of(each))
    del each
    gc.collect()
    assert len(gc.get_objects()) - before < 100


def inner_codes(root: CodeType) -> list[CodeType]:
    own = [each for each in root.co_consts if type(each) is CodeType]
    return own + [code for each in own for code in inner_codes(each)]


def test_a_removal_restores_the_code_of_all_functions(process: Debuggee) -> None:
    """Those made before, meanwhile and afterwards; and no more references are left than before."""
    makers: list[Any] = [adder, logged, steps, turns, later, in_time, deep, countdown]
    codes = [inner_codes(code_of(each)) for each in makers]
    before = adder(1)
    process.add(f"{HERE}.adder.*", condition="False")
    process.remove()
    counts = [[sys.getrefcount(code) for code in each] for each in codes]
    for _ in range(3):
        process.add(f"{HERE}.*", condition="False")
        meanwhile = adder(1)
        assert is_trampoline(code_of(before))
        assert is_trampoline(code_of(meanwhile))
        process.remove()
        for each in (before, meanwhile, adder(1)):
            assert code_of(each) is codes[0][0]
        del each, meanwhile
    assert [inner_codes(code_of(each)) for each in makers] == codes
    gc.collect()
    assert [[sys.getrefcount(code) for code in each] for each in codes] == counts


def test_threads_may_make_and_call_while_breakpoints_come_and_go(process: Debuggee) -> None:
    over, wrong = threading.Event(), []

    def work() -> None:
        while not over.wait(0.0005):  # each call leaves a row, and the scans look at all objects
            seen = (adder(1)(2), list(turns(named_price)(2)), deep()()())
            if seen != (5, [0, 1], 4):
                wrong.append(seen)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for each in threads:
        each.start()
    try:
        for _ in range(3):
            for number, name in enumerate(("adder.add", "turns.turn", "deep.*")):
                process.add(f"{HERE}.{name}", condition="not __name__", id=f"fn-{number}")
            for number in range(3):
                process.remove(f"fn-{number}")
    finally:
        over.set()
        for each in threads:
            each.join(30)
    assert wrong == []
    assert not process.has(Stopped)
    assert not is_trampoline(code_of(adder(1)))


def test_a_forked_child_runs_the_original_functions(
    process: Debuggee, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would ever release a pause there; and nobody looks for those that were made."""
    process.add(f"{HERE}.adder.add")
    before = adder(1)
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    with monkeypatch.context() as patch:
        # It would copy all the memory that the child shares with its parent.
        patch.setattr("pytest_cideldill.probes.nesting.existing_functions", lambda: os._exit(2))
        child = os.fork()
        if child == 0:
            is_clean = not is_trampoline(code_of(adder(1)))
            os._exit(0 if is_clean and adder(1)(2) == before(2) == 5 else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert is_trampoline(code_of(before))
