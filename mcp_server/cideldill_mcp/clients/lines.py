"""Notifications as complete lines of JSON-RPC, which every client can read.

Knows neither queues nor clients. `HitLines` is the fast way for hits, which come by the ten
thousands: what the hits of one place have in common is encoded once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from json.encoder import encode_basestring_ascii
from typing import Any

import pydantic_core

from cideldill_mcp.clients import hit_payload
from cideldill_mcp.clients.hit_payload import BREAKPOINT_HIT
from cideldill_mcp.events.entries import Event
from cideldill_mcp.replies.render import dumps

MAX_PLACES = 1_000
"""Breakpoints of which the common part is kept."""

_BEFORE = ("breakpointId", "type", "location", "threadId")
_BEHIND = ("exceptionInfo", "pauseId", "nodeid", "worker")
"""The keys before and behind `timestamp`, `hitCount` and `logMessage`; `seq` is the last one."""


def line_of(method: str, params: Mapping[str, Any]) -> bytes:
    """A notification. NaN, infinities and lone surrogates become text, as in `render.dumps`."""
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    try:
        return pydantic_core.to_json(message, inf_nan_mode="strings") + b"\n"
    except ValueError:  # a lone surrogate would end the connection; no plain data
        return dumps(message).encode() + b"\n"


def with_coalesced(line: bytes, count: int) -> bytes:
    """The line of a notification with parameters, and `coalesced` as the last of them."""
    return line[: -len(b"}}\n")] + b',"coalesced":%d}}\n' % count


class HitLines:
    """Encodes events `hit`; each line says what `line_of` would say of `hit_payload.of_hit`."""

    def __init__(self) -> None:
        # Breakpoint → what its last hits had in common, and the text of that before and behind.
        self._common: dict[object, tuple[tuple[object, ...], str, str]] = {}

    def encode(self, events: Iterable[Event]) -> list[bytes]:
        """The lines of these hits."""
        return [self._line(event) for event in events]

    def _line(self, event: Event) -> bytes:
        message, count, seq = event.get("message"), event.get("hit_count"), event["seq"]
        if type(count) is not int or not (message is None or type(message) is str):
            return line_of(BREAKPOINT_HIT, hit_payload.of_hit(event))
        id = event.get("breakpoint_id")
        key = (event.get("location"), event.get("thread"), event.get("nodeid"), event.get("worker"))
        common = self._common.get(id)
        if common is None or common[0] != key:
            common = self._keep(id, key, event)
        _, before, behind = common
        text = "null" if message is None else _string(message)
        moment = hit_payload.iso(event["ts"])
        return (
            f'{before},"timestamp":"{moment}","hitCount":{count},"logMessage":{text},'
            f'{behind},"seq":{seq}}}}}\n'
        ).encode()

    def _keep(
        self, id: object, key: tuple[object, ...], event: Event
    ) -> tuple[tuple[object, ...], str, str]:
        if len(self._common) >= MAX_PLACES:
            self._common.clear()
        params = hit_payload.of_hit(event)
        before = line_of(BREAKPOINT_HIT, {key: params[key] for key in _BEFORE}).decode()
        behind = dumps({key: params[key] for key in _BEHIND})
        kept = self._common[id] = (key, before.removesuffix("}}\n"), behind[1:-1])
        return kept


def _string(text: str) -> str:
    return encode_basestring_ascii(text) if text.isascii() else dumps(text)
