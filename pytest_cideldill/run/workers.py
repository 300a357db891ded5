"""xdist's controller: hands the address to its workers and tells what only it sees.

The controller runs no test and arms nothing; each worker dials out by itself.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_cideldill.link import Link
from pytest_cideldill.manager import BreakpointManager
from pytest_cideldill.run.guest import guest
from pytest_cideldill.run.reporting import phase_reported
from pytest_cideldill.wire import WorkerLost


class Controller:
    """Hooks of the controller only.

    Args:
        manager: For warnings.
        link: Where events go.
        variable: Environment variable through which a worker finds the front end.
        invitation: Its value, plain data.
    """

    def __init__(
        self, manager: BreakpointManager, link: Link, variable: str, invitation: dict[str, Any]
    ) -> None:
        self.manager = manager
        self._link = link
        self._variable = variable
        self._invitation = invitation

    @pytest.hookimpl(optionalhook=True)
    @guest
    def pytest_xdist_setupnodes(self, specs: list[Any]) -> None:
        """Workers on this machine connect at plugin import, before their conftests."""
        for spec in specs:
            if spec.popen:
                spec.env[self._variable] = json.dumps(self._invitation)

    @pytest.hookimpl(optionalhook=True)
    @guest
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """A worker ended; without an error that is how it should be."""
        if error is not None:
            self._link.send(WorkerLost(node.gateway.id, self.manager.lens.text(str(error))))

    @guest
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Workers tell their own reports; a dead one can't tell that it crashed."""
        if report.when not in ("setup", "call", "teardown"):  # xdist says "???"
            self._link.send(phase_reported(report, "failed", self.manager.lens))
