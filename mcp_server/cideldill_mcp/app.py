"""Builds the MCP server and runs it until the client leaves; then nothing may be left behind."""

from __future__ import annotations

import importlib.metadata
import signal
import sys
import traceback
from collections.abc import AsyncIterator
from collections.abc import Awaitable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from typing import TypeVar
from typing import cast

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from cideldill_mcp.deliveries import STDIO
from cideldill_mcp.desired import Desired
from cideldill_mcp.eventlog import EventLog
from cideldill_mcp.launch import Recipe
from cideldill_mcp.notify import Notifier
from cideldill_mcp.prompts import Prompts
from cideldill_mcp.resources import Resources
from cideldill_mcp.run import Order
from cideldill_mcp.runs import Runs
from cideldill_mcp.stdio import claim_stdio
from cideldill_mcp.stdio import stdio_streams
from cideldill_mcp.tools import profile
from cideldill_mcp.tools.registry import Toolbox
from pytest_cideldill.errors import ErrorCode
from pytest_cideldill.errors import Refusal
from pytest_cideldill.settings import Settings

SHUTDOWN_S = 1.0
"""How long runs may take to end by themselves; clients kill servers 2 s after they hung up."""

T = TypeVar("T")

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
        _push_to_clients(server, runs, group)
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


async def _cancel_at_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()
            return


def build_server(runs: Runs, settings: Settings) -> Server:
    """The low-level server with what we offer; it validates nothing, so `Toolbox` does."""
    server = Server(
        "pytest-cideldill",
        version=importlib.metadata.version("pytest-cideldill"),
        title="pytest debugger",
        instructions=INSTRUCTIONS,
    )
    server.middleware.clear()  # OpenTelemetry: nobody asked for spans
    _offer_tools(server, Toolbox(profile.tools(settings.tools), runs, runs.desired))
    read = Toolbox(profile.ALL, runs, runs.desired).read
    _offer_resources(server, Resources(read, runs))
    _offer_prompts(server, Prompts(read, runs))
    return server


def _offer_tools(server: Server, toolbox: Toolbox) -> None:
    async def list_tools(
        _context: ServerRequestContext, _params: types.PaginatedRequestParams
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=toolbox.definitions())

    async def call_tool(
        context: ServerRequestContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if params.name not in toolbox:
            raise MCPError(code=types.INVALID_PARAMS, message=f"unknown tool {params.name!r}")
        report = context.session.report_progress
        return await toolbox.call(params.name, params.arguments or {}, report)

    server.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)


def _offer_resources(server: Server, resources: Resources) -> None:
    async def list_resources(
        _context: ServerRequestContext, _params: types.PaginatedRequestParams
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=resources.definitions())

    async def list_templates(
        _context: ServerRequestContext, _params: types.PaginatedRequestParams
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[])

    async def read(
        _context: ServerRequestContext, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await _answered(f"the resource {params.uri}", resources.read(str(params.uri)))

    paginated = types.PaginatedRequestParams
    server.add_request_handler("resources/list", paginated, list_resources)
    server.add_request_handler("resources/templates/list", paginated, list_templates)
    server.add_request_handler("resources/read", types.ReadResourceRequestParams, read)


def _offer_prompts(server: Server, prompts: Prompts) -> None:
    async def list_prompts(
        _context: ServerRequestContext, _params: types.PaginatedRequestParams
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=prompts.definitions())

    async def get(
        _context: ServerRequestContext, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        asked = prompts.get(params.name, params.arguments or {})
        return await _answered(f"the prompt {params.name}", asked)

    server.add_request_handler("prompts/list", types.PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", types.GetPromptRequestParams, get)


async def _answered(what: str, work: Awaitable[T]) -> T:
    """The result; every failure as an error of the protocol, with a sentence."""
    try:
        return await work
    except MCPError:
        raise
    except Refusal as refusal:
        is_ours = refusal.code is ErrorCode.INTERNAL_ERROR
        raise MCPError(
            code=types.INTERNAL_ERROR if is_ours else types.INVALID_PARAMS,
            message=refusal.message,
            data={"error": str(refusal.code), **refusal.extra},
        ) from refusal
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        message = f"{what} failed, which is a bug of pytest-cideldill: {error!r}"
        raise MCPError(code=types.INTERNAL_ERROR, message=message) from error


# --- notifications ------------------------------------------------------------------------------


class _Push(types.Notification[dict[str, Any], str]):
    """A notification that the protocol does not define."""


def _push_to_clients(server: Server, runs: Runs, group: TaskGroup) -> None:
    """Push what happens to every client of a handshake-era protocol, once it has shaken hands.

    Later protocols forbid methods that they don't define.
    """

    def pause_of(run_id: str, pause_id: str) -> dict[str, Any] | None:
        return next((run.pauses.get(pause_id) for run in runs if run.id == run_id), None)

    notifier = Notifier(runs.log, pause_of)

    async def serve(context: ServerRequestContext, _params: types.NotificationParams) -> None:
        if context.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            group.start_soon(notifier.serve, STDIO, partial(_push, context.session))

    server.add_notification_handler("notifications/initialized", types.NotificationParams, serve)


async def _push(session: ServerSession, method: str, params: dict[str, Any]) -> None:
    push = cast("types.ServerNotification", _Push(method=method, params=params))
    await session.send_notification(push)
