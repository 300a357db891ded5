"""The `BreakpointManager`: owns probes and pauses of one process under test, obeys commands.

Commands arrive on the link's I/O thread (`apply`); hits happen on the threads of the test. The
manager's lock guards the set of probes only, and no user code runs under it. It is a guest: its own
failures are sent once (`Warned`) and the test goes on.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock
from collections.abc import Callable, Iterable
from functools import partial
from types import CodeType, FrameType
from typing import Any

from pytest_cideldill import protocol
from pytest_cideldill.callrecords.recorder import Recording
from pytest_cideldill.context import Context
from pytest_cideldill.discovery import IS_FREE, Discovery
from pytest_cideldill.errors import ErrorCode, Refusal, internal_error
from pytest_cideldill.evaluation.time_limit import CHECK_S
from pytest_cideldill.interpreter.borders import at_fork, contained, every
from pytest_cideldill.link.observers import Observers
from pytest_cideldill.pauses.calls import Calls
from pytest_cideldill.pauses.control import Control
from pytest_cideldill.pauses.pauses import Pauses
from pytest_cideldill.pauses.queries import Look, Looking
from pytest_cideldill.pauses.stops import Stops
from pytest_cideldill.probes.functions import FunctionProbes
from pytest_cideldill.probes.linehits import LineProbe, Surroundings
from pytest_cideldill.probes.lines import LineProbes
from pytest_cideldill.probes.nesting import Root
from pytest_cideldill.probes.raises import RaiseProbes
from pytest_cideldill.probes.replacing import check_replacement
from pytest_cideldill.probes.unhit import last_words
from pytest_cideldill.tracing.interface import Source


class BreakpointManager:
    """Owns the probes and pauses of one process under test, and obeys commands.

    Args:
        context: Shared with `pauses` and `recording`.
        passive: Nothing is armed here (xdist's controller, a process that only collects).

    Attributes:
        events: The source of events, for those that need one of their own; it may refuse.
    """

    def __init__(
        self,
        context: Context,
        pauses: Pauses,
        recording: Recording,
        observers: Observers,
        *,
        passive: bool = False,
    ) -> None:
        self.lens, self.warn, self._send = context.lens, context.warn, context.send
        self._guard, self._overtime = context.guard, context.overtime
        self._keeping = context.keeping
        self.pauses = pauses
        self._recording = recording
        self.add_observer, self.remove_observer = observers.add, observers.remove
        self._passive = passive
        self._lock = allocate_lock()
        self._is_stale, self._modules, self._from_start = False, 0, True
        self._is_held = False
        self._bound: dict[str, protocol.Bound] = {}  # breakpoint id → what was sent last of it
        self.relay: Callable[[str], object] = lambda _worker: None  # set by xdist's controller
        project, stops = context.project, Stops(context, pauses)
        self._stops = stops
        calls = Calls(context, pauses, recording, stops.as_guest)
        record = self._record if IS_FREE else None
        self._probes = FunctionProbes(context, calls, record, self._unrecord)
        surroundings = Surroundings(
            context.lens, context.overtime, context.position, context.rows, self._stop_at_line
        )
        self.lines = LineProbes(project, surroundings, self._source, self._on_line_bound)
        self.raises = RaiseProbes(
            project, context.guard, stops.at_raise, stops.at_uncaught, context.send
        )
        self._discovery: Discovery = Discovery(
            context, recording, self.lines, self.raises, self._probes, self._bind_started
        )
        self.events = self._discovery.needed
        self._looking = Looking(context, pauses)
        self.control = Control(context, pauses, stops.at_place, self._discovery.needed)
        at_fork(after_in_child=self._forget)

    # --- between the parts ------------------------------------------------------------------

    def _source(self) -> Source | None:
        return self._discovery.source

    def _record(self, code: CodeType, path: str) -> None:
        self._discovery.record(code, path)

    def _unrecord(self, code: CodeType) -> None:
        self._discovery.unrecord(code)

    def _bind_started(self, started: Root | None) -> None:
        """Code starts: its thread waits for no other one that binds."""
        self.bind(started, wait=False)

    def _stop_at_line(self, probe: LineProbe, frame: FrameType, number: int, reason: str) -> None:
        """The front end gets the passes that were counted before the stop."""
        __tracebackhide__ = True
        contained("counting before a stop", self.lines.report_passes_now, self.warn, None)
        self._stops.at_line(probe, frame, number, reason)

    # --- commands, on the I/O thread --------------------------------------------------------

    def apply(self, command: protocol.Command) -> None:
        """Carry out a command; its reply is sent at once, or by the parked thread when done."""
        try:
            self._apply(command)
        except Refusal as refusal:
            self._refuse(command, refusal)
        except Exception as error:  # noqa: BLE001 - a border: every request is answered
            self._refuse(command, internal_error(error))

    def _apply(self, command: protocol.Command) -> None:
        match command:
            case protocol.AddBreakpoint():
                self._set(command, self._add)
            case protocol.SetDefaultBehavior():
                with self._lock:
                    self._probes.set_default(command.behavior)
                self.bind()
            case protocol.AddLine():
                self._set(command, self._add_line)
            case protocol.AddException():
                self._set(command, self._add_exception)
            case protocol.RemoveBreakpoint():
                self.pauses.reply(command.request, self._remove(command))
            case protocol.Resume():
                self.pauses.resume(command)
            case protocol.Evaluate():
                self.pauses.evaluate(command)
            case _ if isinstance(command, Look):
                self._looking.answer(command)
            case protocol.Step() | protocol.PauseNow() | protocol.CancelPause():
                self.control.apply(command)
            case protocol.PauseOn():
                self.pauses.pause_on = command.pause_on
            case protocol.Interrupt():
                self.pauses.interrupt(command.request)
            case protocol.ReleaseAll():
                self.release(command.by)
            case protocol.Relay():
                self.relay(command.worker)
            case protocol.Refused():
                self.warn(f"the front end refused {command.refused_kind!r}: {command.reason}")
            case _:
                kind = protocol.kind_of(command)
                self._send(protocol.Refused(kind, "not expected after the handshake"), urgent=True)

    def _refuse(self, command: protocol.Command, refusal: Refusal) -> None:
        request = getattr(command, "request", None)
        if request is None:
            self.warn(refusal.message)
        else:
            self.pauses.reply(request, error=refusal.to_plain())

    def _set(
        self,
        command: protocol.AddBreakpoint | protocol.AddLine | protocol.AddException,
        add: Callable[[Any], protocol.Bound],
    ) -> None:
        """Set a breakpoint, unless nothing is armed here, and reply what it is bound to."""
        bound = protocol.Bound(command.id, [], verified=False) if self._passive else add(command)
        shown = ("functions", "verified", "message", "via")
        self.pauses.reply(command.request, {name: getattr(bound, name) for name in shown})

    def _add(self, command: protocol.AddBreakpoint) -> protocol.Bound:
        with self._lock:
            try:
                self._probes.add(command, from_start=self._from_start)
            except ValueError as error:
                raise Refusal(ErrorCode.INVALID_CONDITION, str(error)) from error
        self.bind()
        if command.replacement:
            functions = self._probes.functions_of(command.id)
            check_replacement(command.replacement, functions, self.lens.project)
        bound = self._bound.get(command.id, protocol.Bound(command.id, [], verified=False))
        refusal = self._probes.refusal(command.id)
        if refusal is not None and not bound.verified:
            raise Refusal(ErrorCode.CANNOT_INTERCEPT, refusal, function=command.function_name)
        return bound

    def _add_line(self, command: protocol.AddLine) -> protocol.Bound:
        with self._lock:
            try:
                probe = self.lines.want(command, from_start=self._from_start)
            except ValueError as error:  # the front end has checked them: another version of us
                raise Refusal(ErrorCode.INVALID_TEMPLATE, str(error)) from error
        self._want_events()
        with self._lock:
            if not self._from_start:
                self.lines.arm(probe.spec.file)
            self._guard.pin(True)
        bound = self._bound[command.id] = self.lines.bound(command.id)
        return bound

    def _add_exception(self, command: protocol.AddException) -> protocol.Bound:
        with self._lock:
            bound = self.raises.want(command, from_start=self._from_start)
        self._want_events()
        return bound

    def _remove(self, command: protocol.RemoveBreakpoint) -> dict[str, Any]:
        with self._lock:
            self._probes.remove(command.id)
            self.lines.remove(command.id)
            self.raises.remove(command.id)
            self._bound.pop(command.id, None)
        self.bind()
        return {"removed": True}

    # --- binding, on any thread -------------------------------------------------------------

    def apply_all(self, commands: Iterable[protocol.Command]) -> None:
        """Carry out commands, and look for functions once, in `begin`: it takes its time where much
        is loaded.
        """
        self._is_held = True
        for command in commands:
            self.apply(command)
        self._is_held = False

    def begin(self) -> None:
        """All that was wanted before the tests is there."""
        self.bind()  # opens the source when calls are recorded
        self.lines.arm()
        self._from_start = False

    def bind(self, started: Root | None = None, *, wait: bool = True) -> None:
        """Look for functions that breakpoints mean, and send what is new.

        Args:
            started: Only for those in code that starts now.
            wait: Whether to wait for another thread that binds. Callbacks don't: their thread may
                be that one, in a finalizer; it looks again when it is done.
        """
        if self._passive or self._is_held or self.pauses.are_over:
            return
        self._is_stale = True
        while self._is_stale and self._lock.acquire(wait):
            try:
                self._is_stale = False
                self._modules = len(sys.modules)
                bound = self._probes.bind(started)
            finally:
                self._lock.release()
            started = None
            self._send_new(bound)
        self._want_events()

    def _want_events(self) -> None:
        wanted = self._recording.wants_any or self._probes.are_any or self.lines.are_any
        pending = any(not (each.functions or each.message) for each in [*self._bound.values()])
        imports = pending and self._probes.await_import
        self._discovery.want(wanted, pending=pending, imports=imports)

    def _send_new(self, bound: list[protocol.Bound]) -> None:
        for each in bound:
            if self._bound.get(each.id) != each:
                self._bound[each.id] = each
                self._send(each)

    def bind_new(self) -> None:
        """`bind` when breakpoints exist and modules were imported since the last look."""
        if self.raises.were_any:  # each phase of each test comes here
            with self._lock:
                self.raises.refresh()
        self._discovery.refresh()
        if self._bound and len(sys.modules) != self._modules:
            self.bind()

    def release(self, by: str) -> None:
        """Let everything go on and watch nothing any more: the test finishes as without us."""
        is_first = not self.pauses.are_over
        self.pauses.release_all(by)
        steps: list[Callable[[], object]] = [
            self._send_passes,
            *([self._send_last_words] if is_first else []),
            self._discovery.close,
            *map(self._locked, (self._probes.disarm, self.lines.disarm, self.raises.disarm)),
            partial(self._guard.pin, False),
            self._overtime.close,
        ]
        every("the end of watching", steps, self.warn)

    def _send_passes(self) -> None:
        for passed in self.lines.passes(at_once=True):
            self._send(passed)

    def _send_last_words(self) -> None:
        parts = (self._probes, self.lines, self.raises, self._recording)
        facts = [part.unhit for part in parts]
        self._send(last_words(facts, self.warn, blind=self._discovery.has_lost))

    def _locked(self, step: Callable[[], object]) -> Callable[[], object]:
        def work() -> None:
            with self._lock:
                step()

        return work

    def look_around(self) -> list[protocol.Event]:
        """What is to be done now and then, before something is sent; on the I/O thread."""
        every("looking around", (self._overtime.check, self._keeping.write), self.warn)
        return contained("looking around", self._passes, self.warn, [])

    def _passes(self) -> list[protocol.Event]:
        if not self.lines.are_any:
            return []
        if self._lock.acquire(False):  # else it is done the next time
            try:
                self.lines.retire()
            finally:
                self._lock.release()
        return self.lines.passes()

    @property
    def looks_around_s(self) -> float | None:
        """How often `look_around` must be called although nothing is sent; None: never."""
        return CHECK_S if self.lines.are_any or self._probes.are_any else None

    def _forget(self) -> None:
        """In a forked child: nobody would ever release a pause there."""
        self._lock = allocate_lock()  # another thread of the parent may have held it
        parts = (self._guard, self.pauses, self._keeping, self.control, self._probes)
        steps = [*(part.forget for part in parts), self.lines.disarm, self.raises.disarm]
        every("a fork", steps, self.warn)

    def _on_line_bound(self, id: str) -> None:
        self._send_new([self.lines.bound(id)])
