"""What a tool is: name, texts, parameters, handler; checking arguments and answering errors.

The schemas that clients see are made from the same `Param` table that checks what they send, so the
two can't drift.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Awaitable
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from typing import Any

import mcp_types as types

from cideldill_mcp.deliveries import Deliveries
from cideldill_mcp.deliveries import tells_hits
from cideldill_mcp.deliveries import told_in
from cideldill_mcp.desired import Desired
from cideldill_mcp.eventlog import Event
from cideldill_mcp.prose import possible
from cideldill_mcp.render import DEFAULT_MAX_CHARS
from cideldill_mcp.render import MAX_MAX_CHARS
from cideldill_mcp.render import error_result
from cideldill_mcp.render import fit
from cideldill_mcp.render import ok_result
from cideldill_mcp.runs import Runs
from pytest_cideldill.errors import ErrorCode
from pytest_cideldill.errors import Refusal

# JSON type → the Python types that stand for it. bool is an int in Python but not in JSON.
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of a tool.

    Attributes:
        type: A JSON type; `any` takes every value.
        default: Used when it is not given (or null).
        choices: Allowed strings; refused with `refuse_as`.
        items: JSON type of an array's items.
    """

    name: str
    type: str
    about: str = ""
    required: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    items: str | None = None
    refuse_as: ErrorCode = ErrorCode.INVALID_PARAMETER

    def schema(self) -> dict[str, Any]:
        """The JSON schema that clients see."""
        shown: dict[str, Any] = {} if self.type == "any" else {"type": self.type}
        if self.about:
            shown["description"] = self.about
        for key, value in (
            ("enum", list(self.choices) or None),
            ("minimum", self.minimum),
            ("maximum", self.maximum),
            ("default", self.default),
            ("items", {"type": self.items} if self.items else None),
        ):
            if value is not None:
                shown[key] = value
        return shown

    def check(self, given: Any) -> Any:
        """The value to use.

        Raises:
            Refusal: `missing_parameter`, `invalid_parameter` or the parameter's own code.
        """
        if given is None or (self.required and isinstance(given, str) and not given.strip()):
            if self.required:
                raise Refusal(
                    ErrorCode.MISSING_PARAMETER,
                    f"parameter {self.name!r} ({self.type}) is required and must not be blank",
                    parameter=self.name,
                )
            if given is None:
                return self.default
        if self.type != "any" and not _is_a(given, self.type):
            raise self._invalid(given, self.type)
        if self.items and not all(_is_a(item, self.items) for item in given):
            raise self._invalid(given, f"array of {self.items}")
        if self.choices and given not in self.choices:
            raise self._invalid(given, "one of: " + ", ".join(self.choices))
        # Negated, since NaN (which JSON parsers let pass) is neither below nor above anything.
        if self.minimum is not None and not given >= self.minimum:
            raise self._invalid(given, f"{self.type} of at least {self.minimum}")
        if self.maximum is not None and not given <= self.maximum:
            raise self._invalid(given, f"{self.type} of at most {self.maximum}")
        return given

    def _invalid(self, given: Any, expected: str) -> Refusal:
        shown = repr(given)
        return Refusal(
            self.refuse_as,
            f"parameter {self.name!r} is {shown[:80]}, expected {expected}",
            parameter=self.name,
            expected=expected,
        )


MAX_CHARS = Param("max_chars", "integer", minimum=500, maximum=MAX_MAX_CHARS)


