"""The notifications for clients: a queue for each client, and the task that pushes from it.

Lives on the event loop. The event log passes it every event in order of `seq`; `serve` gets a
function that sends to one client. It knows neither the library of the protocol nor the runs.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from cideldill_mcp.clients import hit_payload
from cideldill_mcp.clients.hit_payload import BREAKPOINT_HIT
from cideldill_mcp.clients.lines import HitLines, line_of, with_coalesced
from cideldill_mcp.events.entries import Event, LoggedRows
from cideldill_mcp.events.log import EventLog

MAX_WAITING = 10_000
"""Messages that wait for one client before calls and hits are merged."""

CHUNK_BYTES = 256 * 1024
"""Lines that are sent together, if so many wait; replies have their turn between two chunks."""

_ENCODED_AT_ONCE = 64

_METHODS_THAT_MERGE = 2

EXECUTION_PAUSED = "notifications/breakpoint/execution_paused"
EXECUTION_RESUMED = "notifications/breakpoint/execution_resumed"
CALL_COMPLETED = "notifications/breakpoint/call_completed"

UPDATED = "notifications/resources/updated"
LIST_CHANGED = "notifications/resources/list_changed"

_FREQUENT = ("call", "hit")
"""Types of events that are skipped while no client is served."""

Params = Mapping[str, Any]
Encode = Callable[[Sequence[Any]], list[bytes]]
Send = Callable[[bytes], Awaitable[None]]
"""Sends complete lines of JSON-RPC to a client; may wait for a client that doesn't read."""


class Notifications:
    """Notifications of one method that follow each other: queued as one, encoded once for all.

    Args:
        rows: What each is made of; its slices are taken when lines of them are sent.
        encode: Makes the lines of a slice.

    Attributes:
        method: They may be merged with others of it; None: they may not.
        key: While one with this key waits, a second one is not queued.
    """

    __slots__ = ("_encode", "_lines", "_rows", "count", "key", "method")

    def __init__(
        self,
        rows: Sequence[Any],
        encode: Encode,
        *,
        method: str | None = None,
        key: str | None = None,
    ) -> None:
        self._rows = rows
        self._encode = encode
        self._lines: list[bytes] = []  # of the first rows
        self.count = len(rows)
        self.method = method
        self.key = key

    def lines(self, start: int, stop: int) -> list[bytes]:
        """The lines with these numbers, counted from 0."""
        lines = self._lines
        if len(lines) < stop:
            lines += self._encode(self._rows[len(lines) : stop])
        return lines[start:stop]

    def newest(self) -> Notifications:
        """The last one; it does not keep the others in memory."""
        if self.count == 1:
            return self
        return Notifications(self._rows[self.count - 1 :], self._encode, method=self.method)


@dataclass(slots=True)
class _Waiting:
    """Those of `all` that wait for a client; the last one stands for `coalesced` others, too.

    It does so only if it is the only one.
    """

    all: Notifications
    start: int
    stop: int
    coalesced: int = 0


