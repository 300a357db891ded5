"""A hit of a tracepoint in its barest form, as a yardstick for `benchmarks.recording`.

A line event, three locals in a message, a row in a queue, and later a line of JSON in a file: no
conditions, limits, secrets, other threads or failures. Its time is known from where the aims were
set (CPython 3.12.1, two cores), and a recorded hit is made of the same kinds of work, so it shows
how fast a machine is for them. Claims a monitoring tool id; Python 3.12 or later.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from _thread import get_ident
from collections import deque
from collections.abc import Callable
from json.encoder import encode_basestring
from time import perf_counter_ns, thread_time
from types import CodeType, FrameType
from typing import Any

WHERE_AIMED = 1.16 + 0.315
"""µs there, of the hit and of its line: the slower ends of 0.83 – 1.16 and 0.26 – 0.315."""

TOOL = 4
LINES = 32
PASSES = 2_250
ROUNDS = 8
"""Of which each writes what it left, so that the rows don't take much memory."""

BATCH = 512

PLAIN = frozenset(map(id, (int, str)))

Row = tuple[int, int, int, str, str, str]


class Test:
    """The one that runs."""

    __slots__ = ("nodeid",)

    def __init__(self) -> None:
        self.nodeid = "test_it.py::test_it[0]"


def bare_hit() -> float:
    """µs of the processor for one of `LINES` tracepoints' hits, without the program's own work."""
    statements = "        total += number\n" * LINES
    head = "def hot(passes):\n    total, label = 0, 'lamp'\n    for number in range(passes):\n"
    names: dict[str, Any] = {}
    exec(head + statements, names)
    hot, rows = names["hot"], deque[Row]()
    hits = {head.count("\n") + 1 + each: tracepoint(f"tp-{each}", rows) for each in range(LINES)}
    plain = taken(lambda: hot(PASSES))
    monitoring, line = sys.monitoring, sys.monitoring.events.LINE
    monitoring.use_tool_id(TOOL, "bare hit")
    monitoring.register_callback(TOOL, line, line_callback({id(hot.__code__): hits}))
    monitoring.set_local_events(TOOL, hot.__code__, line)
    try:
        with tempfile.TemporaryFile() as file:
            passed = written = 0.0
            for _ in range(ROUNDS):
                passed += taken(lambda: hot(PASSES)) - plain
                written += taken(lambda: write(rows, file.fileno()))
    finally:
        monitoring.set_local_events(TOOL, hot.__code__, 0)
        monitoring.register_callback(TOOL, line, None)
        monitoring.free_tool_id(TOOL)
    return (passed + written) / (ROUNDS * PASSES * LINES) * 1e6


def taken(work: Callable[[], object]) -> float:
    """Seconds of the processor in this thread."""
    begun = thread_time()
    work()
    return thread_time() - begun


def line_callback(
    hits: dict[int, dict[int, Callable[[FrameType], None]]],
) -> Callable[[CodeType, int], Any]:
    """By code and line."""

    def on_line(code: CodeType, line: int) -> Any:
        try:
            hit = hits[id(code)][line]
        except KeyError:
            return sys.monitoring.DISABLE
        hit(sys._getframe(1))
        return None

    return on_line


def tracepoint(name: str, rows: deque[Row]) -> Callable[[FrameType], None]:
    """Of the template `{total} {number} {label}`."""
    append, count, test, template = rows.append, itertools.count().__next__, Test(), "%s %s %s"

    def values(total: object, number: object, label: object) -> tuple[object, ...]:
        return total, number, label

    def hit(frame: FrameType) -> None:
        held = frame.f_locals
        try:
            a, b, c = values(held["total"], held["number"], held["label"])
        except KeyError:
            return
        text = template % (
            a if id(type(a)) in PLAIN else repr(a),
            b if id(type(b)) in PLAIN else repr(b),
            c if id(type(c)) in PLAIN else repr(c),
        )
        append((count(), perf_counter_ns(), get_ident(), name, test.nodeid, text))

    return hit


def write(rows: deque[Row], file: int) -> None:
    """A line for each."""
    while rows:
        batch = [rows.popleft() for _ in range(min(BATCH, len(rows)))]
        lines = [
            f'{{"seq":{seq},"ts":{ts},"thread":{thread},"id":"{id}",'
            f'"test":{encode_basestring(test)},"message":{encode_basestring(message)}}}\n'
            for seq, ts, thread, id, test, message in batch
        ]
        os.write(file, "".join(lines).encode())
