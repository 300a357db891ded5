"""What is behind an exception: causes, contexts, members of groups, as plain values.

Runs on the thread that stopped; only the exceptions' own data is looked at, no user code runs.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from typing import Any
from typing import Final

from pytest_cideldill.capture.calls import MAX_MESSAGE
from pytest_cideldill.capture.calls import raised
from pytest_cideldill.capture.layout import Layout
from pytest_cideldill.capture.lens import Lens

MOST: Final = 5
"""How many are told."""

# Not the attributes: a class may define its own.
_cause_of, _context_of, _hides_context = (
    BaseException.__dict__[name].__get__
    for name in ("__cause__", "__context__", "__suppress_context__")
)
_members_of: Callable[[BaseException], tuple[BaseException, ...]]
_members_of = BaseExceptionGroup.__dict__["exceptions"].__get__


def inner_exceptions(error: BaseException, lens: Lens, most: int = MOST) -> dict[str, Any]:
    """`innerExceptions`, the nearest first, and whether there are more."""
    found: list[dict[str, Any]] = []
    waiting, seen = [(error, 0)], {id(error)}
    while waiting:
        outer, depth = waiting.pop(0)
        for relation, inner in _behind(outer):
            if id(inner) in seen:
                continue
            if len(found) == most:
                return {"innerExceptions": found, "innerExceptionsTruncated": True}
            seen.add(id(inner))
            waiting.append((inner, depth + 1))
            found.append({**raised(inner, lens), "depth": depth + 1, "relation": relation})
    return {"innerExceptions": found, "innerExceptionsTruncated": False}


def notes_of(error: BaseException, lens: Lens) -> list[str]:
    """The notes that were added to an exception; bounded."""
    held = Layout.of(type(error)).held(error)
    found = [each for name, each in held if type(name) is str and name == "__notes__"]
    notes = found[0] if found and type(found[0]) is list else []
    texts = [each for each in notes if type(each) is str]
    return [lens.text(each, MAX_MESSAGE) for each in texts[:MOST]]


def _behind(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    """What Python would print with an exception."""
    cause, context = _cause_of(error), _context_of(error)
    if cause is not None:
        yield "cause", cause
    elif context is not None and not _hides_context(error):
        yield "context", context
    if issubclass(type(error), BaseExceptionGroup):
        for member in _members_of(error):
            yield "member", member
