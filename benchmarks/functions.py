"""What a function breakpoint costs calls that it does not pause: `python -m benchmarks.functions`.

All in one process, on the calling thread; what the I/O thread makes of the rows is not counted.
Prints medians with every sample; asserts nothing.
"""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable
from time import thread_time
from typing import Any

from benchmarks.spine import show, versions
from pytest_cideldill.protocol import SetDefaultBehavior
from tests.process.debuggee import Debuggee

ROUNDS = 9
CALLS = 5_000


def called(amount: int, name: str) -> int:
    """The function with the breakpoint: two small arguments."""
    return amount + len(name)


def neighbour(amount: int, name: str) -> int:
    """A function of the same module."""
    return amount + len(name)


def per_call(function: Callable[[int, str], Any], process: Debuggee | None = None) -> list[float]:
    """Microseconds of processor time per call, one sample per round; then rows are taken."""
    timer = timeit.Timer(lambda: function(2, "lamp"), timer=thread_time)
    samples = []
    for _ in range(ROUNDS):
        samples.append(timer.timeit(CALLS) / CALLS * 1e6)
        if process is not None:
            list(process.rows.take(process))
    return samples


def with_breakpoint(
    label: str,
    aim: str = "",
    *,
    behavior: str = "go",
    default: str = "stop",
    condition: str | None = None,
    keeps_objects: bool = False,
    beyond: float = 0.0,
) -> float:
    """One line: a call of `called` while a breakpoint is set.

    Args:
        beyond: What is not counted, in microseconds.

    Returns:
        The median.
    """
    process = Debuggee(keeps_objects=keeps_objects)
    process.manager.apply(SetDefaultBehavior(default))
    process.add("called", behavior, condition)
    samples = [sample - beyond for sample in per_call(called, process)]
    show(label, samples, "µs", aim)
    process.manager.release("stop")  # frees the interpreter's events for the next one
    return statistics.median(samples)


def untouched() -> None:
    """A neighbour of a function with a breakpoint; pairs, interleaved."""
    ratios = []
    process = Debuggee()
    for _ in range(ROUNDS):
        plain = min(timeit.repeat(lambda: neighbour(2, "lamp"), number=CALLS, repeat=9))
        process.add("called", "go")
        armed = min(timeit.repeat(lambda: neighbour(2, "lamp"), number=CALLS, repeat=9))
        process.remove()
        ratios.append(armed / plain)
    show("its neighbour, armed / not", ratios, "×", "aim 1.00 ×")


def main() -> None:
    """Measure everything and print it."""
    print(versions(), end="\n\n")
    show("plain call, in a lambda", per_call(called), "µs")
    go = with_breakpoint("recorded under go", "aim 4 µs")
    with_breakpoint("recorded under go, with content ids", "aim 12 µs", keeps_objects=True)
    condition = "condition that does not hold, beyond go"
    with_breakpoint(condition, "aim 2 µs", behavior="stop", condition="amount > 9", beyond=go)
    with_breakpoint(
        "pauses at exceptions only, beyond go", "aim 2 µs", default="exception", beyond=go
    )
    untouched()


if __name__ == "__main__":
    main()
