"""State that outlives a call: the names of what a function reads and writes of it, by its source.

For a test that fails only after another one: the function that left something behind is not called
by the failing test. Names alone are compared, and only functions that ran.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from cideldill_mcp.questions.recordings.listing import Scope

_MUTATORS: Final = frozenset(
    {
        *("add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert"),
        *("pop", "popitem", "popleft", "remove", "reverse", "setdefault", "sort", "update"),
    }
)

_RECEIVERS: Final = frozenset({"self", "cls"})


def read_names(scope: Scope) -> set[str]:
    """Globals and attributes that a function reads."""
    own = _locals(scope)
    names = set()
    for node in ast.walk(scope):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Name) and node.id not in own:
            names.add(node.id)
    return names


def written_names(scope: Scope) -> dict[str, int]:
    """Globals and attributes that a function assigns, or whose object it changes, with the line."""
    own = _locals(scope)
    found: dict[str, int] = {}
    for target in _targets(scope):
        name = _outlives(target, own)
        if name:
            found.setdefault(name, target.lineno)
    return found


def _targets(scope: Scope) -> Iterator[ast.expr]:
    """Expressions that are assigned or deleted, or whose methods change them."""
    for node in ast.walk(scope):
        match node:
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                yield from targets
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                yield target
            case ast.Call(func=ast.Attribute(attr=attr, value=value)) if attr in _MUTATORS:
                yield ast.copy_location(ast.Subscript(value, value), value)
            case _:
                pass


def _outlives(target: ast.expr, own: set[str]) -> str:
    """The name of what a target is in: a global, an attribute of one or of a class, or an object in
    an attribute that the class may share; empty for what is local or the instance's.
    """
    match target:
        case ast.Attribute(attr=attr, value=ast.Name(id=root)):
            return attr if root == "cls" or root not in own else ""
        case ast.Subscript(value=ast.Attribute(attr=attr, value=ast.Name(id=root))):
            return attr if root in _RECEIVERS or root not in own else ""
        case ast.Subscript(value=ast.Name(id=name)) | ast.Name(id=name):
            return "" if name in own else name
        case _:
            return ""


def _locals(scope: Scope) -> set[str]:
    """The names that a function binds, but those that it declares global."""
    bound: set[str] = set()
    declared: set[str] = set()
    for node in ast.walk(scope):
        match node:
            case ast.arg(arg=name):
                bound.add(name)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                bound.add(name)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                declared.update(names)
            case _:
                pass
    return bound - declared
