"""Renders messages of tracepoints: one text from a template and a frame.

That happens at once, on the thread that hit, for objects change. Secrets that are recognized by a
name are hidden here; those recognized by their shape when the text leaves the hot path
(`Lens.text`).
"""

from __future__ import annotations

import ast
import datetime
import decimal
import re
import sys
import uuid
from collections.abc import Callable, Sequence
from enum import EnumType
from types import CodeType, FrameType, ModuleType
from typing import Any, Final

from pytest_cideldill.evaluation.compiled import (
    Expressions,
    Substitutes,
    our_expression,
    our_statements,
    parse_expression,
)
from pytest_cideldill.evaluation.time_limit import TIMEOUT, Overtime
from pytest_cideldill.redaction.tags import TAG
from pytest_cideldill.rendering import layout
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.rendering.types import PATHS, is_genuine
from pytest_cideldill.sourcecode.template import Field, Template

MAX_TEXT: Final = 1_000
"""Characters of a message."""

LONGEST_KEPT: Final = 70_000
"""Characters of a string that are put into a text, so that a secret is recognized as a whole."""

_SHORTEST_SECRET: Final = 4
"""Characters of the shortest secret that is searched for in a text made from it."""

_MOST_PARTS: Final = 100
_LARGE: Final = 10**100

_GETTERS: Final = frozenset({"get", "getattr", "getenv", "getlist", "pop", "setdefault"})
"""Functions that take the name of the value that they return as an argument."""

_SHOWN: Final = (
    "value if (kind := type(value)) is str and len(value) < most or kind is int or kind is float"
    " else show(value)"
)

# The tables hold ids: a metaclass may define `__hash__` and `__eq__`.
_PLAIN: Final = frozenset(map(id, (bool, type(None), complex)))
_STANDARD: Final = frozenset(
    map(id, (decimal.Decimal, datetime.date, datetime.timedelta, datetime.timezone, uuid.UUID))
)
"""Types of the standard library whose `str` runs no user code."""

_AWARE: Final = frozenset(map(id, (datetime.datetime, datetime.time)))
_IS_STRING: Final = 1 << 28
"""Bit of `type.__flags__`: true for subclasses as well."""


class RenderedMessage:
    """A template bound to the code object that it is rendered in.

    Attributes:
        text: `text(frame)`: the message at this line; on the hot path, any thread. At most
            `MAX_TEXT` characters, or longer and still to be redacted and cut.

    Raises:
        ValueError: The expressions can't be compiled.
    """

    def __init__(self, template: Template, code: CodeType, lens: Lens, overtime: Overtime) -> None:
        self.text: Callable[[FrameType], str]
        builder = _Builder(lens, overtime)
        trees: list[ast.expr] = []
        parts: list[ast.expr] = []
        for part in template.parts:
            if isinstance(part, Field):
                value = our_expression(f"v{len(trees)}")
                parts.append(ast.FormattedValue(our_expression(_SHOWN, value=value), -1))
                trees.append(builder.shown(part))
            else:
                parts.append(ast.Constant(part))
        # An integer of more than 4,300 digits has no text.
        ending = our_statements(
            "try:\n    return text\nexcept ValueError:\n    return rescued(values)",
            text=ast.JoinedStr(parts),
            values=our_expression(f"({''.join(f'v{n}, ' for n in range(len(trees)))})"),
        )
        helpers: dict[str, object] = {each.__name__: each for each in (str, int, float, type, len)}
        helpers |= {"ValueError": ValueError, "most": LONGEST_KEPT, "show": builder.rendered}
        helpers |= {"rescued": _rescuer(template, builder, overtime)} | builder.helpers
        self.text = Expressions(
            trees,
            code,
            overtime,
            ending=ending,
            substitutes=Substitutes(overtime.failed, TIMEOUT),
            helpers=helpers,
        ).value


def _rescuer(
    template: Template, builder: _Builder, overtime: Overtime
) -> Callable[[Sequence[Any]], str]:
    def rescued(values: Sequence[Any]) -> str:
        overtime.failed()  # raises what a signal handler of the program raised
        left = iter(values)
        parts = template.parts
        return "".join(
            builder.rendered(next(left)) if isinstance(part, Field) else part for part in parts
        )

    return rescued


