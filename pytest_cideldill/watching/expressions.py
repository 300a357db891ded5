"""The expression of a watch: names, attributes and items are read; anything else is evaluated.

Reading follows data, as the program would see it: no property, no `__getitem__` and no
`__getattr__` of the program runs. Where only those could give the value, and for any other
expression, the client's own expression is evaluated: on the thread that hit, which counts as
evaluating meanwhile.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any, Final, NamedTuple

from pytest_cideldill.evaluation.compiled import mangled
from pytest_cideldill.evaluation.time_limit import Overtime
from pytest_cideldill.interpreter.loaded_names import class_dict_of, module_dict_of, mro_of
from pytest_cideldill.rendering import layout
from pytest_cideldill.rendering.layout import Layout
from pytest_cideldill.sourcecode import quiet

Step = tuple[str, Any]
"""`(kind, key)`: `.` an attribute, `[` an item by a constant, `n` an item by a variable."""

_KEYS: Final = frozenset(map(id, (int, str, bool, bytes, float, type(None))))
_FILE: Final = "<watch>"


class _Missing:
    """What stands for a value that is not there."""

    def __init__(self, name: str) -> None:
        self.name = name


UNSET: Final = _Missing("unset")
"""The name, attribute or item does not exist (yet)."""

LOST: Final = _Missing("lost")
"""What the expression begins with can't be found any more, or not now."""

_EVALUATE: Final = _Missing("evaluate")
"""Only code of the program can say."""


class Failure(NamedTuple):
    """The expression raised `text`: `KeyError`."""

    text: str


def is_value(value: object) -> bool:
    """Whether it is a value of the program."""
    return type(value) is not _Missing and type(value) is not Failure


class Expression:
    """An expression in the scope of one code object, or of a module's globals.

    Args:
        source: What the client wrote.
        code: Of the function; None: all names are globals.
        overtime: Marks the thread that evaluates.

    Attributes:
        source: Without blanks around.
        locals: The local names that it needs.
        root: The name that a chain of attributes and items begins with; empty if it is none.
        steps: That chain.

    Raises:
        ValueError: It can't be compiled.
    """

    def __init__(self, source: str, code: CodeType | None, overtime: Overtime) -> None:
        self.source = source = source.strip()
        self._overtime = overtime
        self._readers: dict[tuple[int, str], tuple[type, Callable[[Any], Any]]] = {}
        try:
            tree = quiet.parse_expression(f"({source})")
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise ValueError(str(error)) from error
        if code is not None:
            tree = mangled(tree, code)
        names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
        known = _locals_of(code)
        self.names = tuple(dict.fromkeys(names))
        self.locals = tuple(name for name in self.names if name in known)
        self.root, self.steps = _chain(tree)
        self._code = self._compiled(tree)
        self._evaluate = overtime.limited(self._called, Failure("timeout"))

    @property
    def is_chain(self) -> bool:
        """Whether it consists of a name, attributes and items."""
        return bool(self.root)

    @property
    def last_name(self) -> str:
        """The name of what it gives: by it secrets are recognized."""
        if not self.root:
            return ""
        keys = [key for kind, key in self.steps if kind != "n" and type(key) is str]
        return keys[-1] if keys else self.root

    def value(self, held: Mapping[str, Any], names: dict[str, Any]) -> Any:
        """What it gives; `UNSET`, `LOST` or a `Failure` where it gives nothing.

        Args:
            held: The local names; `LOST` where a value can't be found.
            names: The globals.
        """
        if self.root:
            value = held.get(self.root, UNSET)
            if value is UNSET and self.root not in self.locals:
                value = dict.get(names, self.root, UNSET)
            for kind, key in self.steps:
                if type(value) is _Missing:
                    break
                value = self._step(value, kind, key, held, names)
            if value is not _EVALUATE:
                return value
        values = []
        for name in self.locals:
            value = held.get(name, UNSET)
            if type(value) is _Missing:
                return value
            values.append(value)
        return self._evaluate((values, names))

    def parent(self, held: Mapping[str, Any], names: dict[str, Any]) -> Any:
        """The object whose attribute or item a chain gives; `UNSET` if there is none."""
        if not self.steps:
            return UNSET
        value = held.get(self.root, UNSET)
        if value is UNSET:
            value = dict.get(names, self.root, UNSET)
        for kind, key in self.steps[:-1]:
            if type(value) is _Missing:
                break
            value = self._step(value, kind, key, held, names)
        return UNSET if value is _EVALUATE else value

    def _called(self, given: tuple[list[Any], dict[str, Any]]) -> Any:
        __tracebackhide__ = True
        values, names = given
        try:
            return FunctionType(self._code, names, "<watch>")(*values)
        except BaseException:  # noqa: BLE001 - the program's exceptions are raised again by `failed`
            shown = self._overtime.failed()
            return Failure(shown.removeprefix("<error: ").removesuffix(">"))

    def _compiled(self, tree: ast.expr) -> CodeType:
        arguments = [ast.arg(name) for name in self.locals]
        spec = ast.arguments([], arguments, None, [], [], None, [])
        module = ast.fix_missing_locations(ast.Expression(ast.Lambda(spec, tree)))
        try:
            made = quiet.compiled(module, _FILE, "eval")
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise ValueError(str(error)) from error
        return next(constant for constant in made.co_consts if type(constant) is CodeType)

    # --- steps ------------------------------------------------------------------------------

    def _step(
        self, value: Any, kind: str, key: Any, held: Mapping[str, Any], names: dict[str, Any]
    ) -> Any:
        if kind == ".":
            known = self._readers.get((id(type(value)), key))
            if known is not None and known[0] is type(value):
                found = known[1](value)
                if found is not UNSET:
                    return found
            return self._attribute(value, key)
        if kind == "n":
            name = key
            key = held.get(name, UNSET)
            if key is UNSET and name not in self.locals:
                key = dict.get(names, name, UNSET)
            if type(key) is _Missing:
                return key
        return _item(value, key)

    def _attribute(self, value: Any, name: str) -> Any:
        kind = type(value)
        if kind is ModuleType:
            found = module_dict_of(value).get(name, UNSET)
            return _EVALUATE if found is UNSET and "__getattr__" in module_dict_of(value) else found
        if layout.flags(kind) & layout.IS_CLASS:
            return _of_class(value, kind, name)
        if _find(kind, "__getattribute__") is not object.__dict__["__getattribute__"]:
            return _EVALUATE
        inherited = _find(kind, name)
        if type(inherited) is MemberDescriptorType:
            found = _slot(inherited, value, kind)
        elif inherited is not UNSET and _is_data_descriptor(inherited):
            return _EVALUATE
        else:
            found = self._own(value, kind, name)
            if found is UNSET and inherited is not UNSET:
                return _EVALUATE if _find(type(inherited), "__get__") is not UNSET else inherited
        if found is UNSET and _find(kind, "__getattr__") is not UNSET:
            return _EVALUATE
        return found

    def _own(self, value: Any, kind: type, name: str) -> Any:
        """What the instance itself has under a name; next time it is read at once."""
        get = Layout.of(kind).get_dict
        if get is None:
            return UNSET

        def read(value: Any) -> Any:
            held = get(value, type(value))
            return held.get(name, UNSET) if type(held) is dict else UNSET

        self._readers[id(kind), name] = kind, read
        return read(value)


