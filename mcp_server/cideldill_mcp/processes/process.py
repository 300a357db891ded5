"""One connected process under test: its greeting, its threads, the commands that await an answer.

Lives on the event loop; knows nothing of sockets: it is given a callable that writes a command.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from cideldill_mcp.processes.arrived_tests import ArrivedTests, Stamped
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.protocol import Command, FindCode, Hello, ReadThreads, Replied
from pytest_cideldill.protocol.current_test_file import is_ending

MAIN = "main"
"""Worker name of a process that is no xdist worker."""


EXTRA_S = (0.2, 0.3, 0.5)
"""Waits after the time was up; user code may swallow an interruption, so it is sent again."""


@dataclass(frozen=True, slots=True)
class Look:
    """The threads and asyncio tasks of a process, each with its `worker`.

    Attributes:
        at: When it sent them, in epoch seconds.
        threads: See `frames.threads` in the process under test.
        tasks: The same.
    """

    at: float
    threads: list[dict[str, Any]]
    tasks: list[dict[str, Any]]


class Target:
    """A connected process: sends it commands, and awaits its replies.

    Args:
        write: Queues a command for it; never blocks.
        is_remote: It is on another machine: its process and its files are not to be found here.

    Attributes:
        has_departed: It said goodbye.
        is_cut_off: Its connection ended while it lived on.
        heard_at: When it last sent something about its tests, on the monotonic clock.
        attached_at: When it connected, in epoch seconds.
        last_look: The newest of its threads.
        loaded: Files (real paths) that it said it has loaded code of.
        tests: Its events of tests, one by one.
    """

    def __init__(
        self, hello: Hello, write: Callable[[Command], None], *, is_remote: bool = False
    ) -> None:
        self.hello = hello
        self.is_remote = is_remote
        self.send = write
        self.is_alive = True
        self.has_departed = False
        self.is_cut_off = False
        self.heard_at = time.monotonic()
        self.attached_at = round(time.time(), 3)
        self.last_look: Look | None = None
        self.loaded: set[str] = set()
        self.tests = ArrivedTests()
        self._requests = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}

    @property
    def worker(self) -> str:
        """`main`, `gw0`, …"""
        return self.hello.worker

    @property
    def tears_down(self) -> bool:
        """Whether its position file says that it only cleans up; False if there is none."""
        return is_ending(self.hello.position_file or "")

    def left_behind(self) -> Iterator[Stamped]:
        """Events of its tests that did not arrive before it died, with their epoch seconds."""
        path = self.hello.position_file
        return iter(()) if path is None else self.tests.left_behind(path)

    async def ask(
        self,
        make: Callable[[int], Command],
        timeout_s: float,
        on_timeout: Callable[[int], None] | None = None,
    ) -> dict[str, Any]:
        """Send the command that `make` builds from a request number; return the answer.

        Args:
            on_timeout: Called with the request number when the time is up, and a few times during
                one more second of waiting; without it the time is final.

        Raises:
            Refusal: What the process answered; `process_busy` when it did not answer in time;
                `not_live` when it ended meanwhile.
        """
        request = next(self._requests)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[request] = future
        try:
            if not self.is_alive:
                raise self._gone()
            self.send(make(request))
            for wait_s in (timeout_s, *EXTRA_S):
                done, _ = await asyncio.wait([future], timeout=wait_s)
                if done or on_timeout is None:
                    break
                on_timeout(request)
            return await asyncio.wait_for(future, 0)
        except TimeoutError:
            raise Refusal(
                ErrorCode.PROCESS_BUSY,
                f"the test process {self.worker} (pid {self.hello.pid}) does not answer; it may be "
                "busy in C code, or between a fork and its next test",
                worker=self.worker,
            ) from None
        finally:
            del self._waiting[request]
            future.cancel()

    async def look(self, timeout_s: float) -> Look:
        """Its threads now. Raises Refusal: see `ask`."""
        reply = await self.ask(ReadThreads, timeout_s)
        named = {
            kind: [each | {"worker": self.worker} for each in reply[kind]]
            for kind in ("threads", "tasks")
        }
        self.last_look = Look(round(time.time(), 3), **named)
        return self.last_look

    async def has_loaded(self, file: str, timeout_s: float) -> bool:
        """Whether it has loaded code of a file, given by its real path.

        Raises:
            Refusal: See `ask`.
        """
        reply = await self.ask(lambda request: FindCode(request, file), timeout_s)
        if reply["loaded"]:
            self.loaded.add(file)
        return file in self.loaded

    def answer(self, replied: Replied) -> None:
        """Hand a reply to the request that waits for it; a late one is dropped."""
        future = self._waiting.get(replied.request)
        if future is None or future.done():
            return
        if replied.error is not None:
            future.set_exception(Refusal.from_plain(replied.error))
        else:
            future.set_result(replied.result or {})

    def lost(self) -> None:
        """The connection ended; nobody will answer any more."""
        self.is_alive = False
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(self._gone())

    def _gone(self) -> Refusal:
        return Refusal(
            ErrorCode.NOT_LIVE,
            f"the test process {self.worker} of run {self.hello.run_id} has ended; test_run starts "
            "another",
            run_id=self.hello.run_id,
        )
