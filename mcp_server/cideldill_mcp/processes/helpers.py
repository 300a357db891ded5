"""Asks short-lived processes of the tests' interpreter: one request each, or one after another.

The other side is `pytest_cideldill.interpreter.one_shot`. Lives on the event loop.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from cideldill_mcp.processes.launch import VARIABLE
from pytest_cideldill.interpreter.one_shot import reply_in, reply_on

MAX_REPLY_BYTES = 64_000_000
"""Of one reply among several."""

KEPT_BYTES = 65_536
"""Of what a process that answers several requests says on stderr."""

LAST_WORDS_S = 0.5
"""How long stderr is listened to when such a process has ended."""


class Unanswered(Exception):
    """There was no reply; the text says why."""


async def ask(
    interpreter: Sequence[str], module: str, request: dict[str, Any], within_s: float
) -> dict[str, Any]:
    """The reply of a module that runs as a process of its own.

    Args:
        interpreter: With its flags.
        module: Run by `-m`; the working directory is not on its path.
        request: JSON.
        within_s: Seconds; then the process is killed.

    Raises:
        Unanswered: It could not be started, or ended without a reply.
        TimeoutError: It took longer.
    """
    errors = b""
    try:
        async with asyncio.timeout(within_s):
            process = await _started([*interpreter, "-P", "-m", module])
            try:  # it may end without listening
                output, errors = await process.communicate(json.dumps(request).encode())
            finally:
                await _ended(process)
        return reply_in(output)
    except TimeoutError:
        raise
    except (OSError, ValueError) as error:
        raise Unanswered(_last_line(errors) or str(error) or type(error).__name__) from error


class Helper:
    """A module that answers one request after another, in a process that is started for the first.

    Attributes:
        is_up: Whether the process works: it has answered that it is ready.

    Args:
        interpreter: As `ask` takes it.
        module: As `ask` takes it; reads requests and writes replies line by line, and takes
            `{"op": "ready"}`.
    """

    def __init__(self, interpreter: Sequence[str], module: str) -> None:
        self._command = [*interpreter, "-P", "-m", module]
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self._said = bytearray()
        self.is_up = False

    async def ask(self, request: dict[str, Any], within_s: float) -> dict[str, Any]:
        """The reply to a request. After a failure, `close` it; then it starts another process.

        Raises:
            Unanswered, TimeoutError: As `helpers.ask`.
        """
        async with asyncio.timeout(within_s):
            try:
                if self._process is None:
                    await self._start()
                return await self._exchange(request)
            except (OSError, ValueError) as error:
                await self._hear_out()
                raise Unanswered(_last_line(self._said) or str(error)) from error

    async def close(self) -> None:
        """End the process, if there is one."""
        process, self._process, self.is_up = self._process, None, False
        if process is None:
            return
        await _ended(process)
        assert process.stdin
        assert process.stdout
        process.stdin.close()
        try:
            with suppress(TimeoutError):  # what it started may hold its pipes
                async with asyncio.timeout(LAST_WORDS_S):
                    while await process.stdout.read(KEPT_BYTES):
                        pass
            await self._hear_out()
        finally:
            if self._listening is not None:
                self._listening.cancel()

    async def _start(self) -> None:
        self._said.clear()
        self._process = await _started(self._command)
        assert self._process.stderr
        self._listening = asyncio.create_task(_listen(self._process.stderr, self._said))
        await self._exchange({"op": "ready"})
        self.is_up = True

    async def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process
        assert self._process.stdin
        assert self._process.stdout
        with suppress(BrokenPipeError, ConnectionResetError):  # its stderr says more
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            await self._process.stdin.drain()
        while line := await self._process.stdout.readline():
            if (reply := reply_on(line)) is not None:
                return reply
        raise ValueError("it did not reply")

    async def _hear_out(self) -> None:
        """Wait for what a process said last; not for what it started."""
        if self._listening is not None:
            await asyncio.wait([self._listening], timeout=LAST_WORDS_S)


async def _started(command: list[str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        limit=MAX_REPLY_BYTES,
        env={name: value for name, value in os.environ.items() if name != VARIABLE},
    )


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Kill a process if it lives, and wait for its end."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await asyncio.shield(process.wait())


async def _listen(stream: asyncio.StreamReader, said: bytearray) -> None:
    """Keep the end of what a process says."""
    while data := await stream.read(KEPT_BYTES):
        said += data
        del said[:-KEPT_BYTES]


def _last_line(said: bytes | bytearray) -> str:
    """The last one with something in it; empty: there is none."""
    lines = said.decode("utf-8", "replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "")
