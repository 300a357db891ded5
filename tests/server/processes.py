"""A front end without a client, and fake test processes that speak the wire by hand.

The runs are real (their child is `sleep`); what dials in is this module's `Process`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import mcp_types as types
import pytest

from cideldill_mcp.breakpoints import inspection
from cideldill_mcp.breakpoints.collection import Desired
from cideldill_mcp.events.log import EventLog
from cideldill_mcp.processes import helpers
from cideldill_mcp.processes.launch import Recipe
from cideldill_mcp.questions.asking.beside_runs import questions_beside
from cideldill_mcp.runs.registry import Runs
from cideldill_mcp.runs.run import Run, RunOrder
from cideldill_mcp.sources import source_questions
from cideldill_mcp.tools import profile
from cideldill_mcp.tools.definitions import Progress
from cideldill_mcp.tools.toolbox import Toolbox
from pytest_cideldill.protocol import (
    PROTOCOL,
    Begin,
    Hello,
    Message,
    Replied,
    Stopped,
    from_plain,
    to_plain,
)
from pytest_cideldill.protocol.framing import FrameDecoder, encode_frame
from pytest_cideldill.sourcecode import helper
from tests.reply_table import checked

WAITING = Recipe(["sh", "-c", "exec sleep 60"], [])
"""Starts a child that never dials in; any argument may follow."""

NO_PID = 4_194_305
"""Of no process: systems count less far."""

DEADLINE_S = 10.0
"""No wait of a test takes longer."""

M = TypeVar("M")


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test function on an event loop of its own, bounded."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 3 * DEADLINE_S))

    return run


@contextlib.contextmanager
def answered_here(*interpreter: str) -> Iterator[None]:
    """Questions about sources, asked of this interpreter, are answered without another process.

    Which takes a tenth of a second to start; tests of how it is asked start it.
    """

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        reply = helper.answer(json.loads(json.dumps(request)))
        read: dict[str, Any] = json.loads(json.dumps(reply))
        return read

    async def ask(
        command: Sequence[str], module: str, request: dict[str, Any], within_s: float
    ) -> dict[str, Any]:
        if (*command,) == interpreter:
            return answer(request)
        return await helpers.ask(command, module, request, within_s)

    class Here(helpers.Helper):
        async def ask(self, request: dict[str, Any], within_s: float) -> dict[str, Any]:
            if (*self._command[: len(interpreter)],) == interpreter:
                return answer(request)
            return await super().ask(request, within_s)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(inspection, "ask", ask)
        patched.setattr(source_questions, "Helper", Here)
        yield


class Process:
    """One fake process under test; `worker` is its name."""

    def __init__(
        self, worker: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.worker = worker
        self._reader, self._writer = reader, writer
        self._decoder = FrameDecoder()
        self._received: list[Message] = []

    @classmethod
    async def connect(cls, invitation: dict[str, Any], worker: str = "main") -> Process:
        """Open a connection and say nothing."""
        address = invitation["address"]
        if isinstance(address, str):
            return cls(worker, *await asyncio.open_unix_connection(address))
        return cls(worker, *await asyncio.open_connection(*address))

    async def raw(self, data: bytes) -> None:
        """Send bytes."""
        self._writer.write(data)
        await self._writer.drain()

    async def send(self, *messages: Message) -> None:
        """Send messages."""
        await self.raw(b"".join(encode_frame(to_plain(each)) for each in messages))

    async def receive(self) -> Message:
        """The next message.

        Raises:
            EOFError: The server hung up.
        """
        while not self._received:
            data = await asyncio.wait_for(self._reader.read(65536), DEADLINE_S)
            if not data:
                raise EOFError
            self._received += map(from_plain, self._decoder.feed(data))
        return self._received.pop(0)

    async def next(self, kind: type[M]) -> M:
        """The next message, which must be of this kind."""
        message = await self.receive()
        assert isinstance(message, kind), message
        return message

    async def is_dropped(self) -> bool:
        """Whether the server hung up and said nothing more."""
        try:
            message = await self.receive()
        except (EOFError, ConnectionError):
            return True
        raise AssertionError(f"not dropped: {message}")

    async def until_begin(self) -> list[Message]:
        """Every command of the handshake, `Begin` left out."""
        commands: list[Message] = []
        while not isinstance(command := await self.receive(), Begin):
            commands.append(command)
        return commands

    async def answer(self, kind: type[M], **result: Any) -> M:
        """Receive a command of this kind and answer it."""
        command = await self.next(kind)
        await self.send(Replied(command.request, result))  # type: ignore[attr-defined]
        return command

    async def stop(self, number: int = 1) -> str:
        """Report a pause before a call; its id."""
        pause = pause_of(self.worker, number)
        await self.send(Stopped(pause))
        id: str = pause["id"]
        return id

    async def close(self) -> None:
        """Hang up."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


def hello_of(run_id: str, worker: str, protocol: int = PROTOCOL) -> Hello:
    """What a process says first."""
    engine = {"name": "none"}
    return Hello(
        protocol, run_id, NO_PID, worker, "3.12.1", "python", "9.0", "rootdir", "cwd", [], engine
    )


