"""The life of the front end: it serves until the client leaves; then nothing may be left behind."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio

from cideldill_mcp.clients import Clients
from cideldill_mcp.desired import Desired
from cideldill_mcp.eventlog import EventLog
from cideldill_mcp.launch import Recipe
from cideldill_mcp.notify import Notifier
from cideldill_mcp.run import Order
from cideldill_mcp.runs import Runs
from cideldill_mcp.server import build_server
from cideldill_mcp.stdio import claim_stdio
from cideldill_mcp.stdio import stdio_streams
from cideldill_mcp.updates import Updates
from pytest_cideldill.errors import Refusal
from pytest_cideldill.settings import Settings

SHUTDOWN_S = 1.0
"""How long runs may take to end by themselves; clients kill servers 2 s after they hung up."""


def run_server(recipe: Recipe, settings: Settings) -> int:
    """Serve on stdin and stdout until end of file or a signal.

    Returns:
        The exit status: 0.
    """
    read_fd, write_fd = claim_stdio()
    anyio.run(_serve, recipe, settings, read_fd, write_fd)
    return 0


async def _serve(recipe: Recipe, settings: Settings, read_fd: int, write_fd: int) -> None:
    async with _running(recipe, settings) as runs, anyio.create_task_group() as group:
        group.start_soon(_cancel_at_signal, group.cancel_scope)
        notifier = Notifier(runs.log, partial(_pause, runs))
        Updates(runs, notifier.changed)
        server = build_server(runs, settings, Clients("stdio", notifier, group))
        if settings.start == "run":
            group.start_soon(_start_at_once, runs)
        async with stdio_streams(read_fd, write_fd) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
        group.cancel_scope.cancel()


@asynccontextmanager
async def _running(recipe: Recipe, settings: Settings) -> AsyncIterator[Runs]:
    """The runs' owner; at the end every pause is released and every process gone."""
    runs = Runs(recipe, Desired(), EventLog(settings.limits.max_log_bytes), settings)
    try:
        yield runs
    finally:
        with anyio.CancelScope(shield=True):
            await runs.close("disconnect", SHUTDOWN_S)


async def _start_at_once(runs: Runs) -> None:
    try:
        await runs.start(Order())
    except Refusal as refusal:  # no reason to end: test_run will say the same
        sys.stderr.write(f"pytest-cideldill: {refusal.message}\n")


def _pause(runs: Runs, run_id: str, pause_id: str) -> dict[str, Any] | None:
    return next((run.pauses.get(pause_id) for run in runs if run.id == run_id), None)


async def _cancel_at_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()
            return
