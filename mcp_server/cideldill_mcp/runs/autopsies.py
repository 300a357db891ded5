"""Autopsies as clients get them: to the extent that is asked for, within a size, with siblings.

Pure functions over reports of the processes under test; the most useful stays longest.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from cideldill_mcp.replies.render import fit, whole
from cideldill_mcp.runs.results import Results

FEW_FRAMES = 5
FEW_LOCALS = 8
FEW_CHILDREN = 4
SHORT_OUTPUT = 400
"""What is left of them when an autopsy is too long; characters of each text."""

MOST_SIBLINGS = 20
"""Per outcome."""

OF_A_TEST = ("parameters", "siblings", "fixtures", "stdout", "stderr", "log")
"""What an autopsy has besides the exception, where a test failed."""

_OMITTED = {"arguments": None, "variables": None}
"""Of a frame that was not looked into."""

_OPERANDS = frozenset({"leftChildren", "rightChildren"})


def shaped(autopsy: dict[str, Any], *, frames: int, variables: int, inner: int) -> dict[str, Any]:
    """A recorded autopsy, with no more of it than is asked for; see `exception_get_context`."""
    shown = []
    for frame in autopsy["frames"][:frames]:
        has_any = frame["variables"] is not None
        shown.append(frame if variables > 0 or not has_any else frame | _OMITTED)
        variables -= has_any
    behind = autopsy["innerExceptions"]
    return autopsy | {
        "frames": shown,
        "innerExceptions": behind[:inner],
        "innerExceptionsTruncated": autopsy["innerExceptionsTruncated"] or len(behind) > inner,
    }


def fitted(
    autopsy: dict[str, Any],
    budget: int,
    form: Callable[[dict[str, Any]], dict[str, Any]] = lambda whole_form: whole_form,
) -> dict[str, Any]:
    """An autopsy in some form within `budget` characters; what was cut says `truncated: true`.

    In this order: variables of callers, frames far out, the text of the traceback, the end of
    pytest's explanation (which is whole where the variable `CI` is set), parts of objects but the
    first ones, the start of what was printed, variables that the failing line does not use, all
    parts of one object after the other, frames of callers; what is still too long is cut as any
    reply.
    """
    shown = form(autopsy)
    if whole(shown, budget) is not None:
        return shown
    less = copy.deepcopy(autopsy)
    less["truncated"] = True
    for cut in _cuts(less):
        cut()
        shown = form(less)
        if whole(shown, budget) is not None:
            return shown
    cut_anywhere: dict[str, Any] = json.loads(fit(shown, budget))
    return cut_anywhere


def _cuts(autopsy: dict[str, Any]) -> Iterator[Callable[[], object]]:
    for cut in _CUTS:
        yield partial(cut, autopsy)
    for entry in reversed(list(_entries(autopsy))):
        yield partial(_close, entry)
    for name in ("rightChildren", "leftChildren"):
        yield partial(autopsy.get("assertion", {}).pop, name, None)
    yield partial(_frames_of_callers, autopsy)


def _callers(autopsy: dict[str, Any]) -> None:
    for frame in list(_with_variables(autopsy))[1:]:
        frame.update(_OMITTED)


def _outer_frames(autopsy: dict[str, Any]) -> None:
    most = max(FEW_FRAMES, autopsy["userFrameIndex"] + 1)
    del autopsy["frames"][most:]


def _frames_of_callers(autopsy: dict[str, Any]) -> None:
    del autopsy["frames"][autopsy["userFrameIndex"] + 1 :]


def _trace(autopsy: dict[str, Any]) -> None:
    autopsy["exception"]["stackTraceString"] = None


def _output(autopsy: dict[str, Any]) -> None:
    for name in ("stdout", "stderr", "log"):
        text = autopsy.get(name) or ""
        if len(text) > SHORT_OUTPUT:
            autopsy[name] = (
                f"[{len(text) - SHORT_OUTPUT} earlier characters]…{text[-SHORT_OUTPUT:]}"
            )


def _explanation(autopsy: dict[str, Any]) -> None:
    assertion = autopsy.get("assertion", {})
    text = assertion.get("explanation") or ""
    if len(text) > SHORT_OUTPUT:
        further = len(text) - SHORT_OUTPUT
        assertion["explanation"] = f"{text[:SHORT_OUTPUT]}…[{further} further characters]"


def _locals(autopsy: dict[str, Any]) -> None:
    for frame in _with_variables(autopsy):
        held = frame["variables"]["locals"]
        if len(held) > FEW_LOCALS:
            frame["variables"] = {"locals": held[:FEW_LOCALS], "left_out": len(held) - FEW_LOCALS}


def _most_children(autopsy: dict[str, Any]) -> None:
    for entry in _entries(autopsy):
        if len(entry.get("children", ())) > FEW_CHILDREN:
            entry |= {"children": entry["children"][:FEW_CHILDREN], "truncated": True}
    assertion = autopsy.get("assertion", {})
    for name in _OPERANDS & assertion.keys():
        assertion[name] = assertion[name][:FEW_CHILDREN]


def _close(entry: dict[str, Any]) -> None:
    for name in ("children", "length", "truncated"):
        entry.pop(name, None)


_CUTS: tuple[Callable[[dict[str, Any]], None], ...] = (
    _callers,
    _outer_frames,
    _trace,
    _explanation,
    _most_children,
    _output,
    _locals,
)


def _with_variables(autopsy: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (frame for frame in autopsy["frames"] if frame["variables"] is not None)


def _entries(autopsy: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for frame in _with_variables(autopsy):
        yield from frame["arguments"] + frame["variables"]["locals"]


def siblings(results: Results, nodeid: str) -> dict[str, list[str]]:
    """The other parameters of the same test, by outcome, as far as they have run.

    `{"passed": […], "failed": […]}`: names without their file; empty for a test without parameters.
    """
    siblings: dict[str, list[str]] = {"passed": [], "failed": []}
    file, _, name = nodeid.partition("::")  # its folders may have brackets, a parameter anything
    function, bracket, _ = name.partition("[")
    if bracket:
        for test in results.tests.values():
            outcome = "failed" if test.outcome == "error" else test.outcome
            if test.nodeid.startswith(f"{file}::{function}[") and outcome in siblings:
                siblings[outcome].append(test.nodeid.partition("::")[2])
    return {outcome: names[:MOST_SIBLINGS] for outcome, names in siblings.items()}
