"""The operands of a failed assertion, as text of the source and as values.

Knows source text and frames, not pytest: what its rewritten assertions leave behind comes in from
`hooks.assertions`. Runs on the thread of the failing test; no user code runs here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
)
from typing import Any, Final

from pytest_cideldill.interpreter.frame_locals import read_locals
from pytest_cideldill.interpreter.stack_room import is_small
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.protocol.object_paths import Unreachable
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.rendering.navigation import navigate
from pytest_cideldill.rendering.parts import kind_of
from pytest_cideldill.rendering.source_text import Text
from pytest_cideldill.rendering.tree import opened
from pytest_cideldill.sourcecode.quiet import parse

TRUTH: Final = "is true"
"""The `op` of an assertion that compares nothing; it has no right side."""

HIDDEN: Final = "<redacted>"
"""Stands for a secret whose value is gone."""

MAX_EXPLANATION: Final = 2_000
MAX_EXPRESSION: Final = 200
"""Characters."""

_MOST_VALUES: Final = 10
_MOST_LINES: Final = 20_000
"""Of a file that is parsed as a whole; of a longer one, functions are."""

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


def statement_at(code: CodeType, line: int, text: Text) -> ast.stmt | None:
    """The innermost statement in the text of `code` that begins at or before a line and spans it.

    It has the lines of the code. Files may be long: a function is looked for in its own lines
    first. A thread without room on its stack gets none: even to let go of a tree takes much.
    """
    if is_small():
        return None
    lines, shift = text.lines, text.shift
    if not 0 < line + shift <= len(lines):
        return None
    statement = None
    if not code.co_name.startswith("<"):  # those are expressions, parts of a statement
        last = max((end or 0 for _, end, _, _ in code.co_positions()), default=0) + shift
        statement = _statement_among(lines[:last], code.co_firstlineno + shift, line + shift)
    if statement is None and len(lines) <= _MOST_LINES:
        statement = _statement_among(lines, 1, line + shift)
    if statement is not None and shift:
        ast.increment_lineno(statement, -shift)
    return statement


def _statement_among(lines: Sequence[str], first: int, line: int) -> ast.stmt | None:
    """The same in the lines from the `first` on, numbered from 1, which may be indented."""
    part = lines[first - 1 :]
    if not part:
        return None
    is_indented = part[0][:1].isspace()
    try:
        tree = parse("if 1:\n" * is_indented + "".join(part))
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

    And `values` of further parts; `stoppedAt`, the variables of a generator expression.

    Args:
        frame: Where it failed; names that stand alone are looked up there.
        compared: What the comparison that failed saw, if that is known.
        values: Expressions of the statement that have a value, by their text.
        explanation: How pytest put it.
    """
    test, seen = statement.test, _Seen(frame, values, lens)
    place = _comparison(test, compared)
    if place is not None:
        left, op, right = place
        sides = (compared.left, compared.right) if compared else (None, None)
        described: dict[str, Any] = {
            "left": seen.side(left, sides[0]),
            "op": op,
            "right": seen.side(right, sides[1]),
            "leftExpression": seen.text(left),
            "rightExpression": seen.text(right),
        }
        described |= seen.parts("left", left, described["left"])
        described |= seen.parts("right", right, described["right"])
    else:
        described = _sides(compared, lens)  # perhaps inside of a larger expression
        if compared is None:
            described |= {"left": seen.value(test), "leftExpression": seen.text(test)}
            described |= seen.parts("left", test, described["left"])
    known = (described.get("leftExpression"), described.get("rightExpression"), ast.unparse(test))
    inner = {
        lens.text(text, MAX_EXPRESSION): lens.show(value, _last_name(text))
        for text, value in values.items()
        if text not in known and type(value) not in _CALLABLES and not _is_generator(value)
    }
    if inner:
        described["values"] = dict(islice(inner.items(), _MOST_VALUES))
    if item := _stopped_at(values.values(), lens):
        described["stoppedAt"] = item
    return described | {"explanation": lens.text(explanation, MAX_EXPLANATION)}


def explained(compared: Compared | None, explanation: str, lens: Lens) -> dict[str, Any]:
    """`assertion` where the statement is not known: by pytest's explanation."""
    return _sides(compared, lens) | {"explanation": lens.text(explanation, MAX_EXPLANATION)}


