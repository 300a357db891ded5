"""One line for an agent whose plain run of pytest failed: the command that says why.

On pytest's main thread, where the terminal's summary is made. Nothing of ours watches such a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pytest_cideldill.config import settings
from pytest_cideldill.hooks.guest import guest

_FAILED = ("failed", "error")
"""pytest's categories of failures, in the order in which a test is looked for."""


class Hint:
    """Ends the summary of a run that failed with the command for its first failure."""

    # Around all others, so that the line stands behind the short summary. The last line of pytest,
    # which programs read, stays the last.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    @guest
    def pytest_terminal_summary(
        self, terminalreporter: Any, config: pytest.Config
    ) -> Iterator[None]:
        yield
        if not config.option.no_summary and settings.value_of(config, "hint") is not False:
            nodeid = first_failure(terminalreporter.stats)
            if nodeid is not None:
                terminalreporter.write_line(f"cideldill: why? → {command(nodeid)}")


def first_failure(stats: dict[str, list[Any]]) -> str | None:
    """The node id of the test that failed first; None: none did, or no shell can be given it.

    Args:
        stats: Category → reports, as pytest's terminal reporter has them.
    """
    reports = (report for category in _FAILED for report in stats.get(category, ()))
    # A file that could not be collected is no test.
    ids = (each.nodeid for each in reports if isinstance(each, pytest.TestReport))
    nodeid = next(ids, None)
    return nodeid if nodeid is not None and nodeid.isprintable() else None


def command(nodeid: str) -> str:
    """The command for a test, quoted for a POSIX shell."""
    return "cideldill why '{}'".format(nodeid.replace("'", "'\"'\"'"))
