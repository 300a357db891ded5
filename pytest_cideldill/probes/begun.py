"""A recorded call from its start to its end, and which one a thread or a task is in."""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Mapping
from collections.abc import Sequence
from contextvars import ContextVar
from types import CodeType

from pytest_cideldill.capture.objects import Frozen
from pytest_cideldill.clock import wall

current: ContextVar[int | None] = ContextVar("cideldill_call", default=None)
"""The number of the recorded call that runs: the parent of those that it makes."""

_NOT_FROZEN: tuple[Sequence[Frozen], Mapping[str, Frozen]] = ((), {})
"""Shared: an object that is made for each call costs the garbage collector too."""


class Begun:
    """A call under way; written by its thread.

    Attributes:
        number: Tells it apart in this process.
        name: Dotted path of the function.
        args: Positional arguments, shown.
        kwargs: Keyword arguments, shown.
        parent: Number of the recorded call that made it.
        caller: Code and instruction that called, None at the bottom of a thread.
        altered: What a client changed: `args`, `result` or `exception`.
        replaced_by: Dotted path of the function that was called instead.
        is_told: Whether the log has it as running.
        frozen: The arguments, as they were, for their content ids.
    """

    __slots__ = (
        "altered",
        "args",
        "caller",
        "frozen",
        "is_told",
        "kwargs",
        "name",
        "nodeid",
        "number",
        "parent",
        "replaced_by",
        "started_at",
        "thread",
    )

    def __init__(
        self,
        number: int,
        name: str,
        args: Sequence[str],
        kwargs: Mapping[str, str],
        caller: tuple[CodeType, int] | None,
        nodeid: str | None,
    ) -> None:
        self.number = number
        self.name = name
        self.args = args
        self.kwargs = kwargs
        self.caller = caller
        self.nodeid = nodeid
        self.parent = current.get()
        self.thread = get_ident()
        self.started_at = wall()
        self.altered: str | None = None
        self.replaced_by: str | None = None
        self.is_told = False
        self.frozen = _NOT_FROZEN
