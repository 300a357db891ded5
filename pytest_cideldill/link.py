"""The test process's end of the wire: one raw background thread, or none (`DirectLink`, for tests).

The thread is the only one that touches the socket. It is invisible to `threading` (raw `_thread`,
no logging, all signals blocked), runs no user code, and is gone while the process forks. Everything
it needs is bound at import, since tests patch modules.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
from _thread import allocate_lock
from _thread import get_native_id
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable
from collections.abc import Iterable
from contextlib import suppress
from select import select
from typing import Protocol

from pytest_cideldill import clock
from pytest_cideldill.framing import FrameDecoder
from pytest_cideldill.framing import FrameError
from pytest_cideldill.framing import encode_frame
from pytest_cideldill.wire import Command
from pytest_cideldill.wire import Event
from pytest_cideldill.wire import MalformedMessage
from pytest_cideldill.wire import Refused
from pytest_cideldill.wire import Warned
from pytest_cideldill.wire import from_plain
from pytest_cideldill.wire import kind_of
from pytest_cideldill.wire import to_plain

BATCH_S = 0.01
"""How long an event that is not urgent may wait for others, so that a wake-up serves many."""

HIGH_WATER = 1024 * 1024
"""Unsent bytes from which on nothing more is encoded; rows that wait are bounded where they are."""

_FORK_WAIT_S = 0.1
"""Twice this much a fork may be held up by an I/O thread that is busy; usually it takes 0.2 ms."""

_getpid = os.getpid
_exists = os.path.exists

_Stamped = tuple[float, Event]
"""An event with its epoch seconds; its number it gets when it leaves."""


class Link(Protocol):
    """Where events go and commands come from."""

    def send(self, event: Event, *, urgent: bool = False) -> None:
        """Queue an event; never blocks, never raises."""

    def flush(self, deadline_s: float) -> bool:
        """Wait until everything queued so far has left; False when the deadline passed first."""

    def close(self, deadline_s: float) -> None:
        """Send what is queued and hang up."""


class DirectLink:
    """A link without a socket: events are handed over in the sender's thread."""

    def __init__(self, deliver: Callable[[Event], None]) -> None:
        self._deliver = deliver

    def send(self, event: Event, *, urgent: bool = False) -> None:  # noqa: ARG002 - the protocol
        """See `Link`."""
        self._deliver(event)

    def flush(self, deadline_s: float) -> bool:  # noqa: ARG002 - the protocol
        """See `Link`."""
        return True

    def close(self, deadline_s: float) -> None:
        """See `Link`."""


