"""The link with a thread of its own: one raw background thread sends and receives.

The thread is the only one that touches the outlets: the front end's socket, the file of a recorded
run. It runs no user code and logs nothing.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.borders import at_fork
from pytest_cideldill.interpreter.descriptors import HeldSocket
from pytest_cideldill.link.io_thread import RawThread
from pytest_cideldill.link.sinks import Outlet, Sent
from pytest_cideldill.link.wakeup import Bell, LockBell, SocketBell
from pytest_cideldill.protocol import (
    Command,
    Event,
    MalformedMessage,
    NodeStarted,
    Refused,
    Warned,
    from_plain,
)
from pytest_cideldill.protocol.ended_tests import EndedTest
from pytest_cideldill.protocol.framing import FrameError
from pytest_cideldill.protocol.rows import Batch

BATCH_S = 0.01
"""How long an event that is not urgent may wait for others: a wake-up gets in the tests' way."""

LATER_S = 0.1
"""The same for an event that can wait longer: it is kept in a file as well, and nobody waits for
the end of a test that passed."""

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

_LATER, _SOON, _NOW = 1, 2, 3
"""How urgent an event is; 0: nothing waits."""


class _Item(NamedTuple):
    """What waits: an event, which gets its number when it leaves, or a call to make then.

    Attributes:
        ts: Epoch seconds.
        is_quick: Nothing but the rows that wait before it is looked for.
    """

    ts: float
    what: Event | EndedTest | Callable[[], object]
    is_quick: bool


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

    def is_next(self, item: object) -> bool:  # noqa: ARG002
        """Whether no row waits before an item; its mark is gone then."""
        return True

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
        self._queue: deque[_Item] = deque()
        self._has_peer = any(outlet.socket is not None for outlet in outlets)
        self._bell: Bell = SocketBell() if self._has_peer else LockBell()
        self._settles_after = 0.0  # epoch seconds
        self._has_more = False  # rows, perhaps, that were left where they are
        self._left_some = False
        self._is_busy = False  # it comes back soon, so that nobody need signal
        # Called when each outlet has taken so many bytes.
        self._flushed: deque[tuple[dict[Outlet, int], Callable[[], object]]] = deque()
        self._signalled = 0  # the most urgent ring since the I/O thread read the queue
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
            self._put(event, _NOW if urgent else _SOON)

    def send_test(self, event: NodeStarted | EndedTest, *, later: bool) -> None:
        """Queue the start or the end of a test; never blocks, never raises.

        Args:
            later: It may wait for others for `LATER_S`.
        """
        if not self._dead:
            self._put(event, _LATER if later else _SOON)

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
            self._wake(_SOON)

    def when_sent(self, report: Callable[[], object]) -> None:
        """Have a function called, on the I/O thread, when everything queued so far has left."""
        if not self._dead:
            self._put(report, _SOON)

    def flush(self, deadline_s: float) -> bool:
        """Wait until everything queued so far has left; False when the deadline passed first."""
        if self._dead:
            return False
        sent = allocate_lock()
        sent.acquire()
        self._put(sent.release, _NOW)
        return sent.acquire(True, deadline_s) and not self._dead

    def close(self, deadline_s: float) -> None:
        """Send what is queued and hang up."""
        self.flush(deadline_s)
        self._dead = True
        self._thread.stop(deadline_s)
        self._close_sockets()

    def _put(self, what: Event | EndedTest | Callable[[], object], haste: int) -> None:
        item = _Item(clock.wall(), what, haste == _LATER)
        self._owner.mark(item)  # first: what is behind the mark waits for the item
        self._queue.append(item)
        self._wake(haste)

    def _wake(self, haste: int) -> None:
        if not self._thread.is_running:
            self.start()
        if haste == _NOW or haste > self._signalled:
            before, self._signalled = self._signalled, max(haste, self._signalled)
            try:
                self._bell.ring(urgent=haste == _NOW)
            except RecursionError:
                self._signalled = before
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
        self._lose([outlet for outlet in self._outlets if not outlet.restore()])
        talking = {outlet.socket: outlet for outlet in self._outlets if outlet.socket is not None}
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
            self._gather(BATCH_S if talking else FILE_BATCH_S, open, full)
            # Before the queue is read: an event that comes later signals again.
            self._signalled = 0
        free = (None, *writable)
        self._push([each for each in self._outlets if not each.unsent or each.socket in free])
        for each in readable:
            if talking[each] in self._outlets:
                self._receive(talking[each])

    def _gather(self, batch_s: float, open: list[HeldSocket], full: list[HeldSocket]) -> None:
        """Wait for others that can leave together with what is there."""
        if self._bell.take_urgent():
            return
        if self._signalled == _LATER:
            is_rung, readable, writable = self._bell.wait(LATER_S, open, full)
            if not is_rung or readable or writable or self._bell.take_urgent():
                return
        self._bell.wait(batch_s, open)

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
            self._signalled = 0
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
        for outlet in self._outlets:
            outlet.complete()
        were_any = any(outlet.unsent for outlet in ready)
        self._lose([outlet for outlet in ready if not outlet.send()])
        self._report_flushed()
        return were_any

    def _encode_queue(self) -> bool:
        """Whether all is encoded; what comes meanwhile would keep this thread from sleep."""
        for _ in range(len(self._queue)):
            item = self._queue[0]  # senders append, only this thread removes
            if not self._has_room or self._encode_before(item):
                return False
            ts, what, _ = item
            if callable(what):
                for outlet in self._outlets:
                    outlet.complete()
                ends = {outlet: outlet.taken + len(outlet.unsent) for outlet in self._outlets}
                self._flushed.append((ends, what))
            else:
                self._encode(ts, what)
            self._queue.popleft()
        return True

    def _encode_before(self, item: _Item) -> bool:
        """Whether there is more that comes before an item."""
        if item.is_quick and self._owner.is_next(item):
            return False
        return self._encode_collected(item, is_late=clock.wall() - item.ts > PATIENCE_S)

    @property
    def _has_room(self) -> bool:
        return all(len(outlet.unsent) < HIGH_WATER for outlet in self._outlets)

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

    def _encode(self, ts: float, event: Sent) -> None:
        arrived = [outlet.encode(ts, event) or outlet.socket is None for outlet in self._outlets]
        if not all(arrived):
            self._owner.on_unsent(event)

    def _report_flushed(self) -> None:
        while self._flushed:
            ends, report = self._flushed[0]
            if any(outlet.taken < ends[outlet] for outlet in self._outlets):
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
        self._outlets = [outlet for outlet in self._outlets if outlet not in lost]
        if not self._outlets:
            self._dead = True
            self._release_flushers()
        if not was_dead and any(outlet.socket is not None for outlet in lost):
            self._owner.on_lost()
        for outlet in lost:
            outlet.close()

    def _release_flushers(self) -> None:
        for what in (*(each for _, each in self._flushed), *(item.what for item in self._queue)):
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
        self._thread.go_on()  # if it did not stop in time
        # What was queued meanwhile, and parked threads, must not wait for the next event.
        unsent = any(outlet.unsent for outlet in self._outlets)
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
