"""What pytest is doing; written by its main thread, read at stops and by recorded calls."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Position:
    """The test and its phase, both None between tests; which attempt it is, if it has several."""

    nodeid: str | None = None
    when: str | None = None
    attempt: int | None = None
