"""Evaluation in a paused frame: scopes, write-back, output, errors and interruption."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import io
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from pytest_cideldill.evaluation import repl_eval
from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.evaluation.interrupt import EvaluationInterrupted, Interruptor
from pytest_cideldill.evaluation.repl_eval import Evaluation, evaluate
from tests.each_case import for_each

LIMIT = 1
PATIENCE = 10.0  # seconds until a test that waits gives up


def ev(
    source: str,
    frame: FrameType | None = None,
    session: dict[str, Any] | None = None,
    **options: Any,
) -> Evaluation:
    options.setdefault("guard", EvaluationGuard())
    session = {} if session is None else session
    return evaluate(source, frame or sys._getframe(1), session, **options)


# --- scopes


def scopes(argument: int, number: int = 0) -> list[str]:
    local = 5
    items = [1, 2]
    assert items

    def inner() -> int:
        return local + number

    sources = [
        "local",
        "[local for _ in range(2) if argument]",
        "sum(local + i for i in items)",
        "(lambda: local + LIMIT)()",
        "list(map(lambda i: i + argument, items))",
        "{k: argument for k in items}",
        "[[x + y + local for x in items] for y in items]",
        "class K:\n    seen = local + LIMIT\n    def get(self): return items\n(K.seen, K().get())",
        "def helper(z): return z + local\n[helper(i) for i in items]",
        "inner()",
        "(walrus := 4) + walrus",
        "import math\nmath.floor(2.5)",
        "exec('made = 3'); made",
        "eval('local + 1')",
        "sorted(locals())",
        "globals() is __import__('sys').modules[__name__].__dict__",
        "'argument' in dir() and 'append' in dir([])",
        "vars() == locals()",
    ]
    frame = sys._getframe()
    return list(map(lambda source: ev(source, frame).output, sources))  # noqa: C417 - no new local


def test_every_nested_scope_sees_the_frame() -> None:
    assert scopes(2) == [
        "5",
        "[5, 5]",
        "13",
        "6",
        "[3, 4]",
        "{1: 2, 2: 2}",
        "[[7, 8], [8, 9]]",
        "(6, [1, 2])",
        "[6, 7]",
        "5",
        "8",
        "2",
        "3",
        "6",
        "['argument', 'frame', 'inner', 'items', 'local', 'number', 'sources']",
        "True",
        "True",
        "True",
    ]


def test_assignments_change_the_frame() -> None:
    def paused(argument: int, *rest: int) -> tuple[object, ...]:
        local = shared = 1

        def inner() -> int:
            return shared

        done = ev("argument = 10; local += 1; rest = (7,); shared = 20; inner()", sys._getframe())
        assert done.output == "20"
        assert done.changed == ("argument", "local", "rest", "shared")
        return argument, local, rest, shared, inner()

    assert paused(0, 1) == (10, 2, (7,), 20, 20)


def test_a_variable_of_an_enclosing_function_can_be_assigned() -> None:
    outer = 1

    def paused() -> None:
        assert outer == 1
        ev("outer = 5", sys._getframe())

    paused()
    assert outer == 5


def test_a_caller_can_be_changed() -> None:
    def callee() -> None:
        ev("value = 99", sys._getframe(1))

    value = 1
    callee()
    assert value == 99


def test_a_class_body_can_be_changed() -> None:
    class Body:
        value = 1
        ev("value += 1", sys._getframe())

    assert Body.value == 2


def test_a_local_without_a_value_yet_can_be_given_one() -> None:
    ev("later = 3", sys._getframe())
    if LIMIT < 0:
        later = 0
    assert later == 3  # type: ignore[possibly-undefined]


def test_the_variable_of_a_comprehension_becomes_a_name_of_the_session() -> None:
    session: dict[str, Any] = {}
    assert [each for each in (1, 2)] == [1, 2]  # noqa: C416 - the comprehension is wanted
    assert ev("each = 5", sys._getframe(), session).output == ""
    assert ev("each", sys._getframe(), session).output == "5"


def test_new_names_live_in_the_session_and_not_in_the_frame() -> None:
    session: dict[str, Any] = {}
    done = ev("made = 3; made + 1", sys._getframe(), session)
    assert (done.output, done.changed, session) == ("4", (), {"made": 3})
    assert "made" not in sys._getframe().f_locals
    assert "made" not in globals()
    assert ev("del made", sys._getframe(), session).is_error is False
    assert session == {}


def test_functions_of_the_session_see_its_later_names() -> None:
    session: dict[str, Any] = {}
    frame = sys._getframe()
    ev("base = 1\ndef helper(n): return n + base", frame, session)
    ev("base = 100", frame, session)
    assert ev("helper(1)", frame, session).output == "101"


def test_a_global_statement_writes_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "LIMIT", 1)
    local = ev("global LIMIT\nLIMIT += 41\nLIMIT")
    assert (local.output, LIMIT, local.changed) == ("42", 42, ("LIMIT",))


# --- output


@for_each(
    ("source", "output", "value"),
    [
        ("1 + 1", "2", 2),
        ("None", "None", None),
        ("x = 1", "", None),
        ("", "", None),
        ("# nothing", "", None),
        ("x = 1\nx + 1", "2", 2),
        ("for x in [1]: x", "", None),
        ("   'indented'", "'indented'", "indented"),
        ("\n  a = 1\n  a", "1", 1),
    ],
)
def test_an_expression_gives_its_repr_and_statements_nothing(
    source: str, output: str, value: object
) -> None:
    assert ev(source) == Evaluation(output, "", False, False, (), value)


class Unfriendly:
    def __repr__(self) -> str:
        raise TypeError("no")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no")


@for_each(
    ("source", "output"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise KeyError('x')", "KeyError: 'x'"),
        ("raise KeyError", "KeyError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("nobody", "NameError: name 'nobody' is not defined"),
        ("1 +", "SyntaxError: invalid syntax (<cideldill>, line 1)"),
        ("'\0'", "SyntaxError: source code string cannot contain null bytes"),
        ("return 1", "SyntaxError: 'return' outside function (<cideldill>, line 1)"),
        ("raise Unspeakable", f"{__name__}.Unspeakable: <str failed: ValueError>"),
        ("import json; json.loads('x')", "json.decoder.JSONDecodeError: Expecting value"),
    ],
)
def test_whatever_the_code_raises_is_the_answer(source: str, output: str) -> None:
    done = ev(source)
    assert done.is_error
    assert not done.timed_out
    # 3.11 has another type for null bytes.
    assert done.output.replace("ValueError: source", "SyntaxError: source").startswith(output)


def test_names_assigned_before_an_error_stay_assigned() -> None:
    local = 1
    session: dict[str, Any] = {}
    done = ev("local = 2; made = 3; 1 / 0", sys._getframe(), session)
    assert (local, session, done.changed) == (2, {"made": 3}, ("local",))


def test_a_failing_repr_is_part_of_the_answer() -> None:
    done = ev("Unfriendly()")
    assert (done.output, done.is_error) == ("<repr failed: TypeError>", False)


def test_output_and_stdout_are_cut_with_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repl_eval, "MAX_TEXT", 10)
    done = ev("print('y' * 30); 'x' * 30")
    assert done.output == "'xxxxxxxxx… +22 chars"
    assert done.stdout == "yyyyyyyyyy… +21 chars"


def test_only_this_thread_prints_into_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = io.StringIO()
    monkeypatch.setattr(sys, "stdout", shared)

    def print_elsewhere() -> None:  # called by the evaluated code
        thread = threading.Thread(target=print, args=("theirs",))
        thread.start()
        thread.join()

    done = ev("print('mine'); print_elsewhere(); print('mine too', end='')", sys._getframe())
    assert done.stdout == "mine\nmine too"
    assert shared.getvalue() == "theirs\n"
    assert sys.stdout is shared


def test_a_stream_that_the_code_put_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    mine = io.StringIO()
    ev("import sys; sys.stdout = mine; print('x')", sys._getframe())
    assert sys.stdout is mine
    assert mine.getvalue() == "x\n"


def test_evaluations_that_end_out_of_order_restore_the_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = io.StringIO()
    monkeypatch.setattr(sys, "stdout", shared)
    first_inside, second_inside = threading.Event(), threading.Event()
    results: list[Evaluation] = []

    def first() -> None:
        source = "first_inside.set(); second_inside.wait(PATIENCE); print('first')"
        assert first_inside, second_inside
        results.append(ev(source, sys._getframe()))

    thread = threading.Thread(target=first)
    thread.start()
    assert first_inside.wait(PATIENCE)
    done = ev("second_inside.set(); thread.join(); print('second')", sys._getframe())
    assert (results[0].stdout, done.stdout) == ("first\n", "second\n")
    assert sys.stdout is shared
    assert shared.getvalue() == ""


# --- await


async def answer() -> int:
    await asyncio.sleep(0)
    return 42


def test_await_works_where_no_event_loop_runs() -> None:
    assert ev("await answer()").output == "42"
    assert ev("x = await answer()\nx + 1").output == "43"
    assert ev("[await answer() for _ in range(2)]").output == "[42, 42]"


def test_await_goes_on_in_the_loop_that_a_failure_has_left() -> None:
    """And in its context; nothing that the evaluation began is left there."""
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
    queue: asyncio.Queue[int] = asyncio.Queue()
    tasks: list[asyncio.Task[None]] = []

    async def failing() -> None:
        who.set("the coroutine")
        asyncio.get_running_loop().call_later(0.01, queue.put_nowait, 5)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.get(), 0)  # binds it to the loop
        tasks.append(asyncio.create_task(asyncio.sleep(9)))
        raise LookupError

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        with pytest.raises(LookupError) as caught:
            runner.run(failing())
        frame, session = sys._getframe(), {"who": who, "queue": queue, "asyncio": asyncio}

        def answer(source: str) -> str:
            return ev(source, frame, session, error=caught.value).output

        assert answer("who.get()") == "'the coroutine'"
        assert answer("t = asyncio.create_task(asyncio.sleep(9)); await asyncio.sleep(0)") == "None"
        assert answer("await queue.get()") == "5"
        assert answer("who.set('mine'); await asyncio.sleep(0)") == "None"
        assert answer("await asyncio.sleep(0); who.get()") == "'mine'"
        assert asyncio.all_tasks(runner.get_loop()) == set(tasks)
    assert who.get() == "nobody"


@pytest.mark.full
def test_an_event_that_nobody_waited_for_is_bound_to_no_loop() -> None:
    for made in (asyncio.Event(), asyncio.Condition(), asyncio.Queue[int]()):
        wait = "made.get" if type(made) is asyncio.Queue else "made.wait"
        source = f"import asyncio; await asyncio.wait_for({wait}(), 0.01)"
        ev(
            f"import asyncio\nasync with asyncio.timeout(0.01): await {wait}()",
            None,
            {"made": made},
        )
        assert ev(source, None, {"made": made}).is_error
        assert getattr(made, "_loop", None) is None


def test_await_on_a_paused_event_loop_says_so() -> None:
    async def paused() -> Evaluation:
        return ev("await answer()", sys._getframe())

    done = asyncio.run(paused())
    assert done.is_error
    assert "event loop of this thread is paused" in done.output


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_is_ready_can_be_awaited_on_a_paused_event_loop() -> None:
    """What is not ready after all is ended, whatever it does in its `finally`."""
    left: list[str] = []

    async def paused() -> list[str]:
        async def stubborn() -> None:
            try:
                await asyncio.sleep(0)
            finally:
                left.append("ended")
                await asyncio.sleep(0)

        future = asyncio.get_running_loop().create_future()
        future.set_result(7)
        frame, sources = sys._getframe(), ("await future", "await answer()", "await stubborn()")
        return [ev(source, frame).output.partition(":")[0] for source in sources * 3]

    assert asyncio.run(paused()) == ["7", "RuntimeError", "RuntimeError"] * 3
    assert left == ["ended"] * 3


# --- guard


def test_the_evaluating_thread_is_quiet_and_others_are_not() -> None:
    guard = EvaluationGuard()
    seen: list[bool] = []
    assert not guard.is_quiet()
    with guard.evaluating():
        with guard.evaluating():
            assert guard.is_quiet()
        assert guard.is_quiet()
    assert not guard.is_quiet()

    inside, leave = threading.Event(), threading.Event()

    def evaluating() -> None:
        with guard.evaluating():
            inside.set()
            leave.wait(PATIENCE)

    thread = threading.Thread(target=evaluating)
    thread.start()
    assert inside.wait(PATIENCE)
    assert not guard.is_quiet()
    ordinary = threading.Thread(target=lambda: seen.append(guard.is_quiet()))
    ordinary.start()
    ordinary.join()
    leave.set()
    thread.join()
    assert seen == [False]


def test_threads_that_an_evaluation_starts_are_quiet_until_they_end() -> None:
    guard = EvaluationGuard()
    seen: list[bool] = []
    leave = threading.Event()

    def child() -> None:
        leave.wait(PATIENCE)
        seen.append(guard.is_quiet())
        grandchild = threading.Thread(target=lambda: seen.append(guard.is_quiet()))
        grandchild.start()
        grandchild.join()

    thread = threading.Thread(target=child)
    starters = {name: getattr(threading, name) for name in dir(threading) if "_start_" in name}
    assert not ev("thread.start()", sys._getframe(), guard=guard).is_error
    leave.set()
    thread.join()
    assert seen == [True, True]
    assert starters == {name: getattr(threading, name) for name in starters}


# --- interruption


class Swallows:
    """Code that takes the first interruptions for its own."""

    def __init__(self, times: int) -> None:
        self.times = times

    def run(self) -> None:
        while True:
            try:
                while True:
                    pass
            except BaseException:
                self.times -= 1
                if self.times < 0:
                    raise


@contextmanager
def interrupting(interruptor: Interruptor, when: threading.Event) -> Iterator[None]:
    """Interrupt from another thread once the code is under way, until the block ends."""
    done = threading.Event()

    def insist() -> None:
        when.wait(PATIENCE)
        while not done.wait(0.005):
            interruptor.interrupt()

    thread = threading.Thread(target=insist)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class Endless:
    def __repr__(self) -> str:
        while True:
            pass


BUSY = ["while True: pass", "Swallows(2).run()", "Endless()", "sum(1 for _ in iter(int, 1))"]
BLOCKED = [
    "__import__('time').sleep(30)",
    "threading.Event().wait()",
    "await asyncio.sleep(30)",
    "import queue; queue.Queue().get()",
]


def interrupted(source: str) -> Evaluation:
    under_way = threading.Event()
    interruptor = Interruptor()
    session: dict[str, Any] = {"under_way": under_way}
    with interrupting(interruptor, under_way):
        done = ev(
            f"print('begun'); under_way.set()\n{source}", None, session, interruptor=interruptor
        )
    assert interruptor.interrupt() is False
    return done


@pytest.mark.parametrize("source", [*BUSY, *BLOCKED])
def test_the_main_thread_is_interrupted_in_loops_and_in_blocking_calls(source: str) -> None:
    handler = signal.getsignal(signal.SIGURG)
    assert interrupted(source) == Evaluation("interrupted", "begun\n", True, True, (), None)
    assert signal.getsignal(signal.SIGURG) is handler


@pytest.mark.parametrize("source", BUSY)
def test_other_threads_are_interrupted_in_loops(source: str) -> None:
    results: list[Evaluation] = []
    thread = threading.Thread(target=lambda: results.append(interrupted(source)))
    thread.start()
    thread.join(PATIENCE)
    assert [done.timed_out for done in results] == [True]


def test_an_interruption_turned_into_another_error_counts_as_one() -> None:
    source = "try:\n    while True: pass\nexcept BaseException as e:\n    raise ValueError('mine')"
    done = interrupted(source)
    assert done.timed_out
    assert done.is_error


def test_a_handler_of_the_users_is_left_in_place() -> None:
    calls: list[int] = []
    before = signal.signal(signal.SIGURG, lambda number, _frame: calls.append(number))
    try:
        assert interrupted("threading.Event().wait()").timed_out
    finally:
        signal.signal(signal.SIGURG, before)


def test_nothing_is_interrupted_before_and_after() -> None:
    interruptor = Interruptor()
    assert interruptor.interrupt() is False
    assert interruptor.run(lambda: 5) == 5
    assert interruptor.interrupt() is False
    with pytest.raises(ZeroDivisionError):
        interruptor.run(lambda: 1 // 0)
    assert interruptor.interrupt() is False


@pytest.mark.full
def test_no_interruption_outlives_its_work() -> None:
    current: list[Interruptor] = [Interruptor()]
    stop = threading.Event()
    sent = 0

    def hunt() -> None:
        nonlocal sent
        while not stop.is_set():
            sent += current[0].interrupt()

    def work() -> None:
        for _ in range(1000):
            pass

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    hunter = threading.Thread(target=hunt)
    hunter.start()
    interrupted_works = rounds = 0
    try:
        while rounds < 500 or (interrupted_works < 20 and rounds < 20_000):
            rounds += 1
            interrupted_works += not _ended_well(current, work)
    finally:
        stop.set()
        hunter.join()
        sys.setswitchinterval(interval)
    # An Interruption that came too late would have ended this test.
    assert sent >= interrupted_works > 0


def _ended_well(current: list[Interruptor], work: Callable[[], None]) -> bool:
    current[0] = Interruptor()
    try:
        current[0].run(work)
    except EvaluationInterrupted:
        return False
    return True


# --- lifetimes


class Tracked:
    pass


def test_reading_the_locals_keeps_no_value_alive() -> None:
    tracked = Tracked()
    alive = weakref.ref(tracked)
    assert ev("tracked is not None", sys._getframe()).output == "True"
    del tracked
    assert alive() is None or sys.gettrace() is not None


def test_locals_that_the_program_holds_itself_are_left_alone() -> None:
    here = 1
    held = locals()
    assert ev("here + 1", sys._getframe()).output == "2"
    assert held["here"] == here


@pytest.mark.full
def test_a_function_that_outlives_the_frame_keeps_the_values_it_saw() -> None:
    session: dict[str, Any] = {}

    def paused() -> None:
        local = 7
        ev("def helper(): return local", sys._getframe(), session)
        assert local

    paused()
    gc.collect()
    assert session["helper"]() == 7


TRACED = """
import sys, threading
from pytest_cideldill.evaluation.interrupt import Interruptor
from pytest_cideldill.evaluation.repl_eval import evaluate
from pytest_cideldill.evaluation.guard import EvaluationGuard

def paused(argument):
    guard, interruptor = EvaluationGuard(), Interruptor()
    evaluate("argument + 1", sys._getframe(), {}, guard=guard, interruptor=interruptor)

for run in (lambda: paused(1), lambda: threading.Thread(target=paused, args=(1,)).run()):
    run()
thread = threading.Thread(target=paused, args=(1,))
thread.start()
thread.join()

def traced():
    total = 0
    for number in range(3):
        total += number
    return total

sys.settrace(lambda frame, event, arg: None)
assert traced() == 3
sys.settrace(None)
"""


@pytest.mark.full
def test_a_program_can_be_traced_after_an_evaluation() -> None:
    """Taking back an interruption by SetAsyncExc(NULL) made 3.11 hang in the next traced function.

    In a process of its own: the hang is in C and can't be interrupted.
    """
    subprocess.run([sys.executable, "-c", TRACED], check=True, timeout=30)
