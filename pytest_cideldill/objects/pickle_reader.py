"""Pickles (protocol 4) read without making anything but built-in values.

Pure: bytes in, strings and values out; no class is looked up, nothing is imported.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Iterator
from typing import Any, Final

_WITHOUT_ARGUMENT: Final = b"().012NRabdelstu]}\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94"
_NO_STRINGS: Final = re.compile(
    rb"(?s:[%s]++|[Khq\x80].|M..|[Jjr].{4}|[G\x95].{8})*+" % re.escape(_WITHOUT_ARGUMENT)
)
"""A run of opcodes that hold no text, at the speed of `re`."""

_TEXTS: Final = {0x8C: 1, 0x58: 4, 0x8D: 8}
_BYTES: Final = {0x43: 1, 0x42: 4, 0x8E: 8}
_INTEGERS: Final = {0x8A: 1, 0x8B: 4}
_SIZES: Final = _TEXTS | _BYTES | _INTEGERS
"""Opcodes to the bytes of the length that follows."""

_GLOBAL: Final = 0x63

# What takes values from the stack: a string before it is a last item or a value, no name.
_TAKES: Final = frozenset(b".01abdelstuR\x81\x85\x86\x87\x90\x91\x92\x93")
_STACK_GLOBAL: Final = 0x93
_MEMOIZE: Final = 0x94
_FRAME: Final = 0x95


def strings(data: bytes) -> Iterator[tuple[str, bool]]:
    """Every string in a pickle, and whether it may be the name or the key of what follows.

    Bytes count as strings, read as Latin-1. A string that is in a pickle several times may come
    once.

    Raises:
        ValueError: It is no pickle, or has opcodes that protocol 4 doesn't write.
    """
    before: tuple[str, bool] | None = None
    for text, next_code in _texts(data):
        if before is not None:
            # The first of the two strings in front of it is a module, not a name.
            yield before if next_code != _STACK_GLOBAL else (before[0], False)
        before = text, next_code not in _TAKES
    if before is not None:
        yield before


def _texts(data: bytes) -> Iterator[tuple[str, int]]:
    """The strings, and the opcode behind each."""
    at, end = 0, len(data)
    skip = _NO_STRINGS.match
    while True:
        run = skip(data, at)
        assert run is not None  # it may be empty
        at = run.end()
        if at >= end:
            return
        code = data[at]
        if code == _GLOBAL:  # written by dill for what has special names
            at = _behind_line(data, _behind_line(data, at))
            continue
        width = _SIZES.get(code)
        if width is None:
            raise ValueError(f"opcode {code:#x} at {at}")
        start = at + 1 + width
        at = start + int.from_bytes(data[at + 1 : start], "little")
        if at > end:
            raise ValueError(f"the pickle ends at {end}, before {at}")
        if code in _TEXTS:
            yield data[start:at].decode("utf-8", "surrogatepass"), _code_behind(data, at)
        elif code in _BYTES:
            yield data[start:at].decode("latin-1"), _code_behind(data, at)


def _behind_line(data: bytes, at: int) -> int:
    end = data.find(b"\n", at)
    if end < 0:
        raise ValueError(f"the line at {at} does not end")
    return end + 1


def _code_behind(data: bytes, at: int) -> int:
    """The next opcode that does something, 0 at the end."""
    while at < len(data):
        if data[at] == _FRAME:
            at += 9
        elif data[at] == _MEMOIZE:
            at += 1
        else:
            return data[at]
    return 0


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is no built-in value")


def plain_value(data: bytes) -> Any:
    """The value of a pickle that holds built-in values only; no class is looked up.

    Raises:
        Exception: It holds others, or is damaged (of whatever kind `pickle` raises).
    """
    return _Plain(io.BytesIO(data)).load()
