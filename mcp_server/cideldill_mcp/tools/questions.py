"""The tools that answer a whole question about a test, with processes of their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from cideldill_mcp.questions.asking.asker import TIMEOUT_S, Asker, Bounds
from cideldill_mcp.questions.asking.beside_runs import asker_of
from cideldill_mcp.questions.asking.registry import MAX_TIMEOUT_S
from cideldill_mcp.questions.diff.ask_diff import AUTO, Diff, diff, diff_against
from cideldill_mcp.questions.experiment.ask_experiment import Experiments, experiment
from cideldill_mcp.questions.experiment.experiment_specs import experiments_of
from cideldill_mcp.questions.source.ask_source import Source, source
from cideldill_mcp.questions.suspects.ask_suspects import LIMIT, MAX_LIMIT, Suspects, suspects
from cideldill_mcp.questions.texts.fitting import MAX_CHARS
from cideldill_mcp.questions.trace.ask_trace import Trace, trace
from cideldill_mcp.questions.watch.ask_watch import MAX_CHANGES, MOST_CHANGES, WatchQuestion, watch
from cideldill_mcp.questions.why.ask_why import Why, why
from cideldill_mcp.replies.render import MAX_MAX_CHARS
from cideldill_mcp.tools.definitions import Param, Reply, Request, Tool

T = TypeVar("T")

ROOM = 4_000
"""Characters of a reply beside its text, at most."""

_ESCAPED = 2
"""Characters that a line feed or a quote of the text takes in JSON."""

_TABLE_ROOM = 16_000
"""Characters of the outcomes of 50 tests in 20 experiments, at most."""

_FUNCTION_ROOM = 400
"""Characters of an item of `functions`, at most."""


async def ask_why(request: Request) -> Reply:
    """`test_why`: all that is to be found about one failing test."""
    return _reply(request, await _answer(request, why, Why(request["nodeid"])))


async def ask_trace(request: Request) -> Reply:
    """`test_trace`: the tree of calls of a test, or each line of one call."""
    asked = Trace(
        request["nodeid"],
        request["function"],
        request["call"],
        request["when"],
        request["depth"],
    )
    return _reply(request, await _answer(request, trace, asked))


async def ask_watch(request: Request) -> Reply:
    """`test_watch`: each change of a value, and who made it."""
    question = WatchQuestion(
        request["nodeid"],
        request["expression"],
        request["function"],
        request["module"],
        request["call"],
        request["when"],
        request["until"],
        request["max_changes"],
    )
    return _reply(request, await _answer(request, watch, question))


async def ask_diff(request: Request) -> Reply:
    """`test_diff`: where a failing test and a passing one first do something else."""
    against = diff_against(request["against"])
    asked = Diff(request["nodeid"], against, request["function"], request["ignore"] or [])
    return _reply(request, await _answer(request, diff, asked))


async def ask_source(request: Request) -> Reply:
    """`test_source`: a function as written; with a test, how often each line ran."""
    asked = Source(request["function"], request["file"], request["line"], request["nodeid"])
    return _reply(request, await _answer(request, source, asked))


async def ask_experiment(request: Request) -> Reply:
    """`test_experiment`: what becomes of tests if this were otherwise?"""
    experiments = Experiments(
        request["nodeids"],
        experiments_of(request["experiments"] or []),
        request["repeat"],
        request["evaluate"] or [],
        request["suggest"],
        request["fresh"],
    )
    return _reply(request, await _answer(request, experiment, experiments), _TABLE_ROOM)


async def ask_suspects(request: Request) -> Reply:
    """`test_suspects`: which functions failing tests run, and passing ones do not."""
    nodeids = tuple(request["nodeids"] or ())
    asked = Suspects(nodeids, request["keyword"], request["markers"], request["limit"])
    body = await _answer(request, suspects, asked)
    return _reply(request, body, len(body["functions"]) * _FUNCTION_ROOM)


async def _answer(
    request: Request, ask: Callable[[Asker, T, Bounds], Awaitable[dict[str, Any]]], asked: T
) -> dict[str, Any]:
    asker = asker_of(request.questions, request.runs, request.progress)
    return await ask(asker, asked, Bounds(request.max_chars, request["timeout_s"]))


def _reply(request: Request, body: dict[str, Any], further: int = 0) -> Reply:
    return Reply(body, room=_ESCAPED * request.max_chars + ROOM + further)


_FUNCTION = "shop.cart.Cart.total, shop/cart.py::Cart.total, or the bare name"

_BOUNDS = (
    Param(
        "timeout_s",
        "number",
        default=TIMEOUT_S,
        minimum=1,
        maximum=MAX_TIMEOUT_S,
    ),
    Param(
        "max_chars",
        "integer",
        default=MAX_CHARS,
        minimum=500,
        maximum=MAX_MAX_CHARS,
    ),
)

TOOLS = (
    Tool(
        "test_why",
        "Why a test fails",
        "Start here: why does this test fail? In one answer where the wrong value came from, "
        "swallowed exceptions, what only this test ran, where it parts from a passing one, edits "
        "that it ran, and the likeliest functions with source. Runs the test beside any run.",
        ask_why,
        (Param("nodeid", "string", required=True), *_BOUNDS),
        is_always_loaded=True,
    ),
    Tool(
        "test_trace",
        "Trace a test or a call",
        "What a test did, without reading files. Without function: the folded tree of calls of "
        "your code, with arguments, results and exceptions. With function: each line of one call "
        "in order, what it changed, branches, loops folded.",
        ask_trace,
        (
            Param("nodeid", "string", required=True),
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
        "that made it and its caller, also through other names of the object; what else holds it.",
        ask_watch,
        (
            Param("nodeid", "string", required=True),
            Param(
                "expression",
                "string",
                "self.items[0].price, len(queue); without function: shop.cart.CACHE, or a local of "
                "the test",
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
        "test_diff",
        "Where two runs part",
        "Where a failing and a passing run first differ: the first call that got the same and did "
        "something else, the value that differs with its path, the first differing line.",
        ask_diff,
        (
            Param("nodeid", "string", "The failing test", required=True),
            Param(
                "against",
                "any",
                "Node id; auto: one that passes; {patch…}: with this; r3, a record: there",
                default=AUTO,
            ),
            Param("function", "string", "Only its calls, and what they call"),
            Param("ignore", "array", "Globs over paths: order.items[*].id", items="string"),
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
            Param("function", "string", f"{_FUNCTION}; or a class; or several, with commas"),
            Param("file", "string", "With line: what is around it"),
            Param("line", "integer", minimum=1),
            Param("nodeid", "string", "Mark the lines that this test ran"),
            *_BOUNDS,
        ),
    ),
    Tool(
        "test_experiment",
        "What if?",
        "Try a fix or a suspicion without an edit: runs tests as they are and with something "
        "changed, in fresh processes. cause names the change that makes the failing test pass and "
        "breaks no other.",
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
            Param("suggest", "boolean", "Add likely results", default=False),
            Param("fresh", "boolean", default=False),
            *_BOUNDS,
        ),
    ),
)
