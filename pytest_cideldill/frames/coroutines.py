"""Coroutines that stand still, and the tasks that drive them, read without running user code.

What asyncio and trio have in common; on any thread. Must not know either of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from gc import get_referents
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType
from typing import Any, Final

from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.rendering import layout

DEEPEST: Final = 100
"""Coroutines that one may wait for through others."""

# Made by the interpreter around a coroutine or an asynchronous generator; they don't say of which.
_WRAPPERS: Final = frozenset(
    {"async_generator_asend", "async_generator_athrow", "anext_awaitable", "coroutine_wrapper"}
)


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A task of an event loop that is not done.

    Attributes:
        held: The object itself, for its identity.
        name: What the program calls it.
        coroutine: What it drives.
        is_waiting: Whether it waits for something that has not come; else it runs or is about to.
        awaits: What it awaits, where its coroutines don't show it: the type of a future.
        waiters: The tasks, as they are, that wait for this one; nearest first.
        thread_id: The thread of its loop, when that is known.
    """

    held: Any
    name: str
    coroutine: Any
    is_waiting: bool
    awaits: str | None
    waiters: list[Any]
    thread_id: int | None

    @property
    def is_running(self) -> bool:
        """Whether a thread is inside its coroutine now."""
        return type(self.coroutine) is CoroutineType and self.coroutine.cr_running


def suspended(coroutine: Any) -> Iterator[FrameType]:
    """The frames of a coroutine that stands still and of what it awaits, outermost first."""
    for _ in range(DEEPEST):
        kind = type(coroutine)
        if kind is CoroutineType:
            frame, coroutine = coroutine.cr_frame, coroutine.cr_await
        elif kind is GeneratorType:
            frame, coroutine = coroutine.gi_frame, coroutine.gi_yieldfrom
        elif kind is AsyncGeneratorType:
            frame, coroutine = coroutine.ag_frame, coroutine.ag_await
        elif layout.type_name(coroutine) in _WRAPPERS:
            frame, coroutine = None, next(iter(get_referents(coroutine)), None)
        else:
            return
        if frame is not None:
            yield frame
