"""Where the front end listens, the handshake with it, and the invitation that workers get.

The invitation is the value of an environment variable. xdist's controller makes one for each worker
out of its own: one for this machine, and one for others, which have none of its files.
"""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import replace
from typing import Any

from pytest_cideldill import protocol
from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.descriptors import HeldSocket, wait_for
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.protocol.framing import FrameDecoder, encode_frame
from pytest_cideldill.protocol.peers import look_after, refuse_folder, refuse_peer

HASH_SEED = "PYTHONHASHSEED"

HANDSHAKE_S = 10.0
"""How long a process waits for the front end before it runs as without it."""


@dataclass(frozen=True, slots=True)
class Invitation:
    """The value of the environment variable, parsed.

    Attributes:
        address: A socket path, or `[host, port]`. None: this process is not to connect.
        token: Hex text of the 32 bytes that open the connection; of a run that is only recorded,
            those that tags of secrets are made with.
        run_id: Which run this process belongs to.
        directory: Private folder of the front end, for the files that survive a process. None: on
            another machine.
        door: Where processes of other machines dial in, if they may.
        pinned: How many of pytest's first arguments the front end added; they mean this machine.
        wanted: What a worker chooses of the tests when it is not connected; None: all of them.
        record: Folder of this run in a record; None: it is not recorded, or on another machine.
        hash_seed: What the front end has set as PYTHONHASHSEED, which tests don't see; None: the
            user has, or nobody.
    """

    address: str | list[Any] | None
    token: str
    run_id: str
    directory: str | None
    door: list[Any] | None = None
    pinned: int = 0
    wanted: list[str] | None = None
    record: str | None = None
    hash_seed: str | None = None

    def for_worker(self, wanted: list[str] | None, *, is_here: bool) -> Invitation:
        """What xdist's controller hands to a worker of this machine, or of another one."""
        here = replace(self, door=None, pinned=0, wanted=wanted)
        if is_here:
            return here
        token = "" if self.door is None else self.token
        return replace(here, address=self.door, token=token, directory=None, record=None)

    def file(self, worker: str, kind: str) -> str | None:
        """The path of a file that the front end reads when this process can't send any more."""
        if self.directory is None:
            return None
        return os.path.join(self.directory, f"{self.run_id}-{worker}-{os.getpid()}.{kind}")


def connect(invitation: Invitation) -> socket.socket:
    """A connection on which the token was sent.

    Raises:
        OSError: There is no listener, it can't be reached, or it is another user's.
    """
    address = invitation.address
    assert address is not None
    if isinstance(address, str):
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connected.settimeout(HANDSHAKE_S)
    else:
        host, port = address
        connected = socket.create_connection((host, port), HANDSHAKE_S)
        look_after(connected)
    try:
        if isinstance(address, str):
            refuse_folder(os.path.dirname(address))
            connected.connect(address)
            refuse_peer(connected)
        connected.sendall(bytes.fromhex(invitation.token))
    except OSError as error:
        if error.errno in (errno.EBADF, errno.ENOTSOCK):  # the program has taken it away
            connected.detach()
        connected.close()
        raise
    return connected


def shake_hands(
    connected: socket.socket, hello: protocol.Hello, decoder: FrameDecoder
) -> list[protocol.Command | protocol.Event]:
    """Say hello; every command up to `Begin`, that one left out.

    Raises:
        EOFError: The front end hung up.
    """
    connected.sendall(encode_frame(protocol.to_plain(hello)))
    commands: list[protocol.Command | protocol.Event] = []
    while True:
        data = connected.recv(65536)
        if not data:
            raise EOFError("the front end hung up")
        for plain in decoder.feed(data):
            message = protocol.from_plain(plain)
            if isinstance(message, protocol.Begin):
                return commands
            commands.append(message)
            if isinstance(message, protocol.Refused):
                return commands


def rejoin(
    invitation: Invitation, hello: protocol.Hello, sent: int, received: int
) -> tuple[HeldSocket, int]:
    """Another connection, after the program has closed the first; how many bytes have arrived.

    What has not is to be sent again: nothing is lost or said twice.

    Args:
        hello: What was said at first.
        sent: Bytes that were sent since, with the hello.
        received: Bytes that have come since.

    Raises:
        OSError, EOFError, FrameError, MalformedMessage: As for the first.
    """
    connected = HeldSocket(connect(invitation), beyond=False)
    try:
        again = protocol.Rejoined(hello.run_id, hello.worker, hello.pid, sent, received)
        said = encode_frame(protocol.to_plain(again))
        while said:  # so little always fits
            said = said[connected.send(said) :]
        deadline = clock.monotonic() + HANDSHAKE_S
        head = _exactly(connected, 4, deadline)
        # What follows is the rest of the first connection.
        frame = head + _exactly(connected, int.from_bytes(head, "big"), deadline)
        (plain,) = FrameDecoder().feed(frame)
        answer = protocol.from_plain(plain)
        if not isinstance(answer, protocol.Begin) or answer.received is None:
            raise EOFError("the front end does not know this process any more")
    except BaseException:
        connected.close()
        raise
    return connected, answer.received


def _exactly(connected: HeldSocket, count: int, deadline: float) -> bytes:
    data = b""
    while len(data) < count:
        if not wait_for([connected], (), deadline - clock.monotonic())[0]:
            raise TimeoutError("the front end does not answer")
        if not (more := connected.receive(count - len(data))):
            raise EOFError("the front end hung up")
        data += more
    return data
