"""Lists the expressions and types with which a comparison of locals is quick and runs no user code.

Most conditions are of this kind. They need no time limit, and the thread is not marked as
evaluating: this is the shortest path there is, on the thread that hit.
"""

from __future__ import annotations

import ast
from typing import Final

HARMLESS: Final = (ast.Name, ast.Constant, ast.Tuple, ast.Load, ast.Expression)
"""Nodes that run no user code."""

PLAIN: Final = (
    *HARMLESS,
    *(ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop, ast.UnaryOp, ast.Not, ast.USub),
)
"""Nodes that run no user code and take no time if all values are of `PLAIN_TYPES`."""

NUMBERS: Final = frozenset(map(id, (int, float, bool, type(None))))
"""Types by id, as a metaclass may define how its classes are hashed and compared."""

PLAIN_TYPES: Final = NUMBERS | {id(str), id(bytes)}
