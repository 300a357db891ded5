"""Recorded calls: each start has its end, whatever way the call takes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from pytest_cideldill.patching.code_swap import intercept
from pytest_cideldill.tracing.interface import Deliberate, Source
from tests.process.sources_checks import (
    Consumer,
    code_of,
    expected_error,
    in_thread,
    opened,
    report,
    run_as_script,
)


class Log:
    """What was told of calls: `(number, function, outcome)` in the order of the ends."""

    def __init__(self) -> None:
        self.started: dict[int, tuple[str, dict[str, Any]]] = {}
        self.ended: list[tuple[int, str, Any]] = []
        self._numbers = itertools.count()

    def start(self, frame: FrameType, _locals: object) -> object:
        number = next(self._numbers)
        self.started[number] = (frame.f_code.co_name, dict(frame.f_locals))
        return number

    def end(self, token: object, frame: FrameType, result: object, error: object) -> None:
        assert isinstance(token, int)
        name, _ = self.started[token]
        assert frame.f_code.co_name == name
        self.ended.append((token, name, result if error is None else error))

    def outcomes(self) -> list[Any]:
        return [
            type(outcome).__name__ if isinstance(outcome, BaseException) else outcome
            for _, _, outcome in self.ended
        ]


@contextmanager
def recorded(*functions: Callable[..., Any]) -> Iterator[tuple[Log, Source]]:
    log, consumer = Log(), Consumer()
    with opened(consumer) as source:
        for function in functions:
            source.record_calls(code_of(function), log.start, log.end)
        yield log, source
    assert consumer.failures == []


def factorial(n: int) -> int:
    return 1 if n == 0 else n * factorial(n - 1)


def generator(n: int) -> Generator[Any, Any, str]:
    for number in range(n):
        try:
            yield number
        except KeyError:
            yield None
    return "end"


def raising(depth: int) -> None:
    if depth:
        raising(depth - 1)
    raise KeyError(depth)


def check_arguments_and_results_of_a_recursion_pair() -> None:
    with recorded(factorial) as (log, source):
        factorial(3)
        source.stop_recording(code_of(factorial))
        factorial(1)
    assert [arguments["n"] for _, arguments in log.started.values()] == [3, 2, 1, 0]
    assert log.ended == [
        (3, "factorial", 1),
        (2, "factorial", 1),
        (1, "factorial", 2),
        (0, "factorial", 6),
    ]


def check_calls_that_run_already_are_not_reported() -> None:
    log, consumer = Log(), Consumer()

    def outer() -> None:
        source.record_calls(code_of(outer), log.start, log.end)
        source.record_calls(code_of(factorial), log.start, log.end)
        factorial(0)

    with opened(consumer) as source:
        outer()
        source.stop_recording(code_of(outer))
    assert [name for _, name, _ in log.ended] == ["factorial"]


def check_an_exception_that_leaves_is_reported_and_one_that_is_handled_is_not() -> None:
    def handling() -> int:
        try:
            raising(0)
        except KeyError:
            return 1
        return 2

    def changing() -> None:
        try:
            raising(0)
        except KeyError as error:
            raise ValueError from error
        finally:
            factorial(0)

    def cleaning() -> None:
        try:
            raising(0)
        finally:
            factorial(0)

    with recorded(raising, handling, changing, cleaning) as (log, _):
        assert handling() == 1
        for function in (changing, cleaning):
            with expected_error(ValueError, KeyError):
                function()
        with expected_error(KeyError):
            raising(1)
    ended = [(name, type(outcome).__name__) for _, name, outcome in log.ended]
    assert ended == [
        ("raising", "KeyError"),
        ("handling", "int"),
        ("raising", "KeyError"),
        ("changing", "ValueError"),
        ("raising", "KeyError"),
        ("cleaning", "KeyError"),
        ("raising", "KeyError"),
        ("raising", "KeyError"),
    ]


def check_a_returned_exception_is_a_result() -> None:
    reported: list[tuple[object, object]] = []

    def returning() -> KeyError:
        return KeyError()

    with opened(Consumer()) as source:
        source.record_calls(
            code_of(returning),
            lambda *_: 1,
            lambda token, frame, result, error: reported.append((result, error)),
        )
        result = returning()
    assert reported == [(result, None)]


def check_yields_are_no_calls() -> None:
    with recorded(generator) as (log, _):
        assert list(generator(3)) == [0, 1, 2]
        assert [generator(1)]  # never started
    assert [outcome for _, _, outcome in log.ended] == ["end"]
    assert len(log.started) == 1


def check_generators_that_take_turns_are_distinguished() -> None:
    with recorded(generator) as (log, _):
        first, second = generator(1), generator(2)
        next(first)
        next(second)
        assert list(first) == []
        assert list(second) == [1]
    assert [number for number, _, _ in log.ended] == [0, 1]


def check_what_is_thrown_into_a_generator_ends_it_or_not() -> None:
    with recorded(generator) as (log, _):
        kept = generator(1)
        next(kept)
        assert kept.throw(KeyError) is None
        assert log.ended == []
        assert list(kept) == []
        left = generator(1)
        next(left)
        with expected_error(ValueError, match="thrown"):
            left.throw(ValueError("thrown"))
        unstarted = generator(1)
        with expected_error(KeyError):
            unstarted.throw(KeyError)
    assert log.outcomes() == ["end", "ValueError"]


def check_an_exception_handled_at_a_yield_does_not_end_the_generator() -> None:
    """The same instruction yields again: settrace tells both ways out as `return`."""

    def stubborn() -> Generator[None, None, None]:
        while True:
            try:
                yield
            except KeyError:
                pass

    with recorded(stubborn) as (log, _):
        running = stubborn()
        next(running)
        for _ in range(3):
            running.throw(KeyError)
        assert log.ended == []
        with expected_error(ValueError, match="out"):
            running.throw(ValueError("out"))
    assert log.outcomes() == ["ValueError"]


def check_a_closed_generator_ends_unless_the_interpreter_skips_its_code() -> None:
    def plain() -> Iterator[int]:
        yield 1

    with recorded(plain, generator) as (log, _):
        for function in (plain, lambda: generator(1)):
            running: Any = function()
            next(running)
            running.close()
    # 3.13 closes a generator without a handler around its yield without running it.
    reported = ["GeneratorExit"] * (1 if sys.version_info >= (3, 13) else 2)
    assert log.outcomes() == reported


def check_coroutines_and_async_generators_are_one_call_each() -> None:
    async def ticks(n: int) -> AsyncIterator[int]:
        for number in range(n):
            await asyncio.sleep(0)
            yield number

    async def add(n: int) -> int:
        return sum([number async for number in ticks(n)])

    async def cancelled() -> None:
        await asyncio.sleep(60)

    async def main() -> tuple[int, int]:
        task = asyncio.ensure_future(cancelled())
        sums = await asyncio.gather(add(2), add(3))
        task.cancel()
        return sums

    with recorded(ticks, add, cancelled) as (log, _):
        assert tuple(asyncio.run(main())) == (1, 3)
    ended = sorted((name, str(outcome)) for _, name, outcome in log.ended)
    assert ended == [
        ("add", "1"),
        ("add", "3"),
        ("cancelled", ""),
        ("ticks", "None"),
        ("ticks", "None"),
    ]


def check_calls_of_many_threads_pair() -> None:
    rounds = 200

    def work(n: int) -> int:
        return int(sum(generator(n))) + factorial(n)

    with recorded(work, generator, factorial) as (log, _):
        switching = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        threads = [
            threading.Thread(target=lambda: [work(3) for _ in range(rounds)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(switching)
    assert len(log.ended) == len(log.started) == 4 * rounds * 6
    assert len({number for number, _, _ in log.ended}) == len(log.ended)
    assert {outcome for _, name, outcome in log.ended if name == "work"} == {9}


def check_a_generator_may_end_in_another_thread() -> None:
    with recorded(generator) as (log, _):
        running = generator(1)
        next(running)
        thread = threading.Thread(target=lambda: list(running))
        thread.start()
        thread.join()
    assert log.outcomes() == ["end"]


def check_a_call_whose_start_is_not_wanted_has_no_end() -> None:
    ends: list[object] = []
    with opened(Consumer()) as source:
        source.record_calls(code_of(factorial), lambda *_: None, lambda *end: ends.append(end))
        factorial(3)
    assert ends == []


def check_lines_and_calls_of_one_function_live_together() -> None:
    log, consumer = Log(), Consumer()

    def both(n: int) -> int:
        n += 1  # both
        return n

    code = code_of(both)
    line = frozenset({code.co_firstlineno + 1})
    with opened(consumer) as source:
        source.watch_lines(code, line)
        source.record_calls(code, log.start, log.end)
        both(1)
        source.watch_lines(code, frozenset())
        both(2)
        source.watch_lines(code, line)
        both(3)
        source.stop_recording(code)
        both(4)
    assert log.outcomes() == [2, 3, 4]
    assert consumer.hits == ["both"] * 3


def check_lines_set_in_a_recorded_frame_work_there() -> None:
    log, consumer = Log(), Consumer()

    def running() -> int:
        source.watch_lines(code_of(running), frozenset({code_of(running).co_firstlineno + 2}))
        return 1  # inside

    with opened(consumer) as source:
        source.record_calls(code_of(running), log.start, log.end)
        running()
    assert consumer.hits == ["inside"]
    assert log.outcomes() == [1]


def check_no_frame_outlives_its_call() -> None:
    class Local:
        pass

    references = []

    def holding() -> None:
        local = Local()
        references.append(weakref.ref(local))

    gc.disable()
    try:
        with opened(Consumer()) as source:
            source.record_calls(code_of(holding), lambda *_: 1, lambda *end: None)
            holding()
            assert references[0]() is None
    finally:
        gc.enable()


class Local:
    """Something that dies when nobody holds it."""


def check_an_argument_that_is_deleted_is_gone_although_it_was_looked_at() -> None:
    """Before 3.13 a look at `f_locals` keeps all values until the frame ends."""
    count = 0
    names: list[list[str]] = []

    def deleting(local: Local, *, other: Local) -> tuple[object, object, list[str]]:
        first, second = weakref.ref(local), weakref.ref(other)
        del local, other
        return first(), second(), sorted(locals())

    def counting(local: Local) -> object:
        nonlocal count
        count += 1
        reference = weakref.ref(local)
        local = Local()
        return reference()

    def yielding(local: Local) -> Iterator[object]:
        reference = weakref.ref(local)
        yield reference() is local
        del local
        yield reference()

    def start(_frame: FrameType, values: Mapping[str, object]) -> None:
        names.append(list(values))

    gc.disable()
    try:
        with opened(Consumer()) as source:
            for function in (deleting, counting, yielding):
                source.record_calls(code_of(function), start, lambda *end: None)
            assert deleting(Local(), other=Local()) == (None, None, ["first", "second"])
            assert counting(Local()) is None
            assert list(yielding(Local())) == [True, None]
    finally:
        gc.enable()
    assert count == 1
    assert names == [["local", "other"], ["local", "count"], ["local"]]


def check_what_others_write_while_a_call_starts_or_ends_is_kept() -> None:
    """Before 3.13 a trace function's snapshot of the locals was written back over it."""
    shared = 1

    def write(value: int) -> None:
        nonlocal shared
        shared = value

    def reading() -> int:
        return shared

    def look(frame: FrameType, value: int) -> None:
        assert frame.f_locals["shared"] == shared
        in_thread(lambda: write(value))

    def start(frame: FrameType, _locals: object) -> object:
        look(frame, shared + 1)
        return 1

    with opened(Consumer()) as source:
        source.record_calls(
            code_of(reading),
            start,
            lambda token, frame, result, error: look(frame, shared + 10),
        )
        assert reading() == 2
        assert shared == 12


