"""The operands of a failed assertion, as text of the source and as values.

Knows source text and frames, not pytest: what its rewritten assertions leave behind comes in from
`run.assertions`. Runs on the thread of the failing test; no user code runs here.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from types import BuiltinFunctionType
from types import CodeType
from types import FrameType
from types import FunctionType
from types import MethodType
from typing import Any
from typing import Final

from pytest_cideldill.capture.lens import Lens
from pytest_cideldill.capture.opened import opened

TRUTH: Final = "is true"
"""The `op` of an assertion that compares nothing; it has no right side."""

HIDDEN: Final = "<redacted>"
"""Stands for a secret whose value is gone."""

MAX_EXPLANATION: Final = 2_000
MAX_EXPRESSION: Final = 200
"""Characters."""

_MOST_VALUES: Final = 10
_MOST_LINES: Final = 20_000
"""Of a file that is looked into."""

_OPERATORS: Final[Mapping[type[ast.cmpop], str]] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}
_CALLABLES: Final = (BuiltinFunctionType, FunctionType, MethodType)
"""What is called in an expression; its name says it all."""

_NAME: Final = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Compared:
    """What a comparison that failed compared, as shown values."""

    op: str
    left: str
    right: str


def statement_at(code: CodeType, line: int) -> ast.stmt | None:
    """The innermost statement in the source of `code` that begins at or before a line and spans it.

    Files may be long: a function is looked for in its own lines first.
    """
    lines = linecache.getlines(code.co_filename)
    if not 0 < line <= len(lines) <= _MOST_LINES:
        return None
    if not code.co_name.startswith("<"):  # those are expressions, parts of a statement
        last = max((end or 0 for _, end, _, _ in code.co_positions()), default=0)
        found = _statement_among(lines[:last], code.co_firstlineno, line)
        if found is not None:
            return found
    return _statement_among(lines, 1, line)


def _statement_among(lines: list[str], first: int, line: int) -> ast.stmt | None:
    """The same in the lines from the `first` on, numbered from 1, which may be indented."""
    part = lines[first - 1 :]
    if not part:
        return None
    is_indented = part[0][:1].isspace()
    try:
        tree = ast.parse("if 1:\n" * is_indented + "".join(part))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    ast.increment_lineno(tree, first - 1 - is_indented)
    spanning = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return max(
        spanning,
        key=lambda node: (node.lineno, -(node.end_lineno or 0), node.col_offset),
        default=None,
    )


def names_in(statement: ast.stmt | None, source: str) -> list[str]:
    """The names that a failing statement uses, in its order: what matters first."""
    if statement is None or not isinstance(statement, ast.Assert | ast.Expr | ast.Assign):
        return list(dict.fromkeys(_NAME.findall(source)))
    nodes = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
    nodes.sort(key=lambda node: (node.lineno, node.col_offset))
    return list(dict.fromkeys(node.id for node in nodes))


def assertion_of(
    statement: ast.Assert,
    frame: FrameType,
    compared: Compared | None,
    values: Mapping[str, Any],
    explanation: str,
    lens: Lens,
) -> dict[str, Any]:
    """`assertion` of an autopsy: `{left, op, right, leftExpression, rightExpression, explanation}`.

    Args:
        statement: The assertion.
        frame: Where it failed; names that stand alone are looked up there.
        compared: What the comparison that failed saw, if that is known.
        values: Expressions of the statement that have a value, by their text.
        explanation: How pytest put it.
        lens: Shows values.
    """
    test = statement.test
    place = _comparison(test, compared)
    told: dict[str, Any] = {"left": None, "op": TRUTH, "right": None}
    if place is not None:
        left, op, right = place
        sides = (compared.left, compared.right) if compared else (None, None)
        told = {
            "left": _side(left, sides[0], frame, values, lens),
            "op": op,
            "right": _side(right, sides[1], frame, values, lens),
            "leftExpression": _text(left, lens),
            "rightExpression": _text(right, lens),
        }
        for side, node in (("left", left), ("right", right)):
            told |= _opened(side, told[side], node, frame, values, lens)
    elif compared is not None:  # somewhere inside of a larger expression
        told = {
            "left": lens.text(compared.left),
            "op": compared.op,
            "right": lens.text(compared.right),
        }
    else:
        told |= {"left": _value(test, frame, values, lens), "leftExpression": _text(test, lens)}
        told |= _opened("left", told["left"], test, frame, values, lens)
    known = (told.get("leftExpression"), told.get("rightExpression"), ast.unparse(test))
    inner = {
        lens.text(text, MAX_EXPRESSION): lens.show(value, _last_name(text))
        for text, value in values.items()
        if text not in known and type(value) not in _CALLABLES
    }
    if inner:
        told["values"] = dict(islice(inner.items(), _MOST_VALUES))
    return told | {"explanation": lens.text(explanation, MAX_EXPLANATION)}


def _comparison(test: ast.expr, compared: Compared | None) -> tuple[ast.expr, str, ast.expr] | None:
    """The link of a chain of comparisons that failed; None when it can't be told."""
    if not isinstance(test, ast.Compare):
        return None
    sides = [test.left, *test.comparators]
    links = [
        (sides[index], _OPERATORS[type(op)], sides[index + 1]) for index, op in enumerate(test.ops)
    ]
    if compared is not None:
        links = [link for link in links if link[1] == compared.op]
    return links[0] if len(links) == 1 else None


def _side(
    node: ast.expr,
    compared: str | None,
    frame: FrameType,
    values: Mapping[str, Any],
    lens: Lens,
) -> str | None:
    """One side of a comparison; its value was shown without its name, if it was noted."""
    if compared is None:
        return _value(node, frame, values, lens)
    if lens.is_sensitive(_last_name(ast.unparse(node))):
        return _value(node, frame, values, lens) or HIDDEN
    return lens.text(compared)


def _value(node: ast.expr, frame: FrameType, values: Mapping[str, Any], lens: Lens) -> str | None:
    """The value of an operand that is a constant, a name, or known; None for others."""
    if isinstance(node, ast.Constant):
        return lens.show(node.value)
    text = ast.unparse(node)
    return next((lens.show(each, _last_name(text)) for each in _held(text, frame, values)), None)


def _held(text: str, frame: FrameType, values: Mapping[str, Any]) -> Iterator[Any]:
    """What an expression of the statement gave, as far as that is known."""
    yield from (names[text] for names in (values, frame.f_locals, frame.f_globals) if text in names)


def _opened(
    side: str,
    shown: str | None,
    node: ast.expr,
    frame: FrameType,
    values: Mapping[str, Any],
    lens: Lens,
) -> dict[str, Any]:
    """`children_of` an operand; those of a local are told where it is."""
    text = ast.unparse(node)
    if shown is None or text in frame.f_locals:
        return {}
    found = (children_of(side, each, shown, lens) for each in _held(text, frame, values))
    return next(found, {})


def children_of(side: str, value: object, shown: str, lens: Lens) -> dict[str, Any]:
    """`leftChildren` or `rightChildren` of an assertion, if there is more than is shown."""
    children = opened(value, shown, lens).get("children")
    return {f"{side}Children": children} if children else {}


def _text(node: ast.expr, lens: Lens) -> str:
    return lens.text(ast.unparse(node), MAX_EXPRESSION)


def _last_name(text: str) -> str:
    """What a value is known under, for redaction."""
    names = _NAME.findall(text.partition("(")[0])
    return names[-1] if names else ""
