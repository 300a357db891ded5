"""The tool `breakpoint_get_call_records`: recorded calls of all runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from typing import Any

from cideldill_mcp.callrecords.records import STATUSES, CalledFunction, CallFilter, IsMeant
from cideldill_mcp.replies.render import dumps
from cideldill_mcp.tools.catalog import parsed
from cideldill_mcp.tools.definitions import Param, Reply, Request, Tool
from pytest_cideldill.errors import ErrorCode, invalid
from pytest_cideldill.sourcecode.names import FunctionName, Precision

MAX_PAGE = 2_000
"""Records of one reply; more never fit into the largest one."""


async def call_records(request: Request) -> Reply:
    """The newest records that fit the filters; `before` goes back from a call.

    `truncated` means that older records can be requested; `dropped` counts those that were lost.
    """
    name, before, records = request["function_name"], request["before"], request.runs.records
    wanted = CallFilter(
        None if name is None else is_meant_by(parsed(request, name)),
        request["nodeid"],
        request["status"],
    )
    try:
        page = await records.page(wanted, min(request["limit"], MAX_PAGE), before)
    except LookupError as error:
        raise invalid(
            "before",
            f"before {before!r} is no call that is recorded (any more); use the next_before of "
            "the reply before, or a call_id",
            "next_before of the reply before",
        ) from error
    body: dict[str, Any] = {
        "calls": page.calls,
        "total_count": page.total,
        "truncated": not page.is_first,
        "dropped": records.dropped,
    }
    if not page.is_first:
        body |= {"next_before": page.calls[0]["call_id"]}
    if not page.total and (wanted.nodeid, wanted.status) == (None, None):
        shown = dumps({"function_name": name or "…", "behavior": "go"})
        body |= {"next": [f"breakpoint_add {shown}: record its calls from now on; then test_run"]}
    return Reply(body, lists=["calls"], cursor=itemgetter("call_id"), from_front=True)


def is_meant_by(name: FunctionName) -> IsMeant:
    """The filter of records whose function a name means."""
    if name.precision is not Precision.GLOB:
        name = replace(name, target=name.target.replace(".<locals>", ""))

    def is_meant(function: CalledFunction) -> bool:
        dotted = function.qualified_name.replace(".<locals>", "")
        if name.precision is Precision.BARE:
            return name.target in (function.method_name, dotted.rpartition(".")[2])
        if function.module is None or function.file is None:
            # The end of the module's name is unknown: try all.
            return any(name.matches(*split, "") for split in _splits(dotted))
        return name.matches(function.module, function.qualname or "", function.file)

    return is_meant


def _splits(dotted: str) -> Iterator[tuple[str, str]]:
    """All splits of a dotted name into a module and a qualified name."""
    parts = dotted.split(".")
    for end in range(1, len(parts)):
        yield ".".join(parts[:end]), ".".join(parts[end:])


TOOLS = (
    Tool(
        "breakpoint_get_call_records",
        "Get recorded calls",
        "Calls with arguments and results. Those of functions with a breakpoint are recorded; "
        "breakpoint_add with behavior go records without pausing.",
        call_records,
        (
            Param("function_name", "string", "As for breakpoint_add; default: all"),
            Param("nodeid", "string", "Only calls during this test"),
            Param("status", "string", choices=STATUSES),
            Param(
                "limit",
                "integer",
                "The newest, oldest of them first",
                default=100,
                minimum=1,
                refuse_as=ErrorCode.INVALID_LIMIT,
            ),
            Param("before", "string", "next_before, or a call_id"),
        ),
        reads_only=True,
        is_list=True,
    ),
)
