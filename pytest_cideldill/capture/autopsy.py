"""A failed test's exception to plain values: what an agent reads first (contract, section 5).

Runs on the thread of the failing test, while its fixtures are alive; no user code runs here.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType
from typing import Any

from pytest_cideldill.capture.frames import describe_frame
from pytest_cideldill.capture.lens import Lens
from pytest_cideldill.capture.snapshot import class_name
from pytest_cideldill.clock import monotonic

MAX_MESSAGE = 2_000
MAX_OUTPUT = 1_000
"""Characters kept from the end of each captured stream."""

Place = tuple[FrameType, int]
"""A frame and the line in it where the exception passed."""


def describe_exception(error: BaseException, told: str, lens: Lens) -> dict[str, Any]:
    """`{type, message}` of an exception.

    Args:
        error: The exception; only its real class is looked at.
        told: What pytest printed for it (`Type: message`); its text was already made by the report.
    """
    cls = type(error)
    for name in (cls.__qualname__, class_name(cls)):
        told = told.removeprefix(f"{name}: ")
    return {"type": class_name(cls), "message": lens.text(told, MAX_MESSAGE)}


def autopsy(
    exception: dict[str, Any],
    places: Sequence[Place],
    lens: Lens,
    *,
    frames_with_locals: int = 1,
) -> dict[str, Any]:
    """The part of the autopsy that comes from the exception.

    Args:
        exception: As of `describe_exception`.
        places: The traceback, innermost first, hidden frames left out.
        lens: Shows values, decides what is user code.
        frames_with_locals: For how many user frames, from the innermost on, locals are told.
    """
    frames = []
    deadline = monotonic() + lens.limits.capture_ms / 1000
    for index, (frame, line) in enumerate(places[: lens.limits.max_frames]):
        wanted = frames_with_locals > 0 and lens.project.is_user(frame.f_code.co_filename)
        frames_with_locals -= wanted
        frames.append(
            describe_frame(frame, line, index, lens, with_locals=wanted, deadline=deadline)
        )
    users = [frame["index"] for frame in frames if not frame["isExternal"]]
    return {
        "exception": exception,
        "frames": frames,
        "totalFrames": len(places),
        "throwingFrameIndex": 0,
        "userFrameIndex": users[0] if users else 0,
    }
