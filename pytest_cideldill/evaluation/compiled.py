"""Compiles expressions of tracepoints and conditions into one function over a frame's locals.

That is done once per code object that is watched; the hot path is `Expressions.value`. It runs on
the thread that hit, where user code runs on purpose: under `Overtime`, with no lock held.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import os
import textwrap
from _thread import get_ident
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import CodeType, FrameType, FunctionType, MappingProxyType
from typing import Any, Final

from pytest_cideldill.evaluation.namespace import views_of
from pytest_cideldill.evaluation.time_limit import Overtime
from pytest_cideldill.interpreter.frame_locals import READING, read_locals, reading
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.rendering.layout import NUMBERS
from pytest_cideldill.sourcecode import quiet

Failed = Callable[[], object]
"""Called in the `except` around an expression: returns a value in place of the expression's, or
raises the exception again."""

_OWN: Final = "."
"""The prefix of our names in generated code, which no name in source code can have."""

_FILE: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "<template>")
"""Under our folder: an error in generated code outside of the expressions is our failure."""

_FUTURES: Final = [getattr(__future__, name).compiler_flag for name in __future__.all_feature_names]
_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})
_MAX_VARIANTS: Final = 64
_VIEWS: Final = frozenset({"locals", "vars", "dir"})
"""Builtins that would show the generated function instead of the frame."""

_HARMLESS: Final = (ast.Name, ast.Constant, ast.Tuple, ast.Load, ast.Expression)
"""Nodes that run no user code."""

_PLAIN: Final = (
    *_HARMLESS,
    *(ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop, ast.UnaryOp, ast.Not, ast.USub),
)
"""Nodes that run no user code and take no time if all values are of `_PLAIN_TYPES`.

Most conditions are of this kind. They need no time limit, and the thread is not marked as
evaluating: this is the shortest path there is, on the thread that hit.
"""

_PLAIN_TYPES: Final = NUMBERS | {id(str), id(bytes)}

_READ: Final = f"""\
try:
{textwrap.indent(READING, "    ")}
except KeyError:
    return thorough(frame)
"""
_CHECK: Final = """\
if not ((kind := type(value)) is int or kind is str or id(kind) in plain):
    return limited(frame)
