"""Changes of resources: the events that change each one, and the times when clients are notified.

Lives on the event loop. The owners of events, breakpoints and records call it; a callable notifies
clients. The first change is pushed at once, later ones after a moment without changes, and constant
ones now and then: a notified client reads the resource, and so gets all changes up to then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial

from cideldill_mcp.events.entries import Event, LoggedRows
from cideldill_mcp.resources.debug import BREAKPOINTS, SESSION, THREADS
from cideldill_mcp.resources.resources import CALLS, FUNCTIONS, NAMES, PAUSED, STATUS
from cideldill_mcp.runs.registry import Runs

QUIET_S = 0.3
"""Seconds without a change before the last one is pushed; also the time between two pushes."""

MOST_S = 0.9
"""Seconds that a change may wait at most, however many follow."""

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
"""Type of event → URIs that it changes. Hits come in batches, see `_on_rows`."""

_OF_DESIRED = (NAMES, BREAKPOINTS, STATUS)
_OF_COUNTS = (BREAKPOINTS,)
_OF_RECORDS = (CALLS, STATUS)

_BEGIN_AND_END = ("run_started", "run_finished")


class Throttle:
    """The times when changes of named things are pushed; see the module. `clock`: seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pushed_at: dict[str, float] = {}
        # Name → times of the first and the newest change that were not pushed yet.
        self._pending: dict[str, tuple[float, float]] = {}

    def touch(self, name: str) -> bool:
        """Note a change. True: it is the first one since the last push."""
        now = self._clock()
        first, _ = self._pending.get(name, (now, now))
        is_first = name not in self._pending
        self._pending[name] = (first, now)
        return is_first

    def due(self) -> list[str]:
        """The names to push now, the oldest first; they count as pushed."""
        now = self._clock()
        names = [name for name in self._pending if self._due_at(name) <= now]
        for name in names:
            del self._pending[name]
            self._pushed_at[name] = now
        return names

    def wait_s(self) -> float | None:
        """Seconds until a push is due, if nothing changes; None: none will be."""
        if not self._pending:
            return None
        return max(0.0, min(map(self._due_at, self._pending)) - self._clock())

    def _due_at(self, name: str) -> float:
        first, newest = self._pending[name]
        pushed_at = self._pushed_at.get(name)
        if pushed_at is None or first - pushed_at >= QUIET_S:
            return first
        return min(newest + QUIET_S, first + MOST_S)


class Updates:
    """Turns events into pushes of changed resources.

    Args:
        runs: The owner of events, breakpoints and records.
        notify: Called with the URI of a resource that has changed, with None for their list.
    """

    def __init__(self, runs: Runs, notify: Callable[[str | None], None]) -> None:
        self._runs = runs
        self._notify = notify
        self._throttle = Throttle()
        self._next: asyncio.Handle | None = None
        self._is_hit = False
        self._listed: str | None = None
        self._listings: set[str] = set()  # processes that only list tests are no runs
        runs.log.observe(self._on_event, self._on_rows)
        touch = self._touch
        runs.desired.observe(partial(touch, _OF_DESIRED), partial(touch, _OF_COUNTS))
        runs.records.on_change = partial(touch, _OF_RECORDS)

    def _on_rows(self, rows: LoggedRows) -> None:
        """Push once for all hits in one turn of the loop."""
        if "hit" in rows.counts and not self._is_hit:
            self._is_hit = True
            asyncio.get_running_loop().call_soon(self._forget_hit)
            self._touch(_OF_COUNTS)

    def _forget_hit(self) -> None:
        self._is_hit = False

    def _on_event(self, event: Event) -> None:
        changed = _OF_EVENTS.get(event["type"])
        if changed is None:
            return
        if event.get("listing"):
            self._listings.add(event["run_id"])
        if event["run_id"] in self._listings:
            return
        if event["type"] in _BEGIN_AND_END:
            self._notify_list()
        self._touch(changed)

    def _notify_list(self) -> None:
        """Notify of a changed list; one run may have taken the place of another meanwhile."""
        active = self._runs.active
        listed = None if active is None else active.id
        if listed != self._listed:
            self._listed = listed
            self._notify(None)

    def _touch(self, uris: Iterable[str]) -> None:
        new = [uri for uri in uris if self._throttle.touch(uri)]
        if new:
            self._look_after(0)

    def _look_after(self, seconds: float) -> None:
        if self._next is not None:
            self._next.cancel()
        # Never at once: the caller may not have finished its change.
        self._next = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        self._next = None
        for uri in self._throttle.due():
            self._notify(uri)
        wait_s = self._throttle.wait_s()
        if wait_s is not None:
            self._look_after(wait_s)
