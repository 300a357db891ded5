"""Exceptions that leave handlers, and everything that must be left as it was found."""

from __future__ import annotations

import bdb
import json
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from _pytest.outcomes import Failed

from pytest_cideldill.tracing.engine import engine
from pytest_cideldill.tracing.interface import Deliberate, SourceUnavailable, Watch, open_source
from tests.process.sources_checks import (
    MONITORING,
    OUR_IDS,
    Consumer,
    Skipped,
    armed,
    code_of,
    expected_error,
    in_thread,
    lines,
    opened,
    report,
    run_as_script,
    tree,
)

Hook = Callable[[FrameType, int], None]


def watched() -> str:
    try:
        first = 1  # first
        second = 2  # second
    except BaseException as error:  # noqa: BLE001 - whatever comes through is told
        return f"caught {type(error).__name__}"  # caught
    return f"{first} {second}"  # end


@contextmanager
def hooked(hook: Hook, *names: str) -> Iterator[Consumer]:
    """`hook` runs at the hits of `watched`; this file counts as the consumer's."""
    consumer = Consumer()
    consumer.on_hit = hook
    consumer.ours = (*consumer.ours, __file__)
    with opened(consumer) as source:
        source.watch_lines(code_of(watched), lines(code_of(watched), *names or ("first", "second")))
        yield consumer


def once(action: Callable[[], object]) -> Hook:
    """A hook that acts at the first hit only."""
    done: list[bool] = []

    def hook(frame: FrameType, line: int) -> None:
        if not done:
            done.append(True)
            action()

    return hook


def raises(error: BaseException) -> Callable[[], None]:
    def action() -> None:
        raise error

    return action


# --- exceptions that belong to the program --------------------------------------------------------


def check_keyboard_interrupts_pass() -> None:
    with hooked(once(lambda: signal.raise_signal(signal.SIGINT))) as consumer:
        assert watched() == "caught KeyboardInterrupt"
        assert watched() == "1 2"
    assert consumer.failures == []
    assert consumer.hits == ["first", "first", "second"]


def check_what_a_signal_handler_raises_passes() -> None:
    """An alarm is the test's, though it arrives inside our handler: its frame says so."""
    namespace: dict[str, Any] = {}
    text = "def handler(signum, frame):\n    raise TimeoutError('alarm')\n"
    exec(compile(text, "test_of_a_user.py", "exec"), namespace)
    previous = signal.signal(signal.SIGALRM, namespace["handler"])
    try:
        with hooked(once(lambda: signal.raise_signal(signal.SIGALRM))) as consumer:
            assert watched() == "caught TimeoutError"
            assert watched() == "1 2"
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert consumer.failures == []


def check_outcomes_of_pytest_and_exits_pass() -> None:
    for error in (Failed("outcome"), SystemExit(3), GeneratorExit()):
        with hooked(once(raises(error))) as consumer:
            assert watched() == f"caught {type(error).__name__}"
        assert consumer.failures == []


def check_a_deliberate_exception_lands_on_the_line() -> None:
    error = KeyError("wanted")
    caught = []

    def function() -> None:
        try:
            raise ValueError("before")
        except ValueError:
            landing = 1  # landing
            assert landing

    with hooked(lambda frame, line: raises(Deliberate(error))(), "end") as consumer:
        with expected_error(KeyError) as raised:
            watched()
        caught.append(raised.value)
        source = consumer_source(consumer)
        source.watch_lines(code_of(function), lines(code_of(function), "landing"))
        source.refresh()
        with expected_error(KeyError) as raised:
            function()
        # As if the program had raised it there.
        assert isinstance(raised.value.__context__, ValueError)
        frames = traceback.extract_tb(raised.value.__traceback__)
        assert any(each.name == "function" for each in frames)
    assert caught == [error]
    assert consumer.failures == []


def check_a_raised_line_is_followed_by_the_next_probes() -> None:
    """On 3.11 an exception that leaves a trace function removes it from its thread."""
    with hooked(once(raises(Deliberate(KeyError()))), "first", "caught", "second") as consumer:
        assert watched() == "caught KeyError"
        assert watched() == "1 2"
    # What follows within the line that raised, up to the next call, is missed on 3.11.
    assert [name for name in consumer.hits if name != "caught"] == ["first", "first", "second"]
    if MONITORING:
        assert consumer.hits[1] == "caught"


