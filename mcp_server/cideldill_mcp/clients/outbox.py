"""The notifications for clients: a queue for each client, and the task that pushes from it.

Lives on the event loop. The event log passes it every event in order of `seq`; `serve` gets a
function that sends to one client. It knows neither the library of the protocol nor the runs.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from cideldill_mcp.clients import hit_payload
from cideldill_mcp.clients.hit_payload import BREAKPOINT_HIT
from cideldill_mcp.events.entries import Event
from cideldill_mcp.events.log import EventLog
from cideldill_mcp.replies.render import readable

MAX_WAITING = 10_000
"""Messages that wait for one client before calls and hits are merged."""

_METHODS_THAT_MERGE = 2

EXECUTION_PAUSED = "notifications/breakpoint/execution_paused"
EXECUTION_RESUMED = "notifications/breakpoint/execution_resumed"
CALL_COMPLETED = "notifications/breakpoint/call_completed"

UPDATED = "notifications/resources/updated"
LIST_CHANGED = "notifications/resources/list_changed"

_FREQUENT = ("call", "hit")
"""Types of events that are skipped while no client is served."""

Params = dict[str, Any]
Send = Callable[[str, Params], Awaitable[None]]
"""Sends a method and its parameters to a client; may wait for a client that doesn't read."""


@dataclass(frozen=True, slots=True)
class Notification:
    """One notification.

    Attributes:
        params: Makes the parameters; called only when the notification is sent.
        may_merge: Whether a later notification of the method may take its place.
        key: While one with this key waits, a second one is not queued.
    """

    method: str
    params: Callable[[], Params]
    may_merge: bool = False
    key: str | None = None


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
        # Each with the number of those that it replaced.
        self._messages: deque[tuple[Notification, int]] = deque()
        self._keys: set[str] = set()
        self._news = asyncio.Event()

    def put(self, message: Notification) -> None:
        """Queue a notification; never waits."""
        if message.key is not None:
            if message.key in self._keys:
                return
            self._keys.add(message.key)
        is_full = len(self._messages) >= MAX_WAITING and message.may_merge
        self._messages.append((message, self._take_back(message.method) if is_full else 0))
        self._news.set()

    def _take_back(self, method: str) -> int:
        """Remove the newest message of a method if it may merge; return how many it stood for."""
        waiting = self._messages
        for back in range(1, _METHODS_THAT_MERGE + 1):
            message, coalesced = waiting[-back]
            if not message.may_merge:
                break
            if message.method == method:
                del waiting[-back]
                return coalesced + 1
        return 0

    async def deliver(self, send: Send) -> None:
        """Send queued and later notifications, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._messages:
                message, coalesced = self._messages.popleft()
                if message.key is not None:
                    self._keys.discard(message.key)
                params = message.params() | ({"coalesced": coalesced} if coalesced else {})
                # A lone surrogate would end the connection; here, since not every call is sent.
                await send(message.method, readable(params))


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
        self._messages: dict[str, Callable[[Event], list[Notification]]] = {
            "stop": self._paused,
            "resumed": self._resumed,
            "call": _completed,
            "hit": _hit,
        }
        log.observe(self._on_event)

    def changed(self, uri: str | None) -> None:
        """Notify the subscribers of a resource of its change; None: all clients, of the list."""
        for observer in tuple(self._observers.values()):
            observer(uri)
        if uri is None:
            message = Notification(LIST_CHANGED, dict, key=LIST_CHANGED)
        else:
            message = Notification(UPDATED, lambda: {"uri": uri}, key=uri)
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

    def _paused(self, event: Event) -> list[Notification]:
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
        hit = hit_payload.of_stop(event, pause)
        return [
            Notification(BREAKPOINT_HIT, lambda: hit),
            Notification(EXECUTION_PAUSED, lambda: params),
        ]

    def _resumed(self, event: Event) -> list[Notification]:
        id = event["pause_id"]
        params = {
            "pause_id": id,
            "method_name": self._names.pop(id, None),
            "action": event.get("action"),
            "by": event.get("by"),
            "seq": event["seq"],
        }
        return [Notification(EXECUTION_RESUMED, lambda: params)]


def _hit(event: Event) -> list[Notification]:
    return [Notification(BREAKPOINT_HIT, partial(hit_payload.of_hit, event), may_merge=True)]


def _completed(event: Event) -> list[Notification]:
    if event.get("status") == "running":
        return []
    return [Notification(CALL_COMPLETED, partial(_of_call, event), may_merge=True)]


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
