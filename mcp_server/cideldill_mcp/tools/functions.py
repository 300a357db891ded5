"""The tools for function breakpoints, for pauses at calls, and for the REPL of a pause."""

from __future__ import annotations

import time
from operator import itemgetter
from typing import Any

from cideldill_mcp.replies.lean import with_values
from cideldill_mcp.runs.breakpoint_sync import remove_everywhere, set_everywhere
from cideldill_mcp.runs.run import Run
from cideldill_mcp.tools import run_replies
from cideldill_mcp.tools.catalog import foreseen, parsed, stored
from cideldill_mcp.tools.definitions import AFTER, Param, Reply, Request, Tool, behind
from cideldill_mcp.tools.next_steps import next_steps
from pytest_cideldill.errors import ErrorCode, Refusal, invalid, missing
from pytest_cideldill.protocol import Evaluate, Interrupt, Resume
from pytest_cideldill.sourcecode.quiet import compile_condition

BEHAVIORS = ("stop", "go", "yield")

RESUME_S = 10.0
"""How long a parked thread may take to check a resume command (it may evaluate expressions)."""

WAIT_S = 25.0
"""The default bound of every wait."""

MAX_WAIT_S = 3_600
"""The longest time that a client may choose for a wait or an evaluation."""

MAX_EXPRESSIONS = 50
"""Evaluations of one call."""


async def list_breakpoints(request: Request) -> Reply:
    """`breakpoint_list_breakpoints`: every name with its behaviors."""
    specs = {added.spec.function_name: added.spec for added in request.desired.functions}
    names = list(behind(sorted(specs), str, request["after"]))
    body = {
        "breakpoints": names,
        "behaviors": {name: specs[name].behavior for name in names},
        "after_behaviors": {name: specs[name].after_behavior for name in names},
        "replacements": {name: made for name in names if (made := specs[name].replacement)},
        "total_count": len(specs),
    }
    in_step = {"breakpoints": ("behaviors", "after_behaviors", "replacements")}
    return Reply(body, lists=["breakpoints"], cursor=str, in_step=in_step)


async def add(request: Request) -> Reply:
    """`breakpoint_add`: check everything first, then set it in every live process."""
    name = parsed(request, request["function_name"]).text
    condition = request["condition"]
    if condition:
        try:
            compile_condition(condition)
        except ValueError as error:
            raise Refusal(ErrorCode.INVALID_CONDITION, str(error), condition=condition) from error
    behavior = request["behavior"] if "behavior" in request.sent else None
    is_new = request.desired.named(name) is None
    added = request.desired.add_function(name, behavior, condition)
    try:
        await set_everywhere(request.runs.active, added)
        bound = await foreseen(request, added) or added
    except Refusal:
        if is_new:
            request.desired.remove(added.id)
            await remove_everywhere(request.runs.active, added.id)
        raise
    body: dict[str, Any] = {
        "status": "ok",
        "function_name": name,
        "id": added.id,
        "functions": bound.functions,
        "verified": bound.verified,
        "via": bound.via,
    }
    if bound.message is not None:
        body["message"] = bound.message
    return Reply(body, lists=["functions"])


async def remove(request: Request) -> Reply:
    """`breakpoint_remove`: by name (idempotent) or by id."""
    name, id = (request["function_name"] or "").strip(), request["id"]
    if not name and not id:
        raise missing(
            "function_name", "give function_name or id; breakpoint_list_breakpoints shows the names"
        )
    breakpoint = request.desired.meant(id) if id else stored(request, name)
    if breakpoint is not None:
        name = getattr(breakpoint.spec, "function_name", name)
        id = id and breakpoint.id
        request.desired.remove(breakpoint.id)
        await remove_everywhere(request.runs.active, breakpoint.id)
    removed = {"id": id} if id else {"function_name": name}
    return Reply({"status": "ok", "success": True, **removed})


async def list_paused(request: Request) -> Reply:
    """`breakpoint_list_paused`: every parked thread of every run."""
    paused = [
        run_replies.pause_body(pause) for run in request.runs for pause in run.pauses.values()
    ]
    shown = behind(paused, itemgetter("id"), request["after"])
    body = {"paused": shown, "total_count": len(paused)}
    return Reply(body, lists=["paused"], cursor=itemgetter("id"))


async def resume(request: Request) -> Reply:
    """`breakpoint_continue`: the parked thread checks the request, then it goes on."""
    pause_id = request["pause_id"]
    run, target = request.runs.owner_of(pause_id)
    pause = run.pauses[pause_id]
    before = request.runs.log.last_seq
    done = await target.ask(
        lambda number: _resume_command(number, request),
        RESUME_S,
        on_timeout=lambda number: target.send(Interrupt(number)),
    )
    run.released(pause_id)  # waits that begin now must not count it as paused
    _note_change(run, pause, request)
    body: dict[str, Any] = {"status": "ok", "pause_id": pause_id, "action": done["action"]}
    if not request["wait"]:
        return Reply(body)
    await run_replies.settled(request, run, WAIT_S, before)
    body |= await run_replies.stuck(run, WAIT_S)
    body |= run_replies.verdict(run)
    body["stops"] = run_replies.pauses(run, request.max_chars, before)
    body["next"] = next_steps(run, request.runs)
    return Reply(body, lists=["stops", "neverHit", "no_progress"])


