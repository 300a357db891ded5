"""Messages that no client should send: what Hypothesis makes of them, as bytes.

Calls that would start or end a process, or let the paused test go on, name what does not exist, so
that the scene stays the same for thousands of them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from cideldill_mcp.tools import profile
from cideldill_mcp.tools.definitions import Param, Tool

PAUSE = "r1.main.1"
"""The pause that is there."""

FORCED: dict[str, dict[str, Any]] = {
    "test_run": {"replace": False},
    "test_list": {"limit": "many"},
    "test_stop": {"run_id": "r99"},
    "breakpoint_continue": {"pause_id": "r99.main.1"},
    "debug_continue": {"pause_id": "r99.main.1"},
    "debug_step": {"pause_id": "r99.main.1"},
}

TEXTS = (
    "",
    " ",
    PAUSE,
    "r99.main.1",
    "r1",
    "bp-1",
    "tp-99",
    "fn-1",
    "test_it.py",
    "test_it.py::test_it",
    "test_it.test_it",
    "../../../etc/passwd",
    "*",
    "[",
    "{n!r:>10}",
    "{",
    "n",
    "1/0",
    "(",
    "'x' * 10**6",
    "'\\ud800'",
    "float('nan')",
    "raise SystemExit",
    "\0",
    "\ud800",
    "\u2028\u202e\ufeff",
    "KeyError",
    "stop",
    "breakpoint://paused",
    "debugger://source/../../x",
    "é" * 1000,
    "%s%n",
    "-1",
    "1" * 5000,
    "x" * 5000 + ".py::f",
    "f." * 3000,
    "f(" * 3000,
)

NUMBERS = (0, -1, 1, 2**31, 2**63, 2**64, 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf"))

METHODS = (
    "initialize",
    "ping",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
    "server/discover",
    "notifications/initialized",
    "rpc.discover",
    "",
    "\0",
)

texts = st.sampled_from(TEXTS) | st.text(max_size=30)
scalars = st.none() | st.booleans() | st.sampled_from(NUMBERS) | st.integers() | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)
_numbers = itertools.count(2**40)
ids = st.sampled_from([int, str]).map(lambda kind: kind(next(_numbers)))
"""No two are alike, so that what is late is not taken for the answer to another one."""


def argument(param: Param) -> SearchStrategy[Any]:
    """A value of the right type, or any."""
    if param.name == "timeout_s":  # a good one would be waited for
        return st.sampled_from([0.01, -1, 10**400, float("nan"), float("inf"), "1", [], True])
    right: dict[str, SearchStrategy[Any]] = {
        "string": texts | st.sampled_from(param.choices or TEXTS),
        "integer": st.integers(-5, 300) | st.sampled_from([n for n in NUMBERS if n == n // 1]),
        "number": st.floats() | st.sampled_from(NUMBERS),
        "boolean": st.booleans(),
        "array": st.lists(texts, max_size=3) | st.lists(values, max_size=3),
        "object": st.dictionaries(texts, values, max_size=3),
    }
    likely = right.get(param.type, values)
    return st.one_of(likely, likely, values)


def arguments(tool: Tool) -> SearchStrategy[Any]:
    """Arguments of a tool; some are missing, some are too many."""
    must = {
        param.name: argument(param)
        for param in tool.params
        if param.required or param.name == "timeout_s"
    }
    may = {param.name: argument(param) for param in tool.params if param.name not in must}
    fixed = FORCED.get(tool.name, {})
    known = st.fixed_dictionaries(must, optional=may | {"max_chars": values, "x": values})
    return known.map(lambda given: {**given, **fixed})


def tool_calls() -> SearchStrategy[dict[str, Any]]:
    """Calls of tools that exist, with arguments that may not fit."""

    def call(tool: Tool) -> SearchStrategy[dict[str, Any]]:
        return arguments(tool).map(lambda given: {"name": tool.name, "arguments": given})

    params = st.sampled_from(profile.ALL).flatmap(call)
    return st.builds(
        lambda id, params: {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params},
        ids,
        params,
    )


def requests() -> SearchStrategy[dict[str, Any]]:
    """Methods that exist and some that don't, with parameters that do not fit."""
    names = {"uri": texts, "name": texts, "arguments": values, "_meta": values, "cursor": values}
    params = st.fixed_dictionaries({}, optional=names) | st.dictionaries(texts, values, max_size=3)
    # A tool by a good name would do something.
    params = params.filter(lambda given: given.get("name") not in NAMES)
    return st.builds(
        lambda id, method, params: {"jsonrpc": "2.0", "id": id, "method": method, "params": params},
        ids,
        st.sampled_from(METHODS),
        params,
    )


NAMES = frozenset(tool.name for tool in profile.ALL)


