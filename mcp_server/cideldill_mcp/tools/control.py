"""Section 4 of the contract: what is going on."""

from __future__ import annotations

import time

from cideldill_mcp.run import Run
from cideldill_mcp.tools import report
from cideldill_mcp.tools.registry import Reply
from cideldill_mcp.tools.registry import Request
from cideldill_mcp.tools.registry import Tool


async def state(request: Request) -> Reply:
    """`debug_state`: the newest run in one reply."""
    run = request.runs.newest
    running = _running(run) if run is not None and not run.is_over else []
    body = {
        "rootdir": request.runs.recipe.rootdir,
        "state": run.state if run is not None else "idle",
        "engine": run.greeting.hello.engine if run is not None and run.greeting else None,
        "running": running,
        "paused": list(run.pauses) if run is not None else [],
        "outcomes": dict(run.results.outcomes) if run is not None else {},
        "counts": {
            "breakpoints": len(request.desired),
            "records": 0,
            "events": request.runs.log.last_seq,
            "dropped": 0,
        },
        "next": ['test_run {"nodeids": […]}: run tests, pausing at the first failure']
        if run is None
        else report.next_steps(run, request.runs),
    }
    if run is not None:
        body |= {"run_id": run.id}
    if run is not None and run.warnings:
        body |= {"warnings": run.warnings}
    return Reply(body, lists=["running", "paused"])


def _running(run: Run) -> list[dict[str, object]]:
    paused = {pause["nodeid"]: pause["when"] for pause in run.pauses.values()}
    return [
        {
            "nodeid": test.nodeid,
            "phase": paused.get(test.nodeid),
            "worker": test.worker,
            "seconds": round(time.time() - (test.started_at or 0), 3),
        }
        for test in run.results.running()
    ]


TOOLS = (
    Tool(
        "debug_state",
        "State of the debugger",
        "Where things stand: the run, running and paused tests, outcomes, what to do next.",
        state,
        reads_only=True,
    ),
)
