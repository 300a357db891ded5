"""Tracepoints: the tool `tracepoint_set`, and the tracepoints of a single `test_run`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cideldill_mcp.breakpoints.collection import Desired
from cideldill_mcp.breakpoints.inspection import find_each, path_of
from cideldill_mcp.breakpoints.kinds import LineBreakpoint
from cideldill_mcp.breakpoints.places import Place
from cideldill_mcp.runs.breakpoint_sync import set_everywhere
from cideldill_mcp.tools.definitions import Param, Reply, Request, Tool
from pytest_cideldill.errors import Refusal
from pytest_cideldill.protocol import AddLine


@dataclass(frozen=True, slots=True)
class Wish:
    """A tracepoint that was checked and can be added. `arguments`: those of `tracepoint_set`."""

    place: Place
    arguments: dict[str, Any]

    def add(self, desired: Desired, run_id: str | None = None) -> LineBreakpoint:
        """Add the tracepoint, for one run or for all of them."""
        message = self.arguments["log_message"]
        if message is None:
            braces = self.place.source.replace("{", "{{").replace("}", "}}")
            message = f"{self.place.function}: {braces}"
        spec = replace(
            self.place.spec,
            condition=self.arguments["condition"] or None,
            message=message,
            multiple=self.arguments["hit_count_multiple"],
            max_notifications=self.arguments["max_notifications"],
        )
        return desired.add_line(self.place, spec, run_id)


async def wishes(request: Request, items: Sequence[dict[str, Any]]) -> list[Wish]:
    """The tracepoints of a `test_run`, all of them checked as by `tracepoint_set`.

    Raises:
        Refusal: As `tracepoint_set`; `index` is the position of the refused one.
    """
    recipe, checked, wanted = request.runs.recipe, [], []
    for index, item in enumerate(items):
        try:
            arguments = TOOL.check(item)
            wanted.append((path_of(recipe, arguments["file"]), _where(arguments)))
        except Refusal as refusal:
            raise _of(index, refusal) from refusal
        checked.append(arguments)
    checked_wishes = []
    for index, places in enumerate(await find_each(recipe, wanted)):
        if isinstance(places, Refusal):
            raise _of(index, places)
        checked_wishes.append(Wish(places[0], checked[index]))
    return checked_wishes


async def set_tracepoint(request: Request) -> Reply:
    """`tracepoint_set`: log a message at every pass, without stopping."""
    path = path_of(request.runs.recipe, request["file"])
    (places,) = await find_each(request.runs.recipe, [(path, _where(request.arguments))])
    if isinstance(places, Refusal):
        raise places
    added = Wish(places[0], request.arguments).add(request.desired)
    await set_added(request, added)
    body = {
        "id": added.id,
        "type": added.type,
        "location": location(added),
        "state": added.state,
        "verified": added.verified,
        "enabled": added.is_on,
        **messages(added.spec),
    }
    if added.message is not None:
        body["message"] = added.message
    return Reply({"success": True, "tracepoint": body})


async def set_added(request: Request, added: LineBreakpoint) -> None:
    """Set a tracepoint that was added in the processes of the tests.

    Raises:
        Refusal: A process refused it; the tracepoint is removed again.
    """
    run, stamp = request.runs.active, added.place.stamp
    added.is_newer = run is not None and stamp is not None and stamp.changed > run.began_ns
    try:
        await set_everywhere(run, added)
    except Refusal:
        request.desired.remove(added.id)
        raise


def messages(spec: AddLine) -> dict[str, Any]:
    """The message of a tracepoint, and when it is logged."""
    return {
        "logMessage": spec.message,
        "hitCountMultiple": spec.multiple,
        "maxNotifications": spec.max_notifications,
    }


def location(breakpoint: LineBreakpoint) -> dict[str, Any]:
    """The location of a breakpoint, as clients see it."""
    return {
        "file": breakpoint.place.shown,
        "line": breakpoint.place.line,
        "function": breakpoint.place.function,
    }


def _where(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments for `inspection.find_each`."""
    return {
        "line": arguments["line"],
        "column": arguments["column"],
        "condition": arguments["condition"] or None,
        "template": arguments["log_message"],
    }


def _of(index: int, refusal: Refusal) -> Refusal:
    message = f"tracepoints[{index}]: {refusal.message}"
    return Refusal(refusal.code, message, index=index, **refusal.extra)


COLUMN = Param("column", "integer", "1-based: a lambda or comprehension", minimum=1)
CONDITION = Param("condition", "string", "Over the locals; only when true")

TOOL = Tool(
    "tracepoint_set",
    "Set a tracepoint",
    "Log a message with values at every pass of a line, without pausing: for loops and threads. "
    "Replies have the newest hits.",
    set_tracepoint,
    (
        Param("file", "string", required=True),
        Param("line", "integer", required=True, minimum=1),
        COLUMN,
        Param("log_message", "string", "As total={total} {items[0]!r}"),
        Param("hit_count_multiple", "integer", "Only every Nth pass", default=0, minimum=0),
        Param("max_notifications", "integer", "Then stop logging", default=0, minimum=0),
        CONDITION,
    ),
)
