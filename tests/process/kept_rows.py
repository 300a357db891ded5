"""Where probes of a test leave their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_cideldill.protocol.rows import HitTelling, Row


class KeptRows:
    """See `pytest_cideldill.protocol.rows.Rows`.

    Attributes:
        rows: Those that were left.
        add: Takes one.
    """

    def __init__(self, add: Callable[[Row], Any] | None = None) -> None:
        self.rows: list[Row] = []
        self.add = add or self.rows.append
        self._tellings: list[HitTelling] = []

    def number(self, telling: HitTelling) -> int:
        self._tellings.append(telling)
        return len(self._tellings) - 1

    def told(self, row: Row) -> dict[str, Any]:
        """The values of its event."""
        return self._tellings[row[0]](row)
