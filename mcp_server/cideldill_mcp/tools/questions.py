"""The tools that answer a whole question about a test, with processes of their own."""

from __future__ import annotations

from typing import Any

from cideldill_mcp.questions.ask_source import Source, source
from cideldill_mcp.questions.ask_trace import Trace, trace
from cideldill_mcp.questions.ask_watch import MAX_CHANGES, MOST_CHANGES, WatchQuestion, watch
from cideldill_mcp.questions.asker import TIMEOUT_S, Bounds
from cideldill_mcp.questions.beside_runs import asker_of
from cideldill_mcp.questions.fitting import MAX_CHARS
from cideldill_mcp.questions.registry import MAX_TIMEOUT_S
from cideldill_mcp.replies.render import MAX_MAX_CHARS
from cideldill_mcp.tools.definitions import Param, Reply, Request, Tool

ROOM = 4_000
"""Characters of a reply beside its text, at most."""

_ESCAPED = 2
"""Characters that a line feed or a quote of the text takes in JSON."""


async def ask_trace(request: Request) -> Reply:
    """`test_trace`: the tree of calls of a test, or each line of one call."""
    asked = Trace(
        request["nodeid"],
        request["function"],
        request["call"],
        request["when"],
        request["depth"],
    )
    asker = asker_of(request.questions, request.runs, request.progress)
    return _reply(request, await trace(asker, asked, _bounds(request)))


async def ask_watch(request: Request) -> Reply:
    """`test_watch`: each change of a value, and who made it."""
    asked = WatchQuestion(
        request["nodeid"],
        request["expression"],
        request["function"],
        request["module"],
        request["call"],
        request["when"],
        request["until"],
        request["max_changes"],
    )
    asker = asker_of(request.questions, request.runs, request.progress)
    return _reply(request, await watch(asker, asked, _bounds(request)))


async def ask_source(request: Request) -> Reply:
    """`test_source`: a function as written; with a test, how often each line ran."""
    asked = Source(request["function"], request["file"], request["line"], request["nodeid"])
    asker = asker_of(request.questions, request.runs, request.progress)
    return _reply(request, await source(asker, asked, _bounds(request)))


def _bounds(request: Request) -> Bounds:
    return Bounds(request.max_chars, request["timeout_s"])


def _reply(request: Request, body: dict[str, Any]) -> Reply:
    return Reply(body, room=_ESCAPED * request.max_chars + ROOM)


_NODEID = "Node id of one test"
_FUNCTION = "shop.cart.Cart.total, shop/cart.py::Cart.total, or the bare name"

_BOUNDS = (
    Param(
        "timeout_s",
        "number",
        "Of the whole question",
        default=TIMEOUT_S,
        minimum=1,
        maximum=MAX_TIMEOUT_S,
    ),
    Param(
        "max_chars",
        "integer",
        "Of the text",
        default=MAX_CHARS,
        minimum=500,
        maximum=MAX_MAX_CHARS,
    ),
)

TOOLS = (
    Tool(
        "test_trace",
        "Trace a test or a call",
        "What a test did, without reading files. Without function: the folded tree of calls of "
        "your code, with arguments, results and exceptions. With function: each line of one call "
        "in order, what it changed, branches, loops folded. Runs the test beside any run.",
        ask_trace,
        (
            Param("nodeid", "string", _NODEID, required=True),
            Param("function", "string", _FUNCTION),
            Param("call", "integer", "Which of its calls. Default: 1", minimum=1),
            Param("when", "string", "Its first call for which this expression is true"),
            Param("depth", "integer", "Of the tree. Default: what has room", minimum=1),
            *_BOUNDS,
        ),
    ),
    Tool(
        "test_watch",
        "Who changed a value",
        "Who changed a value, and when did it become wrong: each change with the line and function "
        "that made it and its caller, also through other names of the object; what else holds it. "
        "Runs the test beside any run.",
        ask_watch,
        (
            Param("nodeid", "string", _NODEID, required=True),
            Param(
                "expression",
                "string",
                "self.items[0].price, len(queue); without function: shop.cart.CACHE",
                required=True,
            ),
            Param("function", "string", "Evaluate it in a call of this, from its start"),
            Param("module", "string", "Or over the globals of this"),
            Param("call", "integer", "Which call. Default: 1", minimum=1),
            Param("when", "string", "Its first call for which this expression is true"),
            Param("until", "string", "Stop after the first line that makes this true"),
            Param(
                "max_changes",
                "integer",
                default=MAX_CHANGES,
                minimum=1,
                maximum=MOST_CHANGES,
            ),
            *_BOUNDS,
        ),
    ),
    Tool(
        "test_source",
        "Source of one function",
        "One function or class as written, with line numbers, instead of its file. With nodeid: "
        "how often that test ran each line, and who called it.",
        ask_source,
        (
            Param("function", "string", f"{_FUNCTION}; or a class"),
            Param("file", "string", "With line: what is around it"),
            Param("line", "integer", minimum=1),
            Param("nodeid", "string", "Mark the lines that this test ran"),
            *_BOUNDS,
        ),
    ),
)
