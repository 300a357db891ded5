"""Totals on both sides of the limit, and on it."""

from __future__ import annotations

from decimal import Decimal

import pytest
from shipping.orders import total


@pytest.mark.parametrize(
    ("second", "expected"),
    [("19.99", "54.89"), ("20.01", "50.01"), ("20.00", "50.00")],
    ids=["below", "above", "limit"],
)
def test_total(second: str, expected: str) -> None:
    """From 50 on sending is free."""
    assert total([Decimal("30.00"), Decimal(second)]) == Decimal(expected)
