"""Numbers, times and texts of a recorded run in words, wherever people read them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from textwrap import dedent
from typing import Final

from pytest_cideldill.records.manifest import Summary

NOT_HIDING: Final = "secrets stand in it as they were: recorded with --cideldill-no-redact"

_ORDER: Final = ("failed", "error", "passed", "skipped", "xfailed", "xpassed")

# What a terminal or a reader would obey instead of show, or not show at all: control characters,
# changes of direction, other ends of lines, marks without a width, halves of surrogate pairs, tags.
_COMMANDS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)

_STYLES: Final = re.compile(r"\x1b\[[0-9;:]*m")


def unstyled(text: object) -> str:
    """A text of the record without the codes that give it colors in a terminal."""
    return _STYLES.sub("", str(text))


def printable(text: object) -> str:
    """A text of the record with what would not be shown as escapes; lines stay lines."""
    return _COMMANDS.sub(lambda found: ascii(found[0])[1:-1], str(text))


def one_line(text: object) -> str:
    """The same in one line, so that no text makes lines that look like ours."""
    return printable(text).replace("\n", "\\n")


def counted(count: int, name: str) -> str:
    """`1 hit`, `2,000 hits`."""
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def ordered(outcomes: Mapping[str, int]) -> list[tuple[str, int]]:
    """Failures first; the categories of other plugins last."""
    names = sorted(outcomes, key=lambda name: (_ORDER.index(name) if name in _ORDER else 99, name))
    return [(name, outcomes[name]) for name in names if outcomes[name]]


def verdict(summary: Summary) -> str:
    """`1 failed, 3 passed in 0.48s`, as pytest says it."""
    counts = [
        counted(count, name) if name == "error" else f"{count:,} {name}"
        for name, count in ordered(summary.outcomes)
    ]
    shown = ", ".join(counts) or "no tests"
    if summary.finished_at is None:
        return f"{shown}; the run did not come to its end"
    if summary.exit_code not in (0, 2, 3, None) and summary.outcomes and not summary.failures:
        shown += f"; something else set the exit status to {summary.exit_code}"
    cut_off = f"; the end of {', '.join(summary.cut_off)} is missing" if summary.cut_off else ""
    return f"{shown} in {duration(summary.finished_at - summary.started_at)}{cut_off}"


def about(summary: Summary) -> str:
    """When, where and with what it ran."""
    began = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(summary.started_at))
    status = [] if summary.exit_code is None else [f"exit code {summary.exit_code}"]
    versions = [f"Python {summary.python}", f"pytest {summary.pytest}"]
    workers = [worker for worker in summary.workers if worker != "main"]
    among = [counted(len(set(workers)), "worker")] if workers else []
    return ", ".join([began, *status, *versions, *among])


def duration(seconds: float) -> str:
    """`3 ms`, `1.25s`, `2m 5s`."""
    if seconds < 0.0995:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 60:
        return f"{seconds:.2f}s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m {rest}s"


def cut_short(count: int) -> str:
    """The number of failures that are shown without what takes room."""
    return f"{counted(count, 'failure')} shown without frames and output, as there are too many"


def left_out(pairs: Iterable[tuple[int, str]]) -> str:
    """`3 failures and 10 calls`; empty: nothing."""
    parts = [counted(count, name) for count, name in pairs if count > 0]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def said(text: object) -> str:
    """What a failure says by the text of its report: the lines that pytest marks, else all of it.

    Of several exceptions those of the last one, which ended the test. Without the colors of a
    terminal.
    """
    lines = unstyled(text or "").splitlines()
    marked = [number for number, line in enumerate(lines) if _is_marked(line)]
    if not marked:
        return "\n".join(lines).strip()
    start = end = marked[-1]
    while start and _is_marked(lines[start - 1]):
        start -= 1
    return dedent("\n".join(line[1:] for line in lines[start : end + 1])).strip()


def _is_marked(line: str) -> bool:
    return line.startswith("E   ") or line.rstrip() == "E"


def first_line(text: object) -> str:
    """The first line of a text that is not empty."""
    lines = (line.strip() for line in unstyled(text or "").splitlines())
    return next((line for line in lines if line), "")
