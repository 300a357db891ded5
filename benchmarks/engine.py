"""What the engine costs per event: `python -m benchmarks.engine`.

Each figure stands beside the bare interpreter's floor for the same thing. Prints medians with every
sample; asserts nothing. Line hits and recorded calls need Python 3.12 or later.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable
from types import CodeType
from types import FrameType
from types import FunctionType

from benchmarks.spine import show
from benchmarks.spine import versions
from pytest_cideldill.capture.evaluate import evaluate
from pytest_cideldill.capture.lens import Lens
from pytest_cideldill.guard import EvaluationGuard
from pytest_cideldill.log import CallLog
from pytest_cideldill.probes.position import Position
from pytest_cideldill.probes.recording import Recording
from pytest_cideldill.project import Project
from pytest_cideldill.redact import Redactor
from pytest_cideldill.sources.events import Handlers
from pytest_cideldill.sources.events import Source
from pytest_cideldill.sources.events import Watch
from pytest_cideldill.sources.events import open_source
from pytest_cideldill.sources.interpose import intercept

ROUNDS = 9
CALLS = 20_000

HAS_MONITORING = sys.version_info >= (3, 12)


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
    return sum(called(number) for number in range(200))


class Item:
    """What snapshots show."""

    def __init__(self) -> None:
        self.name, self.price, self.tags = "lamp", 40.5, ["a", "b"]


def per_call(work: Callable[[], object], count: int = CALLS) -> list[float]:
    """Microseconds per call, one sample per round."""
    timer = timeit.Timer(work)
    return [timer.timeit(count) / count * 1e6 for _ in range(ROUNDS)]


def source(on_line: Callable[[FrameType, int], None] = lambda _frame, _line: None) -> Source:
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
            is_quiet=EvaluationGuard().is_quiet,
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


def recorded(lens: Lens) -> None:
    """A call with its arguments, result, times and test written to the log."""
    log = CallLog(lambda: None)
    events = source()
    recording = Recording(["*.called"], lens, log.add, Position("test_it.py::test"))
    recording.consider(events, called.__code__, "shop")
    show("recorded call", per_call(lambda: called(2)), "µs", "aim 4 µs")
    events.close()


def watched() -> None:
    """A line event, from the interpreter to a handler that does nothing."""
    count = 1_000
    floor = [sample / count for sample in per_call(lambda: lined(count), 100)]
    events = source()
    first = lined.__code__.co_firstlineno
    events.watch_lines(lined.__code__, frozenset({first + 4}))
    hit = [sample / count for sample in per_call(lambda: lined(count), 100)]
    events.close()
    show("loop round, nothing watched", floor, "µs")
    show("loop round with a line hit", hit, "µs", "aim 1.5 µs")


def untouched() -> None:
    """Call-heavy code while discovery is on; pairs, interleaved."""
    ratios = []
    for _ in range(ROUNDS):
        plain = min(timeit.repeat(busy, number=200, repeat=3))
        events = source()
        events.discover(True)
        seen = min(timeit.repeat(busy, number=200, repeat=3))
        events.close()
        ratios.append(seen / plain)
    show("untouched code, discovery on / off", ratios, "×", "aim 1.01 ×")


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
    if HAS_MONITORING:
        recorded(lens)
        watched()
        untouched()
    shown(lens)


if __name__ == "__main__":
    main()
