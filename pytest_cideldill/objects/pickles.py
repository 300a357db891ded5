"""Live objects to pickles: by C code alone where that gives what dill gives, or by dill itself.

`fast` and `fast_digest` run no code of the user's; `dilled` and `undilled` may run any, on a paused
thread, when a client asks for the object. dill is imported by `_dill` alone, when one does.
"""

from __future__ import annotations

import pickle
import sys
from _thread import get_ident
from collections.abc import Callable
from functools import lru_cache, partial
from hashlib import sha512
from types import CodeType, GetSetDescriptorType
from typing import Any, Final, NamedTuple

from pytest_cideldill.interpreter.clock import Deadline
from pytest_cideldill.interpreter.stack_room import MAIN, is_small, with_room
from pytest_cideldill.rendering import layout
from pytest_cideldill.rendering.instances import Reduction, Unfit, is_of_pytest, reduction

PROTOCOL: Final = 4

FAST_MS: Final = 15
"""Milliseconds of a recorded call."""

_ATOMS: Final = layout.NUMBERS | {id(str), id(bytes)}
_SMALL: Final = layout.NUMBERS | set(map(id, (list, dict, tuple, set, frozenset)))
"""Types without a block of memory of their own, or with few bytes."""

_dumps: Final = pickle.dumps


class GivenUp(BaseException):
    """An object was given up. No Exception: code of the user's must not take it for its own."""


def is_larger(x: Any, most: int) -> bool:
    """Whether an object is one block of memory with more bytes: a string, bytes, an array.

    Its size is asked of C code alone.
    """
    kind = type(x)
    if kind is str or kind is bytes or kind is bytearray:
        return len(x) > most
    if id(kind) in _SMALL:
        return False
    size = layout.find_in_class(kind, "nbytes")
    if type(size) is not GetSetDescriptorType:
        return False
    taken = size.__get__(x)
    return type(taken) is int and taken > most


# --- by C code ----------------------------------------------------------------------------------


class Pickled(NamedTuple):
    """A pickle, perhaps a large one.

    Attributes:
        digest: SHA-512 of all of it, hexadecimal.
        data: The bytes; None if there are more than were asked for.
        names: The names of attributes where the bytes may not have them.
    """

    digest: str
    data: bytes | None
    names: frozenset[str]


class _Sink:
    """What a pickler writes to."""

    __slots__ = ("deadline", "left", "parts")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.left = 0
        self.deadline = Deadline(0)

    def write(self, data: bytes) -> None:
        self.left -= len(data)
        if self.left < 0 or (self.parts and self.deadline.is_over()):
            raise Unfit
        self.parts.append(data)


class _Digest:
    """A file that keeps the first bytes and digests all."""

    def __init__(self, max_bytes: int, deadline: Deadline) -> None:
        self.hash = sha512()
        self.parts: list[bytes] = []
        self._left = max_bytes
        self.deadline = deadline

    def write(self, data: bytes) -> int:
        if self.deadline.is_over():
            raise GivenUp
        data = bytes(data)
        self.hash.update(data)
        self._left -= len(data)
        if self._left >= 0:
            self.parts.append(data)
        return len(data)

    def data(self) -> bytes | None:
        return b"".join(self.parts) if self._left >= 0 else None


class _Fast(pickle.Pickler):
    """Built-in values and what `instances` knows; used again and again, by one thread at a time."""

    def __init__(self, sink: _Sink | _Digest) -> None:
        self.sink = sink
        self.is_plain = True
        super().__init__(sink, PROTOCOL)

    def reducer_override(self, x: Any) -> Reduction:
        self.is_plain = False
        if self.sink.deadline.is_over():
            raise Unfit
        return reduction(x)


_idle: list[_Fast] = []


def fast(value: object, max_bytes: int, deadline: Deadline) -> tuple[bytes, bool]:
    """The pickle of a value, and whether it holds nothing but built-in values.

    Runs no user code; the bytes are those of `dill.dumps(value, protocol=4)`.

    Raises:
        Unfit: It can't be had that way, or takes too long or too much.
        Exception: Of any other kind, for values that can't be pickled at all.
    """
    if get_ident() != MAIN and is_small():
        return with_room(partial(fast, value, max_bytes, deadline))
    if id(type(value)) in _ATOMS:
        if is_larger(value, max_bytes):
            raise Unfit
        return _dumps(value, PROTOCOL), True
    try:
        pickler = _idle.pop()
    except IndexError:
        pickler = _Fast(_Sink())
    sink = pickler.sink
    assert type(sink) is _Sink
    sink.left = max_bytes
    sink.deadline = deadline
    pickler.is_plain = True
    try:
        pickler.dump(value)
    except BaseException:
        sink.parts = []
        raise  # this pickler may be in any state: not used again
    parts, is_plain = sink.parts, pickler.is_plain
    sink.parts = []
    pickler.clear_memo()  # it holds what was pickled
    _idle.append(pickler)
    return (parts[0] if len(parts) == 1 else b"".join(parts)), is_plain