class Failure(Exception):
    """An exception that can be referred to weakly."""


def check_an_exception_that_is_handled_is_gone_although_the_call_goes_on() -> None:
    def handling() -> list[object]:
        references = []
        for _ in range(2):
            try:
                raise Failure
            except Failure as failure:
                references.append(weakref.ref(failure))
        return [reference() for reference in references]

    def suspended() -> Iterator[object]:
        reference: Any = Failure
        with contextlib.suppress(Failure):
            failure = Failure()
            reference = weakref.ref(failure)
            raise failure
        del failure
        yield reference()
        yield reference()

    gc.disable()
    try:
        with recorded(handling, suspended) as (log, _):
            assert handling() == [None, None]
            assert list(suspended()) == [None, None]
    finally:
        gc.enable()
    assert log.outcomes() == [[None, None], None]


def check_an_exception_that_a_handler_raises_again_is_shown_as_itself() -> None:
    """3.11 has no event for it, and others may have come and gone since."""

    def cleaning() -> None:
        try:
            raise KeyError
        finally:
            with contextlib.suppress(ValueError):
                raise ValueError
            try:
                raise TypeError
            except TypeError:
                pass

    def unmatched() -> None:
        try:
            raise KeyError
        except KeyError:
            try:
                raise ValueError
            except TypeError:
                pass

    def named(again: bool) -> None:
        for _ in range(2):
            try:
                raise KeyError
            except KeyError as error:
                try:
                    raise LookupError from error
                except LookupError as other:
                    del other
                    if again:
                        raise
                if again is None:
                    raise

    def nested() -> None:
        try:
            try:
                raise KeyError
            except KeyError:
                try:
                    raise ValueError
                except ValueError:
                    pass
                raise
        finally:
            try:
                raise TypeError
            except TypeError:
                pass

    def replaced() -> None:
        try:
            raise KeyError
        finally:
            raise ValueError

    functions: list[Callable[[], object]] = [
        cleaning,
        unmatched,
        lambda: named(True),
        lambda: named(None),  # type: ignore[arg-type]
        nested,
        replaced,
    ]
    with recorded(cleaning, unmatched, named, nested, replaced) as (log, _):
        expected = []
        for function in functions:
            with expected_error(Exception) as raised:
                function()
            expected.append(type(raised.value).__name__)
        named(False)
    assert expected == [
        "KeyError",
        "ValueError",
        "LookupError",
        "KeyError",
        "KeyError",
        "ValueError",
    ]
    assert log.outcomes() == [*expected, None], log.outcomes()


