"""Tells how the run ends: the verdict, what interrupted it, and that pytest left in order."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from pytest_cideldill.manager import BreakpointManager
from pytest_cideldill.run.guest import guest
from pytest_cideldill.sending import Link
from pytest_cideldill.wire import Finished
from pytest_cideldill.wire import InternalErrorRaised
from pytest_cideldill.wire import Interrupted


class Verdict:
    """Hooks at the end of a run; in every process of it."""

    def __init__(self, manager: BreakpointManager, link: Link) -> None:
        self.manager = manager
        self._link = link

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(
        self, session: pytest.Session, exitstatus: int
    ) -> Generator[None, None, None]:
        """After every other plugin: some change the exit status here."""
        try:
            return (yield)
        finally:
            status = getattr(session, "exitstatus", exitstatus)
            self._link.send(Finished(int(status)), urgent=True)

    @guest
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Ctrl-C or `pytest.exit`."""
        self._link.send(Interrupted(self.manager.lens.text(excinfo.exconly(), 2_000)))

    @guest
    def pytest_internalerror(self, excrepr: object) -> None:
        """A hook of some plugin failed."""
        self._link.send(InternalErrorRaised(self.manager.lens.end_of(str(excrepr), 5_000)))
