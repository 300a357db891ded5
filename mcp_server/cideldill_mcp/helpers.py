"""Asks short-lived processes of the tests' interpreter: one request, one reply.

The other side is `pytest_cideldill.oneshot`. Lives on the event loop.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Sequence
from typing import Any

import anyio

from cideldill_mcp.launch import VARIABLE
from pytest_cideldill.oneshot import reply_in


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
    said = b""
    try:
        with anyio.fail_after(within_s):
            told, said = await _run([*interpreter, "-P", "-m", module], json.dumps(request))
        return reply_in(told)
    except TimeoutError:
        raise
    except (OSError, ValueError) as error:
        lines = said.decode("utf-8", "replace").split("\n")
        reason = next((line for line in reversed(lines) if line.strip()), "")
        raise Unanswered(reason or str(error) or type(error).__name__) from error


async def _run(command: list[str], request: str) -> tuple[bytes, bytes]:
    """What a process says on stdout and stderr; it may end without listening."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name != VARIABLE},
    )
    try:
        return await process.communicate(request.encode())
    finally:
        if process.returncode is None:
            process.kill()
            with anyio.CancelScope(shield=True):
                await process.wait()
