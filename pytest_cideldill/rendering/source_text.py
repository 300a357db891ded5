"""Finds the source text that code was compiled from, and its line in its file.

The file on disk may hold another text by now: files are edited while a run is paused, modules are
reloaded, and templates are compiled under the names of files that hold no Python. May be used on
any thread; runs no code of the program.
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from types import CodeType, FrameType
from typing import Any, Final

from pytest_cideldill.interpreter.code_files import file_now, frame_file
from pytest_cideldill.interpreter.stack_room import is_small
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.rendering.layout import held_value
from pytest_cideldill.sourcecode.codes import walk
from pytest_cideldill.sourcecode.quiet import compiled, parse

EDITED: Final = "the file was edited since this process loaded it"

_ENTRY: Final = 4
"""Length of an entry of `linecache.cache` that holds lines; a shorter one calls a loader."""

_PYTHON: Final = (".py", ".pyw")

_STARTED: Final = time.time_ns()
"""A file that was last changed before this moment holds the text that was compiled."""

_MOST_LINES: Final = 20_000
"""Most lines of a file that is compiled to compare its code."""

_KEPT: Final = 4
"""How many texts of a file are kept, and how many files that were compiled."""

_REWRITTEN: Final = "@pytest_ar"
"""A global that only modules with rewritten assertions have."""

Rewrite = Callable[[ast.Module, bytes], None]
"""Rewrites the assertions in the tree of a module, as pytest does before it compiles the tree.

Raises `CannotRewrite`.
"""


class CannotRewrite(Exception):
    """The rewriting by pytest can't be repeated."""


Stamp = tuple[int, int]
"""The time at which a file or its status was last changed, and its size."""


@dataclass(frozen=True, slots=True)
class Text:
    """The source text of some code, as far as it is known.

    Attributes:
        lines: The lines of the newest version of the file that has the code; empty if none has.
        shift: Added to a line number of the code it gives that in `lines`.
        note: A remark to show beside a line of the code.
        is_present: Whether the file has these lines now.
    """

    lines: Sequence[str] = ()
    shift: int = 0
    note: str | None = None
    is_present: bool = True

    def line(self, line: int) -> str:
        """A line of the code, stripped; empty when it is unknown."""
        at = line + self.shift
        return self.lines[at - 1].strip() if 0 < at <= len(self.lines) else ""

    def note_on(self, line: int) -> str | None:
        """The remark to show beside a line of the code; None if there is none."""
        is_moved = self.note is not None and self.shift and self.is_present
        return f"{self.note}; this is line {line + self.shift} now" if is_moved else self.note


_EDITED: Final = Text(note=EDITED)
_UNKNOWN: Final = Text()
_FOREIGN: Final = Text()
"""The text of code that was compiled from something else than the text of its file."""


class Texts:
    """Finds the text of code, and keeps the versions of files that it has read.

    Args:
        rewrite: Repeats pytest's rewriting of assertions; None if nothing is rewritten.
    """

    def __init__(self, rewrite: Rewrite | None = None) -> None:
        self._rewrite = rewrite
        # File → its versions, the newest first; a tuple is replaced as a whole.
        self._versions: dict[str, tuple[_Version, ...]] = {}
        self._compiled: dict[tuple[str, Stamp, bool], list[CodeType] | None] = {}

    def place(self, frame: FrameType, line: int) -> tuple[str, int, bool]:
        """The file and the line of a place in a frame, and whether the file has that line."""
        file = frame_file(frame)
        if file.endswith(_PYTHON) or file.startswith("<"):
            return file, line, True
        names = frame.f_globals
        if (on_page := _line_on_page(names, line)) is not None:
            return file, on_page, True
        if type(page := names.get("_template_filename")) is str and "_template_uri" in names:
            return page, line, False  # a template of Mako; the code has no file name of its own
        return file, line, self.of(frame) is not _FOREIGN

    def site(self, code: CodeType, line: int) -> tuple[str, int, bool]:
        """As `place`, for code without a frame; templates are recognized by globals only."""
        file = file_now(code.co_filename)
        if file.endswith(_PYTHON) or file.startswith("<"):
            return file, line, True
        text = self._compare(code, file, self._read(file), is_rewritten=False)
        return file, line, text is not None

    def source(self, frame: FrameType, line: int) -> tuple[str, str | None]:
        """The stripped text of a line, empty when it is unknown, and a remark or None."""
        on_page = _line_on_page(frame.f_globals, line)
        if on_page is None:
            text = self.of(frame)
            return text.line(line), text.note_on(line)
        stamp, lines = next(iter(self._read(frame_file(frame))), (_NEVER, []))
        is_known = stamp[0] <= _STARTED  # else it may have been edited since
        return Text(lines).line(on_page) if is_known else "", None

    def of(self, frame: FrameType) -> Text:
        """The text of a frame's code."""
        file, names = frame_file(frame), frame.f_globals
        if file.startswith("<"):
            return Text(_kept_by_program(file))
        versions = self._read(file)
        if not versions:  # in an archive, or nowhere
            return Text(source_lines(file))
        stamp, lines = versions[0]
        is_python = file.endswith(_PYTHON)
        if is_python and stamp[0] <= _STARTED:
            return Text(lines)
        text = self._compare(frame.f_code, file, versions, is_rewritten=_REWRITTEN in names)
        if text is not None:
            return text
        if is_python:
            return _EDITED
        return Text(lines) if _is_mapped(frame) else _FOREIGN

    def _read(self, file: str) -> tuple[_Version, ...]:
        """The versions of a file, the present one first; empty if there is no such file."""
        versions = self._versions.get(file, ())
        try:
            status = os.stat(file)
        except OSError:
            return versions
        stamp = (max(status.st_mtime_ns, status.st_ctime_ns), status.st_size)
        if not versions or versions[0][0] != stamp:
            linecache.checkcache(file)
            versions = ((stamp, linecache.getlines(file)), *versions)[:_KEPT]
            self._versions[file] = versions
        return versions

    def _compare(
        self, code: CodeType, file: str, versions: Sequence[_Version], *, is_rewritten: bool
    ) -> Text | None:
        """The newest version that has this code, at whatever line; None if none has it."""
        for stamp, lines in versions:
            codes = self._codes(file, stamp, lines, is_rewritten=is_rewritten)
            if codes is None:
                return _UNKNOWN
            alike = [
                other.co_firstlineno - code.co_firstlineno
                for other in codes
                if _is_same(other, code)
            ]
            if alike:
                shift = min(alike, key=abs)
                is_present = stamp == versions[0][0]
                note = EDITED if shift or not is_present else None
                return Text(lines, shift, note, is_present)
        return None

    def _codes(
        self, file: str, stamp: Stamp, lines: list[str], *, is_rewritten: bool
    ) -> list[CodeType] | None:
        """The code objects of a text, empty if malformed; None if it can't be compiled here."""
        if len(lines) > _MOST_LINES or (is_rewritten and (self._rewrite is None or is_small())):
            return None
        key = (file, stamp, is_rewritten)
        if key not in self._compiled:
            for old in list(self._compiled)[: 1 - _KEPT]:
                self._compiled.pop(old, None)
            self._compiled[key] = self._made(file, lines, is_rewritten=is_rewritten)
        return self._compiled.get(key)

    def _made(self, file: str, lines: list[str], *, is_rewritten: bool) -> list[CodeType] | None:
        source = "".join(lines)
        try:
            tree = parse(source, file)
            if is_rewritten and self._rewrite is not None:
                self._rewrite(tree, source.encode("utf-8", "surrogatepass"))
            return [code for code, _, _ in walk(compiled(tree, file, "exec"))]
        except CannotRewrite:
            return None
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return []


