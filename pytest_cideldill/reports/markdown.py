"""A recorded run as Markdown, for the page of a CI job.

Such pages have room for a megabyte of all steps together; one that is longer is not shown at all.
What the record holds stands in code spans and blocks, where nothing of it is markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pytest_cideldill.reports import words
from pytest_cideldill.reports.digest import Story
from pytest_cideldill.reports.outcomes import Failure

MOST_BYTES: Final = 256 * 1024
"""Most bytes of one summary."""

_PAGE_BYTES: Final = 1024 * 1024
_SHOWN_FAILURES: Final = 50
_SHOWN_TRACEPOINTS: Final = 20
_CELL: Final = 200
_LINE: Final = 2_000
_BLOCK: Final = 2_000
_ANSWER: Final = 5_000


def markdown(story: Story, where: str, most_bytes: int = MOST_BYTES) -> str:
    """The summary of a run.

    Args:
        where: The record, as people call it.
        most_bytes: How long it may be, encoded; what has no room is left out, and a line says so.
    """
    parts = [_head(story), *_failures(story), *_tracepoints(story), _foot(story, where)]
    shown: list[str] = []
    room = most_bytes - len(parts[-1].encode()) - 100
    for part in parts[:-1]:
        room -= len(part.encode()) + 1
        if room < 0:
            shown.append("*There is no room for the rest.*\n")
            break
        shown.append(part)
    return "\n".join([*shown, parts[-1]])


def append(story: Story, where: str, path: Path) -> None:
    """Append the summary to a file that may hold those of other steps already.

    Raises:
        OSError: It can't be written.
    """
    with path.open("ab") as file:
        room = min(MOST_BYTES, max(0, _PAGE_BYTES - file.tell() - 1))
        text = ("\n" if file.tell() else "") + markdown(story, where, room)
        if len(text.encode()) <= room:
            file.write(text.encode())


def _head(story: Story) -> str:
    summary = story.summary
    lines = [
        f"### {'✅' if story.is_good else '❌'} {escaped(words.verdict(summary))}",
        "",
        f"{escaped(words.about(summary))}.",
        "",
    ]
    if not story.is_hiding:
        lines += [f"{words.NOT_HIDING}.", ""]
    outcomes = words.ordered(summary.outcomes)
    if outcomes:
        names = [re.sub(r"[^\w ]", "", name) for name, _ in outcomes]
        lines += _table([names, [str(count) for _, count in outcomes]])
    return "\n".join([*lines, ""])


def _failures(story: Story) -> Iterator[str]:
    if story.failures:
        yield f"#### {words.counted(len(story.failures), 'failure')}\n"
    for failure in story.failures[:_SHOWN_FAILURES]:
        yield _failure(failure, story.why(failure))
    if len(story.failures) > _SHOWN_FAILURES:
        yield f"… and {len(story.failures) - _SHOWN_FAILURES} more.\n"


def _failure(failure: Failure, why: str) -> str:
    place = f" at {code(failure.place)}" if failure.place else ""
    lines = [f"- **{code(failure.nodeid)}**{failure.during}{place}", ""]
    block = f"{failure.statement}\n{failure.explanation}".strip()
    lines += [f"  {line}" for line in fenced(block)]
    if why:
        folded = ["<details><summary>Why</summary>", "", *fenced(why, _ANSWER), "", "</details>"]
        lines += ["", *(f"  {line}" for line in folded)]
    return "\n".join([*lines, ""])


def _tracepoints(story: Story) -> Iterator[str]:
    hottest = story.hottest
    if not hottest:
        return
    lines = ["#### Tracepoints", ""]
    for each in hottest[:_SHOWN_TRACEPOINTS]:
        last = each.hits.lines(2)[-1:]
        last_message = f", last {code(last[0].values.get('message'))}" if last else ""
        lines.append(f"- {code(each.place)}: {words.counted(each.hits.count, 'hit')}{last_message}")
    yield "\n".join([*lines, ""])
    if len(hottest) > _SHOWN_TRACEPOINTS:
        yield f"… and {len(hottest) - _SHOWN_TRACEPOINTS} more.\n"


def _foot(story: Story, where: str) -> str:
    summary = story.summary
    counts = [words.counted(summary.hits, "hit"), words.counted(summary.calls, "call")]
    dropped = f"{summary.dropped:,} dropped beyond the limits"
    return f"Recorded in {code(where)}: {', '.join([*counts, dropped])}.\n"


def escaped(text: object) -> str:
    """A text that is no markup, in one line."""
    line = _MARKS.sub(lambda found: f"&#{ord(found[0])};", words.one_line(text))
    return line if len(line) <= _LINE else line[:_LINE].rpartition("&")[0] + "…"


# A colon or a point makes an address of what stands beside it.
_MARKS: Final = re.compile(r"[\\`*_{}\[\]<>&|#~!@]|:(?=//)|(?<=www)\.")


def code(text: object) -> str:
    """A text as a code span, in one line. Not for tables: a bar ends a cell even there."""
    line = " ".join(words.printable(text if text is not None else "").split())
    if len(line) > _CELL:
        line = line[: _CELL - 1] + "…"
    if not line:
        return ""
    ticks = "`" * (_longest_run(line) + 1)
    return f"{ticks} {line} {ticks}" if "`" in line else f"`{line}`"


def fenced(text: str, most: int = _BLOCK) -> Iterable[str]:
    """A text, or so many characters of it, as the lines of a code block."""
    shown = words.printable(text if len(text) <= most else text[: most - 1] + "…")
    fence = "`" * max(3, _longest_run(shown) + 1)
    return [f"{fence}text", *shown.split("\n"), fence]


def _longest_run(text: str) -> int:
    return max((len(found) for found in re.findall("`+", text)), default=0)


def _table(rows: list[list[str]]) -> list[str]:
    head, *body = ("| " + " | ".join(cells) + " |" for cells in rows)
    return [head, "|" + "---|" * len(rows[0]), *body]
