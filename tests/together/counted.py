"""Objects that count what is asked of them: one class for each method that has a meaning.

Copied into projects under test, where the counts with us and without us are compared. Needs the
standard library, and dill for `registered`.
"""

from __future__ import annotations

import abc
import collections
import contextlib
import copyreg
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

COUNTS: collections.Counter[str] = collections.Counter()
"""What ran, and how often."""


def _generator() -> Iterator[None]:
    yield


_BUILT_IN: tuple[type, ...] = (
    *(object, type, int, float, complex, str, bytes, bytearray, list, dict, set, tuple, range),
    *(memoryview, BaseException, property, slice, type(_generator()), type(_generator), type(sys)),
)
_MORE = (
    *("aenter", "aexit", "aiter", "anext", "await", "enter", "exit", "get", "set", "delete"),
    *("bytes", "complex", "fspath", "index", "length_hint", "missing", "next", "round", "trunc"),
    *("copy", "deepcopy", "replace", "getinitargs", "getnewargs", "getnewargs_ex"),
    *("getstate", "setstate", "getattr", "instancecheck", "subclasscheck", "prepare", "sizeof"),
    *("array", "array_function", "array_interface", "array_ufunc", "dataframe", "torch_function"),
    *("html", "pretty", "rich_repr"),
)
_LEFT_OUT = {
    *("__new__", "__init__", "__init_subclass__", "__class__", "__class_getitem__", "__base__"),
    "__del__",
}
HOOKS = sorted(
    {
        name
        for kind in _BUILT_IN
        for name in dir(kind)
        if name.startswith("__") and callable(getattr(kind, name, None)) and name not in _LEFT_OUT
    }
    | {f"__{name}__" for name in _MORE}
)
"""Methods that Python, its library or well-known libraries ask a class for."""

_ATTRIBUTES = (
    *("annotations", "cause", "class", "code", "context", "defaults", "dict", "doc", "file"),
    *("func", "name", "notes", "objclass", "self", "signature", "spec", "suppress_context"),
    *("traceback", "wrapped"),
)
ASKED = (
    *(f"__{name}__" for name in _ATTRIBUTES),
    *("_asdict", "_fields", "_meta", "_mock_name", "_name_", "_repr_html_", "_state", "_value_"),
    *("args", "cr_frame", "data", "dtype", "exceptions", "func", "gi_frame", "items", "keys"),
    *("name", "obj", "shape", "size", "value", "values"),
)
"""Attributes that whoever looks may ask for; they are properties here."""

_ANSWERS: dict[str, Any] = {
    "__bool__": True,
    "__len__": 3,
    "__length_hint__": 3,
    "__index__": 3,
    "__fspath__": "path",
    "__iter__": iter(()),
    "__reversed__": iter(()),
    "__getnewargs__": (),
}

BASES: dict[str, tuple[type, tuple[Any, ...]]] = {
    "object": (object, ()),
    "list": (list, ([1],)),
    "dict": (dict, ({"a": 1},)),
    "Exception": (Exception, ("x",)),
    "tuple": (tuple, ((1,),)),
    "str": (str, ("text",)),
    "bytes": (bytes, (b"x",)),
    "int": (int, (5,)),
    "float": (float, (5.0,)),
    "set": (set, ([1],)),
    "deque": (collections.deque, ([1],)),
    "OrderedDict": (collections.OrderedDict, ()),
}
"""What classes are derived from, and how their instances are made."""


def counting(label: str, name: str, base: type) -> Callable[..., Any]:
    """A method that counts, and does what the one of the base does."""
    inherited = getattr(base, name, None)

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        COUNTS[label] += 1
        if callable(inherited):
            return inherited(self, *args, **kwargs)
        if name in _ANSWERS:
            return _ANSWERS[name]
        raise AttributeError(name)

    return run


def _class(name: str, bases: tuple[type, ...], names: dict[str, Any], meta: type = type) -> type:
    made: type = meta(name, bases, {"__module__": __name__, "__qualname__": name, **names})
    globals()[name] = made  # found under its name: else pickling would give up for that
    return made


def of_base(kind: str) -> Iterator[Any]:
    """Instances of classes of one base, with one method or one property each."""
    base, arguments = BASES[kind]
    for name in HOOKS:
        label = f"{kind} {name}"
        made = _class(f"{kind}_{name}", (base,), {name: counting(label, name, base)})(*arguments)
        with contextlib.suppress(AttributeError):  # a slot that another hook made
            object.__setattr__(made, "held", [1])
        yield made
    for name in ASKED:
        asked = property(counting(f"{kind} property {name}", name, base))
        yield _class(f"{kind}_of_{name}", (base,), {name: asked})(*arguments)


