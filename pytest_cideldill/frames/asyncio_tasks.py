"""The tasks of asyncio, anyio's upon it included: which there are, and which waits for which.

asyncio itself only says what a task waits for, and often that is a bare future. So waiting tasks
are found from the other end: from the owner of a callback that was set on a task. On any thread.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from functools import partial
from types import BuiltinFunctionType, CellType, FunctionType, MethodType
from typing import Any, Final

from pytest_cideldill.frames.coroutines import Task
from pytest_cideldill.rendering import layout
from pytest_cideldill.rendering.layout import attribute

_TRIES: Final = 10
_MOST_STEPS: Final = 200
"""Futures, callbacks and groups between a task and the tasks that wait for it."""

_PLUMBING: Final = ("asyncio.", "anyio.")
"""Modules whose callbacks wake up waiting tasks; callbacks of others say nothing about that."""

_LEADS: Final = ("_parent_task", "cancel_scope", "_host_task", "_done", "_getters")
"""Attributes of objects of these modules (task groups, scopes, queues) that lead to waiters."""


def is_loaded() -> bool:
    """Whether there can be any tasks."""
    return "asyncio.tasks" in sys.modules


def find() -> list[Any]:
    """All tasks of all loops that are not done."""
    found: list[Any] = []
    for name in ("_scheduled_tasks", "_eager_tasks", "_all_tasks"):
        found += _copy(getattr(sys.modules["asyncio.tasks"], name, ()))
    return [each for each in found if _is(each, _tasks()) and not _ask(each, "done")]


def running() -> list[Any]:
    """The tasks that run now, one per loop, perhaps among others."""
    current = getattr(sys.modules["asyncio.tasks"], "_current_tasks", None)
    if current is None:
        return find()
    return [each for each in _copy(current.values()) if _is(each, _tasks())]


def are_cancelled() -> bool:
    """Whether a task is being cancelled: so asyncio hands Ctrl-C on."""
    return any(_ask(task, "cancelling") for task in find())


def is_in_loop() -> bool:
    """Whether the calling thread runs a loop."""
    get = getattr(sys.modules.get("asyncio.events"), "_get_running_loop", None)
    return get is not None and get() is not None


def read(task: Any) -> Task:
    """A task as plain data."""
    awaited = attribute(task, "_fut_waiter")
    thread_id = attribute(_ask(task, "get_loop"), "_thread_id")
    return Task(
        task,
        str(_ask(task, "get_name")),
        _ask(task, "get_coro"),
        awaited is not None,
        None if awaited is None else layout.type_name(awaited),
        list(_waiters(task)),
        thread_id if type(thread_id) is int else None,
    )


def _waiters(task: Any) -> Iterator[Any]:
    """Along callbacks, and what they set, to other tasks; nearest first."""
    seen, ways, futures = {id(task)}, deque(_callbacks(task)), _futures()
    for _ in range(_MOST_STEPS):
        if not ways:
            return
        place = ways.popleft()
        if id(place) in seen:
            continue
        seen.add(id(place))
        if not _is(place, futures):
            ways.extend(_leads(place))
        elif not _is(place, _tasks()):
            ways.extend(_callbacks(place))
        elif not _ask(place, "done"):
            yield place


def _leads(place: Any) -> list[Any]:
    """To what a callback, or what it belongs to, leads."""
    kind = type(place)
    if kind in (MethodType, BuiltinFunctionType):  # the second: a task's own, in C
        return [place.__self__]
    if kind is partial:
        return [place.func, *place.args]
    if kind is deque:
        return _copy(place)
    if kind is FunctionType:
        module = place.__globals__.get("__name__")
        if type(module) is str and module.startswith(_PLUMBING):
            return [cell.cell_contents for cell in place.__closure__ or () if _is_set(cell)]
    elif layout.module_of(kind).startswith(_PLUMBING):
        return [attribute(place, name) for name in _LEADS]
    return []


def _callbacks(future: Any) -> list[Any]:
    return [each[0] for each in attribute(future, "_callbacks") or ()]


def _is_set(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _copy(tasks: Any) -> list[Any]:
    for _ in range(_TRIES):
        try:
            return list(tasks or ())
        except RuntimeError:  # another thread starts or ends one
            continue
    return []


def _tasks() -> list[type]:
    return _classes("tasks", "Task", "_PyTask")


def _futures() -> list[type]:
    return _classes("futures", "Future", "_PyFuture")


def _classes(module: str, *names: str) -> list[type]:
    loaded = sys.modules.get(f"asyncio.{module}")
    found = [getattr(loaded, name, None) for name in names]
    return [each for each in found if isinstance(each, type)]


def _is(held: Any, classes: list[type]) -> bool:
    return any(layout.is_a(type(held), cls) for cls in classes)


def _ask(task: Any, method: str) -> Any:
    """What the method of asyncio's own class says, whatever a subclass made of it."""
    return next(
        (getattr(cls, method)(task) for cls in _tasks() if layout.is_a(type(task), cls)), None
    )