def check_a_raised_line_ends_its_recorded_call_with_that_error() -> None:
    def function() -> None:
        here = 1  # raised
        assert here

    error, reported = KeyError("raised"), list[object]()
    consumer = Consumer()
    consumer.on_hit = lambda frame, line: raises(Deliberate(error))()
    with opened(consumer) as source:
        code = code_of(function)
        source.watch_lines(code, lines(code, "raised"))
        source.record_calls(code, lambda *_: 1, lambda token, frame, *end: reported.append(end))
        for _ in range(3):
            with expected_error(KeyError):
                function()
    assert reported == [(None, error)] * 3


# --- failures of ours -----------------------------------------------------------------------------


def check_a_bug_in_a_handler_removes_its_line_and_is_reported_once() -> None:
    def bug(frame: FrameType, line: int) -> None:
        if len(consumer.hits) == 1:
            raise ZeroDivisionError("a bug")

    with hooked(bug) as consumer:
        for _ in range(3):
            assert watched() == "1 2"
    assert consumer.hits == ["first", "second", "second", "second"]
    assert len(consumer.failures) == 1
    assert "watched" in consumer.failures[0]
    assert "ZeroDivisionError: a bug at test_sources_failures.py:" in consumer.failures[0]


def check_a_bug_that_shows_in_the_standard_library_is_ours_too() -> None:
    with hooked(once(lambda: json.dumps({1: object()}))) as consumer:
        assert watched() == "1 2"
    assert "TypeError" in consumer.failures[0]


def check_a_failing_report_of_a_bug_is_swallowed() -> None:
    consumer = Consumer()
    consumer.on_hit = once(raises(ZeroDivisionError()))
    consumer.ours = (*consumer.ours, __file__)

    class Failing(list[str]):
        def append(self, message: str) -> None:
            raise ZeroDivisionError

    consumer.failures = Failing()
    with opened(consumer) as source:
        source.watch_lines(code_of(watched), lines(code_of(watched), "first"))
        assert watched() == "1 2"


def check_a_bug_in_discovery_loses_that_code_only() -> None:
    consumer = Consumer()
    consumer.ours = (*consumer.ours, __file__)

    def find(code: CodeType, frame: FrameType) -> Watch:
        if code is code_of(watched):
            raise ZeroDivisionError
        return Watch.NOTHING

    consumer.on_found = find
    with opened(consumer) as source:
        source.discover(True)
        assert watched() == "1 2"
        once(print)
    assert len(consumer.failures) == 1
    assert code_of(once) in consumer.codes


def check_a_bug_in_a_recorder_removes_it() -> None:
    def failing(*_: object) -> None:
        calls.append(1)
        raise ZeroDivisionError

    for start, end in ((failing, print), (lambda *_: 1, failing)):
        consumer, calls = Consumer(), list[int]()
        consumer.ours = (*consumer.ours, __file__)
        with opened(consumer) as source:
            source.record_calls(code_of(watched), start, end)
            for _ in range(3):
                assert watched() == "1 2"
        assert calls == [1]
        assert len(consumer.failures) == 1


def check_a_bug_at_the_end_of_a_module_is_reported() -> None:
    consumer = Consumer()
    consumer.ours = (*consumer.ours, __file__)
    consumer.ended = None  # type: ignore[assignment]
    consumer.on_found = lambda code, frame: Watch.END
    with opened(consumer) as source:
        source.discover(True)
        exec(compile("x = 1", "module.py", "exec"), {"__name__": "module"})
    assert any("finished module" in message for message in consumer.failures)


def check_a_handler_near_the_recursion_limit_loses_an_event_and_stays() -> None:
    def deep(frame: FrameType, line: int) -> None:
        raise RecursionError("maximum recursion depth exceeded")

    with hooked(deep) as consumer:
        assert watched() == "1 2"
        assert watched() == "1 2"
    assert consumer.hits == ["first", "second"] * 2
    assert len(consumer.failures) == 2  # one per line


def check_a_program_at_its_recursion_limit_goes_on() -> None:
    def recursive(depth: int) -> int:
        return depth if depth == 0 else recursive(depth - 1)  # recursive

    def deepest() -> int:
        try:
            return recursive(10**6)
        except RecursionError:
            return -1

    consumer = Consumer()
    with opened(consumer) as source:
        source.watch_lines(code_of(recursive), lines(code_of(recursive), "recursive"))
        assert deepest() == -1
        source.refresh()
        before = len(consumer.hits)
        assert recursive(3) == 0
        assert len(consumer.hits) == before + 4


