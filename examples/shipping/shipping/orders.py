"""Orders."""

from __future__ import annotations

from decimal import Decimal

from shipping.fees import fee


def total(prices: list[Decimal]) -> Decimal:
    """What is to be paid, with the fee."""
    subtotal = sum(prices, Decimal(0))
    return subtotal + fee(subtotal)
