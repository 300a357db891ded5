"""The tool `breakpoint_inspect_object`: objects by content id. Nothing is unpickled here."""

from __future__ import annotations

from typing import Any

import anyio.to_thread

from cideldill_mcp.objects.unpickling import look_into
from cideldill_mcp.tools.definitions import Param, Reply, Request, Tool
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.protocol import Inspect, Interrupt
from pytest_cideldill.protocol.object_paths import Unreachable, navigate_description

DEPTH = 3
MAX_DEPTH = 10

LIVE_S = 10.0
"""How long a parked thread may take to inspect an object."""

_OF_PAUSES = "deeper levels need a pause in the process that made it"
_OF_RECORDS = (
    "deeper levels of a recorded object have to be unpickled, which runs code of the record's; "
    "--cideldill-allow-unpickle allows that"
)


async def inspect(request: Request) -> Reply:
    """Read the snapshot, or inspect deeper on a paused thread of the process of the object.

    A thread that still has the object is asked in any case: it then keeps a copy of the object.
    """
    cid, path, depth = request["cid"].strip(), request["path"] or "", request["depth"]
    snapshot = await anyio.to_thread.run_sync(request.runs.objects.find, cid)
    if snapshot is None:
        if (live := await _look_elsewhere(request, cid, path, depth)) is not None:
            return Reply({"cid": cid, **live})
        raise _unknown(request, cid)
    prefix, description, is_copied = snapshot
    extra: dict[str, Any] = {}
    try:
        part = navigate_description(description, path) if path else description
        is_deep_enough = depth <= DEPTH and not (path and _is_cut(part))
    except ValueError as error:
        raise Refusal(ErrorCode.INVALID_PATH, str(error), cid=cid, path=path) from error
    except Unreachable as error:
        if not error.is_cut:
            raise Refusal(ErrorCode.INVALID_PATH, str(error), cid=cid, path=path) from error
        part, is_deep_enough = None, False
        extra["message"] = str(error)
    if not is_deep_enough and "error" not in description:
        look = _look_again if request.runs.are_opened else _look_deeper
        live = await look(request, prefix, cid, path, depth)
        if live is not None:
            return Reply({"cid": cid, **live})
        why = _OF_RECORDS if request.runs.are_opened else _OF_PAUSES
        if part is None:
            message = f"{extra['message']}; only the snapshot is left: {why}"
            raise Refusal(ErrorCode.INVALID_PATH, message, cid=cid, path=path)
        extra["message"] = f"only the snapshot is left: {why}"
    elif not is_copied and not request.runs.are_opened:
        await _look_deeper(request, prefix, cid, path, depth)
    assert part is not None
    return Reply({"cid": cid, **_pruned(part, depth), **extra})


def _unknown(request: Request, cid: str) -> Refusal:
    message = (
        f"no object {cid[:20]!r}; cids are in breakpoint_get_call_records and in result_cid of "
        "breakpoint_repl_eval"
    )
    if any(target.is_remote for run in request.runs for target in run.targets.values()):
        message += (
            ". Workers on other machines keep their objects, without the snapshots of calls; they "
            "are found while a thread of theirs is paused"
        )
    return Refusal(ErrorCode.CID_NOT_FOUND, message, cid=cid)


async def _look_deeper(
    request: Request, prefix: str, cid: str, path: str, depth: int
) -> dict[str, Any] | None:
    """The reply of a paused thread of the process; None: there is none, or it has no copy."""
    for run in request.runs:
        for pause_id in run.pauses:
            if pause_id.rpartition(".")[0] == prefix:
                return await _ask(request, pause_id, cid, path, depth)
    return None


async def _look_again(
    request: Request, _prefix: str, cid: str, path: str, depth: int
) -> dict[str, Any] | None:
    """The content of a copy that is unpickled; None: that is not allowed, or none was kept."""
    runs = request.runs
    if not runs.settings.allow_unpickle:
        return None
    store = await anyio.to_thread.run_sync(runs.objects.recorded, cid)
    if store is None:
        return None
    redact = not runs.settings.no_redact
    return await look_into(runs.recipe, store, cid, path, depth, redact=redact)


async def _look_elsewhere(
    request: Request, cid: str, path: str, depth: int
) -> dict[str, Any] | None:
    """An object that is in no file here, from paused threads; None: none of them has it."""
    pauses = {pause["worker"]: id for run in request.runs for id, pause in run.pauses.items()}
    for pause_id in pauses.values():
        reply = await _ask(request, pause_id, cid, path, depth)
        if reply is not None:
            return reply
    return None


async def _ask(
    request: Request, pause_id: str, cid: str, path: str, depth: int
) -> dict[str, Any] | None:
    try:
        _, target = request.runs.owner_of(pause_id)
        return await target.ask(
            lambda number: Inspect(number, pause_id, cid, path, depth),
            LIVE_S,
            on_timeout=lambda number: target.send(Interrupt(number)),
        )
    except Refusal as refusal:
        if refusal.code is ErrorCode.INVALID_PATH:
            raise
        return None


def _is_cut(part: dict[str, Any]) -> bool:
    """Whether the snapshot ends in this part although there is more."""
    return bool(part.get("truncated")) and not part.get("attributes")


def _pruned(part: dict[str, Any], depth: int) -> dict[str, Any]:
    """The part, with its attributes down to `depth`."""
    inner = part.get("attributes") or {}
    if depth <= 0 and inner:
        return {**part, "attributes": {}, "truncated": True}
    return {
        **part,
        "attributes": {name: _pruned(attribute, depth - 1) for name, attribute in inner.items()},
    }


TOOLS = (
    Tool(
        "breakpoint_inspect_object",
        "Inspect an object",
        "The content of an argument, a result or a value of the REPL at that time, level by level.",
        inspect,
        (
            Param("cid", "string", "From call records, or result_cid", required=True),
            Param("path", "string", "A part of it, as .items[2].price"),
            Param(
                "depth", "integer", "Levels to open", default=DEPTH, minimum=0, maximum=MAX_DEPTH
            ),
        ),
        reads_only=True,
    ),
)
