"""Separates line events that begin a pass over a statement from those that only return to it.

`x = f(` … `)` gives two events for its first line, `with` one more on exit, a rewritten assertion
many. Pure: takes a code object and a source file, gives offsets. Not on the hot path: called when a
line is armed, and only lines with several events need the source.
"""

from __future__ import annotations

import dis
import tokenize
from collections.abc import Iterator
from itertools import groupby
from types import CodeType

from pytest_cideldill.interpreter.frame_locals import GENERATORS
from pytest_cideldill.interpreter.patched_texts import lines_of
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.sourcecode.quiet import tokens

# After these the next instruction does not follow.
_ENDS = frozenset(
    {
        "JUMP_BACKWARD",
        "JUMP_BACKWARD_NO_INTERRUPT",
        "JUMP_FORWARD",
        "RAISE_VARARGS",
        "RERAISE",
        "RETURN_CONST",
        "RETURN_VALUE",
    }
)
_ENTERS_WITH = frozenset({"BEFORE_WITH", "BEFORE_ASYNC_WITH", "LOAD_SPECIAL"})
_THROWN = "CLEANUP_THROW"
"""The instruction for an exception in an `await`, where 3.13 repeats the event of the line."""

_JUMPS = frozenset({*dis.hasjrel, *dis.hasjabs})
_NONE: frozenset[int] = frozenset()


def repeats(code: CodeType, line: int, file: str) -> frozenset[int]:
    """The offsets at which an event of `line` belongs to a pass that was counted already.

    Empty if every event counts, or if the source can't be read.
    """
    is_single = len([start for start, number in _runs(code) if number == line]) < 2
    if is_single and not code.co_flags & GENERATORS:
        return _NONE
    statement = _statement(code, line, file)
    return _NONE if statement is None else _Flow(code, statement).repeats(line)


def continuations(code: CodeType, line: int, file: str) -> frozenset[int]:
    """The offsets at which an event only continues the statement that `line` is in.

    They are those of all lines of the statement; empty if the source can't be read.
    """
    statement = _statement(code, line, file)
    return _NONE if statement is None else _Flow(code, statement).repeats()


def _runs(code: CodeType) -> Iterator[tuple[int, int]]:
    """The places where the line changes: `(offset, line)`."""
    current = None
    for start, _, line in code.co_lines():
        if line is not None and line != current:
            yield start, line
            current = line


# --- the source -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Statement:
    """A simple statement or the header of a compound one, decorators included."""

    first: int
    last: int
    is_with: bool


def _statement(code: CodeType, line: int, file: str) -> _Statement | None:
    if code.co_name.startswith("<") and code.co_name != "<module>":
        return None  # a lambda or comprehension starts inside a statement
    first = 1 if code.co_name == "<module>" else code.co_firstlineno
    try:
        lines = (lines_of(file) or _read(file))[first - 1 :]
        for statement in _statements(lines, first):
            if statement.first <= line <= statement.last:
                return statement
            if statement.first > line:
                return None
    # SyntaxError also for unmatched parentheses, and for text that was edited since.
    except (OSError, ValueError, SyntaxError, tokenize.TokenError):
        return None
    return None


def _read(file: str) -> list[str]:
    with tokenize.open(file) as source:
        return source.readlines()


def _statements(lines: list[str], first: int) -> Iterator[_Statement]:
    """The logical lines, by tokens: a syntax tree would take the whole file."""
    start = 0
    words: list[str] = []
    for token in tokens(lines):
        if token.type in (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT):
            continue
        if token.type == tokenize.ENDMARKER:
            return
        start = start or token.start[0]
        if token.type != tokenize.NEWLINE:
            words.append(token.string)
        elif words and words[0] == "@":
            words.clear()  # the definition is one statement with its decorators
        else:
            is_with = words[:1] == ["with"] or words[:2] == ["async", "with"]
            yield _Statement(start + first - 1, token.start[0] + first - 1, is_with)
            start = 0
            words.clear()


# --- the flow of control --------------------------------------------------------------------------


class _Flow:
    """The instructions of one statement inside its code object."""

    def __init__(self, code: CodeType, statement: _Statement) -> None:
        self._code = code
        self._instructions = list(dis.get_instructions(code))
        self._lines = self._lines_by_offset()
        self._inside = {
            offset
            for offset, line in self._lines.items()
            if line is not None and statement.first <= line <= statement.last
        }
        self._is_with = statement.is_with

    def _lines_by_offset(self) -> dict[int, int | None]:
        last: int | None = None
        lines: dict[int, int | None] = {}
        for instruction in self._instructions:
            line = None if instruction.positions is None else instruction.positions.lineno
            last = line if line is not None else last
            lines[instruction.offset] = last
        return lines

    def repeats(self, line: int | None = None) -> frozenset[int]:
        """The offsets of events that repeat: all but the first event of `line` after each entry.

        Without a line, all but the first event of any line.
        """
        candidates = {start for start, number in _runs(self._code) if line in (number, None)}
        targets = set(self._targets())
        candidates |= {target for target in targets if line in (self._lines.get(target), None)}
        candidates &= self._inside
        follow = successors(self._instructions)
        waiting = list(self._entries(rounds=line is not None))
        reached: set[int] = set()
        counted: set[int] = set()
        while waiting:
            offset = waiting.pop()
            if offset in reached or offset not in self._inside:
                continue
            reached.add(offset)
            if offset in candidates:
                counted.add(offset)
            else:
                waiting += follow[offset]
        return frozenset(candidates - counted)

    def _entries(self, *, rounds: bool) -> Iterator[int]:
        """Offsets where a pass begins: from outside; with `rounds` also each round of a loop."""
        for region in self._regions():
            if self._is_with and not any(each.opname in _ENTERS_WITH for each in region):
                continue  # the exit, which carries the lines of the header
            yield region[0].offset
        if self._is_with:
            return
        for instruction in self._instructions:
            target = _target(instruction)
            is_round = rounds and _is_round(instruction)
            if target is not None and (instruction.offset not in self._inside or is_round):
                yield target

    def _regions(self) -> Iterator[list[dis.Instruction]]:
        """The instructions of the statement, as far as they stand together."""
        parts = groupby(self._instructions, key=lambda each: each.offset in self._inside)
        return (list(region) for is_inside, region in parts if is_inside)

    def _targets(self) -> Iterator[int]:
        """Offsets where a line event may come although the line does not change."""
        for instruction in self._instructions:
            target = instruction.offset if instruction.opname == _THROWN else _target(instruction)
            if target is not None:
                yield target


def successors(
    instructions: list[dis.Instruction], *, rounds: bool = False
) -> dict[int, list[int]]:
    """The offsets that may follow each instruction, if it raises nothing.

    Args:
        instructions: Of one code object.
        rounds: Whether the jumps back of loops count.
    """
    found: dict[int, list[int]] = {}
    for instruction, following in zip(instructions, [*instructions[1:], None], strict=True):
        target = _target(instruction)
        ahead = [] if target is None or (_is_round(instruction) and not rounds) else [target]
        if following is not None and instruction.opname not in _ENDS:
            ahead.append(following.offset)
        found[instruction.offset] = ahead
    return found


def _target(instruction: dis.Instruction) -> int | None:
    return instruction.argval if instruction.opcode in _JUMPS else None


def _is_round(instruction: dis.Instruction) -> bool:
    """Whether an instruction jumps back to the next round of a loop; not so that of `await`."""
    name = instruction.opname
    return "BACKWARD" in name and "NO_INTERRUPT" not in name
