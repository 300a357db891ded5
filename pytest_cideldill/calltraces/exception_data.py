"""The data of exceptions, past what their classes may define in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final

from pytest_cideldill.rendering import layout

_MOST_CONTEXTS: Final = 20
_MOST: Final = 1_000

_Chained = Callable[[BaseException], "BaseException | None"]

_DATA: Final[Any] = BaseException.__dict__
traceback_of: Final[Callable[[BaseException], TracebackType | None]] = _DATA[
    "__traceback__"
].__get__
context_of: Final[_Chained] = _DATA["__context__"].__get__
_cause_of: Final[_Chained] = _DATA["__cause__"].__get__
_inner_of: Final[Callable[[BaseException], tuple[BaseException, ...]]] = (
    BaseExceptionGroup.__dict__["exceptions"].__get__
)


def contexts_of(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, and those in whose handlers it arose, the nearest first."""
    for _ in range(_MOST_CONTEXTS):
        if error is None:
            return
        yield error
        error = context_of(error)


def all_of(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, and all that belong to it: causes, contexts, those in groups."""
    pending, seen = [error], set[int]()
    while pending and len(seen) < _MOST:
        each = pending.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        pending += [_cause_of(each), context_of(each)]
        if layout.is_a(type(each), BaseExceptionGroup):
            pending += _inner_of(each)
