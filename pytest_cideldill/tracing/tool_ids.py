"""Which tool ids of `sys.monitoring` are ours: there are six for all tools of a process.

A program may claim or free any of them: while we hold some, the functions that do so let the holder
of an id leave it first. Runs on the threads of the program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FunctionType, SimpleNamespace
from typing import Any, Final, Protocol

from pytest_cideldill.patching.builtin_proxy import Disguise
from pytest_cideldill.tracing.interface import SourceUnavailable

IDS: Final = (4, 5, 2)
"""Tool ids in the order they are tried.

Never 0: pytest-timeout then ignores every timeout. 1 is coverage's, and with 3 taken Hypothesis
gives up explaining.
"""

NONE: Final = -1
"""Stands for the id of a tool that has none."""

_LAST: Final = (3, 1)
"""Better than none for who must leave all others; their tools may claim them back."""

_NAME: Final = "pytest-cideldill"

_DISPOSE: Final = ("use_tool_id", "free_tool_id", "clear_tool_id")
"""Functions that dispose of an id; the last one is of 3.14. The others need one that is claimed."""

ORIGINAL: Final = SimpleNamespace(
    **{name: getattr(sys.monitoring, name) for name in _DISPOSE if hasattr(sys.monitoring, name)}
)
"""These functions for ourselves."""


class Holder(Protocol):
    """Who holds tool ids."""

    def holds(self, tool: object) -> bool:
        """Whether an id is one of its own."""

    def leave(self, tool: int) -> None:
        """Go on with other ids, or without: a program means this one."""


def claim() -> tuple[int, int]:
    """Two tool ids, or the same one twice when no second is free.

    Raises:
        SourceUnavailable: None is free.
    """
    taken = _claim(IDS, 2)
    if not taken:
        raise SourceUnavailable(f"No tool id of sys.monitoring is free: {owners(IDS)}.")
    return taken[0], taken[-1]


def claim_instead(mine: tuple[int, int], wanted: int) -> tuple[int, int]:
    """The ids to go on with when one of `mine` is given up; both `NONE` when there are none.

    The other one is kept, for both uses if need be; new ones are claimed.
    """
    kept = [tool for tool in mine if tool not in (wanted, NONE)]
    others = [tool for tool in IDS if tool != wanted]
    if not kept:
        last = [tool for tool in _LAST if tool != wanted]
        free = _claim(others, 2) or _claim(last, 1) or [NONE]
        return free[0], free[-1]
    (spare,) = _claim(others, 1) or kept[:1]
    first, second = (tool if tool in kept else spare for tool in mine)
    return first, second


def is_ours(tool: int) -> bool:
    """Whether an id that we hold was not given to another tool behind our back."""
    return sys.monitoring.get_tool(tool) == _NAME


def claim_back(tool: int) -> bool:
    """Whether an id is ours, perhaps again: a program may have freed it."""
    return is_ours(tool) or bool(_claim([tool], 1))


def owners(tools: tuple[int, ...] = tuple(range(6))) -> str:
    """Who holds which of these ids."""
    held = {tool: sys.monitoring.get_tool(tool) for tool in tools}
    return ", ".join(f"{tool} ({name})" for tool, name in held.items() if name)


def _claim(tools: Iterable[int], most: int) -> list[int]:
    taken: list[int] = []
    for tool in tools:
        if len(taken) == most:
            break
        try:
            ORIGINAL.use_tool_id(tool, _NAME)
        except ValueError:
            continue
        taken.append(tool)
    return taken


# --- what the program calls -----------------------------------------------------------------------

_holders: Final[list[Holder]] = []
_stand_ins: Final[dict[str, Disguise]] = {}


def lend(holder: Holder) -> None:
    """Let the program dispose of the ids of a holder from now on."""
    _holders.append(holder)
    for name, original in vars(ORIGINAL).items():
        if name not in _stand_ins:
            _stand_ins[name] = Disguise(original, _leaving_first(original), _fits)
            setattr(sys.monitoring, name, _stand_ins[name])


def end_lending(holder: Holder) -> None:
    """Undo it: with the last holder the functions are those of the interpreter again."""
    _holders[:] = [each for each in _holders if each is not holder]
    while _stand_ins and not _holders:
        name, stand_in = _stand_ins.popitem()
        if vars(sys.monitoring).get(name) is stand_in:  # else a program has put its own there
            setattr(sys.monitoring, name, getattr(ORIGINAL, name))


def _leaving_first(original: Callable[..., Any]) -> FunctionType:
    def call(tool: int, *further: Any) -> Any:
        __tracebackhide__ = True
        for holder in tuple(_holders):
            if holder.holds(tool):
                holder.leave(tool)
        return original(tool, *further)

    assert type(call) is FunctionType
    return call


def _fits(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return bool(args) and not kwargs
