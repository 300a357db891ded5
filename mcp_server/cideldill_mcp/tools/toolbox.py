"""The tools that a server offers, and the border at which their failures become replies."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import mcp_types as types

from cideldill_mcp.clients.seen_stops import Deliveries, pauses_in
from cideldill_mcp.events.entries import Event, LoggedRows
from cideldill_mcp.questions.asking.registry import Questions
from cideldill_mcp.replies.prose import possible
from cideldill_mcp.replies.render import DEFAULT_MAX_CHARS, fit
from cideldill_mcp.runs.registry import Runs
from cideldill_mcp.tools.definitions import Progress, Reply, Request, Tool
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.redaction.tags import HOW_TO_SHOW, TAGGED


class Toolbox:
    """The tools of a server; it runs them and notes which stops and hits each client was sent."""

    def __init__(self, tools: Sequence[Tool], runs: Runs, questions: Questions) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._runs = runs
        self._questions = questions
        self._deliveries = Deliveries()
        runs.log.observe(_ignored, self._note_hits)

    def definitions(self) -> list[types.Tool]:
        """The definitions for `tools/list`."""
        return [tool.definition() for tool in self._tools.values()]

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    async def call(
        self, name: str, arguments: dict[str, Any], progress: Progress, client: str
    ) -> types.CallToolResult:
        """Run a tool. Only cancellation leaves here as an exception."""
        tool = self._tools[name]
        ignored = tool.ignored(arguments)
        named: dict[str, Any] = {"ignored": ignored} if ignored else {}
        await self._runs.ready.wait()
        try:
            request = self._request(tool, arguments, progress, client)
            reply = await tool.handler(request)
            reply = replace(reply, body=named | reply.body)
            if "next" in reply.body:
                steps = possible(reply.body["next"], self._useful())
                reply = replace(reply, body=reply.body | {"next": steps})
            text = self._with_news(client, reply, request.max_chars)
            if TAGGED in text and self._deliveries.tags_are_new(client):
                reply = replace(reply, body=reply.body | {"redacted": HOW_TO_SHOW})
                text = self._with_news(client, reply, request.max_chars)
        except Refusal as refusal:
            return error_result(str(refusal.code), refusal.message, **(named | refusal.extra))
        except Exception as error:  # noqa: BLE001 - a border: a bug of ours must not end the call unanswered
            traceback.print_exc(file=sys.stderr)
            message = f"the tool {name} failed, which is a bug of pytest-cideldill: {error!r}"
            return error_result(str(ErrorCode.INTERNAL_ERROR), message)
        return ok_result(text)

    async def read(self, name: str, arguments: dict[str, Any]) -> str:
        """The text of a tool's reply for a resource or a prompt; no stop in it counts as sent.

        Raises:
            Refusal: The tool refuses the arguments.
        """
        tool = self._tools[name]
        await self._runs.ready.wait()
        request = self._request(tool, arguments, _ignore, "")
        return (await tool.handler(request)).text(request.max_chars)

    def _request(
        self, tool: Tool, arguments: dict[str, Any], progress: Progress, client: str
    ) -> Request:
        if self._runs.are_opened and not tool.is_of_records:
            raise _not_live(tool.name)
        checked = tool.check(arguments)
        if checked.get("nodeid"):
            checked["nodeid"] = self._runs.nodeid(checked["nodeid"])
        max_chars = checked.pop("max_chars") or DEFAULT_MAX_CHARS
        sent = frozenset(key for key, value in arguments.items() if value is not None)
        return Request(
            checked,
            sent,
            self._runs,
            self._questions,
            self._runs.desired,
            max_chars,
            _rising(progress),
            lambda pause: self._deliveries.is_new(client, pause),
            self._deliveries.last_hit_sent(client),
        )

    def _useful(self) -> list[str]:
        """The names of the tools that can reply: of records not all of them can."""
        tools, are_opened = self._tools.values(), self._runs.are_opened
        return [tool.name for tool in tools if tool.is_of_records or not are_opened]

    def _with_news(self, client: str, reply: Reply, max_chars: int) -> str:
        """The text of a reply, with `pending` if there is more; note the stops and hits in it."""
        present = {
            id: pause for run in self._runs for id, pause in run.pauses.items() if "seq" in pause
        }
        has_hits = "hits" in reply.body  # also if it is empty: there are none
        news_of = partial(self._deliveries.pending, client, present, reports_hits=has_hits)
        shows = bool(present and pauses_in(reply.body))
        text, sent = "", list[str]()
        pending = None if shows else news_of()
        # Items that were cut off to fit are not sent; the key `pending` may cut off one more.
        for _ in range(3):
            text = reply.text(max_chars, **({} if pending is None else {"pending": pending}))
            if not shows:
                break
            sent = pauses_in(json.loads(text))
            news = news_of(sent)
            if news == pending:
                break
            pending = news
        self._deliveries.note(client, [present[id] for id in sent if id in present])
        if has_hits:
            self._deliveries.note_hits_sent(client)
        return text

    def _note_hits(self, rows: LoggedRows) -> None:
        if count := rows.counts.get("hit"):
            self._deliveries.note_hits(count, rows.newest["hit"])


def _ignored(_event: Event) -> None:
    """Hits come as rows."""


def _not_live(name: str) -> Refusal:
    return Refusal(
        ErrorCode.NOT_LIVE,
        f"{name} needs a live test, and this server shows recorded runs: test_results, "
        "exception_get_context and timeline_get show what happened; to run tests, have your client "
        "start pytest --cideldill-mcp in the project",
    )


def _rising(progress: Progress) -> Progress:
    """The same, but numbers never fall: the protocol does not allow that."""
    highest = 0.0

    async def report(done: float, total: float | None, text: str) -> None:
        nonlocal highest
        highest = max(highest, done)
        await progress(highest, total, text)

    return report


async def _ignore(_done: float, _total: float | None, _text: str) -> None:
    return None


def ok_result(text: str) -> types.CallToolResult:
    """A tool's normal answer around a text of `replies.render`."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


def error_result(code: str, message: str, **extra: Any) -> types.CallToolResult:
    """A tool's refusal: `{"error": code, "message": message, …extra}`, within the default size."""
    text = fit({"error": code, "message": message, **extra}, DEFAULT_MAX_CHARS)
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
