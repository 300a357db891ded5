"""Parks a thread of the process under test, runs commands on it, lets it go on.

A parked thread waits on a queue of its own and runs the jobs that are put there, so that
evaluations happen on the thread that hit. No lock is held while a job runs. Any thread may submit;
the leases and `release_all` make sure that nobody waits for ever.
"""

from __future__ import annotations

import os
from _queue import Empty, SimpleQueue
from _thread import allocate_lock, get_ident
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import field
from types import FrameType
from typing import Any, Final

from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.objects.content_ids import Held
from pytest_cideldill.protocol import Resume
from pytest_cideldill.protocol.current_test_file import During


@dataclass(frozen=True, slots=True)
class Resolution:
    """How a parked thread goes on.

    Attributes:
        action: `continue`, `skip`, `raise`, …
        by: `client | lease | disconnect | stop`.
        value: What the action needs (arguments, a result, an exception).
        reported_as: The action in `Resumed`, where it is another one.
    """

    action: str = "continue"
    by: str = "client"
    value: Any = None
    reported_as: str | None = None


_ENDS: Final = frozenset({"stop", "disconnect"})
"""Who releases because the run is ended."""

Seen = dict[str, tuple[int, str]]
"""The locals of a frame: name → id of the value, and how it was shown."""


Resolve = Callable[[Resume, "Pause"], Resolution]
"""From a resume command to a resolution, on the parked thread; raises refusals."""


def _let_go(_command: Resume, pause: Pause) -> Resolution:
    raise pause_not_found(pause.id)


@dataclass(slots=True)
class Pause:
    """A parked thread, from the hit to the moment it goes on. Written by that thread only.

    Attributes:
        id: `RUN.WORKER.NUMBER`.
        phase: `before`, `post_mortem`, …; decides which actions are allowed.
        frames: What can be evaluated in, innermost first.
        report: The pause as clients get it, plain data.
        resolve: From a resume command to a resolution, on the parked thread; raises refusals.
        names: What REPL sessions begin with.
        lines: The current line of each frame where it is not the frame's own (tracebacks).
        shown: Index of the frame in which expressions are evaluated by default.
        namespaces: REPL sessions by id.
        touched: Whether an evaluation ran, so that arguments must be read again.
        seen: What was reported of the locals of its frames, here and where its steps began; by id.
        held: The objects that clients may ask for, by content id.
    """

    id: str
    phase: str
    frames: list[FrameType]
    report: dict[str, Any]
    resolve: Resolve
    names: dict[str, Any] = field(default_factory=dict)
    lines: Sequence[int] | None = None
    shown: int = 0
    namespaces: dict[str, dict[str, Any]] = field(default_factory=dict)
    touched: bool = False
    seen: dict[int, Seen] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)

    def let_go(self) -> None:
        """Keep no object of the program while it goes on to its next stop; but the sessions."""
        for namespace in self.namespaces.values():
            for name in self.names:
                namespace.pop(name, None)
        self.names = {}
        self.frames.clear()
        self.resolve = _let_go

    def take_sessions(self, before: Pause) -> None:
        """Go on with the REPL sessions of the stop before."""
        self.namespaces = before.namespaces
        self.report["repl_sessions"] = before.report["repl_sessions"]
        for namespace in self.namespaces.values():
            namespace.update(self.names)


@dataclass(frozen=True, slots=True, eq=False)
class Stop:
    """Where and why a thread stops: what a pause is made of.

    Attributes:
        phase: `before`, `post_mortem`, …
        reason: The contract's `pause_reason`.
        frames: What can be evaluated in, innermost first; not empty.
        details: Further keys of the pause.
        resolve: Checks a resume command on this thread; None: only `continue`.
        more: Makes further keys; where it fails the thread stops all the same.
        held: Objects that clients may ask for, by content id; let go when the thread goes on.
        lines: The current line of each frame where it is not the frame's own (tracebacks).
        names: What evaluations see besides the names of the frame.
        place: The location in the report, with no locals, if no frame is the user's.
        during: The test in which the thread came here; None: the present one.
    """

    phase: str
    reason: str
    frames: Sequence[FrameType]
    details: Mapping[str, Any] = field(default_factory=dict)
    resolve: Resolve | None = None
    more: Callable[[], dict[str, Any]] = dict
    held: dict[str, Held] | None = None
    lines: Sequence[int] | None = None
    names: dict[str, Any] | None = None
    place: dict[str, Any] | None = None
    during: During | None = None


Work = Callable[[Pause], Resolution | None]
"""Runs on the parked thread; a resolution ends the pause."""


@dataclass(frozen=True, slots=True)
class Job:
    """Work for a parked thread, and what to call instead when the thread went on before."""

    work: Work
    reject: Callable[[], None]


