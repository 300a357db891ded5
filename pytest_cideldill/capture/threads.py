"""The threads and asyncio tasks of this process to plain values; no user code runs.

On any thread: what others do meanwhile goes on, so places are those of a moment.
"""

from __future__ import annotations

import sys
import threading
from _thread import get_ident
from collections.abc import Iterator
from collections.abc import Mapping
from types import AsyncGeneratorType
from types import CoroutineType
from types import FrameType
from types import GeneratorType
from typing import Any

from pytest_cideldill.capture import layout
from pytest_cideldill.capture.frames import module_of
from pytest_cideldill.capture.frames import top_user_frame
from pytest_cideldill.capture.frames import user_side
from pytest_cideldill.capture.lens import Lens

MAX_TASKS = 200
MAX_STACK = 20
"""Frames of each stack among others."""

_DEEPEST = 100
_TRIES = 10

# Tests patch these: bound at import.
_frames = sys._current_frames
_enumerate = threading.enumerate
_main_ident = threading.main_thread().ident


def stack_of(thread_id: int, lens: Lens) -> list[FrameType] | None:
    """The user's side of a thread's stack, innermost first; None: there is no such thread."""
    frame = _frames().get(thread_id)
    return None if frame is None else user_side(frame, lens.project) or None


def describe_threads(
    lens: Lens, paused: Mapping[int, str], *, stacks: bool = False
) -> list[dict[str, Any]]:
    """`[{id, name, state, is_current, paused, location}]`, the main thread first; not our own.

    Args:
        lens: Tells files.
        paused: Thread → id of its pause, the newest last. That one's thread is the current one,
            without a pause the main thread.
        stacks: Whether each has a `stack`, innermost first, of `file:line function`.
    """
    names = {each.ident: each.name for each in _enumerate()}
    current = next(reversed(paused), _main_ident)
    told = []
    for ident, top in sorted(_frames().items(), key=lambda each: each[0] != _main_ident):
        frames = user_side(top, lens.project)
        if not frames or (ident == get_ident() and ident not in names):
            continue  # the thread that talks to the front end
        told.append(
            {
                "id": ident,
                "name": names.get(ident, str(ident)),
                "state": "paused" if ident in paused else "running",
                "is_current": ident == current,
                "paused": paused.get(ident),
                "location": _place(frames, lens),
            }
        )
        if stacks:
            told[-1]["stack"] = [_line(frame, lens) for frame in frames[:MAX_STACK]]
    return told


def describe_tasks(lens: Lens) -> list[dict[str, Any]]:
    """`[{name, state, location, awaits}]` of the asyncio tasks that are not done.

    `state`: `running`, `waiting` for what `awaits` says, or `scheduled`.
    """
    return [_task(each, lens) for each in _tasks()]


def _tasks() -> list[Any]:
    module = sys.modules.get("asyncio.tasks")
    kinds = [getattr(module, name, None) for name in ("Task", "_PyTask")]
    found: list[Any] = []
    for name in ("_scheduled_tasks", "_eager_tasks", "_all_tasks"):
        found += _copy(getattr(module, name, ()))
    classes = [kind for kind in kinds if isinstance(kind, type)]
    tasks = [each for each in found if any(layout.is_a(type(each), kind) for kind in classes)]
    return [each for each in tasks if not _ask(each, "done")][:MAX_TASKS]


def _copy(tasks: Any) -> list[Any]:
    for _ in range(_TRIES):
        try:
            return list(tasks)
        except RuntimeError:  # another thread starts or ends one
            continue
    return []


def _ask(task: Any, method: str) -> Any:
    """What the method of asyncio's own class says, whatever a subclass made of it."""
    tasks = sys.modules["asyncio.tasks"]
    for name in ("Task", "_PyTask"):
        cls = getattr(tasks, name, None)
        if isinstance(cls, type) and layout.is_a(type(task), cls):
            return getattr(cls, method)(task)
    return None


def _task(task: Any, lens: Lens) -> dict[str, Any]:
    coroutine = _ask(task, "get_coro")
    frames = list(_suspended(coroutine))[::-1]
    waiter = getattr(task, "_fut_waiter", None)
    is_running = type(coroutine) is CoroutineType and coroutine.cr_running
    return {
        "name": lens.text(str(_ask(task, "get_name"))),
        "state": "running" if is_running else "scheduled" if waiter is None else "waiting",
        "location": _place(frames, lens) if frames else None,
        "awaits": None if waiter is None else _awaited(waiter, lens),
    }


def _awaited(waiter: Any, lens: Lens) -> str:
    name = _ask(waiter, "get_name")
    return layout.type_name(waiter) if name is None else f"task {lens.text(str(name))}"


def _suspended(coroutine: Any) -> Iterator[FrameType]:
    """The frames of a coroutine and of what it awaits, outermost first."""
    for _ in range(_DEEPEST):
        kind = type(coroutine)
        if kind is CoroutineType:
            frame, coroutine = coroutine.cr_frame, coroutine.cr_await
        elif kind is GeneratorType:
            frame, coroutine = coroutine.gi_frame, coroutine.gi_yieldfrom
        elif kind is AsyncGeneratorType:
            frame, coroutine = coroutine.ag_frame, coroutine.ag_await
        else:
            return
        if frame is not None:
            yield frame


def _line(frame: FrameType, lens: Lens) -> str:
    place = lens.place(frame, frame.f_lineno)
    return f"{place['file']}:{place['line']} {frame.f_code.co_qualname}"


def _place(frames: list[FrameType], lens: Lens) -> dict[str, Any]:
    """`{file, line, function, module}` of the innermost frame of user code, else of any."""
    frame = frames[top_user_frame(frames, lens.project)]
    return {
        **lens.place(frame, frame.f_lineno),
        "function": frame.f_code.co_qualname,
        "module": module_of(frame),
    }
