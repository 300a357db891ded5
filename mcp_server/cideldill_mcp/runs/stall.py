"""What a run that makes no progress is in: the test, its phase and time, stacks, tasks, the CPU.

Lives on the event loop; asks the processes of the run, but waits for none that does not answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Any

from cideldill_mcp.processes.cpu import Usage, usage, verdict
from cideldill_mcp.processes.process import MAIN, Target
from cideldill_mcp.runs.results import TestResult
from cideldill_mcp.runs.run import Run
from cideldill_mcp.runs.stacks import dumped_threads
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.protocol import ReadThreads
from pytest_cideldill.protocol.current_test_file import FilePosition, read_position

IDLE_S = 10.0
"""A process that sent nothing for so long makes no progress; one that was waited for less long,
when it sent nothing for half of that."""

LEAST_S = 1.0
OUTSIDE_S = 5.0
"""The least in a test, and outside of tests: a start and imports take their time."""

ANSWER_S = 2.0
"""How long a process may take to answer."""

SAMPLE_S = 0.25
"""How long its use of the processor is watched, at least."""

MAX_PROCESSES = 4
MAX_THREADS = 12
MAX_TASKS = 12
MAX_STACK = 8

_STARTING = (
    "the process has not said hello: the interpreter, sitecustomize or a plugin that is loaded "
    "earlier hangs, and nothing can ask for stacks"
)
_DEAF = "no Python code runs: a long call of C code keeps the interpreter; test_stop ends it"
_DUMB = f"{_DEAF}. Its stacks can't be read: the program handles SIGCONT, or this platform can't"


def position_of(run: Run, worker: str) -> FilePosition | None:
    """The test and the phase that a process is in, whether it answers or not."""
    return _positions(run, [worker]).get(worker)


def _positions(run: Run, workers: Iterable[str]) -> dict[str, FilePosition]:
    """Of processes that are in a test; one that has no file is taken at its word: no phase."""
    tests = {test.worker: test for test in run.results.running()}
    found: dict[str, FilePosition] = {}
    for worker in workers:
        if (target := run.targets.get(worker)) is None:
            continue
        if (path := target.hello.position_file) is not None:
            position = read_position(path)
        elif (test := tests.get(worker)) is not None:
            position = FilePosition("", test.nodeid, time.monotonic() - _seconds_of(test))
        else:
            position = None
        if position is not None:
            found[worker] = position
    return found


def _seconds_of(test: TestResult) -> float:
    return max(0.0, time.time() - (test.started_at or 0.0))


def under_way(run: Run) -> list[dict[str, Any]]:
    """The tests that run: `{nodeid, phase, worker, seconds}`.

    By the position file of a process, which is ahead of its events: they wait while C code
    keeps the interpreter.
    """
    tests = {test.worker: test for test in run.results.running()}
    shown: list[dict[str, Any]] = []
    for worker, position in _positions(run, run.targets).items():
        test = tests.get(worker)
        is_reported = test is not None and test.nodeid == position.nodeid and test.started_at
        seconds = _seconds_of(test) if test and is_reported else time.monotonic() - position.since
        phase = position.phase or None
        times = {"worker": worker, "seconds": round(seconds, 3)}
        if run.is_stopping and run.targets[worker].tears_down:
            phase = "teardown"
        shown.append({"nodeid": position.nodeid, "phase": phase, **times})
    return shown


def state_of(run: Run, running: Sequence[object]) -> str:
    """`Run.state`, ahead of events that wait as well.

    Args:
        running: The tests that are `under_way`. Not looked up here: they change, and a reply that
            has them has the state that goes with them.
    """
    return "running" if run.state == "collecting" and running else run.state


async def standstill(run: Run, waited_s: float) -> list[dict[str, Any]]:
    """Of each process that makes no progress what it is in; empty: all do, or stand in a pause.

    Args:
        run: Whose state is `running`.
        waited_s: How long the client waited for it.
    """
    if run.is_over:
        return []
    if not run.workers:
        return [await _starting(run)] if run.duration_s >= OUTSIDE_S else []
    paused = {pause["worker"] for pause in run.pauses.values()}
    now = time.monotonic()
    in_tests = _positions(run, run.targets)
    least = min(IDLE_S, max(LEAST_S if in_tests else OUTSIDE_S, waited_s / 2))
    # A process without a test waits for the others: a worker that is done, the controller.
    asked = [
        target
        for worker, target in run.targets.items()
        if worker in in_tests or not in_tests
        if worker not in paused and now - _moved_at(target, in_tests.get(worker)) >= least
    ]
    stalls = await asyncio.gather(*(_describe(run, process) for process in asked[:MAX_PROCESSES]))
    return [stall for stall in stalls if stall is not None]


def _moved_at(target: Target, position: FilePosition | None) -> float:
    """A phase that just passed is reported with the end of its test only."""
    return target.heard_at if position is None else max(target.heard_at, position.since)


async def _starting(run: Run) -> dict[str, Any]:
    assert run.child is not None
    before, began = usage(run.child.pid), time.monotonic()
    await asyncio.sleep(SAMPLE_S)
    return {
        "worker": MAIN,
        "nodeid": None,
        "phase": "start",
        "seconds": run.duration_s,
        "cpu": verdict(before, usage(run.child.pid), time.monotonic() - began),
        "threads": [],
        "tasks": [],
        "message": _STARTING,
    }


async def _describe(run: Run, target: Target) -> dict[str, Any] | None:
    """None: it has ended meanwhile."""
    position = position_of(run, target.worker)
    before, began = _usage(target), time.monotonic()
    threads, tasks, message = await _look(target)
    if not target.is_alive:
        return None
    await asyncio.sleep(max(0.0, SAMPLE_S - (time.monotonic() - began)))
    now = time.monotonic()
    since = target.heard_at if position is None else position.since
    described = {
        "worker": target.worker,
        "nodeid": None if position is None else position.nodeid,
        "phase": _phase(run) if position is None else position.phase or None,
        "seconds": round(min(run.duration_s, max(0.0, now - since)), 1),
        "cpu": verdict(before, _usage(target), now - began),
        "threads": [_short(thread) for thread in threads[:MAX_THREADS]],
        "tasks": tasks[:MAX_TASKS],
    }
    more = [
        f"{len(all_of_them)} {kind}"
        for kind, all_of_them, most in (
            ("threads", threads, MAX_THREADS),
            ("tasks", tasks, MAX_TASKS),
        )
        if len(all_of_them) > most
    ]
    if more:
        message = f"threads_list has all {' and '.join(more)}"
    return described if message is None else described | {"message": message}


def _usage(target: Target) -> Usage | None:
    return None if target.is_remote else usage(target.hello.pid)


async def _look(target: Target) -> tuple[list[dict[str, Any]], list[dict[str, Any]], str | None]:
    """Threads, tasks and what has to be said about them."""
    try:
        reply = await target.ask(lambda number: ReadThreads(number, stacks=True), ANSWER_S)
    except Refusal as refusal:
        if refusal.code is not ErrorCode.PROCESS_BUSY:
            return [], [], refusal.message
        dumped = await dumped_threads(target)
        return dumped or [], [], _DUMB if dumped is None else _DEAF
    return reply["threads"], reply["tasks"], None


def _phase(run: Run) -> str | None:
    """Describe a process that is in no test."""
    results = run.results
    if results.total is None:
        return "collect"
    return "finish" if results.done >= results.total else None


def _short(thread: dict[str, Any]) -> dict[str, Any]:
    kept = ("id", "name", "is_current", "location")
    return {key: thread[key] for key in kept} | {"stack": thread["stack"][:MAX_STACK]}
