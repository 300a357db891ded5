"""What pytest would show of a traceback, as frames and lines."""

from __future__ import annotations

import pytest
from _pytest._code import filter_traceback

from pytest_cideldill.capture.autopsy import Place
from pytest_cideldill.project import Project


def visible_places(excinfo: pytest.ExceptionInfo[BaseException], project: Project) -> list[Place]:
    """The frames of an exception without those of the test tools, innermost first.

    Those are pytest, pluggy, unittest and this plugin. When nothing is left (a failure inside
    pytest itself), all of them.
    """
    entries = list(excinfo.traceback)
    shown = [
        entry
        for entry in entries
        if filter_traceback(entry)
        and not entry.ishidden(excinfo)
        and "__unittest" not in entry.frame.raw.f_globals
        and not project.is_ours(entry.frame.raw.f_code.co_filename)
    ]
    return [(entry.frame.raw, entry.lineno + 1) for entry in reversed(shown or entries)]


def crash_message(report: pytest.TestReport) -> str:
    """`Type: message` as pytest made it for the report's last line; empty when there is none."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return crash.message if crash is not None else report.longreprtext.rpartition("\nE   ")[2]
