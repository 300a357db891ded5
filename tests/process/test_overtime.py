"""The time limit of expressions, and what must pass them by: signals, Ctrl-C, the program itself.

The checks run in a process of their own: they raise signals.
"""

from __future__ import annotations

import functools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from pytest_cideldill.evaluation import time_limit as module
from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.evaluation.interrupt import Interruptor
from pytest_cideldill.evaluation.messages import RenderedMessage
from pytest_cideldill.evaluation.time_limit import CHECK_S, Overtime
from pytest_cideldill.project import Project
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.sourcecode.template import parse_template
from tests.process.sources_checks import report, run_as_script

PATIENCE = 20.0  # seconds until a check that waits gives up
SOON = 0.05
TIMEOUT = "<error: timeout>"


class Limits(Overtime):
    """Looks round all the time."""

    def __init__(self, limit_s: float = SOON, every_s: float = 0.002) -> None:
        self.guard = EvaluationGuard()
        super().__init__(self.guard, limit_s - CHECK_S)
        self._every_s = every_s

    @contextmanager
    def looking(self) -> Iterator[Limits]:
        done = threading.Event()

        def look() -> None:
            while not done.wait(self._every_s):
                self.check()

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield self
        finally:
            done.set()
            thread.join()
            self.close()
        assert self.guard.depths == {}
        assert not any(each.is_running for each in self.threads.values())


def message(limits: Overtime, frame: FrameType, template: str) -> Callable[[], str]:
    lens = Lens(Project("."), Redactor(environ={}))
    text = RenderedMessage(parse_template(template), frame.f_code, lens, limits).text
    return lambda: text(frame)


