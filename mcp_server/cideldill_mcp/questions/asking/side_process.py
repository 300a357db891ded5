"""One pytest process of a question: what it does now, and its way to the end.

It belongs to no run. It is ended in three steps: Ctrl-C, SIGTERM, SIGKILL. What ends it is a task
of its own, which goes on when the client that asked has cancelled its request. On the event loop;
files are read in a thread.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

from cideldill_mcp.processes.launch import Child

Cut = Literal["timeout", "stopped"]
"""Why a process was ended before it was done."""

INTERRUPT_S = 2.0
"""Seconds that a process has after Ctrl-C: for the teardown of its fixtures."""

TERMINATE_S = 1.0
"""Seconds that it has after SIGTERM."""

KILLED_S = 3.0
"""Seconds until a killed process is certainly reaped, and what it printed is read."""

LINGER_S = 2.0
"""Seconds that a process may live after it left pytest: threads may never end."""

LOOK_S = 0.5
"""Seconds between two looks into its file."""

MAX_LOOK = 8 * 1024 * 1024
"""Bytes that are read at one look."""

_WORDS = (b'["test",', b'["phase",', b'["end"]')
"""How the rows begin that are looked for. Only lines that have one of them are decoded."""


class Position:
    """What a process does now, by the end of its file. `look` is called in a thread.

    Attributes:
        test: The test that began last.
        phase: The phase of it that began last.
        has_left: Whether the process has left pytest.
    """

    def __init__(self, file: str) -> None:
        self.test: str | None = None
        self.phase: str | None = None
        self.has_left = False
        self._file = file
        self._offset = 0

    def look(self) -> None:
        """Read the lines that are new; a line that is not yet whole is left for the next look."""
        try:
            with open(self._file, "rb") as stream:
                stream.seek(self._offset)
                data = stream.read(MAX_LOOK)
        except OSError:
            return  # it was taken away: reading the answer says so
        whole = data[: data.rfind(b"\n") + 1]
        if not whole and len(data) == MAX_LOOK:
            whole = data  # no process of ours writes such a line: it is skipped
        self._offset += len(whole)
        phase = None
        for line in reversed(whole.split(b"\n")):
            for kind, *columns in reversed(_rows(line)):
                self.has_left = self.has_left or kind == "end"
                if kind == "phase" and phase is None:
                    phase = str(columns[0])
                elif kind == "test":
                    self.test, self.phase = str(columns[0]), phase
                    return
        self.phase = phase or self.phase


def _rows(line: bytes) -> list[list[Any]]:
    """The rows of a line that are looked for."""
    if not any(word in line for word in _WORDS):
        return []
    try:
        rows = json.loads(line)
    except (ValueError, RecursionError):
        return []
    kinds = {"test": 2, "phase": 2, "end": 1}
    return [
        row
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, list) and row and len(row) == kinds.get(str(row[0]))
    ]


class SideProcess:
    """A process that runs, and the task that sees it to its end.

    Args:
        child: Just started.
        file: Where it writes its rows.
        until: When it is ended, on the monotonic clock.
        on_gone: Called when nothing is left of it.

    Attributes:
        cut: Why it was ended; None: it was not.
        position: What it does now.
        gone: The task; it ends with the process.
    """

    def __init__(self, child: Child, file: str, until: float, on_gone: Callable[[], None]) -> None:
        self.child = child
        self.file = file
        self.cut: Cut | None = None
        self.position = Position(file)
        self._until = until
        self._on_gone = on_gone
        self._is_hurried = self._is_killed = False
        self._news = asyncio.Event()
        child.watch(self._news.set)
        self.gone = asyncio.create_task(self._see_through(), name=f"the end of {child.run}")

    def end(self, cut: Cut, *, hurry: bool = False, kill: bool = False) -> None:
        """End it in steps: with `hurry` without time for fixtures, with `kill` at once."""
        self._is_hurried = self._is_hurried or hurry or kill
        self._is_killed = self._is_killed or kill
        self.cut = self.cut or cut
        self._news.set()

    @property
    def is_gone(self) -> bool:
        """Whether it has ended, and what it left in its process group was killed."""
        return self.child.returncode is not None

    async def _see_through(self) -> None:
        try:
            await self._watch()
            if not self.is_gone and not self._is_killed:
                self.child.interrupt()
                await self._wait(INTERRUPT_S, lambda: self.is_gone or self._is_hurried)
            if not self.is_gone and not self._is_killed:
                self.child.terminate()
                await self._wait(TERMINATE_S, lambda: self.is_gone or self._is_killed)
            if not self.is_gone:
                self.child.kill()
                await self._wait(KILLED_S, lambda: self.is_gone)
        finally:
            if not self.is_gone:  # the event loop ends
                self.child.kill()
            self._on_gone()

    async def _watch(self) -> None:
        """Until it is gone, has lingered, or is to be ended."""
        left_at: float | None = None
        while not self.is_gone and self.cut is None:
            now = time.monotonic()
            if now >= self._until:
                self.cut = "timeout"
                return
            if left_at is not None and now - left_at >= LINGER_S:
                return
            pause = min(LOOK_S, self._until - now)
            if await self._wait(pause, lambda: self.is_gone or self.cut is not None):
                return
            await asyncio.to_thread(self.position.look)
            if self.position.has_left and left_at is None:
                left_at = now

    async def _wait(self, seconds: float, holds: Callable[[], bool]) -> bool:
        end = time.monotonic() + seconds
        while not holds() and (left := end - time.monotonic()) > 0:
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._news.wait()
        return holds()


class Slots:
    """Places for processes; those that ask wait in order. On the event loop.

    Args:
        most: How many there are.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: dict[asyncio.Future[None], None] = {}

    def take(self) -> asyncio.Future[None]:
        """A place: it is done when it is there. It has to be given back in any case."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[place] = None
        self._serve()
        return place

    def give(self, place: asyncio.Future[None]) -> None:
        """Give a place back, or wait for it no longer."""
        if place in self._waiting:
            del self._waiting[place]
            place.cancel()
        else:
            self._free += 1
            self._serve()

    def _serve(self) -> None:
        while self._free > 0 and self._waiting:
            place = next(iter(self._waiting))
            del self._waiting[place]
            self._free -= 1
            place.set_result(None)


def cores() -> int:
    """How many processes may work at a time."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:
        return os.cpu_count() or 1
