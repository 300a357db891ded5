"""Gives code objects keys that are equal in every process, and finds their lines with events.

Runs no code, and is light to import: the process under test uses it on live code objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from opcode import opmap
from types import CodeType
from typing import Any, Final
from zlib import crc32

from pytest_cideldill.interpreter.values import dataclass

_RESUME: Final = opmap["RESUME"]


@dataclass(frozen=True, slots=True)
class CodeKey:
    """Identifies a code object in any compilation of the same text, assertion-rewritten or not.

    Code objects with equal keys are copies of one piece of source (CPython compiles a `finally`
    twice): a breakpoint on one is armed on all.

    Attributes:
        qualname: `co_qualname`.
        line: `co_firstlineno`, for a decorated function that of its first decorator.
        shape: Distinguishes lambdas and comprehensions of one line; 0 for code with a name.
    """

    qualname: str
    line: int
    shape: int = 0

    def to_plain(self) -> list[str | int]:
        """Plain data for the wire."""
        return [self.qualname, self.line, self.shape]

    @classmethod
    def from_plain(cls, data: list[Any]) -> CodeKey:
        """The inverse of `to_plain`."""
        qualname, line, shape = data
        return cls(qualname, line, shape)


def key_of(code: CodeType) -> CodeKey:
    """The key of any code object, live or compiled from the text."""
    name = code.co_name
    anonymous = name.startswith("<") and name != "<module>"
    return CodeKey(code.co_qualname, code.co_firstlineno, _shape(code) if anonymous else 0)


def walk(
    root: CodeType,
    parent: CodeType | None = None,
    depth: int = 0,
    original: Callable[[CodeType], CodeType] = lambda code: code,
) -> Iterator[tuple[CodeType, CodeType | None, int]]:
    """`(code, parent, depth)` of a tree of code objects, outer ones first.

    Args:
        parent: Of the root.
        depth: Of the root.
        original: Maps code found among the constants of other code to the code it replaces.
    """
    yield root, parent, depth
    for constant in root.co_consts:
        if type(constant) is CodeType:
            yield from walk(original(constant), root, depth + 1, original)


def lines_of(code: CodeType) -> frozenset[int]:
    """The lines of a code object for which CPython has line events.

    Instructions before RESUME make no events: the `def` line of a function belongs to the code that
    defines it, unless the body stands there too.
    """
    bytecode = code.co_code
    start = next((at for at in range(0, len(bytecode), 2) if bytecode[at] == _RESUME), -2) + 2
    return frozenset(line for _, end, line in code.co_lines() if line and end > start)


def _shape(code: CodeType) -> int:
    # The columns alone don't do: 3.12 has none for `lambda: 1`.
    plain = (code.co_names, code.co_varnames, [_plain(constant) for constant in code.co_consts])
    text = repr(plain).encode("utf-8", "backslashreplace")
    return crc32(text + code.co_code + code.co_linetable)


def _plain(constant: Any) -> object:
    if type(constant) is CodeType:
        return constant.co_qualname
    if type(constant) is frozenset:
        return sorted(map(repr, constant))  # their order differs between processes
    return constant
