"""The tools `test_run`, `test_list`, `test_results` and `test_stop`."""

from __future__ import annotations

import asyncio
from fnmatch import fnmatchcase
from typing import Any

from cideldill_mcp.breakpoints.nearest import nearest
from cideldill_mcp.breakpoints.reanchor import reanchor
from cideldill_mcp.runs.history import failed_nodeids
from cideldill_mcp.runs.nodeids import is_under, relative
from cideldill_mcp.runs.registry import Runs, run_active
from cideldill_mcp.runs.results import Results
from cideldill_mcp.runs.run import Run, RunOrder
from cideldill_mcp.runs.stopping import ReportProgress
from cideldill_mcp.tools import run_replies
from cideldill_mcp.tools.definitions import AFTER, Param, Reply, Request, Tool, behind
from cideldill_mcp.tools.next_steps import next_steps
from cideldill_mcp.tools.tracepoints import location, wishes
from pytest_cideldill.errors import ErrorCode, Refusal, invalid
from pytest_cideldill.protocol.reducer import FAILED

PAUSE_ON = ("never", "failure", "error")
LIST_S = 50.0
"""How long `test_list` waits for a collection, in seconds: many clients give up after 60 s."""

MAX_WORKERS = 256
"""Processes of a run: more than most machines have cores for."""

FRESH_S = 60.0
"""How old a collection may be that went on behind a reply: files may have changed since."""

_REFUSED = ("--pdb", "--trace", "-f", "--looponfail", "--collect-only", "--co", "--cideldill-mcp")


async def run(request: Request) -> Reply:
    """`test_run`: a fresh pytest process; returns at the first stop, the end or the time."""
    runs, traced = request.runs, request["tracepoints"] or ()
    if runs.active is not None and not request["replace"]:
        raise run_active(runs.active)
    order, message = await _order(request)
    tracepoints = await wishes(request, traced)
    if (active := runs.active) is not None and request["replace"]:
        await runs.ladder.stop(active, progress=_counting(request))
    moved = await reanchor(runs.recipe, request.desired.lines)
    started = await runs.start(order)
    # No await in between: its processes have not connected yet.
    for tracepoint in tracepoints:
        tracepoint.add(request.desired, started.id)
    if request["wait"]:
        await run_replies.settled(request, started, request["timeout_s"])
    hangs = await run_replies.stuck(started, request["timeout_s"]) if request["wait"] else {}
    results, missing = started.results, started.results.missing
    stops = run_replies.pauses(started, request.max_chars)
    body: dict[str, Any] = {
        "run_id": started.id,
        "neverHit": None,
        **run_replies.verdict(started),
        **hangs,
        "stops": stops,
        "failures": run_replies.failures(started, stops),
        "hits": run_replies.hits(request, started, 0),
        "next": next_steps(started, runs),
    }
    further = {
        "missing": missing,
        "nearest": missing and nearest(missing, results.beside, runs.recipe.rootdir),
        "errors": _errors(results),
        "warnings": started.warnings,
        "edited": [
            {"id": breakpoint.id, **location(breakpoint), "message": breakpoint.note}
            for breakpoint in moved
        ],
        "message": message,
    }
    body |= {key: value for key, value in further.items() if value}
    return Reply(body, lists=["stops", "failures", "errors", "hits", "neverHit", "no_progress"])


async def _order(request: Request) -> tuple[RunOrder, str | None]:
    """The run that the parameters describe, and a remark for the reply.

    Raises:
        Refusal: An argument that can't work here; `xdist_missing`.
    """
    arguments = list(request["args"] or ())
    for argument in arguments:
        if argument.partition("=")[0] in _REFUSED:
            raise invalid(
                "args",
                f"{argument} can't be used in a run: it would wait for a terminal, or run no test",
                "pytest arguments other than " + ", ".join(_REFUSED),
            )
    for name, flag in (("keyword", "-k"), ("markers", "-m")):
        if request[name]:
            arguments += [flag, request[name]]
    if request["maxfail"] is not None:
        arguments.append(f"--maxfail={request['maxfail']}")
    if request["workers"] is not None:
        if request["workers"] > MAX_WORKERS:
            raise invalid(
                "workers",
                f"workers is {request['workers']}: a run has {MAX_WORKERS} at most",
                f"integer of at most {MAX_WORKERS}",
            )
        await _check_xdist(request.runs)
        arguments += ["-n", str(request["workers"])]
    wanted, message = _wanted(request)
    return RunOrder(wanted, arguments, request["pause_on"]), message


