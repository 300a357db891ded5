"""Other tools in the same process: coverage, another owner of events, threads that come and go."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from pytest_cideldill.tracing.interface import Deliberate, Source, SourceUnavailable, Watch
from tests.process.sources_checks import (
    MONITORING,
    Consumer,
    Skipped,
    assert_clean,
    code_of,
    expected_error,
    in_thread,
    lines,
    opened,
    report,
    run_as_script,
)

PROGRAM = """\
import threading

def work(n):
    result = 0
    for number in range(n):
        if number % 2:
            result += 1
        else:
            result -= helper(number)
    return result

def helper(number):
    try:
        if number > 2:
            raise KeyError(number)
    except KeyError:
        number = -1
    if number < 0:
        number = 1
        number += 1
    return sum(x for x in items(number))

def items(number):
    for each in range(number):
        yield each

def unused():
    return 1

def main(between):
    work(3)
    thread = threading.Thread(target=work, args=(5,))
    thread.start()
    thread.join()
    between()
    after = work(4)
    thread = threading.Thread(target=work, args=(6,))
    thread.start()
    thread.join()
    return after
"""


def imported_coverage() -> Any:
    try:
        return importlib.import_module("coverage")
    except ImportError:
        raise Skipped("coverage is not installed here") from None


def measured(core: str, branch: bool, run: Callable[[Any, str], None]) -> Any:
    """What coverage saw of the program, which `run` runs."""
    coverage = imported_coverage()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program.py")
        path.write_text(PROGRAM, encoding="utf-8")
        measuring = coverage.Coverage(
            data_file=None, config_file=False, branch=branch, include=[str(path)]
        )
        measuring.set_option("run:core", core)
        measuring.start()
        try:
            namespace: dict[str, Any] = {"__name__": "program"}
            exec(compile(PROGRAM, str(path), "exec"), namespace)
            run(namespace, str(path))
        finally:
            # -W error: a tracer that was not put back makes coverage warn here.
            measuring.stop()
        data = measuring.get_data()
        return sorted(data.arcs(str(path)) if branch else data.lines(str(path)))


def alone(namespace: Any, path: str) -> None:
    namespace["main"](lambda: None)


class Beside:
    """Arms lines and recordings in the middle of the program; closes when asked."""

    def __init__(self) -> None:
        self.consumer = Consumer()
        self.lines: list[int] = []
        self.calls: list[str] = []
        self.consumer.on_hit = lambda frame, line: self.lines.append(line)

    def __call__(self, namespace: Any, path: str) -> None:
        """Opened and closed while coverage runs, as in a pytest run under pytest-cov."""
        found = sys.gettrace(), threading.gettrace()
        with opened(self.consumer) as source:

            def between() -> None:
                source.discover(True)
                for name, wanted in (("main", 36), ("work", 6), ("helper", 13)):
                    code = namespace[name].__code__
                    assert source.watch_lines(code, frozenset({wanted}), path)
                source.record_calls(namespace["helper"].__code__, self._start, lambda *end: None)

            namespace["main"](between)
        assert (sys.gettrace(), threading.gettrace()) == found

    def _start(self, frame: FrameType, _locals: object) -> object:
        self.calls.append(frame.f_code.co_name)
        return 1


def cores() -> list[tuple[str, bool]]:
    if not MONITORING:
        return [("ctrace", False), ("ctrace", True), ("pytrace", False), ("pytrace", True)]
    return [("ctrace", False), ("ctrace", True), ("sysmon", False)]


def check_coverage_sees_what_it_sees_alone_and_probes_hit() -> None:
    for core, branch in cores():
        expected = measured(core, branch, alone)
        beside = Beside()
        with_probes = measured(core, branch, beside)
        assert with_probes == expected, (core, branch)
        counts = {line: beside.lines.count(line) for line in (36, 6, 13)}
        assert counts == {36: 1, 6: 10, 13: 5}, (core, branch, counts)
        assert len(beside.calls) == 5
        assert beside.consumer.failures == []
        assert_clean()


RAISING = """\
def failing():
    a = 1
    return a

def caller(raised):
    try:
        failing()
    except raised:
        pass
    return after()

def after():
    b = 2
    return b

def main():
    caller(KeyError)
    return after()
