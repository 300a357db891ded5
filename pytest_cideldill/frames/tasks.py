"""Tasks of event loops, and greenlets, to plain values, and the stacks that they make together.

A stack of the interpreter ends in the event loop. The frames of tasks that await the task are put
between that task and the loop: that is the stack as the program's author thinks of it. No user code
runs; on any thread, of a moment unless the loop's thread stands still.
"""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import FrameType, GetSetDescriptorType
from typing import Any, Final

from pytest_cideldill.frames import asyncio_tasks, trio_tasks
from pytest_cideldill.frames.coroutines import Task, suspended
from pytest_cideldill.frames.frames import line_of, module_of, place_of, visible_stack
from pytest_cideldill.interpreter.running import current_frames, running_frames
from pytest_cideldill.project import Project
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.rendering.layout import class_dict, find, is_a

MAX_TASKS: Final = 200
MAX_CHAIN: Final = 20
"""Entries of `awaits`: what a task awaits, from its outermost coroutine on."""

_MOST_WAITERS: Final = 20
"""Tasks whose frames are put into a stack."""

_MOST_NAMES: Final = 5


# --- stacks ---------------------------------------------------------------------------------


def logical_stack(frame: FrameType | None, project: Project) -> list[FrameType]:
    """`visible_stack`, with the frames of tasks that await a task behind the frames of that one."""
    frames = visible_stack(frame, project)
    for end, task, read in reversed(list(_running(frames))):
        waiting = [each for waiter in _waiters(task, read) for each in _frames_of(waiter)]
        frames[end:end] = waiting
    return frames


def names_of_tasks(frames: Sequence[FrameType]) -> dict[int, str]:
    """The name of the task that a frame belongs to, by the frame's id; of a logical stack."""
    names: dict[int, str] = {}
    start = 0
    for end, task, read in _running(frames):
        names |= {id(frame): task.name for frame in frames[start:end]}
        for waiter in _waiters(task, read):
            names |= {id(frame): waiter.name for frame in _frames_of(waiter)}
        start = end
    return names


def task_of(frames: Sequence[FrameType]) -> str | None:
    """The name of the task that a stack is in; of the innermost one if there are several."""
    return next((task.name for _, task, _ in _running(frames)), None)


def is_in_loop() -> bool:
    """Whether an event loop runs on the calling thread."""
    return (asyncio_tasks.is_loaded() and asyncio_tasks.is_in_loop()) or (
        trio_tasks.is_loaded() and trio_tasks.is_in_loop()
    )


def are_cancelled() -> bool:
    """Whether a task is being cancelled, as asyncio's is by Ctrl-C."""
    return asyncio_tasks.is_loaded() and asyncio_tasks.are_cancelled()


_Read = Callable[[Any], Task]


def _running(frames: Sequence[FrameType]) -> Iterator[tuple[int, Task, _Read]]:
    """Each task whose coroutine is in a stack, innermost first, and where its frames end."""
    found: list[tuple[Task, _Read]] = []
    if asyncio_tasks.is_loaded():
        read: _Read = asyncio_tasks.read
        found += [(read(task), read) for task in asyncio_tasks.running()]
    if trio_tasks.is_loaded():
        read = trio_tasks.read
        found += [(read(task), read) for task in trio_tasks.running(running_frames())]
    if found:
        outermost = {id(each[0].coroutine.cr_frame): each for each in found if each[0].is_running}
        for index, frame in enumerate(frames):
            if id(frame) in outermost:
                yield index + 1, *outermost[id(frame)]


def _waiters(task: Task, read: _Read) -> Iterator[Task]:
    """The tasks that wait for a task, and for these; nearest first."""
    seen, ways = {id(task.held)}, deque(task.waiters)
    while ways and len(seen) <= _MOST_WAITERS:
        held = ways.popleft()
        if id(held) not in seen:
            seen.add(id(held))
            waiter = read(held)
            ways.extend(waiter.waiters)
            yield waiter


def _frames_of(task: Task) -> list[FrameType]:
    """Of a task that stands still, innermost first."""
    return list(suspended(task.coroutine))[::-1]


# --- all of them ----------------------------------------------------------------------------


