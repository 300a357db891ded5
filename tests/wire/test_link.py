"""The test process's end of the wire: order, flushing, hanging up, losing the peer.

One suite of tests runs over every kind of link; the rest is about the thread of `ThreadedLink`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, Protocol

import pytest

from pytest_cideldill.interpreter import stack_room
from pytest_cideldill.interpreter.descriptors import HeldSocket
from pytest_cideldill.link import threaded as link_module
from pytest_cideldill.link.inline import FileLink
from pytest_cideldill.link.record_file import FileOutlet
from pytest_cideldill.link.threaded import ThreadedLink
from pytest_cideldill.protocol import (
    Departed,
    Event,
    Message,
    NodeStarted,
    Refused,
    ReleaseAll,
    Stopped,
    Warned,
    to_plain,
)
from pytest_cideldill.protocol.framing import FrameDecoder, encode_frame
from pytest_cideldill.records.writer import PartWriter
from pytest_cideldill.redaction.redactor import Redactor
from tests.wire.linked import DEADLINE_S, DirectLink, Linked, system_threads

needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's /proc")


class Linking(Protocol):
    """A link, and what has come out at its other end."""

    @property
    def link(self) -> ThreadedLink | DirectLink | FileLink: ...

    def receive(self, count: int) -> list[Message]: ...


class DirectlyLinked:
    def __init__(self) -> None:
        self._events: list[Event] = []
        self.link = DirectLink(self._events.append)

    def receive(self, count: int) -> list[Message]:
        assert len(self._events) >= count
        received: list[Message] = [*self._events[:count]]
        del self._events[:count]
        return received


@pytest.fixture
def linked() -> Iterator[Linked]:
    with Linked() as made:
        yield made


@pytest.fixture(params=["direct", "filed", "linked"])
def linking(request: pytest.FixtureRequest) -> Linking:
    made: Linking = (
        DirectlyLinked() if request.param == "direct" else request.getfixturevalue(request.param)
    )
    return made


def warnings(count: int, prefix: str = "") -> list[Event]:
    return [Warned(f"{prefix}{number}") for number in range(count)]


# --- what every link must do --------------------------------------------------------------------


def test_events_arrive_in_the_order_of_sending(linking: Linking) -> None:
    """Urgency makes an event travel sooner, never past another one."""
    events = warnings(500)
    for number, event in enumerate(events):
        linking.link.send(event, urgent=number % 7 == 0)
    assert linking.link.flush(DEADLINE_S)
    assert linking.receive(500) == events


def test_every_thread_s_events_arrive_in_its_order(linking: Linking) -> None:
    """Guarantee of the architecture: the order is exact per process and thread."""
    barrier = threading.Barrier(8)

    def produce(name: str) -> None:
        barrier.wait(DEADLINE_S)
        for event in warnings(300, name):
            linking.link.send(event)

    threads = [threading.Thread(target=produce, args=(f"t{n}.",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert linking.link.flush(DEADLINE_S)
    received = linking.receive(8 * 300)
    for number in range(8):
        prefix = f"t{number}."
        mine = [e for e in received if isinstance(e, Warned) and e.message.startswith(prefix)]
        assert mine == warnings(300, prefix)


def test_what_was_sent_before_close_arrives(linking: Linking) -> None:
    """`close` sends what is queued and hangs up."""
    for event in warnings(100):
        linking.link.send(event)
    linking.link.send(Departed())
    linking.link.close(DEADLINE_S)
    assert linking.receive(101) == [*warnings(100), Departed()]


def test_sending_flushing_and_closing_after_close_do_nothing_bad(linking: Linking) -> None:
    """`send` never raises: hooks of the guest's run call it at any time."""
    linking.link.close(DEADLINE_S)
    linking.link.send(Warned("late"), urgent=True)
    linking.link.flush(DEADLINE_S)
    linking.link.close(DEADLINE_S)


# --- the way up ---------------------------------------------------------------------------------


