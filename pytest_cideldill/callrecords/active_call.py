"""A recorded call from its start to its end, and which one a thread or a task is in.

On the hot path a call is a plain tuple of what is at hand, in the order of `Start`: one object that
is made at once. Its event is made of it later, on another thread.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Mapping, Sequence
from contextvars import ContextVar, Token
from types import CodeType
from typing import Any, NamedTuple

from pytest_cideldill.frames.arguments import DottedPath
from pytest_cideldill.interpreter.clock import wall_at
from pytest_cideldill.objects.content_ids import Frozen, Objects
from pytest_cideldill.rendering.display import Kept, Lens

current: ContextVar[int | None] = ContextVar("cideldill_call", default=None)
"""The number of the recorded call that runs: the parent of those that it makes."""


def leave(token: Token[int | None]) -> None:
    """An outermost call has ended: the context is as it was, without the variable of ours."""
    try:
        current.reset(token)
    except ValueError:  # it began in another context
        current.set(None)


NOT_FROZEN: tuple[Sequence[Frozen], Mapping[str, Frozen]] = ((), {})
"""Shared: an object that is made for each call costs the garbage collector too."""

NUMBER = 0
PARENT = 6
"""Where they are in the tuple of a `Start`."""


class Start(NamedTuple):
    """What is known of a call when it begins.

    Attributes:
        caller: Code and instruction that called, None at the bottom of a thread.
        parent: Number of the recorded call that made it.
        thread: Its ident.
        began: Moment of `clock.monotonic`.
        frozen: The arguments, as they were, for their content ids.
    """

    number: int
    name: str
    args: Sequence[Kept]
    kwargs: Mapping[str, Kept]
    caller: tuple[CodeType, int] | None
    nodeid: str | None
    parent: int | None
    thread: int
    began: float
    frozen: tuple[Sequence[Frozen], Mapping[str, Frozen]]


class Intercepted:
    """A call under way that we make; written by its thread.

    Attributes:
        start: As it was when it began.
        frozen: Instead of those of `start`.
        altered: What a client changed: `args`, `result` or `exception`.
        replaced_by: Dotted path of the function that was called instead.
    """

    __slots__ = ("altered", "frozen", "replaced_by", "start")

    def __init__(self, start: Start) -> None:
        self.start = start
        self.frozen = NOT_FROZEN
        self.altered: str | None = None
        self.replaced_by: str | None = None


Begun = tuple[Any, ...] | Intercepted
"""A call under way: the tuple of its `Start` if nobody intercepts it."""


def start_of(begun: Begun) -> Start:
    """What is known of a call since it began."""
    return begun.start if type(begun) is Intercepted else Start._make(begun)  # type: ignore[arg-type]


def expected_in(
    announced: dict[int, list[tuple[CodeType, Intercepted]]], code: CodeType
) -> Intercepted | None:
    """The oldest call of `code` that this thread announced; it is taken out."""
    mine = announced.get(get_ident(), [])
    for index, (expected, begun) in enumerate(mine):
        if expected is code:
            del mine[index]
            return begun
    return None


class CallEventBuilder:
    """Makes events of the rows of recorded calls.

    Args:
        prefix: What the ids of calls begin with: `r1.main`.
    """

    def __init__(self, lens: Lens, prefix: str, objects: Objects | None) -> None:
        self._lens = lens
        self._prefix = prefix
        self._objects = objects

    def id_of(self, number: int) -> str:
        """The `call_id` that clients see."""
        return f"{self._prefix}.c{number}"

    def event_of(self, row: tuple[Any, ...]) -> dict[str, Any]:
        """An event of type `call` from a row (docs/record_format.md).

        A row is `(event_of, begun, status, moment of its end, kept result, exception, frozen
        result)`.
        A call that was logged as running is logged again, under its id, when it ended.
        """
        _, begun, status, ended, result, exception, frozen = row
        start, show = start_of(begun), self._lens.render_kept
        began_at = wall_at(start.began)
        values: dict[str, Any] = {
            "type": "call",
            "ts": began_at,
            "call_id": self.id_of(start.number),
            "method_name": start.name.rpartition(".")[2],
            "qualified_name": start.name,
            "status": status,
            "pretty_args": list(map(show, start.args)),
            "pretty_kwargs": {name: show(value) for name, value in start.kwargs.items()},
            "started_at": began_at,
            "completed_at": None if ended is None else wall_at(ended),
            "parent_id": None if start.parent is None else self.id_of(start.parent),
            "nodeid": start.nodeid,
            "thread": start.thread,
            "call_site": self._site(start),
        }
        arguments = start.frozen
        if type(begun) is Intercepted:
            arguments = begun.frozen
            altered = {"altered": begun.altered, "replaced_by": begun.replaced_by}
            values |= {name: value for name, value in altered.items() if value is not None}
        values["cids"] = self._cids(arguments, frozen)
        if status == "success":
            values["pretty_result"] = show(result)
        if isinstance(path := start.name, DottedPath):
            values["defined_in"] = [path.module, self._lens.project.relative(path.file)]
        if exception is not None:
            message = self._lens.text(exception["message"])
            values["exception"] = {**exception, "message": message}
        return values

    def _cids(
        self, arguments: tuple[Sequence[Frozen], Mapping[str, Frozen]], result: Frozen | None
    ) -> dict[str, Any] | None:
        if self._objects is None:
            return None
        identify = self._objects.identify
        args, kwargs = arguments
        return {
            "args": [identify(each).cid for each in args],
            "kwargs": {name: identify(each).cid for name, each in kwargs.items()},
            "result": None if result is None else identify(result).cid,
        }

    def _site(self, start: Start) -> dict[str, Any] | None:
        if start.caller is None:
            return None
        code, place = start.caller
        for first, end, line in code.co_lines():
            if first <= place < end:
                return None if line is None else self._lens.site(code, line)
        return None
