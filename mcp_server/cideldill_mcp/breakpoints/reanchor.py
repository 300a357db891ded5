"""When a run starts, breakpoints follow the lines that edits moved.

A line is known by its text; see `sourcecode.locations.find_again`. Files that were not edited cost
a look at their time and size, and no process. Lives on the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cideldill_mcp.breakpoints.inspection import ask_each
from cideldill_mcp.breakpoints.kinds import LineBreakpoint
from cideldill_mcp.breakpoints.places import Place, Stamp
from cideldill_mcp.processes.launch import Recipe
from pytest_cideldill.errors import Refusal

MAX_SHOWN = 80
"""Characters of a line in a message."""


async def reanchor(recipe: Recipe, lines: Sequence[LineBreakpoint]) -> list[LineBreakpoint]:
    """Find lines again whose files were edited; returns the breakpoints that have a note now."""
    edited: list[tuple[LineBreakpoint, Stamp | None]] = []
    for each in lines:
        known = each.place.stamp
        now = Stamp.of(each.place.file, known)
        if now is None or known is None or now.digest != known.digest:
            if now is not known:
                edited.append((each, now))
        else:  # at most its time is another one
            each.place = replace(each.place, stamp=now)
    answers = await ask_each(recipe, [_request(breakpoint.place) for breakpoint, _ in edited])
    for (each, stamp), answer in zip(edited, answers, strict=True):
        if isinstance(answer, Refusal):
            # Nothing is known of where it is now, and the next run asks again.
            each.note = answer.message
        else:
            _settle(each, stamp, answer)
    return [breakpoint for breakpoint, _ in edited if breakpoint.note is not None]


def _request(place: Place) -> dict[str, Any]:
    names = ("file", "shown", "line", "source", "function", "offset")
    return {"op": "anchor", **{name: getattr(place, name) for name in names}}


def _settle(breakpoint: LineBreakpoint, stamp: Stamp | None, reply: dict[str, Any]) -> None:
    """Put a breakpoint where its line is now, and note what changed."""
    was = breakpoint.place
    breakpoint.is_lost = "error" in reply
    if breakpoint.is_lost:
        # What it was is kept: an edit that brings it back finds it.
        breakpoint.place = replace(was, stamp=stamp)
        breakpoint.note = f"line_changed: it was {_short(was.source)}; {reply['message']}"
        return
    now = Place(was.file, was.shown, stamp=stamp, **reply["place"])
    breakpoint.note = None
    if now.source != was.source:
        breakpoint.note = f"line_changed: it was {_short(was.source)}"
        if alike := reply["alike"]:
            now = replace(now, source=was.source)
            breakpoint.note += f", as lines {', '.join(map(str, alike))} are now"
        breakpoint.note += f"; line {now.line} is {_short(reply['place']['source'])} now"
    elif now.line != was.line:
        breakpoint.note = f"moved from {was.line} to {now.line}"
    breakpoint.move(now)


def _short(source: str) -> str:
    return repr(source if len(source) <= MAX_SHOWN else source[: MAX_SHOWN - 1] + "…")
