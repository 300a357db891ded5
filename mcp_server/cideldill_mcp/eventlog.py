"""The merged event log: one counter for the server's life, memory and, behind it, a file.

Lives on the event loop. Readers hold cursors (`seq` of the last event they saw); waiters are woken
after every event; observers are called once per event, in order.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from typing import Any

RING = 20_000
"""Events kept in memory; twice as many for moments."""

MAX_RUN_BYTES = 256 * 1024 * 1024
"""Bytes on disk of one run's events (contract, section 4). Beyond it hits and calls are dropped."""

DROPPABLE = frozenset({"hit", "call", "output", "log"})
"""Types that may be dropped; stops and outcomes never are."""

_INDEX_STEP = 1_000

Event = dict[str, Any]
Observer = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Filter:
    """Which events a reader wants; None: all."""

    types: Collection[str] | None = None
    nodeid: str | None = None
    run_id: str | None = None

    def admits(self, event: Event) -> bool:
        """Whether an event passes."""
        return (
            (self.types is None or event["type"] in self.types)
            and (self.nodeid is None or event.get("nodeid") == self.nodeid)
            and (self.run_id is None or event.get("run_id") == self.run_id)
        )


class EventLog:
    """See the module."""

    def __init__(self) -> None:
        self._spill = _SpillFile()
        self._recent: list[Event] = []  # contiguous: its first has the number _first
        self._first = 1
        self._bytes: Counter[str] = Counter()  # spilled, by run
        self.dropped: Counter[str] = Counter()  # by run
        self._observers: list[Observer] = []
        self._news = asyncio.Event()

    def keep_in(self, directory: Path) -> None:
        """Use a private folder for what leaves memory; without one it is forgotten."""
        self._spill.path = directory / "events.jsonl"

    @property
    def last_seq(self) -> int:
        """The number of the newest event; 0 when there is none."""
        return self._first + len(self._recent) - 1

    def append(self, type: str, *, ts: float | None = None, **values: Any) -> int:
        """Log an event and wake who waits.

        Args:
            type: One of the contract's event types.
            ts: Epoch seconds at the process that it comes from; default: now.
            values: `run_id`, `worker`, `nodeid`, … plain data.

        Returns:
            Its number; 0 when it was dropped because its run's file is full.
        """
        run_id = values.get("run_id", "")
        if type in DROPPABLE and self._bytes[run_id] >= MAX_RUN_BYTES:
            self.dropped[run_id] += 1
            return 0
        seq = self.last_seq + 1
        event: Event = {"seq": seq, "ts": time.time() if ts is None else ts, "type": type, **values}
        self._recent.append(event)
        if len(self._recent) >= 2 * RING:
            self._spill_oldest()
        for observer in tuple(self._observers):
            observer(event)
        self.wake()
        return seq

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Call `observer` with every event from now on; returns the undo. It must not raise."""
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    def read(self, after: int, limit: int, wanted: Filter) -> tuple[list[Event], int]:
        """Up to `limit` events behind the cursor `after`, oldest first, and the next cursor."""
        found: list[Event] = []
        cursor = after
        for event in self._since(after):
            if len(found) == limit:
                return found, cursor
            cursor = event["seq"]
            if wanted.admits(event):
                found.append(event)
        return found, cursor

    def newest(self, limit: int, wanted: Filter, after: int = 0) -> list[Event]:
        """The newest `limit` events in memory behind `after`, oldest of them first."""
        found: list[Event] = []
        for event in reversed(self._recent):
            if event["seq"] <= after or len(found) == limit:
                break
            if wanted.admits(event):
                found.append(event)
        return found[::-1]

    def count(self, after: int, wanted: Filter) -> int:
        """How many events in memory are behind `after`."""
        start = max(0, after + 1 - self._first)
        return sum(1 for event in self._recent[start:] if wanted.admits(event))

    def close(self) -> None:
        """Close the file; its folder is removed by its owner."""
        self._spill.close()

    # --- waiting ----------------------------------------------------------------------------

    def wake(self) -> None:
        """Let every waiter look again."""
        self._news.set()
        self._news = asyncio.Event()

    async def until(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until `holds()`; it is looked at after every event. False: the time is up."""
        deadline = time.monotonic() + timeout_s
        while not holds():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            try:
                await asyncio.wait_for(self._news.wait(), left)
            except TimeoutError:
                return holds()
        return True

    # --- memory and disk --------------------------------------------------------------------

    def _since(self, after: int) -> Iterator[Event]:
        if after + 1 < self._first:
            yield from self._spill.read(after)
            after = self._first - 1
        yield from self._recent[after + 1 - self._first :]

    def _spill_oldest(self) -> None:
        oldest, self._recent = self._recent[:RING], self._recent[RING:]
        for event in oldest:
            self._bytes[event.get("run_id", "")] += self._spill.write(event)
        self._first += len(oldest)


class _SpillFile:
    """JSON Lines, one event each, in the order of `seq`; an index of every thousandth."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self._file: IO[bytes] | None = None
        self._index: list[tuple[int, int]] = []  # (seq, offset)
        self._count = 0

    def write(self, event: Event) -> int:
        """Append; the bytes it took."""
        if self.path is None:
            return 0
        line = json.dumps(event, separators=(",", ":")).encode("ascii") + b"\n"
        try:
            if self._file is None:
                self._file = self.path.open("wb")
            if self._count % _INDEX_STEP == 0:
                self._index.append((event["seq"], self._file.tell()))
            self._count += 1
            self._file.write(line)
        except OSError:  # a full disk: what leaves memory from now on is forgotten
            self.path = None
            return 0
        return len(line)

    def read(self, after: int) -> Iterator[Event]:
        """The events behind a cursor, oldest first."""
        if self._file is None or self.path is None:
            return
        try:
            self._file.flush()
        except OSError:
            self.path = None
            return
        offset = max((place for seq, place in self._index if seq <= after + 1), default=0)
        with self.path.open("rb") as file:
            file.seek(offset)
            for line in file:
                event = json.loads(line)
                if event["seq"] > after:
                    yield event

    def close(self) -> None:
        """Close the writing side."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
