"""Where probes of a test leave their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_cideldill.protocol.rows import HitFormat, Row


class KeptRows:
    """See `pytest_cideldill.protocol.rows.Rows`.

    Attributes:
        rows: Those that were left.
        add: Takes one.
    """

    def __init__(self, add: Callable[[Row], Any] | None = None) -> None:
        self.rows: list[Row] = []
        self.add = add or self.rows.append
        self._formats: list[HitFormat] = []

    def number(self, hit_format: HitFormat) -> int:
        self._formats.append(hit_format)
        return len(self._formats) - 1

    def reported(self, row: Row) -> dict[str, Any]:
        """The values of its event."""
        return self._formats[row[0]](row)
