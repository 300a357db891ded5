"""What is told of a thread that is followed: the lines of one frame, what starts, how it ends.

Plain data of the interface in `events`; `trails` does the telling.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from types import FrameType

from pytest_cideldill.interpreter.values import dataclass


class Left(Enum):
    """How a frame is left."""

    RETURN = "returns"
    YIELD = "hands out an item"
    AWAIT = "waits; something else runs until it goes on"
    UNWIND = "an exception leaves it"


def _ignore(*_: object) -> None:
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Trail:
    """What is told of one thread, until it is replaced; handlers may replace it.

    Attributes:
        frame: The frame whose lines and end are told.
        lines: Whether its lines are; once per pass over a statement.
        only: Of these only this one.
        starts: Whether it is told that any frame starts or goes on.
        anywhere: Whether lines of all frames are told, and some places between.
        on_line: `(frame, line)`: about to run. As `Handlers.on_line`.
        on_start: `(frame)`: starts or goes on.
        on_leave: `(frame, how)`.
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
"""Nothing is told, and what it takes to follow stays armed: the thread stands still."""
