"""The definition of a tool: its name, texts, parameters and handler; the checks of its arguments.

The schemas that clients see are made from the same `Param` table that checks what they send, so the
two can't drift.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final, TypeVar

import mcp_types as types

from cideldill_mcp.breakpoints.collection import Desired
from cideldill_mcp.questions.asking.registry import Questions
from cideldill_mcp.replies.render import MAX_MAX_CHARS, Shape, fit
from cideldill_mcp.runs.registry import Runs
from cideldill_mcp.tools.coercion import UnreadableArgument, read, read_values
from pytest_cideldill.errors import ErrorCode, Refusal, invalid, missing

_MOST_NAMED: Final = 5
"""Ignored arguments that a reply names, …"""

_NAME: Final = 60
"""… and the characters of their names."""

_LIKE: Final = 0.7
"""How like a parameter the name of an argument is that may mean it, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of a tool.

    Attributes:
        type: A JSON type; `any` takes every value.
        default: Used when the argument is missing or null.
        choices: Allowed strings; refused with `refuse_as`.
        items: JSON type of an array's items.
        are_values: The argument is, or contains, values for the program: see
            `arguments.read_values`.
        is_numbered: An id, which may be sent as its number alone; the handler gets a text.
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
    are_values: bool = False
    is_numbered: bool = False

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

    def check(self, value: Any) -> Any:
        """Convert an argument to the value that the handler gets.

        Raises:
            Refusal: `missing_parameter`, `invalid_parameter` or the parameter's own code.
        """
        if value is None or (self.required and isinstance(value, str) and not value.strip()):
            if self.required:
                raise missing(
                    self.name,
                    f"parameter {self.name!r} ({self.type}) is required and must not be blank",
                )
            if value is None:
                return self.default
        value = self._read(value)
        if self.choices and value not in self.choices:
            raise self._invalid(value, "one of: " + ", ".join(self.choices))
        # Negated, since NaN (which JSON parsers let pass) is neither below nor above anything.
        if self.minimum is not None and not value >= self.minimum:
            raise self._invalid(value, f"{self.type} of at least {self.minimum}")
        if self.maximum is not None and not value <= self.maximum:
            raise self._invalid(value, f"{self.type} of at most {self.maximum}")
        return value

    def _read(self, value: Any) -> Any:
        try:
            if self.is_numbered and type(value) in (int, float):
                return str(read(value, "integer"))
            result = read(value, self.type, self.items)
            return read_values(result) if self.are_values else result
        except UnreadableArgument as error:
            raise self._invalid(value, error.expected, str(error)) from error

    def _invalid(self, value: Any, expected: str, why: str = "") -> Refusal:
        shown = repr(value)
        return Refusal(
            self.refuse_as,
            f"parameter {self.name!r} is {shown[:80]}, expected {expected}"
            + (f" ({why[:200]})" if why else ""),
            parameter=self.name,
            expected=expected,
        )


ALWAYS_LOADED: Mapping[str, bool] = MappingProxyType({"anthropic/alwaysLoad": True})
"""`_meta` of a tool whose definition is not to be loaded on demand."""

MAX_CHARS = Param("max_chars", "integer", minimum=500, maximum=MAX_MAX_CHARS)


Progress = Callable[[float, float | None, str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Request:
    """One tool call: its checked arguments, and the objects that handlers work with.

    Attributes:
        sent: Names of the parameters that the client sent.
        progress: Sends `(done, total, message)` to a client that asked for progress.
        is_news: Whether no reply to this client contained a pause yet.
        last_hit_sent: The number of the newest hit that was sent to this client.
    """

    arguments: dict[str, Any]
    sent: frozenset[str]
    runs: Runs
    questions: Questions
    desired: Desired
    max_chars: int
    progress: Progress
    is_news: Callable[[Mapping[str, Any]], bool] = lambda _: True
    last_hit_sent: int = 0

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply of a handler.

    Attributes:
        lists: Names of the lists in it that may be cut; the first one is cut last. As a mapping,
            with what is shown of an item.
        cursor: From the last kept item to `next_after`.
        in_step: List → maps whose keys are the list's items.
        from_front: The first list is cut from its front, and the cursor goes from its first kept
            item to `next_before`.
        room: Most characters of the whole reply, if it is not that of the request: a text in it
            was fitted already.
    """

    body: dict[str, Any]
    lists: Sequence[str] | Mapping[str, Shape] = ()
    cursor: Callable[[Any], Any] | None = None
    in_step: Mapping[str, Sequence[str]] = field(default_factory=dict)
    from_front: bool = False
    room: int | None = None

    def text(self, max_chars: int, **further: Any) -> str:
        """The body with `further` keys as JSON, cut to `max_chars`, or to the room that it has."""
        return fit(
            {**self.body, **further},
            self.room or max_chars,
            lists=self.lists,
            cursor=self.cursor,
            in_step=self.in_step,
            from_front=self.from_front,
        )


Handler = Callable[[Request], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool.

    Attributes:
        about: When to use the tool, in at most 400 characters.
        needs_live: Whether the tool needs a live test.
        is_always_loaded: Clients that load definitions on demand are to have this one at once.
    """

    name: str
    title: str
    about: str
    handler: Handler
    params: tuple[Param, ...] = ()
    reads_only: bool = False
    needs_live: bool = False
    destroys: bool = False
    idempotent: bool = False
    is_list: bool = False
    is_always_loaded: bool = False

    @property
    def is_of_records(self) -> bool:
        """Whether the tool can reply for a recorded run."""
        return self.reads_only and not self.needs_live

    @property
    def checked(self) -> tuple[Param, ...]:
        """All parameters; every tool takes `max_chars`."""
        has_own = any(param.name == MAX_CHARS.name for param in self.params)
        return self.params if has_own else (*self.params, MAX_CHARS)

    @property
    def shown(self) -> tuple[Param, ...]:
        """The parameters that clients see."""
        return self.checked if self.is_list else self.params

    def definition(self) -> types.Tool:
        """The definition that clients get in `tools/list`."""
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {param.name: param.schema() for param in self.shown},
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
            _meta=dict(ALWAYS_LOADED) if self.is_always_loaded else None,
        )

    def ignored(self, arguments: Mapping[str, Any]) -> list[str]:
        """The names of arguments that no parameter has, with the parameter that may be meant."""
        known = [param.name for param in self.checked]
        named = []
        for name, value in arguments.items():
            if value is not None and name not in known:
                near = get_close_matches(name, known, 1, _LIKE)
                named.append(f"{name[:_NAME]} (nearest: {near[0]})" if near else name[:_NAME])
        return named[:_MOST_NAMED]

    def check(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The value of every parameter; unknown arguments are ignored.

        Raises:
            Refusal: See `Param.check`.
        """
        return {param.name: param.check(arguments.get(param.name)) for param in self.checked}


T = TypeVar("T")

AFTER = Param("after", "string", "next_after")


def behind(items: Sequence[T], cursor: Callable[[T], str], after: str | None) -> Sequence[T]:
    """The items that follow the one with the cursor `after`; all without one.

    Raises:
        Refusal: `invalid_parameter`; no item has that cursor (any more).
    """
    if after is None:
        return items
    for number, item in enumerate(items, start=1):
        if cursor(item) == after:
            return items[number:]
    raise invalid(
        "after",
        f"after {after!r} is not in the list; use the next_after of the reply before",
        "next_after of the reply before",
    )
