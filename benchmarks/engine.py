"""What the engine costs per event: `python -m benchmarks.engine`.

Each figure stands beside the bare interpreter's floor for the same thing. Prints medians with every
sample; asserts nothing.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable
from time import thread_time
from types import CodeType, FrameType, FunctionType

from benchmarks.spine import show, versions
from pytest_cideldill.callrecords.recorder import Recording
from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.evaluation.repl_eval import evaluate
from pytest_cideldill.evaluation.time_limit import Overtime
from pytest_cideldill.link.row_log import RowLog
from pytest_cideldill.patching.code_swap import intercept
from pytest_cideldill.patching.planting import Planting, places_in
from pytest_cideldill.probes.linehits import Surroundings
from pytest_cideldill.probes.lines import LineProbes
from pytest_cideldill.probes.raises import RaiseProbes
from pytest_cideldill.project import Project
from pytest_cideldill.protocol import AddException, AddLine
from pytest_cideldill.protocol.current_test_file import Position
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.sourcecode.codes import key_of
from pytest_cideldill.tracing.interface import Handlers, Source, Takes, Watch, open_source
from tests.process.contexts import made_context

ROUNDS = 9
CALLS = 20_000
CALLS_OF_BUSY = 400
"""Starts of frames in one round of `busy`: each call, and each time the generator goes on."""

IS_FREE = sys.version_info >= (3, 12)
"""Whether code that nothing watches is to cost nothing while discovery is on."""


def called(amount: int, each: int = 3) -> int:
    """The function that is recorded and swapped."""
    return amount * each


def lined(count: int) -> int:
    """The function whose first loop line is watched."""
    total = 0
    for number in range(count):
        total += number
    return total


def busy() -> int:
    """Call-heavy code that nothing watches."""
    return sum(called(number) for number in range(CALLS_OF_BUSY // 2))


class Item:
    """What snapshots show."""

    def __init__(self) -> None:
        self.name, self.price, self.tags = "lamp", 40.5, ["a", "b"]


ITEM = Item()


def per_call(work: Callable[[], object], count: int = CALLS) -> list[float]:
    """Microseconds of processor time per call, one sample per round."""
    timer = timeit.Timer(work, timer=thread_time)
    return [timer.timeit(count) / count * 1e6 for _ in range(ROUNDS)]


def source(
    on_line: Callable[[FrameType, int], None] = lambda _frame, _line: None,
    takes: Takes | None = None,
) -> Source:
    """An event source with handlers that do nothing else."""

    def on_code(_code: CodeType, _frame: FrameType) -> Watch:
        return Watch.NOTHING

    return open_source(
        Handlers(
            on_code=on_code,
            on_module_end=lambda _code, _frame: None,
            on_line=on_line,
            on_failure=print,
            is_ours=lambda _file: False,
            quiet=EvaluationGuard().depths,
            takes={} if takes is None else takes,
        )
    )


def swapped() -> None:
    """A call that goes through the trampoline, and straight on."""
    floor = per_call(lambda: called(2))
    assert isinstance(called, FunctionType)
    undo = intercept(called, lambda _frame, original, args, kwargs: original(*args, **kwargs))
    show("plain call, in a lambda", floor, "µs")
    show("swapped call", per_call(lambda: called(2)), "µs")
    undo()


def planted() -> None:
    """The same with functions that are made of a trampoline, and the making of one."""

    def outer() -> Callable[[int], int]:
        return lambda amount: amount * 3

    floor = per_call(outer)
    ((code, place),) = places_in(outer.__code__, set())
    planting = Planting(code, lambda _frame, original, args, kwargs: original(*args, **kwargs))
    planting.put(place)
    inner = outer()
    show("planted call", per_call(lambda: inner(2)), "µs", "aim 2 µs")
    show("a function made, without us", floor, "µs")
    show("a function made of a trampoline", per_call(outer), "µs")
    planting.undo()


def recorded(lens: Lens) -> None:
    """A call with its arguments, result, times and test written to the log."""
    log = RowLog(lambda: None)
    events = source()
    context = made_context(lens, log, position=Position("test_it.py::test"))
    recording = Recording(context, ["*.called"])
    recording.consider(events, called.__code__, "shop")
    show("recorded call", per_call(lambda: called(2)), "µs", "aim 4 µs")
    events.close()


def watched() -> None:
    """A line event, from the interpreter to a handler that does nothing."""
    count = 1_000
    floor = [sample / count for sample in per_call(lambda: lined(count), 100)]
    line = lined.__code__.co_firstlineno + 4
    events = source(takes=_idle(lined.__code__, line))
    events.watch_lines(lined.__code__, frozenset({line}))
    hit = [sample / count for sample in per_call(lambda: lined(count), 100)]
    events.close()
    show("loop round, nothing watched", floor, "µs")
    show("loop round with a line hit", hit, "µs", "aim 1.5 µs")


def _idle(code: CodeType, line: int) -> Takes:
    """A line is passed, and nothing is done."""
    return {id(code): {line: (frozenset(), lambda _frame: None)}}


def stepped(count: int, item: Item) -> int:
    """The function whose first loop line has a tracepoint."""
    total = len(item.tags)
    for number in range(count):
        total += number
    return total


def traced(lens: Lens) -> None:
    """A tracepoint with three expressions, from the line event to the row in the log."""
    line = stepped.__code__.co_firstlineno + 4
    events = source(takes=_idle(stepped.__code__, line))
    events.watch_lines(stepped.__code__, frozenset({line}))
    show("line hit, handler does nothing", per_hit(lambda: None), "µs")
    events.close()
    names = per_message(lens, "{total} {number} {count}")
    show("tracepoint, three names", names, "µs", "aim 1.5 µs")
    attribute = per_message(lens, "{total} {number} {item.name}")
    show("tracepoint, two names and an attribute", attribute, "µs")


def per_hit(drain: Callable[[], object], count: int = 2_000) -> list[float]:
    """Microseconds of processor time per round of `stepped`; `drain` takes what that leaves."""
    timer = timeit.Timer(lambda: stepped(count, ITEM), timer=thread_time)
    samples = []
    for _ in range(ROUNDS):
        samples.append(timer.timeit(1) / count * 1e6)
        drain()
    return samples


def per_message(lens: Lens, message: str) -> list[float]:
    """`per_hit` with a tracepoint at the loop line."""
    log, guard, code = RowLog(lambda: None), EvaluationGuard(), stepped.__code__
    limits, file = Overtime(guard), lens.project.real(code.co_filename)
    position = Position("test_it.py::test")
    surroundings = Surroundings(lens, limits, position, log, lambda *_: None)
    probes = LineProbes(lens.project, surroundings, lambda: events, lambda _: None)
    events = source(probes.passed, probes.takes)
    line = code.co_firstlineno + 4
    probes.want(AddLine(0, "tp-1", file, line, key_of(code).to_plain(), message=message))
    probes.arm(file)
    samples = per_hit(lambda: list(log.take(log)))
    events.close()
    limits.close()
    return samples


def handled() -> None:
    """An exception that is raised and handled in one frame."""
    try:
        raise LookupError
    except LookupError:
        pass


def raised(lens: Lens) -> None:
    """What one of another class costs while there is an exception breakpoint; interleaved."""
    probes = RaiseProbes(lens.project, EvaluationGuard(), *(lambda *_: None,) * 3)
    probes.want(AddException(0, "ex-1", "OSError", second_chance=False))
    timer, costs = timeit.Timer(handled, timer=thread_time), []
    for _ in range(ROUNDS):
        floor = min(timer.repeat(20, CALLS // 10))
        events = source()
        events.watch_raises(probes.raises)
        watched = min(timer.repeat(20, CALLS // 10))
        events.close()
        costs.append((watched - floor) / (CALLS // 10) * 1e6)
    aim = "aim 0.3 µs" if IS_FREE else "sys.settrace"
    show("raised and handled, another class is watched", costs, "µs more", aim)


def untouched() -> None:
    """Call-heavy code while discovery is on; pairs, interleaved."""
    ratios, costs = [], []
    for _ in range(ROUNDS):
        plain = min(timeit.repeat(busy, number=200, repeat=3))
        events = source()
        events.discover(True)
        seen = min(timeit.repeat(busy, number=200, repeat=3))
        events.close()
        ratios.append(seen / plain)
        costs.append((seen - plain) / 200 / CALLS_OF_BUSY * 1e6)
    aim = "aim 1.01 ×" if IS_FREE else "sys.settrace; only while a name waits, see below"
    show("untouched code, discovery on / off", ratios, "×", aim)
    if not IS_FREE:
        show("untouched code, a call meanwhile", costs, "µs", "aim 0.25 µs")


def shown(lens: Lens) -> None:
    """Snapshots with redaction, and an evaluation; the floors are `repr` and `eval`."""
    item, guard, frame = Item(), EvaluationGuard(), sys._getframe()
    show("repr of an int", per_call(lambda: repr(40)), "µs")
    show("snapshot of an int", per_call(lambda: lens.show(40)), "µs")
    show("snapshot of a small object", per_call(lambda: lens.show(item), 2_000), "µs")
    show("eval of text", per_call(lambda: eval("1 + 1"), 2_000), "µs")
    evaluation = per_call(lambda: evaluate("1 + 1", frame, {}, guard=guard), 500)
    show("evaluation in a frame", evaluation, "µs")


def main() -> None:
    """Measure everything and print it."""
    print(versions(), end="\n\n")
    lens = Lens(Project("."), Redactor(environ={}))
    swapped()
    planted()
    recorded(lens)
    watched()
    traced(lens)
    raised(lens)
    untouched()
    shown(lens)


if __name__ == "__main__":
    main()
