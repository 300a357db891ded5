"""What a link writes to: the front end's socket; `record_file` has the file of a recorded run.

Called on the link's I/O thread only if it has one, else by one thread at a time; but for `close`.
"""

from __future__ import annotations

import errno
import itertools
import socket
from collections.abc import Callable, Sized
from dataclasses import replace
from typing import Any, Final

from pytest_cideldill.errors import internal_error
from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.borders import INCOMPLETE, text_of
from pytest_cideldill.interpreter.descriptors import HeldSocket, TakenAway
from pytest_cideldill.protocol import (
    Event,
    Message,
    NodesFinished,
    NodeStarted,
    Replied,
    Stopped,
    Warned,
    kind_of,
    to_plain,
)
from pytest_cideldill.protocol.encoding import encoded, repaired
from pytest_cideldill.protocol.ended_tests import EndedTest
from pytest_cideldill.protocol.framing import FrameDecoder, encode_frame, frame_of
from pytest_cideldill.protocol.rows import Batch

_MOST_SENT_AGAIN: Final = 1024 * 1024
"""Bytes that may be on their way when the program closes the socket."""

_OF_TESTS: Final = kind_of(NodesFinished([]))
_MOST_TESTS: Final = 500
"""Tests that ended in one message."""

_FOR_NOW: Final = (
    *(errno.EMFILE, errno.ENFILE),
    # The program has closed or replaced this connection, too.
    *(errno.EBADF, errno.ENOTSOCK, errno.ENOTCONN),
)
"""Why there is no other connection yet."""


Sent = Event | Batch | EndedTest
"""What a link sends."""


class Outlet:
    """Where a link writes its events. What is said here already fits one that takes all at once.

    Attributes:
        socket: What is waited for; None: nothing need be, it takes all at once.
        taken: How many bytes it has taken.
        unsent: The bytes that wait.
    """

    socket: HeldSocket | None = None
    taken = 0
    unsent: Sized

    def restore(self) -> bool:
        """Connect again if the program has ended the connection. False: that is not possible.

        Where it is not possible now (there are too many descriptors), `socket` is not ours.
        """
        return True

    def encode(self, ts: float, event: Sent) -> bool:
        """Make an event, of these epoch seconds, bytes that wait; never raises.

        Starts and ends of tests may be held back until `complete`. False: it will not be known,
        however incomplete.
        """
        raise NotImplementedError

    def complete(self) -> None:
        """Make bytes of what is held back: nothing comes for the moment."""

    def note(self, command: Message) -> None:
        """A command that this process is about to obey."""

    def send(self) -> bool:
        """Write as much as is taken now. False: it takes nothing any more."""
        raise NotImplementedError

    def receive(self) -> list[dict[str, Any]] | None:
        """The messages that have come; None: nobody is there any more.

        Raises:
            FrameError: What came is no message.
        """
        return []

    def close(self) -> None:
        """Let go of it."""
        raise NotImplementedError


