"""Expressions that compare plain locals, as most conditions do: no user code runs, nothing is slow.

So they need no time limit, and nobody is marked as evaluating: as short a path as there is, on the
thread that hit.
"""

from __future__ import annotations

import ast
from typing import Final

HARMLESS: Final = (ast.Name, ast.Constant, ast.Tuple, ast.Load, ast.Expression)
"""What runs no user code."""

PLAIN: Final = (
    *HARMLESS,
    *(ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop, ast.UnaryOp, ast.Not, ast.USub),
)
"""What is harmless with values of `PLAIN_TYPES`, and over at once."""

NUMBERS: Final = frozenset(map(id, (int, float, bool, type(None))))
"""Types by id: a metaclass may define how its classes are hashed and compared."""

PLAIN_TYPES: Final = NUMBERS | {id(str), id(bytes)}
