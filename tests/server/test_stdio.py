"""The stdio transport under a real low-level server, over pipes, with good and bad clients."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import pytest
from mcp.client.session import ClientSession
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage

from cideldill_mcp.transports import stdio

GUARD_SECONDS = 10.0


async def list_tools(
    ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[])


async def call_tool(
    ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
) -> types.CallToolResult:
    arguments = params.arguments or {}
    for number in range(arguments.get("updates", 0)):
        update = types.ResourceUpdatedNotificationParams(uri=f"count://{number}")
        await ctx.session.send_notification(types.ResourceUpdatedNotification(params=update))
    if arguments.get("forever"):
        await anyio.sleep_forever()
    text = "\ud800" if params.name == "surrogate" else json.dumps(arguments)
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


async def serve(read_fd: int, write_fd: int) -> None:
    server = Server("tiny", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio.stdio_streams(read_fd, write_fd) as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


class Peer:
    """A client that writes raw lines and reads them back."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd = read_fd
        self.write_fd = write_fd
        self._lines = os.fdopen(read_fd, "rb", closefd=False)

    async def send(self, *lines: bytes | dict[str, Any]) -> None:
        encoded = [json.dumps(i).encode() if isinstance(i, dict) else i for i in lines]
        data = memoryview(b"".join(line + b"\n" for line in encoded))
        while data:
            data = data[await blocking(os.write, self.write_fd, data) :]

    async def receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(await blocking(self._lines.readline))
        return message

    async def initialize(self) -> None:
        params = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        await self.send(request(0, "initialize", params))
        assert (await self.receive())["result"]["serverInfo"]["name"] == "tiny"
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def still_works(self) -> None:
        await self.send(request("again", "ping"))
        assert await self.receive() == {"jsonrpc": "2.0", "id": "again", "result": {}}

    def hang_up(self) -> None:
        os.close(self.write_fd)
        self.write_fd = os.open(os.devnull, os.O_WRONLY)

    def stop_reading(self) -> None:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, self.read_fd)
        os.close(null)

    def close(self) -> None:
        self._lines.close()
        os.close(self.read_fd)
        os.close(self.write_fd)


async def blocking(function: Callable[..., Any], *args: Any) -> Any:
    return await anyio.to_thread.run_sync(function, *args, abandon_on_cancel=True)


def request(request_id: int | str, method: str, params: object = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}}


def call(request_id: int | str, name: str = "echo", **arguments: Any) -> dict[str, Any]:
    return request(request_id, "tools/call", {"name": name, "arguments": arguments})


@contextmanager
def pipes() -> Iterator[tuple[Peer, tuple[int, int]]]:
    """A raw client, and the descriptors of the server's side."""
    server_read, client_write = os.pipe()
    client_read, server_write = os.pipe()
    with ExitStack() as stack:
        peer = Peer(client_read, client_write)
        # Numbers of descriptors are reused at once: no parked thread may outlive its test.
        stack.callback(os.close, server_read)
        stack.callback(join_threads, "cideldill-stdin")
        stack.callback(os.close, server_write)
        stack.callback(join_threads, "cideldill-stdout")
        stack.callback(peer.close)
        yield peer, (server_read, server_write)


def join_threads(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(GUARD_SECONDS)
            assert not thread.is_alive()


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Peer, anyio.Event]]:
    """A raw client of a running, initialized server; the event is set when `Server.run` ends."""
    ended = anyio.Event()

    async def run(fds: tuple[int, int]) -> None:
        await serve(*fds)
        ended.set()

    with anyio.fail_after(GUARD_SECONDS), pipes() as (peer, fds):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, fds)
            await peer.initialize()
            yield peer, ended
            tasks.cancel_scope.cancel()


def test_a_client_of_the_sdk_calls_a_tool_and_gets_its_answer() -> None:
    async def main() -> None:
        with anyio.fail_after(GUARD_SECONDS), pipes() as (peer, fds):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(serve, *fds)
                async with (
                    stdio.stdio_streams(peer.read_fd, peer.write_fd) as streams,
                    ClientSession(*streams) as client,
                ):
                    await client.initialize()
                    result = await client.call_tool("echo", {"word": "é…😀"})
                    tasks.cancel_scope.cancel()
            (content,) = result.content
            assert isinstance(content, types.TextContent)
            assert json.loads(content.text) == {"word": "é…😀"}

    anyio.run(main)


