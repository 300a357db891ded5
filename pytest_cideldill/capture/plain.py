"""Expressions that compare plain locals, as most conditions do: no user code runs, nothing is slow.

So they need no time limit, and nobody is marked as evaluating: as short a path as there is, on the
thread that hit.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from operator import itemgetter
from sys import getrefcount
from types import FrameType
from typing import Any
from typing import Final

Application = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function, and what it is called with."""

HARMLESS: Final = (ast.Name, ast.Constant, ast.Tuple, ast.Load, ast.Expression)
"""What runs no user code."""

PLAIN: Final = (
    *HARMLESS,
    *(ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop, ast.UnaryOp, ast.Not, ast.USub),
)
"""What is harmless with values of `_PLAIN_TYPES`, and over at once."""

_PLAIN_TYPES: Final = frozenset(map(id, (int, float, bool, str, bytes, type(None))))
"""By id: a metaclass may define how its classes are hashed."""

UNSHARED: Final = 3
"""References to a frame's copy of its locals: the frame's, ours, `getrefcount`'s argument."""

# Before 3.13 a frame keeps the copy of its locals that `f_locals` makes, and with it every value
# alive, which tests of weak references and of `del` notice. On 3.11 lines are told by a trace
# function: there the copy is made anew at each line anyway, and must stay whole.
COPY_STAYS: Final = (3, 12) <= sys.version_info < (3, 13)


def plain_value(
    names: tuple[str, ...],
    function: Callable[..., Any],
    forget: Callable[[dict[str, Any]], None],
    thorough: Callable[[FrameType], Any],
    limited: Callable[[Application], Any],
) -> Callable[[FrameType], Any]:
    """`value(frame)` of an expression that consists of `PLAIN` over locals.

    Args:
        names: The locals, one at least.
        function: Takes their values.
        forget: Empties a frame's copy of its locals.
        thorough: For frames where a name has no value.
        limited: Takes over where user code may run: where a value is not plain.
    """
    plain, kind_of, references, stays = _PLAIN_TYPES, id, getrefcount, COPY_STAYS
    name, pick = names[0], picker(names)

    def value_of_one(frame: FrameType) -> Any:
        held: Any = frame.f_locals
        try:
            one = held[name]
        except KeyError:
            return thorough(frame)
        if stays and references(held) == UNSHARED:
            forget(held)
        if kind_of(type(one)) in plain:
            return function(one)
        return limited((function, (one,)))

    def value(frame: FrameType) -> Any:
        held: Any = frame.f_locals
        try:
            picked = pick(held)
        except KeyError:
            return thorough(frame)
        if stays and references(held) == UNSHARED:
            forget(held)
        for each in picked:
            if kind_of(type(each)) not in plain:
                return limited((function, picked))
        return function(*picked)

    return value_of_one if len(names) == 1 else value


def applied(application: Application) -> Any:
    """The result of an application."""
    function, values = application
    return function(*values)


def picker(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """`{name: value} -> (value, …)`, in C."""
    if len(names) == 1:
        (name,) = names
        return lambda held: (held[name],)
    return itemgetter(*names) if names else tuple