class SocketOutlet(Outlet):
    """A connected socket; frames in both directions.

    Args:
        connected: This outlet closes it.
        decoder: Holds what was received after the handshake already.
        rejoin: Makes another connection. Takes how many bytes were sent and received, returns it
            and how many have arrived; raises as `link.handshake.rejoin`. None: there can't be one.
        sent: How many bytes were sent before.
    """

    def __init__(
        self,
        connected: socket.socket,
        decoder: FrameDecoder | None = None,
        rejoin: Callable[[int, int], tuple[HeldSocket, int]] | None = None,
        sent: int = 0,
    ) -> None:
        self.socket = self._connected = HeldSocket(connected)
        self.unsent: bytearray = bytearray()
        self._decoder = decoder or FrameDecoder()
        self._rejoin = rejoin
        self._sent_before = sent
        self._kept = bytearray()
        self._next_number = itertools.count(1).__next__
        # The tests of the message that is being made, as texts, and the test that has begun since.
        self._tests: list[str] = []
        self._begun: tuple[float, NodeStarted] | None = None

    def restore(self) -> bool:
        """Rejoin the front end, and queue the bytes again that were sent and did not arrive.

        Also when the connection has ended: the program may have shut it down, and if nobody listens
        any more that is known at once.
        """
        if self._connected.is_ours:
            return True
        if self._rejoin is None:
            return False
        sent = self._sent_before + self.taken
        try:
            again, arrived = self._rejoin(sent, self._decoder.received)
        except OSError as error:
            return error.errno in _FOR_NOW
        except Exception:  # noqa: BLE001 - a border: refused, or nonsense
            return False
        self.socket = self._connected = again
        missing = sent - arrived
        if not 0 <= missing <= len(self._kept):
            return False
        if missing:
            self.unsent[:0] = self._kept[-missing:]
            del self._kept[-missing:]
            self.taken -= missing
        return True

    def encode(self, ts: float, event: Sent) -> bool:
        """Append the frame of an event; if it can't be encoded (a bug of ours), all that can be.

        Tests that ended one after the other go into one frame, without their starts.
        """
        if isinstance(event, EndedTest):
            begun = self._begun
            if begun is not None and begun[1].nodeid != event.event.nodeid:
                self.complete()
            self._begun = None
            self._tests.append(event.text)
            if len(self._tests) >= _MOST_TESTS:
                self.complete()
            return True
        if isinstance(event, NodeStarted):
            if self._begun is not None:
                self.complete()
            self._begun = ts, event
            return True
        self.complete()
        return self._append(ts, event)

    def complete(self) -> None:
        """Append the frame of the tests that ended, and that of a start."""
        tests, begun = self._tests, self._begun
        if tests:
            self._tests = []
            head = encoded({"n": self._next_number(), "ts": clock.wall(), "kind": _OF_TESTS})
            self.unsent += frame_of(f'{head[:-1]},"tests":[{",".join(tests)}]}}'.encode("ascii"))
        if begun is not None:
            self._begun = None
            self._append(*begun)

    def _append(self, ts: float, event: Event | Batch) -> bool:
        stamp = {"n": self._next_number(), "ts": ts}
        try:
            sent = event.event() if isinstance(event, Batch) else event
            self.unsent += encode_frame(stamp | to_plain(sent))
            return True
        except Exception as error:  # noqa: BLE001 - a border: without this thread nobody could resume
            frame, is_it = _in_its_place(stamp, event, error)
            self.unsent += frame
            return is_it

    def send(self) -> bool:
        """Send until the socket is full: the peer takes more meanwhile, and waits may be long."""
        try:
            while self.unsent:
                sent = self._connected.send(self.unsent)
                self._kept += self.unsent[max(sent - _MOST_SENT_AGAIN, 0) : sent]
                del self._kept[:-_MOST_SENT_AGAIN], self.unsent[:sent]
                self.taken += sent
        except (BlockingIOError, InterruptedError, TakenAway):
            return True
        except OSError:
            return self._let_go()
        return True

    def receive(self) -> list[dict[str, Any]] | None:
        """Read what the socket has, and decode the frames that are complete."""
        try:
            data = self._connected.receive(65536)
        except (BlockingIOError, InterruptedError, TakenAway):
            return []
        except ConnectionError:
            data = b""
        if not data:
            return [] if self._let_go() else None
        return self._decoder.feed(data)

    def _let_go(self) -> bool:
        """Close a connection that has ended. False: there can't be another."""
        self._connected.close()
        return self._rejoin is not None

    def close(self) -> None:
        """Close the connection."""
        self._connected.close()


def _in_its_place(
    stamp: dict[str, Any], event: Event | Batch, why: Exception
) -> tuple[bytes, bool]:
    """The frame of what can be sent of an event, and whether it is that event.

    A reply is all or nothing: the front end waits for it, and must not be given half of it.
    """
    if isinstance(event, Replied):
        refused = replace(event, result=None, error=internal_error(why).to_plain())
        return encode_frame(stamp | to_plain(refused)), True
    has_name = not isinstance(event, Stopped) or "id" in event.pause  # else nobody could resume it
    for is_short in (False, True) if has_name else ():
        try:
            sent = event.event() if isinstance(event, Batch) else event
            plain = stamp | repaired(to_plain(sent), why, shortened=is_short)
            if isinstance(event, Stopped):  # it is a pause that clients see
                plain["pause"] |= {INCOMPLETE: plain[INCOMPLETE]}
            return encode_frame(plain), True
        except Exception:  # noqa: BLE001 - as above; the first failure is reported
            continue
    name = "rows" if isinstance(event, Batch) else kind_of(event)
    warned = Warned(f"{name} could not be sent: {text_of(why)}")
    return encode_frame(stamp | to_plain(warned)), False
