"""The tools that set the behavior of function breakpoints and the replacements of functions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cideldill_mcp.breakpoints.kinds import FunctionBreakpoint
from cideldill_mcp.runs.breakpoint_sync import set_everywhere
from cideldill_mcp.tools.catalog import find_one, stored
from cideldill_mcp.tools.definitions import Param, Reply, Request, Tool
from pytest_cideldill.errors import ErrorCode, Refusal, missing
from pytest_cideldill.protocol import SetDefaultBehavior
from pytest_cideldill.sourcecode.names import parse_function_name

BEFORE = ("stop", "go", "yield")
AFTER = ("stop", "go", "exception", "stop_exception", "yield")
DEFAULTS = ("stop", "go", "exception", "stop_exception")


async def set_behavior(request: Request) -> Reply:
    """`breakpoint_set_behavior`: the behavior before a call."""
    return await _set(request, behavior=request["behavior"])


async def set_after_behavior(request: Request) -> Reply:
    """`breakpoint_set_after_behavior`: the behavior after a return or a raise."""
    return await _set(request, after_behavior=request["behavior"])


async def set_replacement(request: Request) -> Reply:
    """`breakpoint_set_replacement`: every call of the function becomes one of the other."""
    breakpoint = _existing(request)
    if "replacement_function" not in request.sent:
        raise missing(
            "replacement_function",
            "replacement_function is required; an empty one brings the original back",
        )
    before, name = breakpoint.spec.replacement, request["replacement_function"].strip()
    if name:
        _check_name(name)
    breakpoint.spec = replace(breakpoint.spec, replacement=name)
    try:
        is_checked = await _set_replacement(request, breakpoint)
    except Refusal:
        breakpoint.spec = replace(breakpoint.spec, replacement=before)
        await set_everywhere(request.runs.active, breakpoint)
        raise
    body = {
        "status": "ok",
        "function_name": breakpoint.spec.function_name,
        "replacement_function": name,
        "verified": is_checked,
    }
    if not is_checked:
        body["message"] = (
            f"not checked yet: {name} is called as soon as a test process has loaded both "
            "functions, if its signature fits; else a warning says why not"
        )
    return Reply(body)


async def _set_replacement(request: Request, breakpoint: FunctionBreakpoint) -> bool:
    """Set the replacement where tests run, or else look it up in the sources.

    Returns whether a process of the tests has checked it.

    Raises:
        Refusal: `signature_mismatch`, or `function_not_found`: not exactly one has the name.
    """
    run, name = request.runs.active, breakpoint.spec.replacement
    try:
        await set_everywhere(run, breakpoint)
        if not name or (run is not None and run.is_connected):
            return not name or breakpoint.verified
    except Refusal as refusal:
        if refusal.extra.get("reason") != "not_loaded":
            raise
    await find_one(request, name)
    return False


async def get_default(request: Request) -> Reply:
    """`breakpoint_get_default_behavior`: the behavior that `yield` stands for."""
    return Reply({"behavior": request.desired.default_behavior})


async def set_default(request: Request) -> Reply:
    """`breakpoint_set_default_behavior`: also in every live process."""
    behavior = request.desired.default_behavior = request["behavior"]
    for target in request.runs.active.targets.values() if request.runs.active else ():
        target.send(SetDefaultBehavior(behavior))
    return Reply({"status": "ok", "behavior": behavior})


def _existing(request: Request) -> FunctionBreakpoint:
    name = request["function_name"].strip()
    breakpoint = stored(request, name)
    if breakpoint is None:
        names = ", ".join(added.spec.function_name for added in request.desired.functions) or "none"
        raise Refusal(
            ErrorCode.BREAKPOINT_NOT_FOUND,
            f"no breakpoint on {name!r}; there are: {names}",
            function_name=name,
        )
    return breakpoint


async def _set(request: Request, **changes: Any) -> Reply:
    breakpoint = _existing(request)
    breakpoint.spec = replace(breakpoint.spec, **changes)
    await set_everywhere(request.runs.active, breakpoint)
    name = breakpoint.spec.function_name
    return Reply({"status": "ok", "function_name": name, "behavior": request["behavior"]})


def _check_name(name: str) -> None:
    try:
        parse_function_name(name)
    except ValueError as error:
        raise Refusal(ErrorCode.FUNCTION_NOT_FOUND, str(error), function=name) from error


_NAME = Param("function_name", "string", required=True)


def _behavior(choices: tuple[str, ...]) -> Param:
    return Param(
        "behavior", "string", required=True, choices=choices, refuse_as=ErrorCode.INVALID_BEHAVIOR
    )


TOOLS = (
    Tool(
        "breakpoint_set_behavior",
        "Behavior before calls",
        "Whether calls of a function with a breakpoint pause before they begin: stop, go (only "
        "recorded), or yield to the default.",
        set_behavior,
        (_behavior(BEFORE), _NAME),
        idempotent=True,
    ),
    Tool(
        "breakpoint_set_after_behavior",
        "Behavior after calls",
        "Whether calls pause when they are done: stop after a return, exception after a raise, "
        "stop_exception after both, go, or yield to the default.",
        set_after_behavior,
        (_behavior(AFTER), _NAME),
        idempotent=True,
    ),
    Tool(
        "breakpoint_set_replacement",
        "Replace a function",
        "Have every call of a function with a breakpoint call another one of the same signature: "
        "a fix tried out without an edit.",
        set_replacement,
        (_NAME, Param("replacement_function", "string", "Dotted path; empty: the original again")),
        idempotent=True,
        destroys=True,
    ),
    Tool(
        "breakpoint_get_default_behavior",
        "Get the default behavior",
        "The behavior of breakpoints that yield.",
        get_default,
        reads_only=True,
    ),
    Tool(
        "breakpoint_set_default_behavior",
        "Set the default behavior",
        "For breakpoints that yield: stop before calls, exception (pause after a raise), "
        "stop_exception (both), or go.",
        set_default,
        (_behavior(DEFAULTS),),
        idempotent=True,
    ),
)
