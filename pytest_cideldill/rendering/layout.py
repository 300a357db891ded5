"""Reads types and instances through C-level accessors: names, attributes, slots; no user code.

Runs in the process under test on the thread that hit. It must not know how anything is shown. The
rule inside: no `==`, hash, `len`, `isinstance` or attribute access on anything whose type is not
known by identity, because a metaclass or a class of the user's may answer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from types import GetSetDescriptorType, MemberDescriptorType, TracebackType
from typing import Any, Final

from pytest_cideldill.interpreter.loaded_names import class_dict_of, mro_of
from pytest_cideldill.interpreter.values import dataclass

mro: Final = mro_of
class_dict: Final = class_dict_of
flags: Final = type.__dict__["__flags__"].__get__
_name: Final = type.__dict__["__name__"].__get__
_qualname: Final = type.__dict__["__qualname__"].__get__
_module: Final = type.__dict__["__module__"].__get__

# Bits of `type.__flags__` (CPython's Include/object.h): true for subclasses as well.
IS_EXCEPTION: Final = 1 << 30
IS_CLASS: Final = 1 << 31

# Not the attributes of exceptions: a class may define its own.
args_of: Callable[[BaseException], tuple[Any, ...]]
cause_of: Callable[[BaseException], BaseException | None]
context_of: Callable[[BaseException], BaseException | None]
traceback_of: Callable[[BaseException], TracebackType | None]
args_of, cause_of, context_of, traceback_of = (
    BaseException.__dict__[name].__get__
    for name in ("args", "__cause__", "__context__", "__traceback__")
)

NUMBERS: Final = frozenset(map(id, (int, float, bool, type(None))))
"""Types by id, as a metaclass may define how its classes are hashed and compared."""

LARGE: Final = 10**18
"""Integers below it are shown as they are; `str` of huge ones takes long, or raises."""

_KEPT_BY_LIBRARIES: Final = ("_sa_instance_state", "_state")
"""Attributes that SQLAlchemy and Django put into each instance before its columns."""

_OF_TEST_CASES: Final = frozenset(
    {
        "_asyncioRunner",
        "_asyncioTestContext",
        "_cleanups",
        "_outcome",
        "_subtest",
        "_testMethodDoc",
        "_testMethodName",
        "_type_equality_funcs",
    }
)
"""Attributes that `unittest` keeps in each test for itself."""

_OURS: Final = __name__.partition(".")[0]
"""Our own objects are never opened: a test holds one, its fixture, through which the secrets can be
reached."""


def type_name(value: object) -> str:
    """The type of `value` as `module.QualName`, builtins bare; `__class__` is not read."""
    return class_name(type(value))


def class_name(cls: type) -> str:
    """`module.QualName` of a class, builtins bare; the metaclass is not asked."""
    module = module_of(cls)
    # str.__str__ makes an exact string of a subclass.
    qualname = str.__str__(_qualname(cls))
    return qualname if module in ("", "builtins") else encodable(f"{module}.{qualname}")


def short_name(cls: type) -> str:
    """The bare name of a class."""
    return label(str.__str__(_name(cls)))


def module_of(cls: type) -> str:
    """The `__module__` of a class; empty if that is not a string."""
    module = _module(cls)
    return module if type(module) is str else ""


def encodable(text: str) -> str:
    """The text with lone surrogates escaped, so that UTF-8 can hold it."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def label(name: str) -> str:
    """An attribute name as it is, or quoted where it is not a Python name."""
    return name if name.isidentifier() else repr(name)


def find(mapping: Mapping[Any, Any], name: str) -> Any:
    """`mapping.get(name)` without a lookup, which might compare with a key of a user's class."""
    for key, value in tuple(mapping.items()):
        if type(key) is str and key == name:
            return value
    return None


def find_in_class(cls: type, name: str) -> Any:
    """The value of a class attribute, unbound; None if there is none."""
    for base in mro(cls):
        value = find(class_dict(base), name)
        if value is not None:
            return value
    return None