class _Builder:
    """Makes trees of fields; `helpers` are the functions that the trees call."""

    def __init__(self, lens: Lens, overtime: Overtime) -> None:
        self._lens = lens
        self._overtime = overtime
        self.helpers: dict[str, object] = {}

    def shown(self, field: Field) -> ast.expr:
        """The tree of a field's value: a text, or the value itself, to be `rendered` later."""
        tree = parse_expression(field.source)
        name = _name_of(tree)
        noting = _Noting(self._lens, self)
        if self._lens.is_sensitive(name):
            tree = self._call(self._hider(name), tree)
        else:
            noting.generic_visit(tree)
        if field.conversion is not None:
            tree = self._call(self._careful(_CONVERSIONS[field.conversion]), tree)
        if field.spec is not None:
            tree = self._call(self._careful(format), tree, self._spec(field.spec))
        if noting.is_needed:
            tree = self._call(self._cleaned, our_expression("(secrets := {})"), tree)
        return tree

    def _hider(self, name: str) -> Callable[[Any], Any]:
        def hidden(value: Any) -> Any:
            shown = self._lens.show(value, name)
            # None, say, is no secret.
            return value if shown == self._lens.show(value) else shown

        return hidden

    def note(self, name: str, tree: ast.expr) -> ast.expr:
        """Wrap a part of an expression so that its value is remembered as a secret."""

        def noted(secrets: dict[str, str], value: object) -> object:
            self._lens.notice(value, name)
            for part in _parts(value):
                if TAG.fullmatch(shown := self._lens.show(part, name)):  # not harmless
                    secrets |= dict.fromkeys(_spellings(part), shown)
            return value

        return self._call(noted, our_expression("secrets"), tree)

    def rendered(self, value: Any) -> str:
        """A value without conversion: text and standard ones by `str`, others as captured."""
        kind = type(value)
        if layout.flags(kind) & _IS_STRING and not layout.is_a(type(kind), EnumType):
            text = str.__str__(value)
            return text if len(text) < LONGEST_KEPT else text[:LONGEST_KEPT]
        if id(kind) in _PLAIN or _is_standard(value):
            return str.__str__(str(value))
        shown = self._lens.show(value)
        # A path that is shown as "<…>" has parts of other types than str: it is shown by its type.
        return str.__str__(str(value)) if id(kind) in PATHS and not shown.startswith("<") else shown

    def _cleaned(self, secrets: dict[str, str], value: Any) -> Any:
        """The text of a value without the secrets that it was made from, by their spellings."""
        if not secrets:
            return value
        longest_first = sorted(secrets, key=len, reverse=True)
        pattern = "|".join(map(re.escape, longest_first))
        return re.sub(pattern, lambda found: secrets[found[0]], self.rendered(value))

    def _spec(self, parts: tuple[str | Field, ...]) -> ast.JoinedStr:
        values: list[ast.expr] = []
        for part in parts:
            if isinstance(part, Field):
                values.append(ast.FormattedValue(self.shown(part), -1))
            else:
                values.append(ast.Constant(part))
        return ast.JoinedStr(values)

    def _call(self, helper: Callable[..., object], *arguments: ast.expr) -> ast.expr:
        """A call of one of our functions."""
        name = f"helper{len(self.helpers)}"
        self.helpers[name] = helper
        return ast.Call(our_expression(name), list(arguments), [])

    def _careful(self, convert: Callable[..., str]) -> Callable[..., str]:
        def converted(*args: Any) -> str:
            try:
                return str.__str__(convert(*args))
            except BaseException:  # noqa: BLE001 - a border: a failing __repr__ is the answer
                return self._overtime.failed()

        return converted


class _Noting(ast.NodeTransformer):
    """Wraps each part of an expression that has a sensitive name, so that its value is noted."""

    def __init__(self, lens: Lens, builder: _Builder) -> None:
        self._lens = lens
        self._builder = builder
        self.is_needed = False

    def visit(self, node: ast.AST) -> Any:
        """Wrap a node that is read under a sensitive name."""
        node = self.generic_visit(node)
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
            name = _name_of(node)
            is_read = isinstance(getattr(node, "ctx", None) or ast.Load(), ast.Load)
            if is_read and self._lens.is_sensitive(name):
                self.is_needed = True
                return self._builder.note(name, node)
        return node


def _name_of(tree: ast.AST) -> str:
    """The name under which a program has the value of an expression; empty if there is none."""
    match tree:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _GETTERS:
            texts = (arg.value for arg in tree.args if isinstance(arg, ast.Constant))
            return next((text for text in texts if type(text) is str), name)
        case ast.Subscript(value=inner) | ast.Call(func=inner):
            return _name_of(inner)
    return ""


def _parts(secret: Any) -> Sequence[object]:
    """The values to search for when a value is secret: the items of a container, or itself."""
    kind = type(secret)
    if kind is dict:
        return list(secret.values())[:_MOST_PARTS]
    if kind is list or kind is tuple or kind is set or kind is frozenset:
        return list(secret)[:_MOST_PARTS]
    return [secret]


def _spellings(secret: Any) -> list[str]:
    """The forms in which a text may contain a value."""
    kind = type(secret)
    if kind is str:
        spellings = [secret, repr(secret)[1:-1]]
    elif kind is bytes:
        spellings = [repr(secret)[2:-1]]
    else:
        spellings = [repr(secret)] if kind is int and abs(secret) < _LARGE else []
    return [spelling for spelling in spellings if len(spelling) >= _SHORTEST_SECRET]


def _is_standard(value: Any) -> bool:
    """Whether `str(value)` is code of the standard library only."""
    kind = type(value)
    if id(kind) in _STANDARD:
        return True
    module = layout.module_of(kind)
    if module == "ipaddress" and is_genuine(kind, module):
        return True
    if module == "fractions" and is_genuine(kind, module):
        return type(value.numerator) is int and type(value.denominator) is int
    if id(kind) not in _AWARE:
        return False
    zone = type(value.tzinfo)
    if zone is type(None) or zone is datetime.timezone:
        return True
    zones = sys.modules.get("zoneinfo")
    return type(zones) is ModuleType and zone is zones.ZoneInfo


_CONVERSIONS: Final[dict[str, Callable[[Any], str]]] = {"r": repr, "s": str, "a": ascii}
