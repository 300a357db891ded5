"""What becomes of an exception in a frame, by the bytecode: which handler gets it, and its manner.

Pure but for names of exception classes, which are looked up without running code of the program.
An event of a handler is not needed, which a failure of ours could repeat without end.
"""

from __future__ import annotations

import dis
from collections.abc import Mapping
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from pytest_cideldill.calltraces.named import MISSING, Chain, Reader
from pytest_cideldill.interpreter.frame_locals import read_aside
from pytest_cideldill.interpreter.loaded_names import mro_of
from pytest_cideldill.rendering import layout
from pytest_cideldill.tracing.code_shapes import exception_targets
from pytest_cideldill.tracing.passes import successors

_MATCHES: Final = frozenset({"CHECK_EXC_MATCH", "CHECK_EG_MATCH"})
_NAMES: Final = frozenset(
    {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_DEREF", "LOAD_CLASSDEREF"}
)
_ATTRIBUTES: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_FILLERS: Final = frozenset({"CACHE", "NOP", "EXTENDED_ARG", "PUSH_NULL"})
_OF_GROUPS: Final = frozenset({"COPY", "BUILD_LIST", "SWAP"})
"""Instructions before the first class of `except*`."""

_SPEAKING: Final = ("CALL", "PRECALL", "RAISE", "STORE_ATTR", "STORE_SUBSCR", "STORE_GLOBAL")
_QUIET_CALLS: Final = ("CALL_INTRINSIC",)
_EXPECTING: Final = frozenset(
    {"raises", "assertRaises", "assertRaisesRegex", "assert_raises", "RaisesGroup", "RaisesExc"}
)
"""What a test calls to say that an exception is expected."""

_OPTIMIZED: Final = 0x1
"""Flag of functions; the namespace of other code may be any object."""

_MOST: Final = 20_000


class Handler(NamedTuple):
    """Where an exception goes in a frame.

    Attributes:
        line: Of the clause, of `with` or of `finally`.
        how: `except`, `with` or `finally`.
        is_silent: Whether the clause does nothing about it: it calls and sets nothing.
        is_expected: Whether it is a `with` that says that the exception is expected.
        offset: Of its first instruction.
    """

    line: int
    how: str
    is_silent: bool
    is_expected: bool
    offset: int


class Handlers:
    """Finds handlers; remembers those that it has found."""

    def __init__(self) -> None:
        self._reader = Reader()
        self._found: dict[tuple[int, int, int], tuple[CodeType, type, Handler | None]] = {}
        self._targets: dict[int, tuple[CodeType, list[tuple[int, int, int]]]] = {}

    def after(self, frame: FrameType, place: int, kind: type) -> Handler | None:
        """The handler that may end an exception; None: it only cleans up, or there is none.

        Args:
            frame: Runs, or is left.
            place: Offset of the instruction that raises.
            kind: The class of the exception.
        """
        code = frame.f_code
        key = (id(code), place, id(kind))
        known = self._found.get(key)
        if known is None:
            target = self._target(code, place)
            found = None if target is None else self.at(frame, target, kind)
            if len(self._found) >= _MOST:
                self._found.clear()
            known = self._found[key] = code, kind, found
        return known[2]

    def at(self, frame: FrameType, target: int, kind: type) -> Handler | None:
        """The same for a handler whose first instruction is known."""
        code = frame.f_code
        key = (id(code), ~target, id(kind))
        known = self._found.get(key)
        if known is None:
            if len(self._found) >= _MOST:
                self._found.clear()
            known = self._found[key] = code, kind, self._look(frame, target, kind)
        return known[2]

    def _target(self, code: CodeType, place: int) -> int | None:
        known = self._targets.get(id(code))
        if known is None:
            if len(self._targets) >= _MOST:
                self._targets.clear()
            targets = list(exception_targets(code.co_exceptiontable))
            known = self._targets[id(code)] = code, targets
        for start, end, target in known[1]:
            if start <= place < end:
                return target
        return None

    def _look(self, frame: FrameType, target: int, kind: type) -> Handler | None:
        shown = [each for each in dis.get_instructions(frame.f_code) if each.opname != "CACHE"]
        at = next((n for n, instruction in enumerate(shown) if instruction.offset == target), None)
        if at is None or shown[at].opname != "PUSH_EXC_INFO" or at + 1 >= len(shown):
            return None
        first = shown[at + 1]
        if first.opname == "WITH_EXCEPT_START":
            lines = _lines_of(first)
            is_expected = any(
                instruction.argval in _EXPECTING
                for instruction in shown
                if instruction.opname.startswith("LOAD_") and _line(instruction) in lines
            )
            return Handler(_line(first), "with", True, is_expected, target)
        if first.opname == "POP_TOP":
            end = _end(shown, at + 1)
            return Handler(_line(first), "except", _is_silent(shown[at + 1 : end]), False, target)
        clause = self._clause(frame, shown, at + 1, kind)
        if clause is None:
            if not _may_end(shown, at):
                return None
            return Handler(_line(first), "finally", False, False, target)
        return None if clause.line == 0 else clause._replace(offset=target)

    def _clause(
        self, frame: FrameType, shown: list[dis.Instruction], at: int, kind: type
    ) -> Handler | None:
        """The clause that gets an exception; line 0: none does; None: there are no clauses."""
        has_clauses = False
        names: Mapping[str, Any] | None = None
        while True:
            match = _match(shown, at)
            if match is None:
                break
            has_clauses = True
            if names is None:
                names = read_aside(frame) if frame.f_code.co_flags & _OPTIMIZED else {}
            classes = self._classes(shown[at:match], names, frame)
            jump = match + 1
            while jump < len(shown) and "JUMP" not in shown[jump].opname:
                jump += 1  # `except*` has some in between
            if jump >= len(shown):
                break
            behind = shown[jump].argval
            end = next((n for n in range(jump, len(shown)) if shown[n].offset == behind), jump + 1)
            if classes is None or any(each is cls for each in mro_of(kind) for cls in classes):
                body = shown[jump + 1 : end]
                is_silent = classes is not None and _is_silent(body)
                return Handler(_line(shown[at]), "except", is_silent, False, 0)
            if shown[match].opname == "CHECK_EG_MATCH":
                return Handler(_line(shown[at]), "except", False, False, 0)
            at = end
        if not has_clauses:
            return None
        if at < len(shown) and shown[at].opname == "POP_TOP":  # the last clause is bare
            is_silent = _is_silent(shown[at : _end(shown, at)])
            return Handler(_line(shown[at]), "except", is_silent, False, 0)
        return Handler(0, "", False, False, 0)

    def _classes(
        self, loads: list[dis.Instruction], names: Mapping[str, Any], frame: FrameType
    ) -> list[type] | None:
        """The classes of a clause; None: only running it could say."""
        stack: list[Any] = []
        for instruction in loads:
            name = instruction.opname
            if name in _NAMES:
                stack.append(_named(str(instruction.argval), names, frame))
            elif name in _ATTRIBUTES and stack:
                stack.append(self._attribute(stack.pop(), str(instruction.argval), frame))
            elif name == "BUILD_TUPLE" and instruction.arg and instruction.arg <= len(stack):
                stack[-instruction.arg :] = [tuple(stack[-instruction.arg :])]
            elif name not in _FILLERS and name not in _OF_GROUPS:
                return None
        return _flat(stack[-1]) if stack else None

    def _attribute(self, value: Any, name: str, frame: FrameType) -> Any:
        if value is MISSING:
            return MISSING
        if layout.flags(type(value)) & layout.IS_CLASS:
            for cls in mro_of(value):
                own = layout.class_dict(cls)
                if name in own:
                    return own[name]
            return MISSING
        return self._reader.follow(Chain("it", ((".", name),), ""), {"it": value}, frame)


def _named(name: str, names: Mapping[str, Any], frame: FrameType) -> Any:
    for mapping in (names, frame.f_globals, frame.f_builtins):
        if name in mapping:
            return mapping[name]
    return MISSING


def _flat(value: Any) -> list[type] | None:
    """A class, or tuples of classes, as a list; None: it is something else."""
    if type(value) is tuple:
        classes: list[type] = []
        for each in value:
            inner = _flat(each)
            if inner is None:
                return None
            classes += inner
        return classes
    return [value] if layout.flags(type(value)) & layout.IS_CLASS else None


def _match(shown: list[dis.Instruction], at: int) -> int | None:
    """The position of the comparison of a clause that begins at a position."""
    for place in range(at, min(at + 60, len(shown))):
        name = shown[place].opname
        if name in _MATCHES:
            return place
        if name in ("POP_TOP", "RERAISE", "POP_EXCEPT") or name.startswith("STORE"):
            return None
    return None


def _end(shown: list[dis.Instruction], at: int) -> int:
    """The position behind the first end of handling."""
    ends = (n for n in range(at, len(shown)) if shown[n].opname in ("POP_EXCEPT", "RERAISE"))
    return next(ends, len(shown) - 1) + 1


def _is_silent(body: list[dis.Instruction]) -> bool:
    return not any(
        instruction.opname.startswith(_SPEAKING) and not instruction.opname.startswith(_QUIET_CALLS)
        for instruction in body
    )


def _may_end(shown: list[dis.Instruction], at: int) -> bool:
    """Whether `finally` may return, and so end the exception."""
    following = successors(shown)
    by_offset = {instruction.offset: n for n, instruction in enumerate(shown)}
    waiting, seen = [shown[at].offset], set()
    while waiting:
        offset = waiting.pop()
        if offset in seen:
            continue
        seen.add(offset)
        n = by_offset[offset]
        if shown[n].opname == "POP_EXCEPT":
            if n + 1 < len(shown) and shown[n + 1].opname != "RERAISE":
                return True
            continue
        waiting += following[offset]
    return False


def _line(instruction: dis.Instruction) -> int:
    return _lines_of(instruction).start


def _lines_of(instruction: dis.Instruction) -> range:
    positions = instruction.positions
    if positions is None or positions.lineno is None:
        return range(0)
    return range(positions.lineno, (positions.end_lineno or positions.lineno) + 1)