def of_meta() -> Iterator[Any]:
    """Classes with one method of their class, and an instance of each."""
    for name in HOOKS:
        meta = _class(f"Meta_{name}", (type,), {name: counting(f"meta {name}", name, type)})
        with contextlib.suppress(AttributeError, TypeError):  # some are needed to make the class
            cls = _class(f"Of_{name}", (), {}, meta)
            yield cls
            yield object.__new__(cls)
    for name in ASKED:
        asked = property(counting(f"meta property {name}", name, type))
        meta = _class(f"Meta_of_{name}", (type,), {name: asked})
        cls = _class(f"Of_of_{name}", (), {}, meta)
        yield from (cls, object.__new__(cls))


def registered() -> Iterator[Any]:
    """Objects whose pickling is registered with `copyreg` or dill; imports dill."""
    import dill

    def reducer(label: str) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            COUNTS[label] += 1
            return str, ("made",)

        return run

    for kind in (abc.ABCMeta, pathlib.PurePosixPath, collections.deque, complex, range):
        copyreg.pickle(kind, reducer(f"copyreg {kind}"))
    yield from (abc.ABC, _class("Abstract", (abc.ABC,), {})(), pathlib.PurePosixPath("a"))
    yield from (collections.deque([1]), 1j, range(3))
    mine = _class("InCopyreg", (), {})
    copyreg.pickle(mine, reducer("copyreg"))
    yield from (mine(), [mine()])
    meta = _class("MetaInCopyreg", (type,), {})
    copyreg.pickle(meta, reducer("copyreg of a metaclass"))
    yield from (_class("OfMetaInCopyreg", (), {}, meta), _class("Of2", (), {}, meta)())
    known = _class("InDill", (), {})
    dill.register(known)(reducer("dill"))
    yield known()
    yield [lambda: known]


def _forwarding(name: str) -> Callable[..., Any]:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(object.__getattribute__(self, "get")(), name)(*args, **kwargs)

    return run


def proxy(get: Callable[[], Any]) -> Any:
    """What hands everything on to what a function gets, as Werkzeug's `LocalProxy` does."""
    names: dict[str, Any] = {name: _forwarding(name) for name in HOOKS}
    names["__class__"] = property(lambda self: type(object.__getattribute__(self, "get")()))
    del names["__getattribute__"]
    made: Any = object.__new__(_class("Proxy", (), names))
    object.__setattr__(made, "get", get)
    return made


class Rows:
    """A result that is fetched when it is needed, as Django's `QuerySet`; it keeps what it has."""

    def __init__(self, size: int = 1_000) -> None:
        self.size = size
        self.kept: list[int] | None = None

    def _fetched(self, most: int) -> list[int]:
        COUNTS["rows"] += most
        return list(range(most))

    def _all(self) -> list[int]:
        if self.kept is None:
            self.kept = self._fetched(self.size)
        return self.kept

    def __repr__(self) -> str:
        return f"<Rows {self._fetched(21) if self.kept is None else self.kept[:21]}>"

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[int]:
        return iter(self._all())

    def __bool__(self) -> bool:
        return bool(self._all())

    def __getitem__(self, index: int) -> int:
        return self._all()[index]

    def __getstate__(self) -> dict[str, Any]:
        return {"size": self.size, "kept": self._all()}


class Reader:
    """Hands its parts on when it is pickled; they are gone then."""

    def __init__(self, *parts: str) -> None:
        self.parts = list(parts)

    def read(self) -> str | None:
        return self.parts.pop(0) if self.parts else None

    def __reduce__(self) -> tuple[Any, ...]:
        COUNTS["reader"] += 1
        parts, self.parts = self.parts, []
        return (Reader, tuple(parts))


def _got() -> list[int]:
    COUNTS["proxy"] += 1
    return [1, 2]


def lazy() -> Iterator[Any]:
    """Proxies, rows and readers."""
    yield from (proxy(_got), [proxy(_got)], Rows(), {"rows": Rows()}, Reader("a", "b"))


def things(*kinds: str) -> list[Any]:
    """All of some kinds: keys of `BASES`, `meta`, `lazy`, `registered`. Nothing is counted yet."""
    others = {"meta": of_meta, "lazy": lazy, "registered": registered}
    found: list[Any] = []
    for kind in kinds:
        found += others[kind]() if kind in others else of_base(kind)
    COUNTS.clear()
    return found
