"""Limits that are looked at afterwards: Hypothesis's deadlines, asyncio's slow callbacks.

Called on the thread that was parked, when it goes on. Both libraries are the user's: touched only
when they are loaded already.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from pytest_cideldill.interpreter import clock


class _Patience(float):
    """Stands for the limit of slow callbacks while one runs that was paused.

    The loop compares once, when the callback is over; that takes the pauses off and puts the limit
    back. For everybody else it is the same number.
    """

    limit: float
    paused_s: float
    attributes: dict[str, Any]

    @classmethod
    def on(cls, attributes: dict[str, Any]) -> Self:
        """That of a loop, put in the place of its limit if it has not one already."""
        held = attributes["slow_callback_duration"]
        if isinstance(held, cls):
            return held
        made = cls(held)
        made.limit, made.paused_s, made.attributes = held, 0.0, attributes
        attributes["slow_callback_duration"] = made
        return made

    def __le__(self, took: float) -> bool:
        """`took >= limit`, as the loop asks it: the type that is derived answers first."""
        self.attributes["slow_callback_duration"] = self.limit
        return self.limit <= took - self.paused_s


@contextmanager
def patience() -> Iterator[None]:
    """Entered by a thread for as long as it is parked."""
    start = clock.monotonic()
    try:
        yield
    finally:
        paused_s = clock.monotonic() - start
        for prolong in (_prolong_loop, _prolong_hypothesis):
            try:
                prolong(paused_s)
            except (AttributeError, KeyError, TypeError, ValueError):
                pass  # another kind of loop, or another version: its limit counts the pause


def _prolong_loop(paused_s: float) -> None:
    """A loop in debug mode that runs on this thread would log a slow callback."""
    attributes = _attributes_of_loop()
    if attributes is not None and attributes.get("_debug"):
        _Patience.on(attributes).paused_s += paused_s


def _prolong_hypothesis(paused_s: float) -> None:
    """It takes the time of garbage collections out of deadlines and of what draws take."""
    module = sys.modules.get("hypothesis.internal.conjecture.junkdrawer")
    if module is not None:
        module._gc_cumulative_time += paused_s  # type: ignore[attr-defined]


def _attributes_of_loop() -> dict[str, Any] | None:
    """Those of asyncio's own loop that runs on this thread; read past what users may override."""
    events, base = (sys.modules.get(f"asyncio.{name}") for name in ("events", "base_events"))
    if events is None or base is None:
        return None
    loop = events._get_running_loop()
    if not issubclass(type(loop), base.BaseEventLoop):
        return None
    attributes: dict[str, Any] = object.__getattribute__(loop, "__dict__")
    return attributes