"""


def check_coverage_goes_on_after_an_exception_that_a_handler_raised() -> None:
    """On 3.11 it takes coverage's tracer along when it leaves ours."""
    coverage = imported_coverage()
    for core, branch in cores():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "raising.py")
            path.write_text(RAISING, encoding="utf-8")
            measuring = coverage.Coverage(
                data_file=None, config_file=False, branch=branch, include=[str(path)]
            )
            measuring.set_option("run:core", core)
            measuring.start()
            namespace: dict[str, Any] = {}
            exec(compile(RAISING, str(path), "exec"), namespace)
            consumer = Consumer()
            hits: list[int] = []

            def on_hit(frame: FrameType, line: int, hits: list[int] = hits) -> None:
                hits.append(line)
                if line == 3:
                    raise Deliberate(KeyError())

            consumer.on_hit = on_hit
            with opened(consumer) as source:
                for name, wanted in (("failing", 3), ("after", 13), ("caller", 10)):
                    source.watch_lines(namespace[name].__code__, frozenset({wanted}), str(path))
                namespace["main"]()
            measuring.stop()
            missing = set(range(1, 19)) - {4, 11, 15} - set(measuring.get_data().lines(str(path)))
        assert hits == [3, 10, 13, 13], (core, branch, hits)
        # The line that raised: on 3.11 coverage sees it first; monitoring tools take their turns.
        assert missing <= {3}, (core, branch, missing)


def check_threads_that_coverage_measures_already_are_shared() -> None:
    coverage = imported_coverage()
    text = (
        "def tick():\n    return 1\n"
        "def loop(ready, go):\n    ready.set()\n    go.wait()\n    a = tick()\n    return a\n"
    )
    seen = []
    for core, _ in cores():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "loop.py")
            path.write_text(text, encoding="utf-8")
            measuring = coverage.Coverage(data_file=None, config_file=False, include=[str(path)])
            measuring.set_option("run:core", core)
            measuring.start()
            namespace: dict[str, Any] = {}
            exec(compile(text, str(path), "exec"), namespace)
            ready, go = threading.Event(), threading.Event()
            thread = threading.Thread(target=namespace["loop"], args=(ready, go))
            thread.start()
            ready.wait()
            consumer = Consumer()
            hits: list[int] = []
            consumer.on_hit = lambda frame, line: hits.append(line)  # noqa: B023
            with opened(consumer) as source:
                source.watch_lines(namespace["tick"].__code__, frozenset({2}))
                source.watch_lines(namespace["loop"].__code__, frozenset({7}))
                go.set()
                thread.join()
            measuring.stop()
            seen.append((core, sorted(measuring.get_data().lines(str(path)) or ()), hits))
            assert consumer.failures == []
    assert seen == [(core, [1, 2, 3, 4, 5, 6, 7], [2, 7]) for core, _ in cores()]


def check_coverage_comes_back_with_us_after_the_recursion_limit() -> None:
    """Where it strikes in our part of a tracer, coverage's goes with it (3.11)."""
    coverage = imported_coverage()
    text = (
        "def deep(n):\n    return deep(n + 1)\n"
        "def after():\n    a = 1\n    return a\n"
        "def main(refresh):\n    try:\n        deep(0)\n    except RecursionError:\n        pass\n"
        "    refresh()\n    b = after()\n    return b\n"
    )
    for core, branch in cores()[:2]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "deep.py")
            path.write_text(text, encoding="utf-8")
            measuring = coverage.Coverage(
                data_file=None, config_file=False, branch=branch, include=[str(path)]
            )
            measuring.set_option("run:core", core)
            measuring.start()
            names: dict[str, Any] = {}
            exec(compile(text, str(path), "exec"), names)
            calls: list[str] = []

            def start(frame: FrameType, _: object, calls: list[str] = calls) -> object:
                calls.append(frame.f_code.co_name)
                return 1

            with opened(Consumer()) as source:
                for name in ("deep", "after"):
                    source.record_calls(names[name].__code__, start, lambda *end: None)
                names["main"](source.refresh)
            measuring.stop()
            lines = set(measuring.get_data().lines(str(path)))
        assert {2, 4, 5, 11, 12, 13} <= lines, (core, branch, lines)
        assert lines <= set(range(1, 14)), (core, branch, lines)
        assert calls[-1] == "after"
        assert calls.count("deep") > 100


