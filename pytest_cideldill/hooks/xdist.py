"""xdist's controller: hands the address to its workers and sends what only it sees.

The controller runs no test and arms nothing; each worker dials out by itself and sends its own
tests. Those of a worker that can't, as it died, lost its connection or never had one, the
controller sends by the reports that it got from xdist.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import pytest

from pytest_cideldill import protocol
from pytest_cideldill.hooks.guest import guest
from pytest_cideldill.hooks.host import Host
from pytest_cideldill.hooks.reports import JUST_PASSED, category_of, event_of_phase, phase_reported
from pytest_cideldill.hooks.selection import Wanted, collection_failed
from pytest_cideldill.interpreter import clock
from pytest_cideldill.link.handshake import HASH_SEED, Invitation

_HAS_SENT = "cideldill_has_sent"
"""In `workeroutput`: all that a worker had to send has left it."""

_LAST = ("teardown", protocol.CRASHED)
"""The last phase of a test, also of one in which a child died."""

_CONNECTION_LOST = "its connection to the server was lost; its tests ran on undebugged"

_UNORDERED = (
    "with several workers the order of nodeids is not kept: xdist chooses which worker runs a test "
    "and when; workers: 0 keeps it"
)


class Controller:
    """Hooks of the controller only.

    Args:
        variable: Environment variable through which a worker finds the front end.
        invitation: Its value in this process.
        wanted: What the workers choose of the tests.
    """

    def __init__(
        self,
        config: pytest.Config,
        host: Host,
        variable: str,
        invitation: Invitation,
        wanted: list[str] | None,
    ) -> None:
        self.config = config
        self._params = config.invocation_params
        self._bare = replace(self._params, args=self._params.args[invitation.pinned :])
        self.host = host
        self._variable = variable
        self._invitation = invitation
        self._wanted = wanted
        self._relayed: set[str] = set()  # added to by the I/O thread as well
        # Worker → the reports of its tests that are not relayed.
        self._reports: defaultdict[str, list[pytest.TestReport]] = defaultdict(list)
        self._down: set[str] = set()  # workers that died
        host.relay_by(self._relayed.add)

    @property
    def _without(self) -> str:
        """What workers do that have no part in this run."""
        if self._invitation.address is None:
            return "are not recorded; of their tests the record has the reports"
        return (
            "run undebugged: --cideldill-bind=HOST, an address of this machine that they can "
            "reach, lets them connect (docs/remote.md)"
        )

    # --- workers come -----------------------------------------------------------------------

    @pytest.hookimpl(optionalhook=True)
    @guest
    def pytest_xdist_setupnodes(self, specs: list[Any]) -> None:
        """Workers connect at plugin import, before their conftests, wherever they are."""
        alone = []
        if self._invitation.hash_seed is not None:  # execnet sets others when Python has read it
            os.environ[HASH_SEED] = self._invitation.hash_seed
        for spec in specs:
            is_here = bool(spec.popen) and not spec.via  # for certain
            mine = self._invitation.for_worker(self._wanted, is_here=is_here)
            spec.env[self._variable] = json.dumps(asdict(mine))
            if mine.address is None and mine.record is None:
                alone.append(spec.id)
        if alone:
            self._relayed.update(alone)
            self.host.warn(f"{', '.join(alone)} on other machines {self._without}")
        if len(specs) > 1 and len(self._wanted or ()) > 1:
            self.host.warn(_UNORDERED)

    @pytest.hookimpl(optionalhook=True)
    @guest
    def pytest_xdist_newgateway(self, gateway: Any) -> None:
        """The arguments of a worker are made next: where it is, our rootdir need not be."""
        is_elsewhere = not gateway.spec.popen or gateway.spec.chdir
        self.config.invocation_params = self._bare if is_elsewhere else self._params

    @pytest.hookimpl(optionalhook=True)
    @guest
    def pytest_configure_node(self) -> None:
        """They were made."""
        self.config.invocation_params = self._params

    @pytest.hookimpl(optionalhook=True)
    @guest
    def pytest_testnodeready(self, node: Any) -> None:
        """The front end knows whether it is connected, and asks to relay its tests if not."""
        if node.gateway.id not in self._relayed:
            self.host.link.send(protocol.WorkerReady(node.gateway.id))

    @pytest.hookimpl(optionalhook=True)
    @guest
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """All workers have the same tests; perhaps no other one sends them."""
        if node.gateway.id in self._relayed:
            wanted = Wanted(self._wanted)
            wanted.note_missing(ids)
            self.host.link.send(protocol.Collected(len(ids), wanted.missing))

    @guest
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """xdist hands on those that did not pass, each once, whichever worker sent it."""
        if report.failed and self._relayed:
            self.host.link.send(collection_failed(report, self.host.lens))

    # --- workers go -------------------------------------------------------------------------

    @pytest.hookimpl(optionalhook=True)
    @guest
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """A worker ended; without an error that is how it should be."""
        worker = node.gateway.id
        if error is not None:
            self._down.add(worker)
            self.host.link.send(protocol.WorkerLost(worker, self.host.lens.text(str(error))))
            self._relay(worker)
        elif worker not in self._relayed and _HAS_SENT not in node.workeroutput:
            self.host.link.send(protocol.WorkerLost(worker, _CONNECTION_LOST))
            self._relay(worker)
        self._reports.pop(worker, None)

    @guest
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Workers send their own reports; a dead one can't send that it crashed."""
        worker = report.node.gateway.id  # xdist's
        if worker in self._down:  # xdist's own
            self.host.link.send(self._relayed_node(worker, [report], has_ended=False))
            return
        self._reports[worker].append(report)
        if report.when in _LAST and worker in self._relayed:
            self._relay(worker)

    def _relay(self, worker: str) -> None:
        """Send the tests of a worker; the front end leaves out what it knows."""
        test: list[pytest.TestReport] = []
        for report in self._reports.pop(worker, ()):
            test.append(report)
            if report.when in _LAST:
                self.host.link.send(self._relayed_node(worker, test, has_ended=True))
                test = []
        if test:
            self.host.link.send(self._relayed_node(worker, test, has_ended=False))

    def _relayed_node(
        self, worker: str, reports: list[pytest.TestReport], *, has_ended: bool
    ) -> protocol.NodeRelayed:
        plain: Counter[str] = Counter()
        lens = self.host.lens
        phases, duration_s, began = [], 0.0, clock.wall()
        for report in reports:
            duration_s += report.duration
            began = min(began, getattr(report, "start", began))
            category = category_of(report, self.config)
            if category in JUST_PASSED and report.passed:
                plain.update([category] if category else ())
            else:
                make = partial(self._phase, report, category)
                phases.append(asdict(event_of_phase(report, category, make, lens)))
        return protocol.NodeRelayed(
            worker,
            lens.nodeids.of_report(reports[-1]),
            began,
            phases,
            dict(plain),
            duration_s,
            has_ended=has_ended,
        )

    def _phase(self, report: pytest.TestReport, category: str) -> protocol.PhaseReported:
        lens = self.host.lens
        crash = getattr(report.longrepr, "reprcrash", None)
        exception = None if crash is None else {"type": None, "message": lens.text(crash.message)}
        return phase_reported(report, category, lens, {"exception": exception})


class Worker:
    """Hooks of a worker only.

    Args:
        host: Its link sends this worker's tests.
        deadline_s: How long they may take to leave.
    """

    def __init__(self, host: Host, deadline_s: float) -> None:
        self.host = host
        self._deadline_s = deadline_s

    @pytest.hookimpl(tryfirst=True)
    @guest
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Before xdist sends it: its controller does not know what tests are called with."""
        self.host.lens.nodeids.note_in(report)

    @pytest.hookimpl(trylast=True)
    @guest
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Inside xdist's own, which then signals the controller that this worker is done."""
        if self.host.link.flush(self._deadline_s):
            vars(session.config)["workeroutput"][_HAS_SENT] = True
