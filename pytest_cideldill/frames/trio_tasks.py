"""The tasks of trio: which there are, and which waits for which.

A thread that runs trio is known by a frame of its stack, so that this can be asked on any thread.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any, Final

from pytest_cideldill.frames.coroutines import Task
from pytest_cideldill.interpreter.frame_locals import read_locals
from pytest_cideldill.rendering.layout import attribute

_RUN: Final = "trio._core._run"
_LOOP: Final = "unrolled_run"


def is_loaded() -> bool:
    """Whether there can be any tasks."""
    return _RUN in sys.modules


def find(frames: Iterable[FrameType]) -> list[Any]:
    """All tasks of the loop that a stack is in."""
    found: list[Any] = []
    for runner in _locals_of_loops(frames, "runner"):
        waiting = [attribute(runner, "main_task")]
        while waiting:
            task = waiting.pop()
            if task is None:
                continue
            found.append(task)
            for nursery in list(attribute(task, "_child_nurseries") or ()):
                waiting += list(attribute(nursery, "_children") or ())
    return found


def running(frames: Iterable[FrameType]) -> list[Any]:
    """The tasks that the loops of some stacks are in."""
    return [each for each in _locals_of_loops(frames, "task") if each is not None]


def is_in_loop() -> bool:
    """Whether the calling thread runs a task: a loop that is a guest keeps its other marks."""
    return hasattr(getattr(sys.modules[_RUN], "GLOBAL_RUN_CONTEXT", None), "task")


def read(task: Any, thread_id: int | None = None) -> Task:
    """A task as plain data."""
    parent, name = _parent(task), attribute(task, "name")
    return Task(
        task,
        name if type(name) is str else "?",
        attribute(task, "coro"),
        attribute(task, "_next_send_fn") is None,
        None,
        [] if parent is None or _parent(parent) is None else [parent],  # not trio's own
        thread_id,
    )


def _parent(task: Any) -> Any:
    nursery = attribute(task, "_parent_nursery")
    return None if nursery is None else attribute(nursery, "_parent_task")


def _locals_of_loops(frames: Iterable[FrameType], name: str) -> list[Any]:
    found = []
    for frame in frames:
        if frame.f_code.co_name == _LOOP and frame.f_globals.get("__name__") == _RUN:
            found.append(read_locals(frame).get(name))
    return found
