"""Finds the event loop that the runner of a test holds open, and runs evaluations in it.

The loop and the context of the test are found as data: in the frames of a failure, in the fixtures
of the item that this thread runs, in the state of anyio's plugin and of asyncio. An evaluation that
awaits runs there, so that it can wait for objects of the test and its fixtures; its tasks are ended
afterwards.
"""

from __future__ import annotations

import sys
from _contextvars import Context, ContextVar, copy_context
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from gc import get_referents
from types import FrameType, FunctionType
from typing import Any, Final

from pytest_cideldill.evaluation.interrupt import Interruption, Interruptor
from pytest_cideldill.frames import asyncio_tasks
from pytest_cideldill.frames.frames import module_of
from pytest_cideldill.interpreter.frame_locals import read_locals
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.rendering import layout
from pytest_cideldill.rendering.layout import attribute, find_in_class, is_a, traceback_of

_ENTRIES: Final = {
    ("asyncio.base_events", "run_until_complete"): "future",
    ("asyncio.runners", "run"): "task",
}
"""Functions through which failures of coroutines pass: module, name → the local with the task."""

_TURNS: Final = 30
"""Turns of a loop within which cancelled tasks must end."""

_CANCELS: Final = 2
"""Requests to end an evaluation that cancel its task; the next one stops the loop."""

_BEGUN: Final[ContextVar[bool]] = ContextVar("pytest_cideldill.begun")
"""Set in the tasks that an evaluation begins."""

_MISSING: Final = object()


@dataclass(frozen=True, slots=True, eq=False)
class OpenLoop:
    """A loop that is open and does not run.

    Attributes:
        context: The context of the test; None: the one that the thread is in.
    """

    loop: Any
    context: Context | None


# --- finding it ---------------------------------------------------------------------------------


def find_loop(error: BaseException | None, frame: FrameType | None) -> OpenLoop | None:
    """The loop of a paused test whose thread runs no loop; None if there is none.

    Args:
        error: The exception that ended the code of the pause; None: the code goes on.
        frame: The innermost frame of this thread.
    """
    base = getattr(sys.modules.get("asyncio.events"), "AbstractEventLoop", None)
    if base is None:
        return None
    for loop, context in _candidates(error, frame):
        if loop is not None and is_a(type(loop), base) and _is_idle(loop):
            return OpenLoop(loop, context)
    return None


def context_of(error: BaseException | None) -> Context | None:
    """The context of the task that an exception has ended, if one is known and free."""
    contexts = (_free(context) for _, context in _of_traceback(error))
    return next((context for context in contexts if context is not None), None)


def _candidates(
    error: BaseException | None, frame: FrameType | None
) -> Iterator[tuple[Any, Context | None]]:
    yield from _of_traceback(error)
    item = _item(frame)
    if item is not None:
        yield from _of_item(item)
    yield from _of_anyio()
    policy = getattr(sys.modules["asyncio.events"], "_event_loop_policy", None)
    yield getattr(attribute(policy, "_local"), "_loop", None), None


def _of_traceback(error: BaseException | None) -> Iterator[tuple[Any, Context | None]]:
    """The loops that an exception has passed, innermost first."""
    found: list[tuple[Any, Context | None]] = []
    place = None if error is None else traceback_of(error)
    while place is not None:
        frame = place.tb_frame
        name = _ENTRIES.get((module_of(frame), frame.f_code.co_name))
        if name is not None:
            values = read_locals(frame)
            runner, task = values.get("self"), values.get(name)
            loop = runner if name == "future" else attribute(runner, "_loop")
            found.append((loop, _anyio_s_context(loop) or _context_in(task)))
        place = place.tb_next
    return iter(reversed(found))


