"""The stdio transport: two raw descriptors become the pair of streams that `Server.run` takes.

Owns the claim on fds 0 and 1, the line framing, the answers to lines that are no messages, and two
daemon threads; knows nothing of tools. Runs in the front end: the event loop does the sending side,
`cideldill-stdin` reads and parses, `cideldill-stdout` writes. Threads never touch a stream: they
post callbacks to the loop.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
from anyio.abc import ObjectSendStream
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from pydantic_core import from_json

MAX_LINE_BYTES = 16 * 1024 * 1024
"""A longer incoming line is refused with -32600 and skipped up to its newline."""

DRAIN_SECONDS = 0.5
"""How long closing waits for accepted messages to reach a client that reads slowly."""

_READ_BYTES = 64 * 1024  # the capacity of a Linux pipe
_HIGH_WATER_BYTES = 4 * 1024 * 1024  # unsent output above this makes senders wait
_PUSHES_BYTES = 64 * 1024  # and above this pushes, behind which replies would come late

_log = logging.getLogger(__name__)


def claim_stdio() -> tuple[int, int]:
    """Take the wire away from fds 0 and 1, so that nothing else can read or write it.

    Both are duplicated above 2 (not inherited by children); then fd 1 is pointed to stderr and
    fd 0 to the null device. Call it once, before any thread starts or child is spawned.

    Returns:
        `(read_fd, write_fd)`, never to be closed: a thread may be parked on them until exit.

    Raises:
        OSError: fd 0 or 1 is closed.
    """
    read_fd, write_fd = _dup_above_standard(0), _dup_above_standard(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # no stderr: stray output goes nowhere, but never to the wire
        os.dup2(null, 1)
    os.close(null)
    if sys.platform == "win32":
        # dup2 leaves the Win32 slots alone, and subprocess hands those to children.
        from mcp.os.win32.utilities import rebind_std_handle_to_fd

        for fd in (0, 1):
            with suppress(OSError):
                rebind_std_handle_to_fd(fd)
    return read_fd, write_fd


def _dup_above_standard(fd: int) -> int:
    copy = os.dup(fd)
    if copy > 2:
        return copy
    try:  # started with a standard descriptor closed: stray output would land on the wire
        return _dup_above_standard(fd)
    finally:
        os.close(copy)


@asynccontextmanager
async def stdio_streams(
    read_fd: int, write_fd: int
) -> AsyncIterator[tuple[MemoryObjectReceiveStream[SessionMessage | Exception], StdioWriteStream]]:
    """Serve newline-delimited JSON-RPC over two descriptors; pass both streams to `Server.run`.

    The read stream ends on EOF and when the client stops reading. Leaving is immediate but for
    output already accepted (at most `DRAIN_SECONDS`). The descriptors stay open and must not be
    reused: a parked reader ends with the next input.
    """
    loop = asyncio.get_running_loop()
    # Unbounded, as the dispatcher takes every message at once anyway (a task per request).
    inbox, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
    outbox = _Outbox()
    write_stream = StdioWriteStream(outbox)
    drained = anyio.Event()

    def post(callback: Callable[..., object], *args: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nothing takes messages any more
            loop.call_soon_threadsafe(callback, *args)

    def deliver(messages: list[SessionMessage]) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # server has ended
            for message in messages:
                inbox.send_nowait(message)

    def read() -> None:
        try:
            _read_until_eof(read_fd, outbox, lambda messages: post(deliver, messages))
        finally:
            post(inbox.close)

    def write() -> None:
        try:
            _write_until_closed(write_fd, outbox, lambda: post(write_stream.wake))
        finally:
            post(inbox.close)  # client gone: the same as EOF
            post(drained.set)

    if sys.platform != "win32":
        for fd in (
            read_fd,
            write_fd,
        ):  # another process that shares it may have made it non-blocking
            os.set_blocking(fd, True)
    threading.Thread(target=read, name="cideldill-stdin", daemon=True).start()
    threading.Thread(target=write, name="cideldill-stdout", daemon=True).start()
    try:
        yield read_stream, write_stream
    finally:
        await write_stream.aclose()
        with anyio.move_on_after(DRAIN_SECONDS, shield=True):
            await drained.wait()
        outbox.close(discard=True)
        inbox.close()
        read_stream.close()


def _read_until_eof(
    fd: int, outbox: _Outbox, deliver: Callable[[list[SessionMessage]], None]
) -> None:
    """Body of the reader thread: messages to the loop, answers to bad lines to the outbox."""
    splitter = LineSplitter(MAX_LINE_BYTES)
    while outbox.is_open:
        try:
            chunk = os.read(fd, _READ_BYTES)
        except OSError:  # a terminal that hung up, a descriptor closed under us
            chunk = b""
        messages = []
        for line in splitter.feed(chunk or b"\n"):  # the last line before EOF may lack its newline
            decoded = _decode(line)
            if isinstance(decoded, bytes):
                outbox.put(decoded)
            elif decoded is not None:
                messages.append(SessionMessage(decoded))
        if messages:
            deliver(messages)
        if not chunk:
            return


def _write_until_closed(fd: int, outbox: _Outbox, on_room: Callable[[], None]) -> None:
    """Body of the writer thread. A failing write means the client is gone; the rest is dropped."""
    while True:
        data, was_full = outbox.take()
        if was_full:
            on_room()
        if not data:
            return
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(fd, view) :]
        except OSError:
            outbox.close(discard=True)
            on_room()
            return


class LineSplitter:
    """Cuts a byte stream at newlines, holding little more than `cap` bytes of a line."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._start = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        """Yield each line the chunk completes, without newline; None for one over the cap."""
        *ends, tail = chunk.split(b"\n")
        for end in ends:
            line = bytes(self._start) + end
            self._start.clear()
            yield line if len(line) <= self._cap else None
        self._start += tail
        del self._start[self._cap + 1 :]


def _decode(line: bytes | None) -> types.JSONRPCMessage | bytes | None:
    """The message in a line, or the error line that its sender gets, or None for a blank line."""
    if line is None:
        return _invalid(f"a line has at most {MAX_LINE_BYTES} bytes")
    if not line or line.isspace():
        return None
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        return _refuse(line, error)
    # The adapter reads a request whose id is null, a boolean or a float as a notification, and
    # its sender would wait for ever.
    maybe_request = isinstance(message, types.JSONRPCNotification) and b'"id"' in line
    if maybe_request and "id" in from_json(line):
        return _invalid("`id` must be a string or an integer")
    return message


def _refuse(line: bytes, error: ValidationError) -> bytes:
    """The error line for malformed JSON (-32700), or for JSON that is no message (-32600)."""
    try:
        value = json.loads(line.decode("utf-8"))
    except json.JSONDecodeError as bad:
        return _error_line(types.PARSE_ERROR, f"Parse error: {bad.msg} at character {bad.pos + 1}.")
    except UnicodeDecodeError as bad:
        return _error_line(types.PARSE_ERROR, f"Parse error: byte {bad.start + 1} is not UTF-8.")
    except (ValueError, RecursionError):  # an integer of thousands of digits; brackets without end
        return _error_line(types.PARSE_ERROR, "Parse error: a number or the nesting is too large.")
    if not isinstance(value, dict):
        return _invalid("a line is one JSON object, batches are not supported")
    sent_id = value.get("id")
    readable = isinstance(sent_id, int | str) and not isinstance(sent_id, bool)
    # Never under the id of a response: it is one of ours and may equal one of the client's.
    request_id = sent_id if readable and not {"result", "error"} & value.keys() else None
    return _invalid(_mistake(value, error), request_id)


def _mistake(value: dict[str, Any], error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] == "json_invalid":  # lone surrogates, deep nesting: only Python reads them
        return first["msg"].removeprefix("Invalid JSON: ")
    if value.get("jsonrpc") != "2.0":
        return '`jsonrpc` must be "2.0"'
    if "method" in value:
        return "`method` must be a string, `params` an object"
    return "`method` is missing, or `id` and an object as `result` or `error`"


def _invalid(reason: str, request_id: types.RequestId | None = None) -> bytes:
    return _error_line(types.INVALID_REQUEST, f"Invalid request: {reason}.", request_id)


def _error_line(code: int, message: str, request_id: types.RequestId | None = None) -> bytes:
    body = {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}
    return json.dumps(body, separators=(",", ":")).encode() + b"\n"


class StdioWriteStream(ObjectSendStream[SessionMessage]):
    """The stream `Server.run` sends into. Used on the event loop's thread only."""

    def __init__(self, outbox: _Outbox) -> None:
        self._outbox = outbox
        self._room = anyio.Event()
        self._closed = False

    async def send(self, item: SessionMessage) -> None:
        """Queue one message in call order; waits only while much output is unsent.

        Raises:
            anyio.ClosedResourceError: this stream was closed.
            anyio.BrokenResourceError: the client no longer reads.
            ValueError: a request of ours can't be serialized.
        """
        await self._until_room(_HIGH_WATER_BYTES)
        await self._accept(_encode(item.message))

    async def write(self, lines: bytes) -> None:
        """Queue complete lines in order with messages; waits while some output is unsent.

        Raises:
            anyio.ClosedResourceError: this stream was closed.
            anyio.BrokenResourceError: the client no longer reads.
        """
        await self._until_room(_PUSHES_BYTES)
        await self._accept(lines)

    async def _until_room(self, most: int) -> None:
        await anyio.lowlevel.checkpoint_if_cancelled()
        while self._outbox.size > most:
            await self._room.wait()
        if self._closed:
            raise anyio.ClosedResourceError

    async def _accept(self, lines: bytes) -> None:
        if lines and not self._outbox.put(lines):
            raise anyio.BrokenResourceError
        await anyio.lowlevel.cancel_shielded_checkpoint()

    def wake(self) -> None:
        """Let senders look again whether there is room."""
        self._room.set()
        self._room = anyio.Event()

    async def aclose(self) -> None:
        """Accept nothing more; what was accepted is still written."""
        self._closed = True
        self._outbox.close()


