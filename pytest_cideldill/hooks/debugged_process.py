"""A process that is debugged, or has tracepoints: everything that watches, put together.

Half of our modules; runs in which nothing is watched do without (`host.Unwatched`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pytest

from pytest_cideldill.callrecords.recorder import Recording
from pytest_cideldill.config.settings import Settings
from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.evaluation.time_limit import Overtime
from pytest_cideldill.hooks.assertion_explanations import keep_out
from pytest_cideldill.hooks.failure_reports import Autopsies
from pytest_cideldill.hooks.log_fixture import Timeline
from pytest_cideldill.hooks.post_mortem import PostMortem
from pytest_cideldill.hooks.private_files import objects_path
from pytest_cideldill.hooks.set_trace import UserBreakpoints
from pytest_cideldill.hooks.timeouts import Watchdogs
from pytest_cideldill.link.handshake import Invitation
from pytest_cideldill.link.observers import Observers
from pytest_cideldill.link.position import Position
from pytest_cideldill.link.row_log import RowLog
from pytest_cideldill.link.sinks import Outlet
from pytest_cideldill.link.threaded import ThreadedLink
from pytest_cideldill.manager import BreakpointManager
from pytest_cideldill.objects.keeping import Keeping
from pytest_cideldill.pauses.pauses import Pauses
from pytest_cideldill.pauses.report import Identity
from pytest_cideldill.probes.functiontraces import FunctionTraces
from pytest_cideldill.protocol import AddTrace, Changed, Command, Configure, Event
from pytest_cideldill.protocol.rows import Batch
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.tracing.interface import source_class

source_class()  # imported before the tests, although it may never be opened

RESUME_S = 0.2
"""How long a thread that goes on may wait until the front end can know it."""


class Debugged:
    """See the module, and `host.Host`.

    Args:
        config: pytest's.
        invitation: Names the run, and where its files are.
        worker: Name of the process.
        configure: What the front end says.
        settings: Of this process.
        redactor: Knows secrets.
        lens: Shows what the process holds.
        outlets: Where events go.
        passive: Nothing is armed here (xdist's controller, a process that only collects).

    Attributes:
        manager: Of breakpoints.
    """

    def __init__(
        self,
        config: pytest.Config,
        invitation: Invitation,
        worker: str,
        configure: Configure,
        settings: Settings,
        redactor: Redactor,
        lens: Lens,
        outlets: Sequence[Outlet],
        *,
        passive: bool,
    ) -> None:
        self._has_client = invitation.address is not None
        self.lens, self.position, self._outlets = lens, Position(), outlets
        link = self.link = ThreadedLink(
            outlets,
            on_command=self._obey,
            on_lost=lambda: manager.release("disconnect"),
            is_awaited=lambda: pauses.are_waiting,
            mark=lambda item: rows.mark(item),
            collect=lambda until, late: _collect(rows.batches(until, late), observers, manager),
            collects_every_s=lambda: manager.looks_around_s,
            on_unsent=lambda event: pauses.unsent(event),
        )
        rows = RowLog(self._nudge, lambda row: recording.loses(row), link.has_room)
        observers = Observers(link.send)
        guard = EvaluationGuard()
        self.untold: list[str] = []
        self._watchdogs = Watchdogs(config, guard, self)
        self.pauses = self._watchdogs.pauses
        overtime = Overtime(guard)
        identity = Identity(invitation.run_id, worker)
        key = bytes.fromhex(configure.tag_key)
        kept = (objects_path(config, invitation, identity), redactor, key, guard, settings.limits)
        keeping = self._keeping = Keeping(*kept, self._flush, self.warn)
        if not passive:
            keeping.open()
        pauses = Pauses(
            identity,
            self.position,
            lens,
            guard,
            observers.send,
            configure.lease_s,
            self._watchdogs.paused,
            keeping,
            before_stop=lambda: recording.tell_running(),
            flush=self._flush,
        )
        pauses.pause_on = configure.pause_on
        recorded = () if passive else configure.record_calls
        self._traces = FunctionTraces(lens, overtime, self.position, rows)
        shown = (lens, rows.add, self.position, identity.prefix, keeping.objects)
        recording = Recording(recorded, *shown, None if passive else self._traces)
        shared = (lens, guard, pauses, recording, overtime, keeping, observers)
        manager = self.manager = BreakpointManager(*shared, rows, passive=passive)
        self.timeline = Timeline(lens, self.position, rows.add, self)

    def _nudge(self) -> None:
        """The first row of a batch lies ready; others may tell secrets that came with it."""
        self.lens.look_again()
        self.link.nudge()

    def begin(self, commands: Iterable[Command | Event]) -> None:
        """See `Host`."""
        for command in commands:
            self._carry_out(command)
        self.manager.begin()

    def warn(self, message: str) -> None:
        """See `Host`."""
        if self.link.is_open:
            self.manager.warn(message)
        elif message not in self.untold:
            self.untold.append(message)

    def bind(self) -> None:
        """See `Host`."""
        self.manager.bind()

    def enter(self, *, is_over: bool) -> None:
        """See `Host`."""
        keep_out()
        self.manager.bind_new()
        self.manager.pauses.end_steps(all_of_them=is_over)

    def renew(self) -> None:
        """See `Host`."""
        self.manager.lines.renew()

    def relay_by(self, tell: Callable[[str], object]) -> None:
        """See `Host`."""
        self.manager.relay = tell

    def pausing(self, autopsies: Autopsies) -> list[object]:
        """See `Host`."""
        return [PostMortem(self.manager, autopsies), self._watchdogs] if self._has_client else []

    def hear(self, *, passes: bool) -> list[Callable[[], object]]:
        """See `Host`."""
        if not self._has_client:
            return []
        asked = UserBreakpoints(self.manager, passes=passes)
        asked.install()
        return [asked.restore, self.manager.control.hear_signals()]

    def release(self) -> None:
        """See `Host`."""
        self.manager.release("stop")

    def settle(self, deadline_s: float) -> None:
        """See `Host`."""
        self._keeping.end()
        self.link.flush(deadline_s)

    def close(self) -> None:
        """See `Host`."""
        self._keeping.close()

    def _obey(self, command: Command) -> None:
        for each in self._outlets:
            each.note(command)
        self._carry_out(command)

    def _carry_out(self, command: Command | Event) -> None:
        """But for those that are for the record only."""
        if isinstance(command, AddTrace):
            self._traces.add(command)
        elif not isinstance(command, Changed):
            self.manager.apply(command)  # type: ignore[arg-type]  # it refuses events by name

    def _flush(self) -> None:
        self.link.flush(RESUME_S)


def _collect(
    batches: Iterable[Batch | Event], observers: Observers, manager: BreakpointManager
) -> Iterator[Event | Batch]:
    """In this order: an object is written before the event that names it leaves."""
    for each in batches:
        if observers.are_any:
            observers.notify(each.event() if isinstance(each, Batch) else each)
        yield each
    yield from manager.look_around()