def _of_item(item: Any) -> Iterator[tuple[Any, Context | None]]:
    """The loops among the fixtures of an item, the newest first, and that of its instance."""
    values = dict(_items(attribute(item, "funcargs")))
    for name, fixture in _items(attribute(attribute(item, "_request"), "_fixture_defs")):
        cached = attribute(fixture, "cached_result")
        values[name] = cached[0] if type(cached) is tuple else None
    for name, value in reversed(values.items()):
        # pytest-asyncio runs each test in a copy of the context that the thread is in.
        own = None if name.endswith("_scoped_runner") else attribute(value, "_context")
        yield (attribute(value, "_loop"), own) if _is_runner(value) else (value, None)
    instance = attribute(item, "_instance")
    runner = attribute(instance, "_asyncioRunner")
    yield attribute(runner, "_loop"), attribute(instance, "_asyncioTestContext")


def _of_anyio() -> Iterator[tuple[Any, Context | None]]:
    loop = attribute(attribute(_anyio_s_runner(), "_runner"), "_loop")
    yield loop, _anyio_s_context(loop)


def _anyio_s_runner() -> Any:
    return getattr(sys.modules.get("anyio.pytest_plugin"), "_current_runner", None)


def _anyio_s_context(loop: Any) -> Context | None:
    """The context of the task in which anyio's plugin runs fixtures and tests, if in this loop."""
    runner = _anyio_s_runner()
    if loop is None or attribute(attribute(runner, "_runner"), "_loop") is not loop:
        return None
    return _context_in(attribute(runner, "_runner_task"))


def _item(frame: FrameType | None) -> Any:
    """The item that this thread runs for pytest."""
    while frame is not None:
        if frame.f_code.co_name == "runtestprotocol" and module_of(frame) == "_pytest.runner":
            return read_locals(frame).get("item")
        frame = frame.f_back
    return None


def _items(mapping: Any) -> list[tuple[str, Any]]:
    if not is_a(type(mapping), dict):
        return []
    return [(name, value) for name, value in dict.items(mapping) if type(name) is str]


def _is_runner(value: object) -> bool:
    cls = getattr(sys.modules.get("asyncio.runners"), "Runner", None)
    return cls is not None and is_a(type(value), cls)


def _context_in(task: Any) -> Context | None:
    """The context of a task. Before 3.12 a task made in C has no attribute for it."""
    held = [attribute(task, "_context"), *get_referents(task)] if task is not None else []
    return next((each for each in held if type(each) is Context), None)


def _is_idle(loop: Any) -> bool:
    if attribute(loop, "_closed") or attribute(loop, "_thread_id") is not None:
        return False
    # Loops in C have no such attributes: their methods are called. Code of the program never is.
    states = [(name, find_in_class(type(loop), name)) for name in ("is_closed", "is_running")]
    return not any(
        type(state) is not FunctionType and state is not None and getattr(loop, name)()
        for name, state in states
    )


# --- using it -----------------------------------------------------------------------------------


def in_context(context: Context | None, work: Callable[..., Any], *args: Any) -> Any:
    """The result of `work(*args)` in a context, or outside if a thread is in that already."""
    context = _free(context)
    return work(*args) if context is None else context.run(work, *args)


def _free(context: Context | None) -> Context | None:
    if context is not None:
        try:
            context.run(int)
        except RuntimeError:
            return None
    return context


def run_in_test_loop(
    held: OpenLoop, coroutine: Coroutine[Any, Any, Any], interruptor: Interruptor
) -> object:
    """The result of a coroutine, run in a task of the test's loop. Other tasks go on meanwhile.

    Variables of the context that it sets stay set. Tasks that it began are cancelled.

    Raises:
        Interruption: The interruptor has ended it.
        BaseException: Whatever the coroutine raises.
    """
    loop, outer = held.loop, held.context
    inner = copy_context() if outer is None else outer.copy()
    inner.run(_BEGUN.set, True)
    task = sys.modules["asyncio.tasks"].Task(coroutine, loop=loop, context=inner)
    ending = _Ending(loop, task, coroutine)
    before, interruptor.soften = interruptor.soften, ending.request
    try:
        result = loop.run_until_complete(task)
    except BaseException as error:
        # The error is a consequence of our request, and none of the coroutine's own.
        if ending.count and not isinstance(error, Interruption):
            raise Interruption from error
        raise
    finally:
        interruptor.soften = before
        _end_tasks(loop, task)
        _take_over(inner, outer)
    if ending.count:
        raise Interruption
    return result


