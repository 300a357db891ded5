"""The tools `debug_step` and `debug_pause`: steps from a pause, and pauses of running tests."""

from __future__ import annotations

import asyncio
from typing import Any

from cideldill_mcp.processes.process import MAIN, Target
from cideldill_mcp.runs.run import Run
from cideldill_mcp.runs.stacks import dumped_threads
from cideldill_mcp.runs.stall import under_way
from cideldill_mcp.tools import run_replies
from cideldill_mcp.tools.definitions import Param, Reply, Request, Tool
from cideldill_mcp.tools.functions import MAX_WAIT_S, RESUME_S, WAIT_S
from cideldill_mcp.tools.looking import LOOK_S, targets_of
from cideldill_mcp.tools.next_steps import next_steps
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.protocol import CancelPause, PauseNow, Step

STOP_S = 2.0
"""How long a thread may take to come to Python code where it can stop."""

_REASONS = {"step": "step", "exception": "exception", "test_failure": "exception"}
"""Why a step ended, by the reason of the pause; the others are breakpoints."""

_DEAF = (
    "{} can't be paused: no Python code runs, as a long call of C code keeps the interpreter; {}; "
    "test_stop ends it"
)
_LATE = "{} is not paused: it came to no line of yours within {:.0f} s; threads says where each is"

_ENDS = {
    "test_finished": "no code of yours was left to stop in: the test, or the thread, went on to "
    "its end",
    "running": "the step has not come to its end yet; breakpoint_wait reports its stop",
}


async def step(request: Request) -> Reply:
    """`debug_step`: the thread goes on and stops again; the pause keeps its id."""
    pause_id = request["pause_id"]
    run, target = request.runs.owner_of(pause_id)
    before = run.pauses[pause_id]["seq"]
    options = request["mode"], request["count"], request["until_line"]
    await target.ask(lambda number: Step(number, pause_id, *options), RESUME_S)

    def stopped() -> dict[str, Any] | None:
        pause = run.pauses.get(pause_id)
        return pause if pause is not None and pause.get("seq", 0) > before else None

    def is_decided() -> bool:
        is_going = pause_id in run.pauses or pause_id in run.stepping
        return run.is_over or stopped() is not None or not is_going

    decided = await request.runs.log.until(is_decided, request["timeout_s"])
    pause = stopped()
    if pause is None:
        reason = "test_finished" if decided else "running"
        body = {"reason": reason, "pause_id": pause_id, "message": _ENDS[reason]}
        body |= run_replies.verdict(run)
        if not target.is_alive and not run.has_departed:
            body["message"] = "the process ended before the step did"
    else:
        body = _stopped(run, pause, request)
    body |= {"next": next_steps(run, request.runs), **run_replies.ended(run)}
    return Reply(body)


_OF_STOP = ("location", "changed", "phase", "seq", "exception", "autopsy")
_OF_BREAKPOINT = ("breakpoint_id", "call_data", "hit_count")
"""Keys of a stop that the reply has, as far as it has them; the latter not after a mere step."""


def _stopped(run: Run, pause: dict[str, Any], request: Request) -> dict[str, Any]:
    stop, why = run_replies.stop(run, pause, request.max_chars), pause["pause_reason"]
    names = _OF_STOP if why == "step" else _OF_STOP + _OF_BREAKPOINT
    reason = _REASONS.get(why, "breakpoint")
    return {
        "reason": reason,
        "pause_id": pause["id"],
        **{key: stop[key] for key in names if key in stop},
        **({} if why == reason else {"pause_reason": why}),
        "state": run.state,
    }