"""
_READERS: Final[Mapping[str, object]] = {
    "KeyError": KeyError,
    "type": type,
    "int": int,
    "str": str,
    "id": id,
    "plain": _PLAIN_TYPES,
}


def parse_expression(source: str) -> ast.expr:
    """The tree of an expression that `sourcecode` has checked."""
    return quiet.parse_expression(f"({source})")


def parse_truth(source: str) -> ast.expr:
    """The tree of a condition; its value is True or False."""
    tree = parse_expression(source)
    return ast.UnaryOp(ast.Not(), ast.UnaryOp(ast.Not(), tree))


def our_statements(source: str, **trees: ast.expr) -> list[ast.stmt]:
    """Generated code: names of `trees` in it are replaced by these, all others get our prefix."""
    return [_Ours(trees).visit(statement) for statement in quiet.parse(source).body]


def our_expression(source: str, **trees: ast.expr) -> ast.expr:
    """One expression of generated code, as `our_statements` makes statements."""
    tree: ast.expr = _Ours(trees).visit(quiet.parse_expression(source))
    return tree


@dataclass(frozen=True, slots=True, eq=False)
class Substitutes:
    """What stands for values that could not be had.

    Attributes:
        failed: Called for each expression that raises.
        late: The result of what is interrupted outside of any expression.
    """

    failed: Failed
    late: object = None


class Expressions:
    """Several expressions, evaluated in order at a line of one code object.

    Attributes:
        value: `value(frame)`: the result of `ending`. On the hot path, any thread. Raises only
            exceptions that the `failed` of the substitutes raises again. Quiet and under the time
            limit, unless no user code can run.

    Args:
        trees: The expressions. They may use the names of `helpers`, by `our_expression`.
        code: The code object of the line; determines which names are locals.
        overtime: Limits the time of each expression.
        ending: Statements made by `our_statements`; the values are called `v0`, `v1` …
        helpers: Functions and values of ours, by name.

    Raises:
        ValueError: Together they can't be compiled.
    """

    def __init__(
        self,
        trees: Sequence[ast.expr],
        code: CodeType,
        overtime: Overtime,
        *,
        ending: Sequence[ast.stmt],
        substitutes: Substitutes,
        helpers: Mapping[str, object] = _NOTHING,
    ) -> None:
        failed, late = substitutes.failed, substitutes.late
        self._trees = [mangled(tree, code) for tree in trees]
        nodes = [node for tree in self._trees for node in ast.walk(tree)]
        used = {node.id for node in nodes if isinstance(node, ast.Name)}
        self._is_function = bool(code.co_flags & inspect.CO_OPTIMIZED)
        used = {name for name in used if not name.startswith(_OWN)}
        known = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
        # In other code all names may be locals, or none (a module's locals are its globals).
        self._locals = tuple(sorted(used & known if self._is_function else used))
        # The generated function would take these for locals of its own.
        targets = {node.target.id for node in nodes if isinstance(node, ast.NamedExpr)}
        self._assigned = sorted(targets & used - known)
        self._views = sorted(used & _VIEWS - known)
        self._flags = future_flags(code)
        self._ending = ending
        self._failed = failed
        is_simple = self._is_function and not self._assigned and not self._views
        slow = [n for n, tree in enumerate(trees) if not _consists_of(_HARMLESS, tree)]
        self._timed = slow[1:]  # the first one begins with the evaluation
        timers = {"threads": overtime.threads, "ident": get_ident, "overtime": overtime}
        self._helpers = {"failed": failed, **helpers, **(timers if self._timed else {})}
        self._variants: dict[frozenset[str], CodeType] = {}
        try:
            self._variant(frozenset(self._locals if self._is_function else ()))
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise ValueError(f"the expressions can't be compiled: {error}") from error
        self.value: Callable[[FrameType], Any] = overtime.limited(self._thorough_value, late)
        if not is_simple:
            return
        is_local = used <= known
        is_plain = len(trees) == 1 and is_local and _consists_of(_PLAIN, trees[0])
        if slow:
            self.value = overtime.limited(self._reading_value(is_local), late)
        if not slow or is_plain:
            self.value = self._reading_value(is_local, self.value if slow else None)

    def _reading_value(self, is_local: bool, limited: object = None) -> Callable[[FrameType], Any]:
        """`value` by one generated function, which reads the locals of the frame itself.

        Args:
            is_local: The expressions use nothing but locals: one function serves all frames.
            limited: Called with the frame instead if the value of a local is not plain.
        """
        names: list[ast.expr] = [ast.Name(name, ast.Store()) for name in self._locals]
        values = [our_expression(f"held[{name!r}]") for name in self._locals]
        before = our_statements(
            _READ, names=ast.Tuple(names, ast.Store()), values=ast.Tuple(values, ast.Load())
        )
        for name in self._locals if limited is not None else ():
            before += our_statements(_CHECK, value=ast.Name(name, ast.Load()))
        helpers = {**self._helpers, **_READERS, **reading()}
        helpers |= {"thorough": self._thorough_value, "limited": limited}
        ours = {_OWN + name: helper for name, helper in helpers.items()}
        # As globals they cost nothing where they are not used; else those are the frame's.
        parameters = [_OWN + "frame", *(() if is_local else ours)]
        code = self._compiled(parameters, before if names else [])
        if is_local:
            return FunctionType(code, ours, "<template>")
        return _bound_to_globals(code, tuple(ours.values()))

    def _thorough_value(self, frame: FrameType) -> Any:
        """`value` for frames where names have no value yet, and for code that is no function."""
        held = read_locals(frame)
        present: dict[str, Any] = {}
        if self._is_function or held is not frame.f_globals:
            self._read(self._locals, held, present)
        for names in (frame.f_globals, frame.f_builtins):
            self._read(self._assigned, names, present)
        if self._views:
            is_plain = self._is_function or type(held) is dict
            shown = self._read(_shown_names(held) if is_plain else (), held, {})
            views = views_of(lambda: shown)
            wanted = [name for name in self._views if name not in frame.f_globals]
            present |= {name: views[name] for name in wanted if name not in present}
        code, helpers = self._variant(frozenset(present)), tuple(self._helpers.values())
        function = FunctionType(code, frame.f_globals, "<template>", helpers)
        return function(*(present[name] for name in sorted(present)))

    def _read(
        self, names: Iterable[str], held: Mapping[str, Any], present: dict[str, Any]
    ) -> dict[str, Any]:
        """Add names of `held` to `present` that are not in it yet."""
        for name in names:
            if name not in present:
                try:
                    present[name] = held[name]
                except BaseException:  # noqa: BLE001 - a class body's may be of the user's making
                    self._failed()
        return present

    def _variant(self, present: frozenset[str]) -> CodeType:
        """The code for the case that exactly these names have a value."""
        code = self._variants.get(present)
        if code is None:
            # The last parameters have defaults: `FunctionType` gets them.
            parameters = [*sorted(present), *(_OWN + name for name in self._helpers)]
            code = self._compiled(parameters, self._unbinding(present))
            if len(self._variants) < _MAX_VARIANTS:
                self._variants[present] = code
        return code

    def _unbinding(self, present: frozenset[str]) -> list[ast.stmt]:
        """Statements that make names without a value locals: assignments that are never reached."""
        absent = sorted(set(self._locals) - present) if self._is_function else []
        targets = [ast.Name(name, ast.Store()) for name in absent]
        return [ast.For(target, ast.Tuple([], ast.Load()), [ast.Pass()], []) for target in targets]

    def _compiled(self, parameters: Iterable[str], before: Iterable[ast.stmt]) -> CodeType:
        """`def template(PARAMETERS…): BEFORE; try: v0 = EXPRESSION …; ENDING`."""
        body = list(before)
        for index, tree in enumerate(self._trees):
            if index in self._timed:
                body += our_statements("threads[ident()].since = overtime.now")
            # Without a type: the module may have a name `BaseException` of its own.
            guarded = "try:\n    {0} = value\nexcept:\n    {0} = failed()"
            body += our_statements(guarded.format(f"v{index}"), value=tree)
        (function,) = quiet.parse("def template(): pass").body
        assert isinstance(function, ast.FunctionDef)
        function.args.args = [ast.arg(name) for name in parameters]
        function.body = [*body, *self._ending]
        module = ast.fix_missing_locations(ast.Module([function], []))
        made = quiet.compiled(module, _FILE, "exec", self._flags)
        return next(constant for constant in made.co_consts if type(constant) is CodeType)


def _bound_to_globals(code: CodeType, helpers: tuple[object, ...]) -> Callable[[FrameType], Any]:
    """The code as a function with the globals of the frame that it is called with.

    The helpers are the defaults of its last parameters.
    """
    # In one tuple: threads may run one code object with different globals.
    bound: tuple[object, Callable[[FrameType], Any]] = (None, FunctionType(code, {}))

    def value(frame: FrameType) -> Any:
        nonlocal bound
        namespace, function = bound
        if frame.f_globals is not namespace:
            function = FunctionType(code, frame.f_globals, "<template>", helpers)
            bound = (frame.f_globals, function)
        return function(frame)

    return value


class _Ours(ast.NodeTransformer):
    """Replaces names by trees, and gives all others our prefix; for `our_statements`."""

    def __init__(self, trees: Mapping[str, ast.expr]) -> None:
        self._trees = trees

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a name."""
        return self._trees.get(node.id) or ast.Name(_OWN + node.id, node.ctx)