def check_coverage_comes_back_with_us_when_both_were_removed() -> None:
    """As by an exception of a signal handler that ran when our function began (3.11)."""
    coverage = imported_coverage()
    text = "def after():\n    a = 1\n    return a\n"
    for core, branch in cores()[:2]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "after.py")
            path.write_text(text, encoding="utf-8")
            measuring = coverage.Coverage(
                data_file=None, config_file=False, branch=branch, include=[str(path)]
            )
            measuring.set_option("run:core", core)
            measuring.start()
            names: dict[str, Any] = {}
            exec(compile(text, str(path), "exec"), names)
            with opened(Consumer()) as source:
                source.discover(True)
                if not MONITORING:
                    sys.settrace(None)
                    in_thread(source.refresh)
                    assert source.refresh()
                names["after"]()
            names["after"]()
            measuring.stop()
            assert measuring.get_data().lines(str(path)) == [1, 2, 3]


def worker(rounds: int) -> int:
    count = 0
    for number in range(rounds):
        count += number  # worker
    return count


def check_another_tool_keeps_its_events() -> None:
    if sys.version_info < (3, 12):
        raise Skipped("sys.settrace has room for one tool")
    monitoring = sys.monitoring
    events = monitoring.events
    reported: list[tuple[str, int]] = []
    code = code_of(worker)
    for owner in (2, 3):
        reported.clear()
        monitoring.use_tool_id(owner, "neighbour")
        line = lambda code, line: reported.append(("line", line))  # noqa: E731
        start = lambda code, offset: reported.append(("start", 0))  # noqa: E731
        previous = monitoring.register_callback(owner, events.LINE, line)
        assert previous is None
        monitoring.register_callback(owner, events.PY_START, start)
        monitoring.set_local_events(owner, code, events.LINE | events.PY_START)
        try:
            worker(3)
            expected = reported.copy()
            consumer = Consumer()
            with opened(consumer) as source:
                reported.clear()
                source.discover(True)
                source.watch_lines(code, lines(code, "worker"))
                source.record_calls(code, lambda *_: 1, lambda *end: None)
                worker(3)
                assert reported == expected
                assert consumer.hits == ["worker"] * 3
            reported.clear()
            worker(3)
            assert reported == expected
            assert monitoring.get_local_events(owner, code) == events.LINE | events.PY_START
        finally:
            monitoring.set_local_events(owner, code, 0)
            for event in (events.LINE, events.PY_START):
                monitoring.register_callback(owner, event, None)
            monitoring.free_tool_id(owner)


def check_hits_are_exact_while_a_program_claims_our_ids() -> None:
    """Each pass is told once, whichever id it comes by, and none is left where we were."""
    if sys.version_info < (3, 12):
        raise Skipped("sys.settrace has no tool ids")
    monitoring = sys.monitoring
    consumer, over, passes, rounds = Consumer(), threading.Event(), [], 200
    code = code_of(worker)

    def work() -> None:
        while not over.is_set():
            passes.append(worker(3))

    before = monitoring.use_tool_id
    switching = sys.getswitchinterval()
    with opened(consumer) as source:
        source.watch_lines(code, lines(code, "worker"))
        threads = [threading.Thread(target=work) for _ in range(2)]
        sys.setswitchinterval(1e-6)
        try:
            for thread in threads:
                thread.start()
            for number in range(rounds):
                tool = (4, 5, 2)[number % 3]
                monitoring.use_tool_id(tool, "claimed")
                assert monitoring.get_local_events(tool, code) == monitoring.get_events(tool) == 0
                if number % 5 == 0:
                    source.watch_lines(code, lines(code, "worker"))
                monitoring.free_tool_id(tool)
        finally:
            over.set()
            sys.setswitchinterval(switching)
            for thread in threads:
                thread.join()
        assert monitoring.use_tool_id == before
        assert repr(monitoring.use_tool_id) == repr(before)
    assert monitoring.use_tool_id is before
    assert len(passes) > 0
    assert consumer.hits == ["worker"] * 3 * len(passes)
    assert consumer.failures == []


def check_ids_come_back_when_the_program_has_enough_of_them() -> None:
    if sys.version_info < (3, 12):
        raise Skipped("sys.settrace has no tool ids")
    monitoring = sys.monitoring
    consumer = Consumer()
    code = code_of(worker)
    with opened(consumer) as source:
        source.watch_lines(code, lines(code, "worker"))
        try:
            for tool in range(6):
                monitoring.use_tool_id(tool, "claimed")
            worker(2)
            assert consumer.hits == []
            (reported,) = consumer.failures
            assert "tool id 5 of sys.monitoring" in reported
            assert "4 (claimed)" in reported
            assert source.engine == {"name": "none", "why": reported}
            assert source.refresh()
            source.discover(True)
            source.discover(False)
            source.follow(threading.get_ident(), None)
            with expected_error(SourceUnavailable, match="takes tool id 5"):
                source.watch_lines(code, lines(code, "worker"))
        finally:
            for tool in range(6):
                monitoring.free_tool_id(tool)
        assert source.refresh()
        assert not source.refresh()
        worker(2)
        assert consumer.hits == ["worker"] * 2
        assert source.engine["why"].startswith("tool ids 4 and 5")
    assert consumer.failures == [reported]


