"""What is behind an exception: causes, contexts, members of groups, as plain values.

Runs on the thread that stopped; only the exceptions' own data is looked at, no user code runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from pytest_cideldill.frames.arguments import raised
from pytest_cideldill.frames.frames import location, visible_traceback
from pytest_cideldill.rendering.display import MESSAGE, Lens
from pytest_cideldill.rendering.layout import cause_of, context_of, held_value

MOST: Final = 5
"""How many are described."""

# Not the attributes: a class may define its own.
_hides_context = BaseException.__dict__["__suppress_context__"].__get__
_members_of: Callable[[BaseException], tuple[BaseException, ...]]
_members_of = BaseExceptionGroup.__dict__["exceptions"].__get__


def inner_exceptions(
    error: BaseException, lens: Lens, most: int = MOST, *, printed: bool = False
) -> dict[str, Any]:
    """`innerExceptions`, the nearest first, and whether there are more.

    Args:
        printed: Only what Python prints: nothing that was suppressed, nor what is behind that.
    """
    found: list[dict[str, Any]] = []
    waiting, seen = [(error, 0)], {id(error)}
    while waiting:
        outer, depth = waiting.pop(0)
        for relation, inner in _behind(outer):
            if id(inner) in seen or (printed and relation == "suppressed"):
                continue
            if len(found) == most:
                return {"innerExceptions": found, "innerExceptionsTruncated": True}
            seen.add(id(inner))
            waiting.append((inner, depth + 1))
            described = {**raised(inner, lens), "depth": depth + 1, "relation": relation}
            found.append(described | {"location": _place_of(inner, lens)})
    return {"innerExceptions": found, "innerExceptionsTruncated": False}


def notes_of(error: BaseException, lens: Lens) -> list[str]:
    """The notes that were added to an exception; bounded."""
    return [lens.text(each, MESSAGE) for each in all_notes_of(error)[:MOST]]


def all_notes_of(error: BaseException) -> list[str]:
    """The same as they are."""
    notes = held_value(error, "__notes__")
    return [note for note in notes if type(note) is str] if type(notes) is list else []


def members_of(error: BaseException) -> tuple[BaseException, ...]:
    """What a group consists of; of other exceptions nothing."""
    return _members_of(error) if issubclass(type(error), BaseExceptionGroup) else ()


def _place_of(error: BaseException, lens: Lens) -> dict[str, Any] | None:
    """The innermost place in user code that it passed, else where it came from; None: nowhere."""
    places = visible_traceback(error, lens.project)
    users = (place for place in places if lens.project.has(place[0]))
    place = next(users, places[0] if places else None)
    return None if place is None else location(*place, lens)


def _behind(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    """What Python would print with an exception, and then what it would not: `suppressed`."""
    cause, context = cause_of(error), context_of(error)
    if cause is not None:
        yield "cause", cause
    elif context is not None and not _hides_context(error):
        yield "context", context
    for member in members_of(error):
        yield "member", member
    if context is not None and _hides_context(error):
        yield "suppressed", context