def find_trio() -> Any:
    """The runner of anyio's plugin that holds a loop of trio, if one does."""
    runner = _anyio_s_runner()
    is_trio_s = layout.module_of(type(runner)) == "anyio._backends._trio"
    return runner if is_trio_s and attribute(runner, "_send_stream") is not None else None


def run_in_trio(runner: Any, coroutine: Coroutine[Any, Any, Any], interruptor: Interruptor) -> Any:
    """Like `run_in_test_loop`, in the task in which anyio's plugin runs fixtures and tests."""
    trio = sys.modules["trio"]
    scope = trio.CancelScope()
    tokens: list[Any] = []

    async def work() -> object:
        tokens.append(trio.lowlevel.current_trio_token())
        with scope:
            return await coroutine

    def cancel(_frame: FrameType | None) -> bool:
        if coroutine.cr_running or not tokens:  # type: ignore[attr-defined]
            return False
        tokens[0].run_sync_soon(scope.cancel)
        return True

    before, interruptor.soften = interruptor.soften, cancel
    try:
        result = runner._call_in_runner_task(work)
    finally:
        interruptor.soften = before
    if scope.cancel_called:
        raise Interruption
    return result


class _Ending:
    """Ends an evaluation in a loop without breaking the loop, or the tasks of the program.

    An exception raised from a signal would end the code that runs just then, perhaps another task
    or the loop. So the task is cancelled instead, unless its own code runs.
    """

    def __init__(self, loop: Any, task: Any, coroutine: Any) -> None:
        self._loop, self._task, self._coroutine = loop, task, coroutine
        self.count = 0

    def request(self, frame: FrameType | None) -> bool:
        """In a signal handler: request the end; False if an exception has to be raised instead."""
        if self._coroutine.cr_running:
            return False
        self.count += 1
        if self.count > _CANCELS and (frame is not None and not _is_plumbing(frame)):
            return False  # other code that never lets the loop go on
        act = self._task.cancel if self.count <= _CANCELS else self._loop.stop
        with suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(act)  # which wakes it up
        return True


def _is_plumbing(frame: FrameType) -> bool:
    name = module_of(frame)
    return name.startswith(("asyncio.", "selectors", "pytest_cideldill."))


def _end_tasks(loop: Any, task: Any) -> None:
    """Cancel the tasks that the evaluation began, in a few turns of the loop without waiting."""
    left = [each for each in asyncio_tasks.find() if _is_begun(each, loop)]
    for each in left:
        each.cancel()
    with suppress(RuntimeError):  # it is closed
        for _ in range(_TURNS):
            if all(each.done() for each in left):
                break
            loop.call_soon(loop.stop)
            loop.run_forever()
    for each in (task, *left):
        if each.done():
            if not each.cancelled():
                each.exception()  # else asyncio would log it as never retrieved
        else:  # it refuses to end: the runner would wait for that
            sys.modules["asyncio.tasks"]._unregister_task(each)
            each._log_destroy_pending = False


def _is_begun(task: Any, loop: Any) -> bool:
    context = _context_in(task)
    return context is not None and _BEGUN in context and task.get_loop() is loop


def _take_over(inner: Context, outer: Context | None) -> None:
    """Set the variables in a context that were set in its copy."""
    context = copy_context() if outer is None else outer
    for variable, value in inner.items():
        if variable is not _BEGUN and context.get(variable, _MISSING) is not value:
            in_context(outer, variable.set, value)
