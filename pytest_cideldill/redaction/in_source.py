"""Finds literals in Python source that are values of secrets' names, by the syntax tree.

The tree shows what the text alone does not: `PASSWORD: str = "…"`, defaults,
`environ.get("X") or "…"`, displays, unpacking, `setattr`, parametrized tests. Comments are searched
as texts, see `in_text.py`. Pure; runs on any thread.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from pytest_cideldill.redaction.by_name import gives_secret
from pytest_cideldill.redaction.by_shape import Secret
from pytest_cideldill.redaction.harmless import is_harmless, is_option_value, is_second, maybe
from pytest_cideldill.sourcecode.quiet import parse

LabelOf = Callable[[str], str | None]
FindInText = Callable[[str], Iterable[Secret]]

_GETTERS: Final = frozenset({"get", "getenv", "pop", "setdefault", "getattr", "getlist"})
"""Functions whose first argument is a key, and the next one a default."""

_WRAPPERS: Final = frozenset({"str", "bytes", "field"})
_DEFAULTS: Final = frozenset({"default", "value"})
"""Arguments that may be the value: `field(default="…")`."""

_MOST: Final = 400_000
"""Longer texts are not parsed."""

_DEEPEST: Final = 60

_NEWLINE: Final = re.compile(r"\r\n|\r|\n")
_LITERAL: Final = re.compile(r"#[^\r\n]*|[A-Za-z]{0,3}(?P<quote>\"\"\"|\'\'\'|[\"'])")
_COMMENT: Final = re.compile(r"#[^\r\n]+")
_CLOSING: Final = {
    quote: re.compile(rf"(?:[^\\{quote[0]}]++|\\.|(?!{quote}){quote[0]})*+", re.DOTALL)
    for quote in ('"', "'", '"""', "'''")
}
"""Patterns of the inside of a literal, by its quotes."""


