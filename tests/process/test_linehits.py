"""Line breakpoints and tracepoints on live code: what counts, what is told, what stays behind.

The checks run in a process of their own: they claim tool ids and trace functions.
"""

from __future__ import annotations

import ast
import builtins
import gc
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.evaluation.time_limit import Overtime
from pytest_cideldill.probes.linehits import LineProbe
from pytest_cideldill.protocol import AddLine, LinesPassed
from pytest_cideldill.sourcecode.codes import key_of
from pytest_cideldill.tracing.interface import Deliberate
from tests.process.linehits_lab import Lab, lab
from tests.process.sources_checks import (
    MONITORING,
    Skipped,
    code_of,
    in_thread,
    inner,
    report,
    run_as_script,
    tree,
)
from tests.process.sources_checks import lines as lines_of

PATIENCE = 20.0  # seconds until a check that waits gives up


# --- count, condition, multiple, limit


def total(numbers: list[int], rate: int = 1) -> int:
    result = 0  # before
    for number in numbers:
        result += number * rate  # body
    return result  # after


TOTAL = code_of(total)


def check_a_message_is_rendered_before_the_line_runs() -> None:
    with lab() as place:
        probe = place.want(TOTAL, "body", message="{result} {number!r:>3} {rate + 1} {nope}")
        assert total([3, 4]) == 7
        row = place.kept.reported(place.rows[0])
    assert place.messages == ["0   3 2 <error: NameError>", "3   4 2 <error: NameError>"]
    assert row["nodeid"] == "test_it.py::test"
    assert row["location"]["line"] == probe.spec.line
    assert (row["breakpoint_id"], row["hit_count"]) == ("tp-1", 1)
    assert (probe.passes.value, probe.sent) == (2, 2)


def check_count_condition_multiple_limit_in_this_order() -> None:
    with lab() as place:
        odd = {"condition": "number % 2", "message": "{number}"}
        probes = [
            place.want(TOTAL, "body", "a", **odd),
            place.want(TOTAL, "body", "b", **odd, multiple=3),
            place.want(TOTAL, "body", "c", **odd, max_notifications=2),
            place.want(TOTAL, "body", "d", **odd, multiple=3, max_notifications=1),
            place.want(TOTAL, "body", "e", message="{number}", multiple=4, max_notifications=2),
        ]
        total(list(range(1, 16)))
        reported = {probe.spec.id: probe.sent for probe in probes}
        assert reported == {"a": 8, "b": 3, "c": 2, "d": 1, "e": 2}
        # What its limit has switched off counts no further.
        passes = {probe.spec.id: probe.passes.value for probe in probes}
        assert passes == {"a": 15, "b": 15, "c": 3, "d": 3, "e": 8}
    by_probe = {id: [row[-1] for row in place.rows_of(id)] for id in reported}
    assert by_probe["b"] == ["3", "9", "15"]
    assert by_probe["c"] == ["1", "3"]
    assert by_probe["d"] == ["3"]
    assert by_probe["e"] == ["4", "8"]


def check_a_breakpoint_stops_from_a_pass_on() -> None:
    with lab() as place:
        place.want(TOTAL, "body", "bp-1", hit_count=3)
        place.want(TOTAL, "after", "bp-2", condition="result == 15")
        total([1, 2, 3, 4, 5])
        total([1])
    assert place.stops == [
        (f"bp-{n}", p, "breakpoint") for n, p in ((1, 3), (1, 4), (1, 5), (2, 1))
    ] + [("bp-1", 6, "breakpoint")]


def check_messages_come_before_a_stop_at_their_line() -> None:
    with lab() as place:
        seen: list[list[str]] = []
        place.on_stop = lambda frame: seen.append(place.messages)
        place.want(TOTAL, "before", "bp-1")
        place.want(TOTAL, "before", "tp-2", message="first")
        place.want(TOTAL, "before", "tp-3", message="second")
        total([])
    assert seen == [["first", "second"]]