class Mailbox:
    """The notifications that wait for one client, oldest first.

    Stops and resumes are never dropped. Once `MAX_WAITING` messages wait, a completed call or a hit
    takes the place of the one before it, unless a stop lies between them, and has in `coalesced`
    the number of those it replaced. Later changes of a resource whose change waits are not queued.

    Args:
        subscriptions: The URIs that this client has subscribed to; they may change.
    """

    def __init__(self, subscriptions: Collection[str] = ()) -> None:
        self.subscriptions = subscriptions
        self._queue: deque[_Waiting] = deque()
        self._count = 0  # of messages in it
        self._keys: set[str] = set()
        self._news = asyncio.Event()

    def put(self, messages: Notifications) -> None:
        """Queue notifications; never waits."""
        if messages.key is not None:
            if messages.key in self._keys:
                return
            self._keys.add(messages.key)
        room = max(MAX_WAITING - self._count, 0)
        if messages.method is None or messages.count <= room:
            self._append(_Waiting(messages, 0, messages.count))
        else:
            self._merge(messages, messages.method, room)
        self._news.set()

    def _append(self, waiting: _Waiting) -> None:
        self._queue.append(waiting)
        self._count += waiting.stop - waiting.start

    def _merge(self, messages: Notifications, method: str, room: int) -> None:
        """Queue as many as there is room for; the last of them stands for all that are left out."""
        kept = max(room - 1, 0)
        before = 0 if room else self._take_back(method)
        if kept:
            self._append(_Waiting(messages, 0, kept))
        left_out = before + messages.count - kept - 1
        self._append(_Waiting(messages.newest(), 0, 1, left_out))

    def _take_back(self, method: str) -> int:
        """Remove the newest message of a method if it may merge; return how many it stood for."""
        queue = self._queue
        for back, newest in enumerate(islice(reversed(queue), _METHODS_THAT_MERGE), 1):
            size = newest.stop - newest.start
            if newest.all.method == method:
                self._count -= 1
                newest.stop -= 1
                if size == 1:
                    del queue[-back]
                return newest.coalesced + 1
            if newest.all.method is None or size > 1:
                break
        return 0

    async def deliver(self, send: Send) -> None:
        """Send queued and later notifications, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._queue:
                await send(self._take())

    def _take(self) -> bytes:
        """Remove the next lines. The change of a resource is alone: it is queued anew from here."""
        taken: list[bytes] = []
        size = 0
        while self._queue and size < CHUNK_BYTES:
            first = self._queue[0]
            key = first.all.key
            if key is not None and taken:
                break
            lines = self._lines_of(first)
            taken += lines
            size += sum(map(len, lines))
            if key is not None:
                self._keys.discard(key)
                break
        return b"".join(taken)

    def _lines_of(self, first: _Waiting) -> list[bytes]:
        """Remove lines of the first in the queue."""
        stop = min(first.stop, first.start + _ENCODED_AT_ONCE)
        lines = first.all.lines(first.start, stop)
        if first.coalesced:
            lines = [with_coalesced(lines[0], first.coalesced)]
        self._count -= stop - first.start
        if stop == first.stop:
            self._queue.popleft()
        else:
            first.start = stop
        return lines


class Notifier:
    """The notifier of all clients.

    Args:
        pause_of: Run id and pause id → the pause as its process reported it; None: not present.
    """

    def __init__(
        self, log: EventLog, pause_of: Callable[[str, str], dict[str, Any] | None]
    ) -> None:
        self._pause_of = pause_of
        self._mailboxes: dict[str, Mailbox] = {}
        self._observers: dict[object, Callable[[str | None], None]] = {}
        # Pause id → method name, for the push that its thread goes on: the pause is gone by then.
        self._names: dict[str, str | None] = {}
        self._hit_lines = HitLines()
        self._messages: dict[str, Callable[[Event], list[Notifications]]] = {
            "stop": self._paused,
            "resumed": self._resumed,
            "call": _completed,
            "hit": self._hit,
        }
        log.observe(self._on_event)

    def changed(self, uri: str | None) -> None:
        """Notify the subscribers of a resource of its change; None: all clients, of the list."""
        for observer in tuple(self._observers.values()):
            observer(uri)
        if uri is None:
            message = _one(LIST_CHANGED, {}, key=LIST_CHANGED)
        else:
            message = _one(UPDATED, {"uri": uri}, key=uri)
        for mailbox in self._mailboxes.values():
            if uri is None or uri in mailbox.subscriptions:
                mailbox.put(message)

    def observe(self, observer: Callable[[str | None], None]) -> Callable[[], None]:
        """Call `observer` with the arguments of `changed`, too; returns the undo."""
        token = object()
        self._observers[token] = observer

        def undo() -> None:
            self._observers.pop(token, None)

        return undo

    async def serve(self, client: str, send: Send, subscriptions: Collection[str] = ()) -> None:
        """Push notifications of later events to a client, until cancelled.

        A client that is served already is not served twice. An error of `send` goes to stderr and
        ends the pushes to this client.
        """
        if client in self._mailboxes:
            return
        mailbox = self._mailboxes[client] = Mailbox(subscriptions)
        try:
            await mailbox.deliver(send)
        except Exception:  # noqa: BLE001 - a border: a client that can't be notified must not end the server
            traceback.print_exc(file=sys.stderr)
        finally:
            del self._mailboxes[client]

    def _on_event(self, event: Event) -> None:
        make = self._messages.get(event["type"])
        if make is None or (event["type"] in _FREQUENT and not self._mailboxes):
            return
        for message in make(event):
            for mailbox in self._mailboxes.values():
                mailbox.put(message)

    def _paused(self, event: Event) -> list[Notifications]:
        id = event["pause_id"]
        pause = self._pause_of(event["run_id"], id) or {}
        name = self._names[id] = _method_name(pause)
        params = {
            "pause_id": id,
            "method_name": name,
            "pause_reason": pause.get("pause_reason"),
            "paused_at": pause.get("paused_at"),
            "phase": pause.get("phase"),
            "nodeid": event.get("nodeid"),
            "worker": event.get("worker"),
            "seq": event["seq"],
        }
        return [
            _one(BREAKPOINT_HIT, hit_payload.of_stop(event, pause)),
            _one(EXECUTION_PAUSED, params),
        ]

    def _resumed(self, event: Event) -> list[Notifications]:
        id = event["pause_id"]
        params = {
            "pause_id": id,
            "method_name": self._names.pop(id, None),
            "action": event.get("action"),
            "by": event.get("by"),
            "seq": event["seq"],
        }
        return [_one(EXECUTION_RESUMED, params)]

    def _hit(self, event: Event) -> list[Notifications]:
        return [Notifications((event,), self._hit_lines.encode, method=BREAKPOINT_HIT)]


def _one(method: str, params: Params, key: str | None = None) -> Notifications:
    """One that is never merged."""
    return Notifications((params,), partial(_lines_of, method), key=key)


def _lines_of(method: str, rows: Iterable[Params]) -> list[bytes]:
    return [line_of(method, params) for params in rows]


def _completed(event: Event) -> list[Notifications]:
    if event.get("status") == "running":
        return []
    return [Notifications((event,), _call_lines, method=CALL_COMPLETED)]


def _call_lines(events: Iterable[Event]) -> list[bytes]:
    return [line_of(CALL_COMPLETED, _of_call(event)) for event in events]


def _of_call(event: Event) -> Params:
    name = event.get("method_name") or (event.get("function") or "").rpartition(".")[2]
    return {
        "call_id": event.get("call_id"),
        "method_name": name or None,
        "status": event.get("status"),
        "seq": event["seq"],
    }


def _method_name(pause: dict[str, Any]) -> str | None:
    """The called function of a pause at a call, else the function in which it stopped."""
    call, location = pause.get("call_data"), pause.get("location")
    if call:
        name: str = call["method_name"]
        return name
    return location["function"].rpartition(".")[2] if location else None
