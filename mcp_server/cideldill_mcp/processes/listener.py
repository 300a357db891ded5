"""Where test processes dial in: listens, checks the token, turns bytes into events of a `Target`.

Processes of this machine come over a Unix socket, else loopback TCP; those of others through the
door, a TCP address that is only there when asked for. Nothing is encrypted (docs/remote.md).

Lives on the event loop. Knows connections, not runs: the owner of runs is given as callables.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cideldill_mcp.fast_json import decode_fast
from cideldill_mcp.processes.addresses import FOLDER_PREFIX
from cideldill_mcp.processes.cpu import runs
from cideldill_mcp.processes.private_directory import make_folder
from cideldill_mcp.processes.process import Target
from pytest_cideldill import protocol
from pytest_cideldill.protocol import framing
from pytest_cideldill.protocol.checking import is_moment
from pytest_cideldill.protocol.peers import is_same_user, look_after

GREETING_S = 10.0
"""How long a connection may take for its token and hello."""

BACKLOG = 4096
"""Processes that may dial in at once; the system may allow fewer. One too many on a Unix socket is
sent away, and runs undebugged."""

REJOIN_S = 30.0
"""How long a process that lives may take to connect again, when its connection ended before it said
goodbye: its program may close all descriptors. While C code keeps the interpreter it can't."""

CUT_OFF_S = 0.5
"""A process that lives so long without a connection has not ended by its own."""

_LOOK_S = 0.02
"""How often it is looked whether it lives."""

KEPT = 64 * 1024
"""Bytes that were sent last, of each connection: they are sent again if they were not read."""

CHUNK = 32 * 1024
"""Bytes of one connection that are taken in before the event loop comes round; milliseconds."""

MAX_SOCKET_PATH = 100
"""Bytes; the system's limit is 107 (less on macOS). A longer path means loopback TCP."""

_LIMITS: dict[str, Any] = {"backlog": BACKLOG, "limit": CHUNK}


@dataclass(frozen=True, slots=True)
class Owner:
    """Callbacks of the hub.

    Attributes:
        admit: A process said hello; raises ValueError with the reason to send it away.
        handle: It sent an event, at these epoch seconds of its clock.
        lost: Its connection ended.
    """

    admit: Callable[[Target], None]
    handle: Callable[[Target, protocol.Event, float], None]
    lost: Callable[[Target], None]


