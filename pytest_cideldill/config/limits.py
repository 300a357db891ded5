"""The limits of what is captured and kept: numbers with bounds, each an ini option.

Both processes read them; values are cut to them where they are captured (docs/limits.md).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from pytest_cideldill.interpreter.values import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that the user set, or the defaults; `BOUNDS` says what each number counts."""

    max_depth: int = 3
    max_attributes: int = 100
    max_items: int = 100
    max_string: int = 200
    max_frames: int = 10
    max_locals: int = 40
    capture_ms: int = 50
    max_object_bytes: int = 1_048_576
    max_log_bytes: int = 268_435_456


DEFAULTS: Final = Limits()

BOUNDS: Final = MappingProxyType(
    {
        "max_depth": (1, 20, "levels of nested values that are shown"),
        "max_attributes": (1, 10_000, "attributes that are shown of an object"),
        "max_items": (1, 10_000, "items that are shown of a collection"),
        "max_string": (1, 100_000, "characters that are shown of a string"),
        "max_frames": (1, 1_000, "frames that are shown of a traceback"),
        "max_locals": (1, 1_000, "locals that are shown of a frame"),
        "capture_ms": (1, 60_000, "milliseconds that showing the locals of a stop may take"),
        "max_object_bytes": (1_024, 1_073_741_824, "bytes that are stored of an object"),
        "max_log_bytes": (65_536, 1_099_511_627_776, "bytes that a run's events may take"),
    }
)
"""Field → smallest value, largest value, what the number counts."""