def check_a_stop_may_raise() -> None:
    with lab() as place:

        def stop(_frame: FrameType) -> None:
            raise Deliberate(OSError("wanted"))

        place.on_stop = stop
        place.want(TOTAL, "before", "bp-1")
        with pytest.raises(OSError, match="wanted"):
            total([])


def check_a_condition_that_raises_is_reported_once() -> None:
    with lab() as place:
        probe = place.want(TOTAL, "body", "tp-1", condition="1 / (number - 2)", message="{number}")
        other = place.want(TOTAL, "body", "bp-2", condition="{}[str(number)]")
        total([1, 2, 3, 2])
        counts = [each.counts(place.lens) for each in (probe, other)]
    error = "ZeroDivisionError: division by zero"
    assert place.messages == ["1", f"<condition error: {error}>", "3"]
    assert place.stops == [("bp-2", 1, "condition_error")]
    assert counts[0] == {
        "passes": 4,
        "condition_errors": 2,
        "last_condition_error": error,
    }
    assert counts[1]["last_condition_error"] == "KeyError: 2"


def check_what_a_condition_raised_is_reported_without_secrets() -> None:
    with lab() as place:
        secret = "ghp_" + "a1B2" * 9
        probe = place.want(TOTAL, "body", condition=f"{{}}['{secret}' * 50]", message="x")
        total([1])
        error = probe.counts(place.lens)["last_condition_error"]
    assert secret[:8] not in place.messages[0]
    assert secret[:8] not in str(error)
    assert len(place.messages[0]) < 1_100


class Grumpy:
    def __bool__(self) -> bool:
        raise KeyError("no truth")


def check_a_condition_may_have_no_truth_or_be_slow() -> None:
    grumpy = Grumpy()

    def passed(slow: bool) -> object:
        while slow:
            pass
        return grumpy  # here

    def asked(function: Callable[[bool], object]) -> None:
        assert function(False) is grumpy
        passed(False)  # asked

    with lab() as place:
        done = threading.Event()

        def look() -> None:
            while not done.wait(0.002):
                place.overtime.check()

        watcher = threading.Thread(target=look)
        watcher.start()
        truth = place.want(code_of(passed), "here", "bp-1", condition="grumpy")
        slow = place.want(code_of(asked), "asked", "bp-2", condition="function(True)")
        passed(False)
        asked(passed)
        done.set()
        watcher.join()
        assert truth.last_condition_error == "KeyError: no truth"
        assert slow.last_condition_error == "timeout"
    assert [stop[2] for stop in place.stops] == ["condition_error"] * 2


def check_enabling_begins_a_new_count_of_messages() -> None:
    with lab() as place:
        probe = place.want(TOTAL, "body", message="{number}", max_notifications=2)
        total([1, 2, 3])
        place.enable(probe, enabled=False)
        total([4])
        place.enable(probe, enabled=True)
        assert (probe.sent, probe.passes.value) == (0, 2)
        total([5, 6, 7])
        assert (probe.sent, probe.passes.value) == (2, 4)
    assert place.messages == ["1", "2", "5", "6"]


def check_what_reports_every_pass_begins_a_new_count_as_well() -> None:
    with lab() as place:
        probe = place.want(TOTAL, "body", message="{number}")
        assert not probe.is_hit
        total([1, 2, 3])
        assert probe.sent == 3
        place.enable(probe, enabled=False)
        place.enable(probe, enabled=True)
        assert (probe.sent, probe.passes.value, probe.is_hit) == (0, 3, True)
        total([4])
        assert (probe.sent, probe.passes.value) == (1, 4)


