"""Steps end at the same lines with all Python versions; the source is as cheap as before after."""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

from pytest_cideldill.patching.code_swap import intercept
from pytest_cideldill.pauses.stepping import StepOrder, Steps
from pytest_cideldill.project import Project
from pytest_cideldill.tracing.interface import REST, Source, Trail
from tests.process.sources_checks import (
    MONITORING,
    ROOT,
    Consumer,
    Skipped,
    armed,
    code_of,
    lines,
    name_of_line,
    opened,
    report,
    run_as_script,
)

NOTHING: dict[str, None] = {}
DRIVES = {"walk", "run_as_script", "<module>", "__call__"}
"""Functions of this file that are no part of the programs under test."""


class Walk(Steps):
    """Steps as told, one order per stop; the places are the comments of their lines."""

    def __init__(self, source: Source, orders: Iterator[StepOrder]) -> None:
        super().__init__(Project(str(ROOT)), lambda: source, self._stopped, self._left)
        self._orders = orders
        self.places: list[str] = []

    def is_user(self, frame: FrameType) -> bool:
        name = frame.f_code.co_name
        is_own = name in DRIVES or name.startswith("check_")
        return not is_own and super().is_user(frame)

    def _stopped(self, frame: FrameType) -> None:
        self.places.append(name_of_line(frame.f_code.co_filename, frame.f_lineno))
        self.halt()
        order = next(self._orders, None)
        if order is None:
            self.leave()
        else:
            self.begin(frame, order)

    def _left(self) -> None:
        self.places.append("END")
        self.leave()


def walk(
    program: Callable[[], object],
    first: str,
    *orders: str | StepOrder,
    code: CodeType | None = None,
) -> str:
    """Where the steps end that begin at the line `first`; the last order goes on for ever."""
    code = code or code_of(program)
    made = [each if isinstance(each, StepOrder) else StepOrder(each) for each in orders]
    consumer = Consumer()

    def endless() -> Iterator[StepOrder]:
        yield from made
        while True:
            yield made[-1]

    with opened(consumer) as source:
        steps = Walk(source, endless())

        def begin(frame: FrameType, _line: int) -> None:
            source.watch_lines(code, frozenset())
            steps._stopped(frame)

        consumer.on_hit = begin
        source.watch_lines(code, lines(code, first))
        program()
        assert armed([code]) == []
    assert consumer.failures == []
    return " ".join(steps.places)


# --- programs -------------------------------------------------------------------------------------


def add(a: int, b: int) -> int:
    c = a + b  # add1
    return c  # noqa: RET504 # add2


def decorate(function: Callable[[int], int]) -> Callable[[int], int]:
    def wrapper(a: int) -> int:
        return function(a)  # wrap

    return wrapper


@decorate
def stepped_decorated(a: int) -> int:
    return a  # deco


def items() -> Iterator[int]:
    yield 1  # it1
    yield 2  # it2


def fails() -> None:
    x = 1  # f1
    raise KeyError(x)  # f2


def program() -> int:
    x = 1  # p1
    y = add(x, 2)  # p2
    stepped_decorated(y)  # p3
    for each in items():  # p4
        x = each  # p5
    try:  # p6
        fails()  # p7
    except KeyError:  # p8
        x = 3  # p9
    add(  # p10
        1,
        add(x, 2),
    )
    with threading.Lock():  # p11
        x = 4  # p12
    [add(each, 1) for each in (1, 2)]  # p13
    (lambda: add(1, 1))()  # p14
    return x  # p15


def recursive(n: int) -> int:
    if n:  # r1
        recursive(n - 1)  # r2
    return n  # r3


def thrown() -> Iterator[int]:
    try:  # t0
        yield 1  # t1
    finally:
        add(1, 2)  # t2


def throws() -> int:
    held = thrown()  # th1
    next(held)  # th2
    try:  # th3
        held.throw(KeyError)  # type: ignore[attr-defined]  # th4
    except KeyError:  # th5
        pass  # th6
    i = 0  # th7
    while i < 3:  # th8
        i += 1  # th9
    return i  # th10