def fast_digest(value: object, max_bytes: int, milliseconds: float) -> Pickled:
    """Like `fast`, for values that may have more bytes than are to be kept.

    Raises:
        GivenUp: It takes too long, or is one block of memory that would have to be copied whole.
        Exception: As for `fast`.
    """
    if is_larger(value, max_bytes):
        raise GivenUp
    file = _Digest(max_bytes, Deadline(milliseconds / 1000))
    with_room(lambda: _Fast(file).dump(value))
    return Pickled(file.hash.hexdigest(), file.data(), frozenset())


# --- by dill ------------------------------------------------------------------------------------


def dilled(
    value: object,
    max_bytes: int,
    milliseconds: float,
    original_code: Callable[[CodeType], CodeType],
) -> Pickled:
    """Pickle a value by dill. Runs any code that its classes have for that.

    Args:
        max_bytes: How many bytes are kept; more are digested only.
        milliseconds: After which it is given up, as soon as dill comes to the next object.
        original_code: What a code object of ours stands for; the bytes are as without us.

    Raises:
        GivenUp: It takes too long, holds a block of memory that is larger than what is kept, or
            is part of pytest: that would drag in all of it.
        BaseException: Whatever dill and the classes raise; ImportError if dill is not there.
    """
    capped = _capped()  # may import dill, which counts for nobody
    deadline = Deadline(milliseconds / 1000)
    file = _Digest(max_bytes, deadline)
    pickler = capped(file, max_bytes, deadline, original_code)
    try:
        pickler.dump(value)
    finally:
        pickler.clear_memo()  # it holds what was pickled, and may be part of a cycle
    return Pickled(file.hash.hexdigest(), file.data(), frozenset(pickler.names))


def undilled(data: bytes) -> Any:
    """The object of a pickle. Runs any code that its classes have for that.

    Raises:
        BaseException: Whatever dill and the classes raise; ImportError if dill is not there.
    """
    return _dill().loads(data)


@lru_cache(1)
def _capped() -> Any:
    """dill's pickler with a deadline. A class made late, for dill takes 10 to 30 ms to import."""
    dill = _dill()
    simple = _ATOMS | _SMALL

    class Capped(dill.Pickler):  # type: ignore[misc, name-defined]
        # As `dill.dumps` by default, whatever `dill.settings` says now.
        def __init__(
            self,
            file: _Digest,
            max_bytes: int,
            deadline: Deadline,
            original_code: Callable[[CodeType], CodeType],
        ) -> None:
            self._max_bytes = max_bytes
            super().__init__(file, PROTOCOL, byref=False, fmode=0, recurse=False)
            self.names: set[str] = set()
            self._deadline = deadline
            self._original_code = original_code

        def save(self, x: Any, save_persistent_id: bool = True) -> None:
            if is_larger(x, self._max_bytes):
                raise GivenUp
            if id(type(x)) not in simple:
                x = self._looked_at(x)
            dill.Pickler.save(self, x, save_persistent_id)

        def _looked_at(self, x: Any) -> Any:
            if self._deadline.is_over():
                raise GivenUp
            if type(x) is CodeType:
                return self._original_code(x)
            cls = type(x)
            if is_of_pytest(cls):
                raise GivenUp
            self.names.update(name for name, _ in layout.Layout.of(cls).attributes(x))
            fields = layout.find_in_class(cls, "_fields") if layout.is_a(cls, tuple) else ()
            if type(fields) is tuple:
                self.names.update(name for name in fields if type(name) is str)
            return x

    return Capped


def _dill() -> Any:
    """dill, without what its import does to `pickle` if it was not imported before.

    It comes past all that the program has patched (`sealed.GUESTS`). Before the first conftest it
    would take 10 to 50 ms of each run, and programs would find modules that nobody has asked for.
    """
    is_new = "dill" not in sys.modules
    import dill

    if is_new:
        dill.extend(use_dill=False)
    return dill