class _Parked:
    """The queue of one pause. `lock` guards `resolved` and the last look into the queue."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Job] = SimpleQueue()
        self.lock = allocate_lock()
        self.resolved = False

    def put(self, job: Job) -> bool:
        with self.lock:
            if not self.resolved:
                self.jobs.put(job)
            return not self.resolved

    def close(self) -> list[Job]:
        left = []
        with self.lock:
            self.resolved = True
            while not self.jobs.empty():
                left.append(self.jobs.get_nowait())
        return left


class Gate:
    """All parked threads of this process.

    Args:
        lease_s: Seconds that a pause lasts when nothing touches it.
        around: Entered on the thread for as long as it is parked (timers, durations).
        on_stopped: Called on the thread when commands can reach it.
        on_resumed: Called on the thread when it goes on.
        lingers_s: How long the calling thread, which is released, waits for Ctrl-C, if at all.
    """

    def __init__(
        self,
        lease_s: float,
        around: Callable[[], AbstractContextManager[None]],
        on_stopped: Callable[[Pause], None],
        on_resumed: Callable[[Pause, Resolution], None],
        lingers_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._lease_s = lease_s
        self._around = around
        self._on_stopped = on_stopped
        self._on_resumed = on_resumed
        self._lingers_s = lingers_s
        # Pause id → queue. Single dict operations are atomic; iteration copies first.
        self._parked: dict[str, _Parked] = {}
        # Pause id → thread, the same way.
        self._threads: dict[str, int] = {}
        self._released_by: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether nothing pauses any more (`release_all` was called)."""
        return self._released_by is not None

    @property
    def holds_any(self) -> bool:
        """Whether a thread is parked."""
        return bool(self._parked)

    @property
    def threads(self) -> dict[int, str]:
        """Thread → id of its pause, the newest pause last."""
        return {ident: pause_id for pause_id, ident in self._threads.copy().items()}

    def park(self, pause: Pause) -> Resolution:
        """Hold the calling thread until it is resumed, its lease ends or everything is released.

        KeyboardInterrupt and other signals' exceptions pass through, the pause being closed then.
        """
        parked = self._parked[pause.id] = _Parked()
        if self._released_by is not None:  # looked at after registering: see release_all
            del self._parked[pause.id]
            return Resolution(by=self._released_by)
        pause.report["lease_expires_at"] = clock.wall() + self._lease_s
        resolution = Resolution(by="stop")
        self._threads[pause.id] = get_ident()
        try:
            with self._around():
                self._on_stopped(pause)
                resolution = self._serve(pause, parked)
                if resolution.by in _ENDS and (wait_s := self._lingers_s()):
                    self._close(pause, parked, resolution)
                    # If it went on, the interrupt would hit in the middle of a teardown.
                    with suppress(Empty):
                        SimpleQueue[None]().get(timeout=wait_s)
            return resolution
        finally:
            self._close(pause, parked, resolution)

    def _close(self, pause: Pause, parked: _Parked, resolution: Resolution) -> None:
        """Take nothing more for this pause, and report that it is over; once."""
        if self._parked.pop(pause.id, None) is None:
            return
        self._threads.pop(pause.id, None)
        for job in parked.close():
            job.reject()
        self._on_resumed(pause, resolution)

    def submit(self, pause_id: str, job: Job) -> None:
        """Hand work to a parked thread and renew its lease.

        Raises:
            Refusal: `pause_not_found`; nothing of that id is parked (any more).
        """
        parked = self._parked.get(pause_id)
        if parked is None or not parked.put(job):
            raise pause_not_found(pause_id)

    def release_all(self, by: str) -> None:
        """Let every parked thread go on, and everything that would park later as well."""
        self._released_by = by
        for parked in list(self._parked.values()):
            parked.put(Job(lambda _: Resolution(by=by), lambda: None))

    def forget(self) -> None:
        """In a forked child: of all threads only this one is left; it goes on, parked or not."""
        ident = get_ident()
        self._threads = {id: thread for id, thread in self._threads.items() if thread == ident}
        self._parked = {id: self._parked[id] for id in self._threads}
        for parked in self._parked.values():
            parked.lock = allocate_lock()  # another thread of the parent may have held it
        self.release_all("disconnect")

    def _serve(self, pause: Pause, parked: _Parked) -> Resolution:
        while True:
            try:
                job = parked.jobs.get(timeout=self._lease_s)
            except Empty:
                return Resolution(by="lease")
            pause.report["lease_expires_at"] = clock.wall() + self._lease_s
            resolution = job.work(pause)
            if resolution is not None:
                return resolution


def pause_not_found(pause_id: str) -> Refusal:
    """The refusal for an id that is not parked here; the front end asks only for what was."""
    return Refusal(
        ErrorCode.PAUSE_NOT_FOUND,
        f"pause {pause_id!r} was resumed already; breakpoint_list_paused shows what is paused",
        pause_id=pause_id,
        reason="already_resumed",
    )


def namespace_of(pause: Pause, session_id: str | None) -> tuple[str, dict[str, Any]]:
    """A REPL session of the pause; without an id its first one, made when there is none."""
    if session_id is None:
        session_id = next(iter(pause.namespaces), None)
    if session_id is None:
        session_id = f"{os.getpid()}-{clock.wall():.6f}"
        pause.namespaces[session_id] = dict(pause.names)
        pause.report["repl_sessions"].append(session_id)
    if session_id not in pause.namespaces:
        raise Refusal(
            ErrorCode.SESSION_NOT_FOUND,
            f"no REPL session {session_id!r} at pause {pause.id}; leave session_id out to use the "
            "pause's own",
            session_id=session_id,
        )
    return session_id, pause.namespaces[session_id]


def frame_of(pause: Pause, index: int | None) -> FrameType:
    """A frame of the pause, 0 being the innermost; refuses others as `invalid_frame`.

    None: that which the pause shows.
    """
    if index is None:
        index = pause.shown
    if not 0 <= index < len(pause.frames):
        raise Refusal(
            ErrorCode.INVALID_FRAME,
            f"frame_index {index} is outside 0 to {len(pause.frames) - 1}",
            frame_index=index,
        )
    return pause.frames[index]
