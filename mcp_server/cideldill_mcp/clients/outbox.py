"""The notifications for clients: a queue for each client, and the task that pushes from it.

Lives on the event loop. The event log passes it every event in order of `seq`; `serve` gets a
function that sends to one client. It knows neither the library of the protocol nor the runs.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from cideldill_mcp.clients import hit_payload
from cideldill_mcp.clients.hit_payload import BREAKPOINT_HIT
from cideldill_mcp.clients.json_lines import HitLines, line_of, with_coalesced
from cideldill_mcp.events.entries import Event, LoggedRows
from cideldill_mcp.events.log import EventLog

MAX_WAITING = 10_000
"""Messages that wait for one client before calls and hits are merged."""

CHUNK_BYTES = 256 * 1024
"""Lines that are sent together, if so many wait; replies have their turn between two chunks."""

_METHODS_THAT_MERGE = 2

EXECUTION_PAUSED = "notifications/breakpoint/execution_paused"
EXECUTION_RESUMED = "notifications/breakpoint/execution_resumed"
CALL_COMPLETED = "notifications/breakpoint/call_completed"

UPDATED = "notifications/resources/updated"
LIST_CHANGED = "notifications/resources/list_changed"

_FREQUENT = {"hit": BREAKPOINT_HIT, "call": CALL_COMPLETED}
"""Types of events that are skipped while no client is served, and what is pushed of them."""

_RUNNING = b'"running"'
"""What the line of a batch with a call that has not ended contains."""

Params = Mapping[str, Any]
Send = Callable[[bytes], Awaitable[None]]
"""Sends complete lines of JSON-RPC to a client; may wait for a client that doesn't read."""


@dataclass(slots=True, eq=False)
class Notifications:
    """Notifications of one method that follow each other: queued as one, encoded once for all.

    Attributes:
        encode: Makes their lines; called when the first of them is sent.
        method: They may be merged with others of it; None: they may not.
        key: While one with this key waits, a second one is not queued.
    """

    count: int
    encode: Callable[[], list[bytes]]
    method: str | None = None
    key: str | None = None
    _lines: list[bytes] | None = None

    def lines(self) -> list[bytes]:
        """The line of each, with its line feed."""
        if self._lines is None:
            self._lines = self.encode()
        return self._lines

    def newest(self) -> Notifications:
        """The last one; it does not keep the lines of the others."""
        if self.count == 1:
            return self
        encode = self.encode
        return Notifications(1, lambda: encode()[-1:], method=self.method)


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
            line = first.all.lines()[first.start]
            taken.append(with_coalesced(line, first.coalesced) if first.coalesced else line)
            first.start += 1
            if first.start == first.stop:
                self._queue.popleft()
            size += len(line)
            if key is not None:
                self._keys.discard(key)
                break
        self._count -= len(taken)
        return b"".join(taken)


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
        log.observe(self._on_event, self._on_rows)

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
        match event["type"]:
            case "stop":
                self._put(self._paused(event))
            case "resumed":
                self._put(self._resumed(event))
            case "hit" | "call" if self._mailboxes:
                self._put(self._of_events([event]))

    def _on_rows(self, rows: LoggedRows) -> None:
        if self._mailboxes:
            self._put(self._of_rows(rows))

    def _put(self, notifications: Iterable[Notifications]) -> None:
        for notification in notifications:
            for mailbox in self._mailboxes.values():
                mailbox.put(notification)

    def _of_rows(self, rows: LoggedRows) -> Iterable[Notifications]:
        """If all are of one method, the usual case, no event is made before they are sent."""
        match [type for type in _FREQUENT if type in rows.counts]:
            case []:
                return []
            case ["hit"]:
                encode = partial(self._hit_lines.of_rows, rows)
                return [Notifications(rows.counts["hit"], encode, method=BREAKPOINT_HIT)]
            case ["call"] if _RUNNING not in rows.line:
                encode = partial(_call_lines_of, rows)
                return [Notifications(rows.counts["call"], encode, method=CALL_COMPLETED)]
        return self._of_events(rows.events())

    def _of_events(self, events: Iterable[Event]) -> Iterator[Notifications]:
        """Of hits and calls; those of a method that follow each other are together."""
        ended = (event for event in events if not _is_running_call(event))
        for type, alike in groupby(ended, itemgetter("type")):
            if type in _FREQUENT:
                those = list(alike)
                lines_of = self._hit_lines.of_events if type == "hit" else _call_lines
                yield Notifications(len(those), partial(lines_of, those), method=_FREQUENT[type])

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


def _one(method: str, params: Params, key: str | None = None) -> Notifications:
    """One that is never merged."""
    return Notifications(1, lambda: [line_of(method, params)], key=key)


def _is_running_call(event: Event) -> bool:
    return bool(event["type"] == "call" and event.get("status") == "running")


def _call_lines_of(rows: LoggedRows) -> list[bytes]:
    return _call_lines(rows.events(lambda event: bool(event["type"] == "call")))


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
