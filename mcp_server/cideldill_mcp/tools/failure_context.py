"""`exception_get_context`: everything that is known of an exception, in one reply.

At a pause the thread is asked for its present state; otherwise the reply has the recorded autopsy
of a failed test.
"""

from __future__ import annotations

from typing import Any

from cideldill_mcp.replies.render import DEFAULT_MAX_CHARS
from cideldill_mcp.runs.autopsies import fitted, shaped, siblings
from cideldill_mcp.runs.run import Run
from cideldill_mcp.tools.definitions import Param, Reply, Request, Tool
from cideldill_mcp.tools.looking import LOOK_S
from cideldill_mcp.tools.run_replies import (
    AUTOPSY_CHARS,
    FRAMES,
    INNER,
    VARIABLES,
    changed,
    failure,
)
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.protocol import PhaseReported, ReadContext
from pytest_cideldill.protocol.reducer import FAILED

_AROUND = 300
"""Characters of a reply besides the autopsy."""

_NAMED = 5
"""Failed tests that a refusal names, and other failures of a test."""


async def context(request: Request) -> Reply:
    """`exception_get_context`: of a pause, else of a recorded failure."""
    pause_id, nodeid = request["pause_id"], request["nodeid"]
    if pause_id is None:
        pause_id = _newest_pause(request, nodeid)
    if pause_id is not None:
        return await _live(request, pause_id)
    if nodeid is None:
        raise _nothing(request)
    run, event = _recorded(request, nodeid)
    assert event.autopsy is not None
    autopsy = shaped(
        event.autopsy,
        frames=request["max_frames"],
        variables=request["include_variables_for_frames"],
        inner=request["max_inner_exceptions"],
    )
    whose = {"run_id": run.id, "pause_id": None, "nodeid": nodeid, "phase": event.phase}
    newest, test = next(
        (other, test)
        for other in reversed(list(request.runs))
        if (test := other.results.of(nodeid))
    )
    if newest is not run:
        whose["since"] = {"run_id": newest.id, "outcome": test.outcome or "running"}
    others = [failed for failed in run.results.failures_of(nodeid) if failed is not event]
    if event.subtest is not None:
        whose["subtest"] = event.subtest
    if others:  # of other phases, or of subtests
        whose["also_failed"] = [failure(failed) for failed in others[:_NAMED]]
    return _reply(request, {"threadId": None, **autopsy}, run, whose)


async def _live(request: Request, pause_id: str) -> Reply:
    run, target = request.runs.owner_of(pause_id)
    pause = run.pauses[pause_id]
    autopsy = await target.ask(
        lambda number: ReadContext(
            number,
            pause_id,
            request["max_frames"] if "max_frames" in request.sent else None,
            request["include_variables_for_frames"],
            request["max_inner_exceptions"],
        ),
        LOOK_S,
    )
    whose = {"run_id": run.id, "pause_id": pause_id, "nodeid": pause["nodeid"]}
    return _reply(request, autopsy, run, whose | {"phase": pause["when"]})


def _reply(request: Request, autopsy: dict[str, Any], run: Run, whose: dict[str, Any]) -> Reply:
    if whose["nodeid"] is not None and "parameters" in autopsy:
        autopsy = autopsy | {"siblings": siblings(run.results, whose["nodeid"])}
    whose |= changed(run, whose["nodeid"])
    most = request.max_chars
    budget = AUTOPSY_CHARS if most == DEFAULT_MAX_CHARS else max(300, most - _AROUND)
    return Reply({**whose, **fitted(autopsy, budget)})


def _newest_pause(request: Request, nodeid: str | None) -> str | None:
    """The id of the newest pause at an exception, of one test if a node id is given."""
    pause_ids = [
        id
        for run in request.runs
        for id, pause in run.pauses.items()
        if pause["phase"] in ("raise", "exception", "post_mortem")
        and nodeid in (None, pause["nodeid"])
    ]
    return pause_ids[-1] if pause_ids else None


def _recorded(request: Request, nodeid: str) -> tuple[Run, PhaseReported]:
    """The latest failure of a test. Raises Refusal: `test_not_found`, `no_exception`."""
    latest = None
    for run in reversed(list(request.runs)):
        test = run.results.of(nodeid)
        latest = latest or test
        for report in () if test is None else (test.report, *reversed(test.reruns)):
            if report is not None and report.autopsy is not None:
                return run, report
    if latest is None:
        raise Refusal(
            ErrorCode.TEST_NOT_FOUND,
            f"no run had a test {nodeid!r}; test_results shows the node ids",
            nodeid=nodeid,
        )
    why = f"{nodeid} {latest.outcome or 'is running'}: it has no exception"
    if latest.outcome in FAILED:
        why = f"the process of {nodeid} did not report the exception; test_results has its report"
        if latest.report is not None and latest.report.incomplete is not None:
            why = f"{nodeid} {latest.outcome}: {latest.report.incomplete}"
    raise Refusal(ErrorCode.NO_EXCEPTION, why, nodeid=nodeid)


def _nothing(request: Request) -> Refusal:
    newest = request.runs.newest
    failed = [] if newest is None else newest.results.failed_nodeids()
    if not failed:
        return Refusal(
            ErrorCode.NO_EXCEPTION,
            "nothing is paused at an exception, and no test has failed; test_run finds failures",
        )
    return Refusal(
        ErrorCode.NO_EXCEPTION,
        "nothing is paused at an exception; give the nodeid of a failed test, as "
        + ", ".join(failed[:_NAMED]),
        failed=failed[:_NAMED],
    )


TOOLS = (
    Tool(
        "exception_get_context",
        "All about an exception",
        "When a stop came without its autopsy, after a run, or for more frames: exception, causes, "
        "frames with locals, assertion operands, fixtures, output.",
        context,
        (
            Param("pause_id", "string", "Default: the newest at an exception"),
            Param("nodeid", "string", "Of a failed test"),
            Param("max_frames", "integer", default=FRAMES, minimum=1, maximum=100),
            Param(
                "include_variables_for_frames", "integer", default=VARIABLES, minimum=0, maximum=10
            ),
            Param("max_inner_exceptions", "integer", default=INNER, minimum=0, maximum=20),
        ),
        reads_only=True,
    ),
)
