"""The merged event log: one counter for the server's life, memory and, behind it, a file.

Lives on the event loop. Readers hold cursors (`seq` of the last event they saw); waiters are woken
after every event; observers are called once per event, in order.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import traceback
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any

from cideldill_mcp.events.entries import (
    Entry,
    Event,
    LoggedEvent,
    LoggedRows,
    events_of,
    is_batch,
    logged,
)
from cideldill_mcp.events.spill import Block, Spill
from cideldill_mcp.fast_json import encode_ascii, encode_fast
from pytest_cideldill.protocol import Recorded

RING = 20_000
"""Events kept in memory."""

BLOCK = 250
"""Events that leave memory at once, and that a reader takes from the file at once; milliseconds."""

SCAN_BYTES = 64 * 1024 * 1024
"""Bytes of old events that one call of `read` looks through; some tenths of a second. Blocks in
which there is nothing of the wanted types or run take no part in it."""

MAX_RUN_BYTES = 256 * 1024 * 1024
"""Bytes of one run's events. Beyond it hits and calls are dropped."""

DROPPABLE = frozenset({"hit", "call", "output", "log"})
"""Types that may be dropped; stops and outcomes never are."""

Observer = Callable[[Event], None]
OnRows = Callable[[LoggedRows], None]


@dataclass(frozen=True, slots=True)
class Filter:
    """Which events a reader wants; None: all."""

    types: Collection[str] | None = None
    nodeid: str | None = None
    run_id: str | None = None
    breakpoint_id: str | None = None

    def admits(self, event: Event) -> bool:
        """Whether an event passes."""
        return (
            (self.types is None or event["type"] in self.types)
            and (self.nodeid is None or event.get("nodeid") == self.nodeid)
            and (self.run_id is None or event.get("run_id") == self.run_id)
            and self.breakpoint_id in (None, event.get("breakpoint_id"))
        )

    def may_admit(self, types: Collection[str], runs: Collection[str]) -> bool:
        """Whether an event may pass, of several of these types and runs."""
        return (self.types is None or any(each in self.types for each in types)) and (
            self.run_id is None or self.run_id in runs
        )

    def clues(self) -> list[list[bytes]]:
        """What the line of an event that passes contains: at least one of each list."""
        ids = {"nodeid": self.nodeid, "run_id": self.run_id, "breakpoint_id": self.breakpoint_id}
        wanted: dict[str, Collection[str]] = {
            key: [id] for key, id in ids.items() if id is not None
        }
        if self.types is not None:
            wanted["type"] = self.types
        return [
            [line[1:-1] for value in values for line in _spellings({key: value})]
            for key, values in wanted.items()
        ]


_last_of = attrgetter("last")


@dataclass(frozen=True, slots=True, eq=False)
class _Observing:
    """An observer, and what it wants to be called with for a batch of rows."""

    on_event: Observer
    on_rows: OnRows | None

    def call(self, entry: Entry) -> None:
        """Its error goes to stderr: else the process that the event came from would be cut off."""
        try:
            if isinstance(entry, LoggedRows) and self.on_rows is not None:
                self.on_rows(entry)
                return
            for event in entry.events():
                self.on_event(event)
        except Exception:  # noqa: BLE001 - a border: see above
            traceback.print_exc(file=sys.stderr)


@dataclass(frozen=True, slots=True)
class EventPage:
    """What a reader gets.

    Attributes:
        events: Oldest first.
        cursor: Where the next page begins.
        is_last: Whether the log was read to its end.
    """

    events: list[Event] = field(default_factory=list)
    cursor: int = 0
    is_last: bool = True