def in_thread(function: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    return results[0]


def endless() -> None:
    while True:
        pass


def swallowing(times: int) -> None:
    for _ in range(times):
        try:
            endless()
        except BaseException:  # noqa: BLE001 - that is the point
            continue
    endless()


def converting() -> None:
    try:
        endless()
    except BaseException as error:
        raise ValueError("mine") from error


class Endless:
    def __repr__(self) -> str:
        endless()
        return ""

    def __bool__(self) -> bool:
        return bool(repr(self))


BUSY = [
    "endless()",
    "swallowing(3)",
    "converting()",
    "Endless()!r",
    "Endless():",
    "not Endless()",
    "sum(1 for _ in iter(int, 1))",
    "[endless() for _ in 'x']",
]
BLOCKED = [
    "__import__('time').sleep(PATIENCE)",
    "lock.acquire()",
    "threading.Event().wait()",
    "__import__('queue').Queue().get()",
    "__import__('select').select([], [], [], PATIENCE)",
]

lock = threading.Lock()
lock.acquire()


def shown(limits: Overtime, source: str) -> str:
    number = 5
    assert number
    return message(limits, sys._getframe(), f"{{number}} {{{source}}} {{number + 1}}")()


def check_the_main_thread_is_stopped_in_loops_and_in_blocking_calls() -> None:
    with Limits().looking() as limits:
        for source in (*BUSY, *BLOCKED):
            assert shown(limits, source) == f"5 {TIMEOUT} 6", source


def check_other_threads_are_stopped_in_loops() -> None:
    with Limits().looking() as limits:
        for source in BUSY:
            found = in_thread(functools.partial(shown, limits, source))
            assert found == f"5 {TIMEOUT} 6", source


def check_several_expressions_of_one_message_may_be_slow() -> None:
    with Limits().looking() as limits:
        template = "{endless()} {5} {swallowing(1)} {sys.gettrace()} {endless()}"
        text = message(limits, sys._getframe(), template)()
    assert text == f"{TIMEOUT} 5 {TIMEOUT} None {TIMEOUT}"


def check_a_program_may_swallow_the_interruption_and_go_on() -> None:
    def once() -> str:
        try:
            endless()
        except BaseException:  # noqa: BLE001 - that is the point
            return "swallowed"
        return ""

    with Limits().looking() as limits:
        frame = sys._getframe()
        assert message(limits, frame, "{once()} {5 + 1}")() == "swallowed 6"
        assert once is not None


class Clock:
    """Stands for `clock`."""

    def __init__(self) -> None:
        self.time = 100.0

    def monotonic(self) -> float:
        return self.time


@contextmanager
def controlled_time() -> Iterator[Clock]:
    clock = Clock()
    with mock.patch.object(module, "clock", clock):
        yield clock


class Watched:
    """An evaluation on a thread of its own, with steps that are waited for."""

    def __init__(self, limits: Overtime, template: str, **names: Any) -> None:
        self.under_way, self.going_on = threading.Semaphore(0), threading.Semaphore(0)

        def evaluate() -> None:
            step = self.step
            assert step is not None is not names
            self.text = message(limits, sys._getframe(), template)()

        self.text = ""
        self.thread = threading.Thread(target=evaluate)
        self.thread.start()

    def step(self) -> int:
        self.under_way.release()
        assert self.going_on.acquire(timeout=PATIENCE)
        return 1

    def arrive(self) -> None:
        assert self.under_way.acquire(timeout=PATIENCE)

    def end(self) -> str:
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()
        return self.text


def check_each_expression_has_its_own_time() -> None:
    """Three that take 0.9 s each are in time, all together are not one."""
    with controlled_time() as clock:
        limits = Overtime(EvaluationGuard())
        watched = Watched(limits, "{step()} {step()} {step()}")
        for _ in range(3):
            watched.arrive()
            for _ in range(4):
                clock.time += 0.225
                limits.check()
            watched.going_on.release()
        assert watched.end() == "1 1 1"
        assert not any(each.sent for each in limits.threads.values())


def check_an_expression_has_its_whole_time_however_late_it_began() -> None:
    """Between two checks, and after a time without any."""
    with controlled_time() as clock:
        limits = Overtime(EvaluationGuard())
        clock.time += 1_000
        watched = Watched(limits, "{step()}")
        watched.arrive()
        clock.time += 0.19  # the check is about to come
        limits.check()
        for _ in range(5):
            clock.time += CHECK_S
            limits.check()
        assert not any(each.sent for each in limits.threads.values())
        watched.going_on.release()
        assert watched.end() == "1"


def check_the_limit_is_one_second() -> None:
    with controlled_time() as clock:
        limits = Overtime(EvaluationGuard())
        limits.check()
        watched = Watched(limits, "{step() and endless()}", endless=endless)
        watched.arrive()
        watched.going_on.release()
        for _ in range(6):
            clock.time += CHECK_S - 0.001
            limits.check()
        assert not any(each.sent for each in limits.threads.values())
        clock.time += CHECK_S
        limits.check()
        while watched.thread.is_alive():  # it may be busy with something that is not interrupted
            watched.thread.join(0.01)
            limits.check()
        assert watched.end() == TIMEOUT


def check_who_was_held_up_accuses_nobody() -> None:
    """The process was stopped, or C code kept the interpreter: nobody's time is known."""
    with controlled_time() as clock:
        limits = Overtime(EvaluationGuard())
        limits.check()
        watched = Watched(limits, "{step()}")
        watched.arrive()
        for _ in range(5):
            clock.time += 10
            limits.check()
        for _ in range(6):
            clock.time += CHECK_S - 0.001
            limits.check()
        assert not any(each.sent for each in limits.threads.values())
        watched.going_on.release()
        assert watched.end() == "1"


def check_only_the_work_that_is_meant_is_interrupted() -> None:
    interruptor = Interruptor()
    asked: list[bool] = []

    def ask() -> bool:
        asked.append(interruptor.is_running)
        return False

    def work() -> bool:
        return in_thread(lambda: interruptor.interrupt(ask))  # type: ignore[no-any-return]

    assert interruptor.run(work) is False
    assert asked == [True]
    assert interruptor.sent is False


# --- nothing reaches the program


def evaluations(limits: Overtime, count: int) -> tuple[int, int]:
    """How many ended well, and how many did not."""
    numbers = range(50)
    assert numbers
    text = message(limits, sys._getframe(), "{sum(n for n in numbers)} {len(numbers)}")
    well = badly = 0
    for _ in range(count):
        if text() == "1225 50":
            well += 1
        else:
            badly += 1
        for _ in range(20):  # where an interruption that came too late would strike
            pass
    return well, badly


def check_no_interruption_reaches_the_program() -> None:
    """Thousands of evaluations on three threads, all of them always due."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    results: list[tuple[int, int]] = []
    try:
        with Limits(limit_s=0, every_s=0).looking() as limits:
            threads = [
                threading.Thread(target=lambda: results.append(evaluations(limits, 4_000)))
                for _ in range(2)
            ]
            for thread in threads:
                thread.start()
            results.append(evaluations(limits, 4_000))
            for thread in threads:
                thread.join(PATIENCE)
    finally:
        sys.setswitchinterval(interval)
    # An Interruption in the program would have ended its thread, or this check.
    assert [sum(each) for each in results] == [4_000] * 3
    assert sum(badly for _, badly in results) > 0


class Struck(Exception):
    """Raised by a signal handler of the program."""


def check_no_exception_of_a_signal_handler_is_lost() -> None:
    """Whenever it comes: before, in, and after the expressions, and while one is interrupted."""
    struck = caught = 0
    is_armed = False

    def handler(_number: int, _frame: object) -> None:
        nonlocal struck, is_armed
        if is_armed:
            is_armed = False
            struck += 1
            raise Struck

    before = signal.signal(signal.SIGUSR1, handler)
    main = threading.main_thread().ident
    done = threading.Event()

    def strike() -> None:
        while not done.wait(0.0003):
            assert main is not None
            signal.pthread_kill(main, signal.SIGUSR1)

    striker = threading.Thread(target=strike)
    striker.start()
    try:
        with Limits(limit_s=0, every_s=0.0001).looking() as limits:
            numbers = range(50)
            assert numbers
            text = message(limits, sys._getframe(), "{sum(n for n in numbers)} {numbers!r:.1}")
            rounds = 0
            while rounds < 2_000 or (caught < 200 and rounds < 100_000):
                rounds += 1
                try:
                    is_armed = True
                    text()
                    is_armed = False
                except Struck:
                    caught += 1
    finally:
        done.set()
        striker.join(PATIENCE)
        signal.signal(signal.SIGUSR1, before)
    assert struck == caught > 0, (struck, caught, rounds)


# --- signals of the program


def raising(error: type[BaseException] = Struck, *_: object) -> None:
    raise error


class Handler:
    def __call__(self, *_: object) -> None:
        raise Struck

    def method(self, *_: object) -> None:
        raise Struck


def deep(count: int) -> None:
    if count:
        deep(count - 1)
    signal.raise_signal(signal.SIGUSR1)


class Alarming:
    def __repr__(self) -> str:
        signal.raise_signal(signal.SIGUSR1)
        return ""


TEMPLATES = [
    "{signal.raise_signal(signal.SIGUSR1)}",
    "{deep(3)}",
    "{[deep(0) for _ in 'x']}",
    "{(lambda: deep(1))()}",
    "{Alarming()!r}",
    "{Alarming()!s:>5}",
    "{5} {deep(3)} {5}",
]

HANDLERS: list[Any] = [
    lambda *_: raising(),
    functools.partial(raising, Struck),
    functools.partial(functools.partial(raising), Struck),
    Handler(),
    Handler().method,
    functools.partial(Handler().method, 1),
]


def check_what_a_signal_handler_raises_reaches_the_program() -> None:
    for handler in HANDLERS:
        before = signal.signal(signal.SIGUSR1, handler)
        try:
            for template in TEMPLATES:
                limits = Limits()
                try:
                    message(limits, sys._getframe(), template)()
                except Struck:
                    assert limits.guard.depths == {}
                else:
                    raise AssertionError((handler, template))
                limits.close()
        finally:
            signal.signal(signal.SIGUSR1, before)


def check_what_is_no_exception_reaches_the_program_too() -> None:
    """As pytest's own, by which pytest-timeout ends a test."""
    before = signal.signal(signal.SIGUSR1, lambda *_: pytest.fail("timeout"))
    limits = Limits()
    try:
        with pytest.raises(pytest.fail.Exception):
            message(limits, sys._getframe(), "{deep(1)}")()
    finally:
        signal.signal(signal.SIGUSR1, before)
        limits.close()


def check_ctrl_c_reaches_the_program() -> None:
    limits = Limits()
    for source in ("signal.raise_signal(signal.SIGINT)", "raising(KeyboardInterrupt)"):
        with pytest.raises(KeyboardInterrupt):
            message(limits, sys._getframe(), f"{{5}} {{{source}}}")()
    assert limits.guard.depths == {}
    limits.close()


def check_errors_are_not_taken_for_those_of_signal_handlers() -> None:
    before = signal.signal(signal.SIGUSR1, functools.partial(raising, Struck))
    limits = Limits()
    try:
        text = message(limits, sys._getframe(), "{raising(Struck) if 0 else fails()}")()
        elsewhere = in_thread(message(limits, sys._getframe(), "{raising(Struck)}"))
    finally:
        signal.signal(signal.SIGUSR1, before)
        limits.close()
    assert text == f"<error: {__name__}.Struck>"
    assert elsewhere == text  # handlers run on the main thread only


def fails() -> None:
    raise Struck


# --- our own handler


def check_the_signal_handler_is_removed_at_the_end() -> None:
    for usual in (signal.SIG_DFL, signal.SIG_IGN):
        signal.signal(signal.SIGURG, usual)
        limits = Limits()
        assert shown(limits, "1 + 1") == "5 2 6"
        assert signal.getsignal(signal.SIGURG) is not usual
        in_thread(limits.close)
        assert signal.getsignal(signal.SIGURG) is not usual
        limits.close()
        assert signal.getsignal(signal.SIGURG) is usual
        limits.close()
    signal.signal(signal.SIGURG, signal.SIG_DFL)


def check_names_alone_need_no_handler() -> None:
    limits = Limits()
    assert message(limits, sys._getframe(), "{limits.__class__ and 1}{signal}")().startswith("1")
    limits.close()
    assert message(Limits(), sys._getframe(), "{limits}{5}")()
    assert signal.getsignal(signal.SIGURG) is signal.SIG_DFL


def check_other_threads_touch_no_handler() -> None:
    limits = Limits()
    assert in_thread(lambda: shown(limits, "1 + 1")) == "5 2 6"
    assert signal.getsignal(signal.SIGURG) is signal.SIG_DFL


def check_a_handler_of_the_programs_stays_and_serves_as_well() -> None:
    calls: list[int] = []

    def handler(number: int, _frame: object) -> None:
        calls.append(number)

    signal.signal(signal.SIGURG, handler)
    try:
        with Limits().looking() as limits:
            assert shown(limits, "threading.Event().wait()") == f"5 {TIMEOUT} 6"
        assert signal.getsignal(signal.SIGURG) is handler
    finally:
        signal.signal(signal.SIGURG, signal.SIG_DFL)


def check_a_handler_that_the_program_took_away_comes_back() -> None:
    """As event loops do it when they end."""
    with Limits().looking() as limits:
        assert shown(limits, "1 + 1") == "5 2 6"
        signal.signal(signal.SIGURG, signal.SIG_DFL)
        now = limits.now
        deadline = threading.Event()
        while limits.now is now:  # it is looked after once between two checks
            deadline.wait(0.001)
        assert shown(limits, "threading.Event().wait()") == f"5 {TIMEOUT} 6"
    assert signal.getsignal(signal.SIGURG) is signal.SIG_DFL


def check_a_signal_from_elsewhere_means_nothing() -> None:
    limits = Limits()
    source = "signal.raise_signal(signal.SIGURG)"
    assert shown(limits, source) == "5 None 6"
    signal.raise_signal(signal.SIGURG)
    limits.close()


def check_threads_are_quiet_while_they_evaluate() -> None:
    limits = Limits()
    found = SimpleNamespace(quiet=limits.guard.is_quiet)
    assert found
    for run in (lambda work: work(), in_thread):
        assert run(message(limits, sys._getframe(), "{found.quiet()} {len([found])}")) == "True 1"
        assert run(limits.guard.is_quiet) is False
    limits.close()


@pytest.mark.full
def test_overtime() -> None:
    report(__file__)


if __name__ == "__main__":
    run_as_script(globals())
