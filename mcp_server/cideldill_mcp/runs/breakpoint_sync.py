"""Sets and removes breakpoints in the processes of a run that are alive.

Lives on the event loop. Processes that connect later get them from `Runs`.
"""

from __future__ import annotations

import asyncio

from cideldill_mcp.breakpoints.kinds import Breakpoint
from cideldill_mcp.processes.process import Target
from cideldill_mcp.runs.run import Run
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.protocol import Bound, RemoveBreakpoint

BIND_S = 2.0
"""How long a tool waits for a live process."""


async def set_everywhere(run: Run | None, desired: Breakpoint) -> None:
    """Set (or change) a breakpoint in every live process of a run and note where it is bound.

    Raises:
        Refusal: A process refused it.
    """
    targets = list(run.targets.values()) if run is not None and not desired.is_lost else []
    try:
        await asyncio.gather(*(_set_in(target, desired) for target in targets))
    finally:
        desired.changed()


async def _set_in(target: Target, desired: Breakpoint) -> None:
    try:
        answer = await target.ask(desired.command, BIND_S)
    except Refusal as refusal:
        if refusal.code not in (ErrorCode.PROCESS_BUSY, ErrorCode.NOT_LIVE):
            raise
        answer = {"functions": [], "verified": False, "message": refusal.message}
    desired.bound[target.worker] = Bound(desired.id, **answer)


async def remove_everywhere(run: Run | None, id: str) -> None:
    """Take a breakpoint out of every live process; one that is busy does it when it can."""
    for target in list(run.targets.values()) if run is not None else ():
        target.send(RemoveBreakpoint(0, id))