async def waits() -> int:
    await asyncio.sleep(0.001)  # w1
    return 5  # w2


async def streams() -> AsyncIterator[int]:
    yield 1  # s1
    await asyncio.sleep(0)  # s2
    yield 2  # s3


async def main() -> int:
    other = asyncio.ensure_future(others())  # m1
    one = await waits()  # m2
    async for each in streams():  # m3
        one += each  # m4
    try:  # m5
        await asyncio.wait_for(asyncio.sleep(5), 0.001)  # m6
    except TimeoutError:  # m7
        one = 2  # m8
    await other  # m9
    return one  # m10


async def others() -> None:
    for _ in range(20):  # o1
        await asyncio.sleep(0)  # o2


def runs() -> None:
    asyncio.run(main())  # runs


# --- checks ---------------------------------------------------------------------------------------

OVER = "p1 p2 p3 p4 p5 p4 p5 p4 p6 p7 p8 p9 p10 p11 p12 p13 p14 p15 END"


def check_over_stays_in_its_frame() -> None:
    places = walk(program, "p1", "over")
    assert places == OVER, places


def check_in_enters_whatever_is_called() -> None:
    places = walk(program, "p1", "in")
    expected = (
        "p1 p2 add1 add2 p3 wrap deco p4 it1 p5 p4 it2 p5 p4 p6 p7 f1 f2 p8 p9 "
        "p10 add1 add2 add1 add2 p11 p12 p13 add1 add2 add1 add2 p14 p14 add1 add2 p15 END"
    )
    assert places == expected, places


def check_out_comes_to_the_caller() -> None:
    orders = ["over", "in", "out", "over", "in", "over", "out", "out", "over"]
    places = walk(program, "p1", *orders)
    assert places.startswith("p1 p2 add1 p3 p4 it1 p5 END"), places


def check_a_step_counts() -> None:
    places = walk(program, "p1", StepOrder("in", 4), StepOrder("over", 3), StepOrder("out"))
    assert places == "p1 p3 p4 END", places


def check_until_a_line_or_the_end_of_the_frame() -> None:
    last = max(lines(code_of(program), "p12"))
    places = walk(program, "p1", StepOrder(until=last), StepOrder(until=last), StepOrder("over"))
    assert places == "p1 p12 END", places
    within = max(lines(code_of(recursive), "r1"))
    places = walk(lambda: recursive(2), "r3", StepOrder(until=within), code=code_of(recursive))
    assert places == "r3 r3 r3 END", places


def check_recursion_is_reported_by_frames() -> None:
    places = walk(lambda: recursive(2), "r1", "over", code=code_of(recursive))
    assert places == "r1 r2 r3 END", places


def check_what_is_thrown_into_a_generator() -> None:
    places = walk(throws, "th1", "in")
    expected = "th1 th2 t0 t1 th3 th4 t2 add1 add2 th5 th6 th7 th8 th9 th8 th9 th8 th9 th8 th10 END"
    assert places == expected, places


def check_waiting_stays_with_the_frame() -> None:
    places = walk(runs, "m1", "over", code=code_of(main))
    assert places == "m1 m2 m3 m4 m3 m4 m3 m5 m6 m7 m8 m9 m10 END", places


def check_in_does_not_enter_other_tasks() -> None:
    places = walk(runs, "m1", "in", code=code_of(main))
    expected = "m1 m2 w1 w2 m3 s1 m4 m3 s2 s3 m4 m3 m5 m6 m7 m8 m9 m10 END"
    assert places == expected, places


def check_our_frames_are_invisible() -> None:
    assert isinstance(add, FunctionType)
    undo = intercept(add, print, type(None))  # nobody wants its calls
    try:
        assert walk(program, "p2", "in", "over", "over", "out") == "p2 add1 add2 p3 END"
    finally:
        undo()


def check_other_threads_are_unaffected() -> None:
    hits: list[int] = []
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            add(1, 2)
            hits.append(1)

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        places = walk(program, "p1", "over")
    finally:
        stop.set()
        thread.join()
    assert places == OVER, places
    assert hits


