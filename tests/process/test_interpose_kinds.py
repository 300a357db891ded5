"""Interception of generator and coroutine functions: what they make goes on as without us."""

from __future__ import annotations

import asyncio
import inspect
import traceback
import types
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

import pytest

from pytest_cideldill.patching.code_swap import intercept, original_code
from pytest_cideldill.patching.function_code import code_of
from tests.process.test_interpose import Calls, as_function


def generator(start: int = 1) -> Generator[int, int, str]:
    """Yields what it is sent, plus one."""
    try:
        while start < 100:
            start = 1 + ((yield start) or 100)
    except ValueError:
        yield -1
    return "done"


async def coroutine(n: int) -> int:
    await asyncio.sleep(0)
    return n


async def async_generator(n: int) -> AsyncIterator[int]:
    for number in range(n):
        await asyncio.sleep(0)
        yield number


@types.coroutine
def old_coroutine(n: int) -> Generator[None, None, int]:
    yield
    return n


@pytest.fixture(params=["plain", "intercepted"])
def kinds(request: pytest.FixtureRequest) -> Iterator[Calls]:
    """Once as they are, once intercepted: what is expected is what they do as they are."""
    calls = Calls()
    functions: list[Any] = [generator, coroutine, async_generator, old_coroutine]
    undos = []
    if request.param == "intercepted":
        undos = [intercept(function, calls) for function in functions]
    yield calls
    for undo in undos:
        undo()


def test_a_generator_goes_on_as_without_us(kinds: Calls) -> None:
    """What it is sent, thrown and told at its end arrives."""
    made = generator(5)
    assert (next(made), made.send(7), made.throw(ValueError)) == (5, 8, -1)
    with pytest.raises(StopIteration) as ended:
        next(made)
    assert ended.value.value == "done"
    assert [*generator(99), *_delegated()] == [99]


def _delegated() -> Generator[int, int, None]:
    assert (yield from generator(100)) == "done"


def test_a_generator_looks_as_without_us(kinds: Calls) -> None:
    """Names, frame, type: `contextlib`, `asyncio` and tests look at them."""
    made: Any = generator()
    assert type(made) is types.GeneratorType
    assert (made.__name__, made.__qualname__) == ("generator", "generator")
    assert repr(made).startswith("<generator object generator at")
    assert made.gi_code is original_code(code_of(as_function(generator)))
    assert inspect.getgeneratorlocals(made) == {"start": 1}
    assert inspect.getgeneratorstate(made) == inspect.GEN_CREATED
    next(made)
    assert made.gi_yieldfrom is None
    assert [entry.name for entry in traceback.extract_stack(made.gi_frame)] == ["generator"]
    assert inspect.isgeneratorfunction(generator)
    assert inspect.iscoroutinefunction(coroutine)
    assert inspect.isasyncgenfunction(async_generator)


def test_a_renamed_generator_function_names_its_generators(kinds: Calls) -> None:
    """`functools.wraps` renames functions."""
    generator.__name__, generator.__qualname__ = "renamed", "Some.renamed"
    try:
        made: Any = generator()
    finally:
        generator.__name__ = generator.__qualname__ = "generator"
    assert (made.__name__, made.__qualname__) == ("renamed", "Some.renamed")


def test_an_error_in_a_generator_has_no_frames_of_ours(kinds: Calls) -> None:
    with pytest.raises(TypeError) as caught:
        next(generator(None))  # type: ignore[arg-type]
    assert [entry.name for entry in traceback.extract_tb(caught.tb)][1:] == ["generator"]


def test_coroutines_go_on_as_without_us(kinds: Calls) -> None:
    async def main() -> object:
        task = asyncio.create_task(coroutine(2))
        return (
            await coroutine(1),
            await task,
            await old_coroutine(3),
            [number async for number in async_generator(3)],
        )

    assert asyncio.run(main()) == (1, 2, 3, [0, 1, 2])


def test_a_coroutine_that_nobody_awaits_is_reported_by_its_name(kinds: Calls) -> None:
    with pytest.warns(RuntimeWarning, match="coroutine 'coroutine' was never awaited"):
        inspect.isawaitable(coroutine(1))


def test_a_generator_function_is_intercepted_when_it_is_called() -> None:
    """Not when the generator is asked for its first item, perhaps by somebody else."""
    calls = Calls()
    undo = intercept(as_function(generator), calls)
    made = generator(7)
    undo()
    assert calls.seen == [((7,), {})]
    assert next(made) == 7


def test_a_closure_that_is_a_generator_keeps_its_variables() -> None:
    total = 0

    def add(n: int) -> Iterator[int]:
        nonlocal total
        total += n
        yield total

    intercept(as_function(add), Calls())
    assert [*add(2), *add(3)] == [2, 5]
    assert total == 5
