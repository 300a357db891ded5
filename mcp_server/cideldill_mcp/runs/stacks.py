"""Stacks of a process in which no Python code runs: C code keeps the interpreter.

A signal makes faulthandler, in C, write them to a file of ours (`hooks/stack_file.py` in the
process under test). It is sent only while that file is there and the signal has a handler.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from typing import Any

from cideldill_mcp.processes.cpu import handles, has_open
from cideldill_mcp.processes.process import Target
from pytest_cideldill.project import Project

DUMP_S = 1.0
"""How long faulthandler may take to write."""

QUIET_S = 0.05
"""A file that has not grown for so long is complete."""

MAX_BYTES = 200_000
MAX_STACK = 20

_SIGNAL = getattr(signal, "SIGCONT", None)
_THREAD = re.compile(r"(Current thread|Thread) 0x([0-9a-f]+).* \(most recent call first\):")
_FRAME = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)')


async def dumped_threads(target: Target) -> list[dict[str, Any]] | None:
    """Its threads with their stacks, as `debug_pause` has them; None: it could not be asked."""
    text = await _dump(target)
    return None if text is None else threads_in(text, Project(target.hello.rootdir), target.worker)


async def _dump(target: Target) -> str | None:
    path, pid = target.hello.stacks_file, target.hello.pid
    if path is None or _SIGNAL is None or not target.is_alive or not handles(pid, _SIGNAL):
        return None
    if not has_open(pid, path):  # the program closed it: its number may be another file's now
        return None
    try:
        before = os.path.getsize(path)
        os.kill(pid, _SIGNAL)
        deadline, size = time.monotonic() + DUMP_S, before
        while time.monotonic() < deadline:
            await asyncio.sleep(QUIET_S)
            seen, size = size, os.path.getsize(path)
            if size == seen > before:
                break
        with open(path, "rb") as file:
            file.seek(before)
            return file.read(MAX_BYTES).decode("ascii", "replace") or None
    except OSError:  # it has gone, or has taken the file back
        return None


def threads_in(text: str, project: Project, worker: str) -> list[dict[str, Any]]:
    """What faulthandler wrote: threads without ours, each `stack` innermost first."""
    threads: dict[int, dict[str, Any]] = {}  # of two dumps the later one counts
    frames: list[tuple[str, str, str]] = []
    for line in text.splitlines():
        if head := _THREAD.match(line):
            frames, id = [], int(head[2], 16)
            threads[id] = {
                "id": id,
                "worker": worker,
                "name": None,
                "is_current": head[1] == "Current thread",
                "frames": frames,
            }
        elif (frame := _FRAME.fullmatch(line)) and not project.is_ours(frame[1]):
            frames.append((frame[1], frame[2], frame[3]))
    kept = [thread for thread in threads.values() if thread["frames"]]
    kept.sort(key=lambda each: not each["is_current"])
    return [each | _shown(each.pop("frames"), project) for each in kept]


def _shown(frames: list[tuple[str, str, str]], project: Project) -> dict[str, Any]:
    """`location` of the innermost frame of user code, and the `stack` up to the outermost."""
    users = [index for index, frame in enumerate(frames) if project.is_user(frame[0])]
    file, line, function = frames[users[0] if users else 0]
    end = users[-1] + 1 if users else len(frames)
    return {
        "location": {
            "file": project.relative(file),
            "line": int(line) if line.isdigit() else None,
            "function": function,
            "module": None,
        },
        "stack": [
            f"{project.relative(file)}:{line} {function}"
            for file, line, function in frames[: min(end, MAX_STACK)]
        ],
    }
