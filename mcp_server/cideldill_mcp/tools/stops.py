"""The tool `breakpoint_wait`: the next stop that no reply to this client contained yet.

A hit of a tracepoint ends only a wait for that tracepoint; the reply contains other hits, too.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from cideldill_mcp.breakpoints.collection import id_meant
from cideldill_mcp.breakpoints.kinds import LineBreakpoint
from cideldill_mcp.events.entries import Event
from cideldill_mcp.events.log import Filter
from cideldill_mcp.replies.lean import with_values
from cideldill_mcp.runs.run import Run
from cideldill_mcp.runs.stall import state_of, under_way
from cideldill_mcp.tools import run_replies
from cideldill_mcp.tools.definitions import Param, Reply, Request, Tool
from cideldill_mcp.tools.next_steps import next_steps
from pytest_cideldill.errors import ErrorCode, Refusal

DEFAULT_MS = 25_000
MAX_MS = 3_600_000

PROGRESS_S = 5.0
"""Seconds between progress notifications of a wait."""


async def wait(request: Request) -> Reply:
    """`breakpoint_wait`: any number of clients may wait, each with its filter and cursor."""
    request = _with_whole_id(request)
    log, wanted = request.runs.log, _wanted_hits(request)
    started = time.monotonic()
    deadline, progress_at = started + request["timeout_ms"] / 1000, started + PROGRESS_S
    hit, seen = None, _after(request)

    def is_decided() -> bool:
        return _find(request) is not None or _why_none(request) is not None

    def has_news() -> bool:
        return is_decided() or (wanted is not None and log.last_seq > seen)

    while True:
        if wanted is not None:
            page = await log.read(seen, 1, wanted)
            hit, seen = next(iter(page.events), None), page.cursor
            if hit is None and not page.is_last:
                continue
        now = time.monotonic()
        if hit is not None or is_decided() or now >= deadline:
            break
        if now >= progress_at:
            await request.progress(now - started, request["timeout_ms"] / 1000, "no stop yet")
            progress_at += PROGRESS_S
        await log.until(has_news, min(deadline, progress_at) - now)
    hits = run_replies.hits(request, None, _after(request))
    pause = _find(request)
    if pause is not None:
        return Reply(_stop_body(request, *pause) | {"hits": hits}, lists=["hits"])
    if hit is not None:
        return Reply(_hit_body(request, hit) | {"hits": hits}, lists=["hits"])
    reason = _why_none(request) or "timeout"
    run = request.runs.newest
    body = {
        "hit": False,
        "reason": reason,
        "timeout": reason == "timeout",
        "message": _MESSAGES[reason],
        "state": state_of(run, under_way(run)) if run is not None else "idle",
        "hits": hits,
        "next": next_steps(run, request.runs)
        if run is not None
        else ['test_run {"nodeids": […]}: start a run'],
    }
    body |= run_replies.ended(run) if run is not None else {}
    if reason == "timeout" and run is not None:
        body |= await run_replies.stuck(run, request["timeout_ms"] / 1000)
    return Reply(body, lists=["hits", "no_progress"])


_MESSAGES = {
    "timeout": "no stop within the time; tests are still running",
    "finished": "the run is over; nothing will stop any more",
    "exited": "the test process is gone; nothing will stop any more",
    "not_running": "no run yet, so nothing can stop",
    "paused": "every test under way is paused and was reported; continue a pause first",
}


def _with_whole_id(request: Request) -> Request:
    """The request with the whole id of a breakpoint that it names by its number."""
    sent = request["breakpoint_id"]
    if sent is None:
        return request
    pauses = (pause for run in request.runs for pause in run.pauses.values())
    ids = [breakpoint.id for breakpoint in request.desired]
    ids += [pause["breakpoint_id"] for pause in pauses if pause["breakpoint_id"] is not None]
    id = id_meant(sent, ids)
    if id in ids:
        return replace(request, arguments=request.arguments | {"breakpoint_id": id})
    there = ", ".join(breakpoint.id for breakpoint in request.desired) or "none"
    raise Refusal(
        ErrorCode.BREAKPOINT_NOT_FOUND,
        f"no breakpoint {sent!r}; known: {there}",
        breakpoint_id=sent,
    )


def _find(request: Request) -> tuple[Run, dict[str, Any]] | None:
    """The oldest present pause that fits and is new to the client (or behind `after`)."""
    after, wanted = request["after"], request["breakpoint_id"]
    for run in request.runs:
        for pause in run.pauses.values():
            if "seq" not in pause or wanted not in (None, pause["breakpoint_id"]):
                continue
            if pause["seq"] > after if after is not None else request.is_news(pause):
                return run, pause
    return None


def _after(request: Request) -> int:
    """The cursor behind which hits are new to the client."""
    after = request["after"]
    return request.last_hit_sent if after is None else int(after)


def _wanted_hits(request: Request) -> Filter | None:
    """The filter of hits that end the wait; None: the wait is not for a tracepoint."""
    wanted = request["breakpoint_id"]
    breakpoint = None if wanted is None else request.desired.get(wanted)
    if not isinstance(breakpoint, LineBreakpoint) or breakpoint.type != "tracepoint":
        return None
    return Filter(frozenset({"hit"}), breakpoint_id=wanted)


def _hit_body(request: Request, event: Event) -> dict[str, Any]:
    run = request.runs.newest
    return {
        "hit": True,
        "breakpoint_id": event["breakpoint_id"],
        "thread_id": event["thread"],
        "location": with_values(event["location"]),
        "hit_count": event["hit_count"],
        "seq": event["seq"],
        "reason": "tracepoint",
        "message": event["message"],
        "nodeid": event["nodeid"],
        "worker": event["worker"],
        "next": next_steps(run, request.runs) if run is not None else [],
        **(run_replies.ended(run) if run is not None else {}),
    }


def _why_none(request: Request) -> str | None:
    """The reason why no stop can come; None: one can."""
    run = request.runs.newest
    if run is None:
        return "not_running"
    if run.is_over:
        return "exited" if run.state == "crashed" else "finished"
    return "paused" if run_replies.waits_for_client(run) else None


_OF_STOP = (
    "breakpoint_id",
    "pause_id",
    "location",
    "hit_count",
    "seq",
    "reason",
    "phase",
    "nodeid",
    "worker",
    "locals",
    "autopsy",
)
"""Keys of a stop that the reply has, as far as it has them."""


def _stop_body(request: Request, run: Run, pause: dict[str, Any]) -> dict[str, Any]:
    stop = run_replies.stop(run, pause, request.max_chars if request["include_autopsy"] else None)
    return {
        "hit": True,
        "thread_id": pause["thread"]["id"],
        **{key: stop[key] for key in _OF_STOP if key in stop},
        "next": next_steps(run, request.runs),
    }


TOOLS = (
    Tool(
        "breakpoint_wait",
        "Wait for a stop",
        "When a reply says running: wait for the next stop or the end, or hear at once why none "
        "will come. An earlier stop is reported too, once.",
        wait,
        (
            Param("timeout_ms", "integer", default=DEFAULT_MS, minimum=1, maximum=MAX_MS),
            Param(
                "breakpoint_id",
                "string",
                "Only its stops, or hits if it is a tracepoint",
                is_numbered=True,
            ),
            Param("after", "integer", "Stops behind this seq, reported before or not", minimum=0),
            Param("include_autopsy", "boolean", default=True),
        ),
        reads_only=True,
    ),
)
