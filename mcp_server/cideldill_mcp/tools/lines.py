"""The tools `breakpoint_set`, `breakpoint_list` and `breakpoint_enable`."""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from typing import Any

from cideldill_mcp.breakpoints.inspection import find_places, path_of
from cideldill_mcp.breakpoints.kinds import (
    Breakpoint,
    ExceptionBreakpoint,
    FunctionBreakpoint,
    LineBreakpoint,
)
from cideldill_mcp.breakpoints.places import Place
from cideldill_mcp.runs.breakpoint_sync import set_everywhere
from cideldill_mcp.tools.catalog import first_line
from cideldill_mcp.tools.definitions import AFTER, Param, Reply, Request, Tool, behind
from cideldill_mcp.tools.tracepoints import COLUMN, CONDITION, location, messages, set_added
from cideldill_mcp.tools.tracepoints import TOOL as TRACEPOINT_SET
from pytest_cideldill.errors import invalid, missing
from pytest_cideldill.protocol import AddException


async def set_breakpoint(request: Request) -> Reply:
    """`breakpoint_set`: stop at a line, or log a message there."""
    place = await _place(request)
    spec = replace(
        place.spec,
        condition=request["condition"] or None,
        hit_count=request["hit_count"],
        message=request["log_message"],
    )
    added = request.desired.add_line(place, spec)
    await set_added(request, added)
    body: dict[str, Any] = {
        "success": True,
        "id": added.id,
        "type": added.type,
        "verified": added.verified,
        "state": added.state,
        "location": location(added),
    }
    if added.message is not None:
        body["message"] = added.message
    return Reply(body)


async def list_all(request: Request) -> Reply:
    """`breakpoint_list`: breakpoints and tracepoints of every kind."""
    bodies = [_body_of(breakpoint) for breakpoint in request.desired]
    newest = request.runs.newest
    never_hit = (newest.never_hit if newest is not None else None) or {}
    for body in bodies:
        if body["id"] in never_hit:
            body["whyNotHit"] = never_hit[body["id"]]
    shown = behind(bodies, itemgetter("id"), request["after"])
    reply = {"breakpoints": shown, "total_count": len(bodies)}
    return Reply(reply, lists=["breakpoints"], cursor=itemgetter("id"))


async def enable(request: Request) -> Reply:
    """`breakpoint_enable`: switch a breakpoint off and on."""
    breakpoint = request.desired.meant(request["id"])
    if isinstance(breakpoint, FunctionBreakpoint):
        raise invalid(
            "id",
            f"{breakpoint.id} is on a function: breakpoint_add with behavior 'go' switches it off",
            "id of a breakpoint on a line or an exception",
        )
    breakpoint.enable(request["enabled"])
    await set_everywhere(request.runs.active, breakpoint)
    body = _body_of(breakpoint)
    return Reply({"success": True, "breakpoint": body | {"hitCount": body["hit_count"]}})


async def _place(request: Request) -> Place:
    file, line, function = request["file"], request["line"], request.arguments.get("function")
    checked = {"condition": request["condition"] or None, "template": request["log_message"]}
    if function:
        name = f"{file}::{function}" if file else function
        return await first_line(request, name, **checked)
    if not file:
        raise missing("file", "give file and line, or function")
    if line is None:
        raise missing("line", f"which line of {file}? give line")
    recipe, column = request.runs.recipe, request["column"]
    places = await find_places(recipe, path_of(recipe, file), line=line, column=column, **checked)
    return places[0]


def _body_of(breakpoint: Breakpoint) -> dict[str, Any]:
    body: dict[str, Any] = {
        "id": breakpoint.id,
        "type": "function",
        "enabled": breakpoint.is_on,
        "verified": breakpoint.verified,
        "state": breakpoint.state,
        "file": None,
        "line": None,
        "hit_count": None,
        "condition": breakpoint.condition,
    }
    if isinstance(breakpoint, FunctionBreakpoint):
        spec = breakpoint.spec
        body |= {"function_name": spec.function_name, "behavior": spec.behavior}
    if isinstance(breakpoint, LineBreakpoint):
        body |= {"type": breakpoint.type, **location(breakpoint), "column": breakpoint.place.column}
        body |= {"hit_count": breakpoint.hits, **_counts(breakpoint)}
    if isinstance(breakpoint, ExceptionBreakpoint):
        body |= {"type": "exception", "hit_count": breakpoint.hits, **choices(breakpoint.spec)}
    if breakpoint.message is not None:
        body["message"] = breakpoint.message
    return body


def choices(spec: AddException) -> dict[str, Any]:
    """The options of an exception breakpoint."""
    return {
        "exceptionType": spec.exception_type,
        "breakOnFirstChance": spec.first_chance,
        "breakOnSecondChance": spec.second_chance,
        "includeSubtypes": spec.include_subtypes,
        "scope": spec.scope,
    }


def _counts(breakpoint: LineBreakpoint) -> dict[str, Any]:
    counts = list(breakpoint.passes.values())
    body: dict[str, Any] = {}
    if breakpoint.spec.message is not None:
        body = {**messages(breakpoint.spec), "notificationsSent": breakpoint.published}
    if errors := sum(count.condition_errors for count in counts):
        last = [count.last_condition_error for count in counts if count.last_condition_error]
        body |= {"conditionErrors": errors, "lastConditionError": last[-1] if last else None}
    return body


TOOLS = (
    Tool(
        "breakpoint_set",
        "Set a line breakpoint",
        "Pause when a line is about to run, to look at locals and go on from there. Works before a "
        "run, during it and in the paused frame.",
        set_breakpoint,
        (
            Param("file", "string", "From the rootdir, or absolute"),
            Param("line", "integer", minimum=1),
            Param(
                "function",
                "string",
                "Its first line; as for breakpoint_add, or with file a qualname",
            ),
            COLUMN,
            CONDITION,
            Param("hit_count", "integer", "Pause from this pass on", default=1, minimum=1),
            Param("log_message", "string", "Log this text with {expressions} and don't pause"),
        ),
    ),
    TRACEPOINT_SET,
    Tool(
        "breakpoint_list",
        "List every breakpoint",
        "All breakpoints and tracepoints with state and hit counts; when a run is over, whyNotHit "
        "over why one was not hit.",
        list_all,
        (AFTER,),
        reads_only=True,
        is_list=True,
    ),
    Tool(
        "breakpoint_enable",
        "Switch a breakpoint",
        "Switch a line or exception breakpoint or a tracepoint off, or on again.",
        enable,
        (
            Param("id", "string", "As tp-2", required=True, is_numbered=True),
            Param("enabled", "boolean", default=True),
        ),
        idempotent=True,
    ),
)
