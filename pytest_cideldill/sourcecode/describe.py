"""Describes the functions, statements and docstrings of a file from its syntax tree.

Pure: compiles, imports and runs nothing.
"""

from __future__ import annotations

import ast
import inspect
import io
import tokenize
from collections.abc import Iterator
from typing import Any, Final

from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.sourcecode.quiet import tokens

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

MAX_DEFAULT: Final = 60
"""Characters of a default value in a signature."""

_DECORATED: Final = {
    "staticmethod": "static method",
    "classmethod": "class method",
    "property": "property",
    "cached_property": "property",
    "setter": "property",
    "deleter": "property",
}
_SECOND: Final = frozenset({"setter", "deleter", "overload"})
_PASSED_ON: Final = frozenset({"cache", "lru_cache", *_DECORATED})
"""Decorators after which calling the name still calls the lambda."""

_BLOCKS: Final = ("body", "handlers", "cases", "orelse", "finalbody")
_BETWEEN: Final = frozenset({tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT})


class AssignedLambda(ast.FunctionDef):
    """A lambda that a module or a class assigns to a name, as if it were defined there."""

    made: ast.Lambda


@dataclass(frozen=True, slots=True)
class FunctionInfo:
    """A function, described from its source.

    Attributes:
        qualname: `co_qualname`; of a lambda, with the name that it is assigned to.
        line: Of the `def`, below the decorators.
        signature_text: Parameters and defaults as source text, annotations left out.
        kind: `function`, `method`, `static method`, `class method` or `property`, preceded by
            `async`, `generator` or `async generator` if it is one.
    """

    qualname: str
    line: int
    signature_text: str
    kind: str


def describe_function(
    qualname: str, node: FunctionNode, flags: int, *, in_class: bool
) -> FunctionInfo:
    """Describe a function without importing it.

    Args:
        flags: Of its code object.
        in_class: Whether it is defined in the body of a class.
    """
    kind = _nature(flags) + _kind(node, in_class=in_class)
    return FunctionInfo(qualname, node.lineno, _signature(node.args), kind)


def outline(tree: ast.Module, yields: frozenset[int]) -> Iterator[FunctionInfo]:
    """Every function of a file in source order, without compiling it: for thousands of files.

    Setters, deleters and overloads are left out where the same name is also defined plainly.
    Functions that CPython optimizes away (`if 0:`) are included.

    Args:
        yields: The lines that have the word `yield`.
    """
    found = list(definitions(tree))
    plain = {name for name, node, _ in found if not _is_second(node)}
    for qualname, node, in_class in found:
        if qualname in plain and _is_second(node):
            continue
        flags = inspect.CO_COROUTINE if isinstance(node, ast.AsyncFunctionDef) else 0
        if not yields.isdisjoint(range(node.lineno, (node.end_lineno or 0) + 1)) and _yields(node):
            flags = inspect.CO_ASYNC_GENERATOR if flags else inspect.CO_GENERATOR
        yield describe_function(qualname, node, flags, in_class=in_class)


def assigned_lambdas(tree: ast.Module) -> Iterator[tuple[str, AssignedLambda, bool]]:
    """Qualified name and lambda, and whether a class has it, in source order."""
    for qualname, node, in_class in definitions(tree):
        if isinstance(node, AssignedLambda):
            yield qualname, node, in_class


def definitions(tree: ast.Module) -> Iterator[tuple[str, FunctionNode, bool]]:
    """`co_qualname`, definition and whether it is in a class, of every function in source order.

    Looks at statements only: expressions, nine tenths of a tree, hold no `def`. Lambdas are those
    that are assigned where no function is around.
    """
    top: set[str] = set()
    pending: list[tuple[ast.AST, str, bool, set[str]]] = [(tree, "", False, top)]
    while pending:
        node, prefix, in_class, made_global = pending.pop()
        if isinstance(node, ast.Global):
            made_global.update(node.names)
            continue
        if isinstance(node, FunctionNode | ast.ClassDef):
            qualname = node.name if node.name in made_global else prefix + node.name
            is_class = isinstance(node, ast.ClassDef)
            if isinstance(node, FunctionNode):
                yield qualname, node, in_class
            prefix = f"{qualname}." if is_class else f"{qualname}.<locals>."
            in_class, made_global = is_class, set()
        elif isinstance(node, ast.Assign | ast.AnnAssign) and "<locals>" not in prefix:
            assigned = _assigned_lambda(node)
            if assigned is not None:
                yield prefix + assigned.name, assigned, in_class
        children = [each for block in _BLOCKS for each in getattr(node, block, ())]
        pending += [(child, prefix, in_class, made_global) for child in reversed(children)]


def first_line(node: ast.stmt) -> int:
    """The line of the first decorator if there is one: CPython's `co_firstlineno`."""
    decorators = getattr(node, "decorator_list", [])
    lines: list[int] = [node.lineno, *(decorator.lineno for decorator in decorators)]
    return min(lines)


