"""The MCP server of one transport: handlers for tools, resources, subscriptions and prompts.

The low-level server of the library validates nothing, so `Toolbox` does; every failure here becomes
an error of the protocol with a sentence.
"""

from __future__ import annotations

import importlib.metadata
import sys
import traceback
from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar, cast

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError

from cideldill_mcp.clients.sessions import Clients
from cideldill_mcp.prompts.defined import Prompts
from cideldill_mcp.prompts.guide import instructions
from cideldill_mcp.questions.asking.registry import Questions
from cideldill_mcp.replies.render import readable
from cideldill_mcp.resources.resources import Resources
from cideldill_mcp.runs.registry import Runs
from cideldill_mcp.tools import profile
from cideldill_mcp.tools.toolbox import Toolbox
from cideldill_mcp.transports.stdio_server import Identity, StdioServer
from pytest_cideldill.config.settings import Settings
from pytest_cideldill.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

T = TypeVar("T")


def build_server(runs: Runs, questions: Questions, settings: Settings, clients: Clients) -> Server:
    """Build the server of an HTTP transport; its `clients` get the pushes."""
    from cideldill_mcp.transports.http_server import HttpServer

    offered = Toolbox(profile.tools(settings.tools), runs, questions)
    server = HttpServer(_identity(offered))
    _offer(server, offered, Toolbox(profile.ALL, runs, questions), runs, clients)
    return server


def build_stdio_server(
    runs: Runs, questions: Questions, settings: Settings, clients: Clients
) -> StdioServer:
    """The same for stdio, without what the library imports for HTTP."""
    offered = Toolbox(profile.tools(settings.tools), runs, questions)
    server = StdioServer(_identity(offered))
    # It takes handlers as the other does.
    offering = cast("Server", server)
    _offer(offering, offered, Toolbox(profile.ALL, runs, questions), runs, clients)
    return server


def _identity(offered: Toolbox) -> Identity:
    return Identity(
        "pytest-cideldill",
        version=importlib.metadata.version("pytest-cideldill"),
        title="pytest debugger",
        instructions=instructions(offered),
    )


def _offer(server: Server, offered: Toolbox, every: Toolbox, runs: Runs, clients: Clients) -> None:
    _offer_tools(server, offered, clients)
    _offer_resources(server, Resources(every.read, runs), clients)
    _offer_prompts(server, Prompts(every.read, runs, offered))
    server.add_notification_handler(
        "notifications/initialized", types.NotificationParams, clients.welcome
    )


def _offer_tools(server: Server, toolbox: Toolbox, clients: Clients) -> None:
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
        client = clients.of(context).name
        return await toolbox.call(params.name, params.arguments or {}, report, client)

    # For headers of calls over HTTP the library would otherwise list all tools each time.
    schemas = {tool.name: tool.input_schema for tool in toolbox.definitions()}
    server.get_tool_input_schema = schemas.get
    server.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)


def _offer_resources(server: Server, resources: Resources, clients: Clients) -> None:
    async def list_resources(
        _context: ServerRequestContext, _params: types.PaginatedRequestParams
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=resources.definitions())

    async def list_templates(
        _context: ServerRequestContext, _params: types.PaginatedRequestParams
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=resources.templates())

    async def read(
        _context: ServerRequestContext, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await _answered(f"the resource {params.uri}", resources.read(str(params.uri)))

    async def subscribe(
        context: ServerRequestContext, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        resources.check(params.uri)
        clients.of(context).subscriptions.add(params.uri)
        return types.EmptyResult()

    async def unsubscribe(
        context: ServerRequestContext, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        clients.of(context).subscriptions.discard(params.uri)
        return types.EmptyResult()

    paginated = types.PaginatedRequestParams
    server.add_request_handler("resources/list", paginated, list_resources)
    server.add_request_handler("resources/templates/list", paginated, list_templates)
    server.add_request_handler("resources/read", types.ReadResourceRequestParams, read)
    server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, subscribe)
    server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, unsubscribe)
    listened = types.SubscriptionsListenRequestParams
    server.add_request_handler("subscriptions/listen", listened, ListenHandler(clients.bus))


def _offer_prompts(server: Server, prompts: Prompts) -> None:
    async def list_prompts(
        _context: ServerRequestContext, _params: types.PaginatedRequestParams
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=prompts.definitions())

    async def get(
        _context: ServerRequestContext, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        prompt = prompts.get(params.name, params.arguments or {})
        return await _answered(f"the prompt {params.name}", prompt)

    server.add_request_handler("prompts/list", types.PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", types.GetPromptRequestParams, get)


async def _answered(subject: str, work: Awaitable[T]) -> T:
    """The result of a handler; every failure becomes an error of the protocol with a sentence."""
    try:
        return await work
    except MCPError:
        raise
    except Refusal as refusal:
        is_ours = refusal.code is ErrorCode.INTERNAL_ERROR
        raise MCPError(
            code=types.INTERNAL_ERROR if is_ours else types.INVALID_PARAMS,
            message=refusal.message,
            data=readable({"error": str(refusal.code), **refusal.extra}),
        ) from refusal
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        message = f"{subject} failed, which is a bug of pytest-cideldill: {error!r}"
        raise MCPError(code=types.INTERNAL_ERROR, message=message) from error