def _wanted(request: Request) -> tuple[list[str] | None, str | None]:
    wanted = request["nodeids"]
    if wanted is not None:
        wanted = [relative(nodeid, request.runs.recipe.rootdir) for nodeid in wanted]
    if not request["last_failed"]:
        return wanted, None
    failed = failed_nodeids(request.runs)
    if wanted is not None:
        failed = [nodeid for nodeid in failed if any(is_under(nodeid, name) for name in wanted)]
    if not failed:
        return wanted, "no failed test is known: last_failed had no effect"
    return failed, None


async def _check_xdist(runs: Runs) -> None:
    """Ask the tests' interpreter, which may be another one than ours, whether it has xdist."""
    process = await asyncio.create_subprocess_exec(
        runs.recipe.command[0],
        *("-c", "import xdist"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    if await process.wait() != 0:
        raise Refusal(
            ErrorCode.XDIST_MISSING,
            "workers needs pytest-xdist in the tests' environment: "
            "pip install 'pytest-cideldill[xdist]', or leave workers out",
        )


async def list_tests(request: Request) -> Reply:
    """`test_list`: collects in a process of its own, also while a run is active.

    Of records: the tests that ran.
    """
    if request.runs.are_opened:
        ran = [run.results for run in request.runs]
        nodeids = dict.fromkeys(test.nodeid for results in ran for test in results.tests.values())
        return _listed(
            request, list(nodeids), [error for results in ran for error in _errors(results)]
        )
    runs = request.runs
    listing = runs.listing
    if listing is None or listing.over_for_s > FRESH_S:
        listing = await runs.start(RunOrder(listing=True, pause_on="never"))
    try:
        await run_replies.settled(request, listing, LIST_S)
    finally:
        runs.listing = None if listing.is_over else listing
    results = listing.results
    reply = _listed(request, results.nodeids, _errors(results))
    if listing.end is None:
        reply.body.update(state=listing.state, message=_goes_on(listing))
    elif listing.end["kind"] in ("crashed", "startup_error", "internal_error"):
        why = listing.end.get("message")
        raise Refusal(ErrorCode.NOT_LIVE, f"the tests can't be collected: {why}", end=listing.end)
    return reply


def _goes_on(listing: Run) -> str:
    count = len(listing.results.nodeids)
    return (
        f"collecting takes {listing.duration_s:.0f} s so far and goes on, with {count} tests found "
        "(some may be deselected): call test_list again; test_run takes files and keywords now"
    )


def _listed(request: Request, nodeids: list[str], errors: list[dict[str, str]]) -> Reply:
    if request["pattern"]:
        nodeids = [nodeid for nodeid in nodeids if matches(request["pattern"], nodeid)]
    page = behind(nodeids, str, request["after"])[: request["limit"]]
    body: dict[str, Any] = {"tests": list(page), "total_count": len(nodeids), "errors": errors}
    if page and page[-1] != nodeids[-1]:
        body |= {"truncated": True, "next_after": page[-1]}
    return Reply(body, lists=["tests", "errors"], cursor=lambda nodeid: nodeid)


def matches(pattern: str, nodeid: str) -> bool:
    """Whether a node id matches a pattern: a glob if it has `*?[`, else a substring."""
    if any(character in pattern for character in "*?["):
        # A node id's brackets are literal more often than a character class.
        return fnmatchcase(nodeid, pattern) or pattern in nodeid
    return pattern in nodeid


def _errors(results: Results) -> list[dict[str, str]]:
    return [
        {"nodeid": report.nodeid, "message": report.longrepr[-1_500:]}
        for report in results.collection_errors
    ]


async def results(request: Request) -> Reply:
    """`test_results`: the results of a run, by default of the newest one."""
    run = request.runs.get(request["run_id"])
    tests = list(run.results.tests.values())
    if request["outcome"]:
        tests = [test for test in tests if test.outcome == request["outcome"]]
    if request["nodeid"]:
        name = relative(request["nodeid"], request.runs.recipe.rootdir)
        tests = [test for test in tests if is_under(test.nodeid, name)]
        if not tests and not request["outcome"]:
            raise Refusal(
                ErrorCode.TEST_NOT_FOUND,
                f"run {run.id} has no test {name!r}; test_list shows the node ids",
                nodeid=name,
                run_id=run.id,
            )
    tests.sort(key=lambda test: test.outcome not in FAILED)  # stable: failures first
    key = run.results.key
    left = behind(tests, lambda test: key(test.worker, test.nodeid), request["after"])
    page = left[: request["limit"]]
    shown = [test.to_plain() | run_replies.changed(run, test.nodeid) for test in page]
    body: dict[str, Any] = {"run_id": run.id, "tests": shown, "total_count": len(tests)}
    if len(shown) < len(left):
        last = shown[-1]
        body |= {"truncated": True, "next_after": key(last["worker"], last["nodeid"])}
    return Reply(body, lists=["tests"], cursor=lambda test: key(test["worker"], test["nodeid"]))


async def stop(request: Request) -> Reply:
    """`test_stop`: release the pauses, then end the run, whose fixtures are torn down."""
    id, kill = request["run_id"], request["mode"] == "kill"
    if id is not None and id[:1] == "q" and id[1:].isdecimal():
        # The question's processes end; it then replies what it has.
        working = request.questions.stop(id, kill=kill)
        status = "already_ended" if working is None else "stopping"
        return Reply({"status": status, "run_id": id, "released": [], "end": None})
    run: Run = request.runs.get(id)
    was_over, ladder = run.is_over, request.runs.ladder
    released = await ladder.stop(run, kill=kill, cuts=True, progress=request.progress)
    status = "already_ended" if was_over else "stopped" if run.is_over else "stopping"
    body = {"status": status, "run_id": run.id, "released": released, "end": run.end}
    if (message := ladder.waits_for(run)) is not None:
        body["message"] = message
    return Reply(body)


def _counting(request: Request) -> ReportProgress:
    """Report the progress of a run's end as less than one test: the next run counts on from it."""

    async def report(seconds: float, total: float, text: str) -> None:
        await request.progress(seconds / (seconds + total + 1), None, text)

    return report


TOOLS = (
    Tool(
        "test_list",
        "List tests",
        "Node ids to choose from, and collection errors. test_run takes files and keywords too. "
        "Works during a run.",
        list_tests,
        (
            Param("pattern", "string", "Substring or glob"),
            Param("limit", "integer", default=200, minimum=1),
            AFTER,
        ),
        reads_only=True,
        is_list=True,
    ),
    Tool(
        "test_run",
        "Run tests",
        "Run tests in a fresh process (edits take effect) and pause at the first "
        "failure with its autopsy: exception, frames, locals, fixtures, output. When it is "
        "over: all failures, and why breakpoints were not hit.",
        run,
        (
            Param("nodeids", "array", "Tests, classes, files or folders", items="string"),
            Param("keyword", "string", "pytest -k"),
            Param("markers", "string", "pytest -m"),
            Param("last_failed", "boolean", default=False),
            Param("maxfail", "integer", minimum=1),
            Param("workers", "integer", "pytest -n", minimum=0),
            Param("args", "array", "Further pytest arguments", items="string"),
            Param(
                "pause_on",
                "string",
                "never: see all failures; error: of setup and teardown",
                default="failure",
                choices=PAUSE_ON,
            ),
            Param(
                "tracepoints",
                "array",
                "{file, line, log_message, condition}: log values, in this run",
                items="object",
            ),
            Param(
                "timeout_s",
                "number",
                "Bounds the wait, not the run",
                default=25,
                minimum=0,
                maximum=3_600,
            ),
            Param("wait", "boolean", default=True),
            Param("replace", "boolean", "End an active run first", default=False),
        ),
        destroys=True,
        is_list=True,
        is_always_loaded=True,
    ),
    Tool(
        "test_results",
        "Results of a run",
        "After or during a run: outcome, report and output per test, failures first.",
        results,
        (
            Param("run_id", "string", "Default: the newest"),
            Param("outcome", "string", "failed, error, passed, skipped, …"),
            Param("nodeid", "string", "A test, class or file"),
            Param("limit", "integer", default=50, minimum=1),
            AFTER,
        ),
        reads_only=True,
        is_list=True,
    ),
    Tool(
        "test_stop",
        "Stop a run",
        "End the run: fixtures are torn down. Again: at once.",
        stop,
        (
            Param("run_id", "string", "Or of a question: q1. Default: the newest run"),
            Param("mode", "string", default="interrupt", choices=("interrupt", "kill")),
        ),
        destroys=True,
        idempotent=True,
    ),
)
