"""What a customer is about to buy."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field
from decimal import Decimal

from shop.pricing import rate


@dataclass
class Item:
    """Some pieces of one article."""

    name: str
    price: Decimal
    quantity: int = 1

    def subtotal(self) -> Decimal:
        """Price of all pieces."""
        return self.price * self.quantity


@dataclass
class Cart:
    """Items and at most one coupon."""

    items: list[Item] = field(default_factory=list)
    coupon: str = "none"

    def add(self, name: str, price: str, quantity: int = 1) -> None:
        """Put pieces of an article into the cart."""
        self.items.append(Item(name, Decimal(price), quantity))

    def total(self) -> Decimal:
        """What is to be paid, to ten cents."""
        full = sum((item.subtotal() for item in self.items), Decimal(0))
        return (full * (1 - rate(self.coupon))).quantize(Decimal("0.1"))
