"""Which resources change when something happens, and when clients are told (contract, section 7).

Lives on the event loop. Hears of events, breakpoints and records from their owners; how a client is
told is not known here. A change is told at once, further ones when there was quiet for a moment,
and constant ones now and then: who is told reads the resource, and then knows all of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from cideldill_mcp.events.log import Event
from cideldill_mcp.resources.debug import BREAKPOINTS, SESSION, THREADS
from cideldill_mcp.resources.resources import CALLS, FUNCTIONS, NAMES, PAUSED, STATUS
from cideldill_mcp.runs.registry import Runs

QUIET_S = 0.3
"""Without a change for so long the last one is told; it also lies between any two that are told."""

MOST_S = 0.9
"""No change waits longer, however many follow."""

_RUN = (SESSION, THREADS, PAUSED, STATUS)
_OF_EVENTS = {
    "run_started": _RUN,
    "worker_up": _RUN,
    # The functions of the project are loaded now.
    "collected": (*_RUN, FUNCTIONS),
    "stop": _RUN,
    "resumed": _RUN,
    "worker_down": _RUN,
    "run_finished": _RUN,
}
"""Type of event → what it changes. Hits come in batches, see `_on_hit`."""

_OF_DESIRED = (NAMES, BREAKPOINTS, STATUS)
_OF_COUNTS = (BREAKPOINTS,)
_OF_RECORDS = (CALLS, STATUS)

_BEGIN_AND_END = ("run_started", "run_finished")


class Throttle:
    """When changes of things, each by its name, are told; see the module.

    Args:
        clock: Seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[str, float] = {}
        # Name → when the first and the newest change came that is not told.
        self._untold: dict[str, tuple[float, float]] = {}

    def touch(self, name: str) -> bool:
        """It has changed. True: for the first time since it was told."""
        now = self._clock()
        first, _ = self._untold.get(name, (now, now))
        is_first = name not in self._untold
        self._untold[name] = (first, now)
        return is_first

    def due(self) -> list[str]:
        """What is to be told now, the oldest first; it counts as told."""
        now = self._clock()
        found = [name for name in self._untold if self._due_at(name) <= now]
        for name in found:
            del self._untold[name]
            self._told[name] = now
        return found

    def wait_s(self) -> float | None:
        """How long nothing is due, if nothing changes; None: for ever."""
        if not self._untold:
            return None
        return max(0.0, min(map(self._due_at, self._untold)) - self._clock())

    def _due_at(self, name: str) -> float:
        first, newest = self._untold[name]
        told = self._told.get(name)
        if told is None or first - told >= QUIET_S:
            return first
        return min(newest + QUIET_S, first + MOST_S)


class Updates:
    """See the module.

    Args:
        runs: What happens.
        tell: Called with the URI of a resource that has changed, with None when their list has.
    """

    def __init__(self, runs: Runs, tell: Callable[[str | None], None]) -> None:
        self._runs = runs
        self._tell = tell
        self._throttle = Throttle()
        self._next: asyncio.Handle | None = None
        self._is_hit = False
        self._listed: str | None = None
        self._listings: set[str] = set()  # processes that only list tests are no runs
        runs.log.observe(self._on_event)
        runs.desired.observe(self._on_breakpoints, self._on_counts)
        runs.records.on_change = self._on_records

    def _on_event(self, event: Event) -> None:
        if event["type"] == "hit":
            self._on_hit()
            return
        changed = _OF_EVENTS.get(event["type"])
        if changed is None:
            return
        if event.get("listing"):
            self._listings.add(event["run_id"])
        if event["run_id"] in self._listings:
            return
        if event["type"] in _BEGIN_AND_END:
            self._tell_list()
        self._touch(changed)

    def _on_hit(self) -> None:
        """Of many in one turn of the loop the first one says it all."""
        if not self._is_hit:
            self._is_hit = True
            asyncio.get_running_loop().call_soon(self._forget_hit)
            self._touch(_OF_COUNTS)

    def _forget_hit(self) -> None:
        self._is_hit = False

    def _tell_list(self) -> None:
        """One run may have taken the place of another meanwhile."""
        active = self._runs.active
        listed = None if active is None else active.id
        if listed != self._listed:
            self._listed = listed
            self._tell(None)

    def _on_breakpoints(self) -> None:
        self._touch(_OF_DESIRED)

    def _on_counts(self) -> None:
        self._touch(_OF_COUNTS)

    def _on_records(self) -> None:
        self._touch(_OF_RECORDS)

    def _touch(self, uris: Iterable[str]) -> None:
        new = [uri for uri in uris if self._throttle.touch(uri)]
        if new:
            self._look_after(0)

    def _look_after(self, seconds: float) -> None:
        if self._next is not None:
            self._next.cancel()
        # Never at once: whoever makes a change may not be done with it.
        self._next = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        self._next = None
        for uri in self._throttle.due():
            self._tell(uri)
        wait_s = self._throttle.wait_s()
        if wait_s is not None:
            self._look_after(wait_s)
