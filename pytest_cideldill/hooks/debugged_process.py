"""A process that is debugged, or has tracepoints, as the hooks know it.

Imported where something is watched only; other runs do without (`host.Unwatched`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import pytest

from pytest_cideldill.composition import Process, ProcessOptions
from pytest_cideldill.context import Identity
from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.hooks.assertion_explanations import keep_out
from pytest_cideldill.hooks.failure_reports import Autopsies
from pytest_cideldill.hooks.guest import clean_up
from pytest_cideldill.hooks.host import Host
from pytest_cideldill.hooks.log_fixture import Timeline
from pytest_cideldill.hooks.post_mortem import PostMortem
from pytest_cideldill.hooks.set_trace import UserBreakpoints
from pytest_cideldill.hooks.timeouts import Watchdogs
from pytest_cideldill.link.ended_tests import EndedTests
from pytest_cideldill.link.handshake import Invitation
from pytest_cideldill.link.sinks import Outlet
from pytest_cideldill.link.threaded import ThreadedLink
from pytest_cideldill.protocol import Command, Configure, Event, NodeFinished, NodeStarted
from pytest_cideldill.protocol.current_test_file import PositionFile
from pytest_cideldill.records.format import PART_OBJECTS, part
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.tracing.interface import source_class

source_class()  # imported before the tests, although it may never be opened


def options_of(
    config: pytest.Config,
    invitation: Invitation,
    worker: str,
    configure: Configure,
    *,
    passive: bool,
) -> ProcessOptions:
    """What the front end decides about this process.

    Args:
        invitation: Names the run, and where its files are.
        passive: Nothing is armed here (xdist's controller, a process that only collects).
    """
    identity = Identity(invitation.run_id, worker)
    return ProcessOptions(
        identity=identity,
        objects_path=_objects_path(config, invitation, identity),
        key=bytes.fromhex(configure.tag_key),
        lease_s=configure.lease_s,
        pause_on=configure.pause_on,
        record_calls=configure.record_calls,
        passive=passive,
    )


def _objects_path(config: pytest.Config, invitation: Invitation, identity: Identity) -> str:
    """Where the objects of this process are kept."""
    if invitation.record is not None:
        return str(part(Path(invitation.record), identity.worker, os.getpid(), PART_OBJECTS))
    directory = invitation.directory or _own_directory(config)
    return os.path.join(directory, f"{identity.prefix}.{os.getpid()}.objects")


def _own_directory(config: pytest.Config) -> str:
    """For objects of a process on another machine, which are found only as long as it lives."""
    try:
        directory = tempfile.mkdtemp(prefix="cideldill-")
    except OSError:
        return os.devnull  # nothing can be stored there
    clean_up(config, "removing objects", partial(shutil.rmtree, directory, ignore_errors=True))
    return directory


class Debugged(Host):
    """The host of a process that is debugged, or has tracepoints.

    Args:
        has_client: Whether a client can resume pauses.
        file: Keeps tests that ended until their ends have left, if there is one.
    """

    def __init__(
        self,
        config: pytest.Config,
        lens: Lens,
        outlets: Sequence[Outlet],
        options: ProcessOptions,
        *,
        has_client: bool,
        file: PositionFile | None,
    ) -> None:
        self._has_client = has_client
        self.lens = lens
        self.link = ThreadedLink(outlets)
        is_recorded = len(outlets) > 1
        kept = None if file is None else file.rows
        self._tests = EndedTests(self.link, kept, waits=not is_recorded) if has_client else None
        guard = EvaluationGuard()
        self._watchdogs = Watchdogs(config, guard, self)
        self.pauses = self._watchdogs.pauses
        self._process = Process(self.link, lens, options, guard, self._watchdogs.paused)
        self.link.attach(self._process)
        self.manager = self._process.manager
        self.position = self._process.context.position
        self.warnings = self._process.warnings
        self.timeline = Timeline(lens, self.position, self._process.rows.add, self)

    def begin(self, commands: Iterable[Command | Event]) -> None:
        for command in commands:
            self._process.carry_out(command)
        self.manager.begin()

    def bind(self) -> None:
        self.manager.bind()

    def enter(self, *, is_over: bool) -> None:
        if not is_over:  # nothing of the program runs before the next one
            keep_out()
            self.manager.bind_new()
        self.manager.pauses.end_steps(all_of_them=is_over)

    def started(self, event: NodeStarted) -> None:
        if self._tests is None:
            super().started(event)
        else:
            self._tests.started(event)

    def ended(self, event: NodeFinished, reports: list[list[str]]) -> None:
        if self._tests is None:
            super().ended(event, reports)
        else:
            self._tests.ended(event, reports)

    def renew(self) -> None:
        self.manager.lines.renew()

    def relay_by(self, relay: Callable[[str], object]) -> None:
        self.manager.relay = relay

    def pausing(self, autopsies: Autopsies) -> list[object]:
        return [PostMortem(self.manager, autopsies), self._watchdogs] if self._has_client else []

    def hear(self, *, passes: bool) -> list[Callable[[], object]]:
        if not self._has_client:
            return []
        breakpoints = UserBreakpoints(self.manager, passes=passes)
        breakpoints.install()
        return [breakpoints.restore, self.manager.control.hear_signals()]

    def release(self) -> None:
        self.manager.release("stop")

    def settle(self, deadline_s: float) -> None:
        self._process.context.keeping.end()
        self.link.flush(deadline_s)

    def close(self) -> None:
        self._process.context.keeping.close()
