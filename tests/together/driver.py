"""Drives the real thing: the SDK's client over stdio, `pytest --cideldill-mcp`, real children.

`Agent` turns the asynchronous client into plain calls, so that tests read as sessions.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp_types import TextContent

from tests.reply_table import checked, checked_resource
from tests.together.frontend import FEW_GUESTS

DEADLINE_S = 30.0
"""No call of a test takes longer; a hang fails with the call's name."""


class ToolError(Exception):
    """A tool answered with an error object; `body` is that object."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(json.dumps(body))
        self.body = body


class Agent:
    """A connected client. `progress` collects the progress notifications of every call."""

    def __init__(self, client: Client, portal: BlockingPortal) -> None:
        self.client = client
        self.progress: list[tuple[float, float | None, str | None]] = []
        self.portal = portal

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The reply of a tool.

        Raises:
            ToolError: It is an error object.
        """
        result = self.raw(tool, arguments)
        (content,) = result.content
        body: dict[str, Any] = json.loads(content.text)
        if result.is_error:
            raise ToolError(body)
        return body

    def start(self, tool: str, /, **arguments: Any) -> Any:
        """Begin a call; the returned future's `result(timeout)` is that of `call`."""
        return self.portal.start_task_soon(self._reply, tool, arguments)

    def refused(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The error object of a tool that must refuse."""
        try:
            reply = self.call(tool, **arguments)
        except ToolError as error:
            return error.body
        raise AssertionError(f"{tool} was not refused: {reply}")

    def read(self, uri: str) -> dict[str, Any]:
        """The body of a resource."""
        return self.portal.call(self._read, uri)

    def start_read(self, uri: str) -> Any:
        """Begin to read a resource; the returned future's `result(timeout)` is that of `read`."""
        return self.portal.start_task_soon(self._read, uri)

    async def _read(self, uri: str) -> dict[str, Any]:
        (content,) = (await self.client.read_resource(uri)).contents
        return checked_resource(uri, content.text)  # type: ignore[union-attr]

    def source(self, file: str) -> str:
        """The text of a source file; the name is put into the URI as it is."""
        uri = f"debugger://source/{file}"
        (content,) = self.portal.call(self.client.read_resource, uri).contents
        assert content.mime_type == "text/plain"
        return content.text  # type: ignore[union-attr]

    def resources(self) -> list[str]:
        """The URIs of the resources and templates that are listed."""
        listed = self.portal.call(self.client.list_resources).resources
        templates = self.portal.call(self.client.list_resource_templates).resource_templates
        return [each.uri for each in listed] + [each.uri_template for each in templates]

    def prompt(self, name: str, **arguments: str) -> str:
        """The text of a prompt."""
        (message,) = self.portal.call(self.client.get_prompt, name, arguments).messages
        return message.content.text  # type: ignore[union-attr]

    def tools(self) -> list[Any]:
        """The tools as they are listed."""
        return list(self.portal.call(self.client.list_tools).tools)

    def raw(self, tool: str, arguments: dict[str, Any]) -> Any:
        """The result of a tool as the client's library gives it."""
        return self.portal.call(self._call, tool, arguments)

    async def _reply(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result = await self._call(tool, arguments)
        body: dict[str, Any] = json.loads(result.content[0].text)
        if result.is_error:
            raise ToolError(body)
        return body

    async def _call(self, tool: str, arguments: dict[str, Any]) -> Any:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            self.progress.append((progress, total, message))

        result = await self.client.call_tool(
            tool, arguments, progress_callback=on_progress, read_timeout_seconds=DEADLINE_S
        )
        (content,) = result.content
        assert isinstance(content, TextContent)
        checked(tool, arguments, content.text, is_error=bool(result.is_error))
        return result


def server(
    project: Path, *arguments: str, env: dict[str, str] | None = None, flags: Sequence[str] = ()
) -> StdioServerParameters:
    """How to start the front end on a project, with this interpreter and flags of it.

    The client hands over few variables; those that change what pytest prints, and where it has
    temporary files, go along.
    """
    names = ("CI", "BUILD_NUMBER", "PYTEST_DEBUG_TEMPROOT")
    alike = {name: os.environ[name] for name in names if name in os.environ}
    return StdioServerParameters(
        command=sys.executable,
        args=[*flags, "-m", "pytest", "-p", "no:cacheprovider", "--cideldill-mcp", *arguments],
        cwd=project,
        env=alike | FEW_GUESTS | (env or {}),
    )


@contextlib.contextmanager
def connected(
    parameters: StdioServerParameters, mode: str = "auto", **options: Any
) -> Iterator[Agent]:
    """A client of a fresh server; both are gone afterwards."""
    with start_blocking_portal() as portal:
        client = Client(parameters, mode=mode, **options)
        with portal.wrap_async_context_manager(client):
            yield Agent(client, portal)


def only_stop(reply: dict[str, Any]) -> dict[str, Any]:
    """The one stop of a reply."""
    (stop,) = reply["stops"]
    assert isinstance(stop, dict)
    return stop


def locals_of(stop: dict[str, Any]) -> dict[str, str]:
    """Names and values of the frame that a stop shows: in its autopsy if it has one."""
    if "autopsy" not in stop:
        shown: dict[str, str] = stop.get("locals", {})
        return shown
    autopsy = stop["autopsy"]
    frame = autopsy["frames"][autopsy.get("userFrameIndex", 0)]
    variables = frame.get("arguments", []) + frame.get("variables", {}).get("locals", [])
    assertion = autopsy.get("assertion", {})
    operands = {
        assertion[f"{side}Expression"]: assertion[side]
        for side in ("left", "right")
        if assertion.get(f"{side}Expression", "").isidentifier()
    }
    return operands | {each["name"]: each["value"] for each in variables}


def exception_of(stop: dict[str, Any]) -> dict[str, Any]:
    """Type and message of the exception at which a stop is."""
    exception: dict[str, Any] = stop.get("autopsy", stop)["exception"]
    return {"type": exception["type"], "message": exception.get("message", "")}


def run_of(stop: dict[str, Any]) -> str:
    """The id of the run of a pause."""
    return str(stop["pause_id"]).partition(".")[0]


def source_of(stop: dict[str, Any]) -> str:
    """The source line at which a stop is; empty: unknown."""
    place = stop["location"]
    if "autopsy" in stop:
        autopsy = stop["autopsy"]
        place = autopsy["frames"][autopsy.get("userFrameIndex", 0)]
    return str(place.get("source", ""))