# --- leaving nothing ------------------------------------------------------------------------------


def consumer_source(consumer: Consumer) -> Any:
    return consumer.source


def check_disarming_leaves_nothing_before_the_source_is_closed() -> None:
    consumer = Consumer()
    with opened(consumer) as source:
        code = code_of(watched)
        source.watch_lines(code, lines(code, "first"))
        source.record_calls(code, lambda *_: 1, lambda *end: None)
        source.watch_lines(code, frozenset())
        source.stop_recording(code)
        if sys.version_info >= (3, 12):
            monitoring = sys.monitoring
            for tool in OUR_IDS:
                if monitoring.get_tool(tool):
                    assert monitoring.get_local_events(tool, code) == 0
                    assert monitoring.get_events(tool) == 0
        else:
            assert sys.gettrace() is None
            assert threading.gettrace() is None


def check_everything_armed_is_zeroed() -> None:
    """Also code that is bound from a callback, fails there, or ends while it is watched."""
    consumer = Consumer()
    consumer.on_hit = once(raises(ZeroDivisionError()))
    consumer.ours = (*consumer.ours, __file__)
    compiled = compile("def f():\n    return 1\nf()\nf()\n", "module.py", "exec")
    codes = list(tree(compiled))

    def bind(code: CodeType, frame: FrameType) -> Watch:
        if code.co_filename == "module.py":
            source.watch_lines(code, frozenset(range(5)))
            source.record_calls(code, lambda *_: 1, lambda *end: None)
        return Watch.END

    with opened(consumer) as source:
        consumer.on_found = bind
        source.discover(True)
        exec(compiled, {"__name__": "module"})
    assert "module" in consumer.ended
    assert armed([*codes, code_of(watched), *(c for c in consumer.codes)]) == []


def check_nothing_is_left_when_discovery_ends() -> None:
    """Not even at modules whose end was to be told, and frames of generators that stand still."""
    compiled = compile("import sys\nwatched()\nstop()\nleft = sys.gettrace()\n", "end.py", "exec")
    consumer = Consumer()
    consumer.on_found = lambda code, frame: Watch.END

    def generator() -> Iterator[int]:
        yield 1
        yield 2

    standing: Any = generator()

    def stop() -> None:
        source.discover(False)

    namespace: dict[str, Any] = {"__name__": "module", "watched": watched, "stop": stop}
    with opened(consumer) as source:
        source.discover(True)
        next(standing)
        exec(compiled, namespace)
        assert armed([compiled, code_of(watched), standing.gi_code]) == []
        assert (namespace["left"], threading.gettrace()) == (None, None)
        assert sys._getframe().f_trace is None
        assert "module" not in consumer.ended
        found = len(consumer.codes)
        if not MONITORING:
            sys.settrace(lambda *_: None)
            next(standing)
            sys.settrace(None)
            assert standing.gi_frame.f_trace is None
        # Again, while the same code runs: it is looked at again.
        source.discover(True)
        exec(compiled, {**namespace, "stop": lambda: None})
        assert "module" in consumer.ended
        assert consumer.codes.count(compiled) == 2
    assert len(consumer.codes) > found


def check_discovery_may_end_in_a_handler() -> None:
    """As when the function that a breakpoint waited for is there."""
    consumer = Consumer()
    frames: list[FrameType] = []
    tracers: list[object] = []

    def found(code: CodeType, frame: FrameType) -> Watch:
        if code is code_of(inspecting):
            source.discover(False)
        return Watch.END

    def inspecting() -> None:
        frames.append(sys._getframe())
        tracers.append(sys.gettrace())

    consumer.on_found = found
    with opened(consumer) as source:
        source.discover(True)
        inspecting()
        assert tracers == [None]
        assert frames[0].f_trace is None
        assert armed([code_of(inspecting)]) == []


def check_a_tracer_that_is_put_back_after_its_end_removes_itself() -> None:
    """As debuggers and fixtures do, which keep what they found."""
    if MONITORING:
        raise Skipped("nothing of ours is there to be put back")
    with opened(Consumer()) as source:
        source.discover(True)
        found = sys.gettrace(), threading.gettrace()
    sys.settrace(found[0])
    watched()
    assert sys.gettrace() is None
    threading.settrace(found[1])
    left: list[object] = []
    try:
        in_thread(lambda: left.append(sys.gettrace()))
    finally:
        threading.settrace(None)
    assert left == [None]


