"""A recorded run in the terminal, in the tone of pytest's own reports.

Nothing that the record holds reaches the terminal as a command: see `words.printable`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any, Final, TextIO

from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.records.format import Line
from pytest_cideldill.redaction.hidden_nodeids import meant
from pytest_cideldill.reports import words
from pytest_cideldill.reports.digest import Note, Story
from pytest_cideldill.reports.outcomes import Failure, Test, place_of, variables_of

_WIDTH: Final = 80
_CODES: Final = {"red": "31", "green": "32", "yellow": "33", "bold": "1", "dim": "2"}
_COLORS: Final = {"passed": "green", "failed": "red", "error": "red", "unfinished": "red"}
_MOST_ROWS: Final = 1_000
"""Of hits, and of calls."""


@dataclass(frozen=True, slots=True)
class Style:
    """How texts stand out; plain where nobody wants color. `is_plain`: they don't."""

    is_plain: bool = True

    @classmethod
    def of(cls, stream: TextIO) -> Style:
        """By the stream, and by what pytest and others obey (`NO_COLOR`, `FORCE_COLOR`)."""
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            return cls()
        return cls(not (os.environ.get("FORCE_COLOR") or stream.isatty()))

    def __call__(self, text: object, *names: str) -> str:
        """A text of the record, made harmless, in this style."""
        shown = words.one_line(text)
        if self.is_plain or not names:
            return shown
        return f"\x1b[{';'.join(_CODES[name] for name in names)}m{shown}\x1b[0m"

    def rule(self, title: str, mark: str = "=", *names: str) -> str:
        """A line across, with a title."""
        return self(f" {words.one_line(title)} ".center(_WIDTH, mark), *names)


def overview(story: Story, style: Style, *, hits: bool = False) -> Iterator[str]:
    """A run: outcomes, failures with their cause, messages of tracepoints, calls.

    Args:
        hits: Each message of each tracepoint, too.
    """
    yield style.rule(story.folder.name, "=", "bold")
    yield style(f"{words.about(story.summary)}, in {story.summary.rootdir}", "dim")
    if not story.is_hiding:
        yield style(words.NOT_HIDING, "yellow")
    for failure in story.failures:
        yield from _cause(failure, style)
        yield from _why(story, failure, style)
    for test in story.tests:
        if test.outcome == "unfinished":
            yield f"{style('UNFINISHED', 'red')} {style(test.nodeid)} ({style(test.worker)})"
    notes = [note for note in story.notes if hits or note.type != "log"]
    yield from _notes(notes, style)
    if len(notes) < len(story.notes):
        yield f"{words.counted(len(story.notes) - len(notes), 'message')} of cideldill.log"
    for tracepoint in story.tracepoints.values():
        shown = words.counted(tracepoint.hits.count, "hit")
        if tracepoint.why_not:
            shown += f": {style(tracepoint.why_not)}"
        yield f"{style(tracepoint.place, 'bold')} {shown}  {style(tracepoint.message or '', 'dim')}"
        if hits:
            yield from _hits(tracepoint.hits.lines(_MOST_ROWS), tracepoint.hits.count, style)
    summary, extent = story.summary, story.extent
    if summary.calls or summary.dropped:
        yield f"{words.counted(summary.calls, 'recorded call')}, {summary.dropped:,} rows dropped"
    if extent.shortened:
        yield style(words.cut_short(extent.shortened), "yellow")
    if extent.sentence:
        yield style(extent.sentence, "yellow")
    if story.damaged:
        yield style(f"{words.counted(story.damaged, 'line')} of the record made no sense", "yellow")
    yield style.rule(words.verdict(summary), "=", "green" if story.is_good else "red")


def one_test(story: Story, nodeid: str, style: Style) -> Iterator[str]:
    """What is known of a test: its failures in full, hits and calls.

    Raises:
        ValueError: It is not in the run; the message names some that are.
    """
    tests = [test.nodeid for test in story.tests]
    # As pytest printed it: with its secrets. Tests that differ in nothing else are shown as well.
    found = meant(nodeid, tests + [failure.nodeid for failure in story.failures])
    if not found:
        near = [each for each in tests if nodeid in each] or tests
        raise ValueError(f"no test {nodeid!r} in {story.folder.name}; {_some(near)}")
    for each in found[:_MOST_ROWS]:
        yield from _one_test(story, each, style)


