"""Claims tool ids of `sys.monitoring`, and gives them up when the program wants them.

There are six ids for all tools of a process, and a program may claim or free any of them. While we
hold some, the functions for that are replaced by ours, which let the holder of an id leave it
first. Runs on the threads of the program.
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
"""The id of a tool that has none."""

_LAST: Final = (3, 1)
"""Ids to use if all others must be left; their usual tools may claim them back."""

_NAME: Final = "pytest-cideldill"

_DISPOSE: Final = ("use_tool_id", "free_tool_id", "clear_tool_id")
"""Functions that claim, free or clear an id. `clear_tool_id` came with 3.14."""

ORIGINAL: Final = SimpleNamespace(
    **{name: getattr(sys.monitoring, name) for name in _DISPOSE if hasattr(sys.monitoring, name)}
)
"""The original functions, for our own use."""


class Holder(Protocol):
    """An object that holds tool ids: a source of events, or the recorder of a question."""

    def holds(self, tool: object) -> bool:
        """Whether it holds an id."""

    def leave(self, tool: int) -> None:
        """Go on with other ids, or without any, as the program wants this one."""


def claim() -> tuple[int, int]:
    """Two tool ids, or the same one twice if no second one is free.

    Raises:
        SourceUnavailable: No id is free.
    """
    taken = _claim(IDS, 2)
    if not taken:
        raise SourceUnavailable(f"No tool id of sys.monitoring is free: {owners(IDS)}.")
    return taken[0], taken[-1]


def claim_one(wanted: int = NONE) -> int:
    """One tool id, but not `wanted`.

    Raises:
        SourceUnavailable: No id is free.
    """
    tools = tuple(tool for tool in (*IDS, *_LAST) if tool != wanted)
    taken = _claim(tools, 1)
    if not taken:
        raise SourceUnavailable(f"No tool id of sys.monitoring is free: {owners(tools)}.")
    return taken[0]


def claim_instead(mine: tuple[int, int], wanted: int) -> tuple[int, int]:
    """The ids to go on with after one of `mine` is given up; both are `NONE` if none is free.

    New ids are claimed. The other id of `mine` is kept, if need be for both uses.
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
    """Whether an id that we hold is still ours, and was not given to another tool."""
    return sys.monitoring.get_tool(tool) == _NAME


def claim_back(tool: int) -> bool:
    """Whether an id is ours; it is claimed again if the program has freed it."""
    return is_ours(tool) or bool(_claim([tool], 1))


def owners(tools: tuple[int, ...] = tuple(range(6))) -> str:
    """A text that says which tool holds which of these ids."""
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


# --- functions for the program --------------------------------------------------------------------

_holders: Final[list[Holder]] = []
_stand_ins: Final[dict[str, Disguise]] = {}


def lend(holder: Holder) -> None:
    """From now on, let the program claim and free the ids of a holder."""
    _holders.append(holder)
    for name, original in vars(ORIGINAL).items():
        if name not in _stand_ins:
            _stand_ins[name] = Disguise(original, _leaving_first(original), _fits)
            setattr(sys.monitoring, name, _stand_ins[name])


def end_lending(holder: Holder) -> None:
    """Undo `lend`; after the last holder the interpreter's own functions are back."""
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