def check_a_forked_child_claims_any_id() -> None:
    if sys.version_info < (3, 12) or not hasattr(os, "fork"):
        raise Skipped("there are no tool ids, or no forks")
    with opened(Consumer()) as source:
        source.watch_lines(code_of(worker), lines(code_of(worker), "worker"))
        child = os.fork()
        if not child:
            for tool in range(6):
                sys.monitoring.use_tool_id(tool, "claimed")
            events = [sys.monitoring.get_local_events(n, code_of(worker)) for n in range(6)]
            os._exit(7 if events == [0] * 6 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def check_hits_are_exact_while_other_threads_arm_and_disarm() -> None:
    consumer = Consumer()
    hits = [0] * 3
    stop = threading.Event()

    def count(frame: FrameType, line: int) -> None:
        if frame.f_code is code_of(worker):
            hits[frame.f_back.f_locals["index"]] += 1  # type: ignore[union-attr]

    def other(n: int) -> int:
        n += 1  # other
        return n

    def toggle(source: Source) -> None:
        code = code_of(other)
        while not stop.is_set():
            source.watch_lines(code, lines(code, "other"))
            source.record_calls(code, lambda *_: None, lambda *end: None)
            other(1)
            source.watch_lines(code, frozenset())
            source.stop_recording(code)

    def run(index: int) -> None:
        worker(500)

    consumer.on_hit = count
    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with opened(consumer) as source:
            source.watch_lines(code_of(worker), lines(code_of(worker), "worker"))
            toggler = threading.Thread(target=toggle, args=(source,))
            threads = [threading.Thread(target=run, args=(index,)) for index in range(3)]
            for thread in (toggler, *threads):
                thread.start()
            for thread in threads:
                thread.join()
            stop.set()
            toggler.join()
    finally:
        sys.setswitchinterval(switching)
    assert hits == [500] * 3
    assert consumer.failures == []


def check_hits_are_exact_while_other_lines_of_the_code_come_and_go() -> None:
    """While its lines are armed anew, no thread may pass them unseen."""
    code = code_of(worker)
    always = lines(code, "worker")
    consumer = Consumer()
    counts = [0] * 3

    def run(index: int) -> None:
        counts[index] = worker(20_000) and 20_000

    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with opened(consumer) as source:
            source.watch_lines(code, always)
            threads = [threading.Thread(target=run, args=(index,)) for index in range(3)]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                source.watch_lines(code, always | {min(always) - 2})
                source.watch_lines(code, always)
    finally:
        sys.setswitchinterval(switching)
    assert consumer.hits.count("worker") == sum(counts) == 60_000
    assert consumer.failures == []


def check_threads_may_end_while_lines_are_armed_and_disarmed() -> None:
    """On 3.11 the states of other threads are touched: none of a thread that is gone."""
    consumer = Consumer()
    stop = threading.Event()

    def spawn() -> None:
        while not stop.is_set():
            in_thread(lambda: worker(1))

    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    spawners = [threading.Thread(target=spawn) for _ in range(3)]
    try:
        for thread in spawners:
            thread.start()
        with opened(consumer) as source:
            for _ in range(200):
                source.watch_lines(code_of(worker), lines(code_of(worker), "worker"))
                source.watch_lines(code_of(worker), frozenset())
    finally:
        stop.set()
        for thread in spawners:
            thread.join()
        sys.setswitchinterval(switching)
    assert consumer.failures == []


def check_code_that_is_gone_is_not_kept_by_discovery() -> None:
    consumer = Consumer()
    found: list[weakref.ref[CodeType]] = []

    def find(code: CodeType, frame: FrameType) -> Watch:
        consumer.codes.clear()
        if code.co_filename == "gone.py":
            found.append(weakref.ref(code))
        return Watch.NOTHING

    consumer.on_found = find
    with opened(consumer) as source:
        source.discover(True)
        for _ in range(3):
            exec(compile("def f(): pass\nf()", "gone.py", "exec"), {})
        consumer.codes.clear()
        gc.collect()
        assert len(found) == 6
        assert [each() for each in found] == [None] * 6


def test_neighbours() -> None:
    report(__file__)


if __name__ == "__main__":
    run_as_script(globals())
