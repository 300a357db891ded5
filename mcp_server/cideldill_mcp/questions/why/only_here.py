"""What ran in a failing test and in none of its passing neighbours, and the reverse. Pure.

Lines are compared as statements: what is inside of one, a conditional expression or a short
circuit, can't be seen. A statement that only one side ran is shown with the branch it is behind.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cideldill_mcp.questions.recordings.listing import Listing, Node, SourceFiles
from cideldill_mcp.questions.recordings.ran import (
    Function,
    Key,
    Remark,
    Remarks,
    Statements,
    functions,
    is_of_tests,
    key_of,
    left_by_errors,
    nearness,
)
from cideldill_mcp.questions.recordings.recorded import Code, Phase, RecordedTest, lines_in
from cideldill_mcp.questions.texts.fitting import counted, short

_PASSED: Final = frozenset({"passed", "xpassed"})

_MOST_LINES: Final = 6
"""Places inside of functions that are shown."""

_MOST_FUNCTIONS: Final = 4
"""Whole functions that are shown."""

_MOST_EVIDENCE: Final = 100

_TEXT: Final = 80
"""Characters of a line of source."""

_NEUTRAL: Final = (ast.Global, ast.Nonlocal)
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
_GENERATORS: Final = frozenset({"generator", "async_generator", "coroutine"})
_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class _Region:
    """Statements of one block, one after the other.

    Attributes:
        first: First line.
        last: Last line of the last statement in it that ran.
        behind: What leads into the block, if it begins there; else empty.
        branch: The line of the statement that branches there; 0 without.
        end: Its last line.
    """

    first: int
    last: int
    behind: str
    branch: int
    end: int


def only_here(
    test: RecordedTest,
    neighbours: Sequence[RecordedTest],
    files: SourceFiles,
    test_files: Collection[str] = (),
) -> Remarks:
    """Compare the lines of a failing test with those of its neighbours.

    Args:
        test: With the lines that ran; of a phase behind the failure they don't count.
        neighbours: With the same. Those that did not pass are left out.
        files: The sources.
        test_files: Where tests are defined; functions there, and in the file of the test, are no
            news.
    """
    passing = [
        each for each in neighbours if each.outcome in _PASSED and each.nodeid != test.nodeid
    ]
    there = [ran for each in passing if (ran := functions(each.ran))]
    comparison = _Comparison(test, there, files, test_files)
    inside, whole = comparison.inside(), comparison.whole()
    if not (inside or whole):
        return Remarks()
    lines = [f"against {counted(len(there), 'passing neighbour')}:"]
    lines += [text for _, text in inside[:_MOST_LINES]]
    if (more := len(inside) - _MOST_LINES) > 0:
        lines.append(f"… {counted(more, 'more place')} inside of functions")
    lines += [text for _, text in whole[:_MOST_FUNCTIONS]]
    if (more := len(whole) - _MOST_FUNCTIONS) > 0:
        lines.append(f"… {counted(more, 'more function')} only here")
    evidence = [remark for remark, _ in inside + whole]
    return Remarks(lines, evidence[:_MOST_EVIDENCE])


class _Comparison:
    """Finds what differs between a test and others, each piece with its text.

    Args:
        test: The test.
        there: What each of the others ran.
        files: The sources.
        test_files: Where tests are defined.
    """

    def __init__(
        self,
        test: RecordedTest,
        there: list[dict[Key, Function]],
        files: SourceFiles,
        test_files: Collection[str],
    ) -> None:
        self._test, self._there, self._files = test, there, files
        self._test_files = {*test_files, test.nodeid.partition("::")[0]}
        self._before = run_until_failure(test)
        self._all = functions(test.ran)
        self._left = left_by_errors(test)
        self._near = nearness(test)

    def whole(self) -> list[tuple[Remark, str]]:
        """Functions that none of the others ran."""
        if not self._there:
            return []
        codes = [
            function.code
            for key, function in self._before.items()
            if not self._is_of_tests(function.code) and not any(key in ran for ran in self._there)
        ]
        # Those inside of one that is there are a part of it.
        outer = [code for code in codes if not any(_is_inside(code, other) for other in codes)]
        return [
            (
                Remark(code, code.first, code.last, "ran only here"),
                f"only here: {code.name} {_place(code, code.first, code.last)}",
            )
            for code in sorted(outer, key=self._near)
        ]

    def inside(self) -> list[tuple[Remark, str]]:
        """Statements of functions that others ran, too."""
        found: list[tuple[tuple[bool, tuple[int, int]], Remark, str]] = []
        for key, here in self._before.items():
            others = [ran[key].lines for ran in self._there if key in ran]
            if others:
                order = self._is_of_tests(here.code), self._near(here.code)
                found += [(order, *each) for each in self._in_function(key, here, others)]
        return [(evidence, text) for _, evidence, text in sorted(found, key=lambda it: it[0])]

    def _in_function(
        self, key: Key, here: Function, others: list[set[int]]
    ) -> Iterator[tuple[Remark, str]]:
        ever = self._all[key].lines
        if here.lines <= set().union(*others) and set.intersection(*others) <= ever:
            return  # nearly all functions; to read their source takes time
        listing = self._files.listing(here.code)
        ran_here = Statements(listing, here.lines).starts
        ran_there = [Statements(listing, lines).starts for lines in others]
        only = list(_regions(listing, ran_here.difference(*ran_there)))
        note = "" if len(others) == len(self._there) else f"{len(others)} of them ran {_bare(key)}"
        for region in only:
            yield self._found("only here", here.code, listing, region, note)
        if self._is_of_tests(here.code):
            return
        ran_ever = Statements(listing, ever).starts
        missing = set.intersection(*ran_there) - ran_ever
        for region in _regions(listing, missing):
            if self._is_evidence(region, here.code, only, ran_ever):
                yield self._found("not here", here.code, listing, region, note)

    def _is_evidence(
        self, region: _Region, code: Code, only: Sequence[_Region], ran: Collection[int]
    ) -> bool:
        """Whether it is evidence that a statement was left out.

        It is none where an exception left the function before, or where it is the other side of
        what only this test ran.
        """
        is_left = key_of(code) in self._left
        if not region.branch:
            return not (is_left or only or code.kind in _GENERATORS)
        if any(each.branch == region.branch for each in only):
            return False
        return not is_left or any(line > region.end for line in ran)

    def _found(
        self, word: str, code: Code, listing: Listing, region: _Region, note: str
    ) -> tuple[Remark, str]:
        notes = [f"behind: {region.behind}"] if region.behind else []
        notes += [note] if note else []
        text = short(listing.statement(region.first), _TEXT)
        end = f"  ({'; '.join(notes)})" if notes else ""
        place = _place(code, region.first, region.last)
        reason = f"{word}: {text}"
        if region.behind:
            taken = "taken only here" if word == "only here" else "not taken here"
            reason = f"{region.behind} {taken}"
        evidence = Remark(code, region.first, region.last, reason)
        return evidence, f"{word}: {code.name} {place}  {text}{end}"

    def _is_of_tests(self, code: Code) -> bool:
        return is_of_tests(code, self._test_files)


def run_until_failure(test: RecordedTest) -> dict[Key, Function]:
    """The functions that a test ran; what runs behind the phase that failed is no reason for it."""
    return functions(lines_in(_up_to_failure(test)))


def _up_to_failure(test: RecordedTest) -> Iterator[Phase]:
    for phase in test.phases:
        yield phase
        if phase is test.failure:
            return


def _regions(listing: Listing, wanted: Collection[int]) -> Iterator[_Region]:
    """Statements in order, those of one block joined; what is inside of one is a part of it."""
    if not wanted or not isinstance(listing.node, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    pending: list[tuple[Sequence[ast.stmt], str, Node | None]] = [(listing.node.body, "", None)]
    while pending:
        block, behind, branch = pending.pop()
        statements = [statement for statement in block if not _is_neutral(statement)]
        at = 0
        deeper: list[tuple[Sequence[ast.stmt], str, Node | None]] = []
        while at < len(statements):
            if _start(statements[at]) not in wanted:
                deeper += _blocks(listing, statements[at])
                at += 1
                continue
            begun = at
            while at < len(statements) and _start(statements[at]) in wanted:
                at += 1
            first = _start(statements[begun])
            end = statements[at - 1].end_lineno or first
            last = max(line for line in wanted if first <= line <= end)
            leads = begun == 0 and branch is not None
            yield _Region(
                first,
                listing.ends.get(last, last),
                behind if leads else "",
                _line(branch) if leads and branch is not None else 0,
                _end(branch) if leads and branch is not None else 0,
            )
        pending += reversed(deeper)


def _blocks(
    listing: Listing, node: ast.stmt
) -> Iterator[tuple[Sequence[ast.stmt], str, Node | None]]:
    """The blocks of a statement, what leads into each, and the statement that branches there.

    A block on the line of its header is left out: whether it ran can't be seen.
    """
    if isinstance(node, _DEFINITIONS):
        return
    header = short(listing.statement(_start(node)), _TEXT)
    if isinstance(node, ast.With | ast.AsyncWith):
        yield node.body, "", None
    if isinstance(node, ast.Match):
        for case in node.cases:
            text = short(listing.statement(case.pattern.lineno), _TEXT)
            if _start(case.body[0]) > (case.pattern.end_lineno or 0):
                yield case.body, text, node
    if isinstance(node, ast.Try | ast.TryStar):
        yield node.body, "", None
        for handler in node.handlers:
            text = short(listing.statement(handler.lineno), _TEXT)
            if _start(handler.body[0]) > listing.ends.get(handler.lineno, handler.lineno):
                yield handler.body, text, node
        yield node.orelse, "else of try:", node
        yield node.finalbody, "", None
    if isinstance(node, (ast.If, *_LOOPS)):
        if _start(node.body[0]) > listing.ends.get(_start(node), 0):
            yield node.body, header, node
        if node.orelse and _start(node.orelse[0]) > (node.body[-1].end_lineno or 0):
            yield node.orelse, f"else of {header}", node


def _is_neutral(node: ast.stmt) -> bool:
    """Whether a statement makes no code."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    is_bare = isinstance(node, ast.AnnAssign) and node.value is None
    return is_text or is_bare or isinstance(node, _NEUTRAL)


def _start(node: ast.stmt) -> int:
    """The first line of a statement, with decorators."""
    decorators = node.decorator_list if isinstance(node, _DEFINITIONS) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _line(node: Node) -> int:
    return node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno


def _end(node: Node) -> int:
    last = node.body[-1] if isinstance(node, ast.match_case) else node
    return last.end_lineno or 0


def _is_inside(code: Code, other: Code) -> bool:
    is_same = code is other or code.file != other.file
    return not is_same and code.name.startswith(f"{other.name}.") and code.last <= other.last


def _place(code: Code, first: int, last: int) -> str:
    return f"{code.file}:{first}" if first == last else f"{code.file}:{first}–{last}"


def _bare(key: Key) -> str:
    return key[1].rpartition(".")[2]
