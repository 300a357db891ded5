"""Prices."""

from __future__ import annotations

from decimal import Decimal


def reduced(price: Decimal, percent: int) -> Decimal:
    """A price with some percent off."""
    if not percent:
        return price
    return round(float(price) * (1 - percent / 100), 2)
