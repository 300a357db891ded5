"""The tools that answer a whole question about a test, with processes of their own."""

from __future__ import annotations

from typing import Any

from cideldill_mcp.questions.ask_source import Source, source
from cideldill_mcp.questions.ask_suspects import LIMIT, MAX_LIMIT, Suspects, suspects
from cideldill_mcp.questions.ask_trace import Trace, trace
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

_FUNCTION_ROOM = 400
"""Characters of an item of `functions`, at most."""


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


async def ask_source(request: Request) -> Reply:
    """`test_source`: a function as written; with a test, how often each line ran."""
    asked = Source(request["function"], request["file"], request["line"], request["nodeid"])
    asker = asker_of(request.questions, request.runs, request.progress)
    return _reply(request, await source(asker, asked, _bounds(request)))


async def ask_suspects(request: Request) -> Reply:
    """`test_suspects`: which functions failing tests run, and passing ones do not."""
    nodeids = tuple(request["nodeids"] or ())
    asked = Suspects(nodeids, request["keyword"], request["markers"], request["limit"])
    asker = asker_of(request.questions, request.runs, request.progress)
    body = await suspects(asker, asked, _bounds(request))
    return _reply(request, body, len(body["functions"]) * _FUNCTION_ROOM)


def _bounds(request: Request) -> Bounds:
    return Bounds(request.max_chars, request["timeout_s"])


def _reply(request: Request, body: dict[str, Any], further: int = 0) -> Reply:
    return Reply(body, room=_ESCAPED * request.max_chars + ROOM + further)


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
        "test_suspects",
        "Rank suspected functions",
        "Runs tests once and ranks functions of your code by how much more failing tests ran them "
        "than passing ones. Needs both. Default: the files of the last failures.",
        ask_suspects,
        (
            Param("nodeids", "array", "Tests, files or folders", items="string"),
            Param("keyword", "string", "pytest -k"),
            Param("markers", "string", "pytest -m"),
            Param("limit", "integer", default=LIMIT, minimum=1, maximum=MAX_LIMIT),
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
