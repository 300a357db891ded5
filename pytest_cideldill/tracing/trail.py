"""Trails: which events of a thread that is followed are wanted, and their handlers.

Plain data of the interface of sources; `trails` calls the handlers.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from types import FrameType

from pytest_cideldill.interpreter.values import dataclass


class Left(Enum):
    """A way to leave a frame."""

    RETURN = "returns"
    YIELD = "hands out an item"
    AWAIT = "waits; something else runs until it goes on"
    UNWIND = "an exception leaves it"


def _ignore(*_: object) -> None:
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Trail:
    """The wanted events of one thread, until it is replaced; handlers may replace it.

    Attributes:
        frame: The frame whose lines and end are wanted.
        lines: Whether its lines are wanted, once per pass over a statement.
        only: If given, the only line that is wanted.
        starts: Whether it is wanted that any frame starts or goes on.
        anywhere: Whether lines of all frames are wanted, and some places between lines.
        on_line: `(frame, line)`: a line is about to run. As `Handlers.on_line`.
        on_start: `(frame)`: a frame starts or goes on.
        on_leave: `(frame, left)`: the frame is left.
    """

    frame: FrameType | None = None
    lines: bool = False
    only: int | None = None
    starts: bool = False
    anywhere: bool = False
    on_line: Callable[[FrameType, int], None] = _ignore
    on_start: Callable[[FrameType], None] = _ignore
    on_leave: Callable[[FrameType, Left], None] = _ignore


REST = Trail()
"""The trail of a thread that stands still: no event is wanted, but the thread stays armed."""
