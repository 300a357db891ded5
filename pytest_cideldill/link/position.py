"""What pytest is doing; written by its main thread, read at stops and by recorded calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_cideldill.interpreter.values import dataclass


@dataclass(slots=True)
class Position:
    """The test and its phase, both None between tests; which attempt it is, if it has several.

    Attributes:
        around: What an autopsy has of the test, beside the exception; on any thread.
    """

    nodeid: str | None = None
    when: str | None = None
    attempt: int | None = None
    around: Callable[[], dict[str, Any]] = dict