def check_what_is_done_is_disarmed() -> None:
    """Its events cost something as long as they come."""
    with lab() as place:
        probe = place.want(TOTAL, "body", message="{number}", max_notifications=2)
        other = place.want(TOTAL, "after", "tp-2", message="{result}", max_notifications=5)
        total([1])
        place.lines.retire()
        assert probe.spec.enabled
        total([2, 3])
        place.lines.retire()
        assert (probe.spec.enabled, other.spec.enabled) == (False, True)
        total([4])
        assert (probe.passes.value, other.passes.value) == (2, 3)
        for _ in range(3):
            total([5])
        place.lines.retire()
        if MONITORING:
            assert not place.is_armed(TOTAL)
        place.enable(probe, enabled=True)
        total([6])
        assert probe.sent == 1


def check_passes_are_reported_when_they_changed() -> None:
    with lab() as place:
        place.want(TOTAL, "before", message="{nothing}")
        assert place.lines.passes(at_once=True) == []
        total([])
        (reported,) = place.lines.passes(at_once=True)
        assert isinstance(reported, LinesPassed)
        assert reported.passes["tp-1"]["passes"] == 1
        total([])
        assert place.lines.passes() == []  # a moment ago they were told
        place.lines.report_passes_now()
        (reported,) = place.lines.passes()
        assert reported.passes["tp-1"]["passes"] == 2  # type: ignore[union-attr]
        assert place.lines.passes(at_once=True) == []


def check_what_is_malformed_is_refused_and_changes_nothing() -> None:
    with lab() as place:
        deep = "not " * 5_000 + "number"
        for asked in (
            {"message": "{"},
            {"message": "x", "condition": "1 +"},
            {"message": f"{{{deep}}}"},
        ):
            with pytest.raises(ValueError, match=r"."):
                place.want(TOTAL, "body", **asked)
        assert place.lines.probes == []
        assert not place.lines.are_any


# --- threads


def busy(count: int) -> int:
    done = 0
    for _ in range(count):
        done += 1  # busy
    return done


BUSY = code_of(busy)


def together(count: int, work: Callable[[int], object]) -> None:
    start = threading.Barrier(count)

    def begin(number: int) -> None:
        start.wait(PATIENCE)
        work(number)

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


@contextmanager
def switching(interval: float = 1e-5) -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(interval)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def check_threads_count_exactly() -> None:
    """8 threads, 10,000 passes each."""
    with lab() as place, switching(1e-4):
        every = place.want(BUSY, "busy", "a", message="{done}", multiple=50)
        some = place.want(BUSY, "busy", "b", message="{count}", multiple=7, max_notifications=1_000)
        few = place.want(BUSY, "busy", "c", message="x", max_notifications=100)
        chosen = place.want(BUSY, "busy", "d", message="{done}", condition="done % 1000 == 999")
        together(8, lambda _: busy(10_000))
        probes = (every, some, few, chosen)
        assert [probe.passes.value for probe in (every, chosen)] == [80_000] * 2
        # Threads may be passing while one tells the last message.
        assert 100 <= few.passes.value < 100 + 8
        assert 7_000 <= some.passes.value < 80_000
        assert [probe.sent for probe in probes] == [1_600, 1_000, 100, 80]
    reported = {id: sorted(row[4] for row in place.rows_of(id)) for id in "abcd"}
    assert reported["a"] == list(range(50, 80_001, 50))
    assert len(set(reported["b"])) == 1_000
    assert all(number % 7 == 0 for number in reported["b"])
    assert (len(reported["c"]), len(reported["d"])) == (100, 80)


def check_threads_report_the_first_failure_of_a_condition_once() -> None:
    with lab() as place, switching():
        probe = place.want(BUSY, "busy", condition="nothing", message="x")
        together(8, lambda _: busy(300))
        assert probe.condition_errors.value == 2_400
    assert len(place.rows) == 1


# --- what is left behind


class Tracked:
    pass


def lives(_seen: Callable[[str], None]) -> list[bool]:
    thing = Tracked()
    alive = weakref.ref(thing)
    found = [alive() is not None]  # traced
    other: Tracked | None = thing
    found.append(alive() is not None)  # traced again
    del thing
    other = None
    found.append(alive() is not None)  # gone
    return [*found, other is not None]


