"""What pytest would show of a traceback, as frames and lines."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any, Final

import pytest
from _pytest._io.terminalwriter import TerminalWriter, get_terminal_width

from pytest_cideldill.frames.causes import MOST, members_of
from pytest_cideldill.frames.failure import Place
from pytest_cideldill.frames.frames import is_of_tools, was_raised
from pytest_cideldill.interpreter.frame_locals import read_locals
from pytest_cideldill.project import Project
from pytest_cideldill.rendering.layout import cause_of

Raised = pytest.ExceptionInfo[BaseException]

_WIDTH: Final = get_terminal_width()

_PLACE_AT_END: Final = re.compile(r"\n\S+:\d+(: \w+)?\s*$")


def visible_places(excinfo: Raised, project: Project, depth: int = MOST) -> list[Place]:
    """The frames of an exception without those of the test tools, innermost first.

    Those are pytest, pluggy, unittest, doctest and this plugin. An exception that passed no code of
    the user's (pytest puts together what several teardowns raised, or what a thread did) has the
    frames of the first one inside or behind it that did. When nothing is left, the frame that
    raised it.
    """
    shown = [
        (frame, line)
        for frame, line in raw_places(excinfo.tb)
        if not _is_hidden(frame) and not is_of_tools(frame)
        if not project.is_ours(frame.f_code.co_filename)
    ]
    if depth and not passed_users(shown, project):
        for inner in _inside(excinfo.value):
            behind = pytest.ExceptionInfo.from_exception(inner)
            found = visible_places(behind, project, depth - 1)
            if passed_users(found, project):
                return found
    return shown or raw_places(excinfo.tb)[:1]


def raw_places(place: TracebackType | None) -> list[Place]:
    """All frames of a traceback with their lines, innermost first."""
    places = []
    while place is not None:
        places.append((place.tb_frame, place.tb_lineno))
        place = place.tb_next
    return places[::-1]


def text_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """What pytest prints of a report, by a writer that looks at nothing of the program's."""
    file = io.StringIO()
    writer = TerminalWriter(file)
    writer.hasmarkup = False
    writer.fullwidth = _WIDTH
    longrepr: Any = report.longrepr
    if hasattr(report, "node"):  # of xdist's controller: with a line about the worker
        report.toterminal(writer)
    elif hasattr(longrepr, "toterminal"):
        longrepr.toterminal(writer)
    elif longrepr is not None:
        writer.line(str(longrepr))
    return file.getvalue().strip()


def crash_message(report: pytest.TestReport) -> str:
    """`Type: message` as pytest made it for the report's last line, else the end of its text.

    Without the place that pytest puts there.
    """
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        message: str = crash.message
        return message
    return _PLACE_AT_END.sub("", text_of(report).rpartition("\nE   ")[2]).strip()


def _is_hidden(frame: FrameType) -> bool:
    """As pytest decides, which asks code of the program where `__tracebackhide__` is a function.

    That hides what helps to assert; here it does so always. pytest's own way looks for the file of
    each frame on the disk, by functions that tests patch.
    """
    filename = frame.f_code.co_filename
    if "<" in filename and ">" in filename:  # generated
        return True
    for names in (read_locals(frame), frame.f_globals):
        if (hidden := names.get("__tracebackhide__")) is not None:
            return hidden is not False and hidden != 0 if type(hidden) in (bool, int) else True
    return False


def passed_users(places: list[Place], project: Project) -> bool:
    """Whether code of the user is among the frames."""
    return any(project.has(frame) for frame, _ in places)


def _inside(error: Any) -> Iterator[BaseException]:
    """Members of a group; what an example of a doctest raised; the cause that it was given."""
    yield from (exception for exception in members_of(error)[:MOST] if was_raised(exception))
    unexpected = getattr(sys.modules.get("doctest"), "UnexpectedException", None)
    if unexpected is not None and type(error) is unexpected:
        yield error.exc_info[1]
    cause = cause_of(error)
    if cause is not None and was_raised(cause):
        yield cause
