"""What expressions gave in an experiment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression gave where a test failed, or at the end of its function.

    Attributes:
        text: The value, or an exception.
        is_error: Whether it is an exception.
        place: `file:line`.
    """

    text: str
    is_error: bool
    place: str