def check_closing_from_inside_a_hit_is_fine() -> None:
    consumer = Consumer()
    with opened(consumer) as source:
        source.watch_lines(code_of(watched), lines(code_of(watched), "first", "second"))
        source.record_calls(code_of(watched), lambda *_: 1, lambda *end: None)
        consumer.on_hit = lambda frame, line: source.close()
        assert watched() == "1 2"
        assert watched() == "1 2"
    assert consumer.hits == ["first"]


def check_sources_can_be_opened_again() -> None:
    for _ in range(3):
        consumer = Consumer()
        with opened(consumer) as source:
            source.watch_lines(code_of(watched), lines(code_of(watched), "first"))
            watched()
        assert consumer.hits == ["first"]


# --- refusals -------------------------------------------------------------------------------------


def check_a_foreign_tracer_is_refused_by_name() -> None:
    if MONITORING:
        raise Skipped("tracers are not in the way of sys.monitoring")

    def tracer(frame: FrameType, event: str, arg: object) -> None:
        return None

    debugger = bdb.Bdb()
    debugger.reset()
    for foreign, name in ((tracer, "tracer"), (debugger.trace_dispatch, "bdb.Bdb")):
        for install in (sys.settrace, threading.settrace):
            install(foreign)
            try:
                with expected_error(SourceUnavailable, match=name):
                    open_source(Consumer().handlers())
            finally:
                install(None)


def check_a_foreign_tracer_that_comes_later_is_refused_and_survived() -> None:
    if MONITORING:
        raise Skipped("tracers are not in the way of sys.monitoring")

    def tracer(frame: FrameType, event: str, arg: object) -> None:
        return None

    consumer = Consumer()
    with opened(consumer) as source:
        source.watch_lines(code_of(watched), lines(code_of(watched), "first"))
        assert not source.refresh()
        sys.settrace(tracer)
        try:
            with expected_error(SourceUnavailable, match="tracer traces this program"):
                source.refresh()
        finally:
            sys.settrace(None)
        watched()
        assert consumer.hits == []
        assert consumer.failures == []
        assert source.refresh()
        watched()
        assert consumer.hits == ["first"]
    (reported,) = consumer.failures
    assert reported.startswith("the program used sys.settrace")


def check_a_thread_with_a_foreign_tracer_is_left_alone() -> None:
    if MONITORING:
        raise Skipped("tracers are not in the way of sys.monitoring")
    ready, go, seen = threading.Event(), threading.Event(), []

    def tracer(frame: FrameType, event: str, arg: object) -> None:
        return None

    def worker() -> None:
        sys.settrace(tracer)
        ready.set()
        go.wait()
        seen.append(sys.gettrace())
        sys.settrace(None)

    thread = threading.Thread(target=worker)
    thread.start()
    ready.wait()
    consumer = Consumer()
    with opened(consumer) as source:
        source.watch_lines(code_of(watched), lines(code_of(watched), "first"))
        watched()
        go.set()
        thread.join()
    assert seen == [tracer]
    assert "a thread is traced by" in consumer.failures[0]
    assert consumer.hits == ["first"]


def check_tool_ids_that_are_taken_are_left_to_their_owners() -> None:
    if sys.version_info < (3, 12):
        raise Skipped("sys.settrace has no tool ids")
    monitoring = sys.monitoring
    for tool in OUR_IDS:
        monitoring.use_tool_id(tool, f"owner of {tool}")
    try:
        with expected_error(SourceUnavailable, match=r"4 \(owner of 4\)"):
            open_source(Consumer().handlers())
        monitoring.free_tool_id(5)
        monitoring.free_tool_id(2)
        with opened(Consumer()):
            assert monitoring.get_tool(5) == monitoring.get_tool(2) == "pytest-cideldill"
        assert [monitoring.get_tool(tool) for tool in OUR_IDS] == ["owner of 4", None, None]
    finally:
        monitoring.free_tool_id(4)