Progress = Callable[[float, float | None, str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Request:
    """One tool call: checked arguments and what handlers work with.

    Attributes:
        given: Names of the parameters that the client sent.
        progress: Reports `(done, total, message)` to a client that asked for it.
        is_news: Whether this client was not told of a pause yet.
        hits_told: The number of the newest hit that this client was told of.
    """

    arguments: dict[str, Any]
    given: frozenset[str]
    runs: Runs
    desired: Desired
    max_chars: int
    progress: Progress
    is_news: Callable[[Mapping[str, Any]], bool] = lambda _: True
    hits_told: int = 0

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a handler answers.

    Attributes:
        body: The JSON object.
        lists: Its lists that may be cut, the first is cut last.
        cursor: From the last kept item to `next_after`.
        in_step: List → maps whose keys are the list's items.
        from_front: The first list is cut from its front, and the cursor goes from its first kept
            item to `next_before`.
    """

    body: dict[str, Any]
    lists: Sequence[str] = ()
    cursor: Callable[[Any], Any] | None = None
    in_step: Mapping[str, Sequence[str]] = field(default_factory=dict)
    from_front: bool = False

    def text(self, max_chars: int, **further: Any) -> str:
        """It as JSON, cut to size; `further` keys of the body are told too."""
        return fit(
            {**self.body, **further},
            max_chars,
            lists=self.lists,
            cursor=self.cursor,
            in_step=self.in_step,
            from_front=self.from_front,
        )


Handler = Callable[[Request], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool of the contract. `about`: when to use it, at most 400 characters."""

    name: str
    title: str
    about: str
    handler: Handler
    params: tuple[Param, ...] = ()
    reads_only: bool = False
    destroys: bool = False
    idempotent: bool = False
    is_list: bool = False

    def definition(self) -> types.Tool:
        """As listed to clients."""
        shown = (*self.params, MAX_CHARS) if self.is_list else self.params
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {param.name: param.schema() for param in shown},
        }
        if required := [param.name for param in self.params if param.required]:
            schema["required"] = required
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.about,
            input_schema=schema,
            annotations=types.ToolAnnotations(
                read_only_hint=self.reads_only,
                destructive_hint=self.destroys,
                idempotent_hint=self.idempotent or self.reads_only,
                open_world_hint=False,
            ),
        )

    def check(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Every parameter with its value; unknown extras are ignored.

        Raises:
            Refusal: See `Param.check`.
        """
        return {
            param.name: param.check(arguments.get(param.name))
            for param in (*self.params, MAX_CHARS)
        }


class Toolbox:
    """The tools that a server offers, and the one border where their failures become answers."""

    def __init__(self, tools: Sequence[Tool], runs: Runs, desired: Desired) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._runs = runs
        self._desired = desired
        self._deliveries = Deliveries()
        runs.log.observe(self._note_hit)

    def definitions(self) -> list[types.Tool]:
        """For `tools/list`."""
        return [tool.definition() for tool in self._tools.values()]

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        progress: Progress,
        client: str,
    ) -> types.CallToolResult:
        """Run a tool. Only cancellation leaves here as an exception."""
        tool = self._tools[name]
        try:
            request = self._request(tool, arguments, progress, client)
            reply = await tool.handler(request)
            if "next" in reply.body:
                steps = possible(reply.body["next"], self)
                reply = replace(reply, body=reply.body | {"next": steps})
            text = self._with_news(client, reply, request.max_chars)
        except Refusal as refusal:
            return error_result(str(refusal.code), refusal.message, **refusal.extra)
        except Exception as error:  # noqa: BLE001 - a border: a bug of ours must not end the call unanswered
            traceback.print_exc(file=sys.stderr)
            message = f"the tool {name} failed, which is a bug of pytest-cideldill: {error!r}"
            return error_result(str(ErrorCode.INTERNAL_ERROR), message)
        return ok_result(text)

    async def read(self, name: str, arguments: dict[str, Any]) -> str:
        """The text of a tool's reply for a resource or a prompt: no stop counts as told by it.

        Raises:
            Refusal: As the tool.
        """
        tool = self._tools[name]
        request = self._request(tool, arguments, _tell_nobody, "")
        return (await tool.handler(request)).text(request.max_chars)

    def _request(
        self, tool: Tool, arguments: dict[str, Any], progress: Progress, client: str
    ) -> Request:
        checked = tool.check(arguments)
        max_chars = checked.pop("max_chars") or DEFAULT_MAX_CHARS
        given = frozenset(key for key, value in arguments.items() if value is not None)
        return Request(
            checked,
            given,
            self._runs,
            self._desired,
            max_chars,
            progress,
            lambda pause: self._deliveries.is_new(client, pause),
            self._deliveries.hits_told(client),
        )

    def _with_news(self, client: str, reply: Reply, max_chars: int) -> str:
        """The text; note what it tells, and say that there is more (contract, rule 7)."""
        present = {
            id: pause for run in self._runs for id, pause in run.pauses.items() if "seq" in pause
        }
        # What was cut off to fit was not told; and saying so may cut off one more.
        text, told, pending = "", [""], None
        has_hits = tells_hits(reply.body)
        for _ in range(3):
            text = reply.text(max_chars, **({} if pending is None else {"pending": pending}))
            told = told_in(json.loads(text)) if present else []
            news = self._deliveries.pending(client, present, told, tells_hits=has_hits)
            if news == pending:
                break
            pending = news
        self._deliveries.note(client, [present[id] for id in told if id in present])
        if has_hits:
            self._deliveries.note_hits_told(client)
        return text

    def _note_hit(self, event: Event) -> None:
        if event["type"] == "hit":
            self._deliveries.note_hit(event["seq"])


async def _tell_nobody(_done: float, _total: float | None, _text: str) -> None:
    return None


def _is_a(value: Any, json_type: str) -> bool:
    if isinstance(value, bool):
        return json_type == "boolean"
    return isinstance(value, _TYPES[json_type])