def first_body_line(node: FunctionNode, lines: frozenset[int]) -> int:
    """The first of a function's `lines` with code that is not its docstring."""
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    start = first_line(body[0]) if body else node.lineno
    return min((line for line in lines if line >= start), default=min(lines, default=node.lineno))


def docstring_lines(tree: ast.Module) -> dict[int, frozenset[int]]:
    """The lines of docstrings that CPython makes code for: the module's (key 0) and classes'.

    Keys are first lines of classes.
    """
    found = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef):
            continue
        if ast.get_docstring(node, clean=False) is None:
            continue
        docstring, *rest = node.body
        last = docstring.end_lineno or docstring.lineno
        lines = set(range(docstring.lineno, last + 1))
        lines -= {statement.lineno for statement in rest[:1]}  # """text"""; x = 1
        found[first_line(node) if isinstance(node, ast.ClassDef) else 0] = frozenset(lines)
    return found


def statements(text: str) -> dict[int, tuple[int, int]]:
    """The first and last line of the simple statement or the header that a line is part of.

    Blank lines and comments between statements are left out.
    """
    spans: dict[int, tuple[int, int]] = {}
    start = 0
    for token in tokens(io.StringIO(text)):
        if token.type == tokenize.NEWLINE:
            span = (start, token.end[0])
            spans |= dict.fromkeys(range(start, token.end[0] + 1), span)
            start = 0
        elif not start and token.type not in _BETWEEN:
            start = token.start[0]
    return spans


def blocks(tree: ast.Module, spans: dict[int, tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """First and last line of every function and class body. `spans`: as of `statements`."""
    for node in ast.walk(tree):
        if isinstance(node, FunctionNode | ast.ClassDef):
            _, header_end = spans.get(node.lineno, (0, node.lineno))
            yield header_end + 1, node.end_lineno or node.lineno


def _assigned_lambda(node: ast.Assign | ast.AnnAssign) -> AssignedLambda | None:
    """The lambda that is assigned to a name, by itself or wrapped in a decorator."""
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    value, decorators = node.value, list[ast.expr]()
    while isinstance(value, ast.Call) and len(value.args) == 1:
        if _last_name(value.func) not in _PASSED_ON:
            return None
        decorators.append(value.func)
        value = value.args[0]
    if not isinstance(target, ast.Name) or not isinstance(value, ast.Lambda):
        return None
    body = ast.Expr(value.body, lineno=value.body.lineno, end_lineno=value.body.end_lineno)
    make: Any = AssignedLambda
    found: AssignedLambda = make(target.id, value.args, [body], decorators, lineno=value.lineno)
    found.end_lineno = value.end_lineno
    found.made = value
    return found


def _is_second(node: FunctionNode) -> bool:
    return any(_last_name(decorator) in _SECOND for decorator in node.decorator_list)


def _yields(function: FunctionNode) -> bool:
    """Whether its own body yields, apart from what is defined in it."""
    pending: list[ast.AST] = [*function.body]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, FunctionNode | ast.Lambda | ast.ClassDef):
            pending += ast.iter_child_nodes(node)
    return False


def _kind(node: FunctionNode, *, in_class: bool) -> str:
    kind = "method" if in_class else "function"
    for decorator in node.decorator_list:
        kind = _DECORATED.get(_last_name(decorator), kind)
    return kind


def _last_name(decorator: ast.expr) -> str:
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    if isinstance(decorator, ast.Attribute):
        return decorator.attr
    return decorator.id if isinstance(decorator, ast.Name) else ""


def _nature(flags: int) -> str:
    if flags & inspect.CO_ASYNC_GENERATOR:
        return "async generator "
    if flags & inspect.CO_COROUTINE:
        return "async "
    return "generator " if flags & inspect.CO_GENERATOR else ""


def _signature(arguments: ast.arguments) -> str:
    positional = [*arguments.posonlyargs, *arguments.args]
    missing = len(positional) - len(arguments.defaults)
    defaults: list[ast.expr | None] = [*[None] * missing, *arguments.defaults]
    parts = [_parameter(each, default) for each, default in zip(positional, defaults, strict=True)]
    if arguments.posonlyargs:
        parts.insert(len(arguments.posonlyargs), "/")
    if arguments.vararg:
        parts.append(f"*{arguments.vararg.arg}")
    elif arguments.kwonlyargs:
        parts.append("*")
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    parts += [_parameter(argument, default) for argument, default in named]
    if arguments.kwarg:
        parts.append(f"**{arguments.kwarg.arg}")
    return f"({', '.join(parts)})"


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    if default is None:
        return argument.arg
    text = ast.unparse(default)
    return f"{argument.arg}={text if len(text) <= MAX_DEFAULT else text[: MAX_DEFAULT - 1] + '…'}"
