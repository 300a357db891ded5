"""The tool `breakpoint_set_exception`: breakpoints on exceptions."""

from __future__ import annotations

from cideldill_mcp.runs.breakpoint_sync import set_everywhere
from cideldill_mcp.tools.definitions import Param, Reply, Request, Tool
from cideldill_mcp.tools.lines import choices
from pytest_cideldill.errors import ErrorCode, Refusal, invalid
from pytest_cideldill.protocol import AddException
from pytest_cideldill.sourcecode.names import check_exception_name


async def set_exception(request: Request) -> Reply:
    """`breakpoint_set_exception`: stop where a class of exceptions is raised or escapes."""
    name = request["exception_type"].strip()
    try:
        check_exception_name(name)
    except ValueError as error:
        raise Refusal(ErrorCode.INVALID_EXCEPTION_TYPE, str(error), exception_type=name) from error
    first, second = request["break_on_first_chance"], request["break_on_second_chance"]
    if not (first or second):
        raise invalid(
            "break_on_first_chance",
            "a breakpoint without first and second chance stops nowhere: choose one",
            "true here or for break_on_second_chance",
        )
    chosen = (first, second, request["include_subtypes"], request["scope"])
    added = request.desired.add_exception(AddException(0, "", name, *chosen))
    await set_everywhere(request.runs.active, added)
    body = {
        "id": added.id,
        "type": "exception",
        **choices(added.spec),
        "enabled": added.enabled,
        "verified": added.verified,
        "state": added.state,
        "hitCount": added.hits,
    }
    if added.message is not None:
        body["message"] = added.message
    return Reply({"success": True, "breakpoint": body})


TOOLS = (
    Tool(
        "breakpoint_set_exception",
        "Break on an exception",
        "Pause where an exception of a class is raised, before anyone handles it, and when it "
        "escapes a test, a fixture or a thread. For errors that someone swallows.",
        set_exception,
        (
            Param("exception_type", "string", "As KeyError or shop.cart.EmptyCart", required=True),
            Param("break_on_first_chance", "boolean", "At the raise", default=True),
            Param("break_on_second_chance", "boolean", "When it escapes", default=True),
            Param("include_subtypes", "boolean", default=True),
            Param(
                "scope",
                "string",
                "all: raised in libraries too",
                default="user",
                choices=("user", "all"),
            ),
        ),
    ),
)
