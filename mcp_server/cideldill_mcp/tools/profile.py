"""The sets of tools that a server can offer."""

from __future__ import annotations

from cideldill_mcp.tools import (
    behaviors,
    catalog,
    control,
    exceptions,
    failure_context,
    functions,
    lines,
    looking,
    objects,
    questions,
    records,
    stepping,
    stops,
    tests,
)
from cideldill_mcp.tools.definitions import Tool

ALL = (
    *tests.TOOLS,
    *questions.TOOLS,
    *functions.TOOLS,
    *behaviors.TOOLS,
    *catalog.TOOLS,
    *records.TOOLS,
    *objects.TOOLS,
    *lines.TOOLS,
    *exceptions.TOOLS,
    *failure_context.TOOLS,
    *stops.TOOLS,
    *control.TOOLS,
    *stepping.TOOLS,
    *looking.TOOLS,
)

_PLAN = frozenset({"tracepoint_set", "exception_get_context", "test_run", "debug_state"})
_TRIAGE = frozenset(
    {
        "exception_get_context",
        "breakpoint_wait",
        "breakpoint_continue",
        "breakpoint_repl_eval",
        "debug_state",
    }
)


def tools(profile: str) -> tuple[Tool, ...]:
    """The tools of the set `full`, `plan` or `triage`."""
    if profile == "plan":
        return tuple(
            tool for tool in ALL if tool.name.startswith("breakpoint_") or tool.name in _PLAN
        )
    if profile == "triage":
        return tuple(tool for tool in ALL if tool.name.startswith("test_") or tool.name in _TRIAGE)
    return ALL
