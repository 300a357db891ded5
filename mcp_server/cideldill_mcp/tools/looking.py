"""The tools that read stacks, variables and threads of the processes under test."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from cideldill_mcp.processes.process import Target
from cideldill_mcp.runs.run import Run
from cideldill_mcp.tools.definitions import Param, Reply, Request, Tool
from pytest_cideldill.errors import ErrorCode, Refusal, missing
from pytest_cideldill.protocol import ReadStack, ReadVariables

LOOK_S = 5.0
"""How long a process may take to reply; its parked threads reply at once."""


async def stack(request: Request) -> Reply:
    """The stack of a pause, or of a running thread; by default of the newest pause."""
    pause_id, thread_id = request["pause_id"], request["thread_id"]
    if pause_id is None and thread_id is None:
        pause_id = _newest_pause(request)
    start, most = request["start_frame"], request["max_frames"]
    targets = targets_of(request) if pause_id is None else [request.runs.owner_of(pause_id)[1]]
    refused: Refusal | None = None
    for target in targets:
        try:
            reply = await target.ask(
                lambda number: ReadStack(number, pause_id, thread_id, start, most), LOOK_S
            )
        except Refusal as refusal:
            if refusal.code is not ErrorCode.THREAD_NOT_FOUND:
                raise
            refused = refusal
        else:
            return Reply(reply | {"worker": target.worker}, lists=["frames"])
    assert refused is not None
    raise refused


async def variables(request: Request) -> Reply:
    """`variables_get`: names and types of all variables, or the values of requested ones."""
    pause_id, names = request["pause_id"], request["names"]
    _, target = request.runs.owner_of(pause_id)
    reply = await target.ask(
        lambda number: ReadVariables(
            number, pause_id, request["frame_index"], request["scope"], names
        ),
        LOOK_S,
    )
    if not reply.get("missing"):
        reply.pop("missing", None)
    return Reply(reply, lists=["names" if names is None else "variables"])


async def threads(request: Request) -> Reply:
    """`threads_list`: all threads and tasks of all processes of the newest run."""
    targets = newest_run(request).targets.values()
    looks = await asyncio.gather(
        *(target.look(LOOK_S) for target in targets), return_exceptions=True
    )
    now = round(time.time(), 3)
    body: dict[str, Any] = {"threads": [], "tasks": [], "stale": False, "capturedAt": now}
    for look in looks:
        if isinstance(look, Refusal):  # busy in C code, or just gone
            body.setdefault("messages", []).append(look.message)
            continue
        if isinstance(look, BaseException):
            raise look
        body["threads"] += look.threads
        body["tasks"] += look.tasks
    body["stale"] = len(looks) == 0 or "messages" in body
    return Reply(body, lists=["threads", "tasks"])


def _newest_pause(request: Request) -> str:
    paused = [id for run in request.runs for id in run.pauses]
    if not paused:
        raise missing("thread_id", "nothing is paused: give thread_id, from threads_list")
    return paused[-1]


def newest_run(request: Request) -> Run:
    """The newest run. Raises Refusal: `no_run`."""
    if request.runs.newest is None:
        raise Refusal(ErrorCode.NO_RUN, "no run yet; test_run starts one")
    return request.runs.newest


def targets_of(request: Request) -> list[Target]:
    """The process that `worker` names; without that argument all of them.

    Raises:
        Refusal: `no_run`, `not_live`, `worker_not_found`.
    """
    run, worker = newest_run(request), request["worker"]
    if not run.targets:
        raise Refusal(
            ErrorCode.NOT_LIVE, f"run {run.id} is over; test_run starts another", run_id=run.id
        )
    if worker is None:
        return list(run.targets.values())
    if worker not in run.targets:
        names = ", ".join(run.targets)
        raise Refusal(
            ErrorCode.WORKER_NOT_FOUND, f"no worker {worker!r}; there are: {names}", worker=worker
        )
    return [run.targets[worker]]


TOOLS = (
    Tool(
        "stacktrace_get",
        "Stack of a pause or a thread",
        "Where a paused test is, with the tasks that await it; or any thread now. An autopsy has "
        "it already.",
        stack,
        (
            Param("pause_id", "string", "Default: the newest pause"),
            Param("thread_id", "integer", "From threads_list, not paused"),
            Param("worker", "string", "main, gw0, …"),
            Param("start_frame", "integer", "0 is innermost", default=0, minimum=0),
            Param("max_frames", "integer", default=20, minimum=1, maximum=200),
        ),
        reads_only=True,
        needs_live=True,
        is_list=True,
    ),
    Tool(
        "variables_get",
        "Variables of a paused frame",
        "Without names: all of them, with types. With names: "
        "values, and a cid for each to look deeper with breakpoint_inspect_object.",
        variables,
        (
            Param("pause_id", "string", required=True),
            Param("frame_index", "integer", "0 is innermost. Default: as shown", minimum=0),
            Param("names", "array", items="string"),
            Param(
                "scope",
                "string",
                "closure: of enclosing functions",
                default="locals",
                choices=("locals", "globals", "closure"),
            ),
        ),
        reads_only=True,
        needs_live=True,
        is_list=True,
    ),
    Tool(
        "threads_list",
        "Threads and tasks",
        "Every thread of the tests, and every task (asyncio, anyio, trio): location, and what it "
        "awaits. Shows why a test hangs.",
        threads,
        reads_only=True,
        is_list=True,
    ),
)
