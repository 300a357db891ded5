"""The shapes of all replies, resources and notifications; every one in the tests is checked.

Per tool the keys that are always there, with their types; those that may be missing end in `?`, and
names of a closed set are listed. What a reply has besides is free. `null` stands where a
value may be unknown. The helpers that receive replies call `check`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from cideldill_mcp.tools.control import EVENT_TYPES
from pytest_cideldill.errors import ErrorCode
from tests.json_shapes import ANY, NUMBER, Shape, every, like, maybe, misfits, one_of

# --- parts --------------------------------------------------------------------------------------

BREAKPOINT_ID = like(r"(bp|tp|ex|fn)-\d+")
RUN_ID = like(r"r\d+")
PAUSE_ID = like(r"r\d+\.\w+\.\d+")
BEHAVIOR = one_of("stop", "go", "yield")
AFTER_BEHAVIOR = one_of("stop", "go", "exception", "stop_exception", "yield")
DEFAULT_BEHAVIOR = one_of("stop", "go", "exception", "stop_exception")
STATE = one_of(
    "idle", "starting", "collecting", "running", "paused", "stopping", "finished", "crashed"
)
PHASE = one_of("before", "after", "exception", "raise", "line", "post_mortem")
REASON = one_of("breakpoint", "exception", "test_failure", "step", "interrupt", "condition_error")
WHEN = one_of("setup", "call", "teardown")
BOUND = one_of("bound", "pending", "disabled")
OK = one_of("ok")
TRUE = one_of(True)
NEXT = [like(".+")]

PLACE = {"file": str, "line": int}
LOCATION = PLACE | {"function": str}
"""Of a breakpoint."""

SPOT = LOCATION | {"source": maybe(str)}
"""Of a pause."""

EXCEPTION = {"type": maybe(str), "message": str}
PAGED = {"total_count": int, "truncated?": bool, "next_after?": ANY}

CALL_DATA = {
    "method_name": str,
    "qualified_name": str,
    "pretty_args": [str],
    "pretty_kwargs": every(str),
    "signature": maybe(str),
    "call_site": maybe(PLACE),
    "call_id": str,
    "process_pid": int,
    "pretty_result?": str,
    "exception?": EXCEPTION,
}

PAUSE = {
    "id": PAUSE_ID,
    "call_data": maybe(CALL_DATA),
    "paused_at": NUMBER,
    "repl_sessions": [str],
    "pause_reason": REASON,
    "phase": PHASE,
    "when": maybe(WHEN),
    "breakpoint_id": maybe(BREAKPOINT_ID),
    "nodeid": maybe(str),
    "run_id": RUN_ID,
    "worker": str,
    "thread": {"id": int, "name": str},
    "location": SPOT,
    "locals": every(str),
    "lease_expires_at": maybe(NUMBER),
}

ASSERTION = {"left?": maybe(str), "op?": maybe(str), "right?": maybe(str), "explanation?": str}
"""Without a right side: of the truth of one value; null: only code could tell it."""

VARIABLE = {"name": str, "type": str, "value": str}

FRAME = {
    "index": int,
    "function": str,
    "module": maybe(str),
    "isExternal": bool,
    "location": PLACE,
    "arguments": maybe([VARIABLE]),
    "variables": maybe({"locals": [VARIABLE]}),
}

CONTEXT = {
    "threadId": maybe(int),
    "exception": {
        "type": str,
        "message": str,
        "isFirstChance": bool,
        "stackTraceString": maybe(str),
    },
    "innerExceptions": [
        {
            "type": str,
            "message": str,
            "depth": int,
            "relation": one_of("cause", "context", "member", "suppressed"),
        }
    ],
    "innerExceptionsTruncated": bool,
    "frames": [FRAME],
    "totalFrames": int,
    "throwingFrameIndex": int,
    "userFrameIndex": int,
    "assertion?": ASSERTION,
    "notes": [str],
}

_LEAN_VARIABLE = {"name": str, "type?": str, "value": str, "children?": [ANY]}

LEAN_AUTOPSY = {
    "exception": {
        "type": str,
        "message?": str,
        "isFirstChance?": TRUE,
        "stackTraceString?": str,
    },
    "frames": [
        {
            "index?": int,
            "function": str,
            "isExternal?": TRUE,
            "location": PLACE,
            "source?": str,
            "arguments?": [_LEAN_VARIABLE],
            "variables?": {"locals?": [_LEAN_VARIABLE]},
        }
    ],
    "totalFrames?": int,
    "userFrameIndex?": int,
    "assertion?": dict.fromkeys(("left?", "op?", "right?", "explanation?"), str),
    "innerExceptions?": [{"type": str, "message?": str, "depth": int, "relation": str}],
    "innerExceptionsTruncated?": TRUE,
    "notes?": [str],
    "parameters?": every(str),
    "siblings?": {"passed": [str], "failed": [str]},
    "fixtures?": [{"name": str, "scope": str, "value?": str}],
    "stdout?": str,
    "stderr?": str,
    "log?": str,
}
"""Of a stop: a key without a value is absent."""

STOP = {
    "pause_id": PAUSE_ID,
    "seq": int,
    "reason": REASON,
    "phase": PHASE,
    "when?": WHEN,
    "breakpoint_id?": BREAKPOINT_ID,
    "nodeid?": str,
    "worker?": str,
    "thread?": {"id": int, "name": str},
    "location": LOCATION | {"source?": str},
    "locals?": every(str),
    "call_data?": {key if key[-1] == "?" else f"{key}?": CALL_DATA[key] for key in CALL_DATA},
    "exception?": EXCEPTION,
    "autopsy?": LEAN_AUTOPSY,
}

HIT = {
    "seq": int,
    "breakpoint_id": maybe(BREAKPOINT_ID),
    "nodeid": maybe(str),
    "location": LOCATION,
    "message": maybe(str),
}

FAILURE = {
    "nodeid": str,
    "phase": str,
    "exception": maybe(EXCEPTION),
    "location": maybe(PLACE),
    "group": maybe(like(r"g\d+")),
    "assertion?": ASSERTION,
}

END = {
    "kind": one_of(
        "finished", "interrupted", "startup_error", "no_tests", "internal_error", "crashed"
    ),
    "signal?": str,
    "lastTest?": str,
    "stacks?": str,
    "teardown?": one_of("cut"),
}

OUTCOMES = {"passed": int, "failed": int}

VERDICT = {
    "state": one_of("running", "paused", "finished", "crashed"),
    "exit_code?": maybe(int),
    "end?": maybe(END),
    "outcomes": OUTCOMES,
    "duration_s": NUMBER,
}

NEVER_HIT = {
    "id": BREAKPOINT_ID,
    "whyNotHit": like(
        "(never_imported|never_called|line_not_reached|condition_false|disabled|other_worker"
        "|no_code).*"
    ),
}

LISTED = {
    "id": BREAKPOINT_ID,
    "type": one_of("blocking", "tracepoint", "exception", "function"),
    "enabled": bool,
    "verified": bool,
    "state": BOUND,
    "file": maybe(str),
    "line": maybe(int),
    "hit_count": maybe(int),
    "condition": maybe(str),
    "logMessage?": str,
    "hitCountMultiple?": int,
    "maxNotifications?": int,
    "notificationsSent?": int,
    "conditionErrors?": int,
    "lastConditionError?": maybe(str),
    "whyNotHit?": NEVER_HIT["whyNotHit"],
}

THREAD = {
    "id": int,
    "worker": str,
    "name": str,
    "state": str,
    "is_current": bool,
    "paused": maybe(PAUSE_ID),
    "location": maybe(LOCATION),
}

PROCESS = {
    "processId": maybe(int),
    "processName": maybe(str),
    "executablePath": maybe(str),
    "runtimeVersion": maybe(str),
    "state": str,
    "launchMode": maybe(str),
    "attachedAt": ANY,
    "currentLocation": ANY,
    "pauseReason": maybe(REASON),
    "activeThreadId": maybe(int),
    "commandLineArgs": maybe([str]),
    "workingDirectory": maybe(str),
    "runId": maybe(RUN_ID),
    "rootdir": maybe(str),
}
"""In `debugger://session`."""

RECORD = {
    "call_id": str,
    "method_name": str,
    "qualified_name": str,
    "status": one_of("success", "exception", "running"),
    "pretty_args": [str],
    "pretty_kwargs": every(str),
    "pretty_result": maybe(str),
    "exception": maybe(EXCEPTION),
    "started_at": NUMBER,
    "completed_at": maybe(NUMBER),
    "parent_id": maybe(str),
    "nodeid": maybe(str),
    "run_id": RUN_ID,
    "worker": str,
    "thread": int,
    "call_site": maybe(PLACE),
    "cids": {"args": [maybe(str)], "kwargs": every(maybe(str)), "result": maybe(str)},
    "replaced_by?": maybe(str),
    "altered?": one_of("args", "result", "exception", None),
}

ANSWER = {
    "id": like(r"q\d+"),
    "text": like(".*\\S.*"),
    "seconds": NUMBER,
    "truncated?": TRUE,
    "next": [str],
}
"""Of a question."""

# --- replies ------------------------------------------------------------------------------------

TABLE: dict[str, Shape] = {
    "breakpoint_list_breakpoints": {
        "breakpoints": [str],
        "behaviors": every(BEHAVIOR),
        "after_behaviors": every(AFTER_BEHAVIOR),
        "replacements": every(str),
    },
    "breakpoint_add": {
        "status": OK,
        "function_name": str,
        "id": like(r"fn-\d+"),
        "functions": [str],
        "verified": bool,
        "via": one_of("code", "attribute", None),
        "message?": str,
    },
    "breakpoint_remove": {
        "status": OK,
        "success": TRUE,
        "id?": BREAKPOINT_ID,
        "function_name?": str,
    },
    "breakpoint_set_behavior": {"status": OK, "function_name": str, "behavior": BEHAVIOR},
    "breakpoint_set_after_behavior": {
        "status": OK,
        "function_name": str,
        "behavior": AFTER_BEHAVIOR,
    },
    "breakpoint_set_replacement": {
        "status": OK,
        "function_name": str,
        "replacement_function": str,
    },
    "breakpoint_get_default_behavior": {"behavior": DEFAULT_BEHAVIOR},
    "breakpoint_set_default_behavior": {"status": OK, "behavior": DEFAULT_BEHAVIOR},
    "breakpoint_list_paused": {"paused": [PAUSE]},
    "breakpoint_continue": {
        "status": OK,
        "pause_id": PAUSE_ID,
        "action": one_of("continue", "skip", "raise", "replace", "modify"),
    },
    "breakpoint_list_functions": {
        "functions": [str],
        "signatures": every(str),
        "metadata": every({"file": str, "line": int, "kind": str, "calls": int}),
        "total_count": int,
        "truncated": bool,
    },
    "breakpoint_get_call_records": {
        "calls": [RECORD],
        "total_count": int,
        "truncated": bool,
        "next_before?": str,
    },
    "breakpoint_repl_eval": {"session_id": str},
    "breakpoint_inspect_object": {
        "cid": str,
        "type": str,
        "repr": str,
        "attributes": every(ANY),
        "length?": maybe(int),
        "truncated?": bool,
    },
    "breakpoint_set": {
        "success": TRUE,
        "id": like(r"(bp|tp)-\d+"),
        "type": one_of("blocking", "tracepoint"),
        "verified": bool,
        "state": BOUND,
        "location": LOCATION,
        "message?": str,
    },
    "tracepoint_set": {
        "success": TRUE,
        "tracepoint": {
            "id": like(r"tp-\d+"),
            "type": one_of("tracepoint"),
            "location": LOCATION,
            "state": BOUND,
            "enabled": bool,
            "logMessage": str,
            "hitCountMultiple": int,
            "maxNotifications": int,
        },
    },
    "breakpoint_set_exception": {
        "success": TRUE,
        "breakpoint": {
            "id": like(r"ex-\d+"),
            "exceptionType": str,
            "breakOnFirstChance": bool,
            "breakOnSecondChance": bool,
            "includeSubtypes": bool,
            "enabled": bool,
            "verified": bool,
            "hitCount": int,
        },
    },
    "breakpoint_list": {"breakpoints": [LISTED]},
    "breakpoint_enable": {
        "success": TRUE,
        "breakpoint": {
            "state": BOUND,
            "enabled": bool,
            "verified": bool,
            "hitCount": int,
        },
    },
    "breakpoint_wait": {"hit": bool, "hits": [HIT]},
    "exception_get_context": CONTEXT,
    "debug_state": {
        "rootdir": maybe(str),
        "hash_seed": str,
        "state": STATE,
        "run_id?": RUN_ID,
        "engine": maybe({"name": str}),
        "running": [{"nodeid": str, "phase": maybe(str), "worker": str, "seconds": maybe(NUMBER)}],
        "paused": [PAUSE_ID],
        "outcomes": every(int),
        "counts": {"breakpoints": int, "records": int, "events": int, "dropped": int},
        "questions?": [
            {
                "id": like(r"q\d+"),
                "question": str,
                "nodeid": maybe(str),
                "seconds": NUMBER,
                "doing": str,
            }
        ],
        "tried?": [str],
        "next": NEXT,
    },
    "debug_continue": {"status": OK, "resumed": [PAUSE_ID]},
    "debug_pause": {
        "status": one_of("paused", "already_paused", "not_stopped"),
        "pause_id": maybe(PAUSE_ID),
        "running": [{"nodeid": str, "phase": maybe(str), "location": maybe(LOCATION)}],
        "threads": [{"id": int, "name": maybe(str), "location": maybe(LOCATION), "stack": [ANY]}],
    },
    "debug_step": {
        "reason": one_of("step", "breakpoint", "exception", "test_finished", "running"),
        "pause_id": PAUSE_ID,
        "location?": LOCATION | {"source?": str},
        "changed?": every(str),
    },
    "stacktrace_get": {
        "thread_id": int,
        "frames": [
            {
                "index": int,
                "function": str,
                "module": maybe(str),
                "isExternal": bool,
                "location": PLACE,
                "source": maybe(str),
            }
        ],
        "total_frames": int,
    },
    "variables_get": {},
    "threads_list": {
        "threads": [THREAD],
        "tasks": [{"name": str, "state": str, "location": maybe(LOCATION), "awaits": [str]}],
        "stale": bool,
        "capturedAt": NUMBER,
    },
    "timeline_get": {
        "events": [
            {
                "seq": int,
                "ts": NUMBER,
                "type": one_of(*EVENT_TYPES),
                "run_id": maybe(str),
                "worker": maybe(str),
                "nodeid": maybe(str),
                "thread": maybe(int),
            }
        ],
        "next_after": int,
        "dropped": int,
    },
    "test_source": ANSWER
    | {
        "nodeid?": str,
        "outcome?": str,
        "file": str,
        "first": int,
        "last": int,
        "lines_run?": int,
    },
    "test_experiment": ANSWER
    | {
        "nodeid": str,
        "outcome": str,
        "baseline": every(str),
        "experiments": [
            {
                "name": str,
                "applied": bool,
                "flips": [str],
                "flips_count?": int,
                "breaks": [str],
                "breaks_count?": int,
                "outcomes": every(str),
                "failure?": str,
                "values?": every(str),
                "suggested?": TRUE,
            }
        ],
        "cause?": str,
    },
    "test_why": ANSWER
    | {
        "nodeid": str,
        "outcome": str,
        "parts": [str],
        "suspects": [PLACE | {"function": str, "reason": str}],
    },
    "test_suspects": ANSWER
    | {
        "functions": [
            {
                "function": str,
                "file": str,
                "line": int,
                "score": NUMBER,
                "failing": int,
                "passing": int,
            }
        ],
    },
    "test_diff": ANSWER
    | {
        "nodeid": str,
        "outcome": str,
        "against": str,
        "equal": bool,
        "divergence?": PLACE | {"function": str, "path": str, "left": str, "right": str},
        "noise": int,
    },
    "test_trace": ANSWER
    | {
        "nodeid": str,
        "outcome": str,
        "calls": int,
        "function?": str,
        "call?": int,
        "source?": {"file": str, "first": int, "last": int},
    },
    "test_watch": ANSWER
    | {
        "nodeid": str,
        "outcome": str,
        "changes": int,
        "writers": [{"function": str, "file": str, "line": int, "count": int}],
        "aliases": [str],
        "became_true?": {"function": str, "file": str, "line": int},
    },
    "test_list": {
        "tests": [str],
        "total_count": int,
        "errors": [{"nodeid": str, "message": str}],
        # All is collected, and its process not gone yet: `running`.
        "state?": one_of("starting", "collecting", "running", "stopping"),
        "message?": str,
    },
    "test_run": VERDICT
    | {
        "run_id": RUN_ID,
        "failures": [FAILURE],
        "stops": [STOP],
        "hits": [HIT],
        "neverHit": maybe([NEVER_HIT]),
        "missing?": [str],
        "nearest?": every([str]),
        "next": NEXT,
    },
    "test_results": {
        "tests": [
            {
                "nodeid": str,
                "outcome": maybe(str),
                "duration_s": NUMBER,
                "phase": str,
                "exception?": EXCEPTION,
                "location?": PLACE,
                "longrepr?": str,
                "stdout?": str,
                "stderr?": str,
                "log?": str,
                "group?": str,
                "worker": str,
            }
        ],
        "total_count": int,
    },
    "test_stop": {"status": str, "released": [PAUSE_ID], "end": maybe(END)},
}
"""Tool → its reply."""

PENDING = {"stops": int, "hits": int, "after": int}

RESOURCES: dict[str, Shape] = {
    "breakpoint://status": {
        "breakpoints": int,
        "paused": int,
        "calls_recorded": int,
        "default_behavior": DEFAULT_BEHAVIOR,
        "state": STATE,
        "run_id": maybe(RUN_ID),
    },
    "breakpoint://breakpoints": TABLE["breakpoint_list_breakpoints"],
    "breakpoint://paused": TABLE["breakpoint_list_paused"],
    "breakpoint://call-history": TABLE["breakpoint_get_call_records"],
    "breakpoint://functions": TABLE["breakpoint_list_functions"],
    "debugger://session": PROCESS | {"processes": [PROCESS | {"worker": str}], "stale": bool},
    "debugger://breakpoints": {
        "breakpoints": [
            {
                "id": BREAKPOINT_ID,
                "type": LISTED["type"],
                "file": maybe(str),
                "line": maybe(int),
                "column": maybe(int),
                "enabled": bool,
                "verified": bool,
                "state": BOUND,
                "hitCount": maybe(int),
                "condition": maybe(str),
                "logMessage": maybe(str),
            }
        ]
    },
    "debugger://threads": {
        "threads": [
            {
                "id": int,
                "name": str,
                "state": str,
                "isCurrent": bool,
                "worker": str,
                "location": maybe(LOCATION),
            }
        ],
        "stale": bool,
        "capturedAt": ANY,
    },
}
"""URI → its body."""

NOTIFICATIONS: dict[str, Shape] = {
    "debugger/breakpointHit": {
        "breakpointId": maybe(BREAKPOINT_ID),
        "type": one_of("blocking", "tracepoint"),
        "location": {
            "file": maybe(str),
            "line": maybe(int),
            "column": maybe(int),
            "functionName": maybe(str),
            "moduleName": maybe(str),
        },
        "threadId": maybe(int),
        "timestamp": like(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"),
        "hitCount": maybe(int),
        "logMessage": maybe(str),
        "exceptionInfo": maybe(
            {"type": str, "message": str, "isFirstChance": bool, "stackTrace": str}
        ),
        "pauseId": maybe(PAUSE_ID),
        "nodeid": maybe(str),
        "worker": maybe(str),
        "seq": int,
    },
    "notifications/breakpoint/execution_paused": {
        "pause_id": PAUSE_ID,
        "method_name": maybe(str),
        "pause_reason": maybe(REASON),
        "paused_at": maybe(NUMBER),
        "phase": maybe(PHASE),
        "nodeid": maybe(str),
        "worker": maybe(str),
    },
    "notifications/breakpoint/execution_resumed": {
        "pause_id": PAUSE_ID,
        "method_name": maybe(str),
        "action": maybe(str),
        "by": one_of("client", "lease", "disconnect", "stop", None),
    },
    "notifications/breakpoint/call_completed": {
        "call_id": maybe(str),
        "method_name": maybe(str),
        "status": one_of("success", "exception"),
    },
}
"""Method → its parameters."""

# --- replies that come in several forms ---------------------------------------------------------


def _continued(arguments: dict[str, Any], _: dict[str, Any]) -> Shape:
    if arguments.get("wait"):
        return VERDICT | {"stops": [STOP], "next": NEXT}
    return {}


def _waited(_: dict[str, Any], body: dict[str, Any]) -> Shape:
    if body.get("hit"):
        return {
            "breakpoint_id?": BREAKPOINT_ID,
            "pause_id?": PAUSE_ID,
            "thread_id": int,
            "location": LOCATION | {"module?": str},
            "hit_count?": int,
            "seq": int,
            "reason": str,
            "locals?": every(str),
            "autopsy?": LEAN_AUTOPSY,
        }
    return {
        "reason": one_of("timeout", "finished", "exited", "not_running", "paused"),
        "timeout": bool,
        "message": str,
        "state": STATE,
        "next": NEXT,
    }


def _evaluated(arguments: dict[str, Any], _: dict[str, Any]) -> Shape:
    at = {"at?": [LOCATION]}
    if arguments.get("expressions") is not None:
        result = {"output?": str, "stdout?": str, "is_error": bool, "result_cid?": str}
        return {"results": [result | at]}
    result = {"output": str, "stdout": str, "is_error": bool, "result_cid": maybe(str)}
    return result | at


def _looked_at(arguments: dict[str, Any], _: dict[str, Any]) -> Shape:
    if arguments.get("names") is None:
        return {"names": [{"name": str, "type": str}]}
    return {"variables": [VARIABLE | {"cid?": maybe(str), "has_children": bool}]}


def _run(_: dict[str, Any], body: dict[str, Any]) -> Shape:
    """What is known when it is over."""
    if body.get("state") in ("finished", "crashed"):
        return {"exit_code": maybe(int), "end": END}
    return {}


def _removed(arguments: dict[str, Any], _: dict[str, Any]) -> Shape:
    return {"id": BREAKPOINT_ID} if arguments.get("id") else {"function_name": str}


FORMS: dict[str, Callable[[dict[str, Any], dict[str, Any]], Shape]] = {
    "breakpoint_continue": _continued,
    "breakpoint_remove": _removed,
    "breakpoint_repl_eval": _evaluated,
    "breakpoint_wait": _waited,
    "test_run": _run,
    "variables_get": _looked_at,
}
"""Tool → further keys, by the arguments and the reply."""

# --- errors -------------------------------------------------------------------------------------

ERROR = {"error": one_of(*map(str, ErrorCode)), "message": like(r".*\w.*")}

OF_ERRORS: dict[str, Shape] = {
    "missing_parameter": {"parameter": str},
    "invalid_parameter": {"parameter": str, "expected": str},
    "pause_not_found": {"reason": one_of("already_resumed", "unknown")},
    "run_active": {"run_id": RUN_ID, "state": STATE},
    "invalid_line": {"nearestValidLine": maybe(int)},
    "invalid_column": {"candidates": [ANY]},
    "invalid_template": {"position": int},
}
"""Code → further keys."""

ROOM = 2_000
"""In fewer characters (`max_chars`) a reply that is cut keeps its own keys, but not all of those of
what is inside: the last resort when a reply is cut."""

# --- the check ----------------------------------------------------------------------------------


def problems(tool: str, arguments: Any, body: Any, *, is_error: bool) -> Iterator[str]:
    """Where a reply does not have its shape."""
    if is_error:
        yield from misfits(ERROR, body)
        yield from misfits(OF_ERRORS.get(body.get("error"), {}), body)
        if (tool, body.get("error")) == ("breakpoint_continue", "invalid_action"):
            yield from misfits({"allowed": [str]}, body)
        return
    if tool not in TABLE:
        yield f"the table has no tool {tool}"
        return
    given = arguments if isinstance(arguments, dict) else {}
    shape = {"pending?": PENDING, "truncated?": bool} | TABLE[tool]
    if tool in FORMS:
        shape |= FORMS[tool](given, body)
    if body.get("truncated") and given.get("max_chars", ROOM) < ROOM:
        shape = dict.fromkeys(shape, ANY)
    yield from misfits(shape, body)


def checked(tool: str, arguments: Any, text: str, *, is_error: bool) -> dict[str, Any]:
    """The body of a tool's reply.

    Raises:
        AssertionError: It does not have its shape.
    """
    body = json.loads(text)
    assert isinstance(body, dict), text
    _refuse(f"{tool} {arguments}", problems(tool, arguments, body, is_error=is_error))
    return body


def checked_resource(uri: str, text: str) -> dict[str, Any]:
    """The body of a resource.

    Raises:
        AssertionError: It does not have its shape.
    """
    body = json.loads(text)
    assert isinstance(body, dict), text
    _refuse(uri, misfits(RESOURCES.get(uri, {}), body, "body"))
    return body


def check_answer(method: str, params: Any, result: dict[str, Any]) -> None:
    """Refuse the answer to a request of the protocol that does not have its shape.

    Raises:
        AssertionError: It is not.
    """
    if method == "tools/call":
        (content,) = result["content"]
        is_error = bool(result.get("isError"))
        checked(params["name"], params["arguments"], content["text"], is_error=is_error)
    elif method == "resources/read":
        (content,) = result["contents"]
        if content["mimeType"] == "application/json":
            checked_resource(params["uri"], content["text"])


def check_notification(method: str, params: Any) -> None:
    """Refuse parameters that do not have their shape.

    Raises:
        AssertionError: They are not.
    """
    _refuse(method, misfits(NOTIFICATIONS.get(method, ANY), params, "params"))


def _refuse(what: str, found: Iterator[str]) -> None:
    reported = list(found)
    assert not reported, f"{what}: {'; '.join(reported)}"
