"""Builds the MCP server and runs it until the client leaves; then nothing may be left behind."""

from __future__ import annotations

import importlib.metadata
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from cideldill_mcp.desired import Desired
from cideldill_mcp.eventlog import EventLog
from cideldill_mcp.launch import Recipe
from cideldill_mcp.run import Order
from cideldill_mcp.runs import Runs
from cideldill_mcp.stdio import claim_stdio
from cideldill_mcp.stdio import stdio_streams
from cideldill_mcp.tools import profile
from cideldill_mcp.tools.registry import Toolbox
from pytest_cideldill.errors import Refusal
from pytest_cideldill.settings import Settings

SHUTDOWN_S = 1.0
"""How long runs may take to end by themselves; clients kill servers 2 s after they hung up."""

INVALID_PARAMS = -32602

INSTRUCTIONS = """\
Debugs pytest tests. test_run runs them in a fresh process and pauses at the first failure; its
reply holds the autopsy (exception, frames, locals, fixtures, output). At a pause:
breakpoint_repl_eval evaluates in the frame, breakpoint_continue lets it go on. To stop earlier:
breakpoint_add on a function, then test_run again with replace: true; at the pause change the
arguments, skip with a fake_result or raise, to prove a cause without editing. After an edit:
test_run with last_failed: true. Every reply's `next` says what can be done. A paused test waits for
you; the run goes on when you continue or stop it."""


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
        server = build_server(runs, settings)
        if settings.start == "run":
            group.start_soon(_start_at_once, runs)
        async with stdio_streams(read_fd, write_fd) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
        group.cancel_scope.cancel()


@asynccontextmanager
async def _running(recipe: Recipe, settings: Settings) -> AsyncIterator[Runs]:
    """The runs' owner; at the end every pause is released and every process gone."""
    runs = Runs(recipe, Desired(), EventLog(), settings.lease_s, settings.record_calls)
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


async def _cancel_at_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()
            return


def build_server(runs: Runs, settings: Settings) -> Server:
    """The low-level server with our tools; it validates nothing, so `Toolbox` does."""
    toolbox = Toolbox(profile.tools(settings.tools), runs, runs.desired)

    async def list_tools(
        _context: ServerRequestContext, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=toolbox.definitions())

    async def call_tool(
        context: ServerRequestContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if params.name not in toolbox:
            raise MCPError(code=INVALID_PARAMS, message=f"unknown tool {params.name!r}")
        report = context.session.report_progress
        return await toolbox.call(params.name, params.arguments or {}, report)

    server = Server(
        "pytest-cideldill",
        version=importlib.metadata.version("pytest-cideldill"),
        title="pytest debugger",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    server.middleware.clear()  # OpenTelemetry: nobody asked for spans
    return server
