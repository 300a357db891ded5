"""Sends how the run ends: the verdict, what interrupted it, and that pytest left in order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_cideldill.hooks.guest import guest
from pytest_cideldill.hooks.host import Host
from pytest_cideldill.protocol import Finished, InternalErrorRaised, Interrupted
from pytest_cideldill.protocol.current_test_file import PositionFile


class ExitStatus:
    """Hooks at the end of a run; in every process of it.

    Args:
        host: Its link sends the end.
        position: The file that shows the same to other processes.
    """

    def __init__(self, host: Host, position: PositionFile | None) -> None:
        self.host = host
        self._position = position
        # How many failures pytest had counted when its tests were over; None: not known.
        self._failed: int | None = None

    @pytest.hookimpl(wrapper=True, trylast=True)
    @guest
    def pytest_runtestloop(self, session: pytest.Session) -> Iterator[None]:
        """Before every other plugin: some add failures that are none of a test, as pytest-cov."""
        yield
        self._failed = getattr(session, "testsfailed", None)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    @guest
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Iterator[None]:
        """After every other plugin: some change the exit status here."""
        self._mark_ending()
        yield
        status = getattr(session, "exitstatus", exitstatus)
        failed = self._failed
        if failed is None:  # it did not come to run any
            failed = getattr(session, "testsfailed", None)
        self.host.link.send(Finished(int(status), failed), urgent=True)

    @guest
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Ctrl-C or `pytest.exit`: fixtures are torn down next."""
        self._mark_ending()
        self.host.link.send(Interrupted(self.host.lens.text(excinfo.exconly(), 2_000)))

    @guest
    def pytest_internalerror(self, excrepr: object) -> None:
        """A hook of some plugin failed."""
        self.host.link.send(InternalErrorRaised(self.host.lens.end_of(str(excrepr), 5_000)))

    def _mark_ending(self) -> None:
        if self._position is not None:
            self._position.mark(ending=True)
