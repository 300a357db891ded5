"""Pauses: makes their reports, parks the thread, runs resume and evaluate commands on it.

Hits come on the threads of the test; commands come on the I/O thread and are handed to the parked
thread through the gate. No user code runs on the I/O thread.
"""

from __future__ import annotations

import itertools
import os
import signal
from _thread import get_ident
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_cideldill import protocol
from pytest_cideldill.context import Context
from pytest_cideldill.errors import ErrorCode, Refusal, internal_error
from pytest_cideldill.evaluation.interrupt import Interruptor, getsignal
from pytest_cideldill.interpreter.borders import add_to, contained, every
from pytest_cideldill.objects.content_ids import Held
from pytest_cideldill.pauses.parking import (
    Gate,
    Job,
    Pause,
    Resolution,
    Stop,
    Work,
    pause_not_found,
)
from pytest_cideldill.pauses.repl import Console
from pytest_cideldill.pauses.report import StopReporter, take_out_misfits
from pytest_cideldill.pauses.resume import check_action

if TYPE_CHECKING:
    from pytest_cideldill.pauses.stepping import Steps

LINGER_S = 0.5
"""How long a thread that is released as the run ends waits for Ctrl-C, which follows at once."""


class Pauses:
    """The pauses of one process.

    Args:
        context: Threads that its guard marks don't pause.
        lease_s: Seconds that an untouched pause lasts.
        around_pause: Entered on a thread while it is parked.
        before_stop: Called on a thread before its stop is reported.
        flush: Waits, for a moment, until what was sent has left: the program may end at once.

    Attributes:
        pause_on: Which failures pause: `never | failure | error`.
        steps: What lets threads step, if anything does.
        decide: Decides at once how a thread goes on, in the place of a client; None: it is parked.
    """

    def __init__(
        self,
        context: Context,
        lease_s: float,
        around_pause: Callable[[], AbstractContextManager[None]],
        before_stop: Callable[[], None],
        flush: Callable[[], object],
    ) -> None:
        self.pause_on = "failure"
        self.decide: Callable[[Stop], Resolution] | None = None
        self._reporter = StopReporter(context.identity, context.position, context.lens)
        self._prefix = context.identity.prefix
        self._lens = context.lens
        self._guard = context.guard
        self._send = context.send
        self._before_stop = before_stop
        self._flush = flush
        self._console = Console(context)
        self._numbers = itertools.count(1)
        self._gate = Gate(
            lease_s, around_pause, self._on_stopped, self._on_resumed, self._lingers_s
        )
        self.steps: Steps | None = None
        # Thread → the pause that its step began at; it is the next pause, too.
        self._stepped: dict[int, Pause] = {}
        # Pause → the objects that its thread holds. Items are set and popped: atomic.
        self._held: dict[str, dict[str, Held]] = {}
        # Threads whose step has left the code of the user.
        self._outside: set[int] = set()
        self._tests = get_ident()
        self._pid = os.getpid()
        # Request → its evaluation; filled when the request arrives, so that an interrupt finds it.
        self._evaluations: dict[int, Interruptor] = {}
        # Requests that were interrupted, perhaps while they waited for their turn.
        self._cancelled: set[int] = set()
        # Request → the pause it touched and how long that lasts now.
        self._renewed: dict[int, tuple[str, float]] = {}

    # --- on the threads of the test ---------------------------------------------------------

    @property
    def are_over(self) -> bool:
        """Whether everything was released and nothing will pause any more."""
        return self._gate.is_open

    @property
    def are_waiting(self) -> bool:
        """Whether a thread is parked: commands must reach it."""
        return self._gate.holds_any

    @property
    def parked(self) -> dict[int, str]:
        """Thread → id of its pause, the newest pause last."""
        return self._gate.threads

    def pause(self, stop: Stop) -> Resolution:
        """Park the calling thread until it may go on."""
        # The last: in a child that C code forked, without the hooks of `os.fork`.
        if self._gate.is_open or self._guard.is_quiet() or os.getpid() != self._pid:
            return Resolution(by="stop")
        if self.decide is not None:
            return self.decide(stop)
        ident = get_ident()
        stepped = self._stepped.pop(ident, None)
        self._outside.discard(ident)
        if self.steps is not None:
            self.steps.halt()
        contained("what goes before a stop", self._before_stop, self._warn, None)
        self._lens.look_again()
        number = f"{self._prefix}.{next(self._numbers)}" if stepped is None else stepped.id
        frames, lines = stop.frames, stop.lines
        bare = self._reporter.bare(number, stop)
        report = {**bare, **stop.details}
        find = partial(self._reporter.shown, stop.phase, frames)
        pause = Pause(
            id=number,
            phase=stop.phase,
            frames=list(frames),
            report=report,
            resolve=stop.resolve or _only_continue,
            names=stop.names or {},
            lines=lines,
            shown=contained("looking for the frame of a stop", find, self._warn, 0),
        )
        seen = partial(self._reporter.see, pause, stepped)
        # First what others make: it notices secrets.
        add_to(report, stop.more, partial(self._reporter.report, frames, lines, stop.place), seen)
        keep = partial(take_out_misfits, report, bare)
        contained("the report of a stop", keep, self._warn, None)
        if stepped is not None:
            pause.take_sessions(stepped)
        if stop.held is not None:
            pause.held = stop.held
        self._held[number] = pause.held
        try:
            park = partial(self._gate.park, pause)
            return contained("a stop", park, self._warn, Resolution(by="stop"))
        finally:
            self._leave(pause)

    def _lingers_s(self) -> float:
        """Ctrl-C comes next when the run is ended, to the thread of the tests alone."""
        if get_ident() != self._tests or os.getpid() != self._pid or not self._gate.is_open:
            return 0.0
        return 0.0 if getsignal(signal.SIGINT) == signal.SIG_IGN else LINGER_S

    def _leave(self, pause: Pause) -> None:
        """Let go of what the thread held for its pause, before it goes on."""
        del self._held[pause.id]
        with self._guard.evaluating():  # some objects may end with that
            pause.held.clear()
        if self.steps is not None and get_ident() not in self._stepped:
            self.steps.leave()

    def _on_stopped(self, pause: Pause) -> None:
        self._send(protocol.Stopped(pause.report), urgent=True)

    def unsent(self, event: object) -> None:
        """An event that could not leave: nobody would resume a thread whose stop it is; any thread.

        That goes on at once.
        """
        if not isinstance(event, protocol.Stopped):
            return
        id, go_on = str(event.pause.get("id")), Resolution(by="stop")
        self._warn(f"the stop {id} could not be sent: the test went on")
        with suppress(Refusal):
            self._gate.submit(id, Job(lambda _: go_on, lambda: None))

    def _warn(self, message: str) -> None:
        self._send(protocol.Warned(message))

    def _on_resumed(self, pause: Pause, resolution: Resolution) -> None:
        """Whatever fails here, the thread goes on as its client chose."""
        action = resolution.reported_as or resolution.action
        resumed = protocol.Resumed(pause.id, action, resolution.by)
        steps = [partial(self._send, resumed, urgent=True), partial(self._go_on, pause)]
        every("going on after a stop", [*steps, self._flush], self._warn)

    def _go_on(self, pause: Pause) -> None:
        if get_ident() in self._stepped:
            pause.let_go()
        if get_ident() != self._tests:
            self.end_steps()

    # --- steps, on the threads that step ----------------------------------------------------

    def step_left(self) -> None:
        """The step of the calling thread has left the code of the user.

        It ends with the phase of the test: a failure may pause until then. Other threads have none.
        """
        self._outside.add(get_ident())
        if get_ident() != self._tests and get_ident() not in self._gate.threads:
            self.end_steps()

    def end_steps(self, *, all_of_them: bool = False) -> None:
        """End the step of the calling thread if it is outside, or in any case."""
        ident = get_ident()
        if ident not in self._stepped or not (all_of_them or ident in self._outside):
            return
        self._outside.discard(ident)
        pause = self._stepped.pop(ident)
        if self.steps is not None:
            self.steps.leave()
        self._send(protocol.StepEnded(pause.id), urgent=True)

    # --- on the I/O thread ------------------------------------------------------------------

    def resume(self, command: protocol.Resume) -> None:
        """Have a resume command checked, and obeyed, by the parked thread."""
        interruptor = self._evaluations[command.request] = Interruptor()

        def work(pause: Pause) -> Resolution:
            self._check_wanted(command.request)
            resolution = self._console.limited(interruptor, lambda: pause.resolve(command, pause))
            self.reply(command.request, result={"action": resolution.action})
            return resolution

        self._submit(command.request, command.pause_id, work)

    def step(self, command: protocol.Step, begin: Callable[[Pause], None]) -> None:
        """Have a parked thread go on to its next stop, which is the same pause.

        Args:
            begin: Called on the thread, to arm for the next stop; may refuse.
        """

        def work(pause: Pause) -> Resolution:
            plain = protocol.Resume(command.request, command.pause_id, "continue")
            with self._guard.evaluating():
                resolution = pause.resolve(plain, pause)
            self._stepped[get_ident()] = pause
            try:
                begin(pause)
            except BaseException:
                self._stepped.pop(get_ident(), None)
                raise
            self.reply(command.request, result={"action": "step"})
            return replace(resolution, reported_as="step")

        self._submit(command.request, command.pause_id, work)

    def evaluate(self, command: protocol.Evaluate) -> None:
        """Have an expression evaluated by the parked thread."""
        answer = partial(self._console.answer, command)
        self.ask_within_limits(command.request, command.pause_id, answer)

    def ask(self, request: int, pause_id: str, answer: Callable[[Pause], dict[str, Any]]) -> None:
        """Have a question answered by the parked thread. Raises Refusal: `pause_not_found`."""

        def work(pause: Pause) -> None:
            self.reply(request, result=answer(pause))

        self._submit(request, pause_id, work)

    def ask_within_limits(
        self, request: int, pause_id: str, answer: Callable[[Pause, Interruptor], dict[str, Any]]
    ) -> None:
        """Like `ask`, for an answer that may run user code: within the interruptor.

        Raises:
            Refusal: `pause_not_found`.
        """
        interruptor = self._evaluations[request] = Interruptor()

        def work(pause: Pause) -> None:
            self._check_wanted(request)
            self.reply(request, result=answer(pause, interruptor))

        self._submit(request, pause_id, work)

    def holder_of(self, cid: str) -> str | None:
        """The newest pause whose thread holds an object."""
        held = reversed(list(self._held.items()))
        return next((pause_id for pause_id, objects in held if cid in objects), None)

    def _check_wanted(self, request: int) -> None:
        if request in self._cancelled:
            raise Refusal(ErrorCode.EVAL_TIMEOUT, "an evaluation before this one took the time")

    def interrupt(self, request: int) -> None:
        """End an evaluation that takes too long; unknown requests are over already."""
        if (interruptor := self._evaluations.get(request)) is not None:
            self._cancelled.add(request)
            interruptor.interrupt()

    def release_all(self, by: str) -> None:
        """Let every thread go on; nothing pauses any more. `by` as in `Resumed`."""
        self._gate.release_all(by)
        for interruptor in list(self._evaluations.values()):
            interruptor.interrupt()

    def forget(self) -> None:
        """In a forked child: let its only thread pass; an evaluation that forked goes on."""
        self._gate.forget()

    def reply(
        self,
        request: int,
        result: dict[str, Any] | None = None,
        error: dict[str, Any] | None = None,
    ) -> None:
        """Answer a command, once."""
        self._evaluations.pop(request, None)
        self._cancelled.discard(request)
        if error is not None:  # what user code raised may be part of the message
            error = {**error, "message": self._lens.text(error["message"])}
        renewed = self._renewed.pop(request, (None, None))
        self._send(protocol.Replied(request, result, error, *renewed), urgent=True)

    def _submit(self, request: int, pause_id: str, work: Work) -> None:
        """Hand work to the parked thread; a failure there is answered, and it stays parked.

        Raises:
            Refusal: `pause_not_found`.
        """

        def guarded(pause: Pause) -> Resolution | None:
            self._renewed[request] = (pause.id, pause.report["lease_expires_at"])
            try:
                return work(pause)
            except Refusal as refusal:
                self.reply(request, error=refusal.to_plain())
            except Exception as error:  # noqa: BLE001 - a border: every request is answered
                self.reply(request, error=internal_error(error).to_plain())
            except BaseException:  # Ctrl-C while it ran: the pause ends, the client gets a reply
                reject()
                raise
            return None

        def reject() -> None:
            refusal = pause_not_found(pause_id)
            self.reply(request, error=refusal.to_plain())

        self._gate.submit(pause_id, Job(guarded, reject))


def _only_continue(command: protocol.Resume, pause: Pause) -> Resolution:
    check_action(pause.phase, command)
    return Resolution()