NO_MESSAGES: tuple[tuple[bytes, int, int | str | None, str], ...] = (
    (b"{nonsense", -32700, None, "character 2"),
    (b'{"jsonrpc":"2.0","id":1,"method":"p\xff"}', -32700, None, "UTF-8"),
    (b"[" * 100_000, -32700, None, "nesting"),
    (b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"method":"ping"}', -32700, None, "large"),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None, "batches"),
    (b"12", -32600, None, "object"),
    (b'{"jsonrpc":"2.0","id":7}', -32600, 7, "`method` is missing"),
    (b'{"id":"a","method":"ping"}', -32600, "a", "`jsonrpc`"),
    (b'{"jsonrpc":"2.0","id":8,"method":5}', -32600, 8, "`method` must be"),
    (b'{"jsonrpc":"2.0","id":9,"method":"ping","params":[1]}', -32600, 9, "`params`"),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None, "`id`"),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None, "`id`"),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None, "`id`"),
    (b'{"jsonrpc":"2.0","id":3,"method":"ping","params":{"a":"\\ud800"}}', -32600, 3, "hex"),
    (b'{"jsonrpc":"2.0","id":4,"result":"not an object"}', -32600, None, "`result`"),
)
"""A line, and the code, the id and words of the answer to it."""


def test_a_line_that_is_no_message_is_answered_and_the_next_request_works() -> None:
    async def main() -> None:
        async with connected() as (peer, _ended):
            for line, code, request_id, words in NO_MESSAGES:
                await peer.send(line)
                answer = await peer.receive()
                case = (line[:100], answer)
                assert (answer["jsonrpc"], answer["id"]) == ("2.0", request_id), case
                assert answer["error"]["code"] == code, case
                message = answer["error"]["message"]
                assert words in message, case
                assert message.endswith("."), case
                assert len(message) < 150, case
                await peer.still_works()

    anyio.run(main)


def test_blank_lines_and_carriage_returns_are_tolerated() -> None:
    async def main() -> None:
        async with connected() as (peer, _ended):
            await peer.send(b"", b"\r", b"  ", json.dumps(request(1, "ping")).encode() + b"\r")
            assert (await peer.receive())["id"] == 1

    anyio.run(main)


def test_nan_in_a_request_reaches_the_tool_and_kills_nothing() -> None:
    async def main() -> None:
        async with connected() as (peer, _ended):
            await peer.send(call(1, number=float("nan")))
            assert (await peer.receive())["id"] == 1
            await peer.still_works()

    anyio.run(main)


def test_a_line_over_the_cap_is_refused_and_skipped_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stdio, "MAX_LINE_BYTES", 300_000)

    async def main() -> None:
        async with connected() as (peer, _ended):
            await peer.send(call(1, text="x" * 1_000_000))
            answer = await peer.receive()
            assert answer["error"]["code"] == -32600
            assert "300000" in answer["error"]["message"]
            await peer.send(call(2, text="x" * 200_000))
            answer = await peer.receive()
            assert answer["id"] == 2
            assert len(answer["result"]["content"][0]["text"]) > 200_000

    anyio.run(main)


def test_lines_are_found_however_the_bytes_arrive() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        lines = [b"x" * rng.randrange(24) for _ in range(rng.randrange(20))]
        stream = b"".join(line + b"\n" for line in lines)
        splitter = stdio.LineSplitter(16)
        found: list[bytes | None] = []
        while stream:
            size = rng.randrange(1, 60)
            found.extend(splitter.feed(stream[:size]))
            stream = stream[size:]
        assert found == [line if len(line) <= 16 else None for line in lines]


def test_an_answer_that_cannot_be_serialized_becomes_an_error_of_that_request() -> None:
    async def main() -> None:
        async with connected() as (peer, _ended):
            await peer.send(call(5, name="surrogate"))
            answer = await peer.receive()
            assert answer["id"] == 5
            assert answer["error"]["code"] == -32603
            await peer.still_works()

    anyio.run(main)