def _encode(message: types.JSONRPCMessage) -> bytes:
    """One message as one line; an answer that can't be serialized becomes error -32603."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except (ValueError, TypeError, RecursionError) as error:
        if isinstance(message, types.JSONRPCRequest):  # its sender would wait for ever
            raise ValueError(f"request {message.method!r} can't be serialized") from error
        _log.warning("a message can't be serialized: %s", ascii(str(error)))
        if isinstance(message, types.JSONRPCNotification):
            return b""
        text = "Internal error: the answer can't be serialized."
        return _error_line(types.INTERNAL_ERROR, text, message.id)


class _Outbox:
    """Lines for the writer thread, which takes all at once: a burst costs one system call.

    The condition guards every write. `is_open` and `size` are read without it: a stale answer
    costs one message more in the box, or one more read.

    Attributes:
        size: Bytes of the lines.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._lines: list[bytes] = []
        self.size = 0
        self.is_open = True

    def put(self, lines: bytes) -> bool:
        """Accept one or more complete lines, from any thread; False once closed."""
        with self._changed:
            if self.is_open:
                self._lines.append(lines)
                self.size += len(lines)
                self._changed.notify()
            return self.is_open

    def take(self) -> tuple[bytes, bool]:
        """Wait for lines: all of them, and whether senders may wait. Empty: closed and drained."""
        with self._changed:
            while self.is_open and not self._lines:
                self._changed.wait()
            lines, self._lines = self._lines, []
            was_full, self.size = self.size > _PUSHES_BYTES, 0
        return b"".join(lines), was_full

    def close(self, *, discard: bool = False) -> None:
        """Accept nothing more; with `discard` also forget what was accepted."""
        with self._changed:
            self.is_open = False
            if discard:
                self._lines.clear()
                self.size = 0
            self._changed.notify()