def find_in_source(text: str, label_of: LabelOf, find: FindInText) -> list[Secret] | None:
    """The literals that are secrets, without their quotes; None if the text can't be parsed.

    Args:
        text: A module, or some whole statements of one with their indentation.
        label_of: The label of a sensitive name, None for any other.
        find: Finds secrets in the text of literals.
    """
    if len(text) > _MOST:
        return None
    is_indented = text[:1] in " \t"
    try:
        tree = parse("if 1:\n" * is_indented + text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    places = _Places(text, is_indented)
    found = [
        secret
        for node, label in _Literals(label_of).of(tree)
        for secret in places.inside(node, label)
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and _text_of(node):
            found += _shifted(text, places.span(node), find)
    return found


def find_in_comments(text: str, find: FindInText) -> Iterator[Secret]:
    """Secrets in comments, and in parts of literals that look like comments."""
    for comment in _COMMENT.finditer(text):
        yield from _shifted(text, comment.span(), find)


def _shifted(text: str, span: tuple[int, int], find: FindInText) -> Iterator[Secret]:
    at = span[0]
    for start, end, label in find(text[at : span[1]]):
        yield at + start, at + end, label


class _Literals:
    """Finds literals and the labels of the names that they are the values of."""

    def __init__(self, label_of: LabelOf) -> None:
        self._label_of = label_of

    def of(self, tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
        """All pairs of a literal and a label in a tree; the same literal may come twice."""
        for node in ast.walk(tree):
            for name, value in self._pairs(node):
                label = self._label_of(name)
                if label is not None and value is not None:
                    yield from self._texts(value, label, name)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from self._returned(node)
            elif isinstance(node, ast.Call):
                yield from self._passed(node)

    def _pairs(self, node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
        """The names to which a node gives values, and the values."""
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from self._assigned(target, value)
            case ast.AnnAssign() | ast.AugAssign() | ast.NamedExpr():
                yield from self._assigned(node.target, node.value)
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                names = [name for side in sides if (name := _name_of(side))]
                yield from ((name, side) for name in names for side in sides)
            case ast.Call():
                arguments = [(each.arg, each.value) for each in node.keywords if each.arg]
                yield from (*arguments, *_named_value(arguments))
                yield from self._in_arguments(node)
            case ast.Dict(keys=keys, values=values):
                items = zip(keys, values, strict=True)
                pairs = [(_text_of(key), value) for key, value in items if key is not None]
                yield from (*pairs, *_named_value(pairs))
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                rows = node.iter.elts if isinstance(node.iter, ast.Tuple | ast.List) else []
                for row in rows:
                    yield from self._assigned(node.target, row)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                yield from _in_row(items, len(items))
            case ast.Match(subject=subject, cases=cases):
                name = _name_of(subject)
                parts = [part for each in cases for part in ast.walk(each.pattern)]
                yield from (
                    (name, each.value) for each in parts if isinstance(each, ast.MatchValue)
                )
                yield from (pair for each in parts for pair in _in_pattern(each))
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                yield from _defaults(node.args)

    def _assigned(self, target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr]]:
        match target, value:
            case _, None:
                return
            case ast.Tuple(elts=targets) | ast.List(elts=targets), (
                ast.Tuple(elts=values) | ast.List(elts=values)
            ) if len(targets) == len(values):
                for node, given in zip(targets, values, strict=True):
                    yield from self._assigned(node, given)
            case ast.Tuple(elts=targets) | ast.List(elts=targets), ast.expr():
                yield from ((_name_of(node), value) for node in targets)
            case ast.Starred(value=inner), ast.expr():
                yield from self._assigned(inner, value)
            case _, ast.expr():
                yield _name_of(target), value

    def _in_arguments(self, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
        """Pairs in `setattr(x, "password", "…")`, `setenv("KEY", "…")`, parametrized tests."""
        texts = [_text_of(arg) for arg in call.args]
        for name, value in zip(texts, call.args[1:], strict=False):
            if name and (text := _text_of(value)) and is_second(text, 2):
                yield name, value
        function = _last_name(call.func)
        named = {keyword.arg: keyword.value for keyword in call.keywords}
        if function == "parametrize":
            given = named | dict(zip(("argnames", "argvalues"), call.args, strict=False))
            if "argnames" in given and "argvalues" in given:
                yield from _parameters(_names_in(given["argnames"]), given["argvalues"])
        if "return_value" in named:  # patch("shop.get_token", return_value="…")
            names_of = [text.rpartition(".")[2] for text in texts if text]
            yield from ((each, named["return_value"]) for each in names_of if gives_secret(each))

    def _returned(
        self, function: ast.FunctionDef | ast.AsyncFunctionDef
    ) -> Iterator[tuple[ast.expr, str]]:
        """The literals that `get_password` returns or yields; the parameters of a fixture."""
        label = self._label_of(function.name)
        if label is not None and gives_secret(function.name):
            for node in ast.walk(function):
                if isinstance(node, ast.Return | ast.Yield) and node.value is not None:
                    yield from self._texts(node.value, label, function.name)
            decorators = [each for each in function.decorator_list if isinstance(each, ast.Call)]
            for argument in (keyword for call in decorators for keyword in call.keywords):
                if argument.arg == "params":
                    yield from self._texts(argument.value, label, function.name)

    def _passed(self, call: ast.Call) -> Iterator[tuple[ast.expr, str]]:
        """Arguments of `set_password("…")`, `BasicAuth("kim", "…")` that look random."""
        name = _last_name(call.func)
        if (label := self._label_of(name)) is not None:
            for arg in call.args:
                yield from self._texts(arg, maybe(label), name)

    def _texts(
        self, node: ast.expr, label: str, name: str, depth: int = 0
    ) -> Iterator[tuple[ast.expr, str]]:
        """The literals in the value of a name, without harmless ones."""
        if depth > _DEEPEST:
            return
        match node:
            case ast.Constant(value=str() | bytes()):
                if not is_harmless(label, _text_of(node), name):
                    yield node, label
                return
            case ast.JoinedStr(values=values):
                parts = [getattr(each, "value", None) for each in values]
                parts = [getattr(part, "value", part) for part in parts]
                texts = [part for part in parts if isinstance(part, str)]
                if not all(is_harmless(maybe(label), str(each), name) for each in texts):
                    yield node, label
                return
            case ast.Call():
                others = [each.value for each in node.keywords if each.arg not in _DEFAULTS]
                for other in others:
                    yield from self._texts(other, maybe(label), name, depth + 1)
                inner: Iterable[ast.expr] = _values_of_call(node)
                label = label if _is_wrapper(node) else maybe(label)
            case ast.Dict(values=inner):
                pass
            case ast.Lambda(body=body):
                inner = (body,)
                label = maybe(label)
            case ast.Subscript(value=ast.Tuple() | ast.List() | ast.Dict() as display):
                inner = (display,)
            case ast.Subscript() | ast.Compare():
                return
            case ast.IfExp(body=body, orelse=orelse):
                inner = (body, orelse)
            case _:
                inner = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
        for each in inner:
            yield from self._texts(each, label, name, depth + 1)


def _values_of_call(call: ast.Call) -> list[ast.expr]:
    """The expressions that may hold the value; in `"…".encode("utf-8")` it is before the dot."""
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Constant):
        return [call.func.value, *(call.args if call.func.attr in ("format", "join") else ())]
    is_getter = _last_name(call.func) in _GETTERS
    args = call.args[1:] if is_getter else call.args
    before = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    named = [keyword.value for keyword in call.keywords if keyword.arg in _DEFAULTS]
    return [*before, *args, *named]


def _named_value(pairs: list[tuple[str, ast.expr]]) -> Iterator[tuple[str, ast.expr]]:
    """The name and the value in `{"name": "DB_PASSWORD", "value": "…"}`."""
    by_name = {name.lower(): value for name, value in pairs}
    name = by_name.get("name") or by_name.get("key")
    if name is not None and "value" in by_name and (text := _text_of(name)):
        yield text, by_name["value"]


def _in_pattern(pattern: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names and values in `case {"password": "…"}` and `case User(password="…")`."""
    match pattern:
        case ast.MatchMapping(keys=keys, patterns=patterns):
            names = [_text_of(key) for key in keys]
        case ast.MatchClass(kwd_attrs=names, kwd_patterns=patterns):
            pass
        case _:
            return
    for name, part in zip(names, patterns, strict=True):
        if isinstance(part, ast.MatchValue):
            yield name, part.value


def _names_in(names: ast.expr) -> list[str]:
    """The parameters of a parametrized test: `"user, password"`, `("user", "password")`."""
    if isinstance(names, ast.Tuple | ast.List):
        return [_text_of(element) for element in names.elts]
    return [each.strip() for each in _text_of(names).split(",")]


def _is_wrapper(call: ast.Call) -> bool:
    """Whether a call returns its argument unchanged: `SecretStr("…")`, `get("X", "…")`."""
    name = _last_name(call.func)
    of_constant = isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Constant)
    return name in _GETTERS or of_constant or name[:1].isupper() or name in _WRAPPERS


def _in_row(items: list[ast.expr], count: int) -> Iterator[tuple[str, ast.expr]]:
    """Names and values in pairs, and options with values in lists of arguments."""
    texts = [_text_of(item) for item in items]
    for name, value, text in zip(texts, items[1:], texts[1:], strict=False):
        if not name or not text:
            continue
        if is_option_value(name, text) if name[:1] == "-" else is_second(text, count):
            yield name, value


def _parameters(names: list[str], values: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if not isinstance(values, ast.Tuple | ast.List):
        return
    for element in values.elts:
        row = [element]
        if len(names) > 1 and isinstance(element, ast.Tuple | ast.List):
            row = element.elts
        elif isinstance(element, ast.Call):  # pytest.param
            row = element.args
        yield from zip(names, row, strict=False)


def _defaults(args: ast.arguments) -> Iterator[tuple[str, ast.expr | None]]:
    positional = [*args.posonlyargs, *args.args]
    behind = positional[len(positional) - len(args.defaults) :]
    yield from ((each.arg, value) for each, value in zip(behind, args.defaults, strict=True))
    named = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    yield from ((argument.arg, value) for argument, value in named)


def _name_of(node: ast.expr) -> str:
    """The name under which an expression's value is read; empty if there is none."""
    match node:
        case ast.Attribute(attr="return_value", value=function):
            return _last_name(function)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=key):
            return _text_of(key)
        case ast.NamedExpr(target=target):
            return target.id
        case ast.Call(func=func) if gives_secret(_last_name(func)):
            return _last_name(func)
    return ""


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _text_of(node: ast.expr) -> str:
    """The text of a literal of text or bytes; empty for anything else."""
    if not isinstance(node, ast.Constant):
        return ""
    if isinstance(node.value, bytes):
        return node.value.decode("latin-1")
    return node.value if isinstance(node.value, str) else ""


class _Places:
    """Maps places in a tree, which count bytes in lines, to places in a text."""

    def __init__(self, text: str, is_shifted: bool) -> None:
        self._text = text
        self._starts = [0, *(each.end() for each in _NEWLINE.finditer(text)), len(text)]
        self._first = 2 if is_shifted else 1

    def inside(self, node: ast.expr, label: str) -> Iterator[Secret]:
        """The literals of a node, each of joined ones alone, without prefix and quotes."""
        start, end = self.span(node)
        for first, last in _pieces(self._text, start, end, is_one=isinstance(node, ast.JoinedStr)):
            if first < last:
                yield first, last, label

    def span(self, node: ast.expr) -> tuple[int, int]:
        """The start and the end of a node in the text."""
        end = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self._at(node.lineno, node.col_offset), self._at(*end)

    def _at(self, line: int, column: int) -> int:
        start, end = self._starts[line - self._first : line - self._first + 2]
        text = self._text[start:end]
        if not text.isascii():
            column = len(text.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "replace"))
        return start + column


def _pieces(text: str, start: int, end: int, *, is_one: bool) -> Iterator[tuple[int, int]]:
    """The insides of the literals between two places; the whole of an f-string is one."""
    while (match := _LITERAL.search(text, start, end)) is not None:
        quote = match["quote"]
        if quote is None:  # a comment between them
            start = match.end()
            continue
        if is_one:
            yield match.end(), end - len(quote)
            return
        closing = _CLOSING[quote].match(text, match.end(), end)
        if closing is None:
            return
        yield closing.span()
        start = closing.end() + len(quote)