def mangled(tree: ast.expr, code: CodeType) -> ast.expr:
    """An expression with private names as the compiler spells them in a method's code."""
    owner = _class_around(code)
    spelled: ast.expr = _Mangled(owner).visit(tree) if owner else tree
    return spelled


class _Mangled(ast.NodeTransformer):
    """Spells private names as the compiler spells them inside a class."""

    def __init__(self, owner: str) -> None:
        self._prefix = f"_{owner}"

    def visit(self, node: ast.AST) -> Any:
        """Spell out the names below."""
        self.generic_visit(node)
        if isinstance(node, ast.Name):
            node.id = self._spelled(node.id)
        elif isinstance(node, ast.Attribute):
            node.attr = self._spelled(node.attr)
        return node

    def _spelled(self, name: str) -> str:
        is_private = name.startswith("__") and not name.endswith("__")
        return self._prefix + name if is_private else name


def _class_around(code: CodeType) -> str:
    """The class whose body a code object stands in, without leading underscores; else empty."""
    path = code.co_qualname.split(".")
    if code.co_flags & inspect.CO_OPTIMIZED or code.co_name == "<module>":
        while path[-2:-1] == ["<locals>"]:
            del path[-2:]
        path.pop()
    return path[-1].lstrip("_") if path else ""


def future_flags(code: CodeType) -> int:
    """The flags for `compile` of the imports from `__future__` that are in effect in code."""
    return sum({flag for flag in _FUTURES if code.co_flags & flag == flag})


def _consists_of(kinds: tuple[type[ast.AST], ...], tree: ast.expr) -> bool:
    return all(isinstance(node, kinds) for node in ast.walk(tree))


def _shown_names(held: Mapping[str, Any]) -> Iterator[str]:
    """The names that a program has in a namespace: not the compiler's, no rewriting of asserts."""
    return (name for name in list(held) if type(name) is str and name[:1] not in ("@", "."))
