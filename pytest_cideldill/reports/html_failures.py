"""Outcomes and failures of a run as HTML, which is there without a script and found by search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pytest_cideldill.protocol.reducer import FAILED
from pytest_cideldill.reports.digest import Story
from pytest_cideldill.reports.markup import Markup, joined, tag
from pytest_cideldill.reports.outcomes import Failure, place_of, variables_of
from pytest_cideldill.reports.words import NOT_HIDING, about, counted, cut_short, ordered, verdict

MOST_FAILURES: Final = 200
_LISTED: Final = 20
"""Words of a run that are shown before its failures."""


def run_section(story: Story, place: int, room: int) -> tuple[Markup, list[str]]:
    """The section of a run.

    Args:
        place: Of the run in the page, from 0 on; the first failure of the first one is unfolded.
        room: Characters that its failures may take.

    Returns:
        It, and the ids of the failures in it, in their order; those left out have none.
    """
    shown: list[Markup] = []
    anchor = f"run{place}"
    for number, failure in enumerate(story.failures[:MOST_FAILURES]):
        why = story.why(failure)
        element = _failure(failure, why, f"{anchor}-f{number}", is_open=place == number == 0)
        room -= len(element)
        if room < 0:
            break
        shown.append(element)
    missing = len(story.failures) - len(shown)
    section = tag(
        "section",
        _head(story),
        tag("h3", counted(len(story.failures), "failure")) if story.failures else None,
        *shown,
        tag("p", f"{counted(missing, 'failure')} more: see the tests below.") if missing else None,
        id=anchor,
        class_="run",
        aria_label=story.folder.name,
    )
    return section, [f"{anchor}-f{number}" for number in range(len(shown))]


def outcome_class(category: str) -> str:
    """The class of an outcome, by which it has its color."""
    if category in (*FAILED, "unfinished"):
        return "failed"
    return category if category in ("passed", "skipped", "xfailed", "xpassed") else "x"


def _head(story: Story) -> Markup:
    summary, extent = story.summary, story.extent
    facts = joined(tag("code", story.folder.name), f", {about(summary)}, in {summary.rootdir}")
    return joined(
        tag("h2", verdict(summary), class_="passed" if story.is_good else "failed"),
        _bar(summary.outcomes),
        tag("p", facts, class_="facts"),
        tag("p", f"{summary.dropped:,} hits or calls beyond the limits were dropped.")
        if summary.dropped
        else None,
        None if story.is_hiding else tag("p", NOT_HIDING),
        tag("p", cut_short(extent.shortened)) if extent.shortened else None,
        tag("p", f"{extent.sentence}.") if extent.sentence else None,
        tag("p", f"{counted(story.damaged, 'line')} of the record made no sense.")
        if story.damaged
        else None,
        *_notes(story),
    )


def _bar(outcomes: dict[str, int]) -> Markup | None:
    parts: list[Markup] = []
    at = 0
    for name, count in ordered(outcomes):
        part = tag("rect", x=at, y=0, width=count, height=1)
        parts.append(tag("g", part, class_=outcome_class(name)))
        at += count
    if not at:
        return None
    box = {"viewBox": f"0 0 {at} 1", "preserveAspectRatio": "none"}
    return tag("svg", *parts, class_="bar", aria_hidden="true", **box)


def _notes(story: Story) -> Iterator[Markup]:
    lost = [note for note in story.notes if note.type not in ("log", "changed")]
    if lost:
        yield _list([f"{note.type.replace('_', ' ')}: {note.text}" for note in lost])
    open_ends = [test.nodeid for test in story.tests if test.outcome == "unfinished"]
    if open_ends:
        yield joined(tag("p", "These tests had begun and did not end:"), _list(open_ends))


def _list(texts: list[str]) -> Markup:
    more = tag("li", f"and {len(texts) - _LISTED} more") if len(texts) > _LISTED else None
    return tag("ul", *(tag("li", text) for text in texts[:_LISTED]), more)


def _failure(failure: Failure, why: str, anchor: str, *, is_open: bool) -> Markup:
    head = tag(
        "summary",
        tag("span", failure.category, class_="badge failed"),
        tag("code", failure.nodeid, class_="nodeid"),
        tag("span", f"{failure.during} on {failure.worker}", class_="dim"),
        tag("span", failure.cause, class_="cause"),
    )
    parameters = failure.autopsy.get("parameters")
    return tag(
        "details",
        head,
        tag("pre", failure.explanation, class_="why"),
        joined(tag("h4", "Why"), tag("pre", why, class_="answer")) if why else None,
        joined(tag("h4", "Parameters"), _pairs(parameters.items())) if parameters else None,
        *_frames(failure),
        *_causes(failure),
        *_output(failure),
        _folded("Fixtures", _fixtures(failure)),
        _folded("What pytest says", tag("pre", failure.longrepr) if failure.longrepr else None),
        id=anchor,
        class_="failure",
        open_="" if is_open else None,
    )


def _frames(failure: Failure) -> Iterator[Markup]:
    if failure.frames:
        yield tag("h4", "Frames, innermost first" if len(failure.frames) > 1 else "Frame")
    elif failure.place:
        yield tag("p", "At ", tag("code", failure.place))
    for number, frame in enumerate(failure.frames):
        name = tag("code", place_of(frame.get("location")))
        head = tag("summary", name, " in ", tag("code", frame.get("function")))
        variables = [(each.get("name"), each.get("value")) for each in variables_of(frame)]
        yield tag(
            "details",
            head,
            tag("pre", frame.get("source"), class_="line"),
            _pairs(variables) if variables else None,
            class_="frame",
            open_="" if number == 0 else None,
        )


def _causes(failure: Failure) -> Iterator[Markup]:
    inner = failure.autopsy.get("innerExceptions") or ()
    if inner:
        yield tag("h4", "Exceptions behind it")
    for each in inner:
        place = place_of(each.get("location"))
        error = f"{each.get('type')}: {each.get('message')}"
        yield tag("p", tag("code", error), f" ({each.get('relation')}) at ", tag("code", place))
    notes = failure.autopsy.get("notes") or ()
    if notes:
        yield tag("ul", *(tag("li", note) for note in notes))


def _output(failure: Failure) -> Iterator[Markup]:
    for name, text in failure.output:
        yield joined(tag("h4", f"Captured {name}"), tag("pre", text))


def _fixtures(failure: Failure) -> Markup | None:
    fixtures = failure.autopsy.get("fixtures") or ()
    return _pairs((each.get("name"), each.get("value")) for each in fixtures) if fixtures else None


def _folded(title: str, inside: Markup | None) -> Markup | None:
    return None if inside is None else tag("details", tag("summary", title), inside)


def _pairs(pairs: Iterable[tuple[Any, Any]]) -> Markup:
    rows = (
        tag("tr", tag("th", tag("code", name), scope="row"), tag("td", tag("code", value)))
        for name, value in pairs
    )
    return tag("table", tag("tbody", *rows), class_="pairs")