class SocketLink:
    """A link over a connected socket.

    Guarantees: events leave in the order of `send`; `on_command` and `on_lost` are called on the
    I/O thread only; `on_lost` is called once, and not after `close`; an event that can't be encoded
    is replaced by a warning; after a fork the child's link is dead.

    Args:
        connected: The socket; this link closes it.
        on_command: Takes the commands; unknown ones are refused here.
        on_lost: Told that the peer is gone or sends garbage.
        decoder: Holds what was received after the handshake already.
        is_awaited: Whether commands must arrive although no event is sent (a thread is parked), so
            that the I/O thread comes back right after a fork.
        mark: Notes beside what the hot path leaves that the item it is given belongs there.
        collect: Makes events of what the hot path left: up to the mark of an item, or with None of
            a batch. On the I/O thread; hits come before the stop behind them, and not earlier.
        collects_every_s: How often it must be called although nothing is sent; None: never.
    """

    def __init__(
        self,
        connected: socket.socket,
        on_command: Callable[[Command], None],
        on_lost: Callable[[], None],
        decoder: FrameDecoder | None = None,
        is_awaited: Callable[[], bool] = lambda: False,
        mark: Callable[[object], object] = lambda _item: None,
        collect: Callable[[object], Iterable[Event]] = lambda _until: (),
        collects_every_s: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._socket = connected
        self._socket.setblocking(False)
        self._on_command = on_command
        self._on_lost = on_lost
        self._decoder = decoder or FrameDecoder()
        self._is_awaited = is_awaited
        self._mark = mark
        self._collect = collect
        self._collects_every_s = collects_every_s
        self._next_number = itertools.count(1).__next__
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_write.setblocking(False)
        # Appended by any thread, drained by the I/O thread; deque operations are atomic.
        self._queue: deque[_Stamped | Callable[[], object]] = deque()
        self._unsent = bytearray()
        self._sent = 0  # bytes
        self._has_more = False  # rows, perhaps, that were left where they are
        self._flushed: deque[tuple[int, Callable[[], object]]] = deque()  # called at so many sent
        self._signalled = False
        self._stopping = False
        self._dead = False
        self._pid = _getpid()
        self._running = allocate_lock()  # held by the I/O thread for as long as it lives
        self._native_id = 0
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._before_fork,
                after_in_parent=self._after_fork_in_parent,
                after_in_child=self._after_fork_in_child,
            )

    def start(self) -> None:
        """Start the I/O thread unless it runs; called lazily after a fork."""
        if self._dead or not self._running.acquire(False):
            return
        self._stopping = False
        try:
            start_new_thread(self._run, ())
        except RuntimeError:  # no more threads, or the interpreter is ending: the next event tries
            self._running.release()

    def send(self, event: Event, *, urgent: bool = False) -> None:
        """See `Link`."""
        if not self._dead:
            self._put((clock.wall(), event), urgent=urgent)

    def nudge(self) -> None:
        """Something lies ready for `collect`; never blocks."""
        if not self._dead:
            self._wake(urgent=False)

    def flush(self, deadline_s: float) -> bool:
        """See `Link`."""
        if self._dead:
            return False
        sent = allocate_lock()
        sent.acquire()
        self._put(sent.release, urgent=True)
        return sent.acquire(True, deadline_s) and not self._dead

    def close(self, deadline_s: float) -> None:
        """See `Link`."""
        self.flush(deadline_s)
        self._dead = True
        self._stop_thread(deadline_s)
        self._close_sockets()

    def _put(self, item: _Stamped | Callable[[], object], *, urgent: bool) -> None:
        self._mark(item)  # first: what is behind the mark waits for the item
        self._queue.append(item)
        self._wake(urgent=urgent)

    def _wake(self, *, urgent: bool) -> None:
        if not self._running.locked():
            self.start()
        if urgent or not self._signalled:
            self._signalled = True
            with suppress(OSError):  # full: a wake-up is pending anyway; closed: nobody to wake
                self._wake_write.send(b"u" if urgent else b"n")

    # --- the I/O thread ---------------------------------------------------------------------

    def _run(self) -> None:
        lost = False
        try:
            self._native_id = get_native_id()
            if hasattr(signal, "pthread_sigmask"):
                signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            while not self._stopping and not lost:
                lost = not self._turn()
            lost = lost or not self._push(may_send=True)
        except Exception:  # noqa: BLE001 - a border: without this thread nobody could resume a pause
            lost = True
        finally:
            try:
                if lost and not self._dead:
                    self._dead = True
                    self._release_flushers()
                    self._on_lost()
            finally:
                self._running.release()  # at last: there is one I/O thread, and close waits for it

    def _turn(self) -> bool:
        """Wait for something to do and do it; False when the peer is gone."""
        readable, writable, _ = select(
            (self._socket, self._wake_read),
            (self._socket,) if self._unsent or self._has_more else (),
            (),
            self._collects_every_s(),
        )
        if self._wake_read in readable:
            self._collect_batch()
        if not self._push(may_send=bool(writable) or not self._unsent):
            return False
        return self._socket not in readable or self._receive()

    def _collect_batch(self) -> None:
        if b"u" not in self._wake_read.recv(4096):
            select((self._wake_read, self._socket), (), (), BATCH_S)
        # Before the queue is read: an event that comes later signals again.
        self._signalled = False

    def _push(self, *, may_send: bool) -> bool:
        """Encode and send what is queued as far as the socket takes it; False: no peer."""
        while may_send:
            while self._queue and len(self._unsent) < HIGH_WATER:
                item = self._queue[0]  # senders append meanwhile, only this thread removes
                self._encode_collected(item)
                if callable(item):
                    self._flushed.append((self._sent + len(self._unsent), item))
                else:
                    self._unsent += _frame(self._next_number(), *item)
                self._queue.popleft()
            self._has_more = True
            while self._has_more and len(self._unsent) < HIGH_WATER:
                self._has_more = self._encode_collected(None)
            if not self._send_some():
                return False
            if self._unsent or not self._queue:
                break
        return True

    def _encode_collected(self, until: object) -> bool:
        had = len(self._unsent)
        for event in self._collect(until):
            self._unsent += _frame(self._next_number(), clock.wall(), event)
        return len(self._unsent) > had

    def _send_some(self) -> bool:
        try:
            sent = self._socket.send(self._unsent) if self._unsent else 0
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        del self._unsent[:sent]
        self._sent += sent
        while self._flushed and self._flushed[0][0] <= self._sent:
            self._flushed.popleft()[1]()
        return True

    def _receive(self) -> bool:
        try:
            data = self._socket.recv(65536)
        except (BlockingIOError, InterruptedError):
            return True
        if not data:
            return False
        for plain in self._decoder.feed(data):
            try:
                command = from_plain(plain)
            except MalformedMessage as error:
                self.send(Refused(error.kind, str(error)), urgent=True)
            else:
                self._on_command(command)  # type: ignore[arg-type]  # the manager refuses events
        return True

    def _release_flushers(self) -> None:
        for item in (*(each for _, each in self._flushed), *self._queue):
            if callable(item):
                item()
        self._queue.clear()

    # --- stopping and forking ---------------------------------------------------------------

    def _stop_thread(self, deadline_s: float) -> None:
        self._stopping = True
        if self._running.locked():
            with suppress(OSError):
                self._wake_write.send(b"u")
            if self._running.acquire(True, deadline_s):
                self._running.release()

    def _before_fork(self) -> None:
        # CPython 3.12+ warns about a fork while the *system* counts several threads, so the thread
        # must be gone from there too. It comes back with the next event: restarting it in the
        # after_in_parent hook would still be counted on 3.13.0 (python/cpython#137109).
        if _getpid() != self._pid:
            return
        if not self._dead:
            self._stop_thread(_FORK_WAIT_S)
        # Also after a close or a loss: the system counts a thread a little longer than it runs.
        deadline = clock.monotonic() + _FORK_WAIT_S
        while self._native_id and clock.monotonic() < deadline:
            if not _exists(f"/proc/self/task/{self._native_id}"):
                self._native_id = 0

    def _after_fork_in_parent(self) -> None:
        if self._dead or _getpid() != self._pid:
            return
        self._stopping = False  # if it did not stop in time it goes on
        # What was queued meanwhile, and parked threads, must not wait for the next event.
        if self._queue or self._unsent or self._has_more or self._is_awaited():
            self.start()

    def _after_fork_in_child(self) -> None:
        self._dead = True
        self._running = allocate_lock()  # if the thread did not stop in time nobody releases it
        self._queue.clear()
        self._flushed.clear()
        self._close_sockets()

    def _close_sockets(self) -> None:
        for each in (self._socket, self._wake_read, self._wake_write):
            each.close()


def _frame(number: int, ts: float, event: Event) -> bytes:
    """The frame of an event, or of a warning that it could not be encoded (a bug of ours)."""
    stamp = {"n": number, "ts": ts}
    try:
        return encode_frame(stamp | to_plain(event))
    except (FrameError, TypeError, ValueError, RecursionError) as error:
        return encode_frame(
            stamp | to_plain(Warned(f"{kind_of(event)} could not be sent: {error}"))
        )