def pause_of(worker: str, number: int, **changes: Any) -> dict[str, Any]:
    """A pause before a call, as a process reports it."""
    return {
        "id": f"r1.{worker}.{number}",
        "paused_at": 1.0,
        "lease_expires_at": 2.0,
        "repl_sessions": [],
        "pause_reason": "breakpoint",
        "phase": "before",
        "when": "call",
        "breakpoint_id": "fn-1",
        "nodeid": f"test_{worker}.py::test_x",
        "run_id": "r1",
        "worker": worker,
        "thread": {"id": 1, "name": "MainThread"},
        "location": {"file": "shop.py", "line": 3, "function": "total", "source": "x"},
        "locals": {},
        "frames": [{"file": "shop.py", "line": 3, "function": "total", "source": "x"}],
        "call_data": {
            "method_name": "total",
            "qualified_name": "shop.total",
            "pretty_args": ["1"],
            "pretty_kwargs": {},
            "signature": "(n)",
            "call_site": {"file": "shop.py", "line": 9},
            "call_id": f"c{number}",
            "process_pid": NO_PID,
        },
    } | changes


def frame_of(file: str, line: int, function: str, **held: str) -> dict[str, Any]:
    """A frame of an autopsy with variables."""
    variables = [{"name": name, "type": "int", "value": value} for name, value in held.items()]
    return {
        "index": 0,
        "function": function,
        "module": None,
        "isExternal": False,
        "location": {"file": file, "line": line},
        "source": f"line {line}",
        "arguments": [],
        "variables": {"locals": variables},
    }


def autopsy_of(*frames: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The autopsy of a failed test, as its process tells it."""
    return {
        "exception": {
            "type": "AssertionError",
            "message": "assert 95 == 90",
            "isFirstChance": False,
            "stackTraceString": "test_cart.py:29 in test_total",
        },
        "frames": list(frames) or [frame_of("test_cart.py", 29, "test_total", coupon="'BULK10'")],
        "totalFrames": 1,
        "throwingFrameIndex": 0,
        "userFrameIndex": 0,
        "innerExceptions": [],
        "innerExceptionsTruncated": False,
        "notes": [],
        "parameters": {"coupon": "'BULK10'"},
        "fixtures": [{"name": "cart", "scope": "function", "value": "Cart()"}],
        "stdout": "",
        "stderr": "",
        "log": "",
    } | changes


class CheckedToolbox(Toolbox):
    """A toolbox whose replies are checked against `tests/reply_table.py`."""

    async def call(
        self, name: str, arguments: dict[str, Any], progress: Progress, client: str
    ) -> types.CallToolResult:
        result = await super().call(name, arguments, progress, client)
        (content,) = result.content
        assert isinstance(content, types.TextContent)
        checked(name, arguments, content.text, is_error=bool(result.is_error))
        return result


class Front:
    """The front end's inside: runs, breakpoints, tools."""

    def __init__(self) -> None:
        self.desired, self.log = Desired(), EventLog()
        self.runs = Runs(Recipe(["sleep"], ["60"]), self.desired, self.log)
        self.questions = questions_beside(self.runs)
        self.toolbox = CheckedToolbox(profile.tools("full"), self.runs, self.questions)
        self._processes: list[Process] = []

    async def start(self, **order: Any) -> Run:
        """Start a run; its child never dials in."""
        return await self.runs.start(RunOrder(**order))

    async def connect(self, run_id: str = "r1", worker: str = "main") -> Process:
        """A connection that has shown the token and nothing else."""
        invitation = self.invitation(run_id)
        process = await Process.connect(invitation, worker)
        self._processes.append(process)
        await process.raw(bytes.fromhex(invitation["token"]))
        return process

    def invitation(self, run_id: str = "r1") -> dict[str, Any]:
        """What the child of a run found in its environment."""
        return self.runs._hub.invitation(run_id)

    async def greeted(self, worker: str = "main", run_id: str = "r1") -> Process:
        """A process that has said hello; its handshake is not read yet."""
        process = await self.connect(run_id, worker)
        await process.send(hello_of(run_id, worker))
        return process

    async def live(self, *workers: str) -> list[Process]:
        """Processes that have begun."""
        processes = [await self.greeted(worker) for worker in workers]
        for each in processes:
            await each.until_begin()
        return processes

    def call(self, tool: str, **arguments: Any) -> asyncio.Task[dict[str, Any]]:
        """Start a tool call; the task's result is the reply, error objects included."""

        async def progress(_done: float, _total: float | None, _text: str) -> None:
            return None

        async def call() -> dict[str, Any]:
            result = await self.toolbox.call(tool, arguments, progress, "client")
            (content,) = result.content
            body: dict[str, Any] = json.loads(content.text)  # type: ignore[union-attr]
            return body

        return asyncio.get_running_loop().create_task(call())

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until events have made it so."""
        assert await self.log.until(holds, DEADLINE_S)

    async def close(self) -> None:
        """End everything; processes hang up when they are told to let go."""
        await self.questions.close(DEADLINE_S)
        closing = self.runs.close("disconnect", DEADLINE_S)
        await asyncio.gather(closing, *(each.close() for each in self._processes))


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Front]:
    """A front end that leaves nothing behind."""
    front = Front()
    try:
        yield front
    finally:
        await front.close()