def _one_test(story: Story, nodeid: str, style: Style) -> Iterator[str]:
    tests = [each for each in story.tests if each.nodeid == nodeid]
    failures = [each for each in story.failures if each.nodeid == nodeid]
    yield style.rule(nodeid, "=", "bold")
    for test in tests:
        yield _outcome(test, style)
    for failure in failures:
        yield style.rule(f"{failure.phase}{failure.part}: {failure.category}", "_", "red")
        yield from _in_full(failure, style)
        yield from _why(story, failure, style)
    yield from _notes([note for note in story.notes if note.nodeid == nodeid], style)
    for tracepoint in story.hottest:
        own = [line for line in tracepoint.hits.lines() if line.values.get("nodeid") == nodeid]
        if own:
            yield style.rule(f"{tracepoint.place}: {words.counted(len(own), 'hit')}", "-")
            yield from _hits(own[:_MOST_ROWS], len(own), style)
    calls = [line for line in story.calls.lines() if line.values.get("nodeid") == nodeid]
    if calls:
        yield style.rule(words.counted(len(calls), "call"), "-")
        yield from _calls(calls[:_MOST_ROWS], style)


def _notes(notes: list[Note], style: Style) -> Iterator[str]:
    for note in notes[:_MOST_ROWS]:
        yield f"{style(note.type.replace('_', ' '), 'yellow')} {style(note.text)}"


def _cause(failure: Failure, style: Style) -> Iterator[str]:
    word = "FAILED" if failure.category == "failed" else "ERROR"
    name = f"{style(failure.nodeid, 'bold')}{failure.during}"
    yield f"{style(word, 'red')} {name} - {style(failure.cause)}"
    if failure.place:
        statement = f": {failure.statement}" if failure.statement else ""
        yield f"  {style(failure.place + statement)}"


def _why(story: Story, failure: Failure, style: Style) -> Iterator[str]:
    """Why it failed, if that was asked."""
    if why := story.why(failure):
        yield style.rule("why", "-")
        yield words.printable(why)


def _outcome(test: Test, style: Style) -> str:
    outcome = test.outcome
    took = f" in {words.duration(test.duration_s)}" if test.ended is not None else ""
    return f"{style(outcome.upper(), _COLORS.get(outcome, 'yellow'))}{took} on {style(test.worker)}"


def _in_full(failure: Failure, style: Style) -> Iterator[str]:
    if failure.longrepr:
        yield words.printable(failure.longrepr)
    autopsy = failure.autopsy
    for name, value in (autopsy.get("parameters") or {}).items():
        yield f"parameter {style(name, 'bold')} = {style(value)}"
    for each in autopsy.get("fixtures") or ():
        yield f"fixture {style(each.get('name'), 'bold')} = {style(each.get('value'))}"
    for frame in failure.frames:
        place = place_of(frame.get("location"))
        yield f"{style(place, 'bold')} in {style(frame.get('function'))}"
        yield f"    {style(frame.get('source') or '')}"
        for variable in variables_of(frame):
            yield f"  {style(variable.get('name'), 'bold')} = {style(variable.get('value'))}"
    for name, text in failure.output:
        yield style.rule(f"captured {name}", "-")
        yield words.printable(text.rstrip("\n"))


def _hits(lines: list[Line], count: int, style: Style) -> Iterator[str]:
    for number, line in enumerate(lines):
        if len(lines) < count and number == len(lines) // 2:
            yield f"  … {count - len(lines):,} more"
        where = style(f"{line.worker} {line.values.get('nodeid') or ''}", "dim")
        hit = style(line.values.get("hit_count", ""))
        yield f"  {hit:>6}  {style(line.values.get('message'))}  {where}"


def _calls(lines: list[Line], style: Style) -> Iterator[str]:
    """As they were made, each below its caller."""
    depths: dict[Any, int] = {}
    for line in sorted(lines, key=lambda each: each.values.get("started_at") or each.ts):
        values = line.values
        depth = depths[values.get("call_id")] = depths.get(values.get("parent_id"), -1) + 1
        named = [f"{name}={value}" for name, value in (values.get("pretty_kwargs") or {}).items()]
        inside = ", ".join([*map(str, values.get("pretty_args") or ()), *named])
        call = f"{values.get('qualified_name')}({inside})"
        yield f"  {'  ' * depth}{style(call)}{_end(values)}"


def _end(values: dict[str, Any]) -> str:
    if values.get("status") == "success":
        return f" → {words.printable(values.get('pretty_result'))}"
    exception = values.get("exception") or {}
    return f" ✗ {words.printable(exception.get('type') or values.get('status'))}"


def _some(nodeids: list[str]) -> str:
    more = f" and {len(nodeids) - 5} more" if len(nodeids) > 5 else ""
    return f"there are {', '.join(nodeids[:5])}{more}" if nodeids else "it has no tests"


def write(lines: Iterator[str], stream: TextIO | None = None) -> None:
    """Print them, in an encoding that may not know every character."""
    stream = stream or sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    for line in lines:
        stream.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    stream.flush()  # its reader may be gone, which is noticed here
