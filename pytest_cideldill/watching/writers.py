"""How likely a line is to change an object: by its instructions."""

from __future__ import annotations

import dis
from types import CodeType
from typing import Final

_CHANGE: Final = ("STORE_", "DELETE_", "BINARY_OP", "INPLACE_")
_CALL: Final = "CALL"

_CHANGING: Final = frozenset(
    {
        *("append", "appendleft", "extend", "insert", "pop", "popleft", "popitem", "remove"),
        *("add", "discard", "clear", "update", "setdefault", "sort", "reverse", "rotate"),
    }
)
"""Methods of collections that change these."""

UNABLE, ABLE, LIKELY = 0, 1, 2


class Writing:
    """Knows the lines that store something, and those that call a function."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[CodeType, dict[int, int]]] = {}

    def likelihood(self, code: CodeType, line: int) -> int:
        """`LIKELY`, `ABLE` (it calls something) or `UNABLE` to have changed an object."""
        known = self._known.get(id(code))
        if known is None:
            known = self._known[id(code)] = code, _likelihoods(code)
        return known[1].get(line, UNABLE)


def _likelihoods(code: CodeType) -> dict[int, int]:
    found: dict[int, int] = {}
    starts = {start: line for start, _, line in code.co_lines() if line}
    line = 0
    for instruction in dis.get_instructions(code):
        line = starts.get(instruction.offset, line)
        name = instruction.opname
        argument = instruction.argval
        if name.startswith(_CHANGE) or (type(argument) is str and argument in _CHANGING):
            found[line] = LIKELY
        elif name.startswith(_CALL):
            found.setdefault(line, ABLE)
    return found