class Hub:
    """The listening side of the wire. `directory` is private (0700); the reaper removes it.

    Args:
        bind: Where the door is, as `HOST:PORT`; None: there is none.

    Raises:
        NoScratch: There can be no such directory.
    """

    def __init__(self, owner: Owner, bind: str | None = None) -> None:
        self.directory = make_folder(FOLDER_PREFIX)
        self._owner = owner
        self._bind = bind
        self._token = framing.new_token()
        self._server: asyncio.Server | None = None
        self._door: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._joined: dict[tuple[str, str, int], Connection] = {}
        # One connection at a time, and a little of it: a thousand that all have much to send would
        # keep the loop for a minute.
        self._turn = asyncio.Lock()

    async def listen(self) -> None:
        """Begin to listen; later calls do nothing, or try again what failed.

        Raises:
            OSError: There can be no door at that address.
        """
        if self._server is None:
            self._server = await self._listen()
        if self._door is None and self._bind is not None:
            host, _, port = self._bind.rpartition(":")
            accept = partial(self._accept, is_remote=True)
            at = host.strip("[]"), int(port)
            self._door = await asyncio.start_server(accept, *at, **_LIMITS)

    def invitation(self, run_id: str) -> dict[str, Any]:
        """What a process of this run needs to dial in; `listen` comes first."""
        assert self._server is not None
        return {
            "address": _address_of(self._server),
            "token": self._token.hex(),
            "run_id": run_id,
            "directory": self.directory,
            "door": None if self._door is None else _address_of(self._door),
        }

    async def close(self) -> None:
        """Stop listening and hang up on everybody."""
        for server in (self._server, self._door):
            if server is not None:
                server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _listen(self) -> asyncio.Server:
        path = os.path.join(self.directory, "hub")
        if hasattr(socket, "AF_UNIX") and len(os.fsencode(path)) <= MAX_SOCKET_PATH:
            return await asyncio.start_unix_server(self._accept, path, **_LIMITS)
        return await asyncio.start_server(self._accept, "127.0.0.1", 0, **_LIMITS)

    async def _accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_remote: bool = False
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            connected = writer.get_extra_info("socket")
            if is_remote:
                look_after(connected)
            elif not is_same_user(connected):
                return
            await self._serve(reader, writer, is_remote=is_remote)
        except ConnectionError:
            # A killed process resets it. asyncio keeps the error in a second place, and would
            # complain on stderr that nobody looked.
            with suppress(OSError):
                await writer.wait_closed()
        except (OSError, EOFError, framing.FrameError, TimeoutError):
            return  # the peer is gone or no process of ours; `lost` was called
        except asyncio.CancelledError:
            return  # close(); asyncio would log a cancelled connection callback
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_remote: bool
    ) -> None:
        async with asyncio.timeout(GREETING_S):
            if not framing.token_matches(
                await reader.readexactly(framing.TOKEN_BYTES), self._token
            ):
                return
            connection = Connection(reader, writer)
            hello = await connection.receive()
        try:
            if isinstance(hello, protocol.Rejoined):
                target = self._rejoin(connection, hello)
            else:
                target = self._admit(connection, hello, is_remote=is_remote)
        except ValueError as error:  # it is sent away
            connection.write(protocol.Refused("hello", str(error)))
            await writer.drain()
            return
        await self._talk(target, connection)

    async def _talk(self, target: Target, connection: Connection) -> None:
        """Until its end; if the process connects again meanwhile, that is not the last word."""
        self._joined[_key(target.hello)] = connection
        connection.target = target
        try:
            while True:
                async with self._turn:
                    self._handle(target, connection)
                    await asyncio.sleep(0)  # others that wait for the loop come first
                try:
                    await connection.read()
                except (ConnectionError, EOFError):
                    if not await self._rejoins(target, connection):
                        raise
                if connection.is_replaced.is_set():
                    return
        finally:
            if not connection.is_replaced.is_set():
                self._joined.pop(_key(target.hello), None)
                target.lost()
                self._owner.lost(target)

    async def _rejoins(self, target: Target, connection: Connection) -> bool:
        """Whether a process whose connection has ended connects again."""
        began = time.monotonic()
        while not (target.has_departed or target.is_remote or connection.is_refused):
            waited_s = time.monotonic() - began
            if waited_s > REJOIN_S or not runs(target.hello.pid):
                break
            target.is_cut_off = waited_s > CUT_OFF_S
            with suppress(TimeoutError):
                await asyncio.wait_for(connection.is_replaced.wait(), _LOOK_S)
                target.is_cut_off = False
                break
        return connection.is_replaced.is_set()

    def _rejoin(self, connection: Connection, hello: protocol.Rejoined) -> Target:
        """The process that goes on with this connection. Raises ValueError: it can't."""
        before = self._joined.get(_key(hello))
        if before is not None:
            if before.received <= hello.sent and connection.goes_on_from(before, hello.received):
                target = before.target
                target.send = connection.write
                return target
            before.refuse()
        raise ValueError("this process is not known any more")

    def _handle(self, target: Target, connection: Connection) -> None:
        """All that was read."""
        for message in connection.messages():
            if isinstance(message, protocol.Refused):
                continue  # ours was unknown there: an older plugin; requests time out by name
            if isinstance(message, protocol.Event):
                target.has_departed |= isinstance(message, protocol.Departed)
                try:
                    for event, ts in target.tests.of(message, connection.ts):
                        self._owner.handle(target, event, ts)
                except protocol.MalformedMessage as error:
                    connection.write(protocol.Refused(error.kind, str(error)))
            else:
                connection.write(
                    protocol.Refused(protocol.kind_of(message), "a command, and not for the server")
                )

    def _admit(self, connection: Connection, hello: protocol.Message, *, is_remote: bool) -> Target:
        """A new process. Raises ValueError: it may not come in."""
        if not isinstance(hello, protocol.Hello):
            raise ValueError("the first message must be hello")
        if hello.protocol != protocol.PROTOCOL:
            raise ValueError(
                f"pytest-cideldill of the tests speaks protocol {hello.protocol}, the server "
                f"speaks {protocol.PROTOCOL}: install the same version in both environments"
            )
        position, stacks = self._ours(hello.position_file), self._ours(hello.stacks_file)
        if is_remote:  # what it says of files means its own machine
            position = stacks = None
        hello = replace(hello, position_file=position, stacks_file=stacks)
        target = Target(hello, connection.write, is_remote=is_remote)
        self._owner.admit(target)
        return target

    def _ours(self, path: str | None) -> str | None:
        """A file that a process was invited to make; None: it is not there, or no regular file."""
        if path is None or os.path.dirname(path) != self.directory:
            return None
        return path if not os.path.islink(path) and os.path.isfile(path) else None


