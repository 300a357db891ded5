"""Fees for sending."""

from __future__ import annotations

from decimal import Decimal

FREE_FROM = Decimal(50)
FEE = Decimal("4.90")


def fee(subtotal: Decimal) -> Decimal:
    """Nothing from 50 on."""
    return Decimal(0) if subtotal > FREE_FROM else FEE