def check_values_die_where_they_die_without_a_tracepoint() -> None:
    with lab() as place:
        alone = lives(print)
        for n, name in enumerate(("traced", "traced again", "gone")):
            message = "{thing} {alive} {other} {len(found) if found else 0}"
            place.want(code_of(lives), name, f"tp-{n}", message=message)
        assert lives(print) == alone == [True, True, False, False]
        collected(place)
    assert len(place.rows) == 3


def collected(place: Lab) -> None:
    """Messages hold on to nothing."""
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each) is Tracked]


def check_values_die_there_under_a_trace_function_too() -> None:
    """Another debugger's, or coverage's; on 3.11 it is ours."""
    if not MONITORING:
        raise Skipped("sources call the trace function that was there before")

    def tracer(frame: FrameType, _event: str, _arg: object) -> Any:
        if frame.f_code is code_of(lives):
            frame.f_locals.get("thing")
        return tracer

    with lab() as place:
        place.want(code_of(lives), "traced", message="{thing} {len(found)}")
        place.want(code_of(lives), "gone", "tp-2", message="{alive}")
        sys.settrace(tracer)
        try:
            found = lives(print)
        finally:
            sys.settrace(None)
    assert found == [True, True, False, False]
    assert len(place.rows) == 2


def holds() -> tuple[dict[str, Any], dict[str, Any]]:
    first, second = 1, 2
    held = locals()
    before = dict(held)
    third = first + second  # holding
    assert third == 3
    return before, held


def makes() -> list[Any]:
    local = 5
    exec("made = 3")
    locals()["also"] = 4
    found = [local]  # making
    found += [eval("made"), eval("also"), locals()["made"]]
    return found  # made


def check_a_dict_of_locals_that_the_program_holds_is_left_alone() -> None:
    with lab() as place:
        place.want(code_of(holds), "holding", message="{first} {held} {unbound}")
        before, held = holds()
    assert before.items() <= held.items()
    assert place.messages


def check_names_that_the_program_puts_among_its_locals_stay_there() -> None:
    """Before 3.13 `exec` in a function leaves names in what `locals()` gives."""
    if sys.version_info >= (3, 13):
        raise Skipped("each call of locals() gives another dict")
    alone = makes()
    with lab() as place:
        place.want(code_of(makes), "making", message="{local} {found}")
        place.want(code_of(makes), "made", "tp-2", message="{local} {len(found)}")
        assert makes() == alone == [5, 3, 4, 3]
    assert place.messages == ["5 <error: UnboundLocalError>", "5 4"]


def closes_over() -> int:
    shared = 1

    def add() -> int:
        nonlocal shared
        shared += 1
        return shared

    result = shared + add()  # closing
    return result + shared * 100 + add() * 0


def check_cells_that_an_expression_writes_keep_their_values() -> None:
    with lab() as place:
        place.want(code_of(closes_over), "closing", message="{add()} {shared}")
        assert closes_over() == 2 + 3 + 300
    assert place.messages == ["2 1"]


# --- where lines are armed


@contextmanager
def module(text: str) -> Iterator[Callable[[], dict[str, Any]]]:
    """Runs a file anew at each call, as an import does."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "shop.py")
        path.write_text(text, encoding="utf-8")

        def load() -> dict[str, Any]:
            names: dict[str, Any] = {"__name__": "shop", "__file__": str(path)}
            exec(compile(text, str(path), "exec"), names)
            return names

        yield load


SHOP = """
LIMIT = 5

def price(amount):
    cost = amount * 2
    return cost + LIMIT

class Till:
    open = True
    def pay(self, amount):
        return (lambda: amount + 1)()

def late():
    try:
        return 1
    finally:
        f = lambda: 5; f()
