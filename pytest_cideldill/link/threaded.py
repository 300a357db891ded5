"""The link with a thread of its own: one raw background thread sends and receives.

The thread is the only one that touches the outlets: the front end's socket, the file of a recorded
run. It runs no user code and logs nothing.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.borders import at_fork
from pytest_cideldill.link.io_thread import RawThread
from pytest_cideldill.link.sinks import Outlet
from pytest_cideldill.link.wakeup import Bell, LockBell, SocketBell
from pytest_cideldill.protocol import Command, Event, MalformedMessage, Refused, Warned, from_plain
from pytest_cideldill.protocol.framing import FrameError
from pytest_cideldill.protocol.rows import Batch

BATCH_S = 0.01
"""How long an event that is not urgent may wait for others: a wake-up gets in the tests' way."""

FILE_BATCH_S = 0.05
"""The same for a file alone; `docs/record_format.md`: a killed process may lose 100 ms of it."""

SETTLED_S = 0.02
"""How old what is queued for a file may be when a test begins."""

SETTLING_S = 0.03
"""How long that may be waited for; was it too short there is much to do, and it is not tried again
in the next second."""

HIGH_WATER = 1024 * 1024
"""Unsent bytes from which on nothing more is encoded; rows that wait are bounded where they are."""

PATIENCE_S = 10.0
"""How long an event may wait for rows before it; then all but a few are dropped and counted. A stop
must not come late, and xdist kills workers that don't end in time."""

AGAIN_S = 0.1
"""How often another connection is tried while the program has used up all descriptors."""

_FORK_WAIT_S = 0.1
"""Twice this much a fork may be held up by an I/O thread that is busy; usually it takes 0.2 ms."""

_Stamped = tuple[float, Event | Callable[[], object]]
"""An event, which gets its number when it leaves, or a call to make then, with epoch seconds."""


class LinkOwner:
    """What a link calls; this one has nothing to send and obeys nothing."""

    @property
    def is_awaited(self) -> bool:
        """Whether commands must arrive although no event is sent: a thread is parked.

        Then the I/O thread comes back right after a fork.
        """
        return False

    @property
    def collects_every_s(self) -> float | None:
        """How often `collect` must be called although nothing is sent; None: never."""
        return None

    def on_command(self, command: Command) -> None:
        """Carry out a command; on the I/O thread. Unknown ones are refused by the link."""

    def on_lost(self) -> None:
        """The peer that sends commands is gone or sends garbage; on the I/O thread."""

    def on_unsent(self, event: object) -> None:
        """Nothing of an event could be sent to the peer that sends commands."""

    def mark(self, item: object) -> None:
        """Note beside the rows of the hot path that an item of the queue belongs there."""

    def collect(self, until: object, is_late: bool) -> Iterable[Event | Batch]:  # noqa: ARG002
        """Make events of the rows of the hot path; on the I/O thread.

        Those up to the mark of an item, or with None of a batch; few rows when it is late. Hits
        come before the stop behind them, and not earlier.
        """
        return ()


