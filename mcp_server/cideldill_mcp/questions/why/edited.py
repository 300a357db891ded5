"""Lines that a test ran and that the working tree or the last commit changed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from cideldill_mcp.questions.patches.git_changes import (
    Commit,
    FileChange,
    last_commit,
    line_now,
    working_tree,
)
from cideldill_mcp.questions.patches.unified_diff import Hunk
from cideldill_mcp.questions.recordings.listing import Listing, SourceFiles
from cideldill_mcp.questions.recordings.ran import (
    Function,
    Remark,
    Remarks,
    Statements,
    functions,
    is_of_tests,
    nearness,
)
from cideldill_mcp.questions.recordings.recorded import Code, RecordedTest
from cideldill_mcp.questions.texts.fitting import counted, short
from pytest_cideldill.redaction.redactor import Redactor

_MOST_LINES: Final = 6
"""Edits that are shown."""

_MOST_EVIDENCE: Final = 100

_MOST_HUNKS: Final = 2_000
"""Hunks of one file that are looked at."""

_MOST_NAMED: Final = 4
"""Functions of a new file that are named."""

_MOST_ALIKE: Final = 40
"""Old lines that are compared to find the one that a new line was."""

_TEXT: Final = 70
"""Characters of a line of source."""

_SUBJECT: Final = 80

_HIDDEN: Final = "<redacted"


@dataclass(frozen=True, slots=True)
class _Edit:
    """An edit of a function that ran, or of a whole file.

    Attributes:
        code: The function.
        first: First line.
        last: Last line.
        text: What changed.
        reason: The same in a few words.
        is_file: Whether the whole file is new.
    """

    code: Code
    first: int
    last: int
    text: str
    reason: str = "edited"
    is_file: bool = False


async def edits(
    root: str,
    test: RecordedTest,
    files: SourceFiles,
    redactor: Redactor,
    test_files: Collection[str] = (),
) -> Remarks:
    """What was edited of the lines that a test ran; nothing without git, or without an answer.

    Those of the working tree. If none is of code under test, those of the last commit come first.
    Takes some seconds at most.

    Args:
        root: The rootdir of the tests; paths of code are relative to it.
        test: With the lines that ran.
        files: The sources.
        redactor: Hides secrets in what git says.
        test_files: Where tests are defined; edits there come last.
    """
    of_files: dict[str, list[Function]] = {}
    for function in functions(test.ran).values():
        if not os.path.isabs(function.code.file):
            of_files.setdefault(function.code.file, []).append(function)
    changed = await working_tree(root, of_files) if of_files else None
    if changed is None:
        return Remarks()
    finder = _Finder(test, of_files, files, redactor, frozenset(test_files))
    now = await asyncio.to_thread(finder.edits, changed, {})
    if any(not finder.is_of_tests(edit.code) for edit in now):
        return finder.remarks(now, None)
    before = {
        changed[name].before if name in changed else name: name
        for name in of_files
        if name not in changed or not changed[name].is_new
    }
    committed = await last_commit(root, before) if before else None
    if committed is None:
        return finder.remarks(now, None)
    commit, by_name = committed
    named = {before[name]: change for name, change in by_name.items()}
    later = {name: change.hunks for name, change in changed.items()}
    then = await asyncio.to_thread(finder.edits, named, later)
    first, second = finder.remarks(then, commit), finder.remarks(now, None)
    return Remarks(first.lines + second.lines, first.evidence + second.evidence)


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
        self._redactor = redactor
        self._test_files = {*test_files, test.nodeid.partition("::")[0]}
        self._near = nearness(test)

    def is_of_tests(self, code: Code) -> bool:
        """Whether a function is no code under test."""
        return is_of_tests(code, self._test_files)

    def edits(
        self, changed: Mapping[str, FileChange], later: Mapping[str, list[Hunk]]
    ) -> list[_Edit]:
        """The edits, the most useful first.

        Args:
            changed: By file.
            later: What changed the files afterwards.
        """
        found: list[_Edit] = []
        for name, change in changed.items():
            functions_there = self._of_files.get(name, [])
            if change.is_new and functions_there:
                found.append(self._new_file(functions_there))
                continue
            ran = [_Ran(each, self._files.listing(each.code)) for each in functions_there]
            for hunk in change.hunks[:_MOST_HUNKS]:
                found += _InHunk(hunk, later.get(name, []), ran, self._redactor).all()

        def order(edit: _Edit) -> tuple[bool, bool, tuple[int, int], str, int]:
            near = self._near(edit.code)
            return self.is_of_tests(edit.code), edit.is_file, near, edit.code.file, edit.first

        return sorted(found, key=order)

    def _new_file(self, ran: list[Function]) -> _Edit:
        codes = sorted((function.code for function in ran), key=self._near)
        named = [code.name for code in codes if not code.name.endswith("<lambda>")] or ["<lambda>"]
        more = len(named) - _MOST_NAMED
        text = f"is new: {', '.join(named[:_MOST_NAMED])}{f' and {more} more' * (more > 0)} ran"
        first = codes[0]
        return _Edit(first, first.first, first.last, text, "in a new file", is_file=True)

    def remarks(self, found: list[_Edit], commit: Commit | None) -> Remarks:
        """The lines for edits, and the edits as data."""
        if not found:
            return Remarks()
        where, lines = "working tree", []
        if commit is not None:
            subject = short(self._redactor.redact_text(commit.subject), _SUBJECT)
            where = commit.name
            lines.append(f"last commit: {commit.name} {subject}  ({commit.age})")
        for edit in found[:_MOST_LINES]:
            what = edit.code.file if edit.is_file else f"{_place(edit)} {edit.code.name}"
            lines.append(f"edited: {what}  ({where})  {edit.text}")
        if (more := len(found) - _MOST_LINES) > 0:
            lines.append(f"… {counted(more, 'more edit')} of what ran")
        by = "working tree" if commit is None else f"commit {commit.name}"
        evidence = [
            Remark(edit.code, edit.first, edit.last, f"{edit.reason} ({by})")
            for edit in found[:_MOST_EVIDENCE]
        ]
        return Remarks(lines, evidence)


class _Ran:
    """A function that ran, with its source."""

    def __init__(self, function: Function, listing: Listing) -> None:
        self.code, self.lines, self.listing = function.code, function.lines, listing
        self.statements = Statements(listing, function.lines)

    def has(self, line: int) -> bool:
        """Whether a line of it ran."""
        return self.listing.first <= line <= self.listing.last and self.statements.has(line)


class _InHunk:
    """The edits that a hunk made in functions that ran.

    Args:
        hunk: The hunk.
        later: Hunks that changed the file afterwards.
        ran: The functions of the file that ran.
        redactor: Hides secrets.
    """

    def __init__(self, hunk: Hunk, later: list[Hunk], ran: list[_Ran], redactor: Redactor) -> None:
        self._hunk, self._later, self._ran, self._redactor = hunk, later, ran, redactor

    def all(self) -> Iterator[_Edit]:
        """The edits, at most one for each function."""
        if not self._hunk.new:
            yield from self._removed()
            return
        found: dict[int, tuple[_Ran, list[int]]] = {}
        for at, text in enumerate(self._hunk.new):
            line = line_now((self._hunk.new_start or 0) + at, self._later)
            if line is None or not _is_code(text):
                continue
            ran = self._owner(line)
            if ran is not None and _is_as_it_was(ran.listing.line(line), text):
                found.setdefault(id(ran), (ran, []))[1].append(line)
        for ran, lines in found.values():
            yield self._changed(ran, lines)

    def _owner(self, line: int) -> _Ran | None:
        """The innermost function in which a line ran; a lambda only if there is no other."""

        def order(each: _Ran) -> tuple[bool, int]:
            return each.code.name.endswith("<lambda>"), each.listing.last - each.listing.first

        return min((each for each in self._ran if each.has(line)), key=order, default=None)

    def _changed(self, ran: _Ran, lines: list[int]) -> _Edit:
        first, last = lines[0], lines[-1]
        if not self._hunk.old and ran.listing.first == first and ran.lines <= set(lines):
            return _Edit(ran.code, first, ran.listing.last, "is new", "new")
        new = ran.listing.line(first).strip()
        old = self._old_of(new)
        more = f"  (+{counted(len(lines) - 1, 'more line')})" if len(lines) > 1 else ""
        text = f"+ {short(new, _TEXT)}" if old is None else f"- {old} | + {short(new, _TEXT)}"
        return _Edit(ran.code, first, last, text + more)

    def _removed(self) -> Iterator[_Edit]:
        """Lines that are gone: the function that they were in ran there."""
        old = [each for each in self._hunk.old if _is_code(each)]
        above = line_now(self._hunk.new_start or 0, self._later)
        if not old or above is None:
            return
        depth = _depth(old[0])
        for ran in self._ran:
            first, last = ran.listing.first, ran.listing.last
            if not first <= above <= last:
                continue
            if above == last and depth <= _depth(ran.listing.line(first)):
                continue  # they were behind it
            beside = [
                each
                for each in (above, above + 1)
                if each <= last and _depth(ran.listing.line(each)) == depth
            ]
            if any(self._owner(each) is ran for each in beside or [above]):
                text = f"- {self._old_of('')}  (deleted below line {above})"
                more = f"  (+{counted(len(old) - 1, 'more line')})" if len(old) > 1 else ""
                yield _Edit(ran.code, above, above, text + more, "lines deleted")
                return

    def _old_of(self, new: str) -> str | None:
        """The old line that a new one was: the most similar one; without a new one the first."""
        if not self._hunk.old:
            return None
        whole = self._redactor.redact_source("".join(self._hunk.old))
        lines = [each.strip() for each in whole.split("\n") if _is_code(each)][:_MOST_ALIKE]
        if not lines:
            return None

        def alike(old: str) -> float:
            return SequenceMatcher(None, old[:500], new[:500], False).ratio()

        return short(max(lines, key=alike) if new else lines[0], _TEXT)


def _is_as_it_was(now: str, text: str) -> bool:
    """Whether a line of the file is what git read; one with a secret reads otherwise."""
    return now == text.rstrip("\r\n") or _HIDDEN in now


def _is_code(text: str) -> bool:
    """Whether a line is neither blank nor a comment."""
    return bool(text.strip()) and not text.lstrip().startswith("#")


def _depth(text: str) -> int:
    text = text.expandtabs().rstrip()
    return len(text) - len(text.lstrip())


def _place(edit: _Edit) -> str:
    file, first, last = edit.code.file, edit.first, edit.last
    return f"{file}:{first}" if first == last else f"{file}:{first}–{last}"