async def pause(request: Request) -> Reply:
    """`debug_pause`: stop a named thread, or in each process the one that runs the tests."""
    targets = targets_of(request)
    run = request.runs.get(targets[0].hello.run_id)
    # The controller of workers runs no tests.
    targets = [target for target in targets if target.worker != MAIN] or targets
    replies = await _stop_all(request, run, targets)
    ids = [reply["pause_id"] for reply in replies if reply["pause_id"] is not None]
    statuses = {reply["status"] for reply in replies}
    status = next(name for name in ("paused", "already_paused", "not_stopped") if name in statuses)
    stops = [run.pauses[id] for id in ids if id in run.pauses]
    threads = [
        {**thread, "worker": reply["worker"]}
        for reply in replies
        for thread in reply.get("threads", ())
    ]
    body = {
        "status": status,
        "pause_id": ids[0] if ids else None,
        "running": _running(run, threads),
        "threads": threads,
        "stops": [run_replies.stop(run, stop) for stop in stops],
        "next": next_steps(run, request.runs),
        **run_replies.ended(run),
    }
    messages = [reply["message"] for reply in replies if reply.get("message")]
    if messages:
        body["message"] = "; ".join(dict.fromkeys(messages))
    return Reply(body, lists=["threads", "running", "stops"])


async def _stop_all(request: Request, run: Run, targets: list[Target]) -> list[dict[str, Any]]:
    """The reply of each process; a named thread is in one of them only."""
    stops = (_stop(request, run, target) for target in targets)
    results = await asyncio.gather(*stops, return_exceptions=True)
    replies = [result for result in results if not isinstance(result, BaseException)]
    refused = [result for result in results if isinstance(result, BaseException)]
    strange = [error for error in refused if not _is_elsewhere(error)]
    if strange or not replies:
        raise (strange or refused)[0]
    return replies


def _is_elsewhere(error: BaseException) -> bool:
    return isinstance(error, Refusal) and error.code is ErrorCode.THREAD_NOT_FOUND


async def _stop(request: Request, run: Run, target: Target) -> dict[str, Any]:
    """`status`, `pause_id`, `worker`; `threads` and a `message` when it did not stop."""
    before = request.runs.log.last_seq
    thread_id = request["thread_id"]
    body: dict[str, Any] = {"status": "not_stopped", "pause_id": None, "worker": target.worker}
    try:
        reply = await target.ask(lambda number: PauseNow(number, thread_id), LOOK_S)
    except Refusal as refusal:
        if refusal.code is not ErrorCode.PROCESS_BUSY:
            raise
        target.send(CancelPause(0))
        threads = await dumped_threads(target)
        how = "its stacks can't be read" if threads is None else "threads says where each is"
        return body | {"threads": threads or [], "message": _DEAF.format(target.worker, how)}
    if reply["status"] != "asked":
        return body | reply

    def pause_id() -> str | None:
        for id, pause in run.pauses.items():
            whose = (pause["worker"], pause["thread"]["id"])
            if whose == (target.worker, reply["thread_id"]) and pause.get("seq", 0) > before:
                return id
        return None

    def is_decided() -> bool:
        return pause_id() is not None or run.is_over or not target.is_alive

    await request.runs.log.until(is_decided, STOP_S)
    if pause_id() is None and target.is_alive:
        body |= await target.ask(CancelPause, LOOK_S)
    if (id := pause_id()) is not None:
        return body | reply | {"status": "paused", "pause_id": id, "threads": []}
    message = reply.get("message") or _LATE.format(target.worker, STOP_S)
    return body | {"message": message}


def _running(run: Run, threads: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tests under way with their locations, as far as known."""
    places = {entry["worker"]: entry["location"] for entry in threads if entry["is_current"]}
    places |= {entry["worker"]: entry["location"] for entry in run.pauses.values()}
    return [test | {"location": places.get(test["worker"])} for test in under_way(run)]


TOOLS = (
    Tool(
        "debug_step",
        "Step",
        "From a pause to the next line, or n of them; reports the place and changed locals. "
        "The pause stays.",
        step,
        (
            Param("pause_id", "string", required=True),
            Param("mode", "string", default="over", choices=("in", "over", "out")),
            Param("count", "integer", default=1, minimum=1, maximum=10_000),
            Param("until_line", "integer", "Run to this line of the frame, or its end", minimum=1),
            Param("timeout_s", "number", default=WAIT_S, minimum=0.1, maximum=MAX_WAIT_S),
        ),
        destroys=True,
    ),
    Tool(
        "debug_pause",
        "Pause running tests",
        "Stop a test that hangs or loops, and see where. Stuck in C: the stacks of all threads.",
        pause,
        (
            Param("worker", "string", "Default: all"),
            Param("thread_id", "integer", "Default: where the tests run"),
        ),
        destroys=True,
    ),
)
