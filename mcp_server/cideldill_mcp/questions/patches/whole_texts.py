"""Patches as clients send them, made into whole texts: replaced passages, and unified diffs.

Nothing is written: a process of an experiment compiles the texts in the place of the files. Reads
files and compiles texts, so it runs beside the event loop.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from tempfile import mkstemp
from typing import Any, Final

from cideldill_mcp.breakpoints.nearest import nearest
from cideldill_mcp.processes.launch import Recipe
from cideldill_mcp.questions.patches.unified_diff import (
    NO_FILE,
    FileDiff,
    Hunk,
    MalformedDiff,
    apply,
    read_diff,
)
from cideldill_mcp.sources.files import is_of_project
from pytest_cideldill.errors import ErrorCode, Refusal, invalid
from pytest_cideldill.experiments import MODULE, PATCHES, START
from pytest_cideldill.project import Project
from pytest_cideldill.sourcecode.quiet import compiled
from pytest_cideldill.sourcecode.reading import Unreadable, encoding_of, source_bytes, text_in

Redact = Callable[[str], str]
"""Hides secrets in the text of a file; its lines keep their numbers."""

EDIT: Final = "{file, old, new} with texts"
DIFF: Final = "a unified diff of files that exist"

_KEYS: Final = ("file", "old", "new")
_PYTHON: Final = (".py", ".pyw")
_PREFIX: Final = re.compile(r"[a-z]/")
_NEAR: Final = 3
"""Lines that are shown when a text is not found."""

_LISTED: Final = 10
"""Line numbers that are listed when a text is found several times."""

_WIDTH: Final = 120
"""Characters of a line that is shown."""


@dataclass(frozen=True, slots=True)
class PatchedFile:
    """A file with another text.

    Attributes:
        file: Relative to the rootdir.
        path: Its real path.
        text: The whole patched text; line feeds end its lines.
        first: The first line of it that differs from the file.
        last: The last one; less than `first` where lines were only taken out.
    """

    file: str
    path: str
    text: str
    first: int
    last: int


def patched_files(
    project: Project, edits: Sequence[Any] = (), diff: str = "", redact: Redact = str
) -> list[PatchedFile]:
    """The files that edits and a diff change, in the order in which they are named first.

    Args:
        project: Paths are relative to its rootdir.
        edits: Objects with the texts `file`, `old` and `new`. Those of one file follow each other;
            `old` occurs once in what the earlier ones have made.
        diff: A unified diff, which is applied after the edits.
        redact: For the lines in messages.

    Raises:
        Refusal: `invalid_parameter` (+ `file`, `lines` or `nearest`); `missing_parameter`;
            `file_not_found` (+ `nearest`); `invalid_source` (+ `file`, `line`, `column`, `source`):
            a patched text does not compile.
    """
    texts = _Texts(project, redact)
    for edit in edits:
        file, old, new = _parts(edit)
        texts.of(file, "patch").replace(old, new)
    for each in _files_of(diff):
        texts.named(each).apply(each.hunks)
    if not texts.held:
        message = f"there is no patch: give edits ({EDIT}) or a diff"
        raise Refusal(ErrorCode.MISSING_PARAMETER, message, parameter="patch")
    return [text.checked() for text in texts.held.values()]


def patched_start(
    recipe: Recipe, files: Sequence[PatchedFile], folder: str
) -> tuple[Recipe, dict[str, str]]:
    """How pytest is started with patched files: as the user does, by a module of ours.

    Code of `-c` is not run again: pytest is started as a module then.

    Args:
        recipe: How it is started without.
        files: May be none, for a run that others are compared with.
        folder: Gets a file with the texts; it has to stay until the process has begun.

    Returns:
        The recipe, and further variables of the environment.
    """
    word, *rest = recipe.command[len(recipe.interpreter) :]
    variables = {}
    if word == "-m":
        module, *rest = rest
        variables[START] = f"-m {module}"
    elif not word.startswith("-"):
        variables[START] = word
    else:
        rest = []
    if files:
        number, variables[PATCHES] = mkstemp(".json", "patches-", folder)
        with open(number, "w", encoding="utf-8") as stream:
            json.dump([{"file": file.path, "text": file.text} for file in files], stream)
    return replace(recipe, command=[*recipe.interpreter, "-m", MODULE, *rest]), variables


def _parts(edit: Any) -> list[str]:
    """File, old and new text of an edit; line feeds end the lines, as in texts that were read."""
    given = edit if isinstance(edit, Mapping) else {}
    parts = [given.get(key) for key in _KEYS]
    if set(given) != set(_KEYS) or not all(isinstance(part, str) for part in parts):
        raise invalid("patch", f"an edit is {str(edit)[:_WIDTH]!r}, expected {EDIT}", EDIT)
    return [str(part).replace("\r\n", "\n") for part in parts]


def _files_of(diff: str) -> list[FileDiff]:
    try:
        return read_diff(diff) if diff else []
    except MalformedDiff as error:
        raise invalid("diff", str(error), DIFF) from error


class _Texts:
    """The texts of files, as they are so far.

    Attributes:
        held: By real path.
    """

    def __init__(self, project: Project, redact: Redact) -> None:
        self.held: dict[str, _Text] = {}
        self._project = project
        self._redact = redact

    def named(self, diff: FileDiff) -> _Text:
        """The text of a file in a diff, with or without the prefixes of git."""
        names = [diff.old_name, diff.new_name]
        if NO_FILE in names:
            change = "makes a new file" if names[0] == NO_FILE else "removes a file"
        else:
            if self._project.found(names[0]) is None or names[0] != names[1]:
                names = [_PREFIX.sub("", name, count=1) for name in names]
            change = "renames a file" if names[0] != names[1] else ""
        if change:
            message = f"line {diff.at} of the diff {change}, and only the text of files can change"
            raise invalid("diff", message, DIFF)
        return self.of(names[0], "diff")

    def of(self, file: str, parameter: str) -> _Text:
        """The text of a file that a client names."""
        path = None if "\0" in file else self._project.found(file)
        if path is None:
            raise _no_file(self._project, file)
        real = os.path.realpath(path)
        if real not in self.held:
            shown = self._project.relative(path)
            self._check(shown, real, parameter)
            self.held[real] = _Text(shown, real, parameter, self._redact)
        text = self.held[real]
        text.parameter = parameter
        return text

    def _check(self, shown: str, path: str, parameter: str) -> None:
        if not is_of_project(self._project, path):
            message = f"{shown} is no source of the project; cideldill_user_paths adds folders"
            raise invalid(parameter, message, "files of the project")
        if not path.endswith(_PYTHON):
            message = f"{shown} is no Python source: a patch is only seen by imports"
            raise invalid(parameter, message, "files that end in .py")


class _Text:
    """The text of one file.

    Attributes:
        text: As it is so far.
        parameter: The one that changes it now, for refusals.
    """

    def __init__(self, file: str, path: str, parameter: str, redact: Redact) -> None:
        self._file = file
        self._path = path
        self.parameter = parameter
        self._redact = redact
        try:
            self.text = self._before = text_in(source_bytes(path))
        except (OSError, Unreadable) as error:
            raise Refusal(
                ErrorCode.INVALID_SOURCE, f"{file} can't be read: {error}", file=file
            ) from error

    def replace(self, old: str, new: str) -> None:
        """Replace a passage that occurs once."""
        if not old or old == new:
            how = "is empty" if not old else "equals 'new'"
            raise self._refusal(f"'old' {how}, so that the patch of {self._file} changes nothing")
        places = list(_places(self.text, old))
        if not places:
            raise self._absent("'old'", old, "")
        if len(places) > 1:
            raise self._ambiguous("'old'", [self.text.count("\n", 0, at) + 1 for at in places])
        at = places[0]
        self.text = self.text[:at] + new + self.text[at + len(old) :]

    def apply(self, hunks: Sequence[Hunk]) -> None:
        """Apply the hunks of a diff."""
        lines = _lines(self.text)
        placed: list[tuple[int, Hunk]] = []
        after = 0
        for hunk in hunks:
            places = hunk.places(lines, after)
            subject = f"the hunk in line {hunk.at} of the diff"
            if not places and not hunk.old:
                raise self._refusal(f"{subject} has no context and no line of {self._file}")
            if not places:
                raise self._absent(subject, "".join(hunk.old).removesuffix("\n"), "\n")
            if len(places) > 1:
                raise self._ambiguous(subject, [at + 1 for at in places])
            placed.append((places[0], hunk))
            after = places[0] + len(hunk.old)
        self.text = "".join(apply(placed, lines))

    def checked(self) -> PatchedFile:
        """The patched file. Raises Refusal: it is as before, or does not compile."""
        if self.text == self._before:
            raise self._refusal(f"the patch of {self._file} changes nothing")
        self._compile()
        before, after = self._before.split("\n"), self.text.split("\n")
        same = os.path.commonprefix
        first = len(same([before, after]))
        below = len(same([before[first:][::-1], after[first:][::-1]]))
        return PatchedFile(self._file, self._path, self.text, first + 1, len(after) - below)

    def _compile(self) -> None:
        """Compile it as an import does, with the imports from `__future__` of its own."""
        try:
            _compile(self.text, self._path)
        except SyntaxError as error:
            if not _compiles(self._before, self._path):
                return  # made for another Python than this one: that of the tests will say
            line, column = error.lineno or 1, error.offset or 1
            place = {"line": line, "column": column, "source": self._line(line)}
            raise self._invalid(
                f"{error.msg} (line {line}, column {column}): {self._line(line)}", **place
            ) from error
        except (ValueError, RecursionError, MemoryError) as error:
            raise self._invalid(str(error)) from error

    def _invalid(self, why: str, **place: Any) -> Refusal:
        message = f"the patched {self._file} does not compile: {why}"
        return Refusal(ErrorCode.INVALID_SOURCE, message, file=self._file, **place)

    def _absent(self, subject: str, old: str, end: str) -> Refusal:
        """The refusal of a text that is not in the file, with what is like it."""
        message = f"{subject} is not in {self._file}"
        line = _line_but_for_spaces(self.text, old, end)
        if line is not None:
            near, how = [line], "it differs by whitespace only from"
        else:
            near, how = _nearest(self.text.split("\n"), old.split("\n")), "the nearest lines are"
        if near:
            message += f"; {how} " + ", ".join(f"{each}: {self._line(each)!r}" for each in near)
        return self._refusal(message, lines=near)

    def _ambiguous(self, subject: str, lines: list[int]) -> Refusal:
        listed = ", ".join(map(str, lines[:_LISTED])) + (", …" if len(lines) > _LISTED else "")
        return self._refusal(
            f"{subject} is in {self._file} {len(lines)} times, at lines {listed}: "
            "give more of the lines around it",
            lines=lines[:_LISTED],
        )

    def _refusal(self, message: str, **more: Any) -> Refusal:
        expected = DIFF if self.parameter == "diff" else "an 'old' that occurs once, and differs"
        further = {"parameter": self.parameter, "expected": expected, "file": self._file}
        return Refusal(ErrorCode.INVALID_PARAMETER, message, **further, **more)

    def _line(self, number: int) -> str:
        """A line for a message, without secrets."""
        lines = self._redact(self.text).split("\n")
        return lines[number - 1].strip()[:_WIDTH] if number <= len(lines) else ""


def _compile(text: str, path: str) -> None:
    text.encode(encoding_of(text.encode()))
    compiled(text, path, "exec")


def _compiles(text: str, path: str) -> bool:
    try:
        _compile(text, path)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _no_file(project: Project, file: str) -> Refusal:
    near = nearest([file], (), project.rootdir).get(file, [])
    known = f"paths are absolute or relative to {project.rootdir}"
    way_out = f"did you mean {' or '.join(near)}?" if near else known
    more = {"nearest": near} if near else {}
    return Refusal(ErrorCode.FILE_NOT_FOUND, f"{file!r} is no file; {way_out}", file=file, **more)


def _places(text: str, part: str) -> Iterator[int]:
    """Where a part begins; places may overlap."""
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _lines(text: str) -> list[str]:
    """The lines with their line feeds; `splitlines` ends lines at form feeds and others, too."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _line_but_for_spaces(text: str, part: str, end: str) -> int | None:
    """The line where a part would begin if spaces within lines did not count.

    Args:
        end: What has to stand on both sides of it: nothing, or a line feed.
    """
    squeezed, wanted = (re.sub(r"[^\S\n]+", "", each) for each in (text, part))
    at = f"\n{squeezed}\n".find(f"{end}{wanted}{end}") if wanted.strip() else -1
    return None if at < 0 else f"\n{squeezed}".count("\n", 0, at + 1)


def _nearest(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """The numbers of lines that are like the first wanted one that is missing, best first."""
    held = {line.strip(): number for number, line in reversed(list(enumerate(lines, 1)))}
    named = [line.strip() for line in wanted if line.strip()]
    missing = [line for line in named if line not in held] or named
    return [held[each] for each in get_close_matches((missing or [""])[0], held, _NEAR)]
