"""Answers `test_source`: one function or class, exactly, with how often a test ran each line."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cideldill_mcp.questions.recordings.listing import DEFINITIONS, Listing, SourceFiles, extent
from cideldill_mcp.questions.recordings.recorded import BODIES, Call, Recorded, RecordedTest
from cideldill_mcp.questions.source.find_definitions import Definition
from cideldill_mcp.questions.texts.call_text import counts_text, notes_of
from cideldill_mcp.questions.texts.fitting import MAX_CHARS, Answer, Item, counted, fit
from cideldill_mcp.replies.proposals import proposal

MOST: Final = 20
"""Definitions that are shown; a glob may match thousands."""


@dataclass(slots=True, eq=False)
class _SourceLine(Item):
    """A line of source.

    Attributes:
        number: Of the line.
    """

    number: int = 0


def source_answer(
    files: SourceFiles,
    definitions: Sequence[Definition],
    max_chars: int = MAX_CHARS,
    *,
    recorded: Recorded | None = None,
    test: RecordedTest | None = None,
) -> Answer:
    """The source of definitions.

    Args:
        files: Those of the project.
        definitions: As `find` returns them.
        max_chars: Most characters of the text.
        recorded: What a process left that counted the lines.
        test: The test in it.
    """
    items: list[Item] = []
    lines_run = 0
    definitions = _those_that_ran(definitions, test)
    is_cut = recorded is not None and bool(recorded.cut)
    for at, definition in enumerate(definitions[:MOST]):
        marks = None if test is None else _Marks(definition, files, test, is_cut=is_cut)
        lines_run += 0 if marks is None else len(marks.counts)
        items += _lines_of(definition, files, marks, at)
    if len(definitions) > MOST:
        rest = [definition.dotted for definition in definitions[MOST : MOST + 5]]
        more = counted(len(definitions) - MOST, "more definition")
        items.append(Item(f"{more}: {', '.join(rest)} …", 0.5, weight=0))
    if recorded is not None and test is not None:
        items += [Item(note, 0.1, weight=0) for note in notes_of(recorded, test)]
    whole = sum(len(item.text) + 1 for item in items)
    text, left_out = fit(items, max_chars, lambda gone: _closing(gone, whole), _mark, room=70)
    first = definitions[0]
    fields: dict[str, object] = {"file": first.file, "first": first.first, "last": first.last}
    if test is not None:
        fields |= {"nodeid": test.nodeid, "outcome": test.outcome, "lines_run": lines_run}
    return Answer(text, fields, bool(left_out), _next(definitions, test, left_out))


def _those_that_ran(
    definitions: Sequence[Definition], test: RecordedTest | None
) -> Sequence[Definition]:
    """Those that the test ran come first: a name may mean several."""
    if test is None or len(definitions) < 2:
        return definitions
    ran = [(code.file, line) for code, counts in test.lines for line in counts]

    def is_idle(each: Definition) -> bool:
        return not any(file == each.file and each.first <= line <= each.last for file, line in ran)

    return sorted(definitions, key=is_idle)


# --- lines --------------------------------------------------------------------------------------


def _lines_of(
    definition: Definition, files: SourceFiles, marks: _Marks | None, at: int
) -> list[Item]:
    """The lines of one definition, with a head that says where it is and what called it."""
    listing = Listing(
        definition.file,
        definition.first,
        definition.last,
        files.lines(definition.file),
        definition.scope,
    )
    name = definition.dotted if definition.name else "a statement of the module"
    texts = [f"{listing.place}  {name}"]
    if marks is not None:
        texts += marks.texts()
    base = 0.2 * at
    items: list[Item] = [Item(text, base - 1.0, weight=0) for text in texts]
    width = 0 if marks is None else marks.width
    heads, docs = _heads_and_docs(definition.node)
    for number, text in listing.text_lines():
        rank = 1.0 + base + (number - listing.first) / (number - listing.first + 100.0)
        if number in heads:
            has_run = marks is not None and marks.any_in(*heads[number])
            rank -= 1.9 if has_run else 0.9
        elif number in docs or not text.strip() or text.lstrip().startswith("#"):
            rank += 1.0
        mark = ""
        if marks is not None and width:
            mark, has_run = marks.of(number)
            rank -= 1.2 if has_run else 0.0
            mark = f"{mark:>{width}}| "
        items.append(_SourceLine(f"{mark}{number:>4}  {text}".rstrip(), rank, number=number))
    return items


def _heads_and_docs(node: ast.AST) -> tuple[dict[int, tuple[int, int]], set[int]]:
    """The lines of headers inside, with the extents of their functions; those of docstrings."""
    heads: dict[int, tuple[int, int]] = {}
    docs: set[int] = set()
    for each in ast.walk(node):
        if isinstance(each, DEFINITIONS):
            first, last = extent(each)
            header = range(first, max(first + 1, extent(each.body[0])[0]))
            heads |= dict.fromkeys(header, (first, last))
            if ast.get_docstring(each, clean=False) is not None:
                start, end = extent(each.body[0])
                docs |= set(range(start, end + 1))
    return {line: span for line, span in heads.items() if line not in docs}, docs


def _mark(_before: Item | None, missing: Sequence[Item]) -> tuple[str, str]:
    numbers = [item.number for item in missing if isinstance(item, _SourceLine)]
    if not numbers:
        return "", ""
    span = f"{numbers[0]}–{numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]}"
    return "", f"      … {counted(len(numbers), 'line')} ({span})"


def _closing(left_out: Sequence[Item], whole: int) -> str:
    count = sum(item.weight for item in left_out)
    return f"left out: {counted(count, 'line')} (max_chars={-(-whole // 100) * 100} shows all)"


# --- marks --------------------------------------------------------------------------------------


class _Marks:
    """How often a test ran the lines of a definition, and what called it.

    Args:
        is_cut: Whether more of it may have run than was recorded.

    Attributes:
        counts: By line.
        width: Characters of a mark; 0: nothing of it ran.
    """

    def __init__(
        self, definition: Definition, files: SourceFiles, test: RecordedTest, *, is_cut: bool
    ) -> None:
        self._definition = definition
        self._test = test
        self._absent = "was not seen to run" if is_cut else "did not run"
        self.counts: Counter[int] = Counter()
        for code, counts in test.lines:
            if code.file == definition.file:
                self.counts.update(
                    {
                        line: count
                        for line, count in counts.items()
                        if definition.first <= line <= definition.last
                    }
                )
        self._starts: dict[int, int] = {}
        self._runnable: set[int] = set()
        self._uncounted: set[int] = set()
        lines = files.lines(definition.file)
        for scope in ast.walk(definition.node):
            if isinstance(scope, DEFINITIONS):
                # Inner functions come later: their lines are theirs.
                inner = Listing(definition.file, *extent(scope), lines, scope)
                self._starts |= inner.starts
                self._uncounted |= inner.loops_on_one_line()
                # The body of a class runs when its module is imported.
                if not isinstance(scope, ast.ClassDef):
                    self._runnable |= inner.runnable()
        self._ran = {self._starts.get(line, line) for line in self.counts}
        self.width = max((len(self.of(line)[0]) for line in self.counts), default=0)

    def of(self, number: int) -> tuple[str, bool]:
        """`12×`; `ran`: a loop on one line did; `-`: it did not run; empty for what is no code."""
        if number in self.counts:
            return "ran" if number in self._uncounted else f"{self.counts[number]}×", True
        start = self._starts.get(number, number)
        is_first = start == number
        return ("-" if is_first and start in self._runnable - self._ran else ""), False

    def any_in(self, first: int, last: int) -> bool:
        """Whether a line of a range ran."""
        return any(first <= line <= last for line in self.counts)

    def texts(self) -> list[str]:
        """The test, and who called the function and what it called there."""
        test = self._test
        calls = [call for call in test.calls.values() if self._is_own(call)]
        texts = [f"in {test.nodeid}  {test.outcome}"]
        if not self.counts and not calls:
            return [f"{texts[0]}: {self._absent}"]
        callers = Counter(
            f"{call.parent.code.name} {call.parent.code.file}:{call.line}"
            for call in calls
            if call.parent is not None and not self._is_own(call.parent)
        )
        callees = Counter(
            child.code.name
            for call in calls
            for child in call.children
            if child.code.kind not in BODIES and not self._is_own(child)
        )
        for call in calls:
            for name, count in call.library or ():
                callees[name] += count
        parts = []
        if callers:
            parts.append(f"called from {counts_text(callers.items())}")
        if callees:
            parts.append(f"calls {counts_text(callees.items())}")
        return [*texts, *(["; ".join(parts)] if parts else [])]

    def _is_own(self, call: Call) -> bool:
        code, definition = call.code, self._definition
        return code.file == definition.file and (
            definition.first <= code.first and code.last <= definition.last
        )


# --- next steps ---------------------------------------------------------------------------------


def _next(
    definitions: Sequence[Definition], test: RecordedTest | None, left_out: Sequence[Item]
) -> list[str]:
    steps = []
    first = definitions[0]
    if test is not None and first.name and not isinstance(first.node, ast.ClassDef):
        steps.append(
            proposal("test_trace", "each line of a call", nodeid=test.nodeid, function=first.dotted)
        )
    missing = {item.number for item in left_out if isinstance(item, _SourceLine)}
    if isinstance(first.node, ast.ClassDef):
        for statement in first.node.body:
            if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            start, end = extent(statement)
            if not missing.isdisjoint(range(start, end + 1)):
                name = f"{first.dotted}.{statement.name}"
                steps.append(proposal("test_source", "all of it", function=name))
    return steps[:3]
