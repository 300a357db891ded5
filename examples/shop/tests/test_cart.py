"""Totals with every coupon."""

from __future__ import annotations

from decimal import Decimal

import pytest
from shop.cart import Cart


@pytest.fixture
def cart() -> Cart:
    """Three articles worth 100."""
    cart = Cart()
    cart.add("lamp", "40")
    cart.add("cable", "5", quantity=4)
    cart.add("desk", "40")
    return cart


@pytest.mark.parametrize(
    ("coupon", "expected"),
    [("none", "100.0"), ("FLAT5", "95.0"), ("BULK10", "90.0")],
    ids=["none", "flat5", "bulk"],
)
def test_total(cart: Cart, coupon: str, expected: str) -> None:
    """The coupon's share is taken off."""
    cart.coupon = coupon
    assert cart.total() == Decimal(expected)


def test_empty_cart_costs_nothing() -> None:
    """No items, no price."""
    assert Cart().total() == 0
