"""A run of many xdist workers without any pytest: they speak the wire protocol, and test nothing.

Started by the server that `benchmarks.scale` measures, as its tests' interpreter.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pytest_cideldill.protocol import (
    PROTOCOL,
    AddLine,
    Begin,
    Bound,
    Collected,
    Departed,
    Event,
    Finished,
    Hello,
    LinesPassed,
    NodeFinished,
    NodeStarted,
    PhaseReported,
    Recorded,
    Replied,
    Resume,
    Resumed,
    Stopped,
    columns,
    from_plain,
    to_plain,
)
from pytest_cideldill.protocol.framing import FrameDecoder, encode_frame

PLAN = "CIDELDILL_BENCHMARK_PLAN"
"""The environment variable that holds a `Plan`."""

FAILS_EVERY = 100
"""One test of so many fails."""

LINE = {"file": "shop/cart.py", "line": 17, "function": "total", "module": "shop.cart"}
TEXT = "x" * 2_000
"""Of a failure: its report; its autopsy has the fourfold."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How large it is.

    Attributes:
        tests: Of all workers together.
        hits: Of one tracepoint, in each test.
        pauses: How many workers pause, …
        stops: … and how often: in their first test, then at equal distances.
        per_s: Tests in a second, of all workers together; 0: as fast as it goes.
    """

    workers: int = 1_000
    tests: int = 100_000
    hits: int = 5
    pauses: int = 10
    stops: int = 1
    per_s: int = 1_000


class Worker:
    """One connection."""

    def __init__(self, name: str, invitation: dict[str, Any], plan: Plan) -> None:
        self.name = name
        self._invitation = invitation
        self._plan = plan
        self._number = 0
        self._tracepoint: str | None = None
        self._hits = 0
        self._pauses = 0
        self._is_resumed = asyncio.Event()

    async def connect(self) -> None:
        """Dial in, shake hands."""
        self._reader, self._writer = await asyncio.open_unix_connection(self._invitation["address"])
        self._writer.write(bytes.fromhex(self._invitation["token"]))
        root = os.getcwd()
        self.tell(
            Hello(
                PROTOCOL,
                self._invitation["run_id"],
                os.getpid(),
                self.name,
                "3.12.1",
                sys.executable,
                "9.0",
                root,
                root,
                [],
                {"name": "monitoring", "why": None},
            )
        )
        decoder, has_begun = FrameDecoder(), False
        while not has_begun:
            for plain in decoder.feed(await self._reader.read(65536)):
                command = from_plain(plain)
                has_begun = has_begun or isinstance(command, Begin)
                if isinstance(command, AddLine):
                    self._tracepoint = command.id
                    self.tell(Bound(command.id, ["total"], verified=True))
        self._listener = asyncio.create_task(self._listen(decoder))

    def tell(self, event: Event) -> None:
        """Send an event."""
        self._number += 1
        stamp = {"n": self._number, "ts": time.time()}
        self._writer.write(encode_frame(stamp | to_plain(event)))

    async def run(self, nodeids: list[str]) -> None:
        """Tell of these tests, as many in a second as is this worker's share."""
        pause_s = self._plan.workers / self._plan.per_s if self._plan.per_s else 0.0
        self.tell(Collected(self._plan.tests, []))
        pausing = self._pausing(len(nodeids))
        began = time.monotonic()
        for number, nodeid in enumerate(nodeids):
            if number in pausing:
                await self._pause(nodeid)
            for event in self._events(nodeid):
                self.tell(event)
            await self._writer.drain()
            await asyncio.sleep(max(0.0, began + (number + 1) * pause_s - time.monotonic()))
        if self._tracepoint is not None:
            self.tell(LinesPassed({self._tracepoint: {"passes": self._hits}}))

    async def leave(self, exit_code: int | None = None) -> None:
        """Say goodbye; with the verdict of the run, if this is its main process."""
        if exit_code is not None:
            self.tell(Finished(exit_code))
        self.tell(Departed())
        await self._writer.drain()
        self._listener.cancel()
        self._writer.close()
        await self._writer.wait_closed()

    def _pausing(self, tests: int) -> set[int]:
        """The numbers of the tests in which this worker pauses."""
        pauses = self.name in {f"gw{number}" for number in range(self._plan.pauses)}
        stops = self._plan.stops if pauses else 0
        return {number * tests // stops for number in range(stops)}

    def _events(self, nodeid: str) -> Iterator[Event]:
        now = time.time()
        yield NodeStarted(nodeid, now)
        if self._tracepoint is not None:
            of_all = {
                "type": "hit",
                "ts": now,
                "nodeid": nodeid,
                "thread": 1,
                "breakpoint_id": self._tracepoint,
                "location": LINE,
            }
            first, self._hits = self._hits + 1, self._hits + self._plan.hits
            counts = range(first, self._hits + 1)
            own = {
                "hit_count": columns.integers(counts),
                "message": columns.texts([f"n={n}" for n in counts]),
            }
            yield Recorded([], [{"count": len(counts), "common": of_all, "columns": own}])
        fails = int(nodeid.rpartition("_")[2]) % FAILS_EVERY == 0
        if fails:
            raised = {"type": "AssertionError", "message": "assert 95 == 90"}
            autopsy = {"exception": raised, "frames": [{"source": TEXT}] * 4}
            yield PhaseReported(
                nodeid, "call", "failed", "failed", 0.1, raised, LINE, TEXT, autopsy=autopsy
            )
        yield NodeFinished(nodeid, 0.1, {} if fails else {"passed": 1})

    async def _pause(self, nodeid: str) -> None:
        self._pauses += 1
        self._is_resumed.clear()
        id = f"{self._invitation['run_id']}.{self.name}.{self._pauses}"
        thread = {"id": 1, "name": "MainThread"}
        pause = {
            "id": id,
            "nodeid": nodeid,
            "worker": self.name,
            "run_id": self._invitation["run_id"],
            "pause_reason": "breakpoint",
            "phase": "line",
            "when": "call",
            "breakpoint_id": None,
            "call_data": None,
            "paused_at": time.time(),
            "repl_sessions": [],
            "thread": thread,
            "location": LINE,
            "locals": {"n": "1"},
            "frames": [],
            "lease_expires_at": time.time() + 1_800,
        }
        self.tell(NodeStarted(nodeid, time.time()))
        self.tell(Stopped(pause))
        await self._is_resumed.wait()
        self.tell(Resumed(id, "continue", "client"))

    async def _listen(self, decoder: FrameDecoder) -> None:
        while data := await self._reader.read(65536):
            for plain in decoder.feed(data):
                command = from_plain(plain)
                if isinstance(command, Resume):
                    self.tell(Replied(command.request, {}))
                    self._is_resumed.set()


async def play(invitation: dict[str, Any], plan: Plan) -> int:
    """The whole run; pytest's exit code."""
    main = Worker("main", invitation, plan)
    await main.connect()
    workers = [Worker(f"gw{number}", invitation, plan) for number in range(plan.workers)]
    await asyncio.gather(*(each.connect() for each in workers))
    nodeids = [f"tests/test_{n % 500}.py::test_number_{n}" for n in range(plan.tests)]
    shares = (nodeids[number :: plan.workers] for number in range(plan.workers))
    await asyncio.gather(*(each.run(share) for each, share in zip(workers, shares, strict=True)))
    await asyncio.gather(*(each.leave() for each in workers))
    await main.leave(1)
    return 1


if __name__ == "__main__":
    given = json.loads(os.environ["CIDELDILL_CHILD"])
    sys.exit(asyncio.run(play(given, Plan(**json.loads(os.environ[PLAN])))))
