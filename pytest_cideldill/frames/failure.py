"""An exception to plain values: what an agent reads first.

Runs on the thread where it was raised or where a test failed, while its fixtures are alive; no user
code runs here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, Final

from pytest_cideldill.frames.causes import all_notes_of, inner_exceptions, notes_of
from pytest_cideldill.frames.frames import describe_frame
from pytest_cideldill.frames.operands import names_in, statement_at
from pytest_cideldill.interpreter.clock import Deadline
from pytest_cideldill.interpreter.frame_locals import read_locals
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.rendering.layout import class_name
from pytest_cideldill.rendering.tree import MOST_OPENED, opened

MAX_MESSAGE: Final = 2_000
MAX_OUTPUT: Final = 1_000
"""Characters kept from the end of each captured stream."""

MAX_TRACE: Final = 30
"""Places that `stackTraceString` names."""

Place = tuple[FrameType, int]
"""A frame and the line in it where the exception passed."""


@dataclass(frozen=True, slots=True)
class FailureExtent:
    """How much of an autopsy is wanted.

    Attributes:
        frames: How many, from the innermost on; None: as many as the limits say.
        variables: For how many frames of the user, from the innermost on, variables are described.
        inner: How many of the exceptions behind it.
    """

    frames: int | None = None
    variables: int = 1
    inner: int = 5


RECORDED: Final = FailureExtent(variables=3)
"""What is kept of each failure, for questions that come when the test is over."""


def describe_exception(error: BaseException, printed: str, lens: Lens) -> dict[str, Any]:
    """`{type, message}` of an exception.

    Args:
        error: The exception; only its real class is looked at.
        printed: What pytest printed for it (`Type: message`); the report had made its text.
            Notes at its end are left out: the autopsy has them by themselves.
    """
    cls, notes = type(error), all_notes_of(error)
    printed = printed.removesuffix("\n".join(["", *notes]))
    for name in (cls.__qualname__, class_name(cls)):
        printed = printed.removeprefix(f"{name}: ")
    return {"type": class_name(cls), "message": lens.text(printed, MAX_MESSAGE)}


@dataclass(frozen=True, slots=True, eq=False)
class ExaminedFailure:
    """What an autopsy is made of.

    Attributes:
        exception: As of `describe_exception`.
        places: The traceback, innermost first, hidden frames left out.
        is_first_chance: Whether it may still be handled.
        assertion: As of `operands.assertion_of`, if one failed.
    """

    error: BaseException
    exception: Mapping[str, Any]
    places: Sequence[Place]
    is_first_chance: bool = False
    assertion: dict[str, Any] | None = None


def autopsy(failure: ExaminedFailure, lens: Lens, extent: FailureExtent) -> dict[str, Any]:
    """The part of the autopsy that comes from the exception: `exception_get_context`.

    Args:
        lens: Shows values, decides what is user code.
    """
    places, assertion = failure.places, failure.assertion
    deadline = Deadline(lens.limits.capture_ms / 1000)
    frames: list[dict[str, Any]] = []
    left = extent.variables
    for index, (frame, line) in enumerate(places[: extent.frames or lens.limits.max_frames]):
        if left <= 0 or not lens.project.has(frame):
            described = describe_frame((frame, line), index, lens, with_locals=False)
            frames.append(described | {"arguments": None, "variables": None})
            continue
        is_first = left == extent.variables
        left -= 1
        frames.append(_frame(frame, line, index, lens, deadline, is_first=is_first))
    users = [frame["index"] for frame in frames if not frame["isExternal"]]
    trace = {"isFirstChance": failure.is_first_chance, "stackTraceString": _trace(places, lens)}
    return {
        "exception": {**failure.exception, **trace},
        **({} if assertion is None else {"assertion": assertion}),
        "frames": frames,
        "totalFrames": len(places),
        "throwingFrameIndex": 0,
        "userFrameIndex": users[0] if users else 0,
        **inner_exceptions(failure.error, lens, extent.inner),
        "notes": notes_of(failure.error, lens),
    }


def _frame(
    frame: FrameType, line: int, index: int, lens: Lens, deadline: Deadline, *, is_first: bool
) -> dict[str, Any]:
    """With variables; of the first one what matters most is opened."""
    statement = statement_at(frame.f_code, line, lens.texts.of(frame))
    first = names_in(statement, lens.source(frame, line)["source"])
    described = describe_frame(
        (frame, line), index, lens, with_locals=True, deadline=deadline, first=first
    )
    if is_first:
        _open(frame, first, described, lens, deadline)
    return described


def _open(
    frame: FrameType,
    first: Sequence[str],
    described: dict[str, Any],
    lens: Lens,
    deadline: Deadline,
) -> None:
    """Open the variables that the failing line uses, then the arguments."""
    arguments = described["arguments"]
    shown = {each["name"]: each for each in arguments + described["variables"]["locals"]}
    wanted = dict.fromkeys([*first, *(argument["name"] for argument in arguments)])
    held, left = read_locals(frame), MOST_OPENED
    for name in wanted:
        if name in shown and left and not deadline.is_over():
            parts = opened(held[name], shown[name]["value"], lens)
            shown[name] |= parts
            left -= bool(parts)


def _trace(places: Sequence[Place], lens: Lens) -> str:
    """The traceback, outermost first: `file:line in function`, a line each."""
    shown = list(places[:MAX_TRACE])[::-1]
    lines = [
        "{file}:{line} in {function}".format(
            **lens.place(frame, line), function=frame.f_code.co_qualname
        )
        for frame, line in shown
    ]
    if len(places) > len(shown):
        lines.insert(0, f"… {len(places) - len(shown)} outer frames")
    return "\n".join(lines)
