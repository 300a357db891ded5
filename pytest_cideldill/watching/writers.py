"""Which lines can change an object at all: by their instructions."""

from __future__ import annotations

import dis
from types import CodeType
from typing import Final

_BEGINNINGS: Final = ("STORE_", "DELETE_", "CALL", "BINARY_OP", "INPLACE_")


class Writing:
    """Knows which lines have instructions that change objects or call functions."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[CodeType, frozenset[int]]] = {}

    def can(self, code: CodeType, line: int) -> bool:
        """Whether a line of a code object may have changed something."""
        known = self._known.get(id(code))
        if known is None:
            known = self._known[id(code)] = code, frozenset(_writing_lines(code))
        return line in known[1]


def _writing_lines(code: CodeType) -> set[int]:
    lines: set[int] = set()
    starts = {start: line for start, _, line in code.co_lines() if line}
    line = 0
    for instruction in dis.get_instructions(code):
        line = starts.get(instruction.offset, line)
        name = instruction.opname
        if name.startswith(_BEGINNINGS):
            lines.add(line)
    return lines