"""


def key(text: str, qualname: str) -> CodeType:
    return next(each for each in tree(compile(text, "x", "exec")) if each.co_qualname == qualname)


def want(
    place: Lab, file: str, code: CodeType, line: int, id: str = "tp-1", **asked: Any
) -> LineProbe:
    """Set a probe in code that need not exist yet."""
    file = place.lens.project.real(file)
    asked = {"message": "{0}"} | asked
    place.lines.want(AddLine(0, id, file, line, key_of(code).to_plain(), **asked))
    place.source.discover(place.lines.are_any)
    place.lines.arm(file)
    return next(each for each in place.lines.probes if each.spec.id == id)


def file_of(load: Callable[[], dict[str, Any]]) -> str:
    return str(load()["__file__"])


def check_code_that_comes_later_is_armed_before_its_first_line() -> None:
    names: dict[str, Any] = {}
    with lab() as place, module(SHOP) as load:
        file = file_of(load)
        own = [
            want(place, file, key(SHOP, "<module>"), 2, "a"),
            want(place, file, key(SHOP, "price"), 5, "b", message="{amount} {LIMIT}"),
            want(place, file, key(SHOP, "Till"), 9, "c", message="{__qualname__}"),
            want(place, file, key(SHOP, "Till.pay"), 11, "d"),
            want(place, file, key(SHOP, "Till.pay.<locals>.<lambda>"), 11, "e"),
        ]
        for round_ in (1, 2):
            names = load()
            assert names["price"](3) == 11
            assert names["Till"]().pay(1) == 2
            assert [probe.passes.value for probe in own] == [round_] * 5
        names["price"](4)
        assert own[1].passes.value == 3
    assert sorted(set(place.bound)) == ["a", "b", "c", "d", "e"]
    assert "4 5" in place.messages


def check_all_copies_of_a_code_object_are_armed() -> None:
    """Two imports, and what CPython compiles twice, as in `finally`."""
    with lab() as place, module(SHOP) as load:
        first, second = load(), load()
        lambdas = [each for each in tree(first["late"].__code__) if each.co_name == "<lambda>"]
        probe = want(place, first["__file__"], key(SHOP, "price"), 5)
        copies = want(place, first["__file__"], lambdas[0], 17, "tp-2")
        assert first["price"].__code__ == second["price"].__code__
        for names in (first, second, load()):
            names["price"](1)
            names["late"]()
        assert probe.passes.value == copies.passes.value == 3
        place.lines.remove("tp-1")
        place.lines.remove("tp-2")
        for names in (first, second):
            names["price"](1)
            names["late"]()
            assert not (MONITORING and any(map(place.is_armed, tree(names["late"].__code__))))
        assert probe.passes.value == copies.passes.value == 3


def check_running_frames_and_suspended_generators_are_armed() -> None:
    def generator() -> Iterator[int]:
        number = 0
        while number < 3:
            yield number  # yielding
            number += 1

    def runs(place: Lab) -> int:
        for number in range(3):
            if number == 1:
                place.want(code_of(runs), "running", "tp-2", message="{number}")
            _ = number  # running
        return 0

    with lab() as place:
        numbers = generator()
        assert next(numbers) == 0
        place.want(code_of(generator), "yielding", message="{number}")
        assert list(numbers) == [1, 2]
        runs(place)
    assert place.messages == ["1", "2", "1", "2"]


def check_nothing_is_armed_when_nothing_is_wanted() -> None:
    with lab() as place:
        place.want(TOTAL, "body", "tp-1", message="x")
        place.want(TOTAL, "body", "tp-2", message="x")
        place.want(BUSY, "busy", "tp-3", message="x")
        if MONITORING:
            assert place.is_armed(TOTAL)
            assert place.is_armed(BUSY)
        place.lines.remove("tp-2")
        place.lines.remove("nothing")
        place.lines.disarm()
        if MONITORING:
            assert not place.is_armed(TOTAL)
            assert not place.is_armed(BUSY)
        total([1])
        busy(1)
        assert place.rows == []
        assert place.lines.bound("tp-1").functions == []


def check_a_failure_of_ours_disarms_only_its_line() -> None:
    with lab(int) as place:  # which makes no number of a row
        broken = place.want(TOTAL, "body", "tp-1", message="{number}")
        other = place.want(TOTAL, "after", "bp-2")
        assert total([1, 2]) == 3
        assert total([3]) == 3
        (failure,) = place.failures
        place.failures.clear()
    assert "the probe at line" in failure
    assert (broken.passes.value, other.passes.value) == (1, 2)


class Working:
    """Threads that call a function all the time, and count their calls."""

    def __init__(self, count: int, function: Callable[[], object]) -> None:
        self.started, self.ended = [0] * count, [0] * count
        self.stop = threading.Event()

        def work(number: int) -> None:
            while not self.stop.is_set():
                self.started[number] += 1
                function()
                self.ended[number] += 1

        self.threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
        for thread in self.threads:
            thread.start()

    def go_on(self, calls: int = 2) -> None:
        """Wait until every thread has begun and ended so many more calls."""
        started = list(self.started)
        moment = threading.Event()
        while any(now < then + calls for now, then in zip(self.ended, started, strict=True)):
            moment.wait(0.0005)

    def end(self) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join(PATIENCE)


def check_hits_begin_and_end_with_the_command() -> None:
    """While threads run the code: none is lost after the reply to one, none comes after another."""

    def work() -> int:
        return 5  # working

    with lab() as place, switching(1e-4):
        working = Working(2, work)
        try:
            for round_ in range(10):
                ended = sum(working.ended)
                id = f"tp-{round_}"
                probe = place.want(code_of(work), "working", id, message="{0}", multiple=10**9)
                started = sum(working.started)
                working.go_on()
                surely = sum(working.ended) - started
                place.lines.remove(id)
                perhaps = sum(working.started) - ended
                working.go_on()
                passes = probe.passes.value
                assert surely <= passes <= perhaps
                working.go_on()
                assert probe.passes.value == passes
        finally:
            working.end()


def check_other_code_loses_nothing_when_a_probe_comes_and_goes() -> None:
    """Nor does it when a probe at the same lines comes and goes."""

    def work() -> int:
        return 5  # counted

    def other() -> int:
        return 6  # toggled

    with lab() as place, switching(1e-4):
        counted = place.want(code_of(work), "counted", "tp-a", message="{0}", multiple=10**9)
        working = Working(2, lambda: (work(), other()))
        try:
            for _ in range(8):
                reported = {"message": "{0}", "multiple": 10**9}
                toggled = place.want(code_of(other), "toggled", "tp-b", **reported)
                place.want(code_of(work), "counted", "tp-c", **reported)
                place.enable(toggled, enabled=False)
                place.lines.remove("tp-c")
                place.lines.remove("tp-b")
        finally:
            working.end()
        assert counted.passes.value == sum(working.ended)


def check_modules_that_run_while_probes_come_and_go() -> None:
    """Arming by commands and by code that starts, at the same time."""
    with lab() as place, module(SHOP) as load, switching(1e-4):
        file = file_of(load)

        def work() -> None:
            names = load()
            names["price"](1)
            names.clear()  # it refers to itself

        working = Working(2, work)
        try:
            for _ in range(6):
                probe = want(place, file, key(SHOP, "price"), 5)
                started = sum(working.started)
                working.go_on()
                assert probe.passes.value >= sum(working.ended) - started - 2
                place.lines.remove("tp-1")
                working.go_on(3)
                passes = probe.passes.value
                working.go_on()
                assert probe.passes.value == passes
        finally:
            working.end()


# --- evaluations are no passes


def check_evaluations_pass_no_line() -> None:
    """Nor do the threads that they start."""
    with lab() as place:
        place.lens.project.real(__file__)
        probe = place.want(BUSY, "busy", message="{busy(3)} {in_thread(lambda: busy(4))} {done}")
        inside = place.want(code_of(in_thread), in_thread.__code__.co_firstlineno + 1, "tp-2")
        assert busy(2) == 2
        assert probe.passes.value == 2
        assert inside.passes.value == 0
    assert place.messages == ["3 None 0", "3 None 1"]


def check_the_start_of_threads_is_put_back() -> None:
    """Also when an expression runs at that moment."""
    guard = EvaluationGuard()
    limits = Overtime(guard)
    name = "_start_joinable_thread" if sys.version_info >= (3, 13) else "_start_new_thread"
    before = getattr(threading, name)
    guard.pin(True)
    assert getattr(threading, name) is not before

    def end() -> bool:
        in_thread(lambda: guard.pin(False))
        return getattr(threading, name) is before

    assert limits.limited(lambda _: end(), False)(None)
    assert getattr(threading, name) is before
    limits.close()


def check_a_blocked_expression_holds_up_no_other_thread() -> None:
    """On 3.11 no traced thread could begin a function while an interruption was on its way."""
    gate, blocked = threading.Event(), threading.Event()

    def blocks() -> bool:
        blocked.set()
        return gate.wait(PATIENCE / 2)

    def line() -> object:
        return blocks  # blocking

    with lab() as place:
        place.want(TOTAL, "body", "tp-1", message="{number}")
        place.want(code_of(line), "blocking", "tp-2", message="{blocks()}")
        thread = threading.Thread(target=line)
        thread.start()
        assert blocked.wait(PATIENCE)
        moment = threading.Event()
        for _ in range(60):
            moment.wait(0.002)
            place.overtime.check()
        assert total([1, 2, 3]) == 6
        assert thread.is_alive()
        gate.set()
        thread.join(PATIENCE)
    assert place.messages[:3] == ["1", "2", "3"]


def check_lines_of_nested_code_are_apart() -> None:
    """A line may hold code of several functions; the probe means one."""

    def outer() -> list[int]:
        return [(lambda: number)() for number in range(3)]  # nested

    with lab() as place:
        own = place.want(code_of(outer), "nested", "tp-1", message="outer")
        (line,) = lines_of(code_of(outer), "nested")
        within = place.want(inner(outer, "<lambda>"), line, "tp-2", message="{number}")
        assert outer() == [0, 1, 2]
        assert own.passes.value == 1
        assert within.passes.value == 3


def check_expressions_are_compiled_once() -> None:
    """When they are set and bound, not at a pass."""
    with lab() as place:
        place.want(TOTAL, "body", message="{number} {number + rate!r:>3}", condition="number")
        total([1])
        before = builtins.compile
        builtins.compile = lambda *_args, **_named: pytest.fail("compiled again")
        try:
            total([2] * 100)
        finally:
            builtins.compile = before
    assert place.messages == ["1   2", *["2   3"] * 100]


def check_a_hit_leaves_a_row_of_plain_values_and_nothing_else() -> None:
    """A tuple, its time, thread, number and text; what is not kept leaves nothing."""
    many = [5_000] * 1_000

    def blocks(place: Lab) -> int:
        total(many)  # whatever is made once is made now
        place.rows.clear()
        gc.collect()
        before = sys.getallocatedblocks()
        total(many)
        return sys.getallocatedblocks() - before

    with lab() as place:
        place.want(TOTAL, "body", message="{number}", condition="number > 1")
        assert blocks(place) < 6 * len(many)
    with lab(lambda _row: None) as place:
        place.want(TOTAL, "body", message="{number}", condition="number > 1")
        assert blocks(place) < 100
    with lab() as place:
        place.want(TOTAL, "body", message="{number}", condition="number < 1")
        assert blocks(place) < 100


def check_templates_are_compiled_as_they_are_parsed() -> None:
    """What the front end lets pass is what binds here."""
    with lab() as place:
        source = "{(number, *[n for n in numbers if n > rate])!r:>{len(str(rate)) * 9}}"
        assert ast.parse(f"f'''{source}'''")
        place.want(TOTAL, "body", message=source)
        total([2])
    assert place.messages == ["   (2, 2)"]


@pytest.mark.full
def test_linehits() -> None:
    report(__file__)


if __name__ == "__main__":
    run_as_script(globals())
