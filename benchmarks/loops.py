"""The program that `benchmarks.debuggers` and `benchmarks.served` run under one debugger after the
other: plain code.

Alone it is the floor: `python loops.py FOLDER hits|calls`, or `lined|ordering COUNT`. It imports
nothing of ours.
"""

from __future__ import annotations

import atexit
import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

HITS = 20_000
"""Passes of the watched line for each clock."""

CALLS = 100_000
"""Calls in a round of code that nothing watches."""


def lined(count: int) -> int:
    """The loop with the watched line."""
    total = 0
    for number in range(count):
        total += number  # watched
    return total


def price(amount: int) -> int:
    """Called over and over."""
    return amount * 3


def calling(count: int) -> int:
    """Call-heavy code that nothing watches."""
    total = 0
    for number in range(count):
        total += price(number)
    return total


def unused() -> int:
    """Has the breakpoint while `calling` is measured."""
    return 0  # elsewhere


def order(amount: int, name: str) -> int:
    """Recorded: two small arguments."""
    return amount + len(name)


def ordering(count: int) -> int:
    """A call in each pass; there are a hundred different ones."""
    total = 0
    for number in range(count):
        total += order(number % 100, "lamp")
    return total


def timed(work: Callable[[int], int], count: int, clock: Callable[[], float]) -> float:
    """Microseconds per pass."""
    start = clock()
    work(count)
    return (clock() - start) / count * 1e6


def leave(folder: str, found: dict[str, float]) -> None:
    """Write the figures into a file."""
    Path(folder, "samples.json").write_text(json.dumps(found), encoding="utf-8")


def rest(folder: str, work: Callable[[int], int], count: int) -> None:
    """Leave the seconds of the processor from here to the end of the process.

    So what other threads do with the passes counts, however late.
    """
    began = process_time()
    work(count)
    atexit.register(lambda: leave(folder, {"rest": process_time() - began}))


def main(folder: str, kind: str, count: str = "") -> None:
    """Measure, and leave a figure per clock in a file.

    Calls are to be compared to a hundredth: the least of many short rounds, in processor time.
    """
    if kind == "hits":
        found = {each.__name__: timed(lined, HITS, each) for each in (perf_counter, process_time)}
        leave(folder, found)
    elif kind == "calls":
        least = min(timed(calling, CALLS, process_time) for _ in range(25))
        leave(folder, {"process_time": least})
    else:
        rest(folder, {"lined": lined, "ordering": ordering}[kind], int(count))


if __name__ == "__main__":
    main(*sys.argv[1:])