def envelopes() -> SearchStrategy[Any]:
    """Messages with something wrong around what they ask for; notifications; answers to nobody."""
    method = st.sampled_from(
        [*METHODS, "notifications/cancelled", "notifications/progress", "notifications/x"]
    )
    keys: dict[Any, SearchStrategy[Any]] = {
        "jsonrpc": st.just("2.0") | values,
        "id": ids | values,
        "method": method | values,
        "params": values | st.fixed_dictionaries({"requestId": ids | values}),
        "result": values,
        "error": values | st.fixed_dictionaries({"code": values, "message": values}),
        "extra": values,
    }
    return st.fixed_dictionaries({}, optional=keys) | st.lists(tool_calls(), max_size=3) | values


def encoded(message: Any) -> SearchStrategy[bytes]:
    """Its JSON, escaped or in UTF-8; a lone surrogate then is no UTF-8."""
    plain = json.dumps(message)
    raw = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    return st.sampled_from([plain.encode(), raw.encode("utf-8", "surrogatepass")])


def damaged(data: bytes) -> SearchStrategy[bytes]:
    """It with a part cut out, or with bytes in it that do not belong there."""
    places = st.integers(0, len(data))
    junk = st.binary(max_size=6) | st.sampled_from([b"\0", b"\xff", b"\\ud800", b"\r", b'"', b"{"])
    return st.builds(
        lambda start, end, added: data[: min(start, end)] + added + data[max(start, end) :],
        places,
        places,
        junk,
    )


_CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"debug_state","arguments":'

_MONSTERS: dict[str, Callable[[int], bytes]] = {
    "lists": lambda n: b"[" * n + b"]" * n,
    "objects without an end": lambda n: b'{"a":' * n,
    "objects in an argument": lambda n: _CALL + b'{"x":' * n + b"1" + b"}" * n + b"}}",
    "argument": lambda n: _CALL + b'{"x":"' + b"y" * n + b'"}}}',
    "name": lambda n: _CALL.replace(b"debug_state", b"z" * n) + b"{}}}",
    "id": lambda n: _CALL.replace(b"7", b'"' + b"i" * n + b'"') + b"{}}}",
    "number": lambda n: _CALL + b'{"x":' + b"1" * n + b"}}}",
    "no JSON": lambda n: b"x" * n,
}


@dataclass(frozen=True, slots=True)
class Monster:
    """Too large, too deep, too long a number: what is shown of a message that is not."""

    kind: str
    size: int

    def __bytes__(self) -> bytes:
        return _MONSTERS[self.kind](self.size)


monsters = st.builds(
    Monster,
    st.sampled_from(sorted(_MONSTERS)),
    st.sampled_from([100, 199, 1_000, 10_000, 100_000, 1_000_000, 10_000_000]),
).filter(lambda monster: monster.size <= 100_000 or "objects" not in monster.kind)


well_formed = tool_calls() | requests()

single: SearchStrategy[bytes | Monster] = st.one_of(
    tool_calls().flatmap(encoded),
    tool_calls().flatmap(encoded),
    requests().flatmap(encoded),
    envelopes().flatmap(encoded),
    well_formed.flatmap(encoded).flatmap(damaged),
    st.binary(max_size=60),
    st.integers(0, 9).flatmap(lambda n: monsters if n == 0 else envelopes().flatmap(encoded)),
)


def cancelled(request: dict[str, Any], id: Any) -> list[bytes]:
    """A request, and the wish that one of this id be cancelled, both at once."""
    cancel = {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": id, "reason": "changed my mind"},
    }
    return [json.dumps(request).encode(), json.dumps(cancel).encode()]


bursts: SearchStrategy[list[bytes | Monster]] = st.one_of(
    st.lists(single, min_size=1, max_size=1),
    st.lists(single, min_size=1, max_size=1),
    st.lists(single, min_size=1, max_size=1),
    well_formed.map(lambda request: cancelled(request, request["id"])),
    st.builds(cancelled, well_formed, ids | values),
    well_formed.flatmap(encoded).map(lambda data: [data, data]),
    st.lists(single, min_size=2, max_size=4),
)
"""What is sent at once; mostly one message."""


def answers_owed(burst: list[bytes]) -> int:
    """How many answers the sender of messages gets at least.

    Of several under one id one answer may stand for all; one that is cancelled may get none.
    """
    if any(b"notifications/cancelled" in data for data in burst):
        return 0
    return sum(1 for data in set(burst) if owes_an_answer(data))


def owes_an_answer(data: bytes) -> bool | None:
    """Whether its sender waits for an answer; None: it may get one, to tell it what is wrong."""
    if not data.strip():
        return False
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        return True
    if not isinstance(message, dict):
        return True
    if "id" not in message or {"result", "error"} & message.keys():
        return None
    return True
