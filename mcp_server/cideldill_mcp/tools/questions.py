"""The tools that answer a whole question about a test, with processes of their own."""

from __future__ import annotations

from typing import Any

from cideldill_mcp.questions.ask_experiment import Experiments, experiment
from cideldill_mcp.questions.ask_source import Source, source
from cideldill_mcp.questions.ask_trace import Trace, trace
from cideldill_mcp.questions.asker import TIMEOUT_S, Bounds
from cideldill_mcp.questions.beside_runs import asker_of
from cideldill_mcp.questions.experiment_specs import experiments_of
from cideldill_mcp.questions.fitting import MAX_CHARS
from cideldill_mcp.questions.registry import MAX_TIMEOUT_S
from cideldill_mcp.replies.render import MAX_MAX_CHARS
from cideldill_mcp.tools.definitions import Param, Reply, Request, Tool

ROOM = 4_000
"""Characters of a reply beside its text, at most."""

ROOM_OF_TABLE = 20_000
"""The same, where outcomes of 50 tests in 20 experiments stand beside it."""

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


async def ask_source(request: Request) -> Reply:
    """`test_source`: a function as written; with a test, how often each line ran."""
    asked = Source(request["function"], request["file"], request["line"], request["nodeid"])
    asker = asker_of(request.questions, request.runs, request.progress)
    return _reply(request, await source(asker, asked, _bounds(request)))


async def ask_experiment(request: Request) -> Reply:
    """`test_experiment`: what becomes of tests if this were otherwise?"""
    asked = Experiments(
        request["nodeids"],
        experiments_of(request["experiments"] or []),
        request["repeat"],
        request["evaluate"] or [],
        request["suggest"],
    )
    asker = asker_of(request.questions, request.runs, request.progress)
    return _reply(request, await experiment(asker, asked, _bounds(request)), ROOM_OF_TABLE)


def _bounds(request: Request) -> Bounds:
    return Bounds(request.max_chars, request["timeout_s"])


def _reply(request: Request, body: dict[str, Any], room: int = ROOM) -> Reply:
    return Reply(body, room=_ESCAPED * request.max_chars + room)


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
    Tool(
        "test_experiment",
        "What if?",
        "Run tests as they are and with something changed, in fresh processes; cause names the "
        "change that makes the failing test pass and breaks no other. Try a fix, or a suspicion, "
        "without an edit: source is swapped in that process only, no file is touched.",
        ask_experiment,
        (
            Param(
                "nodeids", "array", "Tests, the failing one first", required=True, items="string"
            ),
            Param(
                "experiments",
                "array",
                "Up to 20 of {patch: [{file, old, new}], diff, return: {function, value}, raise: "
                "{function, type, message}, replace: {function, with: path, lambda or def}, "
                "set_args: {function, arguments}, set_local: {file, line, name, value}, env, args, "
                "order: [nodeids], name}; the changes with call or when. Values: {$eval}",
                items="object",
            ),
            Param("repeat", "integer", "Runs of each", default=1, minimum=1, maximum=100),
            Param("evaluate", "array", "At the failure or the test's end", items="string"),
            Param("suggest", "boolean", "Add likely return values", default=False),
            *_BOUNDS,
        ),
    ),
)
