"""What pytest would show of a traceback, as frames and lines."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any
from typing import Final

import pytest
from _pytest._code import filter_traceback

from pytest_cideldill.capture.autopsy import Place
from pytest_cideldill.capture.causes import MOST
from pytest_cideldill.capture.causes import members_of
from pytest_cideldill.capture.frames import is_of_tools
from pytest_cideldill.capture.frames import was_raised
from pytest_cideldill.project import Project

_PLACE_AT_END: Final = re.compile(r"\n\S+:\d+(: \w+)?\s*$")


def visible_places(excinfo: pytest.ExceptionInfo[BaseException], project: Project) -> list[Place]:
    """The frames of an exception without those of the test tools, innermost first.

    Those are pytest, pluggy, unittest, doctest and this plugin. An exception that passed no code of
    the user's (pytest puts together what several teardowns raised) has the frames of the first one
    inside of it that did. When nothing is left, the frame that raised it.
    """
    shown = _shown(excinfo, project)
    if not _has_users(shown, project):
        for inner in _inside(excinfo.value):
            found = visible_places(pytest.ExceptionInfo.from_exception(inner), project)
            if _has_users(found, project):
                return found
    return shown or [(entry.frame.raw, entry.lineno + 1) for entry in list(excinfo.traceback)[-1:]]


def crash_message(report: pytest.TestReport) -> str:
    """`Type: message` as pytest made it for the report's last line, else the end of its text.

    Without the place that pytest puts there.
    """
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        message: str = crash.message
        return message
    return _PLACE_AT_END.sub("", report.longreprtext.rpartition("\nE   ")[2]).strip()


def _shown(excinfo: pytest.ExceptionInfo[BaseException], project: Project) -> list[Place]:
    return [
        (frame, entry.lineno + 1)
        for entry in reversed(excinfo.traceback)
        if filter_traceback(entry) and not entry.ishidden(excinfo)
        if not is_of_tools(frame := entry.frame.raw)
        if not project.is_ours(frame.f_code.co_filename)
    ]


def _has_users(places: list[Place], project: Project) -> bool:
    return any(project.is_user(frame.f_code.co_filename) for frame, _ in places)


def _inside(error: Any) -> Iterator[BaseException]:
    """Members of a group; what an example of a doctest raised."""
    yield from (each for each in members_of(error)[:MOST] if was_raised(each))
    unexpected = getattr(sys.modules.get("doctest"), "UnexpectedException", None)
    if unexpected is not None and type(error) is unexpected:
        yield error.exc_info[1]
