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

from pytest_cideldill.objects.content_ids import Frozen
from pytest_cideldill.rendering.display import Kept

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

AS_KEPT: tuple[Sequence[Frozen], Mapping[str, Frozen]] = ((), {})
"""Stands for arguments that are frozen as they are kept, as numbers and short strings are."""

NUMBER = 0
KWARGS = 3
PARENT = 7
"""Where they are in the tuple of a `Start`."""


class Start(NamedTuple):
    """What is known of a call when it begins.

    Attributes:
        caller: The code that called, None at the bottom of a thread.
        place: The instruction there.
        parent: Number of the recorded call that made it.
        thread: Its ident.
        began: Moment of `clock.monotonic`.
        frozen: The arguments, as they were, for their content ids; or `AS_KEPT`.
    """

    number: int
    name: str
    args: Sequence[Kept]
    kwargs: Mapping[str, Kept]
    caller: CodeType | None
    place: int
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