class ThreadedLink:
    """A link to outlets.

    Guarantees: events leave in the order of `send`; the owner gets commands and the loss on the I/O
    thread only, the loss once, and not after `close`; after a fork the child's link is dead. What
    an outlet takes slowly the others get slowly, too.

    Args:
        outlets: This link closes them. One that is lost is left out; with the last one it is dead.
        owner: What the link calls; or `attach` it, before `start`, if it needs the link itself.
    """

    def __init__(self, outlets: Sequence[Outlet], owner: LinkOwner | None = None) -> None:
        self._outlets = list(outlets)
        self._owner = LinkOwner() if owner is None else owner
        # Appended by any thread, drained by the I/O thread; deque operations are atomic.
        self._queue: deque[_Stamped] = deque()
        self._has_peer = any(each.socket is not None for each in outlets)
        self._bell: Bell = SocketBell() if self._has_peer else LockBell()
        self._settles_after = 0.0  # epoch seconds
        self._has_more = False  # rows, perhaps, that were left where they are
        self._left_some = False
        self._is_busy = False  # it comes back soon, so that nobody need signal
        # Called when each outlet has taken so many bytes.
        self._flushed: deque[tuple[dict[Outlet, int], Callable[[], object]]] = deque()
        self._signalled = False
        self._dead = False
        self._pid = os.getpid()
        self._thread = RawThread(self._run, lambda: self._bell.ring(urgent=True))
        at_fork(
            lambda message: self.send(Warned(message)),
            before=self._before_fork,
            after_in_parent=self._after_fork_in_parent,
            after_in_child=self._after_fork_in_child,
        )

    @property
    def is_open(self) -> bool:
        """Whether anybody gets what is sent."""
        return not self._dead

    def attach(self, owner: LinkOwner) -> None:
        """Call this owner from now on."""
        self._owner = owner

    def start(self) -> None:
        """Start the I/O thread unless it runs; called lazily after a fork."""
        if not self._dead:
            self._thread.start()

    def send(self, event: Event, *, urgent: bool = False) -> None:
        """Queue an event; never blocks, never raises. `urgent`: don't wait for others."""
        if not self._dead:
            self._put(event, urgent=urgent)

    def settle(self) -> None:
        """Have a file written before the program goes on, for it may be long until the next event.

        Beside a program that runs, the I/O thread hardly gets the interpreter's lock: C code keeps
        it, system calls give it away for moments only, and each time the thread wakes up in vain.
        """
        now = clock.wall()
        if self._has_peer or now < self._settles_after:
            return
        self._settles_after = now + (SETTLED_S if self.flush(SETTLING_S) else 1)

    def nudge(self) -> None:
        """Something lies ready for `collect`; never blocks."""
        if not self._dead:
            self._wake(urgent=False)

    def flush(self, deadline_s: float) -> bool:
        """Wait until everything queued so far has left; False when the deadline passed first."""
        if self._dead:
            return False
        sent = allocate_lock()
        sent.acquire()
        self._put(sent.release, urgent=True)
        return sent.acquire(True, deadline_s) and not self._dead

    def close(self, deadline_s: float) -> None:
        """Send what is queued and hang up."""
        self.flush(deadline_s)
        self._dead = True
        self._thread.stop(deadline_s)
        self._close_sockets()

    def _put(self, what: Event | Callable[[], object], *, urgent: bool) -> None:
        item = clock.wall(), what
        self._owner.mark(item)  # first: what is behind the mark waits for the item
        self._queue.append(item)
        self._wake(urgent=urgent)

    def _wake(self, *, urgent: bool) -> None:
        if not self._thread.is_running:
            self.start()
        if urgent or not self._signalled:
            self._signalled = True
            try:
                self._bell.ring(urgent=urgent)
            except RecursionError:
                self._signalled = False
                raise

    # --- the I/O thread ---------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._thread.is_stopping and self._outlets:
                self._turn()
            self._push(self._outlets)
        except Exception:  # noqa: BLE001 - a border: without this thread nobody could resume a pause
            self._lose(self._outlets)

    def _turn(self) -> None:
        """Wait for something to do and do it."""
        self._lose([each for each in self._outlets if not each.restore()])
        talking = {each.socket: each for each in self._outlets if each.socket is not None}
        every_s = self._owner.collects_every_s
        if not talking and (self._has_more or every_s is None):
            self._turn_alone()
            return
        open = [each for each in talking if each.is_ours]
        full = [each for each in open if talking[each].unsent]
        wait_s = 0.0 if self._has_more and not full else every_s
        if len(open) < len(talking):
            wait_s = AGAIN_S
        is_rung, readable, writable = self._bell.wait(wait_s, open, full)
        if is_rung:
            if not self._bell.take_urgent():
                self._bell.wait(BATCH_S if talking else FILE_BATCH_S, open)
            # Before the queue is read: an event that comes later signals again.
            self._signalled = False
        free = (None, *writable)
        self._push([each for each in self._outlets if not each.unsent or each.socket in free])
        for each in readable:
            if talking[each] in self._outlets:
                self._receive(talking[each])

    def _turn_alone(self) -> None:
        """The same while nobody could say anything; as long as events come they need not signal."""
        if not self._has_more:
            is_urgent = False
            if not self._is_busy:
                self._bell.wait(None)
                is_urgent = self._bell.take_urgent()
            if not is_urgent and self._bell.wait(FILE_BATCH_S)[0]:
                self._bell.take_urgent()
        self._is_busy = self._push(self._outlets)
        if not self._is_busy:
            self._signalled = False
            self._push(self._outlets)  # what came just before that

    def _push(self, ready: Sequence[Outlet]) -> bool:
        """Encode and send what is queued as far as the outlets take it; those not ready wait.

        Whether there was anything for them.
        """
        if not ready:
            return False
        is_all = self._encode_queue()
        self._has_more = True
        while is_all and self._has_more and self._has_room:
            self._has_more = self._encode_collected(None)
        were_any = any(each.unsent for each in ready)
        self._lose([each for each in ready if not each.send()])
        self._report_flushed()
        return were_any

    def _encode_queue(self) -> bool:
        """Whether all is encoded; what comes meanwhile would keep this thread from sleep."""
        for _ in range(len(self._queue)):
            item = ts, what = self._queue[0]  # senders append, only this thread removes
            is_late = clock.wall() - ts > PATIENCE_S
            if not self._has_room or self._encode_collected(item, is_late=is_late):
                return False
            if callable(what):
                ends = {each: each.taken + len(each.unsent) for each in self._outlets}
                self._flushed.append((ends, what))
            else:
                self._encode(ts, what)
            self._queue.popleft()
        return True

    @property
    def _has_room(self) -> bool:
        return all(len(each.unsent) < HIGH_WATER for each in self._outlets)

    def has_room(self) -> bool:
        """Asked by `collect` while it has more; when there is none it is called again for that."""
        self._left_some = not self._has_room
        return self._has_room

    def _encode_collected(self, until: object, *, is_late: bool = False) -> bool:
        """Whether there is more, or may be more, in the next batch."""
        self._left_some = are_any = False
        for event in self._owner.collect(until, is_late):
            self._encode(clock.wall(), event)
            are_any = True
        return self._left_some or (are_any and until is None)

    def _encode(self, ts: float, event: Event | Batch) -> None:
        arrived = [each.encode(ts, event) or each.socket is None for each in self._outlets]
        if not all(arrived):
            self._owner.on_unsent(event)

    def _report_flushed(self) -> None:
        while self._flushed:
            ends, report = self._flushed[0]
            if any(each.taken < ends[each] for each in self._outlets):
                break
            self._flushed.popleft()
            report()

    def _receive(self, outlet: Outlet) -> None:
        try:
            received = outlet.receive()
        except (OSError, FrameError):
            received = None
        if received is None:
            self._lose([outlet])
        for plain in received or ():
            try:
                command = from_plain(plain)
            except MalformedMessage as error:
                self.send(Refused(error.kind, str(error)), urgent=True)
            else:
                for each in self._outlets:
                    each.note(command)
                self._owner.on_command(command)  # type: ignore[arg-type]  # events are refused

    def _lose(self, lost: Sequence[Outlet]) -> None:
        """Go on without these."""
        lost, was_dead = list(lost), self._dead
        self._outlets = [each for each in self._outlets if each not in lost]
        if not self._outlets:
            self._dead = True
            self._release_flushers()
        if not was_dead and any(each.socket is not None for each in lost):
            self._owner.on_lost()
        for each in lost:
            each.close()

    def _release_flushers(self) -> None:
        for _, what in (*self._flushed, *self._queue):
            if callable(what):
                what()
        self._queue.clear()

    # --- stopping and forking ---------------------------------------------------------------

    def _before_fork(self) -> None:
        # CPython 3.12+ warns about a fork while the *system* counts several threads, so the thread
        # must be gone from there too. It comes back with the next event: restarting it in the
        # after_in_parent hook would still be counted on 3.13.0 (python/cpython#137109).
        if os.getpid() != self._pid:
            return
        if not self._dead:
            self._thread.stop(_FORK_WAIT_S)
        self._thread.vanish(_FORK_WAIT_S)  # also after a close or a loss

    def _after_fork_in_parent(self) -> None:
        if self._dead or os.getpid() != self._pid:
            return
        self._thread.is_stopping = False  # if it did not stop in time it goes on
        # What was queued meanwhile, and parked threads, must not wait for the next event.
        unsent = any(each.unsent for each in self._outlets)
        if self._queue or unsent or self._has_more or self._owner.is_awaited:
            self.start()

    def _after_fork_in_child(self) -> None:
        self._dead = True
        self._thread.forget()
        self._queue.clear()
        self._flushed.clear()
        self._close_sockets()

    def _close_sockets(self) -> None:
        for outlet in self._outlets:
            outlet.close()
        self._bell.close()