def _address_of(server: asyncio.Server) -> str | list[Any]:
    """A path, or host and port."""
    address: Any = server.sockets[0].getsockname()
    return address if isinstance(address, str) else list(address[:2])


def _key(hello: protocol.Hello | protocol.Rejoined) -> tuple[str, str, int]:
    return hello.run_id, hello.worker, hello.pid


class Connection:
    """One socket: messages in, messages out.

    Attributes:
        ts: When the last message received was made.
        target: Who talks here, once it was admitted.
        is_replaced: The process goes on with another connection.
        is_refused: It could not.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = framing.FrameDecoder(decode=decode_fast)
        self._received: deque[dict[str, Any]] = deque()
        self._sent = 0
        self._kept = bytearray()
        self.ts = time.time()
        self.target: Target
        self.is_refused = False
        self.is_replaced = asyncio.Event()

    @property
    def received(self) -> int:
        """How many bytes were read, also from the connections before."""
        return self._decoder.received

    def write(self, command: protocol.Command) -> None:
        """Queue a command; never blocks. One that is not read is sent again after a rejoin."""
        frame = framing.encode_frame(protocol.to_plain(command))
        self._sent += len(frame)
        self._kept += frame
        del self._kept[:-KEPT]
        self._put(frame)

    def _put(self, data: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(data)

    def goes_on_from(self, before: Connection, received: int) -> bool:
        """Take over from another connection of which so many bytes were received there.

        False: they are not kept any more.
        """
        missing = before._sent - received
        if not 0 <= missing <= len(before._kept):
            return False
        self._decoder, self._received = before._decoder, before._received
        self._sent, self._kept = before._sent, before._kept
        # The answer to the hello is no part of what goes on.
        answer = framing.encode_frame(protocol.to_plain(protocol.Begin(self.received)))
        self._put(answer + self._kept[len(self._kept) - missing :])
        before.is_replaced.set()
        before._reader.feed_eof()
        return True

    def refuse(self) -> None:
        """The process can't go on: something is lost."""
        self.is_refused = self.target.is_cut_off = True
        self._reader.feed_eof()

    async def receive(self) -> protocol.Message:
        """The next message. Raises EOFError, FrameError: as for `read`."""
        while True:
            for message in self.messages():
                return message
            await self.read()

    def messages(self) -> Iterator[protocol.Message]:
        """Those that were read; unknown ones are refused by name and passed over."""
        while self._received:
            plain = self._received.popleft()
            ts: Any = plain.get("ts")
            self.ts = float(ts) if is_moment(ts) else time.time()
            try:
                yield protocol.from_plain(plain)
            except protocol.MalformedMessage as error:
                self.write(protocol.Refused(error.kind, str(error)))

    async def read(self) -> None:
        """Wait for something to read.

        Raises:
            EOFError: The peer hung up.
            FrameError: It sends no frames.
        """
        data = await self._reader.read(CHUNK)
        if not data or self.is_replaced.is_set():  # what is left here is sent again
            raise EOFError
        self._received.extend(self._decoder.feed(data))