def check_an_exception_leaves_a_generator_from_its_handler() -> None:
    """Also at the very place of a yield, where a `with` raises it again."""

    def in_handler() -> Iterator[int]:
        try:
            raise KeyError
        except KeyError:
            yield 1
            raise

    def in_with() -> Iterator[None]:
        while True:
            with contextlib.suppress(ValueError):
                yield

    def in_finally() -> Iterator[None]:
        try:
            yield
        finally:
            with contextlib.suppress(ValueError):
                raise ValueError

    with recorded(in_handler, in_with, in_finally) as (log, _):
        with expected_error(KeyError):
            list(in_handler())
        for function in (in_with, in_finally):
            running: Any = function()
            next(running)
            if function is in_with:
                running.throw(ValueError)
                assert len(log.ended) == 1
            with expected_error(OSError, match="thrown"):
                running.throw(OSError("thrown"))
    assert log.outcomes() == ["KeyError", "OSError", "OSError"], log.outcomes()


def check_an_intercepted_function_is_recorded_as_itself() -> None:
    """Under a trampoline the original code runs: it is that which is recorded."""

    def function(n: int) -> int:
        return n + 1

    code = code_of(function)
    undo = intercept(function, lambda frame, original, args, kwargs: original(*args, **kwargs))  # type: ignore[arg-type]
    consumer, log = Consumer(), Log()
    try:
        with opened(consumer) as source:
            source.discover(True)
            source.record_calls(code, log.start, log.end)
            assert function(1) == 2
    finally:
        undo()
    assert log.outcomes() == [2]
    found = [each for each in consumer.codes if each.co_name == "function"]
    assert [each is code for each in found] == [True]


def check_a_handler_may_raise_instead_of_a_call_and_its_result() -> None:
    def function() -> int:
        return 1

    def refuse(*_: object) -> None:
        raise Deliberate(PermissionError("refused"))

    consumer = Consumer()
    with opened(consumer) as source:
        source.record_calls(code_of(function), refuse, lambda *end: None)
        with expected_error(PermissionError) as raised:
            function()
        assert raised.value.__context__ is None
        source.record_calls(code_of(function), lambda *_: 1, refuse)
        source.refresh()
        with expected_error(PermissionError):
            function()
    assert consumer.failures == []


def test_calls() -> None:
    report(__file__)


if __name__ == "__main__":
    run_as_script(globals())