def test_an_event_that_is_not_urgent_waits_for_company(
    linked: Linked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One wake-up serves many (`BATCH_S`, here without end); an urgent event ends the wait."""
    monkeypatch.setattr(link_module, "BATCH_S", 10 * DEADLINE_S)
    linked.link.send(Warned("first"))
    linked.socket.settimeout(0.05)
    with pytest.raises(TimeoutError):
        linked.receive(1)
    linked.socket.settimeout(DEADLINE_S)
    linked.link.send(Warned("second"), urgent=True)
    assert linked.receive(2) == [Warned("first"), Warned("second")]


class Filed(FileOutlet):
    """The file of a link.

    Attributes:
        written: Something is being written.
        takes: Cleared: that does not end.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(PartWriter(path, "main", 100_000, Redactor()))
        self._path = path
        self.written, self.takes = threading.Event(), threading.Event()
        self.takes.set()

    def send(self) -> bool:
        if len(self.unsent):
            self.written.set()
            assert self.takes.wait(DEADLINE_S)
        return super().send()

    def messages(self) -> list[str]:
        lines = self._path.read_text().splitlines()
        return [json.loads(each)["message"] for each in lines]


@contextmanager
def filing(folder: Path) -> Iterator[tuple[ThreadedLink, Filed]]:
    """A started link that writes a file only."""
    outlet = Filed(folder / "part")
    link = ThreadedLink([outlet])
    link.start()
    try:
        yield link, outlet
    finally:
        link.close(DEADLINE_S)


def test_where_only_a_file_is_written_more_share_a_wake_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`FILE_BATCH_S`, here without end: a wake-up holds up the tests. Urgent ones wait for none."""
    monkeypatch.setattr(link_module, "BATCH_S", 0.0)
    monkeypatch.setattr(link_module, "FILE_BATCH_S", 10 * DEADLINE_S)
    with filing(tmp_path) as (link, outlet):
        link.send(Warned("first"))
        assert not outlet.written.wait(0.05)
        link.send(Warned("second"), urgent=True)
        assert link.flush(DEADLINE_S)
        assert outlet.messages() == ["first", "second"]


def test_what_is_queued_for_a_file_can_be_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a test begins, but not before each of many quick ones."""
    monkeypatch.setattr(link_module, "FILE_BATCH_S", 10 * DEADLINE_S)
    monkeypatch.setattr(link_module, "SETTLING_S", DEADLINE_S)
    monkeypatch.setattr(link_module, "SETTLED_S", 10 * DEADLINE_S)
    with filing(tmp_path) as (link, outlet):
        link.send(Warned("first"))
        link.send(Warned("second"))
        link.settle()
        assert outlet.messages() == ["first", "second"]
        link.send(Warned("third"))
        link.settle()
        assert outlet.messages() == ["first", "second"]


def test_a_file_that_takes_nothing_is_not_waited_for_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk may hang; and there may be very much to write. Once in a second it is tried."""
    monkeypatch.setattr(link_module, "FILE_BATCH_S", 0.0)
    monkeypatch.setattr(link_module, "SETTLED_S", 0.0)
    flushes = flushed(monkeypatch)
    with filing(tmp_path) as (link, outlet):
        outlet.takes.clear()
        link.send(Warned("taken"))
        assert outlet.written.wait(DEADLINE_S)
        for number in range(100):
            link.send(Warned(str(number)))
            link.settle()
        assert flushes == [link_module.SETTLING_S]
        outlet.takes.set()
    assert outlet.messages() == ["taken", *map(str, range(100))]


def test_a_peer_is_not_waited_for(linked: Linked, monkeypatch: pytest.MonkeyPatch) -> None:
    """It need not read; and what is for it leaves soon."""
    flushes = flushed(monkeypatch)
    linked.link.send(Warned("first"))
    linked.link.settle()
    assert linked.receive(1) == [Warned("first")]
    assert flushes == []


def flushed(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The deadlines of flushes, from now on."""
    deadlines = []
    original = ThreadedLink.flush

    def flush(self: ThreadedLink, deadline_s: float) -> bool:
        deadlines.append(deadline_s)
        return original(self, deadline_s)

    monkeypatch.setattr(ThreadedLink, "flush", flush)
    return deadlines


def test_an_event_that_is_not_urgent_arrives_without_any_other(linked: Linked) -> None:
    """Batching delays, it does not hold back."""
    for number in range(5):
        linked.link.send(Warned(str(number)))
        assert linked.receive(1) == [Warned(str(number))]


def test_a_peer_that_does_not_read_never_blocks_a_sender(linked: Linked) -> None:
    """Off the hot path. A flush is bounded, and afterwards nothing is missing."""
    events: list[Event] = [NodeStarted("x" * 1000 + str(n), 0.0) for n in range(3000)]
    for event in events:
        linked.link.send(event, urgent=True)
    assert not linked.link.flush(0.05)
    assert linked.receive(3000) == events
    assert linked.link.flush(DEADLINE_S)


@pytest.mark.full
def test_commands_are_taken_while_the_peer_does_not_read(linked: Linked) -> None:
    """A full socket is full in one direction only; a release must get through."""
    for number in range(3000):
        linked.link.send(NodeStarted("x" * 1000 + str(number), 0.0))
    assert not linked.link.flush(0.05)
    linked.command(ReleaseAll("stop"))
    assert len(linked.receive(3000)) == 3000


def test_an_event_that_can_t_be_encoded_is_replaced_by_a_warning(linked: Linked) -> None:
    """`send` never raises and a bug of ours must not cost the connection; the rest goes on."""
    linked.link.send(Stopped({"locals": object()}))
    linked.link.send(Warned("next"))
    refused, following = linked.receive(2)
    assert isinstance(refused, Warned)
    assert "stopped could not be sent" in refused.message
    assert following == Warned("next")


def test_a_thread_that_can_t_be_started_now_is_started_with_the_next_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`start_new_thread` raises when the process may have no more threads, and at its very end."""

    def no_more(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(stack_room, "start_new_thread", no_more)
        linked = Linked()
        linked.link.send(Warned("kept"), urgent=True)
        assert not linked.link.flush(0.01)
    with linked:
        linked.link.send(Warned("next"), urgent=True)
        assert linked.receive(2) == [Warned("kept"), Warned("next")]


# --- the way down -------------------------------------------------------------------------------


def test_commands_are_handed_on_in_order(linked: Linked) -> None:
    """Also when several come in one piece, or one in several."""
    commands = [ReleaseAll(str(number)) for number in range(20)]
    stream = b"".join(encode_frame({"kind": "release_all", "by": each.by}) for each in commands)
    for start in range(0, len(stream), 13):
        linked.socket.sendall(stream[start : start + 13])
    assert [linked.commands.get(timeout=DEADLINE_S) for _ in commands] == commands


def test_what_was_received_with_the_handshake_counts() -> None:
    """A decoder is handed over; it may hold half a command already."""
    frame = encode_frame({"kind": "release_all", "by": "stop"})
    decoder = FrameDecoder()
    decoder.feed(frame[:9])
    with Linked(decoder=decoder) as linked:
        linked.socket.sendall(frame[9:])
        assert linked.commands.get(timeout=DEADLINE_S) == ReleaseAll("stop")


@pytest.mark.parametrize(
    ("plain", "kind", "reason"),
    [
        ({"kind": "teleport"}, "teleport", "unknown kind"),
        ({"kind": "release_all"}, "release_all", "by"),
        ({}, "None", "unknown kind"),
    ],
)
def test_a_command_that_is_not_known_is_refused_by_name(
    linked: Linked, plain: dict[str, object], kind: str, reason: str
) -> None:
    """The link lives on."""
    linked.socket.sendall(encode_frame(plain))
    (refused,) = linked.receive(1)
    assert isinstance(refused, Refused)
    assert refused.refused_kind == kind
    assert reason in refused.reason
    linked.command(ReleaseAll("stop"))


# --- losing the peer ----------------------------------------------------------------------------


def lost_once(linked: Linked) -> None:
    linked.losses.get(timeout=DEADLINE_S)
    linked.link.send(Warned("to nobody"), urgent=True)
    assert not linked.link.flush(DEADLINE_S)
    linked.link.close(DEADLINE_S)
    assert linked.losses.empty()


def test_a_peer_that_hangs_up_is_reported_once(linked: Linked) -> None:
    """Guarantee of `ThreadedLink`: `on_lost` is called once."""
    linked.socket.close()
    lost_once(linked)


def test_a_peer_that_hung_up_and_does_not_listen_any_more_is_reported_once() -> None:
    """Where the process could connect again, that is tried first."""

    def rejoin(sent: int, received: int) -> NoReturn:
        raise ConnectionRefusedError

    with Linked(rejoin=rejoin) as linked:
        linked.socket.close()
        lost_once(linked)


@pytest.mark.parametrize("how", [socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR])
def test_a_connection_that_the_program_shuts_down_is_made_again(how: int) -> None:
    """It looks as if the peer had hung up."""
    mine, theirs = socket.socketpair()
    others = [HeldSocket(mine)]
    with theirs, Linked(rejoin=lambda sent, received: (others.pop(), sent)) as linked:
        linked.link.send(Warned("before"), urgent=True)
        assert linked.receive(1) == [Warned("before")]
        assert linked.outlet.socket is not None
        with socket.socket(fileno=os.dup(linked.outlet.socket.fileno())) as of_link:
            of_link.shutdown(how)
        linked.link.send(Warned("after"), urgent=True)
        assert linked.link.flush(DEADLINE_S)
        theirs.sendall(encode_frame(to_plain(ReleaseAll("client"))))
        assert linked.commands.get(timeout=DEADLINE_S) == ReleaseAll("client")
        assert linked.losses.empty()


def test_a_peer_that_is_reset_while_events_are_queued_is_reported_once(linked: Linked) -> None:
    """The failure shows while sending instead of while receiving."""
    for event in warnings(3000, "x" * 1000):
        linked.link.send(event)
    assert not linked.link.flush(0.05)
    linked.socket.close()
    lost_once(linked)


@pytest.mark.parametrize(
    "garbage",
    [b"\xff\xff\xff\xff", struct.pack(">I", 3) + b"abc", struct.pack(">I", 2) + b"[]"],
    ids=["oversize", "no JSON", "no object"],
)
def test_a_peer_that_sends_garbage_is_lost(linked: Linked, garbage: bytes) -> None:
    """A stream that can't be trusted is the end of the link, never of the run."""
    linked.socket.sendall(garbage)
    lost_once(linked)


def test_a_flush_that_waits_ends_when_the_peer_is_lost(linked: Linked) -> None:
    """Nobody waits for the deadline of something that can't happen any more; it did not leave."""
    for event in warnings(3000, "x" * 1000):
        linked.link.send(event)
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(linked.link.flush(10 * DEADLINE_S)))
    thread.start()
    linked.receive(1)
    linked.socket.close()
    thread.join(DEADLINE_S)
    assert answers == [False]


