"""The composition root: everything that watches one process, put together.

Half of our modules; runs in which nothing is watched do without (`hooks.host.Unwatched`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from pytest_cideldill.callrecords.recorder import Recording
from pytest_cideldill.context import Context, Identity
from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.evaluation.time_limit import Overtime
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.link.observers import EventLink, Observers, Warnings
from pytest_cideldill.link.row_log import RowLog
from pytest_cideldill.link.threaded import LinkOwner
from pytest_cideldill.manager import BreakpointManager
from pytest_cideldill.objects.keeping import Keeping
from pytest_cideldill.pauses.pauses import Pauses
from pytest_cideldill.probes.functiontraces import FunctionTraces
from pytest_cideldill.protocol import AddTrace, Changed, Command, Event
from pytest_cideldill.protocol.current_test_file import Position
from pytest_cideldill.protocol.rows import Batch
from pytest_cideldill.rendering.display import Lens

RESUME_S = 0.2
"""How long a thread that goes on may wait until the front end can know it."""


class ProcessLink(EventLink, Protocol):
    """What a process needs of its link; `link.threaded.ThreadedLink`, or one of the tests."""

    def nudge(self) -> None:
        """Rows lie ready."""

    def has_room(self) -> bool:
        """Whether more rows can be taken now."""


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """What is decided about a process before it is put together.

    Attributes:
        key: Of the run, secret.
        lease_s: Seconds that an untouched pause lasts.
        pause_on: Which failures pause: `never | failure | error`.
        record_calls: Globs over dotted paths; whose calls are recorded.
        identifies: Whether the arguments and results of recorded calls get content ids.
        passive: Nothing is armed here (xdist's controller, a process that only collects).
    """

    identity: Identity
    objects_path: str
    key: bytes
    lease_s: float
    pause_on: str = "failure"
    record_calls: Sequence[str] = ()
    identifies: bool = True
    passive: bool = False


class Process(LinkOwner):
    """Makes and connects all parts that watch one process; then have the link `attach` it.

    Args:
        guard: Marks threads that evaluate for us.
        around_pause: Entered on a thread for as long as it is parked.

    Attributes:
        warnings: What could not be sent among them.
    """

    def __init__(
        self,
        link: ProcessLink,
        lens: Lens,
        options: ProcessOptions,
        guard: EvaluationGuard,
        around_pause: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._link, self._lens = link, lens
        self._observers = Observers(link.send)
        send = self._observers.send
        self.rows = RowLog(self._nudge, link.has_room)
        self.warnings = Warnings(link, send, lens.text)
        warn, flush = self.warnings.warn, self._flush
        keeping = Keeping(options.objects_path, options.key, lens, guard, flush, warn)
        if not options.passive:
            keeping.open()
        self.context = context = Context(
            identity=options.identity,
            lens=lens,
            guard=guard,
            overtime=Overtime(guard),
            position=Position(),
            rows=self.rows,
            keeping=keeping,
            send=send,
            warn=warn,
        )
        self._traces = FunctionTraces(lens, context.overtime, context.position, self.rows)
        recording = Recording(
            context,
            () if options.passive else options.record_calls,
            keeping.objects if options.identifies else None,
            None if options.passive else self._traces,
        )
        self.rows.loses = recording.loses
        self.pauses = Pauses(
            context, options.lease_s, around_pause, recording.log_running, self._flush
        )
        self.pauses.pause_on = options.pause_on
        self.manager = BreakpointManager(
            context, self.pauses, recording, self._observers, passive=options.passive
        )

    def carry_out(self, command: Command | Event) -> None:
        """Obey a command, but for those that are for the record only."""
        if isinstance(command, AddTrace):
            self._traces.add(command)
        elif not isinstance(command, Changed):
            self.manager.apply(command)  # type: ignore[arg-type]  # it refuses events by name

    def _nudge(self) -> None:
        """The first row of a batch lies ready; others may tell secrets that came with it."""
        self._lens.look_again()
        self._link.nudge()

    def _flush(self) -> None:
        self._link.flush(RESUME_S)

    # --- what the link calls ----------------------------------------------------------------

    @property
    def is_awaited(self) -> bool:
        return self.pauses.are_waiting

    @property
    def collects_every_s(self) -> float | None:
        return self.manager.looks_around_s

    def on_command(self, command: Command) -> None:
        self.carry_out(command)

    def on_lost(self) -> None:
        self.manager.release("disconnect")

    def on_unsent(self, event: object) -> None:
        self.pauses.unsent(event)

    def mark(self, item: object) -> None:
        self.rows.mark(item)

    def is_next(self, item: object) -> bool:
        return self.rows.is_next(item)

    def collect(self, until: object, is_late: bool) -> Iterable[Event | Batch]:
        """In this order: an object is written before the event that names it leaves."""
        return self._collected(self.rows.batches(until, is_late))

    def _collected(self, batches: Iterable[Batch | Event]) -> Iterator[Event | Batch]:
        for batch in batches:
            if self._observers.are_any:
                self._observers.notify(batch.event() if isinstance(batch, Batch) else batch)
            yield batch
        yield from self.manager.look_around()
