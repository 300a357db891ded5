"""Notifications as complete lines of JSON-RPC, which every client can read.

Knows neither queues nor clients. `HitLines` is the fast way for hits, which come by the ten
thousands: what the hits of one place have in common is encoded once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from json.encoder import encode_basestring_ascii
from typing import Any

import pydantic_core

from cideldill_mcp.clients import hit_payload
from cideldill_mcp.clients.hit_payload import BREAKPOINT_HIT
from cideldill_mcp.events.entries import Event, LoggedRows
from cideldill_mcp.replies.render import dumps

MAX_PLACES = 1_000
"""Breakpoints of which the common part is kept."""

_BEFORE = ("breakpointId", "type", "location", "threadId")
_BEHIND = ("exceptionInfo", "pauseId", "nodeid", "worker")
"""The keys before and behind `timestamp`, `hitCount` and `logMessage`; `seq` is the last one."""

_COLUMNS = ("ts", "hit_count", "message")


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
        self._known: dict[object, tuple[tuple[object, ...], str, str]] = {}

    def of_events(self, events: Iterable[Event]) -> list[bytes]:
        """The lines of these hits."""
        return [self._line(event) for event in events]

    def of_rows(self, rows: LoggedRows) -> list[bytes]:
        """The lines of the hits among these rows; if they are one series, no event is made."""
        only = rows.only_series() if rows.counts.keys() == {"hit"} else None
        if only is None or not _is_usual(only[1]):
            return self.of_events(rows.events(_is_hit))
        common, columns = only
        moments, counts, messages = (columns[name] for name in _COLUMNS)
        before, behind = self._common(common | {"ts": moments[0], "seq": rows.first})
        quote = encode_basestring_ascii if "".join(messages).isascii() else _string
        values = zip(map(hit_payload.iso, moments), counts, map(quote, messages), strict=True)
        return [
            _joined(before, moment, hit_count, text, behind, seq)
            for seq, (moment, hit_count, text) in enumerate(values, rows.first)
        ]

    def _line(self, event: Event) -> bytes:
        message, count = event.get("message"), event.get("hit_count")
        if type(count) is not int or type(message) is not str:
            return line_of(BREAKPOINT_HIT, hit_payload.of_hit(event))
        before, behind = self._common(event)
        moment = hit_payload.iso(event["ts"])
        return _joined(before, moment, count, _string(message), behind, event["seq"])

    def _common(self, event: Event) -> tuple[str, str]:
        """The text before and behind what differs between the hits of a place."""
        id = event.get("breakpoint_id")
        key = (event.get("location"), event.get("thread"), event.get("nodeid"), event.get("worker"))
        known = self._known.get(id)
        if known is None or known[0] != key:
            if len(self._known) >= MAX_PLACES:
                self._known.clear()
            known = self._known[id] = (key, *_around(hit_payload.of_hit(event)))
        return known[1:]


def _around(params: Mapping[str, Any]) -> tuple[str, str]:
    before = line_of(BREAKPOINT_HIT, {key: params[key] for key in _BEFORE}).decode()
    behind = dumps({key: params[key] for key in _BEHIND})
    return before.removesuffix("}}\n"), behind[1:-1]


def _joined(before: str, moment: str, count: int, text: str, behind: str, seq: int) -> bytes:
    return (
        f'{before},"timestamp":"{moment}","hitCount":{count},"logMessage":{text},'
        f'{behind},"seq":{seq}}}}}\n'
    ).encode()


def _is_hit(event: Event) -> bool:
    return bool(event["type"] == "hit")


def _is_usual(columns: Mapping[str, Sequence[Any]]) -> bool:
    """Whether hits have texts and numbers of passes, and differ in nothing else."""
    return (
        columns.keys() == set(_COLUMNS)
        and set(map(type, columns["hit_count"])) == {int}
        and set(map(type, columns["message"])) == {str}
    )


def _string(text: str) -> str:
    return encode_basestring_ascii(text) if text.isascii() else dumps(text)
