"""The threads of this process to plain values; no user code runs.

On any thread: what others do meanwhile goes on, so places are those of a moment.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Mapping
from types import FrameType
from typing import Any

from pytest_cideldill.frames.frames import line_of, place_of, user_side, visible_stack
from pytest_cideldill.frames.tasks import logical_stack
from pytest_cideldill.interpreter.running import current_frames, main_ident, thread_names
from pytest_cideldill.rendering.display import Lens

MAX_STACK = 20
"""Frames of each stack among others."""

OWN_NAME = "pytest-cideldill"
"""Of threads of ours."""


def stack_of(thread_id: int, lens: Lens) -> list[FrameType] | None:
    """The user's side of a thread's stack, innermost first; None: there is no such thread."""
    frame = current_frames().get(thread_id)
    if frame is None:
        return None
    return user_side(logical_stack(frame, lens.project), lens.project) or None


def describe_threads(
    lens: Lens, paused: Mapping[int, str], *, stacks: bool = False
) -> list[dict[str, Any]]:
    """`[{id, name, state, is_current, paused, location, is_ours}]`, the main thread first.

    `is_ours`: it is this plugin's, that talks to the front end, and has no `location`.

    Args:
        paused: Thread → id of its pause, the newest last. That one's thread is the current one,
            without a pause the main thread.
        stacks: Whether each has a `stack`, innermost first, of `file:line function`; without the
            frames of what runs the user's code, and without threads of ours.
    """
    names, main = thread_names(), main_ident()
    current = next(reversed(paused), main)
    described = []
    for ident, top in sorted(current_frames().items(), key=lambda each: each[0] != main):
        frames = user_side(visible_stack(top, lens.project), lens.project)
        is_ours = not frames or (ident == get_ident() and ident not in names)
        if is_ours and stacks:
            continue
        described.append(
            {
                "id": ident,
                "name": OWN_NAME if is_ours else names.get(ident, str(ident)),
                "state": "paused" if ident in paused else "running",
                "is_current": ident == current,
                "paused": paused.get(ident),
                "location": None if is_ours else place_of(frames, lens),
                "is_ours": is_ours,
            }
        )
        if stacks:
            described[-1]["stack"] = [line_of(frame, lens) for frame in frames[:MAX_STACK]]
    return described