def _resume_command(number: int, request: Request) -> Resume:
    return Resume(
        request=number,
        pause_id=request["pause_id"],
        action=request["action"],
        modified_args=request["modified_args"],
        modified_kwargs=request["modified_kwargs"],
        fake_result=request["fake_result"],
        exception_type=request["exception_type"],
        exception_message=request["exception_message"],
        replacement_function=(request["replacement_function"] or "").strip(),
    )


def _note_change(run: Run, pause: dict[str, Any], request: Request) -> None:
    """Note the change in words: results report it, and it may be the cause of a new verdict."""
    call, called = pause["call_data"], ""
    if call:
        shown = [*call["pretty_args"], *(f"{k}={v}" for k, v in call["pretty_kwargs"].items())]
        called = f"{call['qualified_name']}({', '.join(shown)})"
    words = {
        "replace": f"the replacement of {called}",
        "skip": f"the result of {called}",
        "raise": f"the exception of {called}" if called else "the exception",
        "modify": f"the argument list of {called}",
    }
    action = request["action"]
    if request["replacement_function"]:
        action = "replace"
    elif request["modified_args"] is not None or request["modified_kwargs"] is not None:
        action = "modify"
    if action in words:
        _note(run, pause, f"{words[action]} {_where(pause)}", request)


def _note(run: Run, pause: dict[str, Any], what: str, request: Request) -> None:
    """Note a change by force in the run, and among what was tried."""
    run.changed(pause, what)
    nodeid = pause["nodeid"]
    if nodeid is not None:
        request.questions.ledger.add_open(
            f"{run.id} changed {what}", nodeid, lambda: _verdict(run, nodeid)
        )


def _verdict(run: Run, nodeid: str) -> str:
    """What became of a test; empty: it is not over."""
    test = run.results.of(nodeid)
    if test is not None and test.has_ended and test.outcome:
        return test.outcome
    return "the run ended before" if run.is_over else ""


def _where(pause: dict[str, Any]) -> str:
    return f"({pause['location']['file']}:{pause['location']['line']})"


async def repl_eval(request: Request) -> Reply:
    """`breakpoint_repl_eval`: evaluate on the paused thread, bounded by `timeout_s` as a whole."""
    sources = _sources(request)
    _check_session(request)
    deadline = time.monotonic() + request["timeout_s"]
    results: list[dict[str, Any]] = []
    for source in sources:
        try:
            results.append(await _evaluated(request, source, deadline - time.monotonic()))
        except Refusal as refusal:
            if not results:
                raise
            raise Refusal(
                refusal.code, refusal.message, **refusal.extra, results=_in_one_session(results)
            ) from None
    if request["expressions"] is None:
        return Reply(results[0])
    session_id = results[0]["session_id"]
    body = {"session_id": session_id, "results": _in_one_session(results)}
    return Reply(body, lists=["results"])