def test_closing_is_not_losing(linked: Linked) -> None:
    """Guarantee of `ThreadedLink`: not after `close`; the peer sees the end of the stream."""
    linked.link.close(DEADLINE_S)
    with pytest.raises(EOFError):
        linked.receive(1)
    linked.socket.close()
    assert linked.losses.empty()


def test_both_ends_may_hang_up_at_the_same_time() -> None:
    """At most one call, none after `close` has returned, no exception, no thread left."""
    for _ in range(50):
        linked = Linked()
        closing = threading.Thread(target=linked.socket.close)
        closing.start()
        linked.link.close(DEADLINE_S)
        reported = linked.losses.qsize()
        closing.join(DEADLINE_S)
        assert linked.losses.qsize() == reported <= 1


# --- the thread ---------------------------------------------------------------------------------


def test_the_thread_is_invisible_to_threading() -> None:
    """Tests that count threads must see what they see without us."""
    before = threading.enumerate(), threading.active_count()
    with Linked() as linked:
        linked.link.send(Warned("up"), urgent=True)
        linked.receive(1)
        linked.command(ReleaseAll("stop"))
        assert (threading.enumerate(), threading.active_count()) == before
        assert not [each for each in threading.enumerate() if "Dummy" in type(each).__name__]


@needs_proc
def test_all_signals_are_blocked_in_the_thread() -> None:
    """The main thread gets them, and its blocking calls end."""
    before = system_threads()
    with Linked() as linked:
        linked.link.send(Warned("up"), urgent=True)
        linked.receive(1)
        (native_id,) = set(system_threads()) - set(before)
        status = Path(f"/proc/self/task/{native_id}/status").read_text(encoding="ascii")
        blocked = int(status.partition("SigBlk:\t")[2].partition("\n")[0], 16)
    unblockable = {signal.SIGKILL, signal.SIGSTOP}
    open_to = {n for n in signal.valid_signals() - unblockable if not blocked >> (n - 1) & 1}
    assert open_to == set()


@needs_proc
def test_the_thread_is_gone_after_close_and_after_a_loss() -> None:
    """Nothing is left behind."""
    threads, descriptors = set(system_threads()), set(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with Linked():
            pass
        lost = Linked()
        lost.socket.close()
        lost_once(lost)
    assert set(os.listdir("/proc/self/fd")) <= descriptors
    # The system counts a thread until shortly after its last instruction.
    deadline = time.monotonic() + DEADLINE_S
    while set(system_threads()) - threads:
        assert time.monotonic() < deadline


def test_a_link_reports_a_closed_socket_as_lost() -> None:
    """A test that closes all file descriptors it does not know takes ours along."""
    with Linked() as linked:
        assert linked.outlet.socket is not None
        linked.outlet.socket.close()
        linked.link.send(Warned("up"), urgent=True)
        linked.losses.get(timeout=DEADLINE_S)