def _sides(compared: Compared | None, lens: Lens) -> dict[str, Any]:
    if compared is None:
        return {"left": None, "op": TRUTH, "right": None}
    left, right = lens.text(compared.left), lens.text(compared.right)
    return {"left": left, "op": compared.op, "right": right}


def _comparison(test: ast.expr, compared: Compared | None) -> tuple[ast.expr, str, ast.expr] | None:
    """The link of a chain of comparisons that failed; None when it is not known."""
    if not isinstance(test, ast.Compare):
        return None
    sides = [test.left, *test.comparators]
    links = [
        (sides[index], _OPERATORS[type(op)], sides[index + 1]) for index, op in enumerate(test.ops)
    ]
    if compared is not None:
        links = [link for link in links if link[1] == compared.op]
    return links[0] if len(links) == 1 else None


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is known of a statement's expressions: as for `assertion_of`."""

    frame: FrameType
    values: Mapping[str, Any]
    lens: Lens

    def text(self, node: ast.expr) -> str:
        """An operand as it is written."""
        return self.lens.text(ast.unparse(node), MAX_EXPRESSION)

    def side(self, node: ast.expr, compared: str | None) -> str | None:
        """One side of a comparison; its value was shown without its name, if it was noted."""
        if compared is None:
            return self.value(node)
        if self.lens.is_sensitive(_last_name(ast.unparse(node))):
            return self.value(node) or HIDDEN
        return self.lens.text(compared)

    def value(self, node: ast.expr) -> str | None:
        """The value of an operand that is a literal, or known; None for others."""
        return next((self.lens.show(*each) for each in self._held(node)), None)

    def parts(self, side: str, node: ast.expr, shown: str | None) -> dict[str, Any]:
        """`children_of` an operand; those of a local stand with the local."""
        if shown is None or ast.unparse(node) in read_locals(self.frame):
            return {}
        return next((children_of(side, x, shown, self.lens) for x, _ in self._held(node)), {})

    def _held(self, node: ast.expr) -> Iterator[tuple[Any, str]]:
        """The value of an expression, and what it is known as; it comes from data alone."""
        text = ast.unparse(node)
        for names in (self.values, read_locals(self.frame), self.frame.f_globals):
            if text in names:
                yield names[text], _last_name(text)
        try:
            if isinstance(node, ast.Attribute | ast.Subscript):
                yield from self._inside(node, text)
            elif isinstance(node, ast.Call):
                yield from self._length(node)
            else:
                yield ast.literal_eval(node), ""
        except (ValueError, TypeError, MemoryError, RecursionError, Unreachable):
            pass  # only its code could give the value

    def _inside(self, node: ast.expr, text: str) -> Iterator[tuple[Any, str]]:
        root = node
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        if isinstance(root, ast.Name):
            for held, _ in islice(self._held(root), 1):
                yield navigate(held, text.removeprefix(root.id), self.lens.redactor)

    def _length(self, node: ast.Call) -> Iterator[tuple[Any, str]]:
        if ast.unparse(node.func) == "len" and len(node.args) == 1:
            for held, _ in islice(self._held(node.args[0]), 1):
                if kind_of(held) == id(type(held)):
                    yield len(held), ""


def children_of(side: str, value: object, shown: str, lens: Lens) -> dict[str, Any]:
    """`leftChildren` or `rightChildren` of an assertion, if there is more than is shown."""
    children = opened(value, shown, lens).get("children")
    return {f"{side}Children": children} if children else {}


def _is_generator(value: object) -> bool:
    """Whether it is what a generator expression made."""
    return type(value) is GeneratorType and value.gi_code.co_name == "<genexpr>"


def _stopped_at(values: Iterable[Any], lens: Lens) -> dict[str, str]:
    """The variables of a generator expression that was not read to its end.

    `all` and `any` stop at the item that decides; the generator has it still.
    """
    for frame in (value.gi_frame for value in values if _is_generator(value)):
        if frame is not None:
            code, held = frame.f_code, read_locals(frame)
            names = [name for name in code.co_varnames[1:] + code.co_cellvars if name in held]
            return {name: lens.show(held[name], name) for name in names[:_MOST_VALUES]}
    return {}


def _last_name(text: str) -> str:
    """What a value is known under, for redaction."""
    names = _NAME.findall(text.partition("(")[0])
    return names[-1] if names else ""
