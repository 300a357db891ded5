"""Lines that a test ran and that the working tree, or else the last commit, changed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Final

from cideldill_mcp.questions.fitting import counted, short
from cideldill_mcp.questions.git_changes import (
    Commit,
    FileChange,
    last_commit,
    line_now,
    working_tree,
)
from cideldill_mcp.questions.listing import Listing, SourceFiles
from cideldill_mcp.questions.ran import (
    Function,
    Remark,
    functions,
    has_run,
    is_of_tests,
    nearness,
)
from cideldill_mcp.questions.recorded import RecordedTest
from cideldill_mcp.questions.unified_diff import Hunk
from pytest_cideldill.redaction.redactor import Redactor

_MOST_LINES: Final = 6
"""Edits that are shown."""

_MOST_EVIDENCE: Final = 100

_MOST_ALIKE: Final = 40
"""Old lines that are compared to find the one that a new line was."""

_TEXT: Final = 70
"""Characters of a line of source."""

_SUBJECT: Final = 80

_HIDDEN: Final = "<redacted"


@dataclass(frozen=True, slots=True)
class Edited:
    """Edits of what a test ran; both are empty if there are none.

    Attributes:
        lines: The text.
        evidence: All of it as data, the most telling first.
    """

    lines: list[str] = field(default_factory=list)
    evidence: list[Remark] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Edit:
    """An edit inside of a function that ran; `text` is what changed."""

    function: Function
    first: int
    last: int
    text: str
    reason: str


async def edits(
    root: str,
    test: RecordedTest,
    files: SourceFiles,
    redactor: Redactor,
    test_files: Collection[str] = (),
) -> Edited:
    """What was edited of the lines that a test ran; nothing without git, or without an answer.

    Those of the working tree, or if there are none, those of the last commit. Takes some seconds
    at most.

    Args:
        root: The rootdir of the tests; paths of code are relative to it.
        test: With the lines that ran.
        files: The sources.
        redactor: Hides secrets in what git says.
        test_files: Where tests are defined; edits there come last.
    """
    of_files: dict[str, list[Function]] = {}
    for function in functions(test.ran).values():
        of_files.setdefault(function.code.file, []).append(function)
    changed = await working_tree(root, of_files) if of_files else None
    if changed is None:
        return Edited()
    finder = _Finder(test, of_files, files, redactor, frozenset(test_files))
    if found := await asyncio.to_thread(finder.edits, changed, {}):
        return finder.text(found, None)
    before = {
        changed[name].before if name in changed else name: name
        for name in of_files
        if name not in changed or not changed[name].is_new
    }
    committed = await last_commit(root, before)
    if committed is None:
        return Edited()
    commit, by_name = committed
    named = {before[name]: each for name, each in by_name.items()}
    later = {name: each.hunks for name, each in changed.items()}
    found = await asyncio.to_thread(finder.edits, named, later)
    return finder.text(found, commit) if found else Edited()


class _Finder:
    """Finds edits among the lines that ran.

    Args:
        test: The test.
        of_files: What it ran, by file.
        files: The sources.
        redactor: Hides secrets.
        test_files: Where tests are defined.
    """

    def __init__(
        self,
        test: RecordedTest,
        of_files: Mapping[str, list[Function]],
        files: SourceFiles,
        redactor: Redactor,
        test_files: Collection[str],
    ) -> None:
        self._test, self._of_files, self._files = test, of_files, files
        self._redactor, self._test_files = redactor, test_files

    def edits(
        self, changed: Mapping[str, FileChange], later: Mapping[str, list[Hunk]]
    ) -> list[_Edit]:
        """The edits, the most telling first.

        Args:
            changed: By file.
            later: What changed the files afterwards.
        """
        found: list[_Edit] = []
        for name, change in changed.items():
            ran = self._of_files.get(name, [])
            if change.is_new:
                found += [_whole(each, "is new", "in a new file") for each in _outer(ran)]
                continue
            for hunk in change.hunks:
                found += _InHunk(hunk, later.get(name, []), ran, self._files, self._redactor).all()
        near = nearness(self._test)

        def order(each: _Edit) -> tuple[bool, tuple[int, int], str, int]:
            code = each.function.code
            of_tests = is_of_tests(code, self._test.nodeid, self._test_files)
            return of_tests, near(code), code.file, each.first

        return sorted(found, key=order)

    def text(self, found: list[_Edit], commit: Commit | None) -> Edited:
        """The lines for edits."""
        where, lines = "working tree", []
        if commit is not None:
            subject = short(self._redactor.redact_text(commit.subject), _SUBJECT)
            where = commit.name
            lines.append(f"last commit: {commit.name} {subject}  ({commit.age})")
        for each in found[:_MOST_LINES]:
            code = each.function.code
            lines.append(f"edited: {_place(each)} {code.name}  ({where})  {each.text}")
        if (more := len(found) - _MOST_LINES) > 0:
            lines.append(f"… {counted(more, 'more edit')} of what ran")
        what = "working tree" if commit is None else f"commit {commit.name}"
        evidence = [
            Remark(each.function.code, each.first, each.last, f"{each.reason} ({what})")
            for each in found[:_MOST_EVIDENCE]
        ]
        return Edited(lines, evidence)


class _InHunk:
    """The edits that a hunk made in functions that ran.

    Args:
        hunk: The hunk.
        later: Hunks that changed the file afterwards.
        ran: The functions of the file that ran.
        files: The sources.
        redactor: Hides secrets.
    """

    def __init__(
        self,
        hunk: Hunk,
        later: list[Hunk],
        ran: list[Function],
        files: SourceFiles,
        redactor: Redactor,
    ) -> None:
        self._hunk, self._later, self._files = hunk, later, files
        self._ran = [(each, files.listing(each.code)) for each in ran]
        self._redactor = redactor

    def all(self) -> Iterator[_Edit]:
        """The edits, at most one for each function."""
        if not self._hunk.new:
            yield from self._removed()
            return
        by_function: dict[int, tuple[Function, Listing, list[int]]] = {}
        for at, text in enumerate(self._hunk.new):
            line = line_now((self._hunk.new_start or 0) + at, self._later)
            if line is None or not _is_code(text):
                continue
            for function, listing in self._ran:
                if self._is_as_it_was(listing, line, text) and self._is_inside(function, line):
                    by_function.setdefault(id(function), (function, listing, []))[2].append(line)
        for function, listing, lines in by_function.values():
            yield self._changed(function, listing, lines)

    def _changed(self, function: Function, listing: Listing, lines: list[int]) -> _Edit:
        first, last = lines[0], lines[-1]
        if not self._hunk.old and listing.first == first and set(lines) >= set(function.lines):
            return _whole(function, "is new", "is new")
        new = listing.line(first).strip()
        old = self._old_of(new)
        more = f"  (+{counted(len(lines) - 1, 'more line')})" if len(lines) > 1 else ""
        text = f"+ {short(new, _TEXT)}" if old is None else f"- {old} | + {short(new, _TEXT)}"
        return _Edit(function, first, last, text + more, "edited")

    def _removed(self) -> Iterator[_Edit]:
        """Lines that are gone: the function that they were in ran there."""
        old = self._hunk.old
        if not any(map(_is_code, old)):
            return
        above = line_now(self._hunk.new_start or 0, self._later)
        if above is None:
            return
        depth = _depth(next(each for each in old if _is_code(each)))
        for function, listing in self._ran:
            if not listing.first <= above <= listing.last or listing.node is None:
                continue
            if above == listing.last and depth <= _depth(listing.line(listing.first)):
                continue  # they were behind it
            beside = [
                each
                for each in (above, above + 1)
                if each <= listing.last and _depth(listing.line(each)) == depth
            ]
            if any(self._is_inside(function, each) for each in beside or [above]):
                text = f"- {self._old_of('')}  (deleted below line {above})"
                more = f"  (+{counted(len(old) - 1, 'more line')})" if len(old) > 1 else ""
                yield _Edit(function, above, above, text + more, "lines deleted")
                return

    def _is_inside(self, function: Function, line: int) -> bool:
        """Whether a line ran, in this function and none inside of it."""
        running = [
            (each.code.name.endswith("<lambda>"), listing.last - listing.first, at)
            for at, (each, listing) in enumerate(self._ran)
            if listing.first <= line <= listing.last and has_run(listing, each.lines, line)
        ]
        return bool(running) and self._ran[min(running)[2]][0] is function

    def _is_as_it_was(self, listing: Listing, line: int, text: str) -> bool:
        """Whether the file still has the line; one with a secret reads otherwise."""
        now = listing.line(line)
        return now == text.rstrip("\r\n") or _HIDDEN in now

    def _old_of(self, new: str) -> str | None:
        """The old line that a new one was: the most similar one."""
        if not self._hunk.old:
            return None
        whole = self._redactor.redact_source("".join(self._hunk.old))
        lines = [each.strip() for each in whole.split("\n") if _is_code(each)][:_MOST_ALIKE]
        if not lines:
            return None

        def alike(old: str) -> float:
            return SequenceMatcher(None, old[:500], new[:500], False).ratio()

        return short(max(lines, key=alike) if new else lines[0], _TEXT)


def _whole(function: Function, text: str, reason: str) -> _Edit:
    code = function.code
    return _Edit(function, code.first, code.last, text, reason)


def _outer(ran: list[Function]) -> Iterator[Function]:
    """Those that are not inside of another one."""
    for each in ran:
        code = each.code
        around = (other.code for other in ran if other is not each)
        if not any(other.first <= code.first and code.last <= other.last for other in around):
            yield each


def _is_code(text: str) -> bool:
    """Whether a line is neither blank nor a comment."""
    return bool(text.strip()) and not text.lstrip().startswith("#")


def _depth(text: str) -> int:
    text = text.expandtabs().rstrip()
    return len(text) - len(text.lstrip())


def _place(edit: _Edit) -> str:
    file, first, last = edit.function.code.file, edit.first, edit.last
    return f"{file}:{first}" if first == last else f"{file}:{first}–{last}"