def check_one_tool_id_does_everything_that_two_do() -> None:
    if sys.version_info < (3, 12):
        raise Skipped("sys.settrace has no tool ids")
    monitoring = sys.monitoring
    for tool in (4, 5):
        monitoring.use_tool_id(tool, "taken")
    consumer, ends = Consumer(), []

    # fmt: off
    def one_line(n: int) -> int: return n if n == 0 else one_line(n - 1)  # one line
    # fmt: on

    try:
        with opened(consumer) as source:
            assert monitoring.get_tool(2) == "pytest-cideldill"
            source.discover(True)
            one_line(0)
            watched()
            source.watch_lines(code_of(one_line), lines(code_of(one_line), "one line"))
            source.watch_lines(code_of(watched), lines(code_of(watched), "second"))
            source.record_calls(code_of(watched), lambda *_: 1, lambda *end: ends.append(end))
            one_line(1)
            watched()
            source.stop_recording(code_of(watched))
            watched()
            in_thread(lambda: one_line(0))
            assert consumer.codes.count(code_of(watched)) == 1
    finally:
        for tool in (4, 5):
            monitoring.free_tool_id(tool)
    assert consumer.hits == ["one line", "one line", "second", "second", "one line"]
    assert len(ends) == 1


def check_the_engine_that_is_named_is_the_one_that_is_opened() -> None:
    """`engine` says which, and why, before anything is opened."""
    named = engine()
    with opened(Consumer()) as source:
        module = type(source).__module__.rpartition(".")[2]
    assert named["name"] == {"sysmon": "sys.monitoring", "settrace": "sys.settrace"}[module]
    version = ".".join(map(str, sys.version_info[:3]))
    assert named["why"].startswith(f"Python {version} has ")
    assert named["why"].endswith(".")


# --- forks ----------------------------------------------------------------------------------------


def forked(child: Callable[[], object]) -> str:
    """What `child` came to in a forked process."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = repr(child())
        except BaseException:  # noqa: BLE001 - told to the parent, which fails
            text = traceback.format_exc()
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return text


def child_state(consumer: Consumer, code: CodeType) -> Callable[[], object]:
    def look() -> object:
        before = len(consumer.hits)
        result = watched()
        thread_results: list[str] = []
        in_thread(lambda: thread_results.append(watched()))
        tools = [sys.monitoring.get_tool(tool) for tool in OUR_IDS if sys.version_info >= (3, 12)]
        return (
            result,
            thread_results,
            len(consumer.hits) - before,
            armed([code]),
            sys.gettrace(),
            threading.gettrace(),
            [tool for tool in tools if tool],
        )

    return look


CLEAN = repr(("1 2", ["1 2"], 0, [], None, None, []))


def check_a_forked_child_has_nothing_armed_and_the_parent_goes_on() -> None:
    consumer = Consumer()
    code = code_of(watched)
    with opened(consumer) as source:
        source.discover(True)
        source.watch_lines(code, lines(code, "first"))
        source.record_calls(code, lambda *_: 1, lambda *end: None)
        watched()
        assert forked(child_state(consumer, code)) == CLEAN
        watched()
    assert consumer.hits == ["first", "first"]
    assert consumer.failures == []


def check_a_child_forked_inside_a_hit_is_clean_too() -> None:
    consumer = Consumer()
    code = code_of(watched)
    reported: list[str] = []

    def fork(frame: FrameType, line: int) -> None:
        if not reported:
            reported.append(forked(child_state(consumer, code)))

    consumer.on_hit = fork
    with opened(consumer) as source:
        source.watch_lines(code, lines(code, "first", "second"))
        assert watched() == "1 2"
    assert reported == [CLEAN]
    assert consumer.hits == ["first", "second"]


def check_a_program_that_forks_while_another_thread_stands_in_a_hit_goes_on() -> None:
    consumer = Consumer()
    code = code_of(watched)
    standing, go = threading.Event(), threading.Event()

    def stand(frame: FrameType, line: int) -> None:
        standing.set()
        go.wait()

    consumer.on_hit = stand
    with opened(consumer) as source:
        source.watch_lines(code, lines(code, "first"))
        thread = threading.Thread(target=watched)
        thread.start()
        standing.wait()
        with warnings.catch_warnings():
            # 3.12 warns about any fork of a process with threads.
            warnings.simplefilter("ignore", DeprecationWarning)
            assert forked(child_state(consumer, code)) == CLEAN
        go.set()
        thread.join()
        watched()
    assert consumer.hits == ["first", "first"]


def test_failures() -> None:
    report(__file__)


if __name__ == "__main__":
    run_as_script(globals())
