"""Postage by weight."""

from __future__ import annotations


def postage(kilograms: float) -> int:
    """Euros for a parcel; 31 kilograms are the limit."""
    price = 0
    if kilograms <= 2:
        price = 4
    elif kilograms <= 31:
        price = 9
    elif kilograms > 20:
        price = 15
    return price
