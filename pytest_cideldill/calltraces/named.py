"""What a line names: locals, attributes and items whose changes are of interest after it.

From the source of the function; where there is none, no objects are looked into. Reading follows
data only: no property, no `__getitem__` of the program runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from types import CodeType, FrameType, ModuleType
from typing import Any, Final, NamedTuple

from pytest_cideldill.interpreter.loaded_names import module_dict_of
from pytest_cideldill.rendering import layout
from pytest_cideldill.rendering.layout import Layout
from pytest_cideldill.rendering.source_text import Texts
from pytest_cideldill.rendering.types import LEAVES, PATHS
from pytest_cideldill.sourcecode.quiet import parse

MOST_ITEMS: Final = 64
"""Items of a collection that are compared; of longer ones the length is, too."""

_MOST_CHAINS: Final = 12
"""Objects that one line may name."""

_DEEPEST: Final = 4
"""Steps of a chain."""

MISSING: Final = object()

_COMPOUND: Final = (
    ast.If,
    ast.While,
    ast.For,
    ast.AsyncFor,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    ast.TryStar,
    ast.Match,
)
_INNER: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)

Step = tuple[str, str | int | bool | None]
"""`(kind, key)`: `.` an attribute, `[` an item by a constant, `n` one by the variable of a name."""


class Chain(NamedTuple):
    """`self.items[0]`: the name that it begins with, the steps, and its source."""

    root: str
    steps: tuple[Step, ...]
    text: str


def chains_of(frame: FrameType, texts: Texts) -> Mapping[int, Sequence[Chain]]:
    """Line → the objects that its statement names, in the function of a frame."""
    text = texts.of(frame)
    code = frame.f_code
    first = code.co_firstlineno + text.shift
    try:
        tree = parse("".join(text.lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[int, dict[Chain, None]] = {}
    for function in _definitions(tree, code, first):
        for lines, part in _statements(function):
            chains = dict.fromkeys(_chains(part))
            for line in lines if chains else ():
                found.setdefault(line - text.shift, {}).update(chains)
    return {line: tuple(islice(chains, _MOST_CHAINS)) for line, chains in found.items()}


def _definitions(tree: ast.AST, code: CodeType, first: int) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            begins = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if node.name == code.co_name and begins == first:
                yield node
        elif isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == first:
            yield node


def _statements(function: Any) -> Iterator[tuple[range, ast.AST]]:
    """The statements of a function, each with its lines; of compound ones the head alone."""
    waiting: list[Any] = list(function.body) if isinstance(function.body, list) else [function.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _INNER):
            continue
        if not isinstance(node, (*_COMPOUND, ast.ExceptHandler, ast.match_case)):
            yield range(node.lineno, (node.end_lineno or node.lineno) + 1), node
            continue
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
                waiting.append(child)
            elif isinstance(child, (ast.expr, ast.withitem, ast.pattern)):
                part: Any = child.context_expr if isinstance(child, ast.withitem) else child
                first = getattr(node, "lineno", part.lineno)  # a `case` has none
                yield range(first, (part.end_lineno or part.lineno) + 1), child


def _chains(node: ast.AST) -> Iterator[Chain]:
    for each in ast.walk(node):
        if isinstance(each, (ast.Name, ast.Attribute, ast.Subscript)):
            chain = chain_of(each)
            if chain is not None:
                yield chain


def chain_of(node: ast.expr) -> Chain | None:
    """The chain that an expression is; None: it is none that can be followed."""
    steps: list[Step] = []
    text = ast.unparse(node)
    while not isinstance(node, ast.Name):
        if len(steps) >= _DEEPEST:
            return None
        if isinstance(node, ast.Attribute):
            steps.append((".", node.attr))
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name):
            steps.append(("n", node.slice.id))
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            key: Any = node.slice.value
            if type(key) not in (str, int, bool):
                return None
            steps.append(("[", key))
        else:
            return None
        node = node.value
    return Chain(node.id, tuple(reversed(steps)), text)


class Reader:
    """Follows chains in a frame, and takes what an object holds at a moment.

    What it holds are ids, and never the objects: a trace keeps nothing alive.
    """

    def __init__(self) -> None:
        self._layouts: dict[int, Layout] = {}

    def follow(self, chain: Chain, names: Mapping[str, Any], frame: FrameType) -> Any:
        """The object of a chain; `MISSING`: there is none, or only code could get it."""
        value = names.get(chain.root, MISSING)
        if value is MISSING:
            value = frame.f_globals.get(chain.root, MISSING)
        for kind, key in chain.steps:
            if value is MISSING:
                return value
            if kind == ".":
                value = self._attribute(value, str(key))
            else:
                value = _item(value, names.get(str(key), MISSING) if kind == "n" else key)
        return value

    def state(self, value: Any) -> tuple[Any, ...] | None:
        """`(size, keys, ids of the values)`; None: nothing in it can change, or is looked at."""
        kind = type(value)
        if kind is list:
            return len(value), None, tuple(map(id, value[:MOST_ITEMS]))
        if kind is dict:
            return _of_dict(value)
        if kind is set:
            return len(value), None, tuple(sorted(map(id, islice(value, MOST_ITEMS))))
        if id(kind) in LEAVES or id(kind) in PATHS or kind is tuple or kind is ModuleType:
            return None
        if layout.flags(kind) & layout.IS_CLASS:
            return None
        found = self._layout(kind)
        namespace = None if found.get_dict is None else found.get_dict(value, kind)
        if type(namespace) is dict and not found.slots:
            return _of_dict(namespace)
        if found.is_opaque:
            return None
        pairs = list(islice(found.attributes(value), MOST_ITEMS))
        return len(pairs), tuple(name for name, _ in pairs), tuple(id(held) for _, held in pairs)

    def part(self, value: Any, key: Any) -> Any:
        """The item or attribute of a key of `state`; `MISSING` if it is gone meanwhile."""
        if type(value) in (list, dict):
            return _item(value, key)
        return self._attribute(value, str(key))

    def _attribute(self, value: Any, name: str) -> Any:
        kind = type(value)
        if kind is ModuleType:
            return module_dict_of(value).get(name, MISSING)
        if id(kind) in LEAVES or layout.flags(kind) & layout.IS_CLASS:
            return MISSING
        found = self._layout(kind)
        namespace = None if found.get_dict is None else found.get_dict(value, kind)
        if type(namespace) is dict and name in namespace:
            return namespace[name]
        for slot, descriptor in found.slots:
            if slot == name:
                try:
                    return descriptor.__get__(value, kind)
                except AttributeError:
                    return MISSING
        return MISSING

    def _layout(self, kind: type) -> Layout:
        found = self._layouts.get(id(kind))
        if found is None:
            found = self._layouts[id(kind)] = Layout.of(kind)  # it refers to the class
        return found


def _of_dict(value: dict[Any, Any]) -> tuple[Any, ...]:
    keys = tuple(islice(value, MOST_ITEMS))
    ids = tuple(map(id, islice(value.values(), MOST_ITEMS)))
    return len(value), keys if _are_plain(keys) else None, ids


_PLAIN_KEYS: Final = frozenset({str, int, bool, float, type(None)})


def _are_plain(keys: tuple[Any, ...]) -> bool:
    return _PLAIN_KEYS.issuperset(map(type, keys))


def _item(value: Any, key: Any) -> Any:
    kind = type(value)
    if kind is list or kind is tuple:
        if type(key) is int and -len(value) <= key < len(value):
            return value[key]
    elif kind is dict and type(key) in _PLAIN_KEYS:
        return _of_key(value, key)
    return MISSING


def _of_key(value: dict[Any, Any], key: Any) -> Any:
    if _are_plain(tuple(islice(value, MOST_ITEMS))) and len(value) <= MOST_ITEMS:
        return value.get(key, MISSING)
    # A key of a class of the program could compare itself with ours.
    return next(
        (held for name, held in value.items() if type(name) is type(key) and name == key), MISSING
    )
