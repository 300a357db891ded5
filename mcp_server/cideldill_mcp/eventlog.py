"""The merged event log: one counter for the server's life, a ring in memory, a signal on news.

Lives on the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any

RING = 50_000
"""Events kept in memory."""


class EventLog:
    """Events of all processes in the order of their arrival."""

    def __init__(self) -> None:
        self._ring: deque[dict[str, Any]] = deque(maxlen=RING)
        self._seq = 0
        self._news = asyncio.Event()

    @property
    def last_seq(self) -> int:
        """The number of the newest event; 0 when there is none. All that was ever logged."""
        return self._seq

    def append(self, type: str, **values: Any) -> int:
        """Log an event (`seq`, `ts`, `type` and `values`) and wake who waits; its number."""
        self._seq += 1
        self._ring.append({"seq": self._seq, "ts": time.time(), "type": type, **values})
        self.wake()
        return self._seq

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
