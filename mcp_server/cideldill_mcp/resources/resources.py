"""The resources: replies of tools for the context of a client, and those of the newest run.

Runs on the event loop. Tools are used by name only. Programs read resources, and models may never
see them: a stop that was read here does not count as sent to a client.
"""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from cideldill_mcp.replies.render import MAX_MAX_CHARS, dumps
from cideldill_mcp.resources.debug import DebugResources, Read, is_of_run
from cideldill_mcp.runs.registry import Runs

JSON = "application/json"

STATUS = "breakpoint://status"
NAMES = "breakpoint://breakpoints"
PAUSED = "breakpoint://paused"
CALLS = "breakpoint://call-history"
FUNCTIONS = "breakpoint://functions"

RECENT_CALLS = 50

_OF_TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    NAMES: ("breakpoint_list_breakpoints", {}),
    PAUSED: ("breakpoint_list_paused", {}),
    CALLS: ("breakpoint_get_call_records", {"limit": RECENT_CALLS}),
    FUNCTIONS: ("breakpoint_list_functions", {}),
}
"""Resources whose body is that of a tool's reply."""

_TEXTS = {
    STATUS: (
        "Status of the debugger",
        "How many breakpoints, paused threads and recorded calls there are; the default behavior; "
        "the newest run and its state.",
    ),
    NAMES: ("Function breakpoints", "The names of all function breakpoints with their behaviors."),
    PAUSED: ("Paused tests", "Every paused thread: why, where, its arguments and locals."),
    CALLS: ("Recent calls", f"The {RECENT_CALLS} newest recorded calls."),
    FUNCTIONS: ("Functions", "Functions of the project with their signatures."),
}
"""URI → title and description."""


class Resources:
    """All resources of a server. `read`: calls any tool, offered to the client or not."""

    def __init__(self, read: Read, runs: Runs) -> None:
        self._read = read
        self._runs = runs
        self._of_run = DebugResources(read, runs)

    def definitions(self) -> list[types.Resource]:
        """The list for `resources/list`."""
        always = [
            types.Resource(
                uri=uri,
                name=uri.partition("://")[2],
                title=title,
                description=about,
                mime_type=JSON,
            )
            for uri, (title, about) in _TEXTS.items()
        ]
        return always + self._of_run.definitions()

    def templates(self) -> list[types.ResourceTemplate]:
        """The list for `resources/templates/list`."""
        return self._of_run.templates()

    async def read(self, uri: str) -> types.ReadResourceResult:
        """The contents for `resources/read`; at most 200,000 characters.

        Raises:
            MCPError: There is no such resource.
            Refusal: The resource can't be read now.
        """
        if uri == STATUS:
            text = await self._status()
        elif uri in _OF_TOOLS:
            tool, arguments = _OF_TOOLS[uri]
            text = await self._read(tool, {**arguments, "max_chars": MAX_MAX_CHARS})
        elif is_of_run(uri):
            return types.ReadResourceResult(contents=[await self._of_run.read(uri)])
        else:
            raise self._unknown(uri)
        content = types.TextResourceContents(uri=uri, mime_type=JSON, text=text)
        return types.ReadResourceResult(contents=[content])

    def check(self, uri: str) -> None:
        """Check a URI of `resources/subscribe`; the resource need not exist yet.

        Raises:
            MCPError: There is no such resource at any time.
        """
        if uri not in _TEXTS and not is_of_run(uri):
            raise self._unknown(uri)

    def _unknown(self, uri: str) -> MCPError:
        uris = ", ".join(resource.uri for resource in self.definitions())
        message = f"no resource {uri!r}; there are: {uris}"
        return MCPError(code=types.INVALID_PARAMS, message=message)

    async def _status(self) -> str:
        default = json.loads(await self._read("breakpoint_get_default_behavior", {}))
        newest = self._runs.newest
        return dumps(
            {
                "breakpoints": len(self._runs.desired),
                "paused": sum(len(run.pauses) for run in self._runs),
                "calls_recorded": self._runs.records.total,
                "default_behavior": default["behavior"],
                "state": newest.state if newest is not None else "idle",
                "run_id": newest.id if newest is not None else None,
            }
        )
