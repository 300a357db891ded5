"""The tools `debug_state`, `debug_continue` and `timeline_get`: the state of runs, and resuming."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from cideldill_mcp.events.log import Filter
from cideldill_mcp.processes.process import MAIN
from cideldill_mcp.runs.run import Run
from cideldill_mcp.runs.stall import state_of, under_way
from cideldill_mcp.tools import run_replies
from cideldill_mcp.tools.definitions import Param, Reply, Request, Tool
from cideldill_mcp.tools.functions import RESUME_S
from cideldill_mcp.tools.looking import newest_run
from cideldill_mcp.tools.next_steps import next_steps
from cideldill_mcp.tools.tests import PAUSE_ON
from pytest_cideldill.errors import ErrorCode, Refusal, invalid
from pytest_cideldill.protocol import PauseOn, Resume


async def state(request: Request) -> Reply:
    """`debug_state`: the newest run in one reply."""
    run = request.runs.newest
    running = under_way(run) if run is not None and not run.is_over else []
    body = {
        "rootdir": request.runs.recipe.rootdir,
        "hash_seed": request.runs.hash_seed,
        "state": state_of(run, running) if run is not None else "idle",
        "engine": _engine(run) if run is not None and run.engines else None,
        "running": running,
        "paused": list(run.pauses) if run is not None else [],
        "outcomes": dict(run.results.outcomes) if run is not None else {},
        "counts": {
            "breakpoints": len(request.desired),
            "records": request.runs.records.total,
            "events": request.runs.log.last_seq,
            "dropped": request.runs.log.dropped.total(),
        },
        "next": ['test_run {"nodeids": […]}: run tests, pausing at the first failure']
        if run is None
        else next_steps(run, request.runs),
    }
    if run is not None:
        body |= {"run_id": run.id, **run_replies.ended(run)}
    if run is not None and (waits_for := request.runs.ladder.waits_for(run)) is not None:
        body |= {"message": waits_for}
    if run is not None and run.warnings:
        body |= {"warnings": run.warnings}
    if tried := request.questions.ledger.lines():
        body |= {"tried": tried}
    if questions := [question.to_plain() for question in request.questions]:
        body |= {"questions": questions}
    return Reply(body, lists=["running", "paused", "questions", "tried"])


def _engine(run: Run) -> dict[str, object]:
    """The event source of a run and why it was chosen; also those of workers that differ."""
    # The process that controls workers runs no tests.
    engines = {name: engine for name, engine in run.engines.items() if name != MAIN} or run.engines
    first = next(iter(engines.values()))
    others = {name: engine for name, engine in engines.items() if engine != first}
    return {**first, "workers": others} if others else first


async def go_on(request: Request) -> Reply:
    """`debug_continue`: one pause, or all that there are."""
    pause_id, pause_on = request["pause_id"], request["pause_on"]
    run = newest_run(request) if pause_id is None else request.runs.owner_of(pause_id)[0]
    if pause_on is not None:
        run.order = replace(run.order, pause_on=pause_on)
        for target in run.targets.values():
            target.send(PauseOn(pause_on))
    wanted = [pause_id] if pause_id is not None else list(run.pauses)
    resumed = []
    for id in wanted:
        try:
            _, target = request.runs.owner_of(id)
            await target.ask(partial(Resume, pause_id=id, action="continue"), RESUME_S)
        except Refusal as refusal:
            gone = (ErrorCode.PAUSE_NOT_FOUND, ErrorCode.NOT_LIVE)
            if pause_id is not None or refusal.code not in gone:
                raise
            continue  # another client was faster, or its process has died
        run.released(id)
        resumed.append(id)
    return Reply({"status": "ok", "resumed": resumed, "state": run.state}, lists=["resumed"])


EVENT_TYPES = (
    "run_started",
    "run_finished",
    "collected",
    "test_started",
    "test_phase",
    "test_outcome",
    "output",
    "log",
    "stop",
    "resumed",
    "hit",
    "raise",
    "call",
    "failure",
    "action",
    "worker_up",
    "worker_down",
    "process_end",
    "warning",
)
"""Types of events."""


_ALWAYS = dict.fromkeys(("seq", "ts", "type", "run_id", "worker", "nodeid", "thread"))
"""Keys that every event has."""

MAX_PAGE = 2_000
"""Events of one reply; more never fit into the largest one."""


async def timeline(request: Request) -> Reply:
    """`timeline_get`: the merged event log behind a cursor."""
    types = request["types"]
    unknown = [event_type for event_type in types or () if event_type not in EVENT_TYPES]
    if unknown:
        raise invalid(
            "types",
            f"unknown event type {unknown[0]!r}; there are: {', '.join(EVENT_TYPES)}",
            "array of event types",
        )
    if request["run_id"] is not None:
        request.runs.get(request["run_id"])
    wanted = Filter(types and frozenset(types), request["nodeid"], request["run_id"])
    log = request.runs.log
    page = await log.read(request["after"], min(request["limit"], MAX_PAGE), wanted)
    dropped = log.dropped[request["run_id"]] if request["run_id"] else log.dropped.total()
    body = {"events": page.events, "next_after": page.cursor, "dropped": dropped}
    if not page.is_last:
        # The number of matching events is unknown: it would take reading the rest.
        body |= {"truncated": True, "total_count": None}
    if not page.is_last and not page.events:
        go_on = f'timeline_get {{"after": {page.cursor}, …}}: nothing up to here; look further'
        body |= {"next": [go_on]}
    # Most pages hold fewer events than were read.
    return Reply(body, {"events": lambda event: _ALWAYS | event}, lambda event: event["seq"])


TOOLS = (
    Tool(
        "debug_state",
        "State of the debugger",
        "The present state, if you lost track: run, running and paused tests, outcomes, next "
        "steps.",
        state,
        reads_only=True,
    ),
    Tool(
        "debug_continue",
        "Continue everything",
        "Let a pause, or all of them, go on unchanged. breakpoint_continue can change a call and "
        "wait.",
        go_on,
        (
            Param("pause_id", "string", "Default: every pause"),
            Param("pause_on", "string", "Which failures pause from now on", choices=PAUSE_ON),
        ),
        destroys=True,
    ),
    Tool(
        "timeline_get",
        "Timeline of events",
        "All events in order, across threads and workers: tests, stops, hits, recorded "
        "calls; filtered, behind a cursor.",
        timeline,
        (
            Param("after", "integer", "next_after", default=0, minimum=0),
            Param("limit", "integer", default=100, minimum=1),
            Param("types", "array", "As stop, failure, call", items="string"),
            Param("nodeid", "string"),
            Param("run_id", "string"),
        ),
        reads_only=True,
        is_list=True,
    ),
)
