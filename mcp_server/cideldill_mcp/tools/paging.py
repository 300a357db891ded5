"""Pages of long lists: the items behind a cursor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from cideldill_mcp.tools.definitions import Param
from pytest_cideldill.errors import ErrorCode, Refusal

T = TypeVar("T")

AFTER = Param("after", "string", "next_after")


def behind(items: Sequence[T], cursor: Callable[[T], str], after: str | None) -> Sequence[T]:
    """The items that follow the one with the cursor `after`; all without one.

    Raises:
        Refusal: `invalid_parameter`; no item has that cursor (any more).
    """
    if after is None:
        return items
    for number, item in enumerate(items, start=1):
        if cursor(item) == after:
            return items[number:]
    raise Refusal(
        ErrorCode.INVALID_PARAMETER,
        f"after {after!r} is not in the list; use the next_after of the reply before",
        parameter="after",
        expected="next_after of the reply before",
    )