_Version = tuple[Stamp, list[str]]
_NEVER: Final[Stamp] = (0, 0)


def _is_same(one: CodeType, other: CodeType) -> bool:
    """Whether two code objects were compiled from the same text, whatever line it begins at.

    Nested code objects are not compared: trampolines may have replaced them.
    """
    return all(get(one) == get(other) for get in _PARTS) and all(
        type(a) is type(b) and (type(a) is CodeType or a == b)
        for a, b in zip(one.co_consts, other.co_consts, strict=False)
    )


_FLAGS: Final = 0xFFFF
"""Flags that are compared. Higher ones show imports from `__future__`, also those that were in
effect where `compile` was called."""

_PARTS: Final[tuple[Callable[[CodeType], object], ...]] = (
    *map(attrgetter, ("co_qualname", "co_names", "co_varnames", "co_freevars", "co_cellvars")),
    attrgetter("co_argcount", "co_posonlyargcount", "co_kwonlyargcount"),
    lambda code: (len(code.co_consts), code.co_flags & _FLAGS),
    attrgetter("co_linetable"),
    attrgetter("co_code"),
)


def _line_on_page(names: Mapping[str, Any], line: int) -> int | None:
    """The line of a Jinja template for a line of its code, by the table in its globals.

    None if the globals are not those of a template.
    """
    table = names.get("debug_info") if "__jinja_template__" in names else None
    if type(table) is not str:
        return None
    pairs = (pair.partition("=") for pair in table.split("&"))
    lines = [
        int(page)
        for page, _, code in pairs
        if page.isdecimal() and code.isdecimal() and int(code) <= line
    ]
    return lines[-1] if lines else 1


def _is_mapped(frame: FrameType) -> bool:
    """Whether code has the line numbers of its file though it was not compiled from its text.

    That goes for code of a loader, like Hy's, and for code that Jinja and Cython make for
    tracebacks.
    """
    names, code = frame.f_globals, frame.f_code
    if "__jinja_exception__" in names or len(code.co_code) <= _LEAST_CODE:
        return True
    origin = held_value(names.get("__spec__"), "origin")
    return type(origin) is str and origin == code.co_filename


_LEAST_CODE: Final = 8
"""Bytes of code that does nothing: it was made only to put a name and a line into a traceback."""


def source_lines(filename: str) -> list[str]:
    """The lines of a file as it was first read; empty when they are unknown."""
    return linecache.getlines(filename) or _kept_by_program(filename)


def _kept_by_program(filename: str) -> list[str]:
    """The lines that doctest, attrs and consoles put into `linecache` for code without a file."""
    cache: Any = getattr(sys.modules.get("linecache"), "cache", None)
    entry = cache.get(filename) if type(cache) is dict else None
    if type(entry) is not tuple or len(entry) != _ENTRY or type(entry[2]) is not list:
        return []
    return [line for line in entry[2] if type(line) is str]
