"""The report of a record: one page, complete in itself, that asks nothing of any network.

The page shows the newest runs. Scripts and styles run by their digest only, so nothing that got
into the page could run even if it were not escaped.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from pytest_cideldill.interpreter.untrusted_files import replacing
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.reports import html_data
from pytest_cideldill.reports.digest import Story, read
from pytest_cideldill.reports.html_failures import run_section
from pytest_cideldill.reports.markup import Markup, data, joined, tag
from pytest_cideldill.reports.words import counted, verdict

MOST_RUNS: Final = 10


@dataclass(frozen=True, slots=True)
class PageExtent:
    """How much a page holds; the older runs have as much together as the newest one.

    Attributes:
        rows: Hits; as many calls.
        failures: Characters of the failures.
        older_bytes: Of the events of older runs that are read for it.
    """

    rows: int = 40_000
    failures: int = 6_000_000
    older_bytes: float = math.inf


FULL: Final = PageExtent()
QUICK: Final = PageExtent(2_000, 1_000_000, 4_000_000)
"""For the page that a run makes at its end, which costs it next to nothing."""

_SCRIPTS: Final = ("base.js", "rows.js", "timeline.js", "tables.js", "calls.js", "main.js")


def write_report(path: Path, folders: Sequence[Path], known: Story | None = None) -> None:
    """Write the page, at once: somebody may look at it.

    Args:
        folders: Of the runs, oldest first.
        known: The run that is over now, which has been read; then the page is made quickly, and is
            for the same eyes as the record.

    Raises:
        OSError, ValueError: A run can't be read, or the page not be written.
    """
    extent = FULL if known is None else QUICK
    stories = _stories(folders, known, extent.older_bytes)
    text = page(stories, len(folders) - len(stories), extent)
    with replacing(path, 0o666 if known is None else 0o600) as file:  # several runs may write it
        file.write(text.encode("utf-8"))


def _stories(folders: Sequence[Path], known: Story | None, room: float) -> list[Story]:
    """The newest runs, newest first; what can't be read is left out, unless it is the only one."""
    stories = [] if known is None else [known]
    for folder in reversed(folders):
        if known is not None and folder == known.folder:
            continue
        room -= sum(path.stat().st_size for path in folder.glob("*.jsonl"))
        if len(stories) == MOST_RUNS or room < 0:
            break
        try:
            stories.append(read(folder))
        except ValueError:
            if len(folders) == 1:
                raise
    return stories


def page(stories: list[Story], older: int = 0, extent: PageExtent = FULL) -> str:
    """The page; the runs newest first."""
    sections, runs = [], []
    for number, story in enumerate(stories):
        sharing = len(stories) - 1 if number else 1
        section, anchors = run_section(story, number, extent.failures // sharing)
        sections.append(section)
        runs.append(html_data.of_run(story, anchors, extent.rows // sharing))
    script = Markup("(() => {\n'use strict';\n" + "".join(map(_text, _SCRIPTS)) + "})();\n")
    style = Markup(_text("page.css"))
    body = tag(
        "body",
        tag("header", tag("h1", "Recorded test runs" if len(stories) > 1 else "Recorded test run")),
        tag("main", *sections, Markup(_text("explorer.html")) if stories else None),
        tag("footer", tag("p", _foot(stories, older))),
        tag("script", data(runs), type="application/json", id="data"),
        tag("script", script),
    )
    title = f"{verdict(stories[0].summary)} – recorded run" if stories else "No recorded runs"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(script, style)),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", style),
    )
    return joined(Markup("<!DOCTYPE html>\n"), tag("html", head, body, lang="en"), "\n")


def _foot(stories: list[Story], older: int) -> str:
    more = f"{counted(older, 'older run')} in the record: cideldill report DIR, or with --run ID. "
    is_hiding = all(story.is_hiding for story in stories)
    hidden = "; secrets are replaced by tags" if is_hiding else ""
    return f"{more if older else ''}Made by pytest-cideldill{hidden}."


def _policy(script: str, style: str) -> str:
    allowed = f"script-src {_digest(script)}; style-src {_digest(style)}"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _text(name: str) -> str:
    return Path(__file__).with_name("page").joinpath(name).read_text(encoding="utf-8")