def held_value(x: object, name: str) -> Any:
    """The value that an object has under a name in its own `__dict__`; None if there is none."""
    for key, value in Layout.of(type(x)).held(x):
        if type(key) is str and key == name:
            return value
    return None


def attribute(x: object, name: str) -> Any:
    """An attribute as it is stored, in C, in a slot or in the instance's own dict; else None."""
    cls = type(x)
    found = find_in_class(cls, name)
    if type(found) in (GetSetDescriptorType, MemberDescriptorType):
        try:
            return found.__get__(x, cls)
        except AttributeError:
            return None  # never assigned
    return held_value(x, name)


def is_a(cls: type, wanted: type) -> bool:
    """`issubclass` by identity."""
    return any(base is wanted for base in mro(cls))


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Where the instances of a class keep their data."""

    cls: type
    get_dict: Callable[[object, type], Any] | None
    slots: tuple[tuple[str, MemberDescriptorType], ...]
    hidden: frozenset[str] = frozenset()

    @classmethod
    def of(cls, owner: type) -> Layout:
        """Look through the MRO of a class, once for many instances."""
        if module_of(owner).partition(".")[0] == _OURS:
            return cls(owner, None, ())
        hidden = _OF_TEST_CASES if _is_test_case(owner) else frozenset()
        return cls(owner, _dict_getter(owner), tuple(_slots(owner)), hidden)

    @property
    def is_opaque(self) -> bool:
        """Whether instances have no place for attributes that can be read."""
        return self.get_dict is None and not self.slots

    def attributes(self, x: object) -> Iterator[tuple[str, Any]]:
        """Instance attributes from `__dict__` and slots, without hidden and dunder names."""
        for name, value in self.held(x):
            if _is_shown(name) and name not in self.hidden:
                yield name, value
        for name, descriptor in self.slots:
            try:
                yield name, descriptor.__get__(x, self.cls)
            except AttributeError:
                continue  # never assigned

    def attributes_in_order(self, x: object) -> list[tuple[str, Any]]:
        """Those that are shown; one that a library keeps in each object for itself comes last.

        A connection of `sqlite3` has a member for each class of its exceptions, which says nothing
        of it.
        """
        pairs = list(self.attributes(x))
        if self.slots:
            pairs = [pair for pair in pairs if not self._is_constant(*pair)]
        if pairs and pairs[0][0] in _KEPT_BY_LIBRARIES:  # exact strings
            pairs.append(pairs.pop(0))
        return pairs

    def _is_constant(self, name: str, value: Any) -> bool:
        """Whether a slot holds a class of its own name."""
        is_class = flags(type(value)) & IS_CLASS and short_name(value) == name
        return bool(is_class) and any(name == slot for slot, _ in self.slots)

    def held(self, x: object) -> tuple[tuple[Any, Any], ...]:
        """All items of an instance's `__dict__`."""
        namespace = None if self.get_dict is None else self.get_dict(x, self.cls)
        if namespace is None or not is_a(type(namespace), dict):
            return ()
        # Copied in one step, as another thread may be setting an attribute.
        return tuple(dict.items(namespace))


def _is_test_case(cls: type) -> bool:
    case = getattr(sys.modules.get("unittest.case"), "TestCase", None)
    return case is not None and is_a(cls, case)


def _dict_getter(cls: type) -> Callable[[object, type], Any] | None:
    for base in mro(cls):
        descriptor = find(class_dict(base), "__dict__")
        # types.SimpleNamespace has a descriptor of the second kind.
        if type(descriptor) is GetSetDescriptorType or type(descriptor) is MemberDescriptorType:
            return descriptor.__get__
        if descriptor is not None:
            return None  # shadowed by an attribute of the user's
    return None


def _slots(cls: type) -> Iterator[tuple[str, MemberDescriptorType]]:
    for base in mro(cls):
        for name, value in tuple(class_dict(base).items()):
            # A class may hold the slot descriptor of another class, which would only fail.
            ours = type(value) is MemberDescriptorType and value.__objclass__ is base
            if ours and _is_shown(name):
                yield name, value


def _is_shown(name: object) -> bool:
    return type(name) is str and not (name.startswith("__") and name.endswith("__"))