def check_a_bug_of_ours_ends_the_step_and_not_the_program() -> None:
    consumer = Consumer()
    consumer.ours += (__file__,)
    with opened(consumer) as source:

        def follow(frame: FrameType, _line: int) -> None:
            trail = Trail(frame, lines=True, on_line=lambda *_: NOTHING["here"])
            source.follow(threading.get_ident(), trail)

        consumer.on_hit = follow
        source.watch_lines(code_of(program), lines(code_of(program), "p1"))
        assert program() == 4
        (reported,) = consumer.failures
        assert "following the program" in reported
        source.follow(threading.get_ident(), None)


def check_beside_coverage() -> None:
    """It sees the same lines, and steps end where they end without it."""
    try:
        coverage: Any = importlib.import_module("coverage")
    except ImportError:
        raise Skipped("coverage is not installed here") from None
    alone = walk(program, "p1", "in")
    first, last = min(lines(code_of(add), "add1")), max(lines(code_of(program), "p15"))
    places: list[str] = []

    def check_walk() -> None:
        places.append(walk(program, "p1", "in"))

    def check_measured(run: Callable[[], object]) -> list[int]:
        measuring = coverage.Coverage(data_file=None, config_file=False, include=[__file__])
        measuring.start()
        try:
            run()
        finally:
            measuring.stop()
        seen = measuring.get_data().lines(__file__)
        return sorted(line for line in seen if first <= line <= last)

    assert check_measured(check_walk) == check_measured(program)
    assert places == [alone]


def check_with_one_tool_id_as_well() -> None:
    if sys.version_info < (3, 12):
        return
    for tool in (4, 2):
        sys.monitoring.use_tool_id(tool, "another")
    try:
        assert walk(program, "p2", "in", "in", "out") == "p2 add1 add2 p3 END"
    finally:
        for tool in (4, 2):
            sys.monitoring.free_tool_id(tool)


def check_nothing_of_the_program_is_kept() -> None:
    class Thing:
        pass

    alive: list[bool] = []

    def held() -> weakref.ref[Thing]:
        thing = Thing()  # h1
        return weakref.ref(thing)  # h2

    def holds() -> None:
        reference = held()  # h3
        alive.append(reference() is not None)  # h4

    places = walk(holds, "h1", "over", code=code_of(held))
    assert places == "h1 h2 h4 END", places
    assert alive == [False]


def check_any_loop_is_seized() -> None:
    """Also those without line events; nothing happens to the program."""
    go_on = [True]

    def one_line() -> None:
        while go_on[0]:
            pass

    def generates() -> None:
        all(go_on[0] for _ in iter(int, 1))

    def calls() -> None:
        while go_on[0]:
            add(1, 2)

    for loop in (one_line, generates, calls):
        consumer = Consumer()
        found = threading.Event()
        seen: list[str] = []
        with opened(consumer) as source:
            steps = Walk(source, iter(()))

            def stop(frame: FrameType, seen: Any = seen, found: Any = found) -> None:
                if not found.is_set():
                    seen.append(frame.f_code.co_name)
                    go_on[0] = False
                    found.set()

            go_on[0] = True
            thread = threading.Thread(target=loop)
            thread.start()
            assert thread.ident is not None
            undo = steps.seize(thread.ident, stop)
            assert found.wait(20), loop
            thread.join()
            undo()
        assert consumer.failures == []
        assert seen, loop


def check_stepping_leaves_the_hot_path_alone() -> None:
    if not MONITORING:
        return
    consumer = Consumer()
    with opened(consumer) as source:
        tool = next(each for each in (5, 4, 2) if sys.monitoring.get_tool(each))
        event = sys.monitoring.events.LINE

        def callback() -> Any:
            held = sys.monitoring.register_callback(tool, event, None)
            sys.monitoring.register_callback(tool, event, held)
            return held

        usual = callback()
        source.follow(threading.get_ident(), REST)
        assert callback() != usual
        source.follow(threading.get_ident(), None)
        assert callback() == usual


def test_steps() -> None:
    report(__file__)


if __name__ == "__main__":
    run_as_script(globals())
