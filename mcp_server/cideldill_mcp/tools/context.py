"""`exception_get_context` (contract, section 5): all there is to know of an exception, at once.

Of one that a thread is paused at, as things are now; else of a failed test, as it was recorded.
"""

from __future__ import annotations

from typing import Any

from cideldill_mcp.replies.render import DEFAULT_MAX_CHARS
from cideldill_mcp.runs.failures import fitted, shaped, siblings
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
    """Live where there is a pause, else recorded."""
    pause_id, nodeid = request["pause_id"], request["nodeid"]
    if pause_id is None:
        pause_id = _newest_pause(request, nodeid)
    if pause_id is not None:
        return await _live(request, pause_id)
    if nodeid is None:
        raise _nothing(request)
    run, event = _recorded(request, nodeid)
    assert event.autopsy is not None
    told = shaped(
        event.autopsy,
        frames=request["max_frames"],
        variables=request["include_variables_for_frames"],
        inner=request["max_inner_exceptions"],
    )
    whose = {"run_id": run.id, "pause_id": None, "nodeid": nodeid, "phase": event.phase}
    newest, test = next(
        (each, test) for each in reversed(list(request.runs)) if (test := each.results.of(nodeid))
    )
    if newest is not run:
        whose["since"] = {"run_id": newest.id, "outcome": test.outcome or "running"}
    others = [each for each in run.results.failures_of(nodeid) if each is not event]
    if event.subtest is not None:
        whose["subtest"] = event.subtest
    if others:  # of other phases, or of subtests
        whose["also_failed"] = [failure(each) for each in others[:_NAMED]]
    return _reply(request, {"threadId": None, **told}, run, whose)


async def _live(request: Request, pause_id: str) -> Reply:
    run, target = request.runs.owner_of(pause_id)
    pause = run.pauses[pause_id]
    told = await target.ask(
        lambda number: ReadContext(
            number,
            pause_id,
            request["max_frames"] if "max_frames" in request.given else None,
            request["include_variables_for_frames"],
            request["max_inner_exceptions"],
        ),
        LOOK_S,
    )
    whose = {"run_id": run.id, "pause_id": pause_id, "nodeid": pause["nodeid"]}
    return _reply(request, told, run, whose | {"phase": pause["when"]})


def _reply(request: Request, told: dict[str, Any], run: Run, whose: dict[str, Any]) -> Reply:
    if whose["nodeid"] is not None and "parameters" in told:
        told = told | {"siblings": siblings(run.results, whose["nodeid"])}
    whose |= changed(run, whose["nodeid"])
    most = request.max_chars
    budget = AUTOPSY_CHARS if most == DEFAULT_MAX_CHARS else max(300, most - _AROUND)
    return Reply({**whose, **fitted(told, budget)})


def _newest_pause(request: Request, nodeid: str | None) -> str | None:
    """The newest pause at an exception, or that of a test."""
    found = [
        id
        for run in request.runs
        for id, pause in run.pauses.items()
        if pause["phase"] in ("raise", "exception", "post_mortem")
        and nodeid in (None, pause["nodeid"])
    ]
    return found[-1] if found else None


def _recorded(request: Request, nodeid: str) -> tuple[Run, PhaseReported]:
    """The latest failure of a test.

    Raises:
        Refusal: `test_not_found`, `no_exception`.
    """
    known = None
    for run in reversed(list(request.runs)):
        test = run.results.of(nodeid)
        known = known or test
        for report in () if test is None else (test.report, *reversed(test.reruns)):
            if report is not None and report.autopsy is not None:
                return run, report
    if known is None:
        raise Refusal(
            ErrorCode.TEST_NOT_FOUND,
            f"no run had a test {nodeid!r}; test_results shows the node ids",
            nodeid=nodeid,
        )
    why = f"{nodeid} {known.outcome or 'is running'}: it has no exception"
    if known.outcome in FAILED:
        why = f"what {nodeid} raised was not told by its process; test_results has its report"
        if known.report is not None and known.report.incomplete is not None:
            why = f"{nodeid} {known.outcome}: {known.report.incomplete}"
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
