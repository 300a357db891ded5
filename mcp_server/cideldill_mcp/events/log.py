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
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any

from cideldill_mcp.events.spill import Block, Spill
from cideldill_mcp.fast_json import encode_ascii, encode_fast

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

Event = dict[str, Any]
Observer = Callable[[Event], None]


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

    def clues(self) -> list[list[bytes]]:
        """What the line of an event that passes contains: at least one of each list."""
        wanted: dict[str, Collection[str | None]] = {
            "nodeid": [self.nodeid],
            "run_id": [self.run_id],
            "breakpoint_id": [self.breakpoint_id],
        }
        wanted = {key: values for key, values in wanted.items() if values != [None]}
        if self.types is not None:
            wanted["type"] = self.types
        return [
            [line[1:-1] for value in values for line in _spellings({key: value})]
            for key, values in wanted.items()
        ]


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
        self._recent: list[Event] = []  # contiguous: its first has the number _first
        self._lines: list[bytes] = []  # of the same events
        self._first = 1
        self._observers: tuple[Observer, ...] = ()
        self._pending: deque[tuple[Event, tuple[Observer, ...]]] = deque()
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
        return self._first + len(self._recent) - 1

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
        seq = self._add({"type": type, "ts": self.now() if ts is None else ts, **values}, dropped)
        self._notify()
        self.wake()
        return seq

    def extend(self, events: Iterable[Event], **values: Any) -> None:
        """Log many events, which become this log's own: as `append`, but waiters are woken once.

        Args:
            events: With `type`, `ts`, perhaps `dropped`, and other plain data.
            values: What they have in common.
        """
        for event in events:
            event |= values
            self._add(event, event.pop("dropped", 0))
        self._notify()
        self.wake()

    def _add(self, event: Event, dropped: int) -> int:
        run_id = event.get("run_id", "")
        is_over_cap = self._bytes[run_id] >= self._max_run_bytes and event["type"] in DROPPABLE
        if dropped or is_over_cap:
            self.dropped[run_id] += dropped + is_over_cap
        if is_over_cap:
            return 0
        seq: int = self.last_seq + 1
        event["seq"] = seq
        line = _line(event)
        self._bytes[run_id] += len(line)
        self._recent.append(event)
        self._lines.append(line)
        if len(self._recent) >= RING + BLOCK:
            self._spill_oldest()
        if self._observers and self.notifies:
            self._pending.append((event, self._observers))
        return seq

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Call `observer` with every event from now on; returns the undo.

        Observers get an event that an observer appends after the one that it was called with. An
        error of an observer goes to stderr, and harms neither the others nor the appending code.
        """
        self._observers += (observer,)

        def undo() -> None:
            others = list(self._observers)
            with suppress(ValueError):
                others.remove(observer)
            self._observers = tuple(others)

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
            if not block.may_hold(wanted.types, wanted.run_id):
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
        for event in self._recent[cursor + 1 - self._first :]:
            if wanted.admits(event):
                if len(found) >= limit:
                    return EventPage(found, cursor, is_last=False)
                found.append(event)
            cursor = event["seq"]
        return EventPage(found, cursor)

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

    # --- observers --------------------------------------------------------------------------

    def _notify(self) -> None:
        if (
            self._is_notifying
        ):  # an observer appended; the loop that called it goes on with that event
            return
        self._is_notifying = True
        try:
            while self._pending:
                event, observers = self._pending.popleft()
                for observer in observers:
                    if observers is self._observers or observer in self._observers:
                        _call(observer, event)
        finally:
            self._is_notifying = False

    # --- memory and disk --------------------------------------------------------------------

    def _spill_oldest(self) -> None:
        oldest, lines = self._recent[:BLOCK], self._lines[:BLOCK]
        del self._recent[:BLOCK], self._lines[:BLOCK]
        block = Block(self._first, self._first + len(oldest) - 1)
        self._first += len(oldest)
        block.count(oldest)
        if self._spill.write(block, b"".join(lines)):
            return
        kept = [event["type"] not in DROPPABLE for event in oldest]
        lost = Counter(
            event.get("run_id", "")
            for event, is_kept in zip(oldest, kept, strict=True)
            if not is_kept
        )
        self.dropped += lost
        block.per_run -= lost
        self._spill.keep(block, b"".join(compress(lines, kept)))

    def _lines_of(self, block: Block) -> bytes:
        lines = self._spill.read(block)
        if lines is None:
            self.dropped += block.per_run
            block.per_run, block.lines = Counter(), b""
            return b""
        return lines


def _line(event: Event) -> bytes:
    """An event as a line of the file."""
    return encode_fast(event) + b"\n"


def _spellings(event: Event) -> set[bytes]:
    """How a line may spell it."""
    return {encode_fast(event), encode_ascii(event).encode("ascii")}


def _admitted(lines: bytes, clues: list[list[bytes]], wanted: Filter) -> Iterator[Event]:
    """The events of a block that pass. Only lines that look like it are parsed."""

    def may_pass(text: bytes) -> bool:
        return all(any(clue in text for clue in either) for either in clues)

    for line in lines.splitlines() if may_pass(lines) else ():
        if may_pass(line) and wanted.admits(event := json.loads(line)):
            yield event


def _call(observer: Observer, event: Event) -> None:
    try:
        observer(event)
    except Exception:  # noqa: BLE001 - a border: the process that the event came from would be cut off
        traceback.print_exc(file=sys.stderr)