def _locals_of(code: CodeType | None) -> frozenset[str]:
    if code is None:
        return frozenset()
    if code.co_flags & inspect.CO_OPTIMIZED:
        return frozenset((*code.co_varnames, *code.co_cellvars, *code.co_freevars))
    return frozenset(code.co_names)  # of a class body


def _chain(node: ast.expr) -> tuple[str, tuple[Step, ...]]:
    steps: list[Step] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            steps.append((".", node.attr))
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name):
            steps.append(("n", node.slice.id))
        elif isinstance(node, ast.Subscript):
            written = node.slice  # parsed already
            try:
                key = ast.literal_eval(written)
            except ValueError:
                return "", ()
            if id(type(key)) not in _KEYS:
                return "", ()
            steps.append(("[", key))
        else:
            return "", ()
        node = node.value
    return node.id, tuple(reversed(steps))


def _find(cls: type, name: str) -> Any:
    """A class's attribute as it is stored, in it or a base; `UNSET` if there is none."""
    for base in mro_of(cls):
        members = class_dict_of(base)
        if name in members:
            return members[name]
    return UNSET


def _is_data_descriptor(value: Any) -> bool:
    kind = type(value)
    return _find(kind, "__set__") is not UNSET or _find(kind, "__delete__") is not UNSET


def _of_class(value: Any, kind: type, name: str) -> Any:
    if kind is not type and (
        _find(kind, "__getattribute__") is not type.__dict__["__getattribute__"]
        or _find(kind, name) is not UNSET
    ):
        return _EVALUATE
    found = _find(value, name)
    if found is UNSET:
        return _EVALUATE if _find(kind, name) is not UNSET else UNSET
    return _EVALUATE if _find(type(found), "__get__") is not UNSET else found


def _slot(descriptor: Any, value: Any, kind: type) -> Any:
    try:
        return descriptor.__get__(value, kind)
    except AttributeError:
        return UNSET


def _item(value: Any, key: Any) -> Any:
    kind = type(value)
    if id(type(key)) not in _KEYS:
        return _EVALUATE
    for base in (dict, list, tuple):
        if kind is base or (
            layout.is_a(kind, base) and _find(kind, "__getitem__") is base.__dict__["__getitem__"]
        ):
            break
    else:
        return _EVALUATE
    if base is dict:
        return dict.get(value, key, UNSET)  # a `defaultdict` would make the item
    if type(key) not in (int, bool):
        return _EVALUATE
    size = base.__len__(value)
    return base.__getitem__(value, key) if -size <= key < size else UNSET


BUILTINS: Final = frozenset(vars(builtins))
"""Names that need not be anybody's."""
