"""Which code is the user's, and what a trace has to know of it; once per code object."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from types import CodeType, FrameType
from typing import Final

from pytest_cideldill.calltraces.explanations import Explanations, messages_in
from pytest_cideldill.calltraces.row_file import RowFile, plain
from pytest_cideldill.interpreter.code_files import frame_file
from pytest_cideldill.interpreter.frame_locals import has_no_snapshot_yet
from pytest_cideldill.project import Project
from pytest_cideldill.protocol.trace_rows import Row
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.sourcecode.codes import walk
from pytest_cideldill.sourcecode.names import FunctionName

_THROUGH: Final = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"})
"""Parts of a function that have frames of their own; their calls are those of the function."""

_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200
_HAS_ARGS, _HAS_KWARGS = 0x4, 0x8
_OPTIMIZED: Final = 0x1


class CodeFacts:
    """A code object of the user's.

    Attributes:
        number: Its number in the rows; 0 until it has one.
        names: Its parameters: the beginning of the JSON text of each, its name, and whether that is
            sensitive.
        result_name: The name for its results, if they are secret.
        matches: Whether it is the function that is asked for.
        is_fresh: Whether its locals can be read cheaply when it begins.
        messages: Offsets of the instructions that make messages of assertions.
        lines: Offset → line, as far as they were needed.
    """

    __slots__ = (
        "code",
        "is_fresh",
        "lines",
        "matches",
        "messages",
        "module",
        "names",
        "number",
        "result_name",
    )

    def __init__(self, code: CodeType, module: str, lens: Lens, *, matches: bool) -> None:
        self.code = code  # kept, so that its id stays taken
        self.module = module
        self.number = 0
        self.matches = matches
        self.messages = messages_in(code)
        self.is_fresh = has_no_snapshot_yet(code)
        self.lines: dict[int, int] = {}
        self.result_name = lens.result_name(code.co_name)
        names = _parameters(code) if code.co_flags & _OPTIMIZED else ()
        self.names = tuple(
            (f'["{name}",' if name.isascii() else f"[{plain(name)},", name, lens.is_sensitive(name))
            for name in names
        )

    @property
    def kind(self) -> str:
        """As in the row `code`."""
        flags = self.code.co_flags
        if self.code.co_name == "<module>":
            return "module"
        if not flags & _OPTIMIZED:
            return "class"
        for flag, kind in (
            (_ASYNC_GENERATOR, "async_generator"),
            (_COROUTINE, "coroutine"),
            (_GENERATOR, "generator"),
        ):
            if flags & flag:
                return kind
        return "function"

    def line_at(self, frame: FrameType) -> int:
        """The line of a frame; `f_lineno` takes the longer, the longer the function is."""
        place = frame.f_lasti
        line = self.lines.get(place)
        if line is None:
            line = self.lines[place] = frame.f_lineno or self.code.co_firstlineno
        return line

    def row(self, project: Project) -> Row:
        """The row `code`."""
        code = self.code
        # Nested functions belong to it.
        lines = (line for each, _, _ in walk(code) for *_, line in each.co_lines() if line)
        last = max(lines, default=code.co_firstlineno)
        file = project.relative(code.co_filename)
        first = code.co_firstlineno
        return ["code", self.number, self.module, code.co_qualname, file, first, last, self.kind]


def parts_of(code: CodeType) -> Iterator[CodeType]:
    """The parts of a function with code of their own: comprehensions, and bodies of classes."""
    for constant in code.co_consts:
        if type(constant) is CodeType and (
            constant.co_name in _THROUGH or not constant.co_flags & _OPTIMIZED
        ):
            yield constant
            yield from parts_of(constant)


def _parameters(code: CodeType) -> tuple[str, ...]:
    """The names of the parameters as they are written: `*args` before the ones behind it."""
    positional, keyword_only = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    at = positional + keyword_only
    star = names[at : at + 1] if code.co_flags & _HAS_ARGS else ()
    at += len(star)
    stars = names[at : at + 1] if code.co_flags & _HAS_KWARGS else ()
    return (*names[:positional], *star, *names[positional : positional + keyword_only], *stars)


class CodeTable:
    """Decides about each code object once.

    Args:
        lens: Knows the project and secrets.
        wanted: The function that is asked for.
        has_parts: Whether comprehensions that have frames count as functions.

    Attributes:
        explanations: Know the functions of libraries that explain failed assertions.
    """

    def __init__(self, lens: Lens, wanted: FunctionName | None, *, has_parts: bool = False) -> None:
        self._lens = lens
        self._wanted = wanted
        self._has_parts = has_parts
        self.known: dict[int, CodeFacts | None] = {}
        """By the id of the code; None: it is not the user's, or a part of a function."""

        self.explanations = Explanations()
        self._kept: list[CodeType] = []
        self._numbers = count(1)
        self.through: set[int] = set()
        self._seen_names: set[str] = set()

    def meet(self, frame: FrameType) -> CodeFacts | None:
        """Decide about the code of a frame."""
        code = frame.f_code
        key = id(code)
        if key in self.known:
            return self.known[key]
        self._kept.append(code)
        facts = None
        file = frame_file(frame)
        if self._lens.project.is_user(file):
            if code.co_name in _THROUGH and not self._has_parts:
                self.through.add(key)
            else:
                facts = self._facts(frame, file)
                if facts.messages:
                    self.explanations.has_any = True
        else:
            self.explanations.meet(code, frame.f_globals.get("__name__"))
        self.known[key] = facts
        return facts

    def number(self, facts: CodeFacts, rows: RowFile) -> int:
        """The number of a code object in the rows; its row is added before the first use."""
        if not facts.number:
            facts.number = next(self._numbers)
            rows.add(facts.row(self._lens.project))
        return facts.number

    def similar(self) -> list[str]:
        """The dotted paths of all functions that were met."""
        return sorted(self._seen_names)

    def _facts(self, frame: FrameType, file: str) -> CodeFacts:
        code = frame.f_code
        module = frame.f_globals.get("__name__")
        name = module if type(module) is str else "?"
        wanted = self._wanted
        self._seen_names.add(f"{name}.{code.co_qualname}")
        matches = wanted is not None and (
            wanted.matches(name, code.co_qualname, self._lens.project.relative(file))
            or wanted.is_end_of(f"{name}.{code.co_qualname}")
        )
        return CodeFacts(code, name, self._lens, matches=matches)