def test_a_notification_that_cannot_be_serialized_is_dropped_and_a_request_is_refused() -> None:
    note = types.JSONRPCNotification(jsonrpc="2.0", method="note", params={"x": "\ud800"})
    ask = types.JSONRPCRequest(jsonrpc="2.0", id=1, method="ask", params={"x": object()})
    good = types.JSONRPCNotification(jsonrpc="2.0", method="good")

    async def main() -> None:
        with anyio.fail_after(GUARD_SECONDS), pipes() as (peer, fds):
            async with stdio.stdio_streams(*fds) as (_read_stream, write_stream):
                await write_stream.send(SessionMessage(note))
                with pytest.raises(ValueError, match="ask"):
                    await write_stream.send(SessionMessage(ask))
                await write_stream.send(SessionMessage(good))
                assert await peer.receive() == {"jsonrpc": "2.0", "method": "good"}

    anyio.run(main)


@pytest.mark.full
def test_five_thousand_notifications_arrive_in_order_before_their_answer() -> None:
    async def main() -> None:
        async with connected() as (peer, _ended):
            await peer.send(call(1, updates=5_000))
            received = await blocking(lambda: [peer._lines.readline() for _ in range(5_001)])
            messages = [json.loads(line) for line in received]
            uris = [message["params"]["uri"] for message in messages[:-1]]
            assert uris == [f"count://{number}" for number in range(5_000)]
            assert messages[-1]["id"] == 1

    anyio.run(main)


@pytest.mark.full
def test_a_burst_of_requests_is_answered_completely() -> None:
    async def main() -> None:
        async with connected() as (peer, _ended):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(peer.send, *(request(n, "ping") for n in range(1_000))))
                received = await blocking(lambda: [peer._lines.readline() for _ in range(1_000)])
            assert {json.loads(line)["id"] for line in received} == set(range(1_000))

    anyio.run(main)


def test_the_end_of_input_ends_the_server_with_a_call_in_flight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stdio, "DRAIN_SECONDS", 10 * GUARD_SECONDS)  # waiting for it would show

    async def main() -> None:
        async with connected() as (peer, ended):
            await peer.send(call(1, forever=True))
            await peer.still_works()
            peer.hang_up()
            await ended.wait()

    anyio.run(main)


def test_a_last_line_without_newline_is_read_before_the_stream_ends() -> None:
    async def main() -> None:
        with anyio.fail_after(GUARD_SECONDS), pipes() as (peer, fds):
            async with stdio.stdio_streams(*fds) as (read_stream, _write_stream):
                await blocking(os.write, peer.write_fd, b'{"jsonrpc":"2.0","method":"last"}')
                peer.hang_up()
                messages = [item async for item in read_stream]
            (item,) = messages
            assert isinstance(item, SessionMessage)
            assert isinstance(item.message, types.JSONRPCNotification)
            assert item.message.method == "last"

    anyio.run(main)


def test_cancelling_the_server_does_not_wait_for_the_parked_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stdio, "DRAIN_SECONDS", 10 * GUARD_SECONDS)

    async def main() -> None:
        with anyio.fail_after(GUARD_SECONDS), pipes() as (peer, fds):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(serve, *fds)
                await peer.initialize()
                await peer.still_works()
                tasks.cancel_scope.cancel()
            # Here the client's end is still open: a read that was waited for would never end.

    anyio.run(main)


def test_a_client_that_closed_its_end_of_the_output_ends_the_server() -> None:
    async def main() -> None:
        async with connected() as (peer, ended):
            peer.stop_reading()
            await peer.send(request(1, "ping"))
            await ended.wait()

    anyio.run(main)


def test_a_client_that_reads_nothing_delays_the_end_only_briefly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stdio, "DRAIN_SECONDS", 0.05)

    async def main() -> None:
        with anyio.fail_after(GUARD_SECONDS), pipes() as (_peer, fds):
            async with stdio.stdio_streams(*fds) as (_read_stream, write_stream):
                await write_stream.send(big_note(0))
                started = time.monotonic()
            assert stdio.DRAIN_SECONDS <= time.monotonic() - started < GUARD_SECONDS / 2

    anyio.run(main)


Sends = Callable[[stdio.StdioWriteStream, int], Awaitable[None]]


async def send_one(stream: stdio.StdioWriteStream, number: int) -> None:
    await stream.send(big_note(number))


