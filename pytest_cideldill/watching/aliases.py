"""The texts of what holds an object: attributes, globals, closures, defaults, items, locals."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from types import (
    AsyncGeneratorType,
    CellType,
    CodeType,
    CoroutineType,
    FunctionType,
    GeneratorType,
    ModuleType,
)
from typing import Any, Final

from pytest_cideldill.calltraces.user_code import CodeTable
from pytest_cideldill.interpreter.loaded_names import file_of_module, module_dict_of
from pytest_cideldill.patching.function_code import code_of
from pytest_cideldill.project import Project
from pytest_cideldill.rendering import layout
from pytest_cideldill.rendering.layout import Layout
from pytest_cideldill.watching.contents import SCALARS, Show
from pytest_cideldill.watching.holders import InFrame, IsUser, Trail, holders

MOST: Final = 12
"""Aliases that are named."""

_SUSPENDED: Final = frozenset(map(id, (GeneratorType, CoroutineType, AsyncGeneratorType)))
_NAMED: Final = frozenset(map(id, (ModuleType, FunctionType)))
_NOT_OPENED: Final = ("_pytest", "pluggy", "pytest_cideldill", "threading", "weakref", "gc")


class Aliases:
    """Finds and names what holds an object."""

    def __init__(self, project: Project, table: CodeTable, is_user: IsUser, show: Show) -> None:
        self._project, self._table = project, table
        self._is_user, self._show = is_user, show

    def of(self, value: Any, parent: Any, source: str, home: Any) -> list[str]:
        """The texts of all but the one by which the expression gives the object.

        Args:
            value: The object.
            parent: The object of whose attribute or item the expression gives it.
            source: The expression.
            home: The frame of its local names.
        """
        if id(type(value)) in SCALARS:
            return []
        texts: dict[str, int] = {}
        own = "" if home is None else f"local {source} in {_name_of(home.f_code)} (suspended)"
        for trail in holders(value, self._goes_on, self._is_user):
            owner = trail[0]
            if type(owner) is InFrame and owner.frame is home and owner.name == source:
                continue
            if _is_by(parent, trail):
                continue
            for text in self._texts(trail):
                if text == own:
                    continue
                if home is not None or not f".{text}".endswith(f".{source}"):
                    texts[text] = texts.get(text, 0) + 1
        if self.is_users(type(parent)):
            attribute = source.rpartition(".")[2]
            for text in self._of_instance(parent, [value], without=attribute):
                texts[text] = 1
        # Locals last: they are the least lasting ones.
        found = sorted(texts, key=lambda text: (text.startswith("local "), text))
        return [f"{each} ×{texts[each]}" if texts[each] > 1 else each for each in found][:MOST]

    def _goes_on(self, owner: Any) -> bool:
        """Who holds an object of a library is of interest: `functools.partial`, say."""
        if id(type(owner)) in _NAMED or self.is_users(type(owner)):
            return False
        if layout.flags(type(owner)) & layout.IS_CLASS or id(type(owner)) in _SUSPENDED:
            return False
        return layout.module_of(type(owner)).partition(".")[0] not in _NOT_OPENED

    def is_users(self, cls: type) -> bool:
        """Whether a class is the user's."""
        module = sys.modules.get(layout.module_of(cls))
        file = file_of_module(module) if type(module) is ModuleType else None
        return file is not None and self._project.is_user(file)

    # --- owners -----------------------------------------------------------------------------

    def _texts(self, trail: Trail) -> list[str]:
        """The texts of one; none if its owner is not the user's."""
        owner, *held = trail
        if self.is_users(type(owner)):
            return self._of_instance(owner, held)
        text = self._text(owner, held)
        return [text] if text else []

    def _text(self, owner: Any, held: list[Any]) -> str:
        kind = type(owner)
        if kind is InFrame:
            name: str = owner.name
            if not name.isidentifier():
                return ""  # of the rewriting of assertions, or of the compiler
            return f"local {name}{self._items(held)} in {_name_of(owner.frame.f_code)}"
        if kind is ModuleType:
            return self._of_module(owner, held)
        if layout.flags(kind) & layout.IS_CLASS:
            return self._of_class(owner, held)
        if kind is FunctionType:
            return self._of_function(owner, held)
        if id(kind) in _SUSPENDED:
            return self._of_suspended(owner, held)
        return ""  # a bound method, say, which comes and goes with a call

    def _of_module(self, owner: ModuleType, held: list[Any]) -> str:
        file = file_of_module(owner)
        if file is None or not self._project.is_user(file):
            return ""
        names = module_dict_of(owner)
        name = _key_of(names, held[1]) if held and held[0] is names and len(held) > 1 else None
        if name is None:
            return ""
        return f"{names.get('__name__')}.{name}{self._items(held[1:])}"

    def _of_class(self, owner: type, held: list[Any]) -> str:
        if not self.is_users(owner):
            return ""
        for at, value in enumerate(held):
            name = _key_of(layout.class_dict(owner), value)
            if name is not None:
                return f"{layout.class_name(owner)}.{name}{self._items(held[at:])}"
        return ""

    def _of_function(self, owner: FunctionType, held: list[Any]) -> str:
        code = code_of(owner)
        if not self._project.is_user(code.co_filename):
            return ""
        if len(held) < 2:
            return ""
        name, first, second = code.co_qualname, held[0], held[1]
        closure, defaults = owner.__closure__, owner.__defaults__
        if closure and first is closure:
            at = next((n for n, cell in enumerate(closure) if cell is second), None)
            if at is None:
                return ""
            variable = code.co_freevars[at] if at < len(code.co_freevars) else "?"
            return f"closure {variable}{self._items(held[2:])} of {name}"
        if defaults and first is defaults:
            names = code.co_varnames[: code.co_argcount]
            at = next(n for n, default in enumerate(defaults) if default is second)
            argument = names[len(names) - len(defaults) + at]
            return f"default of {name}({argument}){self._items(held[1:])}"
        if first is owner.__kwdefaults__:
            return f"default of {name}({_key_of(first, second)}){self._items(held[1:])}"
        if type(first) is dict and owner.__dict__ is first:
            return f"{name}.{_key_of(first, second)}{self._items(held[1:])}"
        return ""

    def _of_suspended(self, owner: Any, held: list[Any]) -> str:
        for attribute in ("gi_frame", "cr_frame", "ag_frame"):
            frame = getattr(owner, attribute, None)
            if frame is None or not self._is_user(frame):
                continue
            name = _key_of(frame.f_locals, held[0])
            if name is not None:
                where = _name_of(frame.f_code)
                return f"local {name}{self._items(held)} in {where} (suspended)"
        return ""

    def _of_instance(self, owner: Any, held: list[Any], without: str = "") -> list[str]:
        cls = layout.short_name(type(owner))
        found = Layout.of(type(owner))
        names = None if found.get_dict is None else found.get_dict(owner, type(owner))
        if names is not None and held[0] is names:
            held = held[1:]
        if not held or held[0] is type(owner):
            return []
        items = self._items(held)
        attributes = [name for name, value in found.attributes(owner) if value is held[0]]
        if attributes or without:
            return [f"{cls}.{name}{items} of <{cls}>" for name in attributes if name != without]
        items = self._items([owner, *held])
        return [f"{cls}{items} of <{cls}>"] if items else []

    # --- items ------------------------------------------------------------------------------

    def _items(self, held: list[Any]) -> str:
        """`['k'][2]`: how one gets from the first of these, each of which holds the next."""
        return "".join(self._item(*pair) for pair in pairwise(held))

    def _item(self, holder: Any, value: Any) -> str:
        kind = type(holder)
        if layout.is_a(kind, dict):
            key = _key_of(holder, value, missing=self)
            return "[…]" if key is self else f"[{json.loads(self._show(key, ''))}]"
        for base in (list, tuple):
            if layout.is_a(kind, base):
                items = tuple(base.__iter__(holder))
                at = next((n for n, item in enumerate(items) if item is value), "…")
                return f"[{at}]"
        if layout.is_a(kind, set) or layout.is_a(kind, frozenset):
            return "{…}"
        if kind is CellType:
            return ""
        found = Layout.of(kind)
        if found.get_dict is not None and found.get_dict(holder, kind) is value:
            return ""
        for name, each in found.attributes(holder):
            if each is value:
                return f".{name}"
        return f".<{layout.short_name(kind)}>"


def _name_of(code: CodeType) -> str:
    return code.co_qualname.replace(".<locals>", "")


def _is_by(parent: Any, trail: Trail) -> bool:
    """Whether a trail goes through what the expression itself goes through."""
    if len(trail) > 1 and trail[-2] is parent:
        return True
    if len(trail) < 3 or trail[-3] is not parent:
        return False
    get = Layout.of(type(parent)).get_dict
    return get is not None and get(parent, type(parent)) is trail[-2]


def _key_of(names: Any, value: Any, missing: Any = None) -> Any:
    """The key under which a mapping has a value."""
    pairs = dict.items(names) if layout.is_a(type(names), dict) else names.items()
    return next((key for key, each in tuple(pairs) if each is value), missing)