class EventLog:
    """Appends events, and gives them to readers, waiters and observers.

    Args:
        max_run_bytes: Bytes of one run's events, as lines of JSON. Once they are reached, events of
            droppable types are counted and not logged.

    Attributes:
        dropped: Run id → events that are missing: dropped here, or in the process that they come
            from.
        now: The epoch seconds of what is logged without any.
        notifies: Whether observers are called; not while old records are replayed.
    """

    def __init__(self, max_run_bytes: int = MAX_RUN_BYTES) -> None:
        self.dropped: Counter[str] = Counter()
        self._max_run_bytes = max_run_bytes
        self._bytes: Counter[str] = Counter()  # by run
        self._spill = Spill()
        self._recent: list[Entry] = []  # without gaps, from the number _first on
        self._first = self._next = 1
        self._observers: tuple[_Observing, ...] = ()
        self._pending: deque[tuple[Entry, tuple[_Observing, ...]]] = deque()
        self._is_notifying = False
        self._news = asyncio.Event()
        self.now: Callable[[], float] = time.time
        self.notifies = True

    def keep_in(self, directory: Path) -> None:
        """Use a private folder for what leaves memory; without one it counts as a broken disk."""
        self._spill.path = directory / "events.jsonl"

    @property
    def last_seq(self) -> int:
        """The number of the newest event; 0 when there is none."""
        return self._next - 1

    def append(self, type: str, *, ts: float | None = None, dropped: int = 0, **values: Any) -> int:
        """Log an event and wake all waiters.

        Args:
            type: One of `tools.control.EVENT_TYPES`.
            ts: Epoch seconds at the process that it comes from; default: now.
            dropped: How many events right before this one its process had to drop.
            values: `run_id`, `worker`, `nodeid`, … plain data.

        Returns:
            Its number; 0 when it was dropped because its run's share is used up.
        """
        event = {"type": type, "ts": self.now() if ts is None else ts, **values}
        run_id, seq = event.get("run_id", ""), 0
        is_over_cap = self._bytes[run_id] >= self._max_run_bytes and type in DROPPABLE
        self._count_dropped(run_id, dropped + is_over_cap)
        if not is_over_cap:
            seq = event["seq"] = self._next
            self._keep(LoggedEvent(event, encode_fast(event) + b"\n"))
        self._notify()
        self.wake()
        return seq

    def extend(self, recorded: Recorded, **values: Any) -> None:
        """Log rows of calls and hits, each of which becomes an event; waiters are woken once.

        Args:
            recorded: All of droppable types.
            values: What they have in common: `run_id`, `worker`.

        Raises:
            ValueError: Their order is none.
        """
        rows = logged(self._next, recorded, values)
        count = rows.last + 1 - rows.first
        is_over_cap = self._bytes[rows.run_id] >= self._max_run_bytes
        self._count_dropped(rows.run_id, recorded.dropped + is_over_cap * count)
        if count and not is_over_cap:
            self._keep(rows)
        self._notify()
        self.wake()

    def _count_dropped(self, run_id: str, count: int) -> None:
        if count:
            self.dropped[run_id] += count

    def _keep(self, entry: Entry) -> None:
        self._next = entry.last + 1
        self._bytes[entry.run_id] += len(entry.line)
        self._recent.append(entry)
        if self._next - self._first >= RING + BLOCK:
            self._spill_oldest()
        if self._observers and self.notifies:
            self._pending.append((entry, self._observers))

    def observe(self, observer: Observer, on_rows: OnRows | None = None) -> Callable[[], None]:
        """Call `observer` with every event from now on; returns the undo.

        Observers get an event that an observer appends after the one that it was called with. An
        error of an observer goes to stderr, and harms neither the others nor the appending code.

        Args:
            on_rows: Called instead with a batch of rows; else `observer` gets each as an event.
        """
        observing = _Observing(observer, on_rows)
        self._observers += (observing,)

        def undo() -> None:
            self._observers = tuple(each for each in self._observers if each is not observing)

        return undo

    async def read(self, after: int, limit: int, wanted: Filter) -> EventPage:
        """Up to `limit` (at least one) events behind the cursor `after`.

        Lets the event loop run between two blocks of old events, and gives up after `SCAN_BYTES`
        of them: the page then holds what was found, and its cursor goes on from there.
        """
        found: list[Event] = []
        cursor, left, clues = after, SCAN_BYTES, wanted.clues()
        while cursor + 1 < self._first:
            if left <= 0:
                return EventPage(found, cursor, is_last=False)
            block = self._spill.behind(cursor)
            if not wanted.may_admit(block.types, block.per_run):
                cursor = block.last
                continue
            lines = self._lines_of(block)
            for event in _admitted(lines, clues, wanted):
                if event["seq"] > cursor:
                    found.append(event)
                    cursor = event["seq"]
                    if len(found) >= limit:
                        return EventPage(found, cursor, is_last=False)
            cursor = block.last
            left -= len(lines)
            await asyncio.sleep(0)
        for event in self._in_memory(cursor, wanted):
            if len(found) >= limit:
                return EventPage(found, cursor, is_last=False)
            found.append(event)
            cursor = event["seq"]
        return EventPage(found, max(cursor, self.last_seq))

    def newest(self, limit: int, wanted: Filter, after: int = 0) -> list[Event]:
        """The newest `limit` events in memory behind `after`, oldest of them first."""
        found: list[Event] = []
        for entry in reversed(self._recent):
            if entry.last <= after or len(found) >= limit:
                break
            if not wanted.may_admit(entry.counts, (entry.run_id,)):
                continue
            events = [event for event in entry.events(wanted.admits) if event["seq"] > after]
            found += events[::-1][: limit - len(found)]
        return found[::-1]

    def _in_memory(self, after: int, wanted: Filter) -> Iterator[Event]:
        """The events in memory behind a number that pass."""
        start = bisect_right(self._recent, after, key=_last_of)
        for entry in islice(self._recent, start, None):
            if wanted.may_admit(entry.counts, (entry.run_id,)):
                for event in entry.events(wanted.admits):
                    if event["seq"] > after:
                        yield event

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

    # --- observers --------------------------------------------------------------------------

    def _notify(self) -> None:
        if self._is_notifying:
            return  # an observer appended; the loop that called it goes on with that event
        self._is_notifying = True
        try:
            while self._pending:
                entry, observers = self._pending.popleft()
                for observing in observers:
                    if observers is self._observers or observing in self._observers:
                        observing.call(entry)
        finally:
            self._is_notifying = False

    # --- memory and disk --------------------------------------------------------------------

    def _spill_oldest(self) -> None:
        count = bisect_left(self._recent, self._first + BLOCK - 1, key=_last_of) + 1
        oldest = self._recent[:count]
        del self._recent[:count]
        block = Block(self._first, oldest[-1].last)
        self._first = oldest[-1].last + 1
        for entry in oldest:
            block.count(entry)
        if self._spill.write(block, b"".join(each.line for each in oldest)):
            return
        kept = [each for each in oldest if not each.counts.keys() <= DROPPABLE]
        left = Block(block.first, block.last)
        for entry in kept:
            left.count(entry)
        self.dropped += block.per_run - left.per_run
        self._spill.keep(left, b"".join(each.line for each in kept))

    def _lines_of(self, block: Block) -> bytes:
        lines = self._spill.read(block)
        if lines is None:
            self.dropped += block.per_run
            block.per_run, block.lines = Counter(), b""
            return b""
        return lines


def _spellings(event: Event) -> set[bytes]:
    """How a line may spell it."""
    return {encode_fast(event), encode_ascii(event).encode("ascii")}


def _admitted(lines: bytes, clues: list[list[bytes]], wanted: Filter) -> Iterator[Event]:
    """The events of a block that pass. Only lines that look like it are parsed."""

    def may_pass(text: bytes) -> bool:
        return all(any(clue in text for clue in either) for either in clues)

    for line in lines.splitlines() if may_pass(lines) else ():
        if may_pass(line):
            event = json.loads(line)
            if is_batch(event):
                yield from events_of(event, wanted.admits)
            elif wanted.admits(event):
                yield event
