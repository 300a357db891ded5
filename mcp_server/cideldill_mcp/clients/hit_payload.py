"""The parameters of `debugger/breakpointHit`, of a stop or of a tracepoint's hit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

BREAKPOINT_HIT = "debugger/breakpointHit"

MAX_STACK = 10
"""Frames in `stackTrace`."""


def of_stop(event: Mapping[str, Any], pause: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters for an event `stop`; `pause` is empty when it is over already."""
    about = {"exceptionInfo": _exception(pause), "pauseId": event["pause_id"]}
    return _params(event, "blocking", pause, pause.get("paused_at", event["ts"]), about)


def of_hit(event: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters for an event `hit`."""
    return _params(event, "tracepoint", event, event["ts"], {"logMessage": event.get("message")})


def _params(
    event: Mapping[str, Any], type: str, hit: Mapping[str, Any], ts: float, about: Mapping[str, Any]
) -> dict[str, Any]:
    """The parameters of both types: of the `event`, of the `hit` or pause, and `about` it."""
    place = hit.get("location") or {}
    return {
        "breakpointId": hit.get("breakpoint_id"),
        "type": type,
        "location": {
            "file": place.get("file"),
            "line": place.get("line"),
            "column": place.get("column"),
            "functionName": place.get("function"),
            "moduleName": place.get("module"),
        },
        "threadId": event.get("thread"),
        "timestamp": iso(ts),
        "hitCount": hit.get("hit_count"),
        "logMessage": about.get("logMessage"),
        "exceptionInfo": about.get("exceptionInfo"),
        "pauseId": about.get("pauseId"),
        "nodeid": event.get("nodeid"),
        "worker": event.get("worker"),
        "seq": event["seq"],
    }


def iso(ts: float) -> str:
    """ISO 8601 in UTC with milliseconds: `2026-03-01T12:00:00.250Z`."""
    return _iso(round(ts * 1e6) // 1000)


@lru_cache(maxsize=256)  # of a tight loop tens of hits share a millisecond
def _iso(milliseconds: int) -> str:
    second = datetime.fromtimestamp(milliseconds // 1000, UTC).isoformat()[:-6]
    return f"{second}.{milliseconds % 1000:03d}Z"


def _exception(pause: Mapping[str, Any]) -> dict[str, Any] | None:
    exception = pause.get("exception") or (pause.get("call_data") or {}).get("exception")
    if exception is None:
        return None
    frames = (pause.get("autopsy") or {}).get("frames") or pause.get("frames") or ()
    return {
        "type": exception["type"],
        "message": exception["message"],
        "isFirstChance": pause.get("phase") == "raise",
        "stackTrace": _stack(frames),
    }


def _stack(frames: Sequence[Mapping[str, Any]]) -> str:
    """`file:line in function`, innermost first."""
    lines = []
    for frame in frames[:MAX_STACK]:
        place = frame.get("location") or frame
        lines.append(f"{place['file']}:{place['line']} in {frame['function']}")
    return "\n".join(lines)
