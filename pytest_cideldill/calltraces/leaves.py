"""The state of a value as a flat list of its leaves: `(path, text)`, comparable across processes.

On the threads of the program, from the data of its objects: no code of the program runs, nothing is
kept alive but classes. Breadth first, so that what is near the root is there when the limits are
reached. All limits but the last are counts, so that two processes that do the same leave the same.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice, takewhile
from types import ModuleType
from typing import Any, Final, NamedTuple

from pytest_cideldill.calltraces.value_texts import LARGE, Values
from pytest_cideldill.interpreter.loaded_names import file_of_module
from pytest_cideldill.rendering import layout
from pytest_cideldill.rendering.one_line import is_enum, name_of_key
from pytest_cideldill.rendering.parts import (
    DICT,
    SEQUENCES,
    TEXTS,
    items_of,
    kind_of_class,
    length_of,
)
from pytest_cideldill.rendering.tree import Part, PartReader
from pytest_cideldill.rendering.types import LEAVES, PATHS, is_mock

Leaf = tuple[str, str]

MOST: Final = 200
"""Leaves of one value."""

_DEEPEST: Final = 6
"""Levels that are opened."""

_ITEMS: Final = 60
"""Items of one collection, and attributes of one object."""

_MOST_ITEMS: Final = 5_000
"""Items of one collection of which more than the number is compared."""

_TOGETHER: Final = 50
"""Items in one leaf, behind the first ones."""

_CHUNK: Final = 150
"""Characters of a part of a long text."""

_LONGEST: Final = 6_000
"""Characters of a text that are compared."""

_STRINGS: Final = 4_096

_TEXTS: Final = frozenset({str, bytes})
_SCALARS: Final = frozenset({int, float, bool, type(None), complex})
_SHOWN: Final = frozenset({"numpy", "pandas", "polars", "fractions"})
"""Libraries whose values are one leaf each."""

_DATA: Final = frozenset({"types", "argparse", "builtins", "collections"})
"""Modules of the standard library whose objects hold data of the program."""

_ADDRESS: Final = re.compile(r"\b0x[0-9a-fA-F]{6,16}\b")


def is_flat(value: object) -> bool:
    """Whether the short text of a value says all of it."""
    kind = type(value)
    if kind in _SCALARS:
        return True
    if kind is str:
        return len(value) <= _CHUNK  # type: ignore[arg-type]
    return (id(kind) in LEAVES and id(kind) not in TEXTS) or id(kind) in PATHS


def digest(leaves: list[Leaf]) -> str:
    """A name for the state: equal ones have equal names in all processes."""
    text = "\0".join([part for leaf in leaves for part in leaf])
    return blake2b(text.encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()


class LeafReader:
    """Reads states.

    Attributes:
        work: How many leaves were read, and as many more as others took the time of one.
    """

    def __init__(self, values: Values) -> None:
        self._values = values
        self._lens = values.lens
        self._parts = PartReader(values.lens.redactor)
        self._strings: dict[str, str] = {}
        self._learned = -1
        self.work = 0
        self._sorts: dict[int, _Sort] = {}  # by the id of a class, which they refer to

    def leaves(self, name: str, value: object) -> list[Leaf]:
        """The leaves of a value; paths begin with its name."""
        if self._learned != self._lens.redactor.learned:
            self._learned = self._lens.redactor.learned
            self._strings.clear()
        found: list[Leaf] = []
        seen: dict[int, str] = {}
        queue: deque[tuple[str, Any, Any, int]] = deque([(name, name, value, _DEEPEST)])
        while queue:
            path, own, x, depth = queue.popleft()
            if len(found) >= MOST:
                found.append((path, "…"))
                break
            if type(x) in _TEXTS and len(x) > _CHUNK:
                found += self._chunks(path, own, x)
            elif is_flat(x) or self._is_hidden(own) or self._sort(type(x)).is_whole:
                found.append((path, self._text(x, own)))
            elif (before := seen.get(id(x))) is not None:
                found.append((path, f"same as {before}"))
            else:
                seen[id(x)] = path
                self._open(path, own, x, depth, found, queue)
        self.work += len(found)
        return found

    def _open(
        self,
        path: str,
        own: Any,
        x: Any,
        depth: int,
        found: list[Leaf],
        queue: deque[tuple[str, Any, Any, int]],
    ) -> None:
        sort = self._sort(type(x))
        kind = sort.kind
        if kind in TEXTS or depth <= 0:
            found.append((path, layout.short_name(type(x)) if depth <= 0 else self._text(x, own)))
            return
        count = -1 if kind is None else length_of(x, kind)
        parts = list(islice(self._parts.attributes(x), _ITEMS))
        if kind is None and not parts:
            found.append((path, self._text(x, own)))
            return
        of = "" if count < 0 else f" of {count}"
        found.append((path, f"{sort.name}{of}"))
        if kind is not None and (kind == DICT or kind in SEQUENCES):
            items = self._parts.items(x, kind, _MOST_ITEMS)
            parts += islice(items, _ITEMS)
            if count > _ITEMS:
                found += self._rest(path, items)
        elif kind is not None:  # of a set: each member is there or not, whatever their order
            members = [self._text(each, "") for each in items_of(x, kind, _ITEMS * 4)]
            found += sorted((f"{path}{{{text}}}", "in it") for text in members)
        below = depth - 1
        if kind is None and sort.is_foreign:
            below = min(below, 1)
        for step, name, value, shown in parts:
            if type(name) is not str:
                name = name_of_key(name)
            if shown is not None:
                step = f"[{shown}]"
            inner = f"{path}{step}" if step[:1] == "[" else f"{path}.{step}"
            is_short = type(value) in _SCALARS or (type(value) is str and len(value) <= _CHUNK)
            if is_short and len(found) < MOST:
                found.append((inner, self._text(value, name)))
            else:
                queue.append((inner, name, value, below))

    def _rest(self, path: str, items: Iterator[Part]) -> Iterator[Leaf]:
        """Items behind the first ones, many in one leaf; up to the first that is no number or text.

        A leaf has `STEP\\x1eTEXT` for each, with `\\x1f` between them.
        """
        at = _ITEMS
        flat = takewhile(lambda part: is_flat(part.value), items)
        while some := list(islice(flat, _TOGETHER)):
            self.work += len(some) // 8
            texts = (
                f"{part.key if part.shown_key is None else f'[{part.shown_key}]'}\x1e"
                f"{self._text(part.value, part.name)}"
                for part in some
            )
            yield f"{path}[{at}:{at + len(some)}]", "\x1f".join(texts)
            at += len(some)

    def _chunks(self, path: str, own: Any, x: str | bytes) -> Iterator[Leaf]:
        if self._is_hidden(own):
            yield path, self._text(x, own)
            return
        text: str | bytes
        if isinstance(x, str):
            text = _plain(self._lens.text(x, _LONGEST))
        else:
            text = self._lens.redactor.redact_bytes(x, _LONGEST)
        yield path, f"{type(x).__name__} of {len(x)}"
        for at in range(0, len(text), _CHUNK):
            yield f"{path}[{at}:{at + _CHUNK}]", layout.encodable(repr(text[at : at + _CHUNK]))

    def _text(self, x: Any, name: Any) -> str:
        kind = type(x)
        name = name if type(name) is str else ""
        if not self._is_hidden(name):
            if kind is int:
                if -LARGE < x < LARGE:
                    return repr(x)
            elif kind in _SCALARS:
                return repr(x)
            elif kind is str and x in self._strings:
                return self._strings[x]
        text = _plain(self._lens.show(x, name))
        if kind is str and not self._is_hidden(name):
            if len(self._strings) >= _STRINGS:
                self._strings.clear()
            self._strings[x] = text
        return text

    def _is_hidden(self, name: Any) -> bool:
        return type(name) is str and bool(name) and self._lens.is_sensitive(name)

    def _sort(self, cls: type) -> _Sort:
        found = self._sorts.get(id(cls))
        if found is None:
            found = self._sorts[id(cls)] = self._sorted(cls)
        return found

    def _sorted(self, cls: type) -> _Sort:
        name = layout.module_of(cls)
        library = name.partition(".")[0]
        is_class = bool(layout.flags(cls) & layout.IS_CLASS)
        is_whole = is_class or is_enum(cls) or is_mock(cls) or library in _SHOWN
        module = sys.modules.get(name)
        file = file_of_module(module) if type(module) is ModuleType else None
        is_users = file is None or self._lens.project.is_user(file)
        is_foreign = library not in _DATA and not is_users
        return _Sort(cls, layout.short_name(cls), kind_of_class(cls), is_whole, is_foreign)


class _Sort(NamedTuple):
    """What is to be known of a class.

    Attributes:
        kind: As of `kind_of`.
        is_whole: Whether a value has one leaf: a class, a member of an enumeration, an array.
        is_foreign: Whether it is a library's: of its objects only what is near is compared.
    """

    cls: type
    name: str
    kind: int | None
    is_whole: bool
    is_foreign: bool


def _plain(text: str) -> str:
    """A text without addresses."""
    return _ADDRESS.sub("0x…", text) if "0x" in text else text
