"""Section 3 of the contract: breakpoints and tracepoints on lines."""

from __future__ import annotations

from dataclasses import replace
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
from cideldill_mcp.tools.definitions import Param, Reply, Request, Tool
from cideldill_mcp.tools.paging import AFTER, behind
from cideldill_mcp.tools.tracepoints import COLUMN, CONDITION, location, messages, set_added
from cideldill_mcp.tools.tracepoints import TOOL as TRACEPOINT_SET
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.protocol import AddException


async def set_breakpoint(request: Request) -> Reply:
    """`breakpoint_set`: stop at a line, or tell a message there."""
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
    """`breakpoint_list`: every kind."""
    known = [_told(each) for each in request.desired]
    newest = request.runs.newest
    never_hit = (newest.never_hit if newest is not None else None) or {}
    for told in known:
        if told["id"] in never_hit:
            told["whyNotHit"] = never_hit[told["id"]]
    shown = behind(known, _id_of, request["after"])
    body = {"breakpoints": shown, "total_count": len(known)}
    return Reply(body, lists=["breakpoints"], cursor=_id_of)


async def enable(request: Request) -> Reply:
    """`breakpoint_enable`: switch one off and on."""
    id = request["id"]
    known = request.desired.meant(id)
    if known is None:
        ids = ", ".join(each.id for each in request.desired) or "none"
        raise Refusal(
            ErrorCode.BREAKPOINT_NOT_FOUND, f"no breakpoint {id!r}; there are: {ids}", id=id
        )
    if isinstance(known, FunctionBreakpoint):
        raise Refusal(
            ErrorCode.INVALID_PARAMETER,
            f"{known.id} is on a function: breakpoint_add with behavior 'go' switches it off",
            parameter="id",
            expected="id of a breakpoint on a line or an exception",
        )
    known.enable(request["enabled"])
    await set_everywhere(request.runs.active, known)
    told = _told(known)
    return Reply({"success": True, "breakpoint": told | {"hitCount": told["hit_count"]}})


async def _place(request: Request) -> Place:
    file, line, function = request["file"], request["line"], request.arguments.get("function")
    checked = {"condition": request["condition"] or None, "template": request["log_message"]}
    if function:
        name = f"{file}::{function}" if file else function
        return await first_line(request, name, **checked)
    if not file:
        raise Refusal(
            ErrorCode.MISSING_PARAMETER, "give file and line, or function", parameter="file"
        )
    if line is None:
        raise Refusal(
            ErrorCode.MISSING_PARAMETER, f"which line of {file}? give line", parameter="line"
        )
    recipe, column = request.runs.recipe, request["column"]
    places = await find_places(recipe, path_of(recipe, file), line=line, column=column, **checked)
    return places[0]


def _told(each: Breakpoint) -> dict[str, Any]:
    told: dict[str, Any] = {
        "id": each.id,
        "type": "function",
        "enabled": each.is_on,
        "verified": each.verified,
        "state": each.state,
        "file": None,
        "line": None,
        "hit_count": None,
        "condition": each.condition,
    }
    if isinstance(each, FunctionBreakpoint):
        told |= {"function_name": each.spec.function_name, "behavior": each.spec.behavior}
    if isinstance(each, LineBreakpoint):
        told |= {"type": each.type, **location(each), "column": each.place.column}
        told |= {"hit_count": each.hits}
        told |= _counts(each)
    if isinstance(each, ExceptionBreakpoint):
        told |= {"type": "exception", "hit_count": each.hits, **choices(each.spec)}
    if each.message is not None:
        told["message"] = each.message
    return told


def choices(spec: AddException) -> dict[str, Any]:
    """What was chosen for an exception breakpoint."""
    return {
        "exceptionType": spec.exception_type,
        "breakOnFirstChance": spec.first_chance,
        "breakOnSecondChance": spec.second_chance,
        "includeSubtypes": spec.include_subtypes,
        "scope": spec.scope,
    }


def _counts(each: LineBreakpoint) -> dict[str, Any]:
    counts = list(each.passes.values())
    told: dict[str, Any] = {}
    if each.spec.message is not None:
        told = {**messages(each.spec), "notificationsSent": each.published}
    if errors := sum(count.condition_errors for count in counts):
        last = [each.last_condition_error for each in counts if each.last_condition_error]
        told |= {"conditionErrors": errors, "lastConditionError": last[-1] if last else None}
    return told


def _id_of(told: dict[str, Any]) -> str:
    id: str = told["id"]
    return id


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
            Param("log_message", "string", "Tell this text with {expressions} and don't pause"),
        ),
    ),
    TRACEPOINT_SET,
    Tool(
        "breakpoint_list",
        "List every breakpoint",
        "All breakpoints and tracepoints with state and hit counts; whyNotHit tells when a run is "
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