def _in_one_session(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The results without the session, which is the same, and without keys that have no value."""
    return [
        with_values({key: value for key, value in done.items() if key != "session_id"})
        for done in results
    ]


def _sources(request: Request) -> list[str]:
    """What is to be evaluated: `expression`, or all of `expressions`.

    Raises:
        Refusal: `missing_expression`, `invalid_parameter`.
    """
    expression, expressions = request["expression"], request["expressions"]
    if expression is not None and expressions is not None:
        raise invalid(
            "expressions",
            "give expression or expressions, not both",
            "expressions without expression",
        )
    if expressions is not None and not 1 <= len(expressions) <= MAX_EXPRESSIONS:
        raise invalid(
            "expressions",
            f"parameter 'expressions' has {len(expressions)} items, expected 1 to "
            f"{MAX_EXPRESSIONS}",
            f"array of 1 to {MAX_EXPRESSIONS} strings",
        )
    name = "expression" if expressions is None else "expressions"
    sources = [expression] if expressions is None else expressions
    for source in sources:
        if not isinstance(source, str) or not source.strip():
            raise Refusal(
                ErrorCode.MISSING_EXPRESSION,
                f"parameter {name!r} must hold "
                + ("an expression" if expressions is None else "expressions")
                + " or statements",
                parameter=name,
            )
    return sources


async def _evaluated(request: Request, source: str, seconds: float) -> dict[str, Any]:
    """The result of one evaluation, which has so many seconds left.

    Raises:
        Refusal: `pause_not_found`, `eval_timeout`, …
    """
    pause_id = request["pause_id"]
    run, target = request.runs.owner_of(pause_id)
    pause = run.pauses[pause_id]
    if seconds <= 0:
        raise _timeout(request, stopped=True)
    try:
        done = await target.ask(
            lambda number: Evaluate(
                number, pause_id, source, request["session_id"], request["frame_index"]
            ),
            seconds,
            on_timeout=lambda number: target.send(Interrupt(number)),
        )
    except Refusal as refusal:
        if refusal.code is not ErrorCode.PROCESS_BUSY:
            raise
        raise _timeout(request, stopped=False) from None
    for name in done.pop("changed"):
        if pause["phase"] != "post_mortem":  # there the verdict is made
            _note(run, pause, f"the value of {name} {_where(pause)}", request)
    if pause_id in run.pauses and done["session_id"] not in pause["repl_sessions"]:
        pause["repl_sessions"].append(done["session_id"])
    if done.pop("timed_out"):
        raise _timeout(request, stopped=True)
    return done


def _check_session(request: Request) -> None:
    session_id = request["session_id"]
    if any(session_id in run.closed_sessions for run in request.runs):
        raise Refusal(
            ErrorCode.SESSION_CLOSED,
            f"REPL session {session_id!r} ended with its pause; leave session_id out",
            session_id=session_id,
            pause_id=request["pause_id"],
        )


def _timeout(request: Request, *, stopped: bool) -> Refusal:
    outcome = "was interrupted" if stopped else "did not stop (C code?); its thread is still in it"
    return Refusal(
        ErrorCode.EVAL_TIMEOUT,
        f"the evaluation took longer than {request['timeout_s']} s and {outcome}",
        pause_id=request["pause_id"],
        stopped=stopped,
    )


_PAUSE_ID = Param("pause_id", "string", "As r1.main.1", required=True)

TOOLS = (
    Tool(
        "breakpoint_list_breakpoints",
        "List function breakpoints",
        "Behaviors and replacements of function breakpoints. breakpoint_list has every kind.",
        list_breakpoints,
        (AFTER,),
        reads_only=True,
        is_list=True,
    ),
    Tool(
        "breakpoint_add",
        "Add a function breakpoint",
        "Pause before a function is called: to see or change its arguments, or to skip the call "
        "and prove a cause. The same name again changes it.",
        add,
        (
            Param(
                "function_name",
                "string",
                "total, shop.cart.Cart.total, shop/cart.py::Cart.total or shop.*",
                required=True,
            ),
            Param(
                "behavior",
                "string",
                "go: only record",
                default="yield",
                choices=BEHAVIORS,
                refuse_as=ErrorCode.INVALID_BEHAVIOR,
            ),
            Param("condition", "string", "Over the arguments; only when true"),
        ),
        idempotent=True,
    ),
    Tool(
        "breakpoint_remove",
        "Remove a breakpoint",
        "Remove any breakpoint by its id, one on a function by its name too. Pauses stay.",
        remove,
        (Param("function_name", "string"), Param("id", "string", "As fn-1", is_numbered=True)),
        idempotent=True,
    ),
    Tool(
        "breakpoint_list_paused",
        "List paused tests",
        "Every paused thread: why, where, arguments, locals. When a reply has pending, or several "
        "threads stopped.",
        list_paused,
        (AFTER,),
        reads_only=True,
        is_list=True,
    ),
    Tool(
        "breakpoint_continue",
        "Continue a pause",
        "Let a paused call or failed test go on, or change what happens: other arguments, skip "
        "with a fake_result, raise. With wait, the reply has the next stop or the verdict.",
        resume,
        (
            _PAUSE_ID,
            Param(
                "action",
                "string",
                "continue, skip (return fake_result instead), raise",
                default="continue",
            ),
            Param(
                "modified_args",
                "array",
                'Leading positional arguments; {"$eval": "…"} as value',
                are_values=True,
            ),
            Param("modified_kwargs", "object", "Keyword arguments to replace", are_values=True),
            Param(
                "fake_result", "any", 'With skip, as {"$eval": "__return__ + 1"}', are_values=True
            ),
            Param("exception_type", "string", "With raise", default="Exception"),
            Param("exception_message", "string", "With raise", default=""),
            Param("replacement_function", "string", "Before a call: call this one instead"),
            Param("wait", "boolean", "Wait for the next stop or the end", default=False),
        ),
        destroys=True,
    ),
    Tool(
        "breakpoint_repl_eval",
        "Evaluate in a paused frame",
        "Run Python in the frame that the stop shows: read and change variables, call functions, "
        "with fixtures alive. After a call: __return__ or __exception__.",
        repl_eval,
        (
            _PAUSE_ID,
            Param("expression", "any", "Expression or statements"),
            Param("expressions", "array", "Several instead, in order: results", items="string"),
            Param("session_id", "string", "Default: the pause's own"),
            Param(
                "frame_index",
                "integer",
                "0 is innermost. Default: as shown",
                minimum=0,
            ),
            Param("timeout_s", "number", default=30, minimum=0.1, maximum=MAX_WAIT_S),
        ),
        destroys=True,
    ),
)