def describe_tasks(lens: Lens) -> list[dict[str, Any]]:
    """`[{name, state, location, awaits, thread_id}]` of the tasks that are not done.

    `state`: `running`, `waiting`, or `scheduled`: it goes on when the loop comes to it. `awaits`:
    the coroutines from the outermost one on, then what the innermost one waits for; where that is
    another task, its coroutines, and so on. Greenlets that wait in the user's code follow.
    """
    stacks = {id: visible_stack(frame, lens.project) for id, frame in current_frames().items()}
    tasks = _all(stacks)[:MAX_TASKS]
    frames = {id(each.held): _of_moment(each, stacks) for each in tasks}
    awaited: dict[int, list[Task]] = {}
    for each in tasks:
        for waiter in each.waiters:
            awaited.setdefault(id(waiter), []).append(each)
    described = [
        {
            "name": lens.text(each.name),
            "state": _state(each),
            "location": place_of(frames[id(each.held)], lens) if frames[id(each.held)] else None,
            "awaits": _chain(each, frames, awaited, lens),
            "thread_id": each.thread_id,
        }
        for each in sorted(tasks, key=lambda task: (not task.is_running, len(task.name), task.name))
    ]
    return (described + list(_describe_greenlets(lens)))[:MAX_TASKS]


def _describe_greenlets(lens: Lens) -> Iterator[dict[str, Any]]:
    for stack in _waiting_greenlets():
        users = [each for each in stack if lens.project.is_user(each.f_code.co_filename)]
        if users:
            lines = [_line(frame, lens) for frame in reversed(stack)]
            yield {
                "name": lens.text(f"greenlet {users[-1].f_code.co_qualname}"),
                "state": "waiting",
                "location": place_of(stack, lens),
                "awaits": _shortened(lines),
                "thread_id": None,
            }


def _all(stacks: dict[int, list[FrameType]]) -> list[Task]:
    tasks = []
    if asyncio_tasks.is_loaded():
        tasks += [asyncio_tasks.read(each) for each in asyncio_tasks.find()]
    if trio_tasks.is_loaded():
        for ident, stack in stacks.items():
            tasks += [trio_tasks.read(each, ident) for each in trio_tasks.find(stack)]
    return tasks


def _state(task: Task) -> str:
    if task.is_running:
        return "running"
    return "waiting" if task.is_waiting else "scheduled"


def _of_moment(task: Task, stacks: dict[int, list[FrameType]]) -> list[FrameType]:
    """The frames of a task, innermost first; while it runs, those of its thread."""
    if task.is_running:
        for stack in stacks.values():
            for index, frame in enumerate(stack):
                if frame is task.coroutine.cr_frame:
                    return stack[: index + 1]
    return _frames_of(task)


def _chain(
    task: Task, frames: dict[int, list[FrameType]], awaited: dict[int, list[Task]], lens: Lens
) -> list[str]:
    chain: list[str] = []
    seen: set[int] = set()
    while id(task.held) not in seen:
        seen.add(id(task.held))
        chain += [_line(frame, lens) for frame in reversed(frames[id(task.held)])]
        others = awaited.get(id(task.held), [])
        if not others or task.is_running:
            chain += [] if task.awaits is None or task.is_running else [task.awaits]
            break
        names = [lens.text(each.name) for each in others]
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        kind = "task" if len(names) == 1 else "tasks"
        chain.append(f"{kind} {', '.join(names[:_MOST_NAMES])}{more}")
        if len(others) > 1:
            break
        task = others[0]
    return _shortened(chain)


def _shortened(chain: list[str]) -> list[str]:
    left_out = len(chain) - MAX_CHAIN
    half = MAX_CHAIN // 2
    return chain if left_out <= 0 else [*chain[:half], f"… {left_out} more", *chain[-half:]]


def _line(frame: FrameType, lens: Lens) -> str:
    """`file:line function` of the user's code, the dotted name of other code."""
    if not lens.project.has(frame):
        return f"{module_of(frame)}.{frame.f_code.co_qualname}"
    return line_of(frame, lens)


def _waiting_greenlets() -> list[list[FrameType]]:
    """The stacks of all greenlets (gevent, eventlet) that were begun and don't run.

    Innermost first. A thread runs one of them at a time; the others are in no stack of the
    interpreter. Without the library this costs a look into `sys.modules`, else one at each object.
    """
    base: Any = getattr(sys.modules.get("greenlet"), "greenlet", None)
    if type(base) is not type:
        return []
    descriptor = find(class_dict(base), "gr_frame")
    if type(descriptor) is not GetSetDescriptorType:
        return []
    found = []
    for each in gc.get_objects():
        if is_a(type(each), base):
            frame, stack = descriptor.__get__(each, base), []
            while frame is not None:
                stack.append(frame)
                frame = frame.f_back
            if stack:
                found.append(stack)
    return found