async def send_one_and_write_three(stream: stdio.StdioWriteStream, number: int) -> None:
    await stream.send(big_note(4 * number))
    await stream.write(lines_of(*range(4 * number + 1, 4 * number + 4)))


@pytest.mark.parametrize(("sends", "notes"), [(send_one, 1), (send_one_and_write_three, 4)])
def test_senders_wait_while_much_is_unsent_and_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch, sends: Sends, notes: int
) -> None:
    """Messages and lines leave in the order in which they were sent."""
    monkeypatch.setattr(stdio, "_HIGH_WATER_BYTES", 500_000)
    sent: list[int] = []
    count = 40 // notes

    async def main() -> None:
        with anyio.fail_after(GUARD_SECONDS), pipes() as (peer, fds):
            async with stdio.stdio_streams(*fds) as (_read_stream, write_stream):

                async def send() -> None:
                    for number in range(count):
                        await sends(write_stream, number)
                        sent.append(number)

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(send)
                    await anyio.wait_all_tasks_blocked()
                    assert 0 < len(sent) < count // 2
                    received = await blocking(lambda: [peer._lines.readline() for _ in range(40)])
                assert [json.loads(line)["params"]["number"] for line in received] == [*range(40)]
            with pytest.raises(anyio.ClosedResourceError):
                await write_stream.write(b"{}\n")

    anyio.run(main)


@pytest.mark.full
def test_a_reply_waits_for_few_lines_of_a_client_that_reads_slowly() -> None:
    """Pushes wait while little is unsent, and replies don't."""

    async def main() -> None:
        with anyio.fail_after(GUARD_SECONDS), pipes() as (peer, fds):
            async with stdio.stdio_streams(*fds) as (_read_stream, write_stream):

                async def push() -> None:
                    for number in range(1, 40):
                        await write_stream.write(lines_of(number))

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(push)
                    await anyio.wait_all_tasks_blocked()
                    await write_stream.send(big_note(0))
                    received = await blocking(lambda: [peer._lines.readline() for _ in range(40)])
                numbers = [json.loads(line)["params"]["number"] for line in received]
                # One is being written, and one waits.
                assert numbers.index(0) <= 2
                assert sorted(numbers) == [*range(40)]

    anyio.run(main)


def lines_of(*numbers: int) -> bytes:
    """Notes as they are written."""
    notes = [big_note(number).message.model_dump_json().encode() for number in numbers]
    return b"\n".join([*notes, b""])


def big_note(number: int) -> SessionMessage:
    params = {"number": number, "text": "x" * 200_000}
    return SessionMessage(types.JSONRPCNotification(jsonrpc="2.0", method="n", params=params))


def test_output_accepted_before_the_end_is_written() -> None:
    async def main() -> None:
        with anyio.fail_after(GUARD_SECONDS), pipes() as (peer, fds):
            async with stdio.stdio_streams(*fds) as (_read_stream, write_stream):
                for number in range(20):
                    note = types.JSONRPCNotification(jsonrpc="2.0", method=f"n{number}")
                    await write_stream.send(SessionMessage(note))
            methods = [(await peer.receive())["method"] for _ in range(20)]
            assert methods == [f"n{number}" for number in range(20)]
            with pytest.raises(anyio.ClosedResourceError):
                await write_stream.send(big_note(20))

    anyio.run(main)


CLAIMING = """
import gc, os, subprocess, sys
from cideldill_mcp.sdk import prepare_import
gc.disable()  # to import as the front end does takes half of the time
prepare_import()
from cideldill_mcp.transports.stdio import claim_stdio
read_fd, write_fd = claim_stdio()
assert read_fd > 2 and write_fd > 2
assert not os.get_inheritable(read_fd) and not os.get_inheritable(write_fd)
print("stray print")
subprocess.run([sys.executable, "-c", "import sys; print('child read', repr(sys.stdin.read()))"])
assert sys.stdin.read() == ""
os.write(write_fd, os.read(read_fd, 100))
"""


@pytest.mark.full
def test_after_the_claim_only_the_transport_reaches_the_wire() -> None:
    paths = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CLAIMING],
        input=b"wire\n",
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert done.stdout == b"wire\n"
    assert b"stray print" in done.stderr
    assert b"child read ''" in done.stderr
    assert done.returncode == 0
