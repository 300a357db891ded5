"""What `unittest.mock` says of a call that was expected: which argument was another one.

Its message has both calls as text, `Expected: name(1, a='x')` and `Actual: name(1, a='y')`; of
`assert_has_calls` lists of calls.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from pytest_cideldill.sourcecode.quiet import parse_expression

_EXPECTED: Final = re.compile(
    r"^\s*Expected: (?P<expected>.+)\n\s*Actual: (?P<actual>.+)$", re.MULTILINE
)


class OtherArgument(NamedTuple):
    """Where two calls differ first.

    Attributes:
        place: `argument 2`, `argument name`, `argument 1.subject`; of calls in a list with their
            number, from 0, before it: `[3] argument 2`.
        actual: What the mock got there.
        expected: What it was to get.
    """

    place: str
    actual: str
    expected: str


def first_other_argument(message: str) -> OtherArgument | None:
    """The argument at which the calls of a message differ; None: it has none, or can't be read."""
    found = _EXPECTED.search(message)
    if found is None:
        return None
    try:
        actual, expected = (parse_expression(found[name]) for name in ("actual", "expected"))
        place, one, other = _differing(actual, expected, "")
        if not place or one is other:
            return None
        return OtherArgument(place.strip(), ast.unparse(one), ast.unparse(other))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _differing(one: ast.expr, other: ast.expr, place: str) -> tuple[str, ast.expr, ast.expr]:
    """The inmost parts that differ; the same expression twice: nothing does."""
    if ast.dump(one) == ast.dump(other):
        return place, one, one
    for where, ours, theirs in _pairs(one, other, place):
        found = _differing(ours, theirs, where)
        if found[1] is not found[2]:
            return found
    return place, one, other


def _pairs(one: ast.expr, other: ast.expr, place: str) -> Iterator[tuple[str, ast.expr, ast.expr]]:
    """The parts of two expressions of one shape; none if they have another one."""
    if isinstance(one, ast.Call) and isinstance(other, ast.Call):
        names = [[each.arg for each in call.keywords] for call in (one, other)]
        is_alike = ast.dump(one.func) == ast.dump(other.func) and names[0] == names[1]
        if is_alike and len(one.args) == len(other.args):
            is_inner = "argument" in place
            for at, (ours, theirs) in enumerate(zip(one.args, other.args, strict=True)):
                yield f"{place}[{at}]" if is_inner else f"{place} argument {at + 1}", ours, theirs
            for named, named_too in zip(one.keywords, other.keywords, strict=True):
                where = f"{place}.{named.arg}" if is_inner else f"{place} argument {named.arg}"
                yield where, named.value, named_too.value
    elif isinstance(one, ast.List | ast.Tuple) and type(one) is type(other):
        assert isinstance(other, ast.List | ast.Tuple)
        if len(one.elts) == len(other.elts):
            for at, (ours, theirs) in enumerate(zip(one.elts, other.elts, strict=True)):
                yield f"{place}[{at}]", ours, theirs
    elif isinstance(one, ast.Dict) and isinstance(other, ast.Dict):
        keys = [[key and ast.unparse(key) for key in each.keys] for each in (one, other)]
        if keys[0] == keys[1]:
            for key, ours, theirs in zip(keys[0], one.values, other.values, strict=True):
                yield f"{place}[{key}]", ours, theirs
